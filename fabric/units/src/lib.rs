//! Types that several of the libraries must agree on.
//!
//! - [`Nanos`]: a point in time, as an argument, never a clock.
//! - [`Class`], [`PerClass`]: the classes of quality of service, their numbers, and one value for
//!   each of them.
//! - [`Calendar`]: pending events, ordered by time.
//! - [`Average`], [`follow`]: means in which the latest samples count most.
//! - [`named!`]: enums whose variants have names.
//! - [`QueueWeights`]: the weights by which a host orders its own queues.
#![forbid(unsafe_code)]

mod average;
mod calendar;
mod class;
mod named;
mod time;
mod weights;

pub use average::{Average, follow, weight_of, within};
pub use calendar::Calendar;
pub use class::{Class, PerClass};
pub use time::{Nanos, nanos};
pub use weights::QueueWeights;
