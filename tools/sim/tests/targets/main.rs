//! Tests of whole targets on modelled networks and devices.

mod common;
mod device_shares;
mod disks;
mod link_shares;
mod no_harm;
mod queue_pairs;
mod transports;
mod whole;
