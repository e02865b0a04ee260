//! Tests of the room for connections: some hosts use up their room, and others find a place.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;

use super::*;

const QUEUES: u16 = 4;

fn config() -> ServiceConfig {
    ServiceConfig {
        max_queues: QUEUES,
        max_connections: 40,
        max_address_connections: 20,
        max_discovery: 8,
        max_waiting: 10,
        ..ServiceConfig::default()
    }
}

fn address(host: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, host).into()
}

/// Connects from an address, as the daemon does.
fn connect(bench: &mut Bench, from: u8, connect: &Connect) -> (ConnectionId, Option<u16>) {
    let (id, connected) = bench.connect_from(address(from), connect);
    (id, connected.ok().map(|connected| connected.controller.0))
}

fn refusal(bench: &mut Bench, from: u8, connect: &Connect) -> Rejected {
    bench.connect_from(address(from), connect).1.unwrap_err()
}

/// Connects and enables an I/O controller that is granted as many queues as there may be.
fn controller(bench: &mut Bench, from: u8) -> Option<(ConnectionId, u16, u16)> {
    let (admin, id) = connect(bench, from, &Connect::admin(OTHER));
    let id = id?;
    bench.set_cc(admin, ENABLE);
    let granted = bench.ok(admin, &set_feature(7, 0x003f_003f));
    Some((admin, id, u16::try_from(granted & 0xffff).unwrap() + 1))
}

fn wait(bench: &mut Bench, from: u8) -> (ConnectionId, Option<ConnectionId>) {
    bench.connections += 1;
    let id = ConnectionId(bench.connections);
    (id, bench.service.accepted(id, address(from)))
}

#[test]
fn discovery_controllers_leave_room_for_others() {
    let mut bench = Bench::with(config());
    let discovery = Connect::admin(DISCOVERY_NQN);
    let of_one: Vec<_> = (0..1000).filter_map(|_| connect(&mut bench, 1, &discovery).1).collect();
    assert_eq!(of_one.len(), 2, "a quarter of max_discovery");
    let refused = refusal(&mut bench, 1, &discovery);
    assert_eq!(refused.reason, Refusal::TooManyOfAddress);
    assert_eq!(refused.status, Status::CONNECT_CONTROLLER_BUSY, "a host comes back later");
    for from in 2..=4 {
        assert!(connect(&mut bench, from, &discovery).1.is_some());
        assert!(connect(&mut bench, from, &discovery).1.is_some());
    }
    assert_eq!(refusal(&mut bench, 9, &discovery).reason, Refusal::TooManyDiscovery);
    let (_, id, granted) = controller(&mut bench, 1).unwrap();
    assert_eq!(granted, QUEUES);
    for qid in 1..=granted {
        assert!(connect(&mut bench, 1, &Connect::new(OTHER, qid, id)).1.is_some());
    }
}

#[test]
fn a_discovery_controllers_keep_alive_time_is_bounded() {
    let mut bench = Bench::new();
    let connect = |kato| Connect::admin(DISCOVERY_NQN).kato(kato);
    for longer in [300_001, u32::MAX] {
        let refused = refusal(&mut bench, 1, &connect(longer));
        assert_eq!(refused.reason, Refusal::KeepAliveTime);
        assert_eq!(refused.status, Status::KEEP_ALIVE_INVALID.dnr());
    }
    let (admin, id) = super::room::connect(&mut bench, 1, &connect(300_000));
    assert!(id.is_some());
    bench.set_cc(admin, ENABLE);
    bench.fails(admin, &set_feature(0x0f, 300_001), Status::KEEP_ALIVE_INVALID);
    // The host of an I/O controller is known, and may ask for any keep-alive time.
    let (admin, _) = bench.admin_queue(u32::MAX);
    bench.ok(admin, &set_feature(0x0f, u32::MAX));
}

#[test]
fn an_address_has_its_part_and_others_find_theirs() {
    let mut bench = Bench::with(ServiceConfig { max_connections: 38, ..config() });
    let mut granted = Vec::new();
    while let Some((.., queues)) = controller(&mut bench, 1) {
        granted.push(queues);
    }
    assert_eq!(granted, [4, 4, 4, 4], "four controllers of one admin and four I/O queues");
    assert_eq!(refusal(&mut bench, 1, &Connect::admin(OTHER)).reason, Refusal::TooManyOfAddress);
    for from in 2..=4 {
        assert_eq!(controller(&mut bench, from).unwrap().2, QUEUES);
    }
    assert_eq!(controller(&mut bench, 5).unwrap().2, 2, "what is left");
    let full = refusal(&mut bench, 6, &Connect::admin(OTHER));
    assert_eq!(full.reason, Refusal::TooManyConnections);
    assert_eq!(full.status, Status::CONNECT_CONTROLLER_BUSY);
}

