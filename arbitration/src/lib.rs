//! Stages S1 to S5 of a command's way: which class and session it belongs to, whether and when it
//! may go on, and how much a device may hold at once.
//!
//! Nothing here reads a clock, takes a lock on a command's way, or does I/O: commands and the
//! present time go in, decisions come out. The daemon, the benchmarks, the property tests and the
//! simulator build the same stages from the same settings.
#![forbid(unsafe_code)]

mod class;
pub mod credit;
pub mod limit;
pub mod overload;
pub mod reservation;
pub mod settings;
mod time;
pub mod window;

pub use class::{Class, PerClass};
pub use time::{Nanos, nanos};
