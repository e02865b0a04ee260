//! The text in which a host's secrets and TLS keys are kept: a line for each, of a word and its value.
//!
//! ```text
//! host nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6
//! secret DHHC-1:01:…:
//! controller-secret DHHC-1:01:…:
//! groups ffdhe3072 ffdhe4096
//! tls-key NVMeTLSkey-1:01:…:
//! ```
//!
//! `controller-secret` goes with the `secret` above it. A second `secret` or `tls-key` is good beside
//! the first one while a host changes from one to the other. Empty lines and lines that begin with `#` mean nothing.

use zeroize::Zeroizing;

use crate::dhchap::{Group, Hash, HostSecrets, Secret, SecretError, SecretPair};
use crate::tls_psk::{ConfiguredPsk, PskError};

/// The most secrets of a host at one time.
const SECRETS_MAX: usize = 2;
/// The most TLS keys of a host at one time: the present one and the next, of both lengths.
const TLS_KEYS_MAX: usize = 4;
/// The room in bytes for the largest valid file, so that the buffer need not grow, which leaves
/// copies behind.
const TEXT_ROOM: usize = 4096;
/// The hash functions of a host whose file names none, the best one first.
const HASHES: [Hash; 3] = Hash::ALL;
/// The groups of a host whose file names none: 3072 bits are as strong as SHA-256 needs, and cost
/// little. The null group is excluded: with it, an eavesdropper can try secrets against a recorded
/// exchange.
const GROUPS: [Group; 5] =
    [Group::Ffdhe3072, Group::Ffdhe4096, Group::Ffdhe6144, Group::Ffdhe8192, Group::Ffdhe2048];

/// The beginnings of secrets and TLS keys in the form in which they are exchanged.
const FORMS: [&str; 2] = ["DHHC-1:", "NVMeTLSkey-1:"];

/// Masks secrets and TLS keys in a text that a message quotes: each character behind the beginning of
/// a key becomes `*`, so that columns stay as they are.
#[must_use]
pub fn mask_keys(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        let key = FORMS.iter().filter_map(|form| Some(rest.find(*form)? + form.len())).min();
        let Some((before, behind)) = key.and_then(|at| rest.split_at_checked(at)) else { break };
        let length = behind.find(|c: char| !(c.is_ascii_alphanumeric() || "+/=:".contains(c)));
        let length = length.unwrap_or(behind.len());
        masked.push_str(before);
        masked.extend(std::iter::repeat_n('*', length));
        rest = behind.get(length..).unwrap_or_default();
    }
    masked.push_str(rest);
    masked
}

/// A fault of a text. It never has a part of a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// A line begins with another word.
    #[error("a line begins with host, secret, controller-secret, hashes, groups or tls-key")]
    Word,
    /// A line has a word and nothing behind it.
    #[error("behind {0} there is no value")]
    Empty(&'static str),
    /// A line occurs twice.
    #[error("{0} occurs twice")]
    Twice(&'static str),
    /// A value is no secret.
    #[error("{0}")]
    Secret(SecretError),
    /// A value is no TLS key.
    #[error("{0}")]
    TlsKey(PskError),
    /// There are too many TLS keys.
    #[error("a host has four TLS keys at the most, the present one and the next of both lengths")]
    TooManyTlsKeys,
    /// There are too many secrets.
    #[error("a host has two secrets at the most, the present one and the next")]
    TooMany,
    /// A controller's secret stands where no host's is above it.
    #[error("controller-secret goes with the secret above it, and there is none")]
    Alone,
    /// Both ends would have one secret.
    #[error("the controller has the host's secret: make one of its own for it")]
    Same,
    /// A name is not a known hash function.
    #[error("hashes are sha256, sha384 and sha512")]
    Hashes,
    /// A name is not a known group.
    #[error("groups are ffdhe2048, ffdhe3072, ffdhe4096, ffdhe6144, ffdhe8192 and null")]
    Groups,
    /// There is no host.
    #[error("there is no line with the host's NQN: host NQN")]
    NoHost,
    /// There is no secret, and no TLS key either or something that goes with a secret.
    #[error("there is no line with the host's secret: secret DHHC-1:…, or tls-key NVMeTLSkey-1:…")]
    NoSecret,
}

/// The error of a text that is not a host's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct KeyFileError {
    /// The line, from 1; the last one where something is missing.
    pub line: usize,
    /// The fault.
    pub fault: KeyFault,
}

