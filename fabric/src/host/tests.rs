//! Tests of the host's side with the target's service, in one process.

use core::time::Duration;
use std::sync::Arc;

use units::Nanos;
use zerocopy::FromZeros;

use super::authentication::{AuthError, Credentials, Next};
use super::*;
use crate::controller::tests::regions::{Regions, grant};
use crate::controller::tests::{self as target, HOST, LISTENER, SUBSYSTEM, namespace};
use crate::controller::{self, ConnectionId, Reply, Service, ServiceConfig, SmartCounters};
use crate::dhchap::{Group, Hash, HostSecrets, Random, Secret, SecretPair};
use crate::fabrics::AuthFailure;
use crate::nvm::{BlockFormat, BlockFormatError};
use crate::nvme::identify::{IdentifyNamespace, LbaFormat, OptionalEvents, cns};
use crate::nvme::region::{GetRegion, REGION_GRANT_SIZE, RegionName, RegionRights};
use crate::nvme::{Cqe, Sqe, Status, opcode};

const ADMIN: ConnectionId = ConnectionId(1);
const IO: ConnectionId = ConnectionId(2);

fn settings() -> Settings {
    Settings {
        subsystem: SUBSYSTEM.to_owned(),
        host: HOST.to_owned(),
        host_id: [7; 16],
        credentials: None,
        keep_alive: Duration::from_secs(15),
        queues: 3,
        honours_retry_delays: true,
        weighted_round_robin: true,
        event_requests: 2,
        events: OptionalEvents::NAMESPACE_ATTRIBUTE.bits(),
    }
}

fn config() -> ServiceConfig {
    ServiceConfig { weighted_round_robin: true, ..ServiceConfig::default() }
}

fn fctype(sqe: &Sqe) -> Option<u8> {
    (sqe.opcode == opcode::FABRICS).then(|| sqe.nsid.get().to_le_bytes()[0])
}

fn writes(sqe: &Sqe) -> bool {
    let kinds = [opcode::fabrics::CONNECT, opcode::fabrics::AUTHENTICATION_SEND];
    // Set Features of Host Behavior Support.
    let is_behavior = sqe.opcode == opcode::admin::SET_FEATURES && sqe.cdw10.get() == 0x16;
    is_behavior || fctype(sqe).is_some_and(|kind| kinds.contains(&kind))
}

fn random(from: u8) -> Random {
    Random::new(core::array::from_fn(|at| from.wrapping_add(u8::try_from(at & 0xff).unwrap())))
}

/// A host and a target, and the actions of the host's association.
struct Bench {
    service: Service,
    host: Association,
    now: Nanos,
    told: Vec<Action>,
    /// Keep Alives that the target has answered.
    keep_alives: usize,
    /// Whether the target answers nothing.
    silent: bool,
}

impl Bench {
    fn new(settings: Settings, config: ServiceConfig) -> Self {
        let target::Bench { service, now, .. } = target::Bench::with(config);
        let host = Association::new(settings);
        Self { service, host, now, told: Vec::new(), keep_alives: 0, silent: false }
    }

    /// Returns a host that has connected, or failed to.
    fn connecting(settings: Settings, config: ServiceConfig) -> Self {
        let mut bench = Self::new(settings, config);
        bench.host.connect(bench.now);
        bench.run();
        bench
    }

    fn connected() -> Self {
        let mut bench = Self::connecting(settings(), config());
        assert!(matches!(bench.told[..], [Action::Ready]), "{:?}", bench.told);
        bench.told.clear();
        bench
    }

    /// Sends an admin command that reads from the host. Returns the answer and its data.
    fn answer_to(&mut self, sqe: Sqe, length: u32) -> (Cqe, Vec<u8>) {
        let sent = self.host.submit(sqe, None, length).unwrap();
        self.settle();
        match &std::mem::take(&mut self.told)[..] {
            [Action::Answered { cid, cqe, data }] if *cid == sent => (*cqe, data.clone()),
            other => panic!("{other:?}"),
        }
    }

    fn answer(&mut self, cid: u16, result: u64, status: Status, data: Vec<u8>) {
        self.host.answered(self.now, &Cqe::new(cid, 0, result, status), data);
    }

