//! Connections that were accepted and are not served yet.
//!
//! Serving a connection costs a hundred times as much as accepting it. So all connections are accepted, since they
//! would otherwise block others in the kernel, and a turn of the reactor serves one. Addresses take turns, however
//! many connections each has. If too many wait, the address with the most loses its oldest.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// Connections that are served in a turn.
const SERVES: u32 = 1;
/// Connections that may wait.
const WAITING: usize = 512;
/// Connections that may be ending while others are served.
const ENDING: u64 = 64;

/// Connections that were accepted and are not served yet; `S` is the type of such a connection.
#[derive(Debug)]
pub struct Entrance<S> {
    by_address: HashMap<IpAddr, VecDeque<S>>,
    /// Addresses of connections that wait, in the order of their turns.
    turns: VecDeque<IpAddr>,
    waiting: usize,
    /// Connections that may still be served in this turn.
    left: u32,
}

impl<S> Default for Entrance<S> {
    fn default() -> Self {
        Self { by_address: HashMap::new(), turns: VecDeque::new(), waiting: 0, left: SERVES }
    }
}

impl<S> Entrance<S> {
    /// The most connections that wait here.
    pub const WAITING: usize = WAITING;

    /// Returns whether one more connection may be served: `count` are served, and `most` are allowed beside
    /// connections that are about to end. Connections without a Connect hold as much memory as any other, and end
    /// more slowly than their peers can make them.
    #[must_use]
    pub fn has_room(count: u64, most: u64) -> bool {
        count < most.saturating_add(ENDING)
    }

    /// Begins a turn of the reactor.
    pub fn begin(&mut self) {
        self.left = SERVES;
    }

    /// Adds a connection of a peer. If too many wait, returns the evicted one, with its address.
    pub fn come(&mut self, address: IpAddr, connection: S) -> Option<(IpAddr, S)> {
        let address = address.to_canonical();
        let others = self.by_address.entry(address).or_default();
        if others.is_empty() {
            self.turns.push_back(address);
        }
        others.push_back(connection);
        self.waiting += 1;
        if self.waiting <= WAITING {
            return None;
        }
        let most = self.by_address.iter().max_by_key(|(address, own)| (own.len(), **address));
        let most = *most?.0;
        Some((most, self.take(most)?))
    }

    /// Takes the connection out that is served next in this turn of the reactor, if there is one.
    pub fn serve_next(&mut self) -> Option<S> {
        self.left = self.left.checked_sub(1)?;
        let address = self.turns.pop_front()?;
        // Behind the others, for as long as it has more.
        self.turns.push_back(address);
        self.take(address)
    }

    /// Takes the connections out for which `goes` holds.
    pub fn take_those(&mut self, goes: impl Fn(&S) -> bool) -> Vec<S> {
        let mut gone = Vec::new();
        self.by_address.retain(|_, own| {
            let (out, stay): (VecDeque<S>, VecDeque<S>) =
                std::mem::take(own).into_iter().partition(|connection| goes(connection));
            *own = stay;
            gone.extend(out);
            !own.is_empty()
        });
        if !gone.is_empty() {
            self.waiting -= gone.len();
            self.turns.retain(|address| self.by_address.contains_key(address));
        }
        gone
    }

    /// Returns whether no connection waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Takes the first connection of an address out.
    fn take(&mut self, address: IpAddr) -> Option<S> {
        let own = self.by_address.get_mut(&address)?;
        let first = own.pop_front()?;
        self.waiting -= 1;
        if own.is_empty() {
            self.by_address.remove(&address);
            self.turns.retain(|other| *other != address);
        }
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(n: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, n).into()
    }

    fn served(entrance: &mut Entrance<u32>) -> Vec<u32> {
        entrance.begin();
        std::iter::from_fn(|| entrance.serve_next()).collect()
    }

    #[test]
    fn a_turn_serves_one_and_addresses_take_turns() {
        let mut entrance = Entrance::default();
        // An address that is written in two ways is one.
        let ways = [address(1), Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped().into()];
        let mut coming = (0..100).zip(ways.into_iter().cycle());
        assert!(coming.all(|(n, from)| entrance.come(from, n).is_none()));
        assert_eq!(served(&mut entrance), [0]);
        entrance.come(address(2), 1000);
        entrance.come(address(2), 1001);
        let turns: Vec<_> = (0..6).flat_map(|_| served(&mut entrance)).collect();
        assert_eq!(turns, [1, 1000, 2, 1001, 3, 4]);
    }

    #[test]
    fn who_brings_the_most_loses_those_that_came_first() {
        let mut entrance = Entrance::default();
        let few = 10;
        assert!((0..few).all(|n| entrance.come(address(2), n).is_none()));
        for n in 0..10_000 {
            let gone = entrance.come(address(1), n);
            let room = u32::try_from(WAITING).unwrap() - few;
            assert_eq!(gone, n.checked_sub(room).map(|first| (address(1), first)));
        }
        let mut rest = Vec::new();
        while !entrance.is_empty() {
            rest.extend(served(&mut entrance));
        }
        assert_eq!(rest.len(), WAITING, "all others are served");
        assert_eq!(rest.iter().filter(|n| **n < few).count(), few as usize);
        assert!(entrance.turns.is_empty() && entrance.by_address.is_empty());
    }

    #[test]
    fn some_are_taken_out_and_others_keep_their_turns() {
        let mut entrance = Entrance::default();
        for (n, from) in [(10, 1), (11, 1), (20, 2), (31, 3), (30, 3), (40, 4)] {
            entrance.come(address(from), n);
        }
        assert!(entrance.take_those(|_| false).is_empty());
        let mut gone = entrance.take_those(|n| [11, 20, 31].contains(n));
        gone.sort_unstable();
        assert_eq!(gone, [11, 20, 31]);
        // An address that has lost all its connections returns at the end of the line.
        entrance.come(address(2), 21);
        let turns: Vec<_> = (0..4).flat_map(|_| served(&mut entrance)).collect();
        assert_eq!(turns, [10, 30, 40, 21]);
        assert!(entrance.is_empty() && entrance.turns.is_empty());
    }

    #[test]
    fn nobody_is_served_while_as_many_end_as_may() {
        let most = 256;
        assert!(Entrance::<u32>::has_room(most + ENDING - 1, most));
        assert!(!Entrance::<u32>::has_room(most + ENDING, most));
        assert!(Entrance::<u32>::has_room(u64::MAX - 1, u64::MAX));
    }
}
