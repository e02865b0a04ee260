//! Tests of PSKs: the published vectors of others, and properties.

use proptest::prelude::*;

use super::*;
use crate::dhchap::Hash;

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:1";
const SUBSYSTEM: &str = "nqn.2026-01.io.x:a";
const DIGEST: &str = "OldoKuTfKddMuyCznAZojkWD7P4D9/AtzDzLimtOxqI=";

fn unhex(text: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap();
    (0..text.len() / 2).map(byte).collect()
}

/// The vectors of the Linux kernel for generated PSKs (drivers/nvme/common/tests/auth_kunit.c).
#[test]
fn generated_psks_match_linux() {
    let vectors = [
        (
            PskLength::Bytes32,
            "1733c59fa7f48fcf37f5f26fc4ff0268ad4f78e030f4f3b0bfd1d47e7bb1447a",
            "OldoKuTfKddMuyCznAZojkWD7P4D9/AtzDzLimtOxqI=",
            "3c17da628474a04d2247c4cab47968c915388193f7c071bd9489cc3666cd7cc8",
        ),
        (
            PskLength::Bytes48,
            "f14b2dd3234c459694d3bc63f8968bd6b37c2c6de849e22e118749001ce4bbe8\
             640b9e3a748cb11ce4b1d71d359cce39",
            "cffMWk8TSS7HOQebjgYEIkrPrjWPV4JE5cdPB8WhEvY4JBW5YynKyv66XscN4A9n",
            "2774753233537b3fa50eb7d16a8e43457d85f4906c005b2236616c5d80939d08\
             98fff15bb8b77119d2be0aac423e7590",
        ),
    ];
    for (length, psk, digest, secret) in vectors {
        let count = u8::try_from(length.hash().length()).unwrap();
        // The vectors begin with Ks, the hash of the common value.
        let key: Vec<u8> = (0..count).map(|at| b'A' + at).collect();
        let first: Vec<u8> = (0..count).collect();
        let second: Vec<u8> = (0..count).map(|at| 0xff - at).collect();
        assert_eq!(length.hash().hmac(&key, &[&first, &second])[..], unhex(psk));
        let (identity, tls) = generated_tls_psk(length, &unhex(psk), ("hostnqn", "subsysnqn"));
        let hash = length.hash().id();
        assert_eq!(identity, format!("NVMe1G{hash:02} hostnqn subsysnqn {digest}"));
        assert_eq!(tls.secret[..], unhex(secret));
        let read = Identity::read(identity.as_bytes()).unwrap();
        assert_eq!(read.kind, IdentityKind::Generated(digest));
    }
}

#[test]
fn generated_psk_uses_hash_of_shared_value() {
    let shared = [7; 256];
    let expected = Hash::Sha256.hmac(&Hash::Sha256.digest(&shared), &[b"one", b"two"]);
    assert_eq!(generated(Hash::Sha256, &shared, [b"one", b"two"]), expected);
}

/// A key whose bytes are 1, 2, … 32.
#[test]
fn psk_text_is_read_or_fault_named() {
    let good = "NVMeTLSkey-1:00:AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAl7OaH:";
    let psk: ConfiguredPsk = good.parse().unwrap();
    assert_eq!(psk.bytes(), (1..=32).collect::<Vec<u8>>());
    assert_eq!(*psk.text(), good);
    for (text, error) in [
        ("DHHC-1:00:AQID:".to_owned(), PskError::Form),
        ("NVMeTLSkey-1:00".to_owned(), PskError::Form),
        ("NVMeTLSkey-1:00:!:".to_owned(), PskError::Form),
        (good.replace(":00:", ":03:"), PskError::Transform),
        (good.replace(":00:", ":02:"), PskError::Length),
        ("NVMeTLSkey-1:01:AQID:".to_owned(), PskError::Length),
        (good.replace("AQID", "AQIE"), PskError::Checksum),
    ] {
        assert_eq!(text.parse::<ConfiguredPsk>(), Err(error), "{text}");
    }
}

pub(crate) fn configured() -> impl Strategy<Value = ConfiguredPsk> {
    let length = prop::sample::select(&PskLength::ALL[..]);
    let transform = prop::sample::select(&[Transform::None, Transform::Hash][..]);
    (prop::collection::vec(any::<u8>(), 48), length, transform).prop_map(
        |(random, length, transform)| {
            ConfiguredPsk::generate(&random.try_into().unwrap(), length, transform)
        },
    )
}

