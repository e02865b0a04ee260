//! Tests of the state machine of one queue, message by message.

use proptest::prelude::*;

use super::*;
use crate::fabrics::{AuthHeader, AuthKind};
use crate::host::authentication::{AuthError, Next};

impl Queue {
    fn failure(&mut self) -> AuthFailure {
        let (received, message) = self.fetch();
        let (kind, _) = AuthHeader::read(&message).unwrap();
        assert_eq!((kind, message.len()), (AuthKind::Failure1, 8));
        assert_eq!(message[6], 1);
        let why = AuthFailure::from_id(message[7]);
        assert_eq!(received, ReceiveOutcome::Failed(why));
        assert!(!self.authentication.is_open());
        why
    }

    /// Runs a host's authentication. Returns its result for the host, and every message.
    fn run(&mut self, host: (host::Authentication, Vec<u8>)) -> (Result<(), AuthError>, Messages) {
        let (mut host, first) = host;
        let mut next = Next::Send(first);
        let (mut sent, mut fetched) = (Vec::new(), Vec::new());
        loop {
            next = match next {
                Next::Send(message) => {
                    self.send(&message);
                    sent.push(message);
                    host.sent()
                }
                Next::Receive => {
                    let (_, message) = self.fetch();
                    fetched.push(message.clone());
                    host.received(&message)
                }
                Next::Work(work) => host.worked(work.run(&random(&mut self.count))),
                Next::Over(end) => return (end, Messages { sent, fetched }),
            };
        }
    }
}

#[derive(Debug)]
struct Messages {
    sent: Vec<Vec<u8>>,
    fetched: Vec<Vec<u8>>,
}

#[test]
fn all_hashes_and_groups_authenticate() {
    let groups = [Group::Null, Group::Ffdhe2048, Group::Ffdhe3072];
    for (hash, group) in Hash::ALL.into_iter().flat_map(|hash| groups.map(|group| (hash, group))) {
        for both in [false, true] {
            let known = secrets(&[(5, Some(6))]);
            let mut queue =
                Queue::new(HostSecrets { hashes: vec![hash], groups: vec![group], ..known });
            assert!(!queue.authentication.is_open());
            let (end, messages) = queue.run(begin(credentials(5, both.then_some(6)), 77));
            assert_eq!(end, Ok(()), "{hash:?} {group:?} {both}");
            assert!(queue.authentication.is_open());
            assert!(queue.authentication.until().is_none());
            let challenge = &messages.fetched[0];
            assert_eq!(challenge.len(), 16 + hash.length() + group.length());
            assert_eq!((challenge[8], challenge[9]), (hash.id(), group.id()));
            assert_eq!(messages.sent.len(), if both { 3 } else { 2 });
            assert_eq!(messages.fetched[1].len(), if both { 16 + hash.length() } else { 16 });
        }
    }
}

#[test]
fn wrong_secret_on_either_side_ends_with_reason() {
    let refused = Err(AuthError::Refused(AuthFailure::Failed));
    let wrong = Err(AuthError::Controller(AuthFailure::Failed));
    for (what, known, own, controller, end) in [
        ("another secret", Some(6), 9, None, refused),
        ("the host gives up before it is let in", Some(6), 5, Some(9), wrong),
        ("no secret to prove", None, 5, Some(6), refused),
        ("the controller's secret", Some(6), 6, None, refused),
    ] {
        let mut queue = Queue::new(secrets(&[(5, known)]));
        assert_eq!(queue.run(begin(credentials(own, controller), 1)).0, end, "{what}");
        assert!(!queue.authentication.is_open(), "{what}");
    }
}

#[test]
fn both_secrets_are_valid_during_rotation() {
    let pairs = [(5, Some(6)), (7, Some(9))];
    for (own, controller) in [(5, 6), (7, 9)] {
        let mut queue = Queue::new(secrets(&pairs));
        assert_eq!(queue.run(begin(credentials(own, Some(controller)), 1)).0, Ok(()));
    }
    let mut crossed = Queue::new(secrets(&pairs));
    assert!(crossed.run(begin(credentials(5, Some(9)), 1)).0.is_err());
}