/// A host with its secrets and TLS keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFile {
    /// The host's NQN.
    pub host: String,
    /// The secrets by which the host proves itself; `None`: it need not.
    pub secrets: Option<HostSecrets>,
    /// The keys of which the host may use any for TLS.
    pub tls_keys: Vec<ConfiguredPsk>,
}

impl KeyFile {
    /// Makes a file of a host that has nothing yet.
    #[must_use]
    pub fn new(host: &str) -> Self {
        Self { host: host.to_owned(), secrets: None, tls_keys: Vec::new() }
    }

    /// Adds a TLS key, unless it is there. With `beside` the present key of its length stays.
    ///
    /// # Errors
    /// Two keys of its length are there, and should stay.
    pub fn add_tls_key(&mut self, key: ConfiguredPsk, beside: bool) -> Result<(), KeyFault> {
        let like = |known: &ConfiguredPsk| known.length() == key.length() && *known != key;
        if !beside {
            self.tls_keys.retain(|known| !like(known));
        } else if self.tls_keys.iter().filter(|known| like(known)).count() > 1 {
            return Err(KeyFault::TooManyTlsKeys);
        }
        self.tls_keys.retain(|known| *known != key);
        self.tls_keys.push(key);
        Ok(())
    }

    /// Returns the secrets, with the default hashes and groups and none where there are no secrets.
    pub fn secrets_mut(&mut self) -> &mut HostSecrets {
        self.secrets.get_or_insert_with(|| HostSecrets {
            pairs: Vec::new(),
            hashes: HASHES.to_vec(),
            groups: GROUPS.to_vec(),
        })
    }

    /// Reads a text.
    ///
    /// # Errors
    /// The first fault, and its line.
    pub fn parse(text: &str) -> Result<Self, KeyFileError> {
        let mut read = Read::default();
        let mut last = 1;
        for (index, line) in text.lines().enumerate() {
            last = index.saturating_add(1);
            read.line(line.trim()).map_err(|fault| KeyFileError { line: last, fault })?;
        }
        read.finish().map_err(|fault| KeyFileError { line: last, fault })
    }

    /// Writes the text.
    #[must_use]
    pub fn text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(TEXT_ROOM));
        write_line(&mut text, "host", &self.host);
        if let Some(HostSecrets { pairs, hashes, groups }) = &self.secrets {
            for pair in pairs {
                write_line(&mut text, "secret", &pair.host.text());
                if let Some(controller) = &pair.controller {
                    write_line(&mut text, "controller-secret", &controller.text());
                }
            }
            if *hashes != HASHES {
                let names: Vec<_> = hashes.iter().map(|hash| hash.name()).collect();
                write_line(&mut text, "hashes", &names.join(" "));
            }
            if *groups != GROUPS {
                let names: Vec<_> = groups.iter().map(|group| group.name()).collect();
                write_line(&mut text, "groups", &names.join(" "));
            }
        }
        for key in &self.tls_keys {
            write_line(&mut text, "tls-key", &key.text());
        }
        text
    }
}

/// Writes a line, in pieces: a text of both would be a copy of the value that nobody clears.
fn write_line(text: &mut String, word: &str, value: &str) {
    for piece in [word, " ", value, "\n"] {
        text.push_str(piece);
    }
}

/// A text as far as it was read.
#[derive(Default)]
struct Read {
    host: Option<String>,
    pairs: Vec<SecretPair>,
    hashes: Option<Vec<Hash>>,
    groups: Option<Vec<Group>>,
    tls_keys: Vec<ConfiguredPsk>,
}

