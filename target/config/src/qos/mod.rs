//! `[qos]`, `[[session]]`, `[[policy]]`, and the settings of a namespace that say how its device
//! is shared.

mod check;
pub mod device;
mod general;
mod limits;
mod lowest;
mod names;
mod policy;
mod profile;
mod session;
mod settings;
#[cfg(test)]
mod tests;
pub mod values;
mod window;

use super::TargetConfig;
use super::fields::Problems;
use super::subsystem::Subsystem;

pub(crate) use check::Known;
pub use check::{remove_dangling, wrong};
pub use device::{DeviceQos, Order};
pub use general::Qos;
pub(crate) use general::general;
pub use limits::Limits;
pub use limits::{LimitedSize, RateLimit};
pub use lowest::LowestRates;
pub use names::{ROOT, is_automatic, split_namespace};
pub use policy::Policy;
pub(crate) use policy::policy;
pub use profile::Profile;
pub(crate) use profile::profile;
pub use session::{Reserve, Session};
pub(crate) use session::{reserve, session};
pub use settings::QosConfig;
pub(crate) use settings::{Parsed, lines, parse};

/// Checks that the settings fit together and with the subsystems of the file.
pub(crate) fn finish(
    parsed: Parsed,
    subsystems: &[Subsystem],
    known: Known,
    target: &TargetConfig,
    problems: &Problems,
) -> QosConfig {
    let Parsed { general, sessions, profiles, policies } = parsed;
    check::across((&sessions, &profiles, &policies), subsystems, known, target, problems);
    QosConfig {
        general,
        sessions: sessions.into_iter().map(|parsed| parsed.session).collect(),
        profiles,
        policies: policies.into_iter().map(|parsed| parsed.policy).collect(),
    }
}
