//! Tests of the state machine of one queue with hosts that have a key of TLS made.

use proptest::prelude::*;
use zerocopy::IntoBytes;

use super::keyed_host::{Host, LINUX, OWN};
use super::*;
use crate::controller::GeneratedKey;
use crate::fabrics::{AuthHeader, AuthKind, Success2};
use crate::tls_psk::{Identity, IdentityKind, PskLength};

/// Returns a queue of a host with secrets, on which making a key was agreed on or not.
fn agreeing(agreed: Concatenation) -> Queue {
    Queue::agreeing(agreed, secrets(&[(OWN, Some(6))]))
}

/// Returns a queue on which a key has been made.
fn with_key() -> Queue {
    let mut queue = agreeing(Concatenation::New);
    queue.make_key(LINUX).unwrap();
    queue
}

impl Queue {
    /// Generates a key with a host. Returns the host's key, or how the target ended the exchange.
    fn make_key(&mut self, host: Host) -> Result<GeneratedKey, AuthFailure> {
        self.send(&host.negotiate());
        let (received, challenge) = self.fetch();
        if let ReceiveOutcome::Failed(why) = received {
            return Err(why);
        }
        assert!(self.key().is_none(), "before the proof");
        let (reply, key) = host.reply(&challenge, NAMES);
        self.send(&reply);
        match self.fetch().0 {
            ReceiveOutcome::Failed(why) => return Err(why),
            ReceiveOutcome::Proved => assert_eq!(host.sequence, 0),
            ReceiveOutcome::Going => {
                assert!(self.key().is_none(), "before the host has said that it is content");
                assert_eq!(self.send(Success2::new(7).as_bytes()), Took::Proved);
            }
        }
        Ok(key.unwrap())
    }

    fn key(&mut self) -> Option<GeneratedKey> {
        self.authentication.take_key(|_| Some(())).map(|(key, ())| key)
    }
}

#[test]
fn both_ends_derive_the_same_key() {
    for channel in [Concatenation::New, Concatenation::Replace] {
        for (hash, length) in
            [(Hash::Sha256, PskLength::Bytes32), (Hash::Sha384, PskLength::Bytes48)]
        {
            for sequence in [0, 9] {
                let known = HostSecrets { hashes: vec![hash], ..secrets(&[(OWN, Some(6))]) };
                let mut queue = Queue::agreeing(channel, known);
                let host = queue.make_key(Host { sequence, ..Host::asking(channel) }).unwrap();
                assert!(queue.authentication.is_open());
                let target = queue.key().unwrap();
                assert_eq!(target, host, "{channel:?} {hash:?} {sequence}");
                assert!(queue.key().is_none(), "once");
                let identity = Identity::read(target.identity.as_bytes()).unwrap();
                assert!(matches!(identity.kind, IdentityKind::Generated(_)));
                assert_eq!((identity.host, identity.subsystem), (NAMES.host, NAMES.subsystem));
                assert_eq!((identity.length, target.psk.length), (length, length));
                assert_eq!(queue.authentication.is_concatenated(), channel == Concatenation::New);
            }
        }
    }
}

#[test]
fn key_is_negotiated_if_agreed_and_long_enough() {
    use Concatenation::{New, Replace};
    type Bend = fn(&mut Host);
    let table: [(&str, Concatenation, Bend, AuthFailure); 13] = [
        ("none agreed", Concatenation::None, |_| (), AuthFailure::Concatenation),
        ("a new one in the place of one", Replace, |_| (), AuthFailure::Concatenation),
        ("another one where there is none", New, |h| h.channel = 3, AuthFailure::Concatenation),
        ("SC", New, |h| h.channel = 1, AuthFailure::Concatenation),
        ("unknown", New, |h| h.channel = 4, AuthFailure::Concatenation),
        ("no group", New, |h| h.groups = &[Group::Null], AuthFailure::Group),
        ("SHA-512", New, |h| h.hashes = &[Hash::Sha512], AuthFailure::Hash),
        ("no challenge", New, |h| h.cvalid = 0, AuthFailure::Payload),
        ("bad challenge", New, |h| h.cvalid = 2, AuthFailure::Payload),
        ("another secret", New, |h| h.own = 9, AuthFailure::Failed),
        ("a proof without the key", New, |h| h.proved = 0, AuthFailure::Failed),
        ("a proof for another key", New, |h| h.proved = 3, AuthFailure::Failed),
        ("a key, changed to none", New, |h| h.channel = 0, AuthFailure::Payload),
    ];
    for (what, agreed, bend, why) in table {
        let mut host = LINUX;
        bend(&mut host);
        let mut queue = agreeing(agreed);
        assert_eq!(queue.make_key(host), Err(why), "{what}");
        assert!(queue.key().is_none(), "{what}");
        assert!(!queue.authentication.is_concatenated(), "{what}");
    }
    // With a challenge of its own, so that it is one of which a key could be made.
    let mut queue = agreeing(New);
    assert_eq!(queue.make_key(Host { channel: 0, sequence: 9, ..LINUX }), Err(AuthFailure::Failed));
    let hashes = vec![Hash::Sha512, Hash::Sha384];
    let mut weak = Queue::agreeing(New, HostSecrets { hashes, ..secrets(&[(OWN, Some(6))]) });
    let key = weak.make_key(Host { groups: &Group::ALL, ..LINUX }).unwrap();
    assert_eq!(key.psk.length, PskLength::Bytes48, "the best one of which there can be a key");
}

