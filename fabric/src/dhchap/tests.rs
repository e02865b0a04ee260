//! Tests of secrets, groups and proofs.

use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd, Uint};
use proptest::prelude::*;

use super::primes::{P2048, P3072, P4096, P6144, P8192};
use super::proof::{Challenge, Names};
use super::*;

const NAMES: Names<'_> =
    Names { host: "nqn.2014-08.org.nvmexpress:uuid:host", subsystem: "nqn.2024-01.test:one" };
/// The example of the specification.
const EXAMPLE: &str = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn counting<const N: usize>(from: u8) -> [u8; N] {
    core::array::from_fn(|index| from ^ u8::try_from(index & 255).unwrap())
}

#[test]
fn secrets_match_nvme_cli_format() {
    let table = [
        "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
        "DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:",
        "DHHC-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ==:",
        "DHHC-1:03:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4\
         OTo7PD0+P4zODhA=:",
    ];
    let transformations = [None, Some(Hash::Sha256), Some(Hash::Sha384), Some(Hash::Sha512)];
    let keys = [
        "000102030405060708090a0b0c0d0e0f",
        "d06bfe416d2de81dd5cccafd02bca7f6",
        "c157cd5cafc8bf44889b9a215ae863da",
        "4f4d1c876f01422769c184c36ecdb1e8",
    ];
    for ((text, transformation), key) in table.into_iter().zip(transformations).zip(keys) {
        let secret: Secret = text.parse().unwrap();
        assert_eq!(*secret.text(), text);
        assert_eq!(secret, Secret::generate(&counting(0), transformation), "{text}");
        assert_eq!(hex(&secret.key(NAMES.host)[..16]), key, "{text}");
        // As a file has it.
        assert_eq!(format!("{text}\n").parse(), Ok(secret));
    }
    for transformation in ["00", "01", "02", "03"] {
        let text = EXAMPLE.replace(":00:", &format!(":{transformation}:"));
        assert_eq!(*text.parse::<Secret>().unwrap().text(), text);
    }
}

#[test]
fn invalid_secret_is_refused_with_fault() {
    let transformation = SecretError::Transformation;
    let table = [
        ("", SecretError::Form),
        ("secret", SecretError::Form),
        ("DHHC-1:00", SecretError::Form),
        ("NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:", SecretError::Form),
        ("DHHC-1:04:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:", transformation),
        ("DHHC-1:1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:", transformation),
        ("DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaS:", SecretError::Checksum),
        ("DHHC-1:00:ABECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:", SecretError::Checksum),
        ("DHHC-1:00:AAECAw==:", SecretError::Length),
        ("DHHC-1:00::", SecretError::Length),
        ("DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:x:", SecretError::Form),
        ("DHHC-1:00:!!ECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:", SecretError::Form),
    ];
    for (text, fault) in table {
        assert_eq!(text.parse::<Secret>(), Err(fault), "{text}");
    }
}

#[test]
fn nothing_shows_a_secret() {
    let secret: Secret = EXAMPLE.parse().unwrap();
    let pair = SecretPair { host: secret.clone(), controller: Some(secret) };
    let all = HostSecrets { pairs: vec![pair], hashes: vec![], groups: vec![] };
    let work = Work { group: Group::Null, exponent: Some(Exponent::new(&[7; 64])), peer: None };
    let shared = work::Shared(zeroize::Zeroizing::new(vec![0x5a; 4]));
    let challenge = Challenge {
        hash: Hash::Sha256,
        transaction: 1,
        sequence: 1,
        value: &[1; 32],
        shared: &[0x5a; 4],
        channel: 0,
    };
    let random = Random::new([0x5a; RANDOM_BYTES]);
    let shown = format!("{all:?} {work:?} {shared:?} {random:?} {challenge:?}");
    let expected = "HostSecrets { pairs: [SecretPair { host: Secret(..), controller: \
                    Some(Secret(..)) }], hashes: [], groups: [] } Work { group: Null, exponent: \
                    Some(Exponent(..)), peer: None } Shared(..) Random(..) Challenge(..)";
    assert_eq!(shown, expected);
}