#[test]
fn host_without_queue_count_keeps_its_part() {
    let mut bench = Bench::with(ServiceConfig { max_address_connections: 18, ..config() });
    let mut queues = Vec::new();
    while let (admin, Some(id)) = connect(&mut bench, 1, &Connect::admin(OTHER)) {
        bench.set_cc(admin, ENABLE);
        let mut of_one = 0;
        while of_one < QUEUES {
            let queue = Connect::new(OTHER, of_one + 1, id);
            if connect(&mut bench, 1, &queue).1.is_none() {
                assert_eq!(refusal(&mut bench, 1, &queue).reason, Refusal::TooManyOfAddress);
                break;
            }
            of_one += 1;
        }
        queues.push(of_one);
    }
    assert_eq!(queues, [4, 4, 4, 2], "and four admin queues: 18 connections");
    assert_eq!(controller(&mut bench, 2).unwrap().2, QUEUES, "another address");
}

#[test]
fn reset_controller_keeps_its_room() {
    let mut bench = Bench::with(ServiceConfig { max_connections: 5, ..config() });
    let (admin, id, granted) = controller(&mut bench, 1).unwrap();
    assert_eq!(granted, QUEUES);
    bench.set_cc(admin, ENABLE & !1);
    assert_eq!(refusal(&mut bench, 2, &Connect::admin(OTHER)).reason, Refusal::TooManyConnections);
    bench.set_cc(admin, ENABLE);
    for qid in 1..=QUEUES {
        assert!(connect(&mut bench, 1, &Connect::new(OTHER, qid, id)).1.is_some());
    }
    for connection in 1..=bench.connections {
        bench.disconnect(ConnectionId(connection));
    }
    assert!(controller(&mut bench, 2).is_some(), "its places are free");
}

#[test]
fn busiest_address_loses_oldest_idle_connection() {
    let mut bench = Bench::with(config());
    let (patient, gone) = wait(&mut bench, 1);
    assert_eq!(gone, None);
    let crowd: Vec<ConnectionId> = (0..9).map(|_| wait(&mut bench, 2).0).collect();
    assert_eq!(bench.actions(), []);
    for (new, old) in crowd.iter().enumerate().map(|(at, old)| (at, *old)) {
        let (_, gone) = wait(&mut bench, 2);
        assert_eq!(gone, Some(old), "number {new} goes");
        let reason = CloseReason::TooManyWaiting;
        assert_eq!(bench.actions(), [Action::Close { connection: old, reason }]);
        bench.disconnect(old);
    }
    // A new host finds a place beside any crowd, and so does the first one.
    assert!(connect(&mut bench, 3, &Connect::admin(OTHER)).1.is_some());
    let connect = Connect::admin(OTHER);
    let sqe = Sqe::from(&connect.command);
    let connected =
        bench.service.connect(bench.now, patient, LISTENER, &sqe, connect.data.as_bytes());
    assert!(connected.is_ok());
}

#[test]
fn controller_is_ready_after_predecessor_ends() {
    for (wait, io_ends) in [(1, true), (60, false)] {
        let (mut bench, admin, connected) = Bench::connected();
        let io = bench.io_queue(1, connected.controller.0);
        bench.disconnect(admin);
        // The queue's connection has not ended: one of its writes is in a device.
        bench.actions();
        let (next, id) = Connect::admin(SUBSYSTEM).accepted(&mut bench);
        bench.ok(next, &property_set(0x14, ENABLE));
        assert_eq!(bench.csts(next), 0, "the write may still land");
        assert!(!id.shared.is_ready());
        let (other, _) = Connect::admin(OTHER).send(&mut bench);
        bench.ok(other, &property_set(0x14, ENABLE));
        assert_eq!(bench.csts(other), 1, "another subsystem has other blocks");
        assert_eq!(bench.tick(), Some(bench.now + ServiceConfig::default().quiesce_limit));
        bench.pass(Duration::from_secs(wait));
        if io_ends {
            bench.disconnect(io);
        } else {
            bench.tick();
        }
        assert_eq!(bench.csts(next), 1);
        assert!(id.shared.is_ready());
        bench.io_queue(1, id.controller.0);
    }
}

