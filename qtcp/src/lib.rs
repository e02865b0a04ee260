//! Congestion control with classes (stage S6; docs/research/sources.md, E1 to E4, E7 to E9, E11, F5).
//!
//! Everything here but [`linux`] is pure: observations and the time go in, limits of rates come out.
//!
//! - [`observation`], [`rate`]: measurements, and their unit.
//! - [`quality`]: the quality factor of a flow.
//! - [`forecast`]: buffer space that will be free, for R2Ts.
//! - [`completions`]: what completions tell of a queue pair.
//! - [`device_limit`]: the limit that a queue pair's device keeps, where it can.
//! - [`link`]: the flows of several classes on one link, on top of the kernel's own controllers.
//! - [`class_split`]: the classes of one connection, each a flow on its link.
//! - [`pacing`]: the values of a connection that are shared by the thread that moves data and the
//!   thread that paces it.
//! - [`poller`]: what looks at all connections of a target, and sets their limits.
//! - [`linux`]: reports and settings of a Linux socket.
#![deny(unsafe_code)]

pub mod class_split;
pub mod completions;
pub mod device_limit;
pub mod forecast;
pub mod lately;
pub mod link;
pub mod linux;
pub mod observation;
pub mod pacing;
pub mod poller;
pub mod quality;
pub mod rate;

pub use observation::Observation;
pub use rate::Rate;
pub use units::Nanos;