#[test]
fn proofs_match_other_implementations() {
    let secret: Secret =
        "DHHC-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:".parse().unwrap();
    let table = [
        (Hash::Sha256, 0, "52f70860c92516b263fc68fe75d6958e", "13b7f148b0b6c6b2565c1ee6fad9d248"),
        (Hash::Sha256, 256, "92aebd92e008fb6aa5a5584c2ad76a65", "472df2d5a73cc2035c6dfe6ec33d547c"),
        (Hash::Sha384, 0, "dcd2acceb6511a521504577318b46451", "ef96483ed1884e72249144d4317e7124"),
        (Hash::Sha384, 256, "faa606f2a0015246204c8f7e3958e05c", "ffea7f6fb5b86e88a6b7a90bbf948cc1"),
        (Hash::Sha512, 0, "436ca43d6dc6402086aed45063c02e94", "17d19b461dc3ea19782a791530f099e5"),
        (Hash::Sha512, 256, "890c68fc881bc5b6b902da9a684c6239", "7bacc23ffab8d7372c3a5748a2a83bc5"),
    ];
    let (value, shared): ([u8; 64], [u8; 256]) = (counting(0xc0), counting(0));
    for (hash, length, of_host, of_controller) in table {
        let challenge = Challenge {
            hash,
            transaction: 0x0506,
            sequence: 0x0102_0304,
            value: &value[..hash.length()],
            shared: &shared[..length],
            channel: 0,
        };
        let (host, controller) = (
            challenge.host_response(&secret, NAMES),
            challenge.controller_response(&secret, NAMES),
        );
        assert_eq!(hex(&host[..16]), of_host, "{hash:?} {length}");
        assert_eq!(hex(&controller[..16]), of_controller, "{hash:?} {length}");
        assert!(challenge.is_host(&secret, NAMES, &host));
        assert!(challenge.is_controller(&secret, NAMES, &controller));
        assert!(!challenge.is_host(&secret, NAMES, &controller), "one end's proof for the other's");
        assert!(!challenge.is_controller(&secret, NAMES, &host));
        for short in [&[][..], &host[..16], &host[..hash.length() - 1]] {
            assert!(!challenge.is_host(&secret, NAMES, short), "a part of a proof");
        }
    }
}

proptest! {
    #[test]
    fn proof_is_bound_to_its_parameters(
        hash in prop::sample::select(&Hash::ALL[..]),
        bit in 0usize..512,
        transaction in any::<u16>(),
        sequence in any::<u32>(),
        change in 0u8..8,
    ) {
        let secret = Secret::generate(&counting(1), None);
        let other = Secret::generate(&counting(2), None);
        let (value, shared): ([u8; 64], [u8; 8]) = (counting(9), counting(3));
        let value = &value[..hash.length()];
        let made = Challenge { hash, transaction, sequence, value, shared: &shared, channel: 0 };
        let mut response = made.host_response(&secret, NAMES).to_vec();
        prop_assert!(made.is_host(&secret, NAMES, &response));
        let mut changed = value.to_vec();
        let mut challenge = made;
        let (mut secret, mut names) = (secret, NAMES);
        match change {
            0 => challenge.transaction = transaction.wrapping_add(1),
            1 => challenge.sequence = sequence.wrapping_add(1),
            2 => {
                changed[bit / 8 % hash.length()] ^= 1 << (bit % 8);
                challenge.value = &changed;
            }
            3 => challenge.shared = &shared[1..],
            4 => secret = other,
            5 => names.subsystem = "nqn.2024-01.test:two",
            6 => challenge.channel = 2,
            _ => response[bit / 8 % hash.length()] ^= 1 << (bit % 8),
        }
        prop_assert!(!challenge.is_host(&secret, names, &response), "{}", change);
    }
}