impl Read {
    fn line(&mut self, line: &str) -> Result<(), KeyFault> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let (word, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let value = value.trim();
        let given = |word| if value.is_empty() { Err(KeyFault::Empty(word)) } else { Ok(value) };
        match word {
            "host" => once(&mut self.host, "host", given("host")?.to_owned()),
            "secret" => {
                let host = given("secret")?.parse().map_err(KeyFault::Secret)?;
                if self.pairs.len() >= SECRETS_MAX {
                    return Err(KeyFault::TooMany);
                }
                self.pairs.push(SecretPair { host, controller: None });
                Ok(())
            }
            "controller-secret" => {
                let secret: Secret =
                    given("controller-secret")?.parse().map_err(KeyFault::Secret)?;
                let pair = self.pairs.last_mut().ok_or(KeyFault::Alone)?;
                if pair.host == secret {
                    return Err(KeyFault::Same);
                }
                once(&mut pair.controller, "controller-secret", secret)
            }
            "hashes" => {
                let all = Hash::ALL.map(|hash| (hash.name(), hash));
                let hashes = names(given("hashes")?, &all).ok_or(KeyFault::Hashes)?;
                once(&mut self.hashes, "hashes", hashes)
            }
            "groups" => {
                let all = Group::ALL.map(|group| (group.name(), group));
                let groups = names(given("groups")?, &all).ok_or(KeyFault::Groups)?;
                once(&mut self.groups, "groups", groups)
            }
            "tls-key" => {
                let key = given("tls-key")?.parse().map_err(KeyFault::TlsKey)?;
                if self.tls_keys.contains(&key) {
                    return Err(KeyFault::Twice("tls-key"));
                }
                if self.tls_keys.len() >= TLS_KEYS_MAX {
                    return Err(KeyFault::TooManyTlsKeys);
                }
                self.tls_keys.push(key);
                Ok(())
            }
            _ => Err(KeyFault::Word),
        }
    }

    fn finish(self) -> Result<KeyFile, KeyFault> {
        let host = self.host.ok_or(KeyFault::NoHost)?;
        let mut file = KeyFile { tls_keys: self.tls_keys, ..KeyFile::new(&host) };
        if self.pairs.is_empty() {
            let more = self.hashes.is_some() || self.groups.is_some();
            let none = file.tls_keys.is_empty() || more;
            return if none { Err(KeyFault::NoSecret) } else { Ok(file) };
        }
        let secrets = file.secrets_mut();
        secrets.pairs = self.pairs;
        secrets.hashes = self.hashes.unwrap_or_else(|| HASHES.to_vec());
        secrets.groups = self.groups.unwrap_or_else(|| GROUPS.to_vec());
        Ok(file)
    }
}

/// Sets a value that may be given once.
fn once<T>(place: &mut Option<T>, word: &'static str, value: T) -> Result<(), KeyFault> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(KeyFault::Twice(word)),
    }
}

