//! The TLS keys of hosts: those that they were given, by files or a keyring of the kernel, and those
//! that their authentications have made. What the identity of a key of a file names is derived when a
//! host offers it: one look-up of the host, then some ten hashes for each of its keys, some tens of
//! microseconds, however many hosts and subsystems there are.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use fabric::Nanos;
use fabric::controller::{ForgottenKeys, GeneratedKey, GeneratedKeys, SecretNumber};
use fabric::dhchap::proof::Names;
use fabric::tls_psk::{ConfiguredPsk, Identity, IdentityKind, TlsPsk, choose};
use zeroize::Zeroizing;

use super::generated::GeneratedPsks;
use crate::sys::sync::lock;

/// The keys of a keyring of the kernel, which were derived elsewhere.
pub(super) trait KeyringKeys: fmt::Debug + Send + Sync {
    /// Finds the secret of an identity. It is called during a handshake, each time, so that what is
    /// changed there counts from the next one on.
    fn find(&self, identity: &str) -> Option<Zeroizing<Vec<u8>>>;
}

/// The keys of all hosts.
#[derive(Debug, Default)]
pub(crate) struct TlsKeys {
    /// The keys that hosts were given by files, by their NQNs.
    given: RwLock<HashMap<String, Arc<[ConfiguredPsk]>>>,
    of_keyring: Option<Box<dyn KeyringKeys>>,
    generated: Mutex<GeneratedPsks>,
}

impl GeneratedKeys for TlsKeys {
    fn keep(&self, now: Nanos, names: Names<'_>, key: GeneratedKey, secret: SecretNumber) {
        lock(&self.generated).keep(now, names, key, secret);
    }

    fn forget(&self, host: &str, which: ForgottenKeys<'_>) {
        lock(&self.generated).forget(host, which);
    }
}

impl TlsKeys {
    /// Makes the keys, with none but those of a keyring.
    pub(super) fn new(of_keyring: Option<Box<dyn KeyringKeys>>) -> Self {
        Self { of_keyring, ..Self::default() }
    }

    /// Sets the keys that a host was given by files; none takes them away.
    pub(crate) fn set(&self, host: &str, keys: &[ConfiguredPsk]) {
        let mut all = self.given.write().unwrap_or_else(PoisonError::into_inner);
        if keys.is_empty() {
            all.remove(host);
        } else {
            all.insert(host.to_owned(), keys.into());
        }
    }

    /// Forgets the keys that authentications have made a long time before `now`.
    pub(crate) fn forget_old(&self, now: Nanos) {
        lock(&self.generated).forget_old(now);
    }

    fn of(&self, host: &str) -> Option<Arc<[ConfiguredPsk]>> {
        self.given.read().unwrap_or_else(PoisonError::into_inner).get(host).map(Arc::clone)
    }

    /// Finds the key that a host means by an identity, which is number `index` in its ClientHello.
    /// Where the identity names several, the ClientHello shows which of them the host has; without
    /// one, the first counts: that of a file before that of the keyring.
    pub(crate) fn find(
        &self,
        now: Nanos,
        identity: &[u8],
        index: usize,
        hello: Option<&[u8]>,
    ) -> Option<TlsPsk> {
        let identity = Identity::read(identity)?;
        if matches!(identity.kind, IdentityKind::Generated(_)) {
            return lock(&self.generated).find(now, &identity);
        }
        let of_files = self.of(identity.host);
        let mut candidates = of_files.map_or_else(Vec::new, |own| identity.candidates(&own));
        // One search for each ClientHello: whoever sends it has no key yet. The Linux host offers one.
        let of_keyring = self.of_keyring.as_ref().filter(|_| index == 0);
        let secret = of_keyring.and_then(|keys| keys.find(identity.text));
        candidates.extend(secret.and_then(|secret| identity.derived(secret)));
        choose(candidates, index, hello)
    }
}

#[cfg(test)]
mod tests {
    use fabric::tls_psk::{Layout, PskLength, Transform, generated_tls_psk};

    use super::*;

    const NOW: Nanos = Nanos(1);
    const DIGEST: &str = " OldoKuTfKddMuyCznAZojkWD7P4D9/AtzDzLimtOxqI=";

    #[test]
    fn a_host_has_its_own_keys_until_they_are_taken_away() {
        let (host, subsystem) = ("nqn.2026-01.io.x:h", "nqn.2026-01.io.x:s");
        let psk = ConfiguredPsk::generate(&[1; 48], PskLength::Bytes32, Transform::Hash);
        let keys = TlsKeys::default();
        keys.set(host, std::slice::from_ref(&psk));
        for layout in Layout::ALL {
            let own = Identity::format(&psk, layout, (host, subsystem));
            assert!(keys.find(NOW, own.as_bytes(), 0, None).is_some());
            let other = Identity::format(&psk, layout, ("nqn.2026-01.io.x:o", subsystem));
            assert!(keys.find(NOW, other.as_bytes(), 0, None).is_none());
        }
        assert!(keys.find(NOW, b"NVMe1R01", 0, None).is_none());
        keys.set(host, &[]);
        let own = Identity::format(&psk, Layout::Rfc8446, (host, subsystem));
        assert!(keys.find(NOW, own.as_bytes(), 0, None).is_none());
    }

