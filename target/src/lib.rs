//! The Sluicegate daemon, as a library.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod control;
pub mod disks;
pub mod serve;
pub mod start;
pub mod sys;
