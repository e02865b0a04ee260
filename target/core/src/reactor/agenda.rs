//! The agenda of a reactor: connections and commands to come back to, by the reason.

use std::collections::VecDeque;
use std::time::Duration;

use fabric::Nanos;

use crate::machine::key::Key;

/// Maximum time until a reactor checks again whether a connection's rate allows more: a limit may be lifted or
/// changed at any time, without an event.
pub(crate) const RATE_AGAIN: Duration = Duration::from_millis(10);

/// The connections and commands that a reactor has to come back to.
#[derive(Debug)]
pub(crate) struct Agenda {
    /// Connections with something to send.
    pub(crate) to_send: Vec<Key>,
    /// Connections that carried commands out on the spot, which are not recorded yet.
    pub(crate) to_record: Vec<Key>,
    /// Connections with data to ask their hosts for.
    pub(crate) r2t_waits: Vec<Key>,
    /// Time at which the first of those hosts may be asked.
    pub(crate) next_r2t: Nanos,
    /// Connections whose answers wait for their rate to allow more.
    pub(crate) paced: Vec<Key>,
    /// Time at which the first of them may send more.
    pub(crate) next_paced: Nanos,
    /// Connections that may take commands again: their hosts have read.
    pub(crate) resumed: Vec<Key>,
    /// Connections that take no commands until others have given room back.
    pub(crate) paused: Round,
    /// Connections that end.
    pub(crate) closing: Round,
    /// Time at which the first of those connections ends, even with output left to send.
    pub(crate) next_end: Option<Nanos>,
    /// Queues and NSIDs with large commands whose next slice may be due. Each is listed once.
    slices: VecDeque<(Key, u32)>,
}

impl Agenda {
    /// Makes an agenda with nothing to come back to.
    pub(crate) fn new(now: Nanos) -> Self {
        Self {
            to_send: Vec::new(),
            to_record: Vec::new(),
            r2t_waits: Vec::new(),
            next_r2t: now,
            paced: Vec::new(),
            next_paced: now,
            resumed: Vec::new(),
            paused: Round::default(),
            closing: Round::default(),
            next_end: None,
            slices: VecDeque::new(),
        }
    }

    /// Notes that a slice of a queue's large command is over, or that such a command has ended: the
    /// next slice at this namespace may be due.
    #[cold]
    pub(crate) fn add_slice(&mut self, queue: Key, nsid: u32) {
        if !self.slices.contains(&(queue, nsid)) {
            self.slices.push_back((queue, nsid));
        }
    }

    /// Returns how many queues and namespaces have slices that may be due.
    #[inline]
    pub(crate) fn slices(&self) -> usize {
        self.slices.len()
    }

    /// Removes the first queue and namespace with slices that may be due.
    pub(crate) fn take_slice(&mut self) -> Option<(Key, u32)> {
        self.slices.pop_front()
    }

    /// Adds a connection whose host is asked for data as soon as it may be.
    pub(crate) fn add_r2t(&mut self, connection: Key, now: Nanos) {
        self.r2t_waits.push(connection);
        self.next_r2t = now;
    }

    /// Adds a connection whose answers wait for their rate to allow more, at `due`, or for
    /// [`RATE_AGAIN`] if that is sooner.
    pub(crate) fn add_paced(&mut self, connection: Key, due: Nanos, now: Nanos) {
        let due = due.min(now + RATE_AGAIN);
        self.next_paced = if self.paced.is_empty() { due } else { self.next_paced.min(due) };
        self.paced.push(connection);
    }
}

/// Connections that a turn looks at in one round.
const LOOKS: usize = 32;

/// Connections that are looked at again and again, a few in each turn.
#[derive(Debug, Default)]
pub(crate) struct Round {
    keys: VecDeque<Key>,
    /// How many are still to be looked at before this round is over.
    left: usize,
    /// Some came after the round had begun.
    added: bool,
}

impl Round {
    /// Adds a connection.
    pub(crate) fn add(&mut self, key: Key) {
        self.keys.push_back(key);
        self.added = true;
    }

    /// Puts a connection back that [`Self::next`] took.
    pub(crate) fn put_back(&mut self, key: Key) {
        self.keys.push_back(key);
    }

    /// Begins a round, unless one is on its way. Returns how many are looked at now.
    pub(crate) fn begin(&mut self) -> usize {
        if self.left == 0 {
            (self.left, self.added) = (self.keys.len(), false);
        }
        self.left.min(LOOKS)
    }

    /// Takes the next one out.
    pub(crate) fn next(&mut self) -> Option<Key> {
        self.left = self.left.saturating_sub(1);
        self.keys.pop_front()
    }

    /// Returns whether there are connections that the last round did not look at.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.left > 0 || self.added
    }

    /// Returns whether a round is in progress.
    pub(crate) fn is_begun(&self) -> bool {
        self.left > 0
    }

    /// Returns whether there are no connections.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(index: usize) -> Key {
        Key { index: u32::try_from(index).unwrap(), generation: 0 }
    }

    /// Looks at as many as a turn does, and puts all of them back. Returns which they were.
    fn look(round: &mut Round) -> Vec<u32> {
        let looks = round.begin();
        let seen: Vec<Key> = (0..looks).filter_map(|_| round.next()).collect();
        seen.iter().for_each(|key| round.put_back(*key));
        seen.iter().map(|key| key.index).collect()
    }

    #[test]
    fn a_round_looks_at_each_once_and_is_over() {
        let mut round = Round::default();
        assert!(round.is_empty() && !round.is_due() && !round.is_begun());
        assert_eq!(look(&mut round), []);
        (0..2 * LOOKS + 1).for_each(|index| round.add(key(index)));
        let mut seen = Vec::new();
        for turn in 0..3 {
            assert!(round.is_due() && !round.is_empty());
            assert_eq!(round.is_begun(), turn > 0);
            let now = look(&mut round);
            assert!(now.len() <= LOOKS, "no more than a turn's part");
            seen.extend(now);
        }
        assert!(seen.into_iter().eq(0..=u32::try_from(2 * LOOKS).unwrap()));
        assert!(!round.is_due() && !round.is_begun(), "each was looked at");
        assert!(!round.is_empty(), "they are still there");
    }

    #[test]
    fn who_comes_during_a_round_makes_another_one_due() {
        let mut round = Round::default();
        (0..LOOKS + 1).for_each(|index| round.add(key(index)));
        look(&mut round);
        round.add(key(99));
        assert_eq!(look(&mut round).len(), 1, "the rest of this round");
        assert!(round.is_due() && !round.is_begun());
        assert!(look(&mut round).contains(&0));
        assert!(look(&mut round).contains(&99));
        assert!(!round.is_due());
        round.add(key(100));
        assert!(round.is_due(), "one alone is enough");
    }
}