    /// Carries commands and answers in both directions until both sides are silent.
    fn settle(&mut self) {
        loop {
            let action = self.host.poll_action();
            match &action {
                Some(Action::Submit(command)) => {
                    assert_eq!(command.data.is_some(), writes(&command.sqe));
                    self.carry(command.clone());
                }
                Some(Action::Work(work)) => {
                    let worked = work.clone().run(&random(1));
                    self.host.worked(self.now, worked);
                }
                Some(other) => self.told.push(other.clone()),
                None => {}
            }
            match self.service.poll_action() {
                Some(controller::Action::Complete { connection, cid, result, status }) => {
                    assert_eq!(connection, ADMIN);
                    self.answer(cid, result, status, vec![]);
                }
                Some(controller::Action::Close { connection, .. }) => {
                    self.service.disconnected(self.now, connection);
                }
                Some(controller::Action::Authenticate { connection }) => {
                    let work = self.service.authentication_work(connection).unwrap();
                    self.service.authentication_worked(connection, Some(work.run(&random(100))));
                }
                Some(_) => {}
                None if action.is_none() => return,
                None => {}
            }
        }
    }

    fn carry(&mut self, AdminCommand { sqe, data, read_length }: AdminCommand) {
        if self.silent {
            return;
        }
        let cid = sqe.cid.get();
        let data = data.unwrap_or_default();
        if fctype(&sqe) == Some(opcode::fabrics::CONNECT) {
            match self.service.connect(self.now, ADMIN, LISTENER, &sqe, &data) {
                Ok(connected) => self.answer(cid, connected.result, Status::SUCCESS, vec![]),
                Err(rejected) => self.answer(cid, rejected.result, rejected.status, vec![]),
            }
            return;
        }
        let (smart, mut out) = (SmartCounters::default(), Vec::new());
        // The transport fills in the descriptor.
        let length = read_length.max(u32::try_from(data.len()).unwrap());
        let sgl = crate::nvme::SglDescriptor::transport(length);
        let sqe = Sqe { flags: 0x40, sgl, ..sqe };
        match self.service.admin(self.now, ADMIN, &sqe, &data, &smart, &mut out) {
            Reply::Done { result, status } => {
                self.keep_alives += usize::from(sqe.opcode == opcode::admin::KEEP_ALIVE);
                assert!(out.len() <= read_length as usize);
                self.answer(cid, result, status, out);
            }
            Reply::Deferred => assert!(
                sqe.opcode == opcode::admin::ASYNC_EVENT_REQUEST
                    || fctype(&sqe) == Some(opcode::fabrics::AUTHENTICATION_SEND)
            ),
        }
    }

    /// Settles, and lets time pass while CSTS is being waited for.
    fn run(&mut self) {
        for _ in 0..1000 {
            self.settle();
            let near = self.now + Duration::from_millis(10);
            match self.host.next_timeout().filter(|at| *at < near) {
                Some(at) => self.pass(at.since(self.now)),
                None => return,
            }
        }
        panic!("it never settles");
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.service.tick(self.now);
        self.host.tick(self.now);
        self.settle();
    }

    fn ended(&self) -> Option<&HostError> {
        let [.., Action::Ended(error)] = &self.told[..] else { panic!("{:?}", self.told) };
        error.as_ref()
    }

    fn connect_io(&mut self, connector: &IoConnector) -> Result<(), Status> {
        let (sqe, data) = connector.connect(1, 31, None).unwrap();
        let connected = self.service.connect(self.now, IO, LISTENER, &sqe, &data);
        connected.map(|queue| assert_eq!((queue.qid, queue.entries), (1, 32))).map_err(|e| e.status)
    }
}

#[test]
fn host_learns_controller_capabilities() {
    let mut bench = Bench::connected();
    let config = config();
    let facts = bench.host.facts().clone();
    assert_eq!((facts.model.as_str(), facts.serial.as_str()), ("Test", SUBSYSTEM));
    assert_eq!(facts.max_outstanding, config.queue_entries - 1);
    assert_eq!(facts.in_capsule_data, config.in_capsule_data);
    assert_eq!(facts.max_transfer, u64::from(config.max_transfer));
    assert!(facts.weighted_round_robin && facts.queues >= 3);
    let (_, data) = bench.answer_to(commands::identify(cns::NAMESPACE, 1), 4096);
    let expected = NamespaceFacts { nsid: 1, blocks: 1000, format: BlockFormat::BYTES_4096 };
    assert_eq!(NamespaceFacts::parse(1, &data), Ok(expected));
}

