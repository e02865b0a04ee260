//! Tests of the service with hosts that have keys of TLS made, and come again with them.

use std::sync::Mutex;

use zerocopy::FromBytes;

use super::keyed_host::{Host, LINUX, OWN};
use super::service::Queue;
use super::*;
use crate::controller::tests::{
    Bench, Connect, ENABLE, HOST, LISTENER as OFF, OTHER, SUBSYSTEM, TLS_ALLOWED as ALLOWED,
    TLS_REQUIRED as REQUIRED, command, identify, property_get, property_set, set_feature,
};
use crate::controller::{
    Connected, ConnectionId, ForgottenKeys, GeneratedKey, GeneratedKeys, ListenerId, Refusal,
    SecretNumber,
};
use crate::fabrics::{AuthFailure, AuthKind, Concatenation, FailureMessage, Success1Head};
use crate::nvme::Status;
use crate::nvme::opcode::FABRICS;

/// A host, a subsystem, and the key that was generated for both.
type NamedKey = (String, String, GeneratedKey);

/// The keys that the service has kept, in their order, with the secrets that they depend on.
#[derive(Debug, Default)]
struct Kept(Mutex<Vec<(NamedKey, SecretNumber)>>);

impl Kept {
    fn all(&self) -> Vec<NamedKey> {
        self.0.lock().unwrap().iter().map(|(key, _)| key.clone()).collect()
    }
}

impl GeneratedKeys for Kept {
    fn keep(&self, _: Nanos, names: Names<'_>, key: GeneratedKey, secret: SecretNumber) {
        let key = (names.host.to_owned(), names.subsystem.to_owned(), key);
        self.0.lock().unwrap().push((key, secret));
    }

    fn forget(&self, host: &str, which: ForgottenKeys<'_>) {
        let mut kept = self.0.lock().unwrap();
        kept.retain(|((of, subsystem, _), secret)| of != host || !which.has(subsystem, *secret));
    }
}

fn bench() -> (Bench, Arc<Kept>) {
    let (mut bench, kept) = (Bench::new(), Arc::new(Kept::default()));
    bench.add_tls_listeners();
    bench.service.set_generated_keys(Arc::clone(&kept) as Arc<dyn GeneratedKeys>);
    bench.service.set_host_secrets(HOST, Some(secrets(&[(OWN, Some(6))])));
    (bench, kept)
}

/// Connects an admin queue through a listener; over TLS where there is a key, which was generated or
/// not.
fn connect(
    bench: &mut Bench,
    listener: ListenerId,
    key: Option<bool>,
) -> (ConnectionId, Connected) {
    let (id, connected) = queue(bench, listener, key, (0, 0xffff));
    (id, connected.unwrap())
}

fn queue(
    bench: &mut Bench,
    listener: ListenerId,
    key: Option<bool>,
    (qid, controller): (u16, u16),
) -> (ConnectionId, Result<Connected, Refusal>) {
    if let Some(generated) = key {
        bench.secure_next(HOST, SUBSYSTEM, generated);
    }
    let connect = Connect { listener, ..Connect::new(SUBSYSTEM, qid, controller) };
    let (id, connected) = connect.send(bench);
    (id, connected.map_err(|rejected| rejected.reason))
}

/// Generates a host's key on a queue. Returns the host's key, or how the target ended the exchange.
fn exchange(bench: &mut Bench, queue: Queue, host: Host) -> Result<GeneratedKey, AuthFailure> {
    queue.send(bench, &host.negotiate());
    let challenge = queue.fetch(bench);
    failure(&challenge)?;
    let (reply, key) = host.reply(&challenge, NAMES);
    queue.send(bench, &reply);
    let success = queue.fetch(bench);
    failure(&success)?;
    let (head, _) = Success1Head::read_from_prefix(&success).unwrap();
    assert_eq!(head.rvalid, 0, "the controller was asked for no proof");
    Ok(key.unwrap())
}

fn failure(message: &[u8]) -> Result<(), AuthFailure> {
    if message[..2] != AuthKind::Failure1.ids() {
        return Ok(());
    }
    let (told, _) = FailureMessage::read_from_prefix(message).unwrap();
    Err(AuthFailure::from_id(told.explanation))
}

