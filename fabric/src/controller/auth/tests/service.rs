//! Tests of the service with hosts that must prove themselves, on admin and I/O queues.

use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr};

use zerocopy::little_endian::{U16, U32};

use super::*;
use crate::controller::tests::{
    Bench, Connect, ENABLE, HOST, LISTENER, OTHER, SUBSYSTEM, code, command, complete,
    fabrics_command, identify, listener, log, property_get, property_set, set_feature, status_code,
};
use crate::controller::{
    Action, CloseReason, Connected, ConnectionId, ListenerSpec, Refusal, Reply, ServiceConfig,
};
use crate::fabrics::{AUTHENTICATION_REQUIRED, AuthCommand, AuthKind, DISCOVERY_NQN};
use crate::host::authentication::{AuthError, MESSAGE_ROOM, Next};
use crate::nvme::opcode::{FABRICS, fabrics};
use crate::nvme::{SglDescriptor, Sqe, Status};

const OWN: u8 = 5;

fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.service.set_host_secrets(HOST, Some(secrets(&[(OWN, Some(6))])));
    bench
}

fn auth(fctype: u8, length: u32) -> Sqe {
    let [cdw10, cdw11] = AuthCommand::dwords(length);
    let sgl = SglDescriptor::transport(length);
    Sqe { cid: U16::new(9), cdw10, cdw11, sgl, ..fabrics_command(fctype) }
}

/// The queues of a host: admin queues and I/O queues take commands by ways of their own.
#[derive(Clone, Copy)]
pub(super) enum Queue {
    Admin(ConnectionId),
    Io(ConnectionId),
}

impl Queue {
    fn connection(self) -> ConnectionId {
        let (Self::Admin(id) | Self::Io(id)) = self;
        id
    }

    pub(super) fn command(self, bench: &mut Bench, sqe: &Sqe, data: &[u8]) -> Reply {
        match self {
            Self::Admin(id) => bench.admin_with(id, sqe, data),
            Self::Io(id) => bench.io_fabrics(id, sqe, data),
        }
    }

    /// Sends the first message of an exchange, whose work is to be done.
    fn begin(self, bench: &mut Bench) {
        let first = begin(credentials(OWN, Some(6)), 5).1;
        let sqe = auth(fabrics::AUTHENTICATION_SEND, u32::try_from(first.len()).unwrap());
        assert_eq!(self.command(bench, &sqe, &first), Reply::Deferred);
    }

    /// Sends a message; its work is done at once, and completes the command.
    pub(super) fn send(self, bench: &mut Bench, message: &[u8]) {
        let length = u32::try_from(message.len()).unwrap();
        let reply = self.command(bench, &auth(fabrics::AUTHENTICATION_SEND, length), message);
        if reply == Reply::Deferred {
            let connection = self.connection();
            assert_eq!(bench.actions(), [Action::Authenticate { connection }]);
            let work = bench.service.authentication_work(connection).unwrap();
            assert!(bench.service.authentication_work(connection).is_none(), "once");
            bench.service.authentication_worked(connection, Some(work.run(&random(&mut 7))));
            assert_eq!(bench.actions(), [complete(connection, 9, 0, Status::SUCCESS)]);
        } else {
            assert_eq!(reply, Reply::OK);
        }
    }

    pub(super) fn fetch(self, bench: &mut Bench) -> Vec<u8> {
        let reply = self.command(bench, &auth(fabrics::AUTHENTICATION_RECEIVE, MESSAGE_ROOM), &[]);
        assert_eq!(reply, Reply::OK);
        assert_eq!(bench.out.len(), MESSAGE_ROOM as usize, "zeroes behind the message");
        bench.out.clone()
    }

    fn authenticate(self, bench: &mut Bench, credentials: Credentials) -> Result<(), AuthError> {
        self.exchange(bench, begin(credentials, 3))
    }