#[test]
fn controller_with_retry_delays_learns_that_host_honours_them() {
    let interrupted = Status::COMMAND_INTERRUPTED.with_retry_delay(2);
    for (crdt, honours) in [([3, 20, 600], true), ([3, 20, 600], false), ([0, 20, 600], true)] {
        let config = ServiceConfig { retry_delays: crdt, ..config() };
        let settings = Settings { honours_retry_delays: honours, ..settings() };
        let mut bench = Bench::connecting(settings, config);
        for reset in [false, true] {
            if reset {
                bench.host.reset(bench.now).unwrap();
                bench.run();
            }
            let is_set = honours && crdt[0] != 0;
            let connector = bench.host.io_connector();
            bench.connect_io(&connector).unwrap();
            assert_eq!(bench.service.hosts_without_acre().is_empty(), is_set, "{crdt:?} {honours}");
            let delay = connector.facts.retry_delay(interrupted);
            assert_eq!(delay, is_set.then_some(Duration::from_secs(2)), "{crdt:?} {honours}");
        }
    }
}

#[test]
fn only_temporary_statuses_with_a_delay_are_retried() {
    let facts = Facts {
        retry_delays: [1, 2, 3].map(Duration::from_secs),
        honours_retry_delays: true,
        ..Facts::default()
    };
    for crd in 1..=3 {
        for status in [Status::COMMAND_INTERRUPTED, Status::NAMESPACE_NOT_READY] {
            let status = status.more().with_retry_delay(crd);
            assert_eq!(facts.retry_delay(status), Some(Duration::from_secs(u64::from(crd))));
            assert_eq!(facts.retry_delay(status.dnr()), None);
        }
        assert_eq!(facts.retry_delay(Status::LBA_OUT_OF_RANGE.with_retry_delay(crd)), None);
    }
    assert_eq!(facts.retry_delay(Status::COMMAND_INTERRUPTED), None, "no delay is selected");
}

#[test]
fn reset_ends_io_queues() {
    let mut bench = Bench::connected();
    let connector = bench.host.io_connector();
    bench.connect_io(&connector).unwrap();
    let most = connector.facts.max_outstanding;
    assert!(connector.connect(1, most, None).is_ok());
    let long = HostError::QueueTooLong { most, wanted: most + 1 };
    assert_eq!(connector.connect(1, most + 1, None).err(), Some(long));
    bench.host.reset(bench.now).unwrap();
    assert_eq!(bench.host.reset(bench.now), Err(HostError::NotReady), "one is under way");
    assert_eq!(bench.host.submit(commands::keep_alive(), None, 0), Err(HostError::NotReady));
    bench.run();
    assert!(matches!(bench.told[..], [Action::Ready]), "ready again: {:?}", bench.told);
    assert!(bench.service.queue_of(IO).is_none(), "its I/O queue is gone");
    bench.connect_io(&connector).unwrap();
}

#[test]
fn shutdown_ends_association_without_error() {
    let mut bench = Bench::connected();
    bench.host.shut_down(bench.now).unwrap();
    bench.run();
    assert_eq!(bench.ended(), None);
    assert!(bench.service.is_shut_down(ADMIN));
    assert_eq!(bench.host.next_timeout(), None);
    bench.pass(Duration::from_secs(60));
    assert_eq!(bench.told.len(), 1, "nothing more is said");
}

#[test]
fn unanswered_keep_alive_ends_controller() {
    let mut bench = Bench::connected();
    for _ in 0..600 {
        bench.pass(Duration::from_millis(100));
    }
    assert_eq!((bench.keep_alives, bench.told.len()), (12, 0), "every 5 s");
    assert!(bench.service.queue_of(ADMIN).is_some());
    bench.silent = true;
    bench.pass(Duration::from_secs(5));
    bench.pass(Duration::from_millis(14_999));
    assert!(bench.told.is_empty());
    let end = bench.now + Duration::from_millis(1);
    assert_eq!(bench.host.next_timeout(), Some(end), "nothing is due before that");
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.ended(), Some(&HostError::Silent { what: "Keep Alive" }));
}

