//! Stage S4 for devices that reward locality: deadlines, and containers that relax them
//! (docs/research/sources.md, I1 to I3).
//!
//! A disk is fastest when it continues near its head, and slowest when it moves between tenants for
//! the sake of each request's deadline. A tenant's user sees outputs, not requests. The requests
//! between two outputs are a *container*: if a container completes in time, nobody sees which of
//! its requests was late. [`DiskSet`] holds the waiting requests of one device and chooses the next
//! one. The caller reports the tenants' outputs as they occur ([`DiskSet::output`]).
//!
//! - [`Scheduler`]: with containers, or without them for comparison.
//! - [`Promise`], [`Need`]: the share of the device that streams need whose containers are to be in
//!   time.
//! - [`Predictor`]: the size of the container that is on its way, from those before it.

mod need;
mod order;
mod predictor;
mod set;
mod stream;
#[cfg(test)]
mod tests;

pub use need::{Need, Promise};
pub use predictor::Predictor;
pub use set::{DiskSet, Scheduler, SetRequest};
