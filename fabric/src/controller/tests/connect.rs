//! Tests of every check of Connect, with the status and the field in the answer.

use zerocopy::IntoBytes;

use super::*;

fn rejected(connect: &Connect, bench: &mut Bench) -> (u16, bool, u64) {
    let Rejected { status, result, .. } = connect.refused(bench);
    (status_code(status), status.is_dnr(), result)
}

type Bend = fn(&mut Connect);

/// Returns bad Connects: the fault, the change that makes it, status, result.
fn bad_admin_connects() -> Vec<(&'static str, Bend, Status, u64)> {
    let invalid = Status::CONNECT_INVALID_PARAMETERS;
    let format = Status::CONNECT_INCOMPATIBLE_FORMAT;
    let sequence = Status::COMMAND_SEQUENCE_ERROR;
    let stranger = Status::CONNECT_INVALID_HOST;
    vec![
        ("record format", |c| c.command.recfmt = U16::new(1), format, 0),
        ("queue of one", |c| c.command.sqsize = U16::ZERO, invalid, 44),
        ("queue too long", |c| c.command.sqsize = U16::new(128), invalid, 44),
        ("no host identifier", |c| c.data.hostid = [0; 16], invalid, 1 << 16),
        ("one controller", |c| c.data.cntlid = U16::new(1), invalid, 1 << 16 | 16),
        ("static", |c| c.data.cntlid = U16::new(0xfffe), invalid, 1 << 16 | 16),
        ("subsystem without end", |c| c.data.subnqn = [b'n'; 256], invalid, 1 << 16 | 256),
        ("no subsystem", |c| c.data.subnqn = [0; 256], invalid, 1 << 16 | 256),
        ("unknown", |c| c.data.subnqn = nul_padded("nqn.x"), invalid, 1 << 16 | 256),
        ("host without end", |c| c.data.hostnqn = [b'n'; 256], invalid, 1 << 16 | 512),
        ("host not allowed", |c| c.data.hostnqn = nul_padded(STRANGER), stranger, 1 << 16 | 512),
        ("discovery port", |c| c.listener = DISCOVERY_LISTENER, invalid, 1 << 16 | 256),
        ("no listener", |c| c.listener = ListenerId(9), invalid, 1 << 16 | 256),
        ("not a Connect", |c| c.command.fctype = fabrics::PROPERTY_GET, sequence, 0),
    ]
}

#[test]
fn bad_admin_connect_is_refused_with_field() {
    let mut bench = Bench::new();
    for (what, bend, status, result) in bad_admin_connects() {
        let mut connect = Connect::admin(SUBSYSTEM);
        bend(&mut connect);
        // A listener may be made again.
        let is_final = what != "no listener";
        assert_eq!(
            rejected(&connect, &mut bench),
            (status_code(status), is_final, result),
            "{what}"
        );
    }
    assert_eq!(bench.service.controllers().count(), 0);
    assert!(Connect::admin(SUBSYSTEM).send(&mut bench).1.is_ok());
}

#[test]
fn bad_io_connect_is_refused_with_field() {
    let (mut bench, admin, connected) = Bench::connected();
    let id = connected.controller.0;
    let granted = bench.ok(admin, &set_feature(7, 3 | 3 << 16));
    assert_eq!(granted, 3 | 3 << 16);
    bench.io_queue(2, id);
    let invalid = status_code(Status::CONNECT_INVALID_PARAMETERS);
    // After the target was started again, CNTLID may be nobody's or another's: the host begins anew.
    let table: Vec<(&str, u16, u16, Bend, u64, bool)> = vec![
        ("beyond the granted", 5, id, |_| {}, 42, false),
        ("unknown controller", 1, id + 1, |_| {}, 1 << 16 | 16, false),
        ("any controller", 1, 0xffff, |_| {}, 1 << 16 | 16, false),
        ("other subsystem", 1, id, |c| c.data.subnqn = nul_padded(OTHER), 1 << 16 | 16, false),
        ("other host identifier", 1, id, |c| c.data.hostid = [8; 16], 1 << 16, false),
        ("too long", 1, id, |c| c.command.sqsize = U16::new(128), 44, true),
    ];
    for (what, qid, cntlid, bend, result, is_final) in table {
        let mut connect = Connect::new(SUBSYSTEM, qid, cntlid);
        bend(&mut connect);
        assert_eq!(rejected(&connect, &mut bench), (invalid, is_final, result), "{what}");
    }
    let in_use = rejected(&Connect::new(SUBSYSTEM, 2, id), &mut bench);
    assert_eq!(in_use, (status_code(Status::COMMAND_SEQUENCE_ERROR), false, 0));
    bench.io_queue(4, id);
}

#[test]
fn an_io_queue_needs_an_enabled_controller() {
    let mut bench = Bench::new();
    let (admin, connected) = Connect::admin(SUBSYSTEM).accepted(&mut bench);
    let id = connected.controller.0;
    let early = rejected(&Connect::new(SUBSYSTEM, 1, id), &mut bench);
    assert_eq!(early, (status_code(Status::CONNECT_INVALID_PARAMETERS), false, 42));
    bench.set_cc(admin, ENABLE);
    bench.io_queue(1, id);
    let discovery = bench.discovery(0, HOST);
    let (disc_id, _) = bench.service.queue_of(discovery).unwrap();
    assert_eq!(rejected(&Connect::new(DISCOVERY_NQN, 1, disc_id.0), &mut bench).2, 42);
}

