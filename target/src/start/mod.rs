//! From the command line to a running target, and its end: arguments, checks before the start, the log,
//! signals, and the runtime, which owns the threads and all parts.

pub mod cli;
pub mod container;
pub mod descriptors;
pub mod log;
pub mod preflight;
pub mod runtime;
pub mod signals;