/// A step of one of several hosts.
#[derive(Clone, Copy, Debug)]
enum Step {
    Discovery(u8),
    Controller(u8),
    Queue(u8),
    Wait(u8),
    End(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1u8..5).prop_map(Step::Discovery),
        (1u8..5).prop_map(Step::Controller),
        any::<u8>().prop_map(Step::Queue),
        (1u8..5).prop_map(Step::Wait),
        any::<u8>().prop_map(Step::End),
    ]
}

proptest! {
    /// Four addresses use up their room: there are never more connections than the limits allow, a
    /// host with a controller connects each queue that it was granted, and once the four are gone
    /// nothing is held for them.
    #[test]
    fn granted_queues_have_room(steps in prop::collection::vec(step(), 1..300)) {
        let most = config();
        let mut bench = Bench::with(config());
        let mut controllers: Vec<(u8, ConnectionId, u16, u16)> = Vec::new();
        let mut open: HashMap<ConnectionId, bool> = HashMap::new();
        for step in steps {
            match step {
                Step::Discovery(from) => {
                    let (id, connected) = connect(&mut bench, from, &Connect::admin(DISCOVERY_NQN));
                    open.insert(id, connected.is_some());
                }
                Step::Controller(from) => {
                    let new = controller(&mut bench, from);
                    open.insert(ConnectionId(bench.connections), new.is_some());
                    controllers.extend(new.map(|(admin, id, granted)| (from, admin, id, granted)));
                }
                Step::Queue(which) if !controllers.is_empty() => {
                    let (from, _, id, granted) = controllers[usize::from(which) % controllers.len()];
                    let summary = bench.service.controllers().find(|c| c.id.0 == id).unwrap();
                    let taken: Vec<u16> = summary.queues.iter().map(|(qid, _)| *qid).collect();
                    if let Some(qid) = (1..=granted).find(|qid| !taken.contains(qid)) {
                        let one = Connect::new(OTHER, qid, id);
                        let (queue, connected) = connect(&mut bench, from, &one);
                        prop_assert!(connected.is_some(), "queue {qid} of {granted} is refused");
                        open.insert(queue, true);
                    }
                }
                Step::Wait(from) => drop(open.insert(wait(&mut bench, from).0, false)),
                Step::End(which) => {
                    let mut all: Vec<ConnectionId> = open.keys().copied().collect();
                    all.sort_unstable();
                    if let Some(id) = all.get(usize::from(which) % all.len().max(1)) {
                        open.remove(id);
                        controllers.retain(|(_, admin, ..)| admin != id);
                        bench.disconnect(*id);
                    }
                }
                Step::Queue(_) => {}
            }
            for action in bench.actions() {
                if let Action::Close { connection, .. } = action {
                    open.remove(&connection);
                    bench.disconnect(connection);
                }
            }
            let waiting = open.values().filter(|connected| !**connected).count();
            prop_assert!(waiting <= most.max_waiting as usize, "{waiting} wait");
            let limit = most.max_connections + most.max_discovery + most.max_waiting;
            prop_assert!(open.len() <= limit as usize);
            // Beside any actions of the four, an address without connections may wait.
            let (id, gone) = wait(&mut bench, 200);
            prop_assert_ne!(gone, Some(id));
            bench.disconnect(id);
            if let Some(gone) = gone {
                open.remove(&gone);
                bench.disconnect(gone);
            }
            bench.actions();
        }
        for id in open.into_keys() {
            bench.disconnect(id);
            bench.actions();
        }
        for _ in 0..2 {
            let (.., granted) = controller(&mut bench, 1).unwrap();
            prop_assert_eq!(granted, QUEUES);
        }
    }
}

#[test]
fn an_address_in_either_form_has_one_part() {
    let mut bench = Bench::with(ServiceConfig { max_waiting: 6, ..config() });
    // Four of one address, two of them mapped into IPv6, and three of another.
    let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
    for (id, address) in (101..).zip([2, 2, 2, 1, 1].map(address).into_iter().chain([mapped])) {
        assert_eq!(bench.service.accepted(ConnectionId(id), address), None);
    }
    let gone = bench.service.accepted(ConnectionId(107), mapped);
    assert_eq!(gone, Some(ConnectionId(104)), "the oldest of the address with the most");
}
