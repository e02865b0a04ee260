//! One reactor with hosts of the protocol's own: what hosts, operators and metrics see of it.

mod aborts;
mod admin;
mod ends;
mod machine;
mod metrics;
mod network;
mod pressure;
mod rig;
mod slices;