    fn exchange(
        self,
        bench: &mut Bench,
        (mut host, first): (host::Authentication, Vec<u8>),
    ) -> Result<(), AuthError> {
        let mut next = Next::Send(first);
        loop {
            next = match next {
                Next::Send(message) => {
                    self.send(bench, &message);
                    host.sent()
                }
                Next::Receive => host.received(&self.fetch(bench)),
                Next::Work(work) => host.worked(work.run(&random(&mut 40))),
                Next::Over(end) => return end,
            };
        }
    }
}

fn connect(bench: &mut Bench) -> (Queue, Connected) {
    let (id, connected) = Connect::admin(SUBSYSTEM).send(bench);
    (Queue::Admin(id), connected.unwrap())
}

fn connect_from(bench: &mut Bench, address: IpAddr) -> Result<Queue, Refusal> {
    let (id, connected) = bench.connect_from(address, &Connect::admin(SUBSYSTEM));
    connected.map(|_| Queue::Admin(id)).map_err(|rejected| rejected.reason)
}

/// Returns an admin queue that has been proved and enabled.
fn proved(bench: &mut Bench) -> (Queue, Connected) {
    let (queue, connected) = connect(bench);
    assert_eq!(queue.authenticate(bench, credentials(OWN, Some(6))), Ok(()));
    bench.set_cc(queue.connection(), ENABLE);
    (queue, connected)
}

fn address(last: u8) -> IpAddr {
    Ipv4Addr::new(192, 0, 2, last).into()
}

fn close(queue: Queue) -> Action {
    Action::Close { connection: queue.connection(), reason: CloseReason::NotAuthenticated }
}

#[test]
fn connect_demands_authentication_of_hosts_with_secret() {
    let mut bench = bench();
    let (_, connected) = connect(&mut bench);
    assert!(connected.authentication);
    assert_eq!(connected.result, AUTHENTICATION_REQUIRED | u64::from(connected.controller.0));
    let discovery = bench.discovery(0, HOST);
    assert!(bench.service.is_authenticated(discovery), "discovery opens nothing");
    bench.service.set_host_secrets(HOST, None);
    let (queue, connected) = connect(&mut bench);
    assert!(!connected.authentication);
    assert_eq!(connected.result & AUTHENTICATION_REQUIRED, 0);
    assert!(!bench.service.has_proved(queue.connection()), "it has nothing to prove");
    bench.set_cc(queue.connection(), ENABLE);
    // It gets a secret, and begins to prove that it knows it, though it need not.
    bench.service.set_host_secrets(HOST, Some(secrets(&[(OWN, None)])));
    queue.send(&mut bench, &begin(credentials(OWN, None), 1).1);
    let id = queue.connection();
    assert!(bench.service.is_authenticated(id) && !bench.service.has_proved(id), "it has begun");
}

#[test]
fn unauthenticated_queue_answers_few_commands() {
    let mut bench = bench();
    let (queue, _) = connect(&mut bench);
    let mut refused = |sqe: &Sqe| {
        let reply = queue.command(&mut bench, sqe, &[0; 4096]);
        assert!(bench.out.is_empty());
        assert!(matches!(reply, Reply::Done { status, .. } if status.is_dnr()), "{sqe:?}");
        code(reply) == status_code(Status::AUTHENTICATION_REQUIRED)
    };
    for opcode in 0..=u8::MAX {
        if opcode != FABRICS {
            assert!(refused(&command(opcode, 1)), "{opcode:#x}");
        }
    }
    assert!(refused(&property_set(0x14, ENABLE)));
    assert!(refused(&identify(1, 0)));
    assert!(refused(&fabrics_command(0x2a)));
    bench.ok(queue.connection(), &property_get(0, 1));
    assert!(!bench.service.is_authenticated(queue.connection()));
    assert_eq!(queue.authenticate(&mut bench, credentials(OWN, None)), Ok(()));
    assert!(bench.service.is_authenticated(queue.connection()));
    bench.set_cc(queue.connection(), ENABLE);
    bench.ok(queue.connection(), &identify(1, 0));
}

