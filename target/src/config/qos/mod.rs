//! `[qos]`, `[[session]]`, `[[policy]]`, and the settings of a namespace that say how its device
//! is shared.

mod check;
mod device;
mod general;
mod names;
mod policy;
mod render;
mod session;
mod settings;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod values;
mod window;

use super::fields::{Fields, Problems};
use super::lines::Lines;
use super::model::Subsystem;
use super::table;

pub(crate) use check::{Known, wrong};
pub(crate) use device::{device, device_model};
pub use general::Qos;
pub(crate) use general::general;
pub use names::{ROOT, split_namespace};
pub use policy::Policy;
pub(crate) use policy::{ParsedPolicy, policy};
pub(crate) use render::{device as render_device, model as render_model};
pub(crate) use session::{ParsedSession, reserve, session};
pub use session::{Reserve, Session};
pub use settings::QosConfig;

/// What is read before the subsystems are known.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    general: Qos,
    sessions: Vec<ParsedSession>,
    policies: Vec<ParsedPolicy>,
}

/// Takes the three tables out of the file.
pub(crate) fn parse(fields: &mut Fields<'_>) -> Parsed {
    let standard = Qos::default();
    let general = match fields.table("qos", "[qos]") {
        Some(table) => general(table, standard),
        None => standard,
    };
    let sessions = fields.tables("session", "[[session]]");
    let policies = fields.tables("policy", "[[policy]]");
    Parsed {
        general,
        sessions: sessions.into_iter().filter_map(|f| session(f, None)).collect(),
        policies: policies.into_iter().filter_map(policy).collect(),
    }
}

impl Parsed {
    /// Checks that all of it fits together and with the subsystems of the file.
    pub(crate) fn finish(
        self,
        subsystems: &[Subsystem],
        known: Known,
        problems: &Problems,
    ) -> QosConfig {
        check::across(&self.sessions, &self.policies, subsystems, known, problems);
        QosConfig {
            general: self.general,
            sessions: self.sessions.into_iter().map(|parsed| parsed.session).collect(),
            policies: self.policies.into_iter().map(|parsed| parsed.policy).collect(),
        }
    }
}

/// Writes `[qos]`, `[[session]]` and `[[policy]]` with their titles.
pub(crate) fn render_whole(lines: &mut Lines, qos: &QosConfig) {
    lines.title("[qos]");
    table::lines(lines, &qos.general);
    for session in &qos.sessions {
        lines.title("[[session]]");
        table::lines(lines, session);
    }
    for policy in &qos.policies {
        lines.title("[[policy]]");
        table::lines(lines, policy);
    }
}