    /// Stands in for a keyring: secrets by their descriptions.
    #[derive(Debug, Default)]
    struct Ring(Mutex<HashMap<String, Vec<u8>>>);

    impl KeyringKeys for Arc<Ring> {
        fn find(&self, identity: &str) -> Option<Zeroizing<Vec<u8>>> {
            lock(&self.0).get(identity).cloned().map(Zeroizing::new)
        }
    }

    impl Ring {
        fn put(&self, identity: &str, secret: &[u8]) {
            lock(&self.0).insert(identity.to_owned(), secret.to_vec());
        }
    }

    #[test]
    fn a_key_of_the_keyring_is_looked_up_by_its_whole_identity_each_time() {
        let ring = Arc::new(Ring::default());
        let keys = TlsKeys::new(Some(Box::new(Arc::clone(&ring))));
        let found = |identity: &str| keys.find(NOW, identity.as_bytes(), 0, None);
        let secret = |identity: &str| found(identity).map(|psk| psk.secret.to_vec());
        for (form, count) in [("NVMe0R01", 32), ("NVMe0R02", 48), ("NVMe1R01", 32)] {
            let end = if form.starts_with("NVMe1") { DIGEST } else { "" };
            let identity = format!("{form} nqn.2026-01.io.x:h nqn.2026-01.io.x:s{end}");
            assert_eq!(found(&identity), None);
            ring.put(&identity, &vec![1; count]);
            assert_eq!(secret(&identity), Some(vec![1; count]));
            assert_eq!(keys.find(NOW, identity.as_bytes(), 1, None), None, "not the first one");
            assert_eq!(found(&identity.replace("x:h", "x:o")), None, "another host");
            ring.put(&identity, &vec![2; count]);
            assert_eq!(secret(&identity), Some(vec![2; count]), "it was exchanged");
            ring.put(&identity, &vec![2; count - 1]);
            assert_eq!(found(&identity), None, "it is too short");
        }
        // The machine's own connections as a host have such keys in the same keyring.
        let generated = format!("NVMe1G01 nqn.2026-01.io.x:h nqn.2026-01.io.x:s{DIGEST}");
        ring.put(&generated, &[1; 32]);
        assert_eq!(found(&generated), None);
    }

    #[test]
    fn a_key_of_a_file_stands_before_that_of_the_keyring() {
        let names = ("nqn.2026-01.io.x:h", "nqn.2026-01.io.x:s");
        let psk = ConfiguredPsk::generate(&[1; 48], PskLength::Bytes32, Transform::Hash);
        let ring = Arc::new(Ring::default());
        let keys = TlsKeys::new(Some(Box::new(Arc::clone(&ring))));
        let identity = Identity::format(&psk, Layout::Rfc8446, names);
        let found = || keys.find(NOW, identity.as_bytes(), 0, None).map(|psk| psk.secret.to_vec());
        ring.put(&identity, &[7; 32]);
        assert_eq!(found(), Some(vec![7; 32]));
        keys.set(names.0, std::slice::from_ref(&psk));
        let of_file = Identity::read(identity.as_bytes()).unwrap().candidates(&[psk]);
        assert_eq!(found(), Some(of_file[0].secret.to_vec()));
        keys.set(names.0, &[]);
        assert_eq!(found(), Some(vec![7; 32]), "another source has it still");
    }

    #[test]
    fn a_generated_key_is_found_beside_given_ones_until_it_is_forgotten() {
        let names = Names { host: "nqn.2026-01.io.x:h", subsystem: "nqn.2026-01.io.x:s" };
        let both = (names.host, names.subsystem);
        let given = ConfiguredPsk::generate(&[1; 48], PskLength::Bytes32, Transform::Hash);
        let keys = TlsKeys::default();
        keys.set(names.host, std::slice::from_ref(&given));
        let (identity, psk) = generated_tls_psk(PskLength::Bytes48, &[2; 48], both);
        assert!(keys.find(NOW, identity.as_bytes(), 0, None).is_none());
        let key = GeneratedKey { identity: identity.clone(), psk: psk.clone() };
        keys.keep(NOW, names, key.clone(), SecretNumber(1));
        let found = |now| keys.find(now, identity.as_bytes(), 0, None);
        assert_eq!(found(NOW), Some(psk));
        let old = Nanos(3_600_000_000_001);
        assert_eq!(found(old), None);
        keys.forget_old(Nanos(old.0 - 1));
        assert!(found(NOW).is_some());
        keys.forget_old(old);
        assert_eq!(found(NOW), None, "it is in memory no more");
        let given = Identity::format(&given, Layout::Rfc8446, both);
        assert!(keys.find(old, given.as_bytes(), 0, None).is_some());
        keys.keep(NOW, names, key, SecretNumber(1));
        keys.forget(names.host, ForgottenKeys::Subsystem(names.subsystem));
        assert_eq!(found(NOW), None);
        assert!(keys.find(NOW, given.as_bytes(), 0, None).is_some());
    }
}
