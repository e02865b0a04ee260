//! Stage S3: reservations (docs/research/sources.md, F1 to F3).
//!
//! A tenant reserves a budget for each period in its own [`Terms`]. The [`Broker`] translates it
//! into a share of the device, by the device's [`Profile`] (configured, or measured by a
//! [`Profiler`]), and admits or refuses it. Admitted terms run as [`Reserved`]: while budget is
//! left in a period, the tenant's commands are due and go ahead of others.

mod average;
mod broker;
mod cause;
mod ceiling;
mod demand;
mod load;
mod profile;
mod profiler;
mod promise;
mod record;
mod refusal;
mod reserved;
mod schedule;
mod shape;
mod size_cost;
mod tally;
mod terms;
mod usage;
mod utilisation;
mod verdict;

#[cfg(test)]
mod tests;

pub use broker::{Admitted, Broker, Translation};
pub use cause::Cause;
pub(crate) use ceiling::Ceiling;
pub use ceiling::QueueBound;
pub(crate) use load::SetLoad;
pub use profile::{Overrides, PerKib, Profile, ServiceTime};
pub use profiler::{Occupancy, Probe, Profiler};
pub use refusal::{Refusal, Shortage};
pub use reserved::{Charge, Reserved};
pub(crate) use schedule::{Account, Schedule};
#[cfg(all(test, feature = "interleavings"))]
pub(crate) use tally::Tally;
pub use terms::{Budget, LONGEST_PERIOD, Locality, SHORTEST_PERIOD, Terms};
pub(crate) use usage::Use;
pub use utilisation::Utilisation;
pub use verdict::{Miss, Missed};
