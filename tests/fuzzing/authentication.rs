//! `authentication`: a host that does not know its secret sends what it likes on queues that it would
//! have to prove itself on, while time passes and connections end; and its controller sends the same
//! to a host that wants a proof.
//!
//! The input is a list of steps: a byte that says what happens, then what it needs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fabric::Nanos;
use fabric::controller::{
    Action, ConnectionId, ForgottenKeys, GeneratedKey, GeneratedKeys, ListenerId, ListenerSpec,
    Reply, SecretNumber, SecureChannel, Service, ServiceConfig, SmartCounters,
};
use fabric::dhchap::proof::Names;
use fabric::dhchap::{Group, Hash, HostSecrets, RANDOM_BYTES, Random, Secret, SecretPair};
use fabric::fabrics::AuthKind;
use fabric::host::authentication::{Authentication, Credentials, MESSAGE_ROOM, Next};
use fabric::host::commands;
use fabric::key_file::KeyFile;
use fabric::nvme::{SglDescriptor, Sqe};
use zerocopy::little_endian::U16;

use super::capsule::{listener, subsystem};
use super::input::{byte, bytes};

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:a";
const SUBSYSTEM: &str = "nqn.2026-01.a:one";
const LISTENER: ListenerId = ListenerId(0);
/// Connections at one time.
const CONNECTIONS: usize = 4;
/// Actions that one step may bring about.
const ACTIONS: usize = 64;

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut bench = Bench::new();
    let mut rest = data;
    while !rest.is_empty() {
        match byte(&mut rest) & 7 {
            0 => bench.connect(),
            1 | 2 => bench.send(&mut rest),
            3 | 4 => bench.fetch(&mut rest),
            5 => bench.negotiate(&mut rest),
            6 => bench.pass(&mut rest),
            _ => bench.end(&mut rest),
        }
        bench.act();
        bench.check();
    }
    ask(data);
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(file) = KeyFile::parse(text)
    {
        let again = KeyFile::parse(&file.text());
        assert_eq!(again.as_ref(), Ok(&file), "written and read again");
    }
}

fn secret(tag: u8) -> Secret {
    Secret::generate(&[tag; 64], Some(Hash::Sha256))
}

/// Who keeps keys of TLS that a proof has made: there is no proof here.
#[derive(Debug)]
struct NoKeys;

impl GeneratedKeys for NoKeys {
    fn keep(&self, _: Nanos, names: Names<'_>, _: GeneratedKey, _: SecretNumber) {
        assert_ne!(names.host, HOST, "a key was made without a proof");
    }

    fn forget(&self, _: &str, _: ForgottenKeys<'_>) {}
}

struct Bench {
    service: Service,
    now: Nanos,
    open: Vec<ConnectionId>,
    last: u64,
    /// Commands that are completed later.
    deferred: BTreeMap<(ConnectionId, u16), u32>,
    /// Pieces of work that were done.
    done: u8,
}

impl Bench {
    fn new() -> Self {
        let now = Nanos(1 << 40);
        let mut service = Service::new(ServiceConfig::default()).expect("limits that can be");
        let listener =
            ListenerSpec { secure_channel: SecureChannel::Allowed, ..listener(LISTENER.0) };
        service.add_listener(now, listener).expect("a listener");
        service.add_subsystem(now, subsystem(SUBSYSTEM, true)).expect("a subsystem");
        let pairs = vec![SecretPair { host: secret(1), controller: Some(secret(2)) }];
        // Without a group where the host offers that, so that an input is soon run; keys of TLS need one.
        let (hashes, groups) = (Hash::ALL.to_vec(), vec![Group::Null, Group::Ffdhe2048]);
        service.set_generated_keys(Arc::new(NoKeys));
        service.set_host_secrets(HOST, Some(HostSecrets { pairs, hashes, groups }));
        Self { service, now, open: Vec::new(), last: 0, deferred: BTreeMap::new(), done: 0 }
    }

    fn pick(&self, data: &mut &[u8]) -> Option<ConnectionId> {
        let index = usize::from(byte(data));
        self.open.get(index % self.open.len().max(1)).copied()
    }

    fn connect(&mut self) {
        if self.open.len() >= CONNECTIONS {
            return;
        }
        self.last += 1;
        let connection = ConnectionId(self.last);
        let data = commands::connect_data([7; 16], 0xffff, SUBSYSTEM, HOST);
        let sqe = commands::connect(0, 31, 0, None);
        if let Ok(connected) = self.service.connect(self.now, connection, LISTENER, &sqe, &data) {
            assert!(connected.authentication, "no proof is demanded");
            self.open.push(connection);
        }
    }

    fn command(&mut self, connection: ConnectionId, sqe: Sqe, data: &[u8], length: u32) -> Vec<u8> {
        let cid = u16::try_from(self.deferred.len() & 3).unwrap_or(0);
        let sgl = SglDescriptor::transport(length);
        let sqe = Sqe { cid: U16::new(cid), sgl, flags: 0x40, ..sqe };
        let (smart, mut out) = (SmartCounters::default(), Vec::new());
        let reply = self.service.admin(self.now, connection, &sqe, data, &smart, &mut out);
        assert!(
            out.len() <= usize::try_from(length).expect("a length"),
            "more than it has room for"
        );
        if reply == Reply::Deferred {
            *self.deferred.entry((connection, cid)).or_default() += 1;
        }
        out
    }