#[test]
fn events_are_told_and_asked_for_again() {
    let mut bench = Bench::connected();
    for tag in 2..4 {
        bench.service.add_namespace(bench.now, SUBSYSTEM, namespace(tag)).unwrap();
        bench.settle();
        let [Action::Event(event)] = bench.told[..] else { panic!("{:?}", bench.told) };
        // The event is a notice: a namespace attribute changed, in the list of changed namespaces.
        assert_eq!(event, AsyncEvent { kind: 2, information: 0, log: 4 });
        bench.told.clear();
        let (_, data) = bench.answer_to(target::log(0x04, 4096, 0, false), 4096);
        assert_eq!(data[..4], u32::from(tag).to_le_bytes());
    }
}

#[test]
fn failed_event_request_is_not_resent() {
    let mut bench = Bench::connected();
    bench.answer(2, 0x04_0002, Status::ABORT_REQUESTED, vec![]);
    assert!(bench.host.poll_action().is_none());
}

#[test]
fn a_refusal_ends_the_association_with_the_reason() {
    let stranger = Settings { host: "nqn.2014-08.org:stranger".to_owned(), ..settings() };
    let bench = Bench::connecting(settings(), ServiceConfig::default());
    assert_eq!(bench.ended(), Some(&HostError::NoWeightedRoundRobin));
    let bench = Bench::connecting(stranger, config());
    let Some(HostError::Refused { qid: 0, status }) = bench.ended() else { panic!() };
    assert_eq!(status.bits() & 0x7ff, Status::CONNECT_INVALID_HOST.bits());
    let bench = Bench::connecting(Settings { queues: u16::MAX, ..settings() }, config());
    assert!(matches!(
        bench.ended(),
        Some(HostError::TooFewQueues { .. } | HostError::Command { .. })
    ));
}

#[test]
fn a_silent_target_is_given_up_after_ten_seconds() {
    let mut bench = Bench::new(settings(), ServiceConfig::default());
    bench.silent = true;
    bench.host.connect(bench.now);
    bench.settle();
    bench.pass(Duration::from_millis(9_999));
    assert!(bench.told.is_empty());
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.ended(), Some(&HostError::Silent { what: "Connect" }));
}

/// Answers the commands that the host sends next.
fn answer_next(host: &mut Association, now: Nanos, results: impl IntoIterator<Item = u64>) {
    for result in results {
        let Some(Action::Submit(command)) = host.poll_action() else { panic!() };
        host.answered(now, &Cqe::new(command.sqe.cid.get(), 0, result, Status::SUCCESS), vec![]);
    }
}

#[test]
fn late_or_fatal_controller_is_abandoned() {
    // The results of Connect, CAP, CC and CSTS. CAP.TO is 1 s.
    let answers = |timeout: u64, csts| [1, 63 | 1 << 17 | timeout << 24, 0, csts];
    let mut host = Association::new(settings());
    let mut now = Nanos(0);
    host.connect(now);
    answer_next(&mut host, now, answers(2, 0));
    while now < Nanos(1_000_000_000) {
        let at = host.next_timeout().unwrap();
        assert_eq!(at.since(now), Duration::from_millis(2), "CSTS is looked at again");
        now = at;
        host.tick(now);
        answer_next(&mut host, now, [0]);
    }
    let slow = HostError::TooSlow { what: "become ready" };
    let ended = host.poll_action();
    assert!(matches!(&ended, Some(Action::Ended(Some(e))) if *e == slow), "{ended:?}");

    let mut host = Association::new(settings());
    host.connect(now);
    answer_next(&mut host, now, answers(0, 0b11));
    assert!(matches!(host.poll_action(), Some(Action::Ended(Some(HostError::Fatal)))));
}

#[test]
fn the_admin_queue_is_never_overfilled() {
    let mut bench = Bench::connected();
    bench.silent = true;
    let cids: Vec<u16> =
        (0..26).map(|_| bench.host.submit(commands::keep_alive(), None, 0).unwrap()).collect();
    assert!(cids.iter().all(|cid| *cid > 5 && *cid < 32), "{cids:?}");
    assert_eq!(bench.host.submit(commands::keep_alive(), None, 0), Err(HostError::QueueFull));
    bench.answer(cids[3], 0, Status::SUCCESS, vec![]);
    assert_eq!(bench.host.submit(commands::keep_alive(), None, 0), Ok(cids[3]));
}

