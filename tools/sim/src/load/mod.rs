//! Sources of load: the accesses of hosts and their times.
//!
//! - [`Open`]: accesses at times of their own, independent of completions: at equal distances, Poisson, in bursts, or
//!   on and off. [`Closed`]: so many outstanding at a time.
//! - [`Trace`]: the accesses of a block trace, from a file.
//! - [`Until`]: one of these up to a time.
//! - [`Shape`]: the kinds, sizes and places of the accesses of the first two.

mod closed;
mod open;
mod shape;
mod trace;
mod until;

use std::fmt::Debug;

use units::Nanos;

pub use closed::Closed;
pub use open::{Open, Process};
pub use shape::{Places, Shape, ShapeError, Size};
pub use trace::{Fault, Format, Trace, TraceError, TraceSetup};
pub use until::Until;

/// A read or a write that a source wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Whether it writes.
    pub write: bool,
    /// Its place in the namespace, in bytes.
    pub offset: u64,
    /// Its length, in bytes.
    pub length: u32,
}

/// The next access of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// An access at a time.
    At(Nanos, Access),
    /// An access as soon as another one of the source ends.
    WhenOneEnds(Access),
    /// Nothing any more.
    Never,
}

/// A source of load. Open-loop sources say when the next access comes; closed-loop ones ask for one
/// when one ends.
pub trait Source: Debug {
    /// Returns the source's next access.
    fn next(&mut self, now: Nanos) -> Arrival;
}
