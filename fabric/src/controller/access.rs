//! The hosts that may connect to a subsystem, with their rights. A host is matched by its NQN,
//! which is trusted, and by its address.

use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

use super::Refusal;
use super::rights::HostRights;

/// The networks that a peer may come from; none: any address. An IPv4 address that is mapped into
/// IPv6 counts as the IPv4 address.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sources(Vec<IpNet>);

impl Sources {
    /// Returns whether any address is among them.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the networks, each once, in their order.
    #[must_use]
    pub fn networks(&self) -> &[IpNet] {
        &self.0
    }

    /// Returns whether a peer at `address` may come; `None`: the address is not known, and only who
    /// may come from anywhere may come.
    #[must_use]
    pub fn admit(&self, address: Option<IpAddr>) -> bool {
        self.is_any() || address.is_some_and(|address| self.prefix(address).is_some())
    }

    /// Returns the addresses that are among both; `None`: there are none.
    #[must_use]
    pub fn common(&self, other: &Self) -> Option<Self> {
        match (self.is_any(), other.is_any()) {
            (true, _) => return Some(other.clone()),
            (_, true) => return Some(self.clone()),
            _ => {}
        }
        // Of two networks that overlap, one contains the other.
        let inside = |a: &Self, b: &Self| -> Vec<IpNet> {
            a.0.iter().filter(|a| b.0.iter().any(|b| b.contains(*a))).copied().collect()
        };
        let both = inside(self, other).into_iter().chain(inside(other, self));
        Some(both.collect::<Self>()).filter(|common| !common.is_any())
    }

    /// Returns the prefix length of the smallest network that `address` is in.
    #[must_use]
    pub fn prefix(&self, address: IpAddr) -> Option<u8> {
        let address = address.to_canonical();
        let around = self.0.iter().filter(|network| network.contains(&address));
        around.map(IpNet::prefix_len).max()
    }
}

/// Writes a network in the form that addresses are compared in: without bits beyond its prefix, and
/// a network of mapped IPv4 addresses as the IPv4 network.
fn canonical(network: IpNet) -> IpNet {
    /// The length of the prefix that all mapped addresses have: `::ffff:0:0/96`.
    const MAPPED: u8 = 96;
    let mapped = |network: IpNet| match network {
        IpNet::V6(network) => {
            let address = network.addr().to_ipv4_mapped()?;
            Ipv4Net::new(address, network.prefix_len().checked_sub(MAPPED)?).ok()
        }
        IpNet::V4(_) => None,
    };
    mapped(network).map_or(network, IpNet::V4).trunc()
}

impl FromIterator<IpNet> for Sources {
    fn from_iter<T: IntoIterator<Item = IpNet>>(networks: T) -> Self {
        let mut networks: Vec<IpNet> = networks.into_iter().map(canonical).collect();
        networks.sort_unstable();
        networks.dedup();
        Self(networks)
    }
}

/// Writes the networks with commas between them; a network of one address as the address.
impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, network) in self.texts().enumerate() {
            write!(f, "{}{network}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl Sources {
    /// Writes each network; one of a single address as the address.
    pub fn texts(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|network| match network.prefix_len() == network.max_prefix_len() {
            true => network.addr().to_string(),
            false => network.to_string(),
        })
    }
}

/// A host that may connect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedHost {
    /// The host's NQN.
    pub nqn: String,
    /// The addresses that the host may come from.
    pub sources: Sources,
    /// The rights of the host.
    pub rights: HostRights,
}

impl AllowedHost {
    /// Returns whether nothing but the host's name was set.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.sources.is_any() && self.rights.are_all()
    }

    /// Returns this host with the intersection of both entries' rights. If no address is in both,
    /// the host keeps the addresses of this entry, and sees no namespaces.
    #[must_use]
    pub fn common(&self, other: &Self) -> Self {
        let mut rights = self.rights.common(&other.rights);
        let sources = self.sources.common(&other.sources).unwrap_or_else(|| {
            rights.namespaces = Some(BTreeSet::new());
            self.sources.clone()
        });
        Self { nqn: self.nqn.clone(), sources, rights }
    }
}

/// Creates a host with all rights, from any address.
impl<T: Into<String>> From<T> for AllowedHost {
    fn from(nqn: T) -> Self {
        Self { nqn: nqn.into(), ..Self::default() }
    }
}

