//! Hosts that failed to prove themselves, and how long they wait before they may try again.

use core::time::Duration;
use std::collections::HashMap;
use std::net::IpAddr;

use crate::Nanos;

/// Failures that bring no wait: a secret that is exchanged, a connection that was lost.
const FREE: u32 = 3;
/// The wait after the first failure beyond these; each further one doubles it.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Doublings of the wait: 64 s at most.
const DOUBLINGS: u32 = 6;
/// The time without a failure after which those before are forgotten.
const MEMORY: Duration = Duration::from_secs(600);
/// Hosts and addresses that are remembered. An address that fails as ever new hosts only fails as
/// hosts that have secrets: there are no more of these than the configuration has.
const MOST: usize = 4096;

/// A host, and the address that it comes from.
type Who = (String, Option<IpAddr>);

/// The failures of one host at one address.
#[derive(Clone, Copy, Debug)]
struct Record {
    failures: u32,
    last: Nanos,
}

impl Record {
    /// Returns the time from which on the next try is let in.
    fn until(&self) -> Nanos {
        match self.failures.checked_sub(FREE + 1) {
            None => self.last,
            Some(more) => self.last + FIRST_WAIT * (1 << more.min(DOUBLINGS)),
        }
    }
}

/// The failures of all hosts.
#[derive(Debug, Default)]
pub(super) struct Tries(HashMap<Who, Record>);

impl Tries {
    /// Returns whether a host at an address has failed so often that it has to wait.
    pub(super) fn must_wait(&self, now: Nanos, host: &str, address: Option<IpAddr>) -> bool {
        let record = self.0.get(&address_key(host, address));
        record.is_some_and(|record| now < record.until())
    }

    /// Notes a failure.
    pub(super) fn failed(&mut self, now: Nanos, host: &str, address: Option<IpAddr>) {
        if self.0.len() >= MOST {
            self.0.retain(|_, record| now < record.last + MEMORY);
        }
        if self.0.len() >= MOST {
            // Evicts the entry whose last failure is oldest.
            let oldest = self.0.iter().min_by_key(|(_, record)| record.last);
            if let Some(oldest) = oldest.map(|(who, _)| who.clone()) {
                self.0.remove(&oldest);
            }
        }
        let record =
            self.0.entry(address_key(host, address)).or_insert(Record { failures: 0, last: now });
        if now >= record.last + MEMORY {
            record.failures = 0;
        }
        record.failures = record.failures.saturating_add(1);
        record.last = now;
    }

    /// Notes that a host has proved itself: its failures are forgotten.
    pub(super) fn proved(&mut self, host: &str, address: Option<IpAddr>) {
        self.0.remove(&address_key(host, address));
    }
}

fn address_key(host: &str, address: Option<IpAddr>) -> Who {
    (host.to_owned(), address.map(|address| address.to_canonical()))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HOST: &str = "nqn.host";

    fn at(n: u32) -> Option<IpAddr> {
        Some(Ipv4Addr::from(n).into())
    }

    fn seconds(n: u64) -> Nanos {
        Nanos(0) + Duration::from_secs(n)
    }

    #[test]
    fn delay_doubles_after_free_failures() {
        let mut tries = Tries::default();
        let mut now = seconds(1);
        for _ in 0..FREE {
            tries.failed(now, HOST, at(1));
            assert!(!tries.must_wait(now, HOST, at(1)));
        }
        for wait in [1, 2, 4, 8, 16, 32, 64, 64] {
            tries.failed(now, HOST, at(1));
            let end = now + Duration::from_secs(wait);
            assert!(tries.must_wait(Nanos(end.0 - 1), HOST, at(1)), "{wait} s");
            assert!(!tries.must_wait(end, HOST, at(1)), "{wait} s");
            now = end;
        }
        tries.proved(HOST, at(1));
        tries.failed(now, HOST, at(1));
        assert!(!tries.must_wait(now, HOST, at(1)), "a proof makes all forgotten");
    }

    #[test]
    fn failures_of_others_block_no_host() {
        let mut tries = Tries::default();
        for _ in 0..20 {
            tries.failed(seconds(1), HOST, at(1));
        }
        assert!(tries.must_wait(seconds(2), HOST, at(1)));
        let mapped = Some(Ipv4Addr::from(1).to_ipv6_mapped().into());
        assert!(tries.must_wait(seconds(2), HOST, mapped));
        assert!(!tries.must_wait(seconds(2), HOST, at(2)));
        assert!(!tries.must_wait(seconds(2), "nqn.other", at(1)));
    }

    #[test]
    fn failures_fade_and_take_bounded_memory() {
        let mut tries = Tries::default();
        for _ in 0..20 {
            tries.failed(seconds(1), HOST, at(0));
        }
        tries.failed(seconds(1) + MEMORY, HOST, at(0));
        assert!(!tries.must_wait(seconds(1) + MEMORY, HOST, at(0)));
        for n in 0..2 * u32::try_from(MOST).unwrap() {
            tries.failed(seconds(700 + u64::from(n)), HOST, at(n));
            assert!(tries.0.len() <= MOST);
        }
    }
}