proptest! {
    #[test]
    fn modified_text_is_refused(psk in configured(), at in 16..80_usize, to in "[A-Za-z0-9]") {
        let mut text = psk.text().to_string();
        if at + 2 < text.len() && text[at..=at] != to {
            text.replace_range(at..=at, &to);
            prop_assert!(text.parse::<ConfiguredPsk>().is_err());
        }
    }

    #[test]
    fn psk_is_found_by_either_layout(
        own in configured(),
        other in configured(),
        layout in prop::sample::select(&Layout::ALL[..]),
    ) {
        prop_assume!(own != other);
        let text = Identity::format(&own, layout, (HOST, SUBSYSTEM));
        let identity = Identity::read(text.as_bytes()).unwrap();
        prop_assert_eq!((identity.host, identity.subsystem), (HOST, SUBSYSTEM));
        let alone = identity.candidates(std::slice::from_ref(&own));
        let among = identity.candidates(&[other.clone(), own.clone()]);
        prop_assert_eq!(&among, &alone, "the other one has another identity");
        prop_assert_eq!(alone.len(), if own.transform() == Transform::None { 2 } else { 1 });
        prop_assert!(identity.candidates(&[other]).is_empty());
        // Another host and another subsystem have other PSKs.
        for names in [("nqn.2026-01.io.x:b", SUBSYSTEM), (HOST, "nqn.2026-01.io.x:b")] {
            let text = Identity::format(&own, layout, names);
            let others = Identity::read(text.as_bytes()).unwrap().candidates(std::slice::from_ref(&own));
            prop_assert!(others.iter().all(|psk| !alone.contains(psk)));
        }
    }

    #[test]
    fn version_0_names_all_psks_of_its_length(own in configured(), other in configured()) {
        prop_assume!(own != other);
        let text = format!("NVMe0R{:02} {HOST} {SUBSYSTEM}", own.length().hash().id());
        let identity = Identity::read(text.as_bytes()).unwrap();
        prop_assert_eq!(identity.candidates(std::slice::from_ref(&own)).len(), 2);
        let both = identity.candidates(&[own.clone(), other.clone()]);
        prop_assert_eq!(both.len(), if own.length() == other.length() { 4 } else { 2 });
    }

    #[test]
    fn no_bytes_bring_it_down(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Identity::read(&bytes);
        if let Some(hello) = ClientHello::read(&bytes) {
            let psk = TlsPsk { secret: vec![0; 32].into(), length: PskLength::Bytes32 };
            prop_assert!(!hello.shows(0, &psk));
        }
    }
}

#[test]
fn derived_secret_has_length_of_its_hash() {
    for (form, right) in [
        ("NVMe0R01", Some(32)),
        ("NVMe0R02", Some(48)),
        ("NVMe1R01", Some(32)),
        ("NVMe1R02", Some(48)),
        ("NVMe1G01", None),
        ("NVMe1G02", None),
    ] {
        let digest = if form.starts_with("NVMe1") { format!(" {DIGEST}") } else { String::new() };
        let text = format!("{form} {HOST} {SUBSYSTEM}{digest}");
        let identity = Identity::read(text.as_bytes()).unwrap();
        for count in [0, 31, 32, 33, 47, 48, 49, 64] {
            let derived = identity.derived(vec![7; count].into());
            assert_eq!(derived.is_some(), right == Some(count), "{text}: {count} bytes");
            assert!(derived.is_none_or(|psk| psk.secret[..] == vec![7; count]));
        }
    }
}

#[test]
fn other_texts_are_no_identities() {
    let long = "n".repeat(223);
    for good in [
        "NVMe0R01 host subsystem".to_owned(),
        format!("NVMe1R01 host subsystem {DIGEST}"),
        format!("NVMe1G02 {long} {long} {}", "a".repeat(64)),
    ] {
        assert!(Identity::read(good.as_bytes()).is_some(), "{good}");
    }
    for text in [
        String::new(),
        "NVMe1R01".to_owned(),
        "NVMe1R01 host subsystem".to_owned(),
        // The kernel finds keys by the beginning of their description.
        "NVMe1R01 host subsystem ".to_owned(),
        format!("NVMe1R01 host subsystem {}", &DIGEST[..43]),
        format!("NVMe1R01 host subsystem {DIGEST}a"),
        format!("NVMe1R01 host subsystem {}", DIGEST.replace('/', "-")),
        format!("NVMe0R01 host subsystem {DIGEST}"),
        format!("NVMe1R03 host subsystem {DIGEST}"),
        format!("NVMe1R1 host subsystem {DIGEST}"),
        format!("NVMe2R01 host subsystem {DIGEST}"),
        format!("NVMe1X01 host subsystem {DIGEST}"),
        format!("NVMe1R01 host  {DIGEST}"),
        format!("NVMe1R01 host subsystem {DIGEST} more"),
        format!("NVMe0R01 {long}n subsystem"),
        format!("NVMe0R01 host {long}n"),
    ] {
        assert_eq!(Identity::read(text.as_bytes()), None, "{text}");
    }
}

