//! Tests of the life of controllers: keep alive, lost connections, reset, shutdown, abort, removal.

use super::*;

#[test]
fn a_silent_host_loses_its_controller() {
    let mut bench = Bench::new();
    let (admin, connected) = bench.admin_queue(1000);
    let io = bench.io_queue(1, connected.controller.0);
    bench.request_event(admin, 5);
    bench.ok(admin, &command(op::KEEP_ALIVE, 1));
    let deadline = bench.tick().unwrap();
    assert_eq!(deadline, bench.now + Duration::from_secs(1));
    bench.pass(Duration::from_millis(999));
    assert_eq!(bench.tick(), Some(deadline));
    assert_eq!(bench.actions(), []);
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.tick(), None);
    let reason = CloseReason::KeepAliveExpired;
    assert_eq!(bench.actions(), [close(io, reason), close(admin, reason)]);
    assert!(!connected.shared.is_ready());
    bench.fails(admin, &identify(1, 0), Status::COMMAND_SEQUENCE_ERROR);
}

#[test]
fn io_traffic_keeps_a_controller_alive() {
    let mut bench = Bench::new();
    let (_, connected) = bench.admin_queue(1000);
    for _ in 0..10 {
        bench.pass(Duration::from_secs(1));
        connected.shared.note_traffic();
        assert!(bench.tick().is_some());
    }
    bench.pass(Duration::from_secs(1));
    assert_eq!(bench.tick(), None);
}

#[test]
fn disabled_timer_can_be_set_later() {
    let (mut bench, admin) = Bench::enabled();
    assert_eq!(bench.service.tick(bench.now + Duration::from_secs(1 << 30)), None);
    bench.ok(admin, &set_feature(0x0f, 1));
    assert_eq!(bench.ok(admin, &get_feature(0x0f, 0, 0)), 100, "rounded up to KAS");
    assert_eq!(bench.tick(), Some(bench.now + Duration::from_millis(100)));
}

#[test]
fn a_discovery_controller_without_timer_lives_by_its_activity() {
    let mut bench = Bench::new();
    let admin = bench.discovery(0, HOST);
    for _ in 0..3 {
        bench.pass(Duration::from_secs(100));
        bench.ok(admin, &log(0x70, 1024, 0, true));
        bench.tick();
        assert_eq!(bench.actions(), []);
    }
    bench.pass(Duration::from_secs(120));
    bench.tick();
    bench.pass(Duration::from_secs(120));
    bench.tick();
    assert_eq!(bench.actions(), [close(admin, CloseReason::KeepAliveExpired)]);
}

#[test]
fn admin_queue_end_ends_io_queues() {
    let (mut bench, admin, connected) = Bench::connected();
    let id = connected.controller.0;
    let io = [bench.io_queue(1, id), bench.io_queue(2, id)];
    bench.disconnect(io[0]);
    bench.disconnect(io[0]);
    assert_eq!(bench.actions(), []);
    let again = bench.io_queue(1, id);
    bench.disconnect(admin);
    let reason = CloseReason::AdminQueueLost;
    assert_eq!(bench.actions(), [close(again, reason), close(io[1], reason)]);
    assert_eq!(bench.service.controllers().count(), 0);
}

#[test]
fn reset_completes_when_queues_are_settled() {
    let (mut bench, admin, connected) = Bench::connected();
    let id = connected.controller.0;
    let io = bench.io_queue(1, id);
    bench.ok(admin, &set_feature(0x0b, 0x100));
    bench.request_event(admin, 5);
    bench.set_cc(admin, ENABLE & !1);
    let aborted = Status::ABORTED_SQ_DELETION;
    let reset = close(io, CloseReason::ControllerReset);
    assert_eq!(bench.actions(), [reset, complete(admin, 5, 0, aborted)]);
    assert!(!connected.shared.is_ready());
    assert_eq!(bench.csts(admin), 1, "commands of before may still land");
    bench.fails(admin, &property_set(0x14, ENABLE), Status::COMMAND_SEQUENCE_ERROR);
    bench.disconnect(io);
    assert_eq!(bench.csts(admin), 0);
    bench.set_cc(admin, ENABLE);
    assert_eq!(bench.ok(admin, &get_feature(0x0b, 0, 0)), 0, "features are as at the start");
    bench.io_queue(1, id);
}