#[test]
fn each_queue_needs_a_proof_of_its_own() {
    let mut bench = bench();
    let (admin, connected) = proved(&mut bench);
    bench.ok(admin.connection(), &set_feature(7, 1 | 1 << 16));
    let connect = Connect::new(SUBSYSTEM, 1, connected.controller.0);
    let (id, io) = connect.send(&mut bench);
    assert!(io.unwrap().authentication, "the admin queue's proof does not count");
    let io = Queue::Io(id);
    assert!(!bench.service.is_authenticated(id) && !bench.service.has_proved(id));
    assert_eq!(io.authenticate(&mut bench, credentials(OWN, Some(6))), Ok(()));
    assert!(bench.service.is_authenticated(id) && bench.service.has_proved(id));
    // Both again, while they are used.
    for queue in [admin, io] {
        assert_eq!(queue.authenticate(&mut bench, credentials(OWN, None)), Ok(()));
        assert!(bench.service.is_authenticated(queue.connection()));
    }
    // An I/O queue that fails ends alone, and its identifier is free.
    assert!(io.authenticate(&mut bench, credentials(9, None)).is_err());
    assert_eq!(bench.actions(), [close(io)]);
    assert!(!bench.service.is_authenticated(id) && !bench.service.has_proved(id));
    assert_eq!(bench.service.controllers().count(), 1);
    bench.disconnect(id);
    assert!(connect.send(&mut bench).1.is_ok());
}

#[test]
fn failed_authentication_ends_controller_after_answer() {
    for (own, controller) in [(9, None), (OWN, Some(9))] {
        let mut bench = bench();
        let (queue, _) = connect(&mut bench);
        assert!(queue.authenticate(&mut bench, credentials(own, controller)).is_err());
        assert_eq!(bench.actions(), [close(queue)]);
        assert_eq!(bench.service.controllers().count(), 0);
        bench.fails(queue.connection(), &property_get(0, 1), Status::COMMAND_SEQUENCE_ERROR);
        bench.disconnect(queue.connection());
        assert!(bench.actions().is_empty());
    }
}

#[test]
fn failures_delay_only_their_own_address() {
    let mut bench = bench();
    let attack = |bench: &mut Bench| {
        let queue = connect_from(bench, address(1))?;
        assert!(queue.authenticate(bench, credentials(9, None)).is_err());
        assert_eq!(bench.actions(), [close(queue)]);
        bench.disconnect(queue.connection());
        Ok(())
    };
    for _ in 0..4 {
        assert_eq!(attack(&mut bench), Ok(()));
    }
    assert_eq!(attack(&mut bench), Err(Refusal::TooManyTries));
    let (_, rejected) = bench.connect_from(address(1), &Connect::admin(SUBSYSTEM));
    let rejected = rejected.unwrap_err();
    assert_eq!(rejected.status, Status::CONNECT_CONTROLLER_BUSY, "later it may come again");
    bench.pass(Duration::from_secs(1));
    assert_eq!(attack(&mut bench), Ok(()));
    bench.pass(Duration::from_secs(1));
    assert_eq!(attack(&mut bench), Err(Refusal::TooManyTries), "twice as long");
    let honest = connect_from(&mut bench, address(2)).unwrap();
    assert_eq!(honest.authenticate(&mut bench, credentials(OWN, None)), Ok(()));
    bench.pass(Duration::from_secs(1));
    let repaired = connect_from(&mut bench, address(1)).unwrap();
    assert_eq!(repaired.authenticate(&mut bench, credentials(OWN, None)), Ok(()));
    assert_eq!(attack(&mut bench), Ok(()), "a proof makes the failures forgotten");
}

