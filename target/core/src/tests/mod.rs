//! One reactor with hosts of the protocol's own: what hosts, operators and metrics see of it.

mod aborts;
mod admin;
mod arrivals;
mod demand;
mod descriptors;
mod ends;
mod leaks;
mod limits;
mod metrics;
mod network;
mod parts;
mod pressure;
mod resent;
mod rig;
mod rights;
mod slices;
mod timed;
mod traces;
mod turns;
mod weights;
