//! Hosts and policies with source addresses.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};

use super::client::{HOST, NQN, connect_data, identity, io};
use super::qos_memory::start;
use super::{eventually, host_log, memory, target};
use arbitration::Class;
use fabric::controller::RefusalKind;
use fabric::fabrics::DISCOVERY_NQN;
use fabric::host::commands::log_page;
use fabric::nvme::{SglDescriptor, Status, opcode};
use hostile::{Identity, Raw, Way, commands};
use sluice_config::{AllowedHost, Policy, QosConfig, Sources};
use sluiced::serve::engine::{Engine, Loss};

const HOME: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);
const ELSEWHERE: Ipv4Addr = Ipv4Addr::LOCALHOST;

fn sources(networks: &[&str]) -> Sources {
    networks.iter().map(|text| text.parse::<ipnet::IpNet>().unwrap()).collect()
}

/// Connects an admin queue. Returns the status where the target refuses.
fn connect(from: Ipv4Addr, to: SocketAddr) -> Result<(Raw, u16), u16> {
    let way = Way { from: Some(from), to };
    Raw::connect_with(way, &commands::connect(0), &connect_data(0xffff)).unwrap()
}

/// Returns the number of entries of the discovery log page that a host reads.
fn discovered(from: Ipv4Addr, to: SocketAddr) -> u64 {
    let way = Way { from: Some(from), to };
    let host = Identity { subsystem: DISCOVERY_NQN.to_owned(), ..identity() };
    let (mut admin, _) = Raw::controller(way, &host).unwrap();
    admin.send(&log_page(0x70, 0, 1024), SglDescriptor::transport(1024), &[]).unwrap();
    let reply = admin.receive().unwrap();
    // NUMREC, bytes 15:8 of the page, which follows the 24 bytes of the header.
    u64::from_le_bytes(reply.rest[24..32].try_into().unwrap())
}

#[test]
fn a_host_connects_from_its_addresses_only_and_is_disconnected_where_they_change() {
    const WHY: &str = "the host may not come from this address";
    assert!(host_log::lines(WHY).is_empty());
    let (runtime, address) = target(vec![memory()], 1);
    let home = AllowedHost { sources: sources(&["127.0.0.64/26"]), ..HOST.into() };
    runtime.add_host(NQN, &home).unwrap();
    for any in [true, false] {
        runtime.set_allow_any_host(NQN, any).unwrap();
        let refused = connect(ELSEWHERE, address).err();
        assert_eq!(refused, Some(Status::CONNECT_INVALID_HOST.dnr().bits()), "any host: {any}");
        assert!(connect(HOME, address).is_ok(), "any host: {any}");
        assert_eq!((discovered(HOME, address), discovered(ELSEWHERE, address)), (2, 1));
    }
    let counts = runtime.statistics().connects_refused;
    let refused = counts.iter().filter(|(_, count)| *count > 0);
    assert_eq!(refused.copied().collect::<Vec<_>>(), [(RefusalKind::Address, 2)]);
    let lines = host_log::lines(WHY);
    assert!(lines.iter().any(|line| line.contains("sluice host list")), "{lines:?}");
    // The host is connected from home when its addresses change.
    let (mut admin, _) =
        Raw::controller(Way { from: Some(HOME), to: address }, &identity()).unwrap();
    let moved = AllowedHost { sources: sources(&["127.0.0.1/32"]), ..HOST.into() };
    let loss = Loss::Access { nqn: NQN, any: true, hosts: std::slice::from_ref(&moved) };
    assert_eq!(runtime.hosts_hurt(&loss).connected, [HOST]);
    runtime.set_host(NQN, &moved).unwrap();
    assert_eq!(admin.0.read(&mut [0]).unwrap(), 0, "its connection ends");
    assert!(connect(HOME, address).is_err() && connect(ELSEWHERE, address).is_ok());
}

#[test]
fn a_policy_with_addresses_is_for_connections_from_there() {
    let policy = |networks: &[&str], class| Policy {
        addresses: sources(networks),
        class: Some(class),
        ..Policy::default()
    };
    let policies = vec![
        policy(&[], Class::Medium),
        policy(&["127.0.0.64/26"], Class::Urgent),
        policy(&["127.0.0.66/32", "2001:db8::/32"], Class::High),
    ];
    let config = QosConfig { policies, ..QosConfig::default() };
    let (runtime, address) = start(vec![memory()], 1, config);
    let read = |from: Ipv4Addr, count: u64| {
        let way = Way { from: Some(from), to: address };
        let (_admin, id) = Raw::controller(way, &identity()).unwrap();
        let (mut queue, _) = Raw::connect(way, &identity(), 1, id).unwrap();
        for _ in 0..count {
            queue.send(&io(opcode::io::READ, 0, 1), SglDescriptor::transport(4096), &[]).unwrap();
            // C2HData, which stands for the response too.
            assert_eq!(queue.receive().unwrap().kind, 7);
        }
    };
    for (from, class, count) in [
        (ELSEWHERE, Class::Medium, 2),
        (HOME, Class::High, 3),
        (Ipv4Addr::new(127, 0, 0, 67), Class::Urgent, 4),
    ] {
        read(from, count);
        eventually(class.name(), || runtime.qos().classes[class].io.read.ops == count);
    }
    assert_eq!(runtime.qos().classes[Class::Low].io.read.ops, 0);
}
