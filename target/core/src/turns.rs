//! What each connection may have done in one turn of its reactor.
//!
//! Commands that are carried out as they arrive (admin commands, those to memory and `null`) take
//! the reactor's time without a turn at any device. So a turn does a certain amount of work for one
//! connection, and a certain amount for all. Who has more to do lines up: the one that was served
//! goes behind those that wait.

use std::collections::VecDeque;

use crate::key::Key;

/// Answers count as a step of work for each of so many bytes; so does each command, and each piece
/// of data.
pub(crate) const STEP_BYTES: usize = 4096;

/// The steps of I/O queues: of one connection, and of all together.
const IO: Share = Share { first: 16, each: 512, all: 4096 };
/// The steps of admin queues and of connections before Connect. They change or build what all
/// reactors share, under a lock: one step takes longer.
const ADMIN: Share = Share { first: 1, each: 8, all: 32 };

/// For how many turns memory to receive into is taken for short after a connection found none.
const SHORT: u64 = 256;

/// What a turn has for the connections of one kind, in steps.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// For each connection that is not in line, whatever the others have had.
    first: u32,
    /// For each.
    each: u32,
    /// For those that begin, and as much for those in line.
    all: u32,
}

/// Who shares work with whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Admin queues, and connections before Connect.
    Admin,
    /// I/O queues.
    Io,
}

/// What was done for one connection in a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    turn: u64,
    steps: u32,
}

/// The connections of one kind.
#[derive(Debug)]
struct Line {
    share: Share,
    /// What is left of this turn's steps for connections whose commands have just arrived.
    begin: u32,
    /// What is left for those in line.
    go_on: u32,
    waiting: VecDeque<Key>,
}

impl Line {
    fn new(share: Share) -> Self {
        Self { share, begin: share.all, go_on: share.all, waiting: VecDeque::new() }
    }
}

/// The work of one turn.
#[derive(Debug)]
pub(crate) struct Turns {
    turn: u64,
    /// Until which turn each connection is received from chunk by chunk.
    short_until: u64,
    admin: Line,
    io: Line,
}

impl Turns {
    /// The first turn.
    pub(crate) fn new() -> Self {
        Self { turn: 1, short_until: 0, admin: Line::new(ADMIN), io: Line::new(IO) }
    }

    /// Begins a turn.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.turn += 1;
        for line in [&mut self.admin, &mut self.io] {
            (line.begin, line.go_on) = (line.share.all, line.share.all);
        }
    }

    /// Notes that a connection found no memory to receive into.
    pub(crate) fn are_short(&mut self) {
        self.short_until = self.turn + SHORT;
    }

    /// Says whether memory to receive into is short.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        self.turn < self.short_until
    }

    fn line(&mut self, kind: Kind) -> &mut Line {
        match kind {
            Kind::Admin => &mut self.admin,
            Kind::Io => &mut self.io,
        }
    }

    /// Returns the steps that may be done at once for a connection that is not in line.
    #[inline]
    pub(crate) fn credit(&self, kind: Kind, spent: &Spent) -> u32 {
        let line = match kind {
            Kind::Admin => &self.admin,
            Kind::Io => &self.io,
        };
        let steps = if spent.turn == self.turn { spent.steps } else { 0 };
        let share = line.share;
        share.each.min(line.begin.saturating_add(steps)).max(share.first).saturating_sub(steps)
    }

    /// Notes steps that were done at once for a connection that is not in line.
    #[inline]
    pub(crate) fn spend(&mut self, kind: Kind, spent: &mut Spent, steps: u32) {
        let turn = self.turn;
        if spent.turn != turn {
            *spent = Spent { turn, steps: 0 };
        }
        spent.steps = spent.steps.saturating_add(steps);
        let line = self.line(kind);
        line.begin = line.begin.saturating_sub(steps);
    }

    /// Lines a connection up that has more to do. Whether it is alone.
    pub(crate) fn wait(&mut self, kind: Kind, key: Key) -> bool {
        let line = self.line(kind);
        line.waiting.push_back(key);
        line.waiting.len() == 1
    }

    /// Takes the next connection out of line, with the steps that may be done for it.
    pub(crate) fn next(&mut self, kind: Kind) -> Option<(Key, u32)> {
        let line = self.line(kind);
        let steps = line.share.each.min(line.go_on);
        if steps == 0 {
            return None;
        }
        Some((line.waiting.pop_front()?, steps))
    }

    /// Notes what was done for a connection that [`Self::next`] took out of line.
    pub(crate) fn went_on(&mut self, kind: Kind, steps: u32) {
        let line = self.line(kind);
        // A look takes time too.
        line.go_on = line.go_on.saturating_sub(steps.max(1));
    }

    /// Says whether connections are in line.
    #[inline]
    pub(crate) fn any_wait(&self) -> bool {
        !self.admin.waiting.is_empty() || !self.io.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(index: u32) -> Key {
        Key { index, generation: 0 }
    }

    /// The steps of each connection in a number of turns in which all have more to do than may be
    /// done.
    fn flood(connections: u32, turns: u32) -> Vec<u32> {
        let mut all = Turns::new();
        let mut spent = vec![Spent::default(); connections as usize];
        let mut done = vec![0; connections as usize];
        let mut lined_up = vec![false; connections as usize];
        for _ in 0..turns {
            all.begin();
            for index in 0..connections {
                let place = index as usize;
                if !lined_up[place] {
                    let steps = all.credit(Kind::Admin, &spent[place]);
                    all.spend(Kind::Admin, &mut spent[place], steps);
                    assert_eq!(all.credit(Kind::Admin, &spent[place]), 0, "no more in this turn");
                    done[place] += steps;
                    lined_up[place] = true;
                    all.wait(Kind::Admin, key(index));
                }
            }
            while let Some((key, steps)) = all.next(Kind::Admin) {
                all.went_on(Kind::Admin, steps);
                done[key.index as usize] += steps;
                all.wait(Kind::Admin, key);
            }
        }
        done
    }

    #[test]
    fn turns_are_short_and_go_round() {
        for connections in [1, 5, 32, 1000] {
            let done = flood(connections, 1000);
            let (least, most) = (done.iter().min().unwrap(), done.iter().max().unwrap());
            assert!(most - least <= 2 * ADMIN.each, "{least} to {most} steps of {connections}");
            let sum: u32 = done.iter().sum();
            let most = 1001 * ADMIN.all + connections * ADMIN.first;
            assert!(sum <= most, "{sum} steps in 1000 turns");
            assert!(sum >= 800 * ADMIN.all, "{sum} steps in 1000 turns: a turn is used");
        }
    }

    #[test]
    fn who_begins_does_not_wait_for_those_in_line() {
        let mut turns = Turns::new();
        for index in 0..1000 {
            turns.wait(Kind::Io, key(index));
        }
        turns.begin();
        while let Some((key, steps)) = turns.next(Kind::Io) {
            turns.went_on(Kind::Io, steps);
            turns.wait(Kind::Io, key);
        }
        assert_eq!(turns.credit(Kind::Io, &Spent::default()), IO.each);
        assert_eq!(turns.credit(Kind::Admin, &Spent::default()), ADMIN.each);
    }
}
