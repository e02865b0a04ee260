//! The Sluicegate daemon, as a library.

pub mod control;
pub mod disks;
pub mod serve;
pub mod start;
pub mod sys;
