//! Tests of the state machine of one queue with hosts that have a key of TLS made.

use proptest::prelude::*;
use zerocopy::IntoBytes;

use super::keyed_host::{Host, LINUX, OWN};
use super::*;
use crate::controller::GeneratedKey;
use crate::fabrics::{AuthKind, Success2};
use crate::tls_psk::{Identity, IdentityKind, PskLength};

/// Returns a queue of a host with secrets, on which making a key was agreed on or not.
fn agreeing(agreed: Concatenation) -> Queue {
    Queue::agreeing(agreed, secrets(&[(OWN, Some(6))]))
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
                let leaves = queue.authentication.is_concatenated();
                assert_eq!(leaves, channel == Concatenation::New);
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
    let mut queue = agreeing(Concatenation::New);
    queue.make_key(LINUX).unwrap();
    assert_eq!(queue.make_key(LINUX), Err(AuthFailure::Concatenation));
    let mut queue = agreeing(Concatenation::New);
    queue.make_key(LINUX).unwrap();
    queue.key().unwrap();
    queue.make_key(plain).unwrap();
    assert!(queue.authentication.is_concatenated(), "a proof makes nothing undone");
}

#[test]
fn key_of_removed_secret_is_void() {
    let mut queue = agreeing(Concatenation::New);
    queue.make_key(LINUX).unwrap();
    let among = |secrets: HostSecrets| {
        move |secret: &Secret| secrets.pairs.iter().position(|pair| pair.host == *secret)
    };
    assert!(queue.authentication.take_key(among(secrets(&[(7, Some(6))]))).is_none());
    let mut queue = agreeing(Concatenation::New);
    queue.make_key(LINUX).unwrap();
    assert!(queue.authentication.take_key(|_| None::<usize>).is_none());
    let mut queue = agreeing(Concatenation::New);
    queue.make_key(LINUX).unwrap();
    assert!(queue.authentication.take_key(among(secrets(&[(7, None), (OWN, None)]))).is_some());
}

/// A step of a host that does not know the secret.
#[derive(Clone, Debug)]
enum Move {
    Fetch,
    /// Sends one of a good host's messages, recorded elsewhere, with a bit of it changed or not.
    Replay(usize, Option<usize>),
    /// Negotiates or answers with another secret.
    Negotiate(u8),
    Reply,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        4 => Just(Move::Fetch),
        3 => (0usize..3, prop::option::of(0usize..600)).prop_map(|(at, bit)| Move::Replay(at, bit)),
        2 => (0u8..5).prop_map(Move::Negotiate),
        2 => Just(Move::Reply),
    ];
    prop::collection::vec(one, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn wrong_secret_negotiates_no_key(moves in moves()) {
        let mut good = agreeing(Concatenation::New);
        good.count = 100;
        let first = LINUX.negotiate();
        good.send(&first);
        let (reply, _) = LINUX.reply(&good.fetch().1, NAMES);
        let recorded = [first, reply, Success2::new(7).as_bytes().to_vec()];
        let mut queue = agreeing(Concatenation::New);
        let mut fetched = Vec::new();
        for step in moves {
            let wrong = Host { own: 9, ..LINUX };
            match step {
                Move::Fetch => {
                    let (received, message) = queue.fetch();
                    prop_assert_ne!(received, ReceiveOutcome::Proved);
                    fetched = message;
                }
                Move::Replay(at, bit) => {
                    let mut message = recorded[at].clone();
                    if let Some(bit) = bit {
                        let byte = bit / 8 % message.len();
                        message[byte] ^= 1 << (bit % 8);
                    }
                    prop_assert_ne!(queue.send(&message), Took::Proved);
                }
                Move::Negotiate(channel) => {
                    let message = Host { channel, ..wrong }.negotiate();
                    prop_assert_ne!(queue.send(&message), Took::Proved);
                }
                Move::Reply if fetched.get(..2) == Some(&AuthKind::Challenge.ids()) => {
                    prop_assert_ne!(queue.send(&wrong.reply(&fetched, NAMES).0), Took::Proved);
                }
                Move::Reply => {}
            }
            prop_assert!(queue.key().is_none());
            prop_assert!(!queue.authentication.is_open());
        }
    }
}