#[test]
fn shutdown_ends_by_timeout_or_reset() {
    for resets_amid_it in [false, true] {
        let (mut bench, admin, connected) = Bench::connected();
        let io = bench.io_queue(1, connected.controller.0);
        assert!(!bench.service.is_shut_down(admin));
        for notification in [1, 2] {
            bench.set_cc(admin, ENABLE | notification << 14);
        }
        assert!(bench.service.is_shut_down(admin));
        assert_eq!(bench.actions(), [close(io, CloseReason::ControllerShutdown)]);
        assert_eq!(bench.csts(admin), 0b0101, "occurring");
        if !resets_amid_it {
            let end = bench.tick().unwrap();
            assert_eq!(end, bench.now + Duration::from_secs(3));
            bench.service.tick(end);
            assert_eq!(bench.csts(admin), 0b1001, "complete");
            assert!(bench.service.is_shut_down(admin));
        }
        bench.set_cc(admin, ENABLE & !1);
        bench.disconnect(io);
        assert!(!bench.service.is_shut_down(admin), "reset");
        assert_eq!(bench.csts(admin), 0);
        bench.set_cc(admin, ENABLE);
        bench.io_queue(1, connected.controller.0);
    }
}

#[test]
fn controller_identifier_is_reserved_while_queues_exist() {
    let (mut bench, admin, connected) = Bench::connected();
    let io = bench.io_queue(1, connected.controller.0);
    let (_, other) = bench.admin_queue(0);
    // The first controller has ended, and a write of its queue may be in a device.
    bench.disconnect(admin);
    let (first, second) = (connected.controller.0, other.controller.0);
    assert_eq!((first, second), (1, 2));
    bench.service.last_id = u16::MAX;
    assert_eq!(bench.admin_queue(0).1.controller.0, 3);
    bench.disconnect(io);
    bench.service.last_id = u16::MAX;
    assert_eq!(bench.admin_queue(0).1.controller.0, 1);
}

#[test]
fn abort_finds_waiting_commands_and_event_requests() {
    let (mut bench, admin, connected) = Bench::connected();
    let io = bench.io_queue(1, connected.controller.0);
    bench.request_event(admin, 9);
    assert_eq!(bench.ok(admin, &abort(0, 9, 1)), 0);
    assert_eq!(bench.actions(), [complete(admin, 9, 0, Status::ABORT_REQUESTED)]);
    assert_eq!(bench.ok(admin, &abort(0, 9, 1)), 1, "not there any more");
    assert_eq!(bench.ok(admin, &abort(7, 9, 1)), 1, "no such queue");
    for own in 10..14 {
        assert_eq!(bench.admin(admin, &abort(1, 50 + u32::from(own), own)), Reply::Deferred);
    }
    bench.fails(admin, &abort(1, 50, 14), Status::ABORT_LIMIT_EXCEEDED);
    bench.fails(admin, &with_cid(identify(1, 0), 10), Status::CID_CONFLICT);
    let tickets: Vec<AbortTicket> = bench
        .actions()
        .iter()
        .map(|action| match action {
            Action::Abort { ticket, connection, .. } if *connection == io => *ticket,
            other => panic!("{other:?}"),
        })
        .collect();
    bench.service.abort_done(tickets[0], true);
    bench.service.abort_done(tickets[0], false);
    bench.service.abort_done(tickets[1], false);
    let ok = Status::SUCCESS;
    assert_eq!(bench.actions(), [complete(admin, 10, 0, ok), complete(admin, 11, 1, ok)]);
    bench.disconnect(io);
    assert_eq!(bench.actions(), [complete(admin, 12, 1, ok), complete(admin, 13, 1, ok)]);
    bench.service.abort_done(tickets[3], true);
    assert_eq!(bench.actions(), []);
}

#[test]
fn command_replaces_event_request_with_same_identifier() {
    let (mut bench, admin) = Bench::enabled();
    for cid in 5..9 {
        bench.request_event(admin, cid);
    }
    // A host that has forgotten its requests sends Property Get of CC as its last command.
    assert_eq!(bench.ok(admin, &with_cid(property_get(0x14, 0), 6)), u64::from(ENABLE));
    assert_eq!(bench.actions(), [], "the request is not completed beside it");
    bench.request_event(admin, 7);
    bench.request_event(admin, 6);
    bench.fails(admin, &command(op::ASYNC_EVENT_REQUEST, 20), Status::AER_LIMIT_EXCEEDED);
    assert!(bench.service.withdraw_event_request(admin, 7));
    assert!(!bench.service.withdraw_event_request(admin, 7));
    bench.set_cc(admin, ENABLE & !1);
    let gone = |cid| complete(admin, cid, 0, Status::ABORTED_SQ_DELETION);
    assert_eq!(bench.actions(), [gone(5), gone(8), gone(6)]);
}

