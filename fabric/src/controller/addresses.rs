//! The addresses at which a host can reach a listener.
//!
//! A loopback address means another machine on each machine, a link-local address on each link. Only
//! hosts that came in the same way are shown one: by loopback, or by a link-local address of the same
//! interface.

use std::net::{IpAddr, SocketAddr};

use super::{ListenerSpec, TransportType};

/// The most addresses that a listener on all addresses has in the page of a host.
const ADDRESSES_MAX: usize = 16;

/// An address of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MachineAddress {
    /// The address.
    pub address: IpAddr,
    /// Index of the network interface of a link-local address; 0: not known, or not link-local.
    pub interface: u32,
    /// Whether an RDMA device has the interface.
    pub has_rdma: bool,
}

/// The machines for which an address is this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// This machine alone.
    Loopback,
    /// The machines on the link of an interface; 0: the interface is not known.
    Link(u32),
    /// All machines.
    Global,
}

impl From<SocketAddr> for MachineAddress {
    fn from(address: SocketAddr) -> Self {
        let interface = match address {
            SocketAddr::V4(_) => 0,
            SocketAddr::V6(address) => address.scope_id(),
        };
        Self { address: address.ip(), interface, has_rdma: false }
    }
}

impl MachineAddress {
    /// Returns the scope of the address. Without a known interface, uses the scope of the same
    /// address in `machine`.
    fn scope(self, machine: &[Self]) -> Scope {
        let is_link_local = match self.address {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        if self.address.is_loopback() {
            return Scope::Loopback;
        }
        if !is_link_local {
            return Scope::Global;
        }
        let known = || machine.iter().find(|known| known.address == self.address);
        match self.interface {
            0 => Scope::Link(known().map_or(0, |known| known.interface)),
            interface => Scope::Link(interface),
        }
    }
}

/// Returns the addresses at which a host can reach a listener. `machine` are the addresses of this
/// machine. `reached` is the address that the host connected to, and is listed first.
pub(super) fn reachable(
    listener: &ListenerSpec,
    machine: &[MachineAddress],
    reached: Option<SocketAddr>,
) -> Vec<SocketAddr> {
    let reached = reached.map(MachineAddress::from);
    let scope = reached.map_or(Scope::Global, |reached| reached.scope(machine));
    let is_rdma = listener.transport == TransportType::Rdma;
    let is_shown = |address: MachineAddress| {
        let of = address.scope(machine);
        of == Scope::Global || of == scope
    };
    let address = listener.advertise.unwrap_or(listener.address);
    let mut all = Vec::new();
    if address.ip().is_unspecified() {
        let serves = |known: &MachineAddress| {
            !is_rdma || machine.iter().any(|at| at.has_rdma && at.address == known.address)
        };
        let others = machine.iter().copied().filter(|&other| is_shown(other));
        let ips = reached.into_iter().chain(others).filter(serves).map(|known| known.address);
        for ip in ips.filter(|ip| ip.is_ipv4() == address.is_ipv4()) {
            if all.len() < ADDRESSES_MAX && !all.contains(&ip) {
                all.push(ip);
            }
        }
    } else if listener.advertise.is_some() || is_shown(address.into()) {
        all.push(address.ip());
    }
    all.into_iter().map(|ip| SocketAddr::new(ip, address.port())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::ListenerId;
    use super::super::tests::listener;
    use super::*;

    /// Returns the addresses of a machine with two interfaces, 2 and 3.
    fn machine() -> Vec<MachineAddress> {
        let of = |(address, interface): (&str, u32)| MachineAddress {
            address: address.parse().unwrap(),
            interface,
            has_rdma: address == "10.1.0.1",
        };
        let mut all: Vec<_> = [
            ("127.0.0.1", 0),
            ("::1", 0),
            ("10.0.0.1", 0),
            ("2001:db8::1", 0),
            ("fe80::a", 2),
            ("10.1.0.1", 0),
            ("169.254.7.7", 3),
            ("fe80::b", 3),
        ]
        .map(of)
        .into();
        all.sort_unstable();
        all
    }

    fn shown(address: &str, advertise: &str, reached: &str) -> Vec<String> {
        let spec = ListenerSpec {
            address: address.parse().unwrap(),
            advertise: (!advertise.is_empty()).then(|| advertise.parse().unwrap()),
            ..listener(ListenerId(1), false)
        };
        let all = reachable(&spec, &machine(), Some(reached.parse().unwrap()));
        all.iter().map(SocketAddr::to_string).collect()
    }

    #[test]
    fn rdma_wildcard_reports_addresses_of_rdma_devices() {
        let transport = TransportType::Rdma;
        let address = "0.0.0.0:1".parse().unwrap();
        let spec = ListenerSpec { address, transport, ..listener(ListenerId(1), false) };
        // The first host asks over TCP, at an interface without RDMA.
        for reached in ["10.0.0.1:9", "10.1.0.1:9"] {
            let shown = reachable(&spec, &machine(), Some(reached.parse().unwrap()));
            assert_eq!(shown, ["10.1.0.1:1".parse().unwrap()], "{reached}");
        }
    }

    #[test]
    fn wildcard_listener_reports_reachable_addresses() {
        let v4 = |first: &'static str| {
            let others = ["10.0.0.1:1", "10.1.0.1:1"].into_iter().filter(move |ip| *ip != first);
            std::iter::once(first).chain(others).collect::<Vec<_>>()
        };
        for (reached, v4, v6) in [
            ("10.0.0.1:9", v4("10.0.0.1:1"), vec!["[2001:db8::1]:1"]),
            ("10.1.0.1:9", v4("10.1.0.1:1"), vec!["[2001:db8::1]:1"]),
            // An address that no interface has, as behind a route of type local.
            ("10.9.0.1:9", v4("10.9.0.1:1"), vec!["[2001:db8::1]:1"]),
            ("127.0.0.1:9", v4("127.0.0.1:1"), vec!["[::1]:1", "[2001:db8::1]:1"]),
            ("[fe80::a%2]:9", v4("10.0.0.1:1"), vec!["[fe80::a]:1", "[2001:db8::1]:1"]),
            // RDMA tells no interface.
            ("[fe80::a]:9", v4("10.0.0.1:1"), vec!["[fe80::a]:1", "[2001:db8::1]:1"]),
            ("169.254.7.7:9", v4("169.254.7.7:1"), vec!["[2001:db8::1]:1", "[fe80::b]:1"]),
        ] {
            assert_eq!(shown("0.0.0.0:1", "", reached), v4, "{reached}");
            assert_eq!(shown("[::]:1", "", reached), v6, "{reached}");
            assert_eq!(shown("10.0.0.1:7", "0.0.0.0:1", reached), v4, "{reached}");
        }
    }

    #[test]
    fn local_listeners_are_shown_to_local_hosts() {
        for (address, reached, is_shown) in [
            ("127.0.0.1:1", "127.0.0.1:9", true),
            ("127.0.0.1:1", "[::1]:9", true),
            ("127.0.0.1:1", "10.0.0.1:9", false),
            ("[::1]:1", "[2001:db8::1]:9", false),
            ("[fe80::a%2]:1", "[fe80::a%2]:9", true),
            ("[fe80::a%2]:1", "[fe80::b%3]:9", false),
            ("[fe80::a%2]:1", "10.0.0.1:9", false),
            // The same address on two links is two machines to others.
            ("[fe80::a%3]:1", "[fe80::a%2]:9", false),
            ("169.254.7.7:1", "[fe80::b%3]:9", true),
            ("169.254.7.7:1", "127.0.0.1:9", false),
            ("10.7.0.1:1", "127.0.0.1:9", true),
        ] {
            let ip = address.split_once('%').map_or(address, |(ip, _)| ip);
            let all = shown(address, "", reached);
            assert_eq!(all.len(), usize::from(is_shown), "{address} by {reached}");
            assert!(all.iter().all(|one| one.starts_with(ip)), "{all:?}");
            assert!(all.iter().all(|one| !one.contains('%')), "of no use to a host: {all:?}");
            assert_eq!(shown(address, "127.0.0.1:5", reached), ["127.0.0.1:5"], "advertised");
        }
    }

    #[test]
    fn bounded_addresses_include_the_reached_one() {
        let of =
            |n: u8| MachineAddress { address: [10, 0, 0, n].into(), interface: 0, has_rdma: false };
        let machine: Vec<_> = (1..=200).map(of).collect();
        let spec = ListenerSpec { address: ([0; 4], 1).into(), ..listener(ListenerId(1), false) };
        let all = reachable(&spec, &machine, Some(([10, 0, 0, 200], 9).into()));
        assert_eq!((all.len(), all[0].to_string().as_str()), (ADDRESSES_MAX, "10.0.0.200:1"));
        assert!(reachable(&spec, &[], None).is_empty());
    }
}