#[test]
fn unfinished_exchange_counts_as_failure() {
    let leave = |bench: &mut Bench, from, begins: bool| {
        let queue = connect_from(bench, address(from)).unwrap();
        if begins {
            queue.send(bench, &begin(credentials(OWN, None), 1).1);
        }
        bench.disconnect(queue.connection());
    };
    let mut bench = Bench::new();
    // Without secrets there are no failures.
    for _ in 0..9 {
        leave(&mut bench, 1, true);
    }
    bench.service.set_host_secrets(HOST, Some(secrets(&[(OWN, Some(6))])));
    for _ in 0..4 {
        leave(&mut bench, 1, true);
    }
    assert_eq!(connect_from(&mut bench, address(1)).err(), Some(Refusal::TooManyTries));
    // An exchange that has not begun has cost nothing.
    for _ in 0..9 {
        leave(&mut bench, 2, false);
    }
    assert!(connect_from(&mut bench, address(2)).is_ok());
}

#[test]
fn authentication_timeout_closes_connection() {
    let mut bench = bench();
    let (idle, _) = connect(&mut bench);
    let (begun, _) = connect(&mut bench);
    begun.send(&mut bench, &begin(credentials(OWN, None), 1).1);
    let (good, _) = proved(&mut bench);
    bench.actions();
    let at = bench.tick().unwrap();
    assert_eq!(at, bench.now + Duration::from_secs(60));
    bench.now = Nanos(at.0 - 1);
    bench.tick();
    assert!(bench.actions().is_empty());
    bench.now = at;
    assert!(bench.tick().is_none_or(|next| next > at));
    let mut closed = bench.actions();
    closed.sort_by_key(|action| format!("{action:?}"));
    assert_eq!(closed, [close(idle), close(begun)]);
    assert!(bench.service.is_authenticated(good.connection()));
    // An authenticated host has the same time to authenticate again.
    good.send(&mut bench, &begin(credentials(OWN, None), 2).1);
    assert!(bench.service.is_authenticated(good.connection()), "commands go on meanwhile");
    bench.pass(Duration::from_secs(60));
    bench.tick();
    assert_eq!(bench.actions(), [close(good)]);
}

#[test]
fn dropped_work_may_be_requested_again() {
    for has_proved in [false, true] {
        let mut bench = bench();
        let (queue, _) = if has_proved { proved(&mut bench) } else { connect(&mut bench) };
        let connection = queue.connection();
        bench.actions();
        queue.begin(&mut bench);
        bench.actions();
        bench.service.authentication_worked(connection, None);
        assert_eq!(bench.actions(), [complete(connection, 9, 0, Status::COMMAND_INTERRUPTED)]);
        if has_proved {
            bench.pass(Duration::from_secs(61));
            bench.tick();
            let closed = bench.actions().contains(&close(queue));
            assert!(!closed && bench.service.is_authenticated(connection));
        }
        assert_eq!(queue.authenticate(&mut bench, credentials(OWN, None)), Ok(()));
    }
}

#[test]
fn work_result_for_ended_queue_is_dropped() {
    let mut bench = bench();
    let (queue, _) = connect(&mut bench);
    queue.begin(&mut bench);
    let connection = queue.connection();
    let work = bench.service.authentication_work(connection).unwrap();
    bench.disconnect(connection);
    bench.actions();
    bench.service.authentication_worked(connection, Some(work.run(&random(&mut 1))));
    assert!(bench.actions().is_empty());
    assert!(!bench.service.is_authenticated(connection));
}