#[test]
fn shutdown_leaves_event_requests_outstanding_until_a_reset() {
    let (mut bench, admin) = Bench::enabled();
    bench.ok(admin, &set_feature(0x0b, 0x100));
    for cid in [5, 6] {
        bench.request_event(admin, cid);
    }
    bench.set_cc(admin, SHUT_DOWN);
    assert_eq!(bench.csts(admin), 0b1001, "complete");
    bench.add_namespace(namespace(2));
    assert_eq!(bench.take_completions(), []);
    // The identifier still belongs to the request, which a host may have forgotten.
    assert_eq!(bench.ok(admin, &with_cid(property_get(0x14, 0), 5)), u64::from(SHUT_DOWN));
    bench.set_cc(admin, ENABLE & !1);
    let aborted = complete(admin, 6, 0, Status::ABORTED_SQ_DELETION);
    assert_eq!(bench.actions(), [aborted], "the place of the first was taken");
}

fn with_cid(sqe: Sqe, cid: u16) -> Sqe {
    Sqe { cid: U16::new(cid), ..sqe }
}

#[test]
fn disconnect_applies_to_io_queues_only() {
    let (mut bench, admin, connected) = Bench::connected();
    let io = bench.io_queue(1, connected.controller.0);
    let sqe = fabrics_command(fabrics::DISCONNECT);
    bench.fails(admin, &sqe, Status::DISCONNECT_INVALID_QUEUE_TYPE);
    assert_eq!(bench.io_fabrics(io, &sqe, &[]), Reply::OK);
    assert_eq!(bench.actions(), [close(io, CloseReason::Disconnected)]);
    bench.io_queue(1, connected.controller.0);
    bench.disconnect(io);
    assert_eq!(bench.service.controllers().next().unwrap().queues.len(), 1);
}

#[test]
fn a_removed_object_takes_its_controllers_along() {
    type Remove = fn(&mut Service, Nanos);
    let table: [(Remove, CloseReason); 4] = [
        (|s, t| drop(s.remove_subsystem(t, SUBSYSTEM).unwrap()), CloseReason::SubsystemRemoved),
        (|s, t| s.remove_host(t, SUBSYSTEM, HOST).unwrap(), CloseReason::HostRemoved),
        (|s, t| drop(s.remove_listener(t, LISTENER).unwrap()), CloseReason::ListenerRemoved),
        (
            |s, t| {
                s.set_allow_any_host(t, SUBSYSTEM, true).unwrap();
                s.remove_host(t, SUBSYSTEM, HOST).unwrap();
                assert_eq!(s.controllers().count(), 1);
                s.set_allow_any_host(t, SUBSYSTEM, false).unwrap();
            },
            CloseReason::HostRemoved,
        ),
    ];
    for (remove, reason) in table {
        let (mut bench, admin, connected) = Bench::connected();
        let io = bench.io_queue(1, connected.controller.0);
        remove(&mut bench.service, bench.now);
        assert_eq!(bench.actions(), [close(io, reason), close(admin, reason)]);
        assert!(!connected.shared.is_ready());
    }
}

