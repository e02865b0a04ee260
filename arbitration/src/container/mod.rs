//! Stage S4 for devices that reward locality: deadlines, and containers that relax them
//! (docs/research/sources.md, I1 to I3).
//!
//! A disk does most where it goes on with what is near its head, and least where it runs between
//! tenants for the sake of each request's deadline. A tenant's user sees outputs, not requests. The
//! requests between two outputs are a *container*: as long as a container is done in time, nobody
//! sees which of its requests came late. [`DiskSet`] holds what waits for one device and says what
//! comes next; the caller tells it of the tenants' outputs as they come ([`DiskSet::output`]).
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