#[test]
fn generated_key_authenticates_every_queue() {
    let (mut bench, kept) = bench();
    let (plain, connected) = connect(&mut bench, ALLOWED, None);
    assert!(connected.authentication);
    let own = exchange(&mut bench, Queue::Admin(plain), LINUX).unwrap();
    assert_eq!(kept.all(), [(HOST.to_owned(), SUBSYSTEM.to_owned(), own)]);
    bench.disconnect(plain);
    for listener in [ALLOWED, REQUIRED] {
        let (admin, connected) = connect(&mut bench, listener, Some(true));
        assert!(!connected.authentication, "the key is the proof");
        bench.set_cc(admin, ENABLE);
        bench.ok(admin, &set_feature(7, 1 | 1 << 16));
        let (io, joined) = queue(&mut bench, listener, Some(true), (1, connected.controller.0));
        assert!(!joined.unwrap().authentication);
        assert!(bench.service.is_authenticated(io));
        let (_, plain) = queue(&mut bench, ALLOWED, None, (2, connected.controller.0));
        assert_eq!(plain.unwrap_err(), Refusal::OnlyWithTls, "data would go beside TLS");
    }
    // A key that somebody has given to both ends proves nothing: the secret counts beside it.
    let (admin, connected) = connect(&mut bench, ALLOWED, Some(false));
    assert!(connected.authentication && !bench.service.is_authenticated(admin));
}

#[test]
fn no_key_without_tls_or_on_io_queues() {
    for (listener, key, host) in [
        (OFF, None, LINUX),
        (ALLOWED, Some(false), LINUX),
        (ALLOWED, Some(false), Host::asking(Concatenation::Replace)),
        (ALLOWED, Some(true), LINUX),
        (REQUIRED, Some(true), LINUX),
        (ALLOWED, None, Host::asking(Concatenation::Replace)),
    ] {
        let (mut bench, kept) = bench();
        let (admin, _) = connect(&mut bench, listener, key);
        let refused = exchange(&mut bench, Queue::Admin(admin), host);
        assert_eq!(refused, Err(AuthFailure::Concatenation), "{listener:?} {key:?}");
        assert!(kept.all().is_empty());
    }
    let (mut bench, kept) = bench();
    for channel in [Concatenation::New, Concatenation::Replace] {
        let (admin, connected) = connect(&mut bench, ALLOWED, Some(true));
        bench.set_cc(admin, ENABLE);
        bench.ok(admin, &set_feature(7, 1 | 1 << 16));
        let (io, joined) = queue(&mut bench, ALLOWED, Some(true), (1, connected.controller.0));
        joined.unwrap();
        let refused = exchange(&mut bench, Queue::Io(io), Host::asking(channel));
        assert_eq!(refused, Err(AuthFailure::Concatenation));
    }
    assert!(kept.all().is_empty());
    // Nobody keeps keys.
    let mut bench = Bench::new();
    bench.add_tls_listeners();
    bench.service.set_host_secrets(HOST, Some(secrets(&[(OWN, Some(6))])));
    let (admin, _) = connect(&mut bench, ALLOWED, None);
    assert_eq!(exchange(&mut bench, Queue::Admin(admin), LINUX), Err(AuthFailure::Concatenation));
}

#[test]
fn negotiating_queue_carries_no_data() {
    let (mut bench, _) = bench();
    let (admin, connected) = connect(&mut bench, ALLOWED, None);
    exchange(&mut bench, Queue::Admin(admin), LINUX).unwrap();
    // CAP, of 8 bytes.
    bench.ok(admin, &property_get(0, 1));
    // The controller is not set up there.
    bench.fails(admin, &property_set(0x14, ENABLE), Status::AUTHENTICATION_REQUIRED);
    for opcode in (0..=u8::MAX).filter(|opcode| *opcode != FABRICS) {
        bench.fails(admin, &command(opcode, 3), Status::AUTHENTICATION_REQUIRED);
    }
    for key in [None, Some(true)] {
        let (_, refused) = queue(&mut bench, ALLOWED, key, (1, connected.controller.0));
        assert_eq!(refused.unwrap_err(), Refusal::NotEnabled);
    }
}

#[test]
fn failed_key_replacement_ends_the_queue() {
    let (mut bench, kept) = bench();
    let (admin, _) = connect(&mut bench, ALLOWED, Some(true));
    bench.set_cc(admin, ENABLE);
    let host = Host::asking(Concatenation::Replace);
    let own = exchange(&mut bench, Queue::Admin(admin), host).unwrap();
    assert_eq!(kept.all(), [(HOST.to_owned(), SUBSYSTEM.to_owned(), own)]);
    bench.ok(admin, &identify(1, 0));
    bench.ok(admin, &set_feature(7, 1 | 1 << 16));
    let refused = exchange(&mut bench, Queue::Admin(admin), Host { own: 9, ..host });
    assert_eq!(refused, Err(AuthFailure::Failed));
    assert!(!bench.service.is_authenticated(admin));
    assert_eq!(kept.all().len(), 1);
}