#[test]
fn an_impossible_configuration_is_refused_and_changes_nothing() {
    let mut bench = Bench::new();
    let now = bench.now;
    let before = bench.service.generation();
    let s = &mut bench.service;
    let twice = s.add_namespace(now, SUBSYSTEM, Namespace { nsid: 1, ..namespace(2) });
    assert!(matches!(twice, Err(ConfigError::NamespaceExists { nsid: 1, .. })));
    let same = s.add_namespace(now, SUBSYSTEM, namespace(1));
    assert_eq!(same, Err(ConfigError::DuplicateIdentifier { nsid: 1, what: "UUID" }));
    let far = s.add_namespace(now, SUBSYSTEM, Namespace { nsid: 16_385, ..namespace(2) });
    assert_eq!(far, Err(ConfigError::NamespaceLimit { nsid: 16_385, limit: 16_384 }));
    assert_eq!(s.add_namespace(now, SUBSYSTEM, namespace(0)), Err(ConfigError::ZeroUuid));
    let format = BlockFormat::plain(1024).unwrap();
    let odd = Geometry { format, blocks: 8 };
    let odd = s.add_namespace(now, SUBSYSTEM, Namespace { geometry: odd, ..namespace(2) });
    assert_eq!(odd, Err(ConfigError::BlockFormat(format)));
    let twice =
        SubsystemSpec { hosts: vec![HOST.into(), HOST.into()], ..subsystem("nqn.twice", false) };
    assert!(matches!(s.add_subsystem(now, twice), Err(ConfigError::HostExists { .. })));
    assert!(s.add_subsystem(now, subsystem(SUBSYSTEM, true)).is_err());
    assert!(s.add_subsystem(now, subsystem("iqn.x", true)).is_err());
    for serial in ["SG\t1", "a serial number of more than 20"] {
        let serial = serial.to_owned();
        let spec = SubsystemSpec { serial, ..subsystem("nqn.text", true) };
        assert!(matches!(s.add_subsystem(now, spec), Err(ConfigError::Text { .. })));
    }
    let serial = subsystem(SUBSYSTEM, true).serial;
    let same = SubsystemSpec { serial, ..subsystem("nqn.same", true) };
    let same = s.add_subsystem(now, same).unwrap_err().to_string();
    assert!(same.contains(SUBSYSTEM) && same.contains("nqn.same"), "{same}");
    let discovery = s.add_subsystem(now, subsystem(DISCOVERY_NQN, true));
    assert_eq!(discovery, Err(ConfigError::DiscoveryNqn));
    assert!(s.add_listener(now, listener(LISTENER, false)).is_err());
    let subsystems = Some(vec!["iqn.x".to_owned()]);
    let spec = ListenerSpec { subsystems, ..listener(ListenerId(7), false) };
    assert!(s.add_listener(now, spec).is_err());
    assert!(s.remove_listener(now, ListenerId(7)).is_err());
    assert!(s.add_host(now, SUBSYSTEM, HOST).is_err());
    assert!(s.remove_host(now, SUBSYSTEM, STRANGER).is_err());
    assert!(s.resize_namespace(now, SUBSYSTEM, 5, 1).is_err());
    assert_eq!(s.generation(), before);
    let limits = ServiceConfig { max_transfer: 5000, ..ServiceConfig::default() };
    let message = Service::new(limits).unwrap_err().to_string();
    assert_eq!(message, "max_transfer is 5000: it must be a power of two of at least 4096");
}

#[test]
fn queues_settle_together_before_admin_queue() {
    let (mut bench, admin, connected) = Bench::connected();
    let id = connected.controller.0;
    let [one, two] = [bench.io_queue(1, id), bench.io_queue(2, id)];
    let (idle, _) = bench.admin_queue(3);
    let first = bench.now;
    assert_eq!(bench.service.settle_queue(first, one), None, "the other has commands");
    assert_eq!(bench.service.settle_queue(first, admin), None, "I/O queues are there");
    assert!(bench.service.settle_queue(first, idle).is_some(), "of another controller");

    bench.pass(Duration::from_millis(5));
    let last = bench.now;
    assert_eq!(bench.service.settle_queue(last, two), Some(last));
    bench.pass(Duration::from_millis(5));
    assert_eq!(bench.service.settle_queue(bench.now, one), Some(last));
    bench.disconnect(one);
    assert_eq!(bench.service.settle_queue(bench.now, two), Some(last));
    assert_eq!(bench.service.settle_queue(bench.now, admin), None);
    bench.disconnect(two);
    assert!(bench.service.settle_queue(bench.now, admin).is_some());
}

#[test]
fn ended_queue_settles_no_other_queue() {
    let (mut bench, _, connected) = Bench::connected();
    let [one, two, three] = [1, 2, 3].map(|qid| bench.io_queue(qid, connected.controller.0));
    assert_eq!(bench.service.settle_queue(bench.now, one), None);
    bench.disconnect(one);
    assert_eq!(bench.service.settle_queue(bench.now, two), None, "the third has commands");
    assert!(bench.service.settle_queue(bench.now, three).is_some());
}
