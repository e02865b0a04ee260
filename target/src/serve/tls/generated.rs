//! The TLS keys that authentications have made. They are in memory alone, for an hour, in which the
//! host connects its queues, and are bounded: by host and subsystem, so that a host that has one made
//! after the other does not use up the room of others, and in all.

use std::collections::HashMap;
use std::time::Duration;

use fabric::Nanos;
use fabric::controller::{ForgottenKeys, GeneratedKey, SecretNumber};
use fabric::dhchap::proof::Names;
use fabric::tls_psk::{Identity, TlsPsk};

/// The time for which a key is good, the same as at the Linux host and target.
const LIFE: Duration = Duration::from_secs(3600);
/// Keys of one host for one subsystem: each of a host's controllers has a key made.
const MOST_OF_PAIR: usize = 16;
/// Keys in all.
const MOST: usize = 4096;

/// A key, the secret by which it was made, and until when it is good.
#[derive(Debug)]
struct Kept {
    subsystem: String,
    key: GeneratedKey,
    secret: SecretNumber,
    until: Nanos,
}

/// The keys of all hosts.
#[derive(Debug, Default)]
pub(super) struct GeneratedPsks {
    /// Those of each host, by its NQN, the oldest first.
    hosts: HashMap<String, Vec<Kept>>,
}

impl GeneratedPsks {
    /// Keeps a key. If its host has too many for the subsystem, its oldest one is evicted; if there are too many in
    /// all, the oldest one of the host with the most.
    pub(super) fn keep(
        &mut self,
        now: Nanos,
        names: Names<'_>,
        key: GeneratedKey,
        secret: SecretNumber,
    ) {
        self.forget_old(now);
        let of_host = self.hosts.entry(names.host.to_owned()).or_default();
        let of_pair = |kept: &Kept| kept.subsystem == names.subsystem;
        if of_host.iter().filter(|kept| of_pair(kept)).count() >= MOST_OF_PAIR
            && let Some(oldest) = of_host.iter().position(of_pair)
        {
            of_host.remove(oldest);
        }
        let subsystem = names.subsystem.to_owned();
        of_host.push(Kept { subsystem, key, secret, until: now + LIFE });
        if self.count() > MOST
            && let Some(most) = self.hosts.values_mut().max_by_key(|of_host| of_host.len())
        {
            most.remove(0);
        }
    }

    fn count(&self) -> usize {
        self.hosts.values().map(Vec::len).sum()
    }

    /// Finds the key that has an identity.
    pub(super) fn find(&self, now: Nanos, identity: &Identity<'_>) -> Option<TlsPsk> {
        let named = |kept: &&Kept| kept.key.identity == identity.text && now < kept.until;
        self.hosts.get(identity.host)?.iter().find(named).map(|kept| kept.key.psk.clone())
    }

    pub(super) fn forget(&mut self, host: &str, which: ForgottenKeys<'_>) {
        let stays = |kept: &Kept| !which.has(&kept.subsystem, kept.secret);
        if let Some(of_host) = self.hosts.get_mut(host) {
            of_host.retain(stays);
            if of_host.is_empty() {
                self.hosts.remove(host);
            }
        }
    }