#[test]
fn impossible_namespaces_are_refused() {
    let mut id = IdentifyNamespace::new_zeroed();
    let parse =
        |id: &IdentifyNamespace| NamespaceFacts::parse(5, zerocopy::IntoBytes::as_bytes(id));
    assert_eq!(parse(&id), Err(HostError::Inactive { nsid: 5 }));
    id.nsze = 8.into();
    let why = BlockFormatError::Shift(0);
    assert_eq!(parse(&id), Err(HostError::Format { nsid: 5, why }));
    id.lbaf[0] = LbaFormat { shift: 9, ..LbaFormat::default() };
    assert_eq!(parse(&id).map(|n| (n.blocks, n.format)), Ok((8, BlockFormat::BYTES_512)));
    let short = HostError::Short { what: "Identify Namespace", length: 100 };
    assert_eq!(NamespaceFacts::parse(5, &[1; 100]), Err(short));
}

#[test]
fn host_learns_location_of_region() {
    let mut bench = Bench::connected();
    let name = RegionName::from_text("log").unwrap();
    let ask = |bench: &mut Bench, rights, reservation| {
        let sqe = commands::get_region(name, rights, reservation);
        let (cqe, data) = bench.answer_to(sqe, REGION_GRANT_SIZE.try_into().unwrap());
        region_granted(cqe.status(), cqe.result.get(), &data)
    };
    assert_eq!(ask(&mut bench, RegionRights::Read, 0), Err(RegionError::NotServed));
    let regions = Arc::new(Regions::default());
    bench.service.set_region_grants(Arc::<Regions>::clone(&regions));
    for (rights, reservation) in [(RegionRights::Read, 0), (RegionRights::ReadWrite, 100)] {
        assert_eq!(ask(&mut bench, rights, reservation), Ok(grant()));
        let command = GetRegion { name, rights, reservation };
        assert_eq!(regions.asked()[0].command, command);
    }
}

fn secret(tag: u8) -> Secret {
    Secret::generate(&[tag; 64], Some(Hash::Sha256))
}

/// Returns a host with secrets at a target that knows the first ones.
fn with_secrets(own: Option<u8>, controller: Option<u8>) -> Bench {
    let credentials =
        own.map(|own| Arc::new(Credentials::new(secret(own), controller.map(secret))));
    let mut bench = Bench::new(Settings { credentials, ..settings() }, config());
    let pairs = vec![SecretPair { host: secret(1), controller: Some(secret(2)) }];
    let (hashes, groups) = (vec![Hash::Sha512], vec![Group::Ffdhe2048]);
    bench.service.set_host_secrets(HOST, Some(HostSecrets { pairs, hashes, groups }));
    bench.host.connect(bench.now);
    bench.run();
    bench
}

#[test]
fn admin_queue_authenticates_one_or_both_ways() {
    for controller in [None, Some(2)] {
        let bench = with_secrets(Some(1), controller);
        assert!(matches!(bench.told[..], [Action::Ready]), "{:?}", bench.told);
    }
}

#[test]
fn failed_authentication_ends_host_with_reason() {
    for (own, controller, why) in [
        (None, None, AuthError::NoSecret),
        (Some(9), None, AuthError::Refused(AuthFailure::Failed)),
        (Some(1), Some(9), AuthError::Controller(AuthFailure::Failed)),
    ] {
        let bench = with_secrets(own, controller);
        assert_eq!(bench.ended(), Some(&HostError::NotAuthenticated { qid: 0, why }));
    }
}

#[test]
fn io_queue_authenticates_only_on_demand() {
    let bench = with_secrets(Some(1), None);
    let connector = bench.host.io_connector();
    assert!(connector.authentication(1, 7).is_ok_and(|none| none.is_none()));
    let (mut begun, first) = connector.authentication(1, 7 | 1 << 17).unwrap().unwrap();
    assert_eq!(first[..2], [0, 0]);
    assert!(matches!(begun.sent(), Next::Receive));
    let channel = connector.authentication(1, 7 | 1 << 18).unwrap_err();
    assert_eq!(channel, HostError::NotAuthenticated { qid: 1, why: AuthError::Channel });
}