/// Reads names; `None` if one is unknown.
fn names<T: Copy>(text: &str, all: &[(&str, T)]) -> Option<Vec<T>> {
    let find = |word: &str| all.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
    text.split_whitespace().map(find).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tls_psk::tests::configured;

    const ONE: &str = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";
    const TLS: &str = "NVMeTLSkey-1:00:AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAl7OaH:";
    #[test]
    fn keys_in_quoted_text_are_masked() {
        let text = format!("secret = \"{ONE}\" # {TLS} and {ONE}");
        let masked = mask_keys(&text);
        assert_eq!(masked.chars().count(), text.chars().count());
        assert!(masked.starts_with("secret = \"DHHC-1:****"), "{masked}");
        assert!(!masked.contains("AAEC") && !masked.contains("AQID"), "{masked}");
        assert!(masked.contains("*\" # NVMeTLSkey-1:*"), "{masked}");
        for text in ["", "path = \"/ä\"", "the secret (DHHC-1:…)"] {
            assert_eq!(mask_keys(text), text);
        }
    }

    const OTHER: &str = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";

    fn secret() -> impl Strategy<Value = Secret> {
        let transformation = prop::option::of(prop::sample::select(&Hash::ALL[..]));
        (prop::array::uniform32(any::<u8>()), transformation).prop_map(|(half, transformation)| {
            Secret::generate(&core::array::from_fn(|at| half[at % 32]), transformation)
        })
    }

    proptest! {
        #[test]
        fn written_text_round_trips(
            pairs in prop::collection::vec((secret(), prop::option::of(secret())), 0..3),
            keys in prop::collection::vec(configured(), 1..3),
            hashes in prop::sample::subsequence(Hash::ALL.to_vec(), 1..=3),
            groups in prop::sample::subsequence(Group::ALL.to_vec(), 1..=6),
        ) {
            let pairs = pairs.into_iter().map(|(host, controller)| SecretPair {
                controller: controller.filter(|controller| *controller != host),
                host,
            });
            let pairs: Vec<_> = pairs.collect();
            let mut file = KeyFile::new("nqn.2024-01.test:a");
            if !pairs.is_empty() {
                file.secrets = Some(HostSecrets { pairs, hashes, groups });
            }
            for key in keys {
                file.add_tls_key(key, true).unwrap();
            }
            prop_assert_eq!(KeyFile::parse(&file.text()), Ok(file));
        }

        #[test]
        fn key_replaces_keys_of_equal_length(
            keys in prop::collection::vec((configured(), any::<bool>()), 1..10),
        ) {
            let mut file = KeyFile::new("nqn.2024-01.test:a");
            for (key, beside) in keys {
                let count = |file: &KeyFile| {
                    file.tls_keys.iter().filter(|known| known.length() == key.length()).count()
                };
                let others = file.tls_keys.len() - count(&file);
                let known = file.tls_keys.contains(&key);
                let before = count(&file);
                let added = file.add_tls_key(key.clone(), beside);
                prop_assert_eq!(added.is_err(), beside && !known && before == 2);
                prop_assert_eq!(file.tls_keys.len() - count(&file), others);
                if added.is_ok() {
                    prop_assert_eq!(file.tls_keys.last(), Some(&key));
                    prop_assert!(beside || count(&file) == 1);
                }
                prop_assert!(count(&file) <= 2);
            }
        }

        #[test]
        fn no_text_brings_it_down(text in "(host|secret|groups|hashes|controller-secret|tls-key|\n| |[a-z#:])*") {
            let _ = KeyFile::parse(&text);
        }
    }

    #[test]
    fn null_group_must_be_named() {
        let file = KeyFile::parse(&format!("# ours\n\nhost nqn.a\n secret  {ONE} \n")).unwrap();
        let secrets = file.secrets.unwrap();
        assert!(!secrets.groups.contains(&Group::Null));
        assert_eq!(secrets.groups[0], Group::Ffdhe3072);
        let named = format!("host nqn.a\nsecret {ONE}\ngroups null\nhashes sha512 sha256");
        let secrets = KeyFile::parse(&named).unwrap().secrets.unwrap();
        assert_eq!(secrets.groups, [Group::Null]);
        assert_eq!(secrets.hashes, [Hash::Sha512, Hash::Sha256]);
    }

    #[test]
    fn a_fault_is_named_with_its_line() {
        let (one, other) = (format!("secret {ONE}\n"), format!("secret {OTHER}\n"));
        let table = [
            ("host nqn.a\n".to_owned(), 1, KeyFault::NoSecret),
            (format!("host nqn.a\ntls-key {TLS}\nhashes sha256"), 3, KeyFault::NoSecret),
            ("tls-key NVMeTLSkey-1:00:x:".to_owned(), 1, KeyFault::TlsKey(PskError::Form)),
            (format!("tls-key {TLS}\ntls-key {TLS}"), 2, KeyFault::Twice("tls-key")),
            (one.clone(), 1, KeyFault::NoHost),
            (String::new(), 1, KeyFault::NoHost),
            ("hosts nqn.a".to_owned(), 1, KeyFault::Word),
            ("\nhost".to_owned(), 2, KeyFault::Empty("host")),
            ("host nqn.a\nhost nqn.b".to_owned(), 2, KeyFault::Twice("host")),
            ("secret DHHC-1:00:x:".to_owned(), 1, KeyFault::Secret(SecretError::Form)),
            (format!("{one}{other}{one}"), 3, KeyFault::TooMany),
            (format!("controller-{one}"), 1, KeyFault::Alone),
            (format!("{one}controller-{one}"), 2, KeyFault::Same),
            (
                format!("{one}controller-{other}controller-{other}"),
                3,
                KeyFault::Twice("controller-secret"),
            ),
            ("hashes sha1".to_owned(), 1, KeyFault::Hashes),
            ("groups ffdhe3072 modp".to_owned(), 1, KeyFault::Groups),
        ];
        for (text, line, fault) in table {
            assert_eq!(KeyFile::parse(&text), Err(KeyFileError { line, fault }), "{text}");
        }
    }
}