#[test]
fn authenticated_queue_negotiates_no_first_key() {
    let mut queue = agreeing(Concatenation::New);
    let plain = Host { sequence: 9, ..Host::asking(Concatenation::None) };
    queue.make_key(plain).unwrap();
    assert!(queue.key().is_none() && !queue.authentication.is_concatenated());
    assert_eq!(queue.make_key(LINUX), Err(AuthFailure::Concatenation));
    assert_eq!(with_key().make_key(LINUX), Err(AuthFailure::Concatenation));
    let mut queue = with_key();
    queue.key().unwrap();
    queue.make_key(plain).unwrap();
    assert!(queue.authentication.is_concatenated(), "a proof makes nothing undone");
}

/// A step of a host that does not know the secret.
#[derive(Clone, Debug)]
enum Move {
    Send(Vec<u8>),
    Fetch,
    /// Sends one of a good host's messages, recorded elsewhere, with a bit of it changed or not.
    Replay(usize, Option<usize>),
    /// Negotiates with another secret.
    Negotiate(u8),
    /// Fetches, and answers a challenge with another secret.
    Reply,
}

fn moves(most: usize) -> impl Strategy<Value = Vec<Move>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..200);
    let ids = prop::sample::select(&AuthKind::ALL[..]).prop_map(AuthKind::ids);
    let message = (ids, 5u8..9, bytes()).prop_map(|(ids, transaction, rest)| {
        [&ids[..], &[0, 0, transaction, 0], &rest[..]].concat()
    });
    let one = prop_oneof![
        3 => message.prop_map(Move::Send),
        1 => bytes().prop_map(Move::Send),
        4 => Just(Move::Fetch),
        3 => (0usize..3, prop::option::of(0usize..600)).prop_map(|(at, bit)| Move::Replay(at, bit)),
        2 => (0u8..5).prop_map(Move::Negotiate),
        2 => Just(Move::Reply),
    ];
    prop::collection::vec(one, 0..most)
}

proptest! {
    // Exchanges that negotiate a key take long.
    #![proptest_config(ProptestConfig::with_cases(320))]
    #[test]
    fn wrong_secret_negotiates_no_key(
        (agreed, groups, moves) in prop_oneof![
            5 => (Just(Concatenation::None), Just(&[Group::Null][..]), moves(30)),
            1 => (Just(Concatenation::New), Just(LINUX.groups), moves(12)),
        ],
    ) {
        let new_queue = || {
            Queue::agreeing(agreed, HostSecrets { groups: groups.to_vec(), ..secrets(&[(OWN, Some(6))]) })
        };
        let host = Host { groups, sequence: 9, ..Host::asking(agreed) };
        let mut good = new_queue();
        good.count = 100;
        let first = host.negotiate();
        good.send(&first);
        let (reply, _) = host.reply(&good.fetch().1, NAMES);
        let recorded = [first, reply, Success2::new(7).as_bytes().to_vec()];
        good.send(&recorded[1]);
        good.fetch();
        prop_assert_eq!(good.send(&recorded[2]), Took::Proved, "the recorded exchange is good");
        let mut queue = new_queue();
        let cvalid = u8::from(agreed == Concatenation::New);
        let wrong = Host { own: 9, sequence: 0, cvalid, ..host };
        for step in moves {
            let message = match step {
                Move::Fetch | Move::Reply => {
                    let (received, message) = queue.fetch();
                    prop_assert_ne!(received, ReceiveOutcome::Proved);
                    prop_assert!(AuthHeader::read(&message).is_some());
                    let is_challenge = message[..2] == AuthKind::Challenge.ids();
                    (is_challenge && matches!(step, Move::Reply))
                        .then(|| wrong.reply(&message, NAMES).0)
                }
                Move::Send(message) => Some(message),
                Move::Replay(at, bit) => {
                    let mut message = recorded[at].clone();
                    if let Some(bit) = bit {
                        let byte = bit / 8 % message.len();
                        message[byte] ^= 1 << (bit % 8);
                    }
                    Some(message)
                }
                Move::Negotiate(channel) => Some(Host { channel, ..wrong }.negotiate()),
            };
            prop_assert!(message.is_none_or(|message| queue.send(&message) != Took::Proved));
            prop_assert!(queue.key().is_none() && !queue.authentication.is_open());
        }
    }
}