#[test]
fn unknown_security_protocol_is_refused() {
    let mut bench = bench();
    let (queue, _) = connect(&mut bench);
    let first = begin(credentials(OWN, None), 1).1;
    let length = u32::try_from(first.len()).unwrap();
    let good = auth(fabrics::AUTHENTICATION_SEND, length);
    let field = status_code(Status::INVALID_FIELD);
    for byte in 1..4 {
        let mut cdw10 = good.cdw10.to_bytes();
        cdw10[byte] ^= 0x10;
        let bad = Sqe { cdw10: cdw10.into(), ..good };
        assert_eq!(code(queue.command(&mut bench, &bad, &first)), field, "byte {byte}");
    }
    for bad in [0, 4097] {
        let bad = Sqe { cdw11: U32::new(bad), ..good };
        assert_eq!(code(queue.command(&mut bench, &bad, &[0; 8192])), field);
    }
    let short = queue.command(&mut bench, &good, &first[..8]);
    assert_eq!(code(short), status_code(Status::DATA_SGL_LENGTH_INVALID));
    queue.send(&mut bench, &first);
    let challenge = 16 + u32::try_from(Hash::Sha256.length()).unwrap();
    let receive = auth(fabrics::AUTHENTICATION_RECEIVE, challenge - 1);
    assert_eq!(code(queue.command(&mut bench, &receive, &[])), field, "no room for the challenge");
    assert!(bench.out.is_empty());
    let sgl = SglDescriptor::transport(8);
    let small = Sqe { sgl, ..auth(fabrics::AUTHENTICATION_RECEIVE, 4096) };
    let length = status_code(Status::DATA_SGL_LENGTH_INVALID);
    assert_eq!(code(queue.command(&mut bench, &small, &[])), length);
    let receive = auth(fabrics::AUTHENTICATION_RECEIVE, challenge);
    assert_eq!(queue.command(&mut bench, &receive, &[]), Reply::OK);
    assert_eq!(bench.out[..2], AuthKind::Challenge.ids());
}

#[test]
fn host_without_secret_may_continue_after_refusal() {
    let (mut bench, admin) = Bench::enabled();
    let queue = Queue::Admin(admin);
    let refused = queue.authenticate(&mut bench, credentials(OWN, None));
    assert_eq!(refused, Err(AuthError::Refused(crate::fabrics::AuthFailure::Protocol)));
    assert!(bench.actions().is_empty());
    bench.ok(admin, &identify(1, 0));
    let discovery = bench.discovery(0, HOST);
    bench.fails(discovery, &auth(fabrics::AUTHENTICATION_RECEIVE, 64), Status::INVALID_OPCODE);
}

#[test]
fn secrets_that_change_count_for_queues_that_come_later() {
    let (mut bench, admin, connected) = Bench::connected();
    bench.ok(admin, &set_feature(7, 1 | 1 << 16));
    bench.service.set_host_secrets(HOST, Some(secrets(&[(OWN, None)])));
    bench.ok(admin, &identify(1, 0));
    let (id, io) = Connect::new(SUBSYSTEM, 1, connected.controller.0).send(&mut bench);
    assert!(io.unwrap().authentication);
    assert_eq!(Queue::Io(id).authenticate(&mut bench, credentials(OWN, None)), Ok(()));
    // A queue that has connected with the old secret proves itself with the new one.
    bench.service.set_host_secrets(HOST, Some(secrets(&[(7, None)])));
    assert!(bench.service.is_authenticated(id));
    assert_eq!(Queue::Io(id).authenticate(&mut bench, credentials(7, None)), Ok(()));
    assert_eq!(bench.service.gate.secrets(HOST).unwrap().pairs.len(), 1);
}

/// The places that may require authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Target,
    Listener,
    Subsystem,
}

/// Returns a service that requires authentication at one place.
fn requiring(place: Place) -> Bench {
    let require_authentication = place == Place::Target;
    let config = ServiceConfig { require_authentication, ..ServiceConfig::default() };
    let mut bench = Bench::with(config);
    match place {
        Place::Target => {}
        Place::Listener => {
            bench.service.remove_listener(bench.now, LISTENER).unwrap();
            let spec = ListenerSpec { require_authentication: true, ..listener(LISTENER, false) };
            bench.service.add_listener(bench.now, spec).unwrap();
        }
        Place::Subsystem => bench.service.set_require_authentication(SUBSYSTEM, true).unwrap(),
    }
    bench
}

/// Connects to a subsystem, over TLS where that is wanted.
fn connect_to(bench: &mut Bench, subsystem: &str, tls: bool) -> Result<(Queue, bool), Refusal> {
    if tls {
        bench.secure_next(HOST, subsystem, false);
    }
    let (id, connected) = bench.admit(&Connect::admin(subsystem))?;
    Ok((Queue::Admin(id), connected.authentication))
}

