//! Data nodes with clients on simulated time: the same engines and monitor as anywhere else, on the
//! model of NICs of [`crate::in_process`].

mod client;
mod event;
mod record;
mod setup;
#[cfg(test)]
mod tests;
mod world;

pub use record::{PeriodRecord, Record};
pub use setup::{ClientSetup, Faults, Kind, Setup, Workload};
pub use world::{World, run, time_of_io};