#[test]
fn queue_connects_once_with_whole_data() {
    let (mut bench, admin, connected) = Bench::connected();
    let connect = Connect::admin(SUBSYSTEM);
    let sqe = Sqe::from(&connect.command);
    let again = bench.service.connect(bench.now, admin, LISTENER, &sqe, connect.data.as_bytes());
    assert_eq!(status_code(again.unwrap_err().status), status_code(Status::COMMAND_SEQUENCE_ERROR));
    bench.fails(admin, &sqe, Status::COMMAND_SEQUENCE_ERROR);
    let io = bench.io_queue(1, connected.controller.0);
    assert_eq!(code(bench.io_fabrics(io, &sqe, &[])), status_code(Status::COMMAND_SEQUENCE_ERROR));
    let fresh = ConnectionId(1000);
    assert_eq!(bench.service.data_length(fresh, &sqe).host_to_controller, 1024);
    for other in [property_set(0x14, ENABLE), identify(1, 0)] {
        assert_eq!(bench.service.data_length(fresh, &other), DataLength::default());
    }
    let short = bench.service.connect(bench.now, fresh, LISTENER, &sqe, &[0; 1020]);
    assert_eq!(short.unwrap_err().status, Status::DATA_SGL_LENGTH_INVALID.dnr());
}

#[test]
fn connect_reports_queue_parameters() {
    let mut bench =
        Bench::with(ServiceConfig { admin_queue_entries: 4096, ..ServiceConfig::default() });
    let mut connect = Connect::admin(SUBSYSTEM).kato(5001);
    (connect.command.cattr, connect.command.sqsize) = (0b110, U16::new(4095));
    let (_, connected) = connect.accepted(&mut bench);
    assert_eq!(connected.result, u64::from(connected.controller.0));
    assert_eq!(connected.entries, 4096);
    assert!(!connected.sq_flow_control);
    assert_eq!(connected.priority_class, 2);
    assert_eq!(connected.keep_alive, Some(Duration::from_millis(5100)));
    assert_eq!(connected.namespaces.len(), 1);
    assert_eq!(connected.shared.subsystem_nqn, SUBSYSTEM);
}

#[test]
fn controllers_are_bounded_and_their_identifiers_come_back_late() {
    let mut bench = Bench::with(ServiceConfig { max_controllers: 2, ..ServiceConfig::default() });
    let (first, a) = bench.admin_queue(0);
    let (_, b) = bench.admin_queue(0);
    let full = rejected(&Connect::admin(SUBSYSTEM), &mut bench);
    assert_eq!(full, (status_code(Status::CONNECT_CONTROLLER_BUSY), false, 0));
    bench.disconnect(first);
    let (_, c) = bench.admin_queue(0);
    assert_eq!((a.controller.0, b.controller.0, c.controller.0), (1, 2, 3));
    bench.service.last_id = 0xffef;
    bench.disconnect(ConnectionId(bench.connections));
    let (_, d) = bench.admin_queue(0);
    assert_eq!(d.controller.0, 1, "wraps, skipping live ones");
}

#[test]
fn a_draining_target_asks_hosts_to_connect_later() {
    let (mut bench, _, connected) = Bench::connected();
    bench.service.begin_shutdown(bench.now);
    let busy = (status_code(Status::CONNECT_CONTROLLER_BUSY), false, 0);
    for connect in [
        Connect::admin(SUBSYSTEM),
        Connect::admin(DISCOVERY_NQN),
        Connect::new(SUBSYSTEM, 1, connected.controller.0),
    ] {
        assert_eq!(rejected(&connect, &mut bench), busy);
    }
}

/// Makes the Connect of a host that leaves HOSTNQN empty.
fn nameless(subsystem: &str, qid: u16, cntlid: u16) -> Connect {
    let mut connect = Connect::new(subsystem, qid, cntlid);
    connect.data.hostnqn = [0; 256];
    connect
}

#[test]
fn unnamed_host_has_default_access() {
    let mut bench = Bench::new();
    let refused = nameless(SUBSYSTEM, 0, 0xffff).refused(&mut bench);
    assert_eq!(refused.reason, Refusal::HostNotAllowed);
    assert_eq!(status_code(refused.status), status_code(Status::CONNECT_INVALID_HOST));
    let (admin, connected) = nameless(OTHER, 0, 0xffff).accepted(&mut bench);
    assert_eq!(connected.shared.host_nqn, "");
    bench.set_cc(admin, ENABLE);
    let (_, io) = nameless(OTHER, 1, connected.controller.0).send(&mut bench);
    assert_eq!(io.unwrap().kind, QueueKind::Io);
    let other = Connect::new(OTHER, 2, connected.controller.0).refused(&mut bench);
    assert_eq!(other.reason, Refusal::OtherHost);
    // Discovery shows the host nothing else.
    let (discovery, _) = nameless(DISCOVERY_NQN, 0, 0xffff).enabled(&mut bench);
    bench.ok(discovery, &log(0x70, 4096, 0, true));
    let shown = String::from_utf8_lossy(&bench.out).into_owned();
    assert!(shown.contains(OTHER) && !shown.contains(SUBSYSTEM));
    // The host has no name for subsystems that need one.
    bench.service.set_allow_any_host(bench.now, OTHER, false).unwrap();
    let ended = Action::Close { connection: admin, reason: CloseReason::HostRemoved };
    assert!(bench.actions().contains(&ended));
}