#[test]
fn target_chooses_its_favourite_offer() {
    let known = || HostSecrets {
        hashes: vec![Hash::Sha384, Hash::Sha256],
        groups: vec![Group::Ffdhe3072, Group::Ffdhe2048],
        ..secrets(&[(5, None)])
    };
    let offer = |hashes: &[Hash], groups: &[Group]| {
        let credentials = Credentials {
            hashes: hashes.to_vec(),
            groups: groups.to_vec(),
            ..credentials(5, None)
        };
        Queue::new(known()).run(begin(credentials, 1))
    };
    let (end, messages) = offer(&Hash::ALL, &Group::ALL);
    assert_eq!(end, Ok(()));
    assert_eq!(messages.fetched[0][8..10], [Hash::Sha384.id(), Group::Ffdhe3072.id()]);
    let (end, messages) = offer(&[Hash::Sha256], &[Group::Null, Group::Ffdhe2048]);
    assert_eq!(end, Ok(()));
    assert_eq!(messages.fetched[0][8..10], [Hash::Sha256.id(), Group::Ffdhe2048.id()]);
    // Somebody on the way, or the host, wants it weaker.
    let refused = |why| Err(AuthError::Refused(why));
    assert_eq!(offer(&Hash::ALL, &[Group::Null]).0, refused(AuthFailure::Group));
    assert_eq!(offer(&[Hash::Sha512], &Group::ALL).0, refused(AuthFailure::Hash));
    assert_eq!(offer(&[], &Group::ALL).0, refused(AuthFailure::Hash));
    assert_eq!(offer(&Hash::ALL, &[]).0, refused(AuthFailure::Group));
}

#[test]
fn malformed_negotiation_is_refused_with_reason() {
    let good = begin(credentials(5, None), 1).1;
    type Bend = fn(&mut Vec<u8>);
    let table: [(&str, Bend, AuthFailure); 9] = [
        ("secure channel", |m| m[6] = 1, AuthFailure::Concatenation),
        ("no protocol", |m| m[7] = 0, AuthFailure::Payload),
        ("more protocols than there are", |m| m[7] = 2, AuthFailure::Payload),
        ("other protocol", |m| m[8] = 2, AuthFailure::Protocol),
        ("hashes beyond the list", |m| m[10] = 31, AuthFailure::Payload),
        ("groups beyond the list", |m| m[11] = 31, AuthFailure::Payload),
        ("cut", |m| m.truncate(71), AuthFailure::Payload),
        ("longer", |m| m.push(0), AuthFailure::Payload),
        ("not a message", |m| m[1] = 9, AuthFailure::Message),
    ];
    for (what, bend, why) in table {
        let mut message = good.clone();
        bend(&mut message);
        let mut queue = Queue::new(secrets(&[(5, None)]));
        assert_eq!(queue.send(&message), Took::Going, "{what}");
        assert_eq!(queue.failure(), why, "{what}");
    }
    let mut unknown = Queue::new(secrets(&[(5, None)]));
    unknown.secrets = None;
    unknown.send(&good);
    assert_eq!(unknown.failure(), AuthFailure::Protocol, "a host without secrets");
    let mut queue = Queue::new(secrets(&[(5, None)]));
    let mut two = good.clone();
    two[7] = 2;
    let protocol = two[8..].to_vec();
    two[8] = 0x55;
    two.extend(protocol);
    queue.send(&two);
    assert_eq!(queue.fetch().0, ReceiveOutcome::Going, "the second protocol is the known one");
}

/// Returns a queue that waits for a reply, and the host's reply.
fn replying(known: HostSecrets, own: Credentials) -> (Queue, Vec<u8>) {
    let mut queue = Queue::new(known);
    let (mut host, first) = begin(own, 5);
    queue.send(&first);
    host.sent();
    let Next::Work(work) = host.received(&queue.fetch().1) else { panic!("no challenge") };
    let Next::Send(reply) = host.worked(work.run(&random(&mut queue.count))) else {
        panic!("no reply");
    };
    (queue, reply)
}

