//! The identity of a listener: its transport and address.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use crate::keys::RDMA_BEFORE;
use fabric::controller::SecureChannel;

use super::address::{ListenAddress, NoAddress};
use super::node::Node;
use super::qos::values::word;
use super::table::words;
use super::values::{Read, parsed_address};

/// A listener's transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// NVMe/TCP.
    #[default]
    Tcp,
    /// NVMe/RDMA.
    Rdma,
}

/// The transport and the address of a listener, which no other listener has: each transport has ports
/// of its own.
///
/// As text it is the address, with `rdma:` before it where the transport is RDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// The transport.
    pub transport: Transport,
    /// The address.
    pub address: ListenAddress,
}

/// The names of transports.
pub(crate) const TRANSPORTS: [(&str, Transport); 2] =
    [("tcp", Transport::Tcp), ("rdma", Transport::Rdma)];

/// The values of `tls`.
pub(crate) const CHANNELS: [(&str, SecureChannel); 3] = [
    ("off", SecureChannel::Off),
    ("allowed", SecureChannel::Allowed),
    ("required", SecureChannel::Required),
];

impl Transport {
    /// Returns the transport's name in configurations and answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        word(&TRANSPORTS, &self)
    }
}

impl Endpoint {
    /// Returns the endpoint of NVMe/TCP at an address.
    #[must_use]
    pub fn tcp(address: SocketAddr) -> Self {
        Self { transport: Transport::Tcp, address: address.into() }
    }

    /// Returns whether two listeners cannot both be open: they have the same transport, port and address family,
    /// and the same address or one of them the wildcard address.
    #[must_use]
    pub fn collides_with(self, other: Self) -> bool {
        let (a, b) = (self.address, other.address);
        self.transport == other.transport
            && a.port() == b.port()
            && a.ip().is_ipv4() == b.ip().is_ipv4()
            && (a == b || a.ip().is_unspecified() || b.ip().is_unspecified())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.transport {
            Transport::Tcp => write!(f, "{}", self.address),
            Transport::Rdma => write!(f, "{RDMA_BEFORE}{}", self.address),
        }
    }
}

impl FromStr for Endpoint {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        let (transport, address) = match text.strip_prefix(RDMA_BEFORE) {
            Some(address) => (Transport::Rdma, address),
            None => (Transport::Tcp, text),
        };
        Ok(Self { transport, address: address.parse()? })
    }
}

words! {
    SecureChannel: CHANNELS;
    Transport: TRANSPORTS;
}

/// Reads the name of a listener.
pub fn name(node: &Node) -> Read<Endpoint> {
    let example = "a listener's address in quotes: \"0.0.0.0:4420\", or \"rdma:0.0.0.0:4420\"";
    parsed_address(node, example, |endpoint: &Endpoint| endpoint.address.port())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_name_is_read_back(
            address in any::<SocketAddr>(),
            interface in proptest::option::of("[a-z][a-z0-9.]{0,14}"),
            rdma in any::<bool>(),
        ) {
            let transport = if rdma { Transport::Rdma } else { Transport::Tcp };
            let plain = ListenAddress::from(address);
            let address = interface.and_then(|name| plain.on(&name)).unwrap_or(plain);
            let endpoint = Endpoint { transport, address };
            prop_assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
        }
    }

    #[test]
    fn transports_and_interfaces_have_ports_of_their_own() {
        for (a, b, collide) in [
            ("0.0.0.0:4420", "10.0.0.1:4420", true),
            ("rdma:0.0.0.0:4420", "rdma:10.0.0.1:4420", true),
            ("rdma:0.0.0.0:4420", "10.0.0.1:4420", false),
            ("rdma:10.0.0.1:4420", "rdma:10.0.0.1:4421", false),
            ("rdma:[::]:4420", "rdma:10.0.0.1:4420", false),
            // IPv6 alone.
            ("[::]:4420", "0.0.0.0:4420", false),
            ("[fe80::1%eth0]:4420", "[fe80::1%eth0]:4420", true),
            ("[fe80::1%eth0]:4420", "[::]:4420", true),
            ("[fe80::1%eth0]:4420", "[fe80::1%eth1]:4420", false),
            ("[fe80::1%eth0]:4420", "rdma:[fe80::1%eth0]:4420", false),
        ] {
            let [one, other] = [a, b].map(|text| text.parse::<Endpoint>().unwrap());
            assert_eq!(one.collides_with(other), collide, "{a} {b}");
        }
    }
}