/// Returns why a host may not connect from `address` to a subsystem with these hosts; `None` if it
/// may. If `any` host may connect, a host that is listed with addresses may connect from these
/// alone.
pub(super) fn refusal(
    any: bool,
    hosts: &[AllowedHost],
    host: &str,
    address: Option<IpAddr>,
) -> Option<Refusal> {
    match hosts.iter().find(|known| known.nqn == host) {
        Some(known) if known.sources.admit(address) => None,
        Some(_) => Some(Refusal::AddressNotAllowed),
        None if any => None,
        None => Some(Refusal::HostNotAllowed),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use ipnet::Ipv6Net;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn networks_are_written_as_they_are_compared() {
        let texts =
            ["10.1.2.3/8", "2001:db8::1/128", "::ffff:192.0.2.7/128", "192.0.2.7/32", "10.0.0.0/8"];
        let sources: Sources = texts.iter().map(|text| text.parse::<IpNet>().unwrap()).collect();
        assert_eq!(sources.to_string(), "10.0.0.0/8, 192.0.2.7, 2001:db8::1");
        assert_eq!(Sources::default().to_string(), "");
    }

    fn address() -> impl Strategy<Value = IpAddr> {
        let v4 = any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits)));
        let v6 = any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits)));
        let mapped =
            any::<u32>().prop_map(|bits| IpAddr::V6(Ipv4Addr::from_bits(bits).to_ipv6_mapped()));
        prop_oneof![v4, v6, mapped]
    }

    /// Networks around an address, and others that are near it.
    fn network(around: IpAddr) -> impl Strategy<Value = IpNet> {
        let flip = |address: IpAddr, bit: u32| match address {
            IpAddr::V4(v4) => IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() ^ 1 << (bit % 32))),
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() ^ 1 << (bit % 128))),
        };
        (any::<u32>(), 0u8..=128, any::<bool>()).prop_map(move |(bit, length, near)| {
            let address = if near { flip(around, bit) } else { around };
            match address {
                IpAddr::V4(v4) => IpNet::V4(Ipv4Net::new(v4, length % 33).unwrap()),
                IpAddr::V6(v6) => IpNet::V6(Ipv6Net::new(v6, length).unwrap()),
            }
        })
    }

    /// Returns the prefix length of a network that contains an address, compared bit by bit, with IPv4-mapped ones as
    /// IPv4.
    fn is_in(network: &IpNet, address: IpAddr) -> Option<u8> {
        let same = |a: u128, b: u128, width: u32, length: u8| {
            length == 0 || (a ^ b) >> (width - u32::from(length)) == 0
        };
        let (net, length) = match network {
            IpNet::V4(net) => (IpAddr::V4(net.addr()), net.prefix_len()),
            IpNet::V6(net) => match (net.addr().to_ipv4_mapped(), net.prefix_len()) {
                (Some(v4), 96..) => (IpAddr::V4(v4), net.prefix_len() - 96),
                (_, length) => (IpAddr::V6(net.addr()), length),
            },
        };
        let inside = match (net, address.to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                same(a.to_bits().into(), b.to_bits().into(), 32, length)
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128, length),
            _ => false,
        };
        inside.then_some(length)
    }

    proptest! {
        #[test]
        fn address_is_admitted_by_its_networks(
            (address, networks) in address().prop_flat_map(|address| {
                (Just(address), proptest::collection::vec(network(address), 1..4))
            }),
        ) {
            let sources: Sources = networks.iter().copied().collect();
            let expected = networks.iter().filter_map(|network| is_in(network, address)).max();
            prop_assert_eq!(sources.prefix(address), expected);
            prop_assert_eq!(sources.admit(Some(address)), expected.is_some());
            let again: Sources = sources.networks().iter().copied().collect();
            prop_assert_eq!(again, sources);
        }

        #[test]
        fn common_addresses_are_admitted_by_both(
            (address, [a, b]) in address().prop_flat_map(|address| {
                let networks = || proptest::collection::vec(network(address), 0..4);
                (Just(address), [networks(), networks()])
            }),
        ) {
            let [a, b]: [Sources; 2] = [a, b].map(|networks| networks.into_iter().collect());
            let both = a.admit(Some(address)) && b.admit(Some(address));
            let common = a.common(&b);
            prop_assert_eq!(common.is_some_and(|common| common.admit(Some(address))), both);
        }
    }
}