fn ffdhe2048() -> HostSecrets {
    HostSecrets { groups: vec![Group::Ffdhe2048], ..secrets(&[(5, Some(6))]) }
}

#[test]
fn malformed_reply_is_refused_with_reason() {
    type Bend = fn(&mut Vec<u8>);
    let table: [(&str, Bend, AuthFailure); 11] = [
        ("other transaction", |m| m[4] ^= 1, AuthFailure::Payload),
        ("length of the hash", |m| m[6] = 48, AuthFailure::Payload),
        ("challenge valid", |m| m[8] = 2, AuthFailure::Payload),
        ("length of the value", |m| m[10] = 4, AuthFailure::Payload),
        ("no sequence number", |m| m[12..16].fill(0), AuthFailure::Payload),
        ("head alone", |m| m.truncate(16), AuthFailure::Payload),
        ("no head", |m| m.truncate(8), AuthFailure::Payload),
        ("a byte less", |m| m.truncate(m.len() - 1), AuthFailure::Payload),
        ("a byte more", |m| m.push(0), AuthFailure::Payload),
        ("value of one", |m| one(&mut m[16 + 64..]), AuthFailure::Group),
        ("other response", |m| m[16] ^= 1, AuthFailure::Failed),
    ];
    fn one(value: &mut [u8]) {
        value.fill(0);
        *value.last_mut().unwrap() = 1;
    }
    for (what, bend, why) in table {
        let (mut queue, mut reply) = replying(ffdhe2048(), credentials(5, Some(6)));
        bend(&mut reply);
        assert_eq!(queue.send(&reply), Took::Going, "{what}");
        assert_eq!(queue.failure(), why, "{what}");
    }
    let (mut queue, reply) = replying(ffdhe2048(), credentials(5, Some(6)));
    queue.send(&reply);
    assert_eq!(queue.fetch().0, ReceiveOutcome::Going, "the reply as it was is good");
}

#[test]
fn a_recorded_exchange_opens_no_other_queue() {
    let known = || HostSecrets { groups: vec![Group::Null], ..secrets(&[(5, None)]) };
    let mut queue = Queue::new(known());
    let (end, recorded) = queue.run(begin(credentials(5, None), 1));
    assert_eq!(end, Ok(()));
    // The queue's challenges are others, as its random bytes are.
    let mut replayed = Queue::new(known());
    replayed.count = 100;
    replayed.send(&recorded.sent[0]);
    assert_eq!(replayed.fetch().0, ReceiveOutcome::Going);
    replayed.send(&recorded.sent[1]);
    assert_eq!(replayed.failure(), AuthFailure::Failed);
}

#[test]
fn host_may_abort_authentication() {
    let (mut queue, _) = replying(ffdhe2048(), credentials(5, Some(6)));
    assert_eq!(queue.send(&[0, 0xf0, 0, 0, 5, 0, 1, 4]), Took::GivenUp(AuthFailure::Hash));
    assert!(!queue.authentication.is_open());
    assert!(!queue.authentication.is_under_way());
}

#[test]
fn message_during_work_ends_exchange() {
    let mut queue = Queue::new(ffdhe2048());
    let first = begin(credentials(5, None), 1).1;
    let sent = queue.sent(&first);
    let SendOutcome::Work(work) = sent else { panic!("{sent:?}") };
    let again = queue.sent(&first);
    assert!(matches!(again, SendOutcome::Taken), "no second piece of work: {again:?}");
    queue.authentication.worked(work.run(&random(&mut 0)), |seed| seed, NAMES);
    assert_eq!(queue.failure(), AuthFailure::Message);
}

proptest! {
    #[test]
    fn valid_host_authenticates_for_any_randomness(seed in any::<u8>(), both in any::<bool>()) {
        let known = HostSecrets { groups: vec![Group::Null], ..secrets(&[(5, Some(6))]) };
        let mut queue = Queue::new(known);
        queue.count = seed;
        let end = queue.run(begin(credentials(5, both.then_some(6)), u16::from(seed))).0;
        prop_assert_eq!(end, Ok(()));
    }
}