#[test]
fn keys_go_with_their_secret_and_with_their_host() {
    let made = |subsystem| {
        let (mut bench, kept) = bench();
        let (plain, _) = connect(&mut bench, ALLOWED, None);
        exchange(&mut bench, Queue::Admin(plain), LINUX).unwrap();
        if let Some(subsystem) = subsystem {
            kept.0.lock().unwrap()[0].0.1 = subsystem;
        }
        (bench, kept)
    };
    let both = secrets(&[(OWN, Some(6)), (7, None)]);
    for (new, stays) in [
        (Some(secrets(&[(OWN, Some(6))])), true),
        (Some(both.clone()), true),
        (Some(secrets(&[(7, None)])), false),
        (None, false),
    ] {
        let (mut bench, kept) = made(None);
        bench.service.set_host_secrets("nqn.other", None);
        assert_eq!(kept.all().len(), 1, "another host's secrets");
        bench.service.set_host_secrets(HOST, new);
        assert_eq!(kept.all().len(), usize::from(stays));
    }
    let (mut bench, kept) = made(None);
    bench.service.set_host_secrets(HOST, Some(both));
    bench.service.set_host_secrets(HOST, Some(secrets(&[(7, None)])));
    assert!(kept.all().is_empty(), "at the end of an exchange of secrets");
    for (subsystem, stays) in [(None, false), (Some(OTHER.to_owned()), true)] {
        let (mut bench, kept) = made(subsystem);
        bench.service.remove_host(bench.now, SUBSYSTEM, HOST).unwrap();
        assert_eq!(kept.all().len(), usize::from(stays));
    }
}

#[test]
fn removed_secret_removes_its_keys_only() {
    let (mut bench, kept) = bench();
    let both = |order: [u8; 2]| secrets(&order.map(|secret| (secret, None)));
    let made = |bench: &mut Bench, own| {
        let (plain, _) = connect(bench, ALLOWED, None);
        let key = exchange(bench, Queue::Admin(plain), Host { own, ..LINUX }).unwrap();
        bench.disconnect(plain);
        key
    };
    let keys = |kept: &Kept| kept.all().into_iter().map(|(_, _, key)| key).collect::<Vec<_>>();
    bench.service.set_host_secrets(HOST, Some(both([OWN, 7])));
    let (old, new) = (made(&mut bench, OWN), made(&mut bench, 7));
    // Neither their order nor the controller's secret counts.
    bench.service.set_host_secrets(HOST, Some(both([7, OWN])));
    bench.service.set_host_secrets(HOST, Some(secrets(&[(7, Some(6)), (OWN, None)])));
    assert_eq!(keys(&kept), [old, new.clone()]);
    bench.service.set_host_secrets(HOST, Some(secrets(&[(7, None)])));
    assert_eq!(keys(&kept), [new]);
    // A new secret in place of a removed one is another secret.
    bench.service.set_host_secrets(HOST, Some(both([8, 7])));
    let third = made(&mut bench, 8);
    bench.service.set_host_secrets(HOST, Some(secrets(&[(8, None)])));
    assert_eq!(keys(&kept), [third]);
    bench.service.set_host_secrets(HOST, Some(secrets(&[(9, None)])));
    assert!(kept.all().is_empty());
}

#[test]
fn secret_removed_during_exchange_leaves_no_key() {
    let (mut bench, kept) = bench();
    let (plain, _) = connect(&mut bench, ALLOWED, None);
    let queue = Queue::Admin(plain);
    queue.send(&mut bench, &LINUX.negotiate());
    let challenge = queue.fetch(&mut bench);
    queue.send(&mut bench, &LINUX.reply(&challenge, NAMES).0);
    bench.service.set_host_secrets(HOST, Some(secrets(&[(7, None)])));
    assert_eq!(failure(&queue.fetch(&mut bench)), Ok(()));
    assert!(kept.all().is_empty());
}

#[test]
fn generated_key_bypasses_failure_delays() {
    let (mut bench, _) = bench();
    let come = |bench: &mut Bench, key| {
        bench.service.accepted(ConnectionId(bench.connections + 1), [192, 0, 2, 1].into());
        queue(bench, ALLOWED, key, (0, 0xffff))
    };
    for _ in 0..4 {
        let (id, _) = come(&mut bench, None);
        assert!(exchange(&mut bench, Queue::Admin(id), Host { own: 9, ..LINUX }).is_err());
        bench.disconnect(id);
        bench.actions();
    }
    assert_eq!(come(&mut bench, None).1.unwrap_err(), Refusal::TooManyTries);
    assert_eq!(come(&mut bench, Some(false)).1.unwrap_err(), Refusal::TooManyTries);
    assert!(come(&mut bench, Some(true)).1.is_ok());
}
