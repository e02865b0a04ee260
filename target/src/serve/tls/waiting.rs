//! Handshakes under way: a bounded number in all and of each address, for a bounded time. The code is
//! pure: the time is an argument.

use std::net::IpAddr;
use std::time::Duration;

use fabric::Nanos;

/// Handshakes that may be under way.
const ALL: usize = 256;
/// Those of one address.
const ADDRESS: usize = 64;
/// The time for a handshake, as the Linux host has it (`tls_handshake_timeout`).
pub(super) const LIMIT: Duration = Duration::from_secs(10);

/// One of them.
#[derive(Debug)]
pub(super) struct Entry<T> {
    address: IpAddr,
    until: Nanos,
    pub(super) value: T,
}

/// All of them, the oldest first.
#[derive(Debug)]
pub(super) struct Waiting<T>(Vec<Entry<T>>);

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Waiting<T> {
    /// Adds a connection of a peer. If there are too many, returns an evicted one: the oldest of its own address,
    /// or of the address with the most.
    pub(super) fn come(&mut self, now: Nanos, peer: IpAddr, value: T) -> Option<T> {
        let address = peer.to_canonical();
        self.0.push(Entry { address, until: now + LIMIT, value });
        let count = |address| self.0.iter().filter(|one| one.address == address).count();
        let crowded = if count(address) > ADDRESS {
            address
        } else if self.0.len() > ALL {
            self.0.iter().map(|one| one.address).max_by_key(|address| count(*address))?
        } else {
            return None;
        };
        let oldest = self.0.iter().position(|one| one.address == crowded)?;
        Some(self.0.remove(oldest).value)
    }

    /// Removes the entries for which `over` holds; its second argument is whether the entry's time has passed.
    pub(super) fn take(
        &mut self,
        now: Nanos,
        mut over: impl FnMut(&mut T, bool) -> bool,
    ) -> Vec<T> {
        let gone = self.0.extract_if(.., |one| over(&mut one.value, one.until <= now));
        gone.map(|one| one.value).collect()
    }

    /// Returns the time at which the next one's time has passed.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.0.iter().map(|one| one.until).min()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|one| &one.value)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(n: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, n).into()
    }

    #[test]
    fn an_address_with_many_loses_its_own_and_others_stay() {
        let (mut waiting, now) = (Waiting::default(), Nanos(0));
        assert_eq!(waiting.come(now, address(1), 9999), None);
        for n in 0..1000_usize {
            let gone = waiting.come(now, address(2), n);
            assert_eq!(gone, n.checked_sub(ADDRESS), "the oldest of its own");
        }
        let mapped = Ipv4Addr::new(10, 0, 0, 2).to_ipv6_mapped().into();
        assert!(waiting.come(now, mapped, 0).is_some(), "the same address");
        // Many addresses with a few each: the one with the most pays.
        let mut gone = Vec::new();
        for n in 3..=250 {
            gone.extend(waiting.come(now, address(n), usize::from(n)));
        }
        assert_eq!(waiting.iter().count(), ALL);
        assert_eq!(gone.len(), 1 + ADDRESS + 248 - ALL);
        assert!(waiting.iter().any(|value| *value == 9999));
    }

    #[test]
    fn who_takes_too_long_goes() {
        let mut waiting = Waiting::default();
        waiting.come(Nanos(0), address(1), 1);
        waiting.come(Nanos(5), address(1), 2);
        let late = Nanos(0) + LIMIT;
        assert_eq!(waiting.next(), Some(late));
        assert!(waiting.take(Nanos(late.0 - 1), |_, late| late).is_empty());
        assert_eq!(waiting.take(late, |_, late| late), [1]);
        assert_eq!(waiting.take(late, |value, late| *value == 2 && !late), [2]);
        assert_eq!(waiting.next(), None);
    }
}