/// Returns whether p and (p - 1) / 2 pass Fermat's test with base 2, or 3 for the half.
fn is_safe_prime<'p, P>(prime: &'p P) -> bool
where
    Odd<BoxedUint>: From<&'p P>,
{
    let passes = |p: Odd<BoxedUint>, base: u8| {
        let one = BoxedUint::one_with_precision(p.bits_precision());
        let last = p.as_ref().wrapping_sub(&one);
        let base = BoxedUint::from_be_slice_truncated(&[base], p.bits_precision());
        BoxedMontyForm::new(base, &BoxedMontyParams::new_vartime(p)).pow(&last).retrieve() == one
    };
    let p = Odd::from(prime);
    let half = Odd::new(p.as_ref() >> 1).unwrap();
    passes(p, 2) && passes(half, 3)
}

#[test]
fn group_primes_are_safe() {
    // The largest two take seconds without optimization; both ends exclude a slip of the pen there.
    assert!(is_safe_prime(&P2048) && is_safe_prime(&P3072));
    let bytes = |p: &[u8]| (p[..8].to_vec(), p[p.len() - 8..].to_vec());
    let ones = (vec![255; 8], vec![255; 8]);
    assert_eq!(bytes(P4096.as_ref().to_be_bytes().as_ref()), ones);
    assert_eq!(bytes(P6144.as_ref().to_be_bytes().as_ref()), ones);
    assert_eq!(bytes(P8192.as_ref().to_be_bytes().as_ref()), ones);
}

#[test]
#[ignore = "make test-long: takes minutes"]
fn all_primes_are_safe_ones() {
    assert!(is_safe_prime(&P4096) && is_safe_prime(&P6144) && is_safe_prime(&P8192));
}

#[test]
fn both_ends_find_the_same_value_in_every_group() {
    for group in Group::ALL {
        let (a, b) = (Exponent::new(&counting(0x11)), Exponent::new(&counting(0x22)));
        let (of_a, of_b) = (group.public(&a), group.public(&b));
        assert_eq!((of_a.len(), of_b.len()), (group.length(), group.length()));
        assert_eq!(group.shared(&a, &of_b), group.shared(&b, &of_a), "{group:?}");
        assert!(group.shared(&a, &of_b).is_some_and(|shared| shared.len() == group.length()));
        assert_eq!(Group::from_id(group.id()), Some(group));
    }
}

#[test]
fn values_that_give_the_secret_away_are_refused() {
    let exponent = Exponent::new(&counting(1));
    let group = Group::Ffdhe2048;
    let prime = P2048.as_ref();
    let value =
        |value: Uint<{ crypto_bigint::U2048::LIMBS }>| value.to_be_bytes().as_ref().to_vec();
    let last = prime.wrapping_sub(&Uint::ONE);
    for bad in [Uint::ZERO, Uint::ONE, last, *prime, Uint::MAX] {
        assert!(group.shared(&exponent, &value(bad)).is_none(), "{bad}");
    }
    for good in [Uint::from(2u8), last.wrapping_sub(&Uint::ONE)] {
        assert!(group.shared(&exponent, &value(good)).is_some(), "{good}");
    }
    let public = group.public(&exponent);
    assert!(group.shared(&exponent, &public[1..]).is_none());
    assert!(group.shared(&exponent, &[&[0], &public[..]].concat()).is_none());
    assert!(Group::Null.shared(&exponent, &[1]).is_none());
}

#[test]
fn random_values_are_drawn_once() {
    let group = Group::Ffdhe2048;
    let random = |from| Random::new(counting(from));
    let ours = Work { group, exponent: None, peer: None }.run(&random(1)).fresh.unwrap();
    let theirs = Work { group, exponent: None, peer: Some(ours.public.clone()) }.run(&random(2));
    let peer = Some(theirs.fresh.unwrap().public);
    let both = Work { group, exponent: Some(ours.exponent), peer }.run(&random(3));
    assert!(both.fresh.is_none(), "an exponent is not drawn again");
    assert_eq!(both.shared.unwrap().0, theirs.shared.unwrap().0);
    let zeroes = Work { group: Group::Null, exponent: None, peer: None };
    assert_eq!(zeroes.run(&Random::new([0; RANDOM_BYTES])).fresh.unwrap().sequence, 1);
}