#[test]
fn required_authentication_needs_secret_or_tls_key() {
    for place in [Place::Target, Place::Listener, Place::Subsystem] {
        let mut bench = requiring(place);
        let refused =
            |bench: &mut Bench, subsystem: &str| connect_to(bench, subsystem, false).err();
        let no = Some(Refusal::Unauthenticated);
        assert_eq!(refused(&mut bench, SUBSYSTEM), no, "{place:?}");
        let other = no.filter(|_| place != Place::Subsystem);
        assert_eq!(refused(&mut bench, OTHER), other, "{place:?}");
        assert!(matches!(connect_to(&mut bench, SUBSYSTEM, true), Ok((_, false))), "{place:?}");
        bench.service.set_tls_key(HOST, true);
        assert_eq!(refused(&mut bench, SUBSYSTEM), no, "the key is not in use, {place:?}");
        bench.service.set_host_secrets(HOST, Some(secrets(&[(OWN, None)])));
        let (queue, asked) = connect_to(&mut bench, SUBSYSTEM, false).unwrap();
        assert!(asked && !bench.service.is_authenticated(queue.connection()), "{place:?}");
        assert_eq!(queue.authenticate(&mut bench, credentials(OWN, None)), Ok(()));
        assert!(bench.service.is_authenticated(queue.connection()));
    }
}

#[test]
fn required_authentication_counts_for_queues_that_connect_later() {
    let (mut bench, admin, connected) = Bench::connected();
    bench.ok(admin, &set_feature(7, 1 | 1 << 16));
    bench.service.set_require_authentication(SUBSYSTEM, true).unwrap();
    bench.ok(admin, &identify(1, 0));
    let io = Connect::new(SUBSYSTEM, 1, connected.controller.0);
    assert_eq!(io.refused(&mut bench).reason, Refusal::Unauthenticated);
    bench.service.set_require_authentication(SUBSYSTEM, false).unwrap();
    assert!(io.send(&mut bench).1.is_ok());
    assert!(bench.service.set_require_authentication("nqn.none", true).is_err());
}

#[test]
fn discovery_requires_authentication_if_configured() {
    let mut bench = requiring(Place::Subsystem);
    bench.service.set_host_secrets(HOST, Some(secrets(&[(OWN, None)])));
    let open = bench.discovery(0, HOST);
    bench.ok(open, &log(0x70, 1024, 0, true));
    for place in [Place::Target, Place::Listener] {
        let mut bench = requiring(place);
        let refused = connect_to(&mut bench, DISCOVERY_NQN, false).err();
        assert_eq!(refused, Some(Refusal::Unauthenticated), "{place:?}");
        assert!(matches!(connect_to(&mut bench, DISCOVERY_NQN, true), Ok((_, false))));
        bench.service.set_host_secrets(HOST, Some(secrets(&[(OWN, None)])));
        let names = Names { host: HOST, subsystem: DISCOVERY_NQN };
        let begin = |own| host::Authentication::begin(Arc::new(credentials(own, None)), names, 3);
        let (queue, asked) = connect_to(&mut bench, DISCOVERY_NQN, false).unwrap();
        assert!(asked, "{place:?}");
        let admin = queue.connection();
        bench.fails(admin, &property_set(0x14, ENABLE), Status::AUTHENTICATION_REQUIRED);
        assert_eq!(queue.exchange(&mut bench, begin(OWN)), Ok(()));
        bench.set_cc(admin, ENABLE);
        bench.ok(admin, &log(0x70, 1024, 0, true));
        bench.actions();
        let (queue, _) = connect_to(&mut bench, DISCOVERY_NQN, false).unwrap();
        assert!(queue.exchange(&mut bench, begin(9)).is_err());
        assert!(bench.actions().contains(&close(queue)));
    }
}