    /// Forgets the keys that are not good any more.
    pub(super) fn forget_old(&mut self, now: Nanos) {
        self.hosts.retain(|_, of_host| {
            of_host.retain(|kept| now < kept.until);
            !of_host.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use fabric::tls_psk::{PskLength, generated_tls_psk};

    use super::*;

    const SUBSYSTEM: &str = "nqn.2026-01.io.x:s";
    const NAMES: Names<'_> = Names { host: "nqn.2026-01.io.x:h", subsystem: SUBSYSTEM };

    fn key(names: Names<'_>, tag: u16) -> GeneratedKey {
        let psk: Vec<u8> = tag.to_le_bytes().repeat(16);
        let both = (names.host, names.subsystem);
        let (identity, psk) = generated_tls_psk(PskLength::Bytes32, &psk, both);
        GeneratedKey { identity, psk }
    }

    /// Makes a key of the first secret, and keeps it.
    fn keep(psks: &mut GeneratedPsks, now: Nanos, names: Names<'_>, tag: u16) -> GeneratedKey {
        let key = key(names, tag);
        psks.keep(now, names, key.clone(), SecretNumber(1));
        key
    }

    fn has(psks: &GeneratedPsks, now: Nanos, key: &GeneratedKey) -> bool {
        let identity = Identity::read(key.identity.as_bytes()).unwrap();
        let found = psks.find(now, &identity);
        assert!(found.as_ref().is_none_or(|found| *found == key.psk));
        found.is_some()
    }

    fn at(seconds: u64) -> Nanos {
        Nanos(0) + Duration::from_secs(seconds)
    }

    #[test]
    fn a_key_is_found_by_its_whole_identity_for_an_hour() {
        let mut psks = GeneratedPsks::default();
        assert!(!has(&psks, at(5), &key(NAMES, 1)));
        let own = keep(&mut psks, at(5), NAMES, 1);
        assert!(has(&psks, at(5), &own) && !has(&psks, at(5), &key(NAMES, 2)));
        let other = keep(&mut psks, at(100), NAMES, 2);
        assert!(has(&psks, at(3604), &own), "a later one takes nothing away");
        assert!(!has(&psks, at(3605), &own) && has(&psks, at(3605), &other));
        psks.forget_old(at(3604));
        assert_eq!(psks.count(), 2);
        psks.forget_old(at(3605));
        assert_eq!(psks.count(), 1, "its memory is cleared");
        psks.forget_old(at(3700));
        assert!(psks.hosts.is_empty());
    }

    #[test]
    fn keys_of_a_host_are_forgotten_for_one_subsystem_or_all_and_those_of_others_stay() {
        let names = |host, subsystem| Names { host, subsystem };
        let (a, b) = ("nqn.2026-01.io.x:a", "nqn.2026-01.io.x:b");
        let other = "nqn.2026-01.io.x:t";
        let mut psks = GeneratedPsks::default();
        let pairs = [names(a, SUBSYSTEM), names(a, other), names(b, SUBSYSTEM), names(b, other)];
        let keys = pairs.map(|pair| keep(&mut psks, at(1), pair, 1));
        let found = |psks: &GeneratedPsks| keys.each_ref().map(|key| has(psks, at(1), key));
        psks.forget(a, ForgottenKeys::Subsystem(SUBSYSTEM));
        assert_eq!(found(&psks), [false, true, true, true]);
        psks.forget(b, ForgottenKeys::All);
        psks.forget("nqn.2026-01.io.x:c", ForgottenKeys::All);
        assert_eq!(found(&psks), [false, true, false, false]);
    }

    #[test]
    fn keys_made_by_one_secret_of_a_host_are_forgotten_and_those_of_another_stay() {
        let mut psks = GeneratedPsks::default();
        let (one, other) = (keep(&mut psks, at(1), NAMES, 1), key(NAMES, 2));
        psks.keep(at(1), NAMES, other.clone(), SecretNumber(2));
        psks.forget(NAMES.host, ForgottenKeys::Secret(SecretNumber(1)));
        assert!(!has(&psks, at(1), &one) && has(&psks, at(1), &other));
    }

    #[test]
    fn who_has_too_many_keys_made_loses_its_own_and_takes_bounded_memory() {
        let mut psks = GeneratedPsks::default();
        let of_quiet = keep(&mut psks, at(1), Names { host: "nqn.2026-01.io.x:quiet", ..NAMES }, 0);
        let of_one: Vec<_> = (0..20).map(|tag| keep(&mut psks, at(2), NAMES, tag)).collect();
        let found = of_one.iter().map(|key| has(&psks, at(2), key));
        assert!(found.eq((0..20).map(|tag| tag >= 4)), "the oldest ones have gone");
        // With many subsystems a host has many keys, and with many of these all room is used.
        for n in 0..300 {
            let subsystem = format!("{SUBSYSTEM}{n}");
            let names = Names { host: "nqn.2026-01.io.x:many", subsystem: &subsystem };
            for tag in 0..16 {
                keep(&mut psks, at(3), names, tag);
                assert!(psks.count() <= MOST);
            }
        }
        assert_eq!(psks.count(), MOST);
        assert!(has(&psks, at(3), &of_quiet) && has(&psks, at(3), &of_one[19]));
    }
}
