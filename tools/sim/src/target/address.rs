//! The addresses of hosts.

use std::net::{IpAddr, Ipv4Addr};

/// Returns the address of a host: each has one of its own.
pub(crate) fn address_of(host: usize) -> IpAddr {
    let number = u32::try_from(host % (1 << 24)).unwrap_or(0);
    Ipv4Addr::from_bits(10 << 24 | number).into()
}
