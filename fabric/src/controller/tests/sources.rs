//! Tests of hosts that may connect from certain addresses only.

use std::net::IpAddr;

use super::*;
use crate::controller::{AllowedHost, CloseReason};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

const HOME: &str = "192.0.2.7";
const ELSEWHERE: &str = "198.51.100.9";

fn bound(host: &str, networks: &[&str]) -> AllowedHost {
    let sources = networks.iter().map(|text| text.parse::<ipnet::IpNet>().unwrap()).collect();
    AllowedHost { sources, ..host.into() }
}

impl Bench {
    /// Returns the number of entries of a discovery controller's log page.
    fn seen(&mut self, id: ConnectionId) -> u64 {
        self.ok(id, &log(0x70, 1024, 0, false));
        u64::from_le_bytes(self.out[8..16].try_into().unwrap())
    }
}

#[test]
fn host_is_refused_from_foreign_addresses() {
    let mut bench = Bench::new();
    bench.service.set_host(bench.now, SUBSYSTEM, bound(HOST, &["192.0.2.0/24"])).unwrap();
    let connect = Connect::admin(SUBSYSTEM);
    for (address, refused) in [
        (HOME, None),
        ("::ffff:192.0.2.8", None),
        (ELSEWHERE, Some(Refusal::AddressNotAllowed)),
        ("2001:db8::1", Some(Refusal::AddressNotAllowed)),
    ] {
        let (_, answer) = bench.connect_from(ip(address), &connect);
        assert_eq!(answer.err().map(|rejected| rejected.reason), refused, "{address}");
    }
    let (_, unknown) = connect.send(&mut bench);
    let (_, stranger) =
        bench.connect_from(ip(HOME), &connect.clone().host("nqn.2026-01.io.x:other"));
    let (address, name) = (unknown.unwrap_err(), stranger.unwrap_err());
    assert_eq!(address.reason, Refusal::AddressNotAllowed, "an address that is not known");
    assert_eq!(name.reason, Refusal::HostNotAllowed);
    assert_eq!((address.status, address.result), (name.status, name.result), "a host sees no more");
}

#[test]
fn io_queue_address_is_checked() {
    let mut bench = Bench::new();
    bench.service.set_host(bench.now, SUBSYSTEM, bound(HOST, &[HOME_NETWORK])).unwrap();
    let (admin, connected) = bench.connect_from(ip(HOME), &Connect::admin(SUBSYSTEM));
    let id = connected.unwrap().controller.0;
    bench.set_cc(admin, ENABLE);
    let queue = Connect::new(SUBSYSTEM, 1, id);
    let (_, answer) = bench.connect_from(ip(ELSEWHERE), &queue);
    assert_eq!(answer.unwrap_err().reason, Refusal::AddressNotAllowed);
    assert!(bench.connect_from(ip(HOME), &queue).1.is_ok());
}

const HOME_NETWORK: &str = "192.0.2.0/28";

#[test]
fn controller_ends_if_a_connection_loses_access() {
    let mut bench = Bench::new();
    let (admin, connected) = bench.connect_from(ip(HOME), &Connect::admin(SUBSYSTEM));
    let id = connected.unwrap().controller;
    bench.set_cc(admin, ENABLE);
    let (queue, _) = bench.connect_from(ip(ELSEWHERE), &Connect::new(SUBSYSTEM, 1, id.0));
    let both = bound(HOST, &["192.0.2.7/32", "198.51.100.0/24"]);
    assert_eq!(bench.service.refused_by(SUBSYSTEM, false, std::slice::from_ref(&both)), []);
    bench.service.set_host(bench.now, SUBSYSTEM, both).unwrap();
    assert_eq!(bench.actions(), []);
    let one = bound(HOST, &["192.0.2.7/32"]);
    assert_eq!(bench.service.refused_by(SUBSYSTEM, true, std::slice::from_ref(&one)), [id]);
    bench.service.set_host(bench.now, SUBSYSTEM, one).unwrap();
    let reason = CloseReason::HostRemoved;
    assert_eq!(bench.actions(), [close(queue, reason), close(admin, reason)]);
}

#[test]
fn listed_addresses_restrict_host_beside_any_host() {
    let mut bench = Bench::new();
    let stranger = "nqn.2026-01.io.x:other";
    let connect = |host| Connect::admin(OTHER).host(host);
    let (admin, _) = bench.connect_from(ip(ELSEWHERE), &connect(stranger));
    bench.service.add_host(bench.now, OTHER, bound(stranger, &[HOME_NETWORK])).unwrap();
    assert_eq!(bench.actions(), [close(admin, CloseReason::HostRemoved)]);
    let (_, answer) = bench.connect_from(ip(ELSEWHERE), &connect(stranger));
    assert_eq!(answer.unwrap_err().reason, Refusal::AddressNotAllowed);
    assert!(bench.connect_from(ip(HOME), &connect(stranger)).1.is_ok());
    assert!(bench.connect_from(ip(ELSEWHERE), &connect("nqn.2026-01.io.x:third")).1.is_ok());
    bench.service.remove_host(bench.now, OTHER, stranger).unwrap();
    assert!(bench.connect_from(ip(ELSEWHERE), &connect(stranger)).1.is_ok(), "as any other host");
}

#[test]
fn discovery_considers_the_host_address() {
    let mut bench = Bench::new();
    let discover = Connect::admin(DISCOVERY_NQN).host(HOST);
    let connect = |bench: &mut Bench, address| {
        let (id, connected) = bench.connect_from(ip(address), &discover);
        assert!(connected.is_ok());
        bench.set_cc(id, ENABLE);
        bench.listen(id, DISCOVERY_EVENTS);
        id
    };
    let (home, elsewhere) = (connect(&mut bench, HOME), connect(&mut bench, ELSEWHERE));
    let (all, less) = (bench.seen(home), bench.seen(home) - 1);
    assert_eq!(bench.seen(elsewhere), all);
    let before = bench.service.generation();
    bench.service.set_host(bench.now, SUBSYSTEM, bound(HOST, &[HOME_NETWORK])).unwrap();
    assert_eq!(
        bench.take_completions(),
        [(elsewhere, DISCOVERY_CHANGED)],
        "no change for the other"
    );
    assert!(bench.service.generation() > before);
    assert_eq!((bench.seen(home), bench.seen(elsewhere)), (all, less));
    bench.service.set_host(bench.now, SUBSYSTEM, AllowedHost::from(HOST)).unwrap();
    assert_eq!((bench.seen(home), bench.seen(elsewhere)), (all, all));
}