#[test]
fn nothing_shows_a_psk() {
    let psk = ConfiguredPsk::generate(&[0xab; 48], PskLength::Bytes32, Transform::None);
    let text = Identity::format(&psk, Layout::Rfc8446, (HOST, SUBSYSTEM));
    let derived = Identity::read(text.as_bytes()).unwrap().candidates(std::slice::from_ref(&psk));
    assert_eq!(format!("{psk:?}"), "ConfiguredPsk(..)");
    assert!(!derived.is_empty());
    for psk in derived {
        assert_eq!(format!("{psk:?}"), "TlsPsk { length: Bytes32, .. }");
    }
}

/// Creates a ClientHello with one identity and the binder of the PSK.
fn hello(psk: &TlsPsk) -> Vec<u8> {
    let hash = psk.length.hash();
    let mut extension = vec![0, 9, 0, 3, b'i', b'd', b'!', 0, 0, 0, 0];
    let count = u8::try_from(hash.length()).unwrap();
    extension.extend([0, count + 1, count]);
    extension.extend(vec![0; hash.length()]);
    let mut body = [&[3, 3][..], &[9; 32], &[0, 0, 2, 0x13, 1, 1, 0]].concat();
    let length = u8::try_from(extension.len()).unwrap();
    body.extend([0, length + 4, 0, 41, 0, length]);
    body.extend(&extension);
    let before = body.len() - hash.length() - 3;
    let whole = [&[1, 0, 0, u8::try_from(body.len()).unwrap()][..], &body[..before]].concat();
    let expand = |key: &[u8], label: &str, context: &[u8]| {
        derive::expand_label(hash, Layout::Rfc8446, key, label, context)
    };
    let key = expand(&derive::extract(hash, &psk.secret), "ext binder", &hash.digest(&[]));
    let binder = hash.hmac(&expand(&key, "finished", &[]), &[&hash.digest(&whole)]);
    body.truncate(before + 3);
    body.extend(&binder[..]);
    body
}

#[test]
fn client_hello_identifies_its_psk() {
    let psk = ConfiguredPsk::generate(&[3; 48], PskLength::Bytes48, Transform::None);
    let text = Identity::format(&psk, Layout::Rfc8446, (HOST, SUBSYSTEM));
    let both = Identity::read(text.as_bytes()).unwrap().candidates(&[psk]);
    for (own, other) in [(0, 1), (1, 0)] {
        let body = hello(&both[own]);
        let read = ClientHello::read(&body).unwrap();
        assert!(read.shows(0, &both[own]));
        assert!(!read.shows(0, &both[other]) && !read.shows(1, &both[own]));
        let mut changed = body;
        changed[10] ^= 1;
        assert!(!ClientHello::read(&changed).unwrap().shows(0, &both[own]));
        changed.pop();
        assert!(ClientHello::read(&changed).is_none());
    }
}

#[test]
fn client_hello_chooses_psk_else_first() {
    let psk = |tag| TlsPsk { secret: vec![tag; 32].into(), length: PskLength::Bytes32 };
    let all = vec![psk(1), psk(2), psk(3)];
    for own in &all {
        let body = hello(own);
        assert_eq!(choose(all.clone(), 0, Some(&body)).as_ref(), Some(own));
        assert_eq!(choose(all.clone(), 1, Some(&body)), Some(psk(1)), "no binder of that number");
        assert_eq!(choose(vec![psk(9)], 0, Some(&body)), Some(psk(9)), "the handshake will tell");
    }
    assert_eq!(choose(all.clone(), 0, None), Some(psk(1)));
    assert_eq!(choose(all, 0, Some(b"no ClientHello")), Some(psk(1)));
    assert_eq!(choose(vec![], 0, Some(&hello(&psk(1)))), None);
}