    /// Sends a message: any bytes, or a kind of message with any bytes behind its head.
    fn send(&mut self, data: &mut &[u8]) {
        let Some(connection) = self.pick(data) else { return };
        let (kind, length) = (byte(data), usize::from(byte(data)));
        let rest = bytes(data, length);
        let kind = AuthKind::ALL.get(usize::from(kind & 7));
        let head: Vec<u8> =
            kind.map(|kind| [&kind.ids()[..], &[0, 0, 1, 0]].concat()).unwrap_or_default();
        self.send_message(connection, &[&head, rest].concat());
    }

    fn send_message(&mut self, connection: ConnectionId, message: &[u8]) {
        let length = u32::try_from(message.len()).expect("a length");
        self.command(connection, commands::authentication_send(length), message, length);
    }

    fn fetch(&mut self, data: &mut &[u8]) {
        let Some(connection) = self.pick(data) else { return };
        let room = u32::from(byte(data)) * 4;
        self.command(connection, commands::authentication_receive(room), &[], room);
    }

    /// Begins as a host does that keeps the rules and has another secret; the two upper bits of the next byte
    /// are SC_C, by which it asks for a key of TLS.
    fn negotiate(&mut self, data: &mut &[u8]) {
        let channel = data.first().map_or(0, |byte| byte >> 6);
        let Some(connection) = self.pick(data) else { return };
        let names = Names { host: HOST, subsystem: SUBSYSTEM };
        let credentials = Arc::new(Credentials::new(secret(9), None));
        let (_, mut first) = Authentication::begin(credentials, names, 1);
        // SC_C of AUTH_Negotiate.
        if let Some(byte) = first.get_mut(6) {
            *byte = channel;
        }
        self.send_message(connection, &first);
    }

    fn pass(&mut self, data: &mut &[u8]) {
        self.now = self.now + Duration::from_millis(u64::from(byte(data)) * 500);
        if let Some(next) = self.service.tick(self.now) {
            assert!(next >= self.now, "a timer that is due stays so");
        }
    }

    fn end(&mut self, data: &mut &[u8]) {
        if let Some(connection) = self.pick(data) {
            self.close(connection);
        }
    }

    fn close(&mut self, connection: ConnectionId) {
        self.open.retain(|open| *open != connection);
        self.deferred.retain(|(of, _), _| *of != connection);
        self.service.disconnected(self.now, connection);
    }

    fn act(&mut self) {
        let mut count = 0;
        while let Some(action) = self.service.poll_action() {
            count += 1;
            assert!(count <= ACTIONS, "more than {ACTIONS} actions for one step");
            match action {
                Action::Complete { connection, cid, .. } => {
                    let left = self.deferred.get_mut(&(connection, cid));
                    let left = left.expect("a completion that nobody waits for");
                    *left = left.checked_sub(1).expect("a second completion");
                    self.deferred.retain(|_, left| *left > 0);
                }
                Action::Close { connection, .. } => self.close(connection),
                Action::Authenticate { connection } => {
                    self.done = self.done.wrapping_add(1);
                    let random = Random::new([self.done; RANDOM_BYTES]);
                    let work = self.service.authentication_work(connection);
                    let worked = work.map(|work| work.run(&random));
                    self.service.authentication_worked(connection, worked);
                }
                Action::Abort { .. } | Action::TableChanged { .. } => {}
            }
        }
    }

    /// Checks that nobody got in, and that no command waits for ever.
    fn check(&self) {
        assert!(self.deferred.is_empty(), "a command waits for work that is done");
        for connection in &self.open {
            assert!(!self.service.is_authenticated(*connection), "in without the secret");
        }
    }
}

/// Answers a host that wants the controller to prove itself with arbitrary messages.
fn ask(mut data: &[u8]) {
    let names = Names { host: HOST, subsystem: SUBSYSTEM };
    let credentials =
        Credentials { groups: vec![Group::Null], ..Credentials::new(secret(1), Some(secret(2))) };
    let (mut host, _) = Authentication::begin(Arc::new(credentials), names, 1);
    let mut next = host.sent();
    for _ in 0..16 {
        next = match next {
            Next::Send(message) => {
                let most = usize::try_from(MESSAGE_ROOM).expect("a length");
                assert!(message.len() <= most, "a message of {} bytes", message.len());
                host.sent()
            }
            Next::Receive => {
                let length = usize::from(byte(&mut data));
                host.received(bytes(&mut data, length))
            }
            Next::Work(work) => host.worked(work.run(&Random::new([3; RANDOM_BYTES]))),
            Next::Over(end) => {
                assert!(end.is_err(), "a controller that proved nothing");
                return;
            }
        };
    }
}
