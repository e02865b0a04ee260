//! The work that a reactor's turn does for each host.
//!
//! Commands that are executed as they arrive (admin commands; commands to memory and `null`) use the reactor's time
//! without a turn at a device. So a turn does a bounded amount of work for each host, however many connections it
//! has, and a bounded amount in total. Hosts with more work wait in line; a host that was served goes to the end. A
//! host is known by its address until its Connect and its authentication have succeeded, then by its NQN; to
//! discovery controllers always by its address.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use fabric::nvm::{BlockFormat, IoCommand, Transfer};
use slab::Slab;

use crate::machine::key::Key;

/// Number of bytes of answers that count as one step of work. Each command, and each piece of data, is
/// a step too.
pub(crate) const STEP_BYTES: usize = 4096;

/// Bytes that are zeroed on the spot, and given back to the system, for a step of work.
const ZEROED_BYTES: usize = 4 * STEP_BYTES;

/// The most bytes that a Dataset Management command deallocates on the spot at a time.
const DEALLOCATED_MAX: u64 = 4 << 20;

/// The steps of I/O queues: of one host, and of all together. A step takes 1 to 2 us, so that a turn
/// stays below 5 ms.
const IO: Share = Share { first: 16, begin: 512, each: 256, all: 1024 };
/// The steps of admin queues and of connections before Connect. They change or build what all
/// reactors share, under a lock, and have answers of pages: one step takes longer.
const ADMIN: Share = Share { first: 1, begin: 4, each: 4, all: 4 };

/// For how many turns memory to receive into is taken for short after a connection found none.
const SHORT: u64 = 256;

/// The quotas of a turn for the connections of one kind, in steps.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// Guaranteed quota of each host that is not in line.
    first: u32,
    /// Maximum quota of each host that is not in line.
    begin: u32,
    /// Quota of a connection in its host's turn in line.
    each: u32,
    /// Total quota of hosts that are not in line, and again of hosts in line.
    all: u32,
}

/// The kinds of connections, each with its own quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Admin queues, and connections before Connect.
    Admin,
    /// I/O queues.
    Io,
}

/// The identity of the connections that share one host's quota.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    /// Connections from an address, which belong to no host yet, or to discovery controllers.
    Address(IpAddr),
    /// The connections of the host with this NQN.
    Host(String),
}

/// The place of a host in [`Turns`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostTurn(usize);

/// The bytes of a command that was carried out on the spot, answers left aside.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OnTheSpot {
    /// Bytes that were copied or compared.
    Moved(u64),
    /// Bytes that were made zeroes.
    Zeroed(u64),
}

impl OnTheSpot {
    /// Returns the bytes of a command.
    #[inline]
    pub(crate) fn of(command: &IoCommand, format: BlockFormat) -> Self {
        match (command, command.transfer(format)) {
            (IoCommand::WriteZeroes { range, .. } | IoCommand::Deallocate { range }, _) => {
                Self::Zeroed(range.bytes(format))
            }
            // The ranges are in the command's data; larger deallocations are done in slices.
            (IoCommand::DatasetManagement { deallocate: true, .. }, _) => {
                Self::Zeroed(DEALLOCATED_MAX)
            }
            (_, Transfer::ToController(bytes)) => Self::Moved(bytes.into()),
            // Read data is counted when it is answered; other commands move no bytes.
            (_, Transfer::ToHost(_) | Transfer::None) => Self::Moved(0),
        }
    }
}

/// The steps done for one host in a turn.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    turn: u64,
    steps: u32,
}

/// One host's part in one kind of work.
#[derive(Debug, Default)]
struct Part {
    spent: Spent,
    /// Its connections in line.
    waiting: VecDeque<Key>,
}

#[derive(Debug)]
struct Host {
    name: Name,
    connections: u32,
    admin: Part,
    io: Part,
}

impl Host {
    fn part(&mut self, kind: Kind) -> &mut Part {
        match kind {
            Kind::Admin => &mut self.admin,
            Kind::Io => &mut self.io,
        }
    }
}

/// The hosts of one kind.
#[derive(Debug)]
struct Line {
    share: Share,
    /// Steps of this turn that are left for hosts not in line.
    begin: u32,
    /// Steps of this turn that are left for hosts in line.
    go_on: u32,
    /// Hosts with connections in line, in the order of their turns, and how many these are.
    hosts: VecDeque<HostTurn>,
    waiting: usize,
}

impl Line {
    fn new(share: Share) -> Self {
        let hosts = VecDeque::new();
        Self { share, begin: share.all, go_on: share.all, hosts, waiting: 0 }
    }
}

/// The work of one turn.
#[derive(Debug)]
pub(crate) struct Turns {
    turn: u64,
    /// Until which turn each connection is received from chunk by chunk.
    short_until: u64,
    /// Steps that were done on the spot for the connection whose turn it is, and are not counted yet.
    on_the_spot: u32,
    admin: Line,
    io: Line,
    hosts: Slab<Host>,
    by_name: HashMap<Name, HostTurn>,
}

impl Turns {
    /// Makes the first turn.
    pub(crate) fn new() -> Self {
        Self {
            turn: 1,
            short_until: 0,
            on_the_spot: 0,
            admin: Line::new(ADMIN),
            io: Line::new(IO),
            hosts: Slab::new(),
            by_name: HashMap::new(),
        }
    }

    /// Adds a connection of a host. Each call is met by a [`Self::leave`].
    pub(crate) fn join(&mut self, name: Name) -> HostTurn {
        let found = self.by_name.get(&name).copied();
        let host = found.unwrap_or_else(|| {
            let (admin, io) = <(Part, Part)>::default();
            let new = Host { name: name.clone(), connections: 0, admin, io };
            let host = HostTurn(self.hosts.insert(new));
            self.by_name.insert(name, host);
            host
        });
        if let Some(host) = self.hosts.get_mut(host.0) {
            host.connections += 1;
        }
        host
    }

    /// Takes a connection of a host away. It may be in line still: then its turn passes.
    pub(crate) fn leave(&mut self, host: HostTurn) {
        let Some(found) = self.hosts.get_mut(host.0) else { return };
        found.connections -= 1;
        if found.connections > 0 {
            return;
        }
        let gone = self.hosts.remove(host.0);
        self.by_name.remove(&gone.name);
        for (line, part) in [(&mut self.admin, gone.admin), (&mut self.io, gone.io)] {
            if !part.waiting.is_empty() {
                line.waiting -= part.waiting.len();
                line.hosts.retain(|other| *other != host);
            }
        }
    }

    /// Begins a turn.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.turn += 1;
        for line in [&mut self.admin, &mut self.io] {
            (line.begin, line.go_on) = (line.share.all, line.share.all);
        }
    }

    /// Notes bytes of a command that was carried out on the spot, and moved them or made them zeroes.
    #[inline]
    pub(crate) fn work(&mut self, work: OnTheSpot) {
        let (bytes, each) = match work {
            OnTheSpot::Moved(bytes) => (bytes, STEP_BYTES),
            OnTheSpot::Zeroed(bytes) => (bytes, ZEROED_BYTES),
        };
        let steps = u32::try_from(bytes / each as u64).unwrap_or(u32::MAX);
        self.on_the_spot = self.on_the_spot.saturating_add(steps);
    }

    /// Takes the steps that were done on the spot since the last call.
    #[inline]
    pub(crate) fn take_work(&mut self) -> u32 {
        std::mem::take(&mut self.on_the_spot)
    }

    /// Notes that a connection found no memory to receive into.
    pub(crate) fn are_short(&mut self) {
        self.short_until = self.turn + SHORT;
    }

    /// Returns whether memory to receive into is short.
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

    /// Finds a host's part of one kind of work.
    #[inline]
    fn part(&mut self, kind: Kind, host: HostTurn) -> Option<&mut Part> {
        let found = self.hosts.get_mut(host.0);
        debug_assert!(found.is_some(), "a connection's host stays as long as the connection");
        found.map(|host| host.part(kind))
    }

    /// Returns the steps that may be done at once for a connection that is not in line.
    #[inline]
    pub(crate) fn credit(&mut self, kind: Kind, host: HostTurn) -> u32 {
        let turn = self.turn;
        let steps = match self.part(kind, host) {
            Some(part) if part.spent.turn == turn => part.spent.steps,
            _ => 0,
        };
        let Line { share, begin, .. } = self.line(kind);
        share.begin.min(begin.saturating_add(steps)).max(share.first).saturating_sub(steps)
    }

    /// Notes steps that were done at once for a connection that is not in line.
    #[inline]
    pub(crate) fn spend(&mut self, kind: Kind, host: HostTurn, steps: u32) {
        let turn = self.turn;
        if let Some(Part { spent, .. }) = self.part(kind, host) {
            if spent.turn != turn {
                *spent = Spent { turn, steps: 0 };
            }
            spent.steps = spent.steps.saturating_add(steps);
        }
        let line = self.line(kind);
        line.begin = line.begin.saturating_sub(steps);
    }

    /// Queues a connection that has more to do. Returns whether it is alone in line.
    pub(crate) fn wait(&mut self, kind: Kind, host: HostTurn, key: Key) -> bool {
        let Some(part) = self.part(kind, host) else { return false };
        part.waiting.push_back(key);
        let comes = part.waiting.len() == 1;
        let line = self.line(kind);
        if comes {
            line.hosts.push_back(host);
        }
        line.waiting += 1;
        line.waiting == 1
    }

    /// Takes a connection of a host out of line.
    pub(crate) fn leave_line(&mut self, kind: Kind, host: HostTurn, key: Key) {
        let Some(part) = self.part(kind, host) else { return };
        let before = part.waiting.len();
        part.waiting.retain(|other| *other != key);
        let (left, after) = (before - part.waiting.len(), part.waiting.len());
        let line = self.line(kind);
        line.waiting -= left;
        if left > 0 && after == 0 {
            line.hosts.retain(|other| *other != host);
        }
    }

    /// Takes the next connection out of line, with the steps that may be done for it.
    pub(crate) fn next(&mut self, kind: Kind) -> Option<(Key, u32)> {
        let line = self.line(kind);
        let steps = line.share.each.min(line.go_on);
        if steps == 0 {
            return None;
        }
        let host = line.hosts.pop_front()?;
        let part = self.part(kind, host)?;
        let key = part.waiting.pop_front()?;
        let goes_on = !part.waiting.is_empty();
        let line = self.line(kind);
        line.waiting -= 1;
        if goes_on {
            line.hosts.push_back(host);
        }
        Some((key, steps))
    }

    /// Charges the steps done for a connection that [`Self::next`] took out of line.
    pub(crate) fn went_on(&mut self, kind: Kind, steps: u32) {
        let line = self.line(kind);
        // A look takes time too.
        line.go_on = line.go_on.saturating_sub(steps.max(1));
    }

    /// Returns whether connections are in line.
    #[inline]
    pub(crate) fn any_wait(&self) -> bool {
        self.admin.waiting > 0 || self.io.waiting > 0
    }
}

#[cfg(test)]
mod tests {
    use fabric::nvm::LbaRange;

    use super::*;

    fn key(index: u32) -> Key {
        Key { index, generation: 0 }
    }

    fn name(n: u32) -> Name {
        Name::Host(format!("host {n}"))
    }

    /// The steps of each connection in a number of turns in which all have more to do than may be
    /// done; `host` says whose each one is.
    fn flood(connections: u32, turns: u32, host: impl Fn(u32) -> u32) -> Vec<u32> {
        let mut all = Turns::new();
        let hosts: Vec<_> = (0..connections).map(|n| all.join(name(host(n)))).collect();
        let mut done = vec![0; connections as usize];
        let mut fresh = 0..connections;
        for _ in 0..turns {
            all.begin();
            for index in fresh.by_ref() {
                let host = hosts[index as usize];
                let steps = all.credit(Kind::Admin, host);
                all.spend(Kind::Admin, host, steps);
                assert_eq!(all.credit(Kind::Admin, host), 0, "no more in this turn");
                done[index as usize] += steps;
                all.wait(Kind::Admin, host, key(index));
            }
            while let Some((key, steps)) = all.next(Kind::Admin) {
                all.went_on(Kind::Admin, steps);
                let place = key.index as usize;
                done[place] += steps;
                all.wait(Kind::Admin, hosts[place], key);
            }
        }
        done
    }

    #[test]
    fn turns_are_short_and_go_round() {
        for connections in [1, 5, 32, 1000] {
            let done = flood(connections, 1000, |n| n);
            let (least, most) = (done.iter().min().unwrap(), done.iter().max().unwrap());
            assert!(most - least <= 2 * ADMIN.each, "{least} to {most} steps of {connections}");
            let sum: u32 = done.iter().sum();
            let most = 1001 * ADMIN.all + connections * ADMIN.first;
            assert!(sum <= most, "{sum} steps in 1000 turns");
            assert!(sum >= 800 * ADMIN.all, "{sum} steps in 1000 turns: a turn is used");
        }
    }

    #[test]
    fn a_host_has_as_much_with_one_connection_as_with_many() {
        let done = flood(101, 1000, |n| u32::from(n > 0));
        let (alone, together): (u32, u32) = (done[0], done[1..].iter().sum());
        assert!(together.abs_diff(alone) <= 2 * ADMIN.each, "{alone} steps, and {together}");
        let (least, most) = (done[1..].iter().min().unwrap(), done[1..].iter().max().unwrap());
        assert!(most - least <= 2 * ADMIN.each, "{least} to {most} steps of one host's");
    }

    #[test]
    fn a_hosts_connections_begin_with_one_part_together() {
        let mut turns = Turns::new();
        let host = turns.join(name(1));
        assert_eq!(turns.join(name(1)), host);
        turns.begin();
        assert_eq!(turns.credit(Kind::Io, host), IO.begin);
        turns.spend(Kind::Io, host, IO.begin - 5);
        assert_eq!(turns.credit(Kind::Io, host), 5, "of another connection too");
        turns.begin();
        assert_eq!(turns.credit(Kind::Io, host), IO.begin);
    }

    #[test]
    fn who_begins_does_not_wait_for_those_in_line() {
        let mut turns = Turns::new();
        let crowd = turns.join(name(1));
        (0..1000).for_each(|index| _ = turns.wait(Kind::Io, crowd, key(index)));
        turns.begin();
        while let Some((key, steps)) = turns.next(Kind::Io) {
            turns.went_on(Kind::Io, steps);
            turns.wait(Kind::Io, crowd, key);
        }
        let other = turns.join(name(2));
        assert_eq!(turns.credit(Kind::Io, other), IO.begin);
        assert_eq!(turns.credit(Kind::Admin, other), ADMIN.begin);
    }

    #[test]
    fn work_on_the_spot_counts_by_its_bytes() {
        let (mut turns, format) = (Turns::new(), BlockFormat::BYTES_512);
        let mib = |mib: u32| LbaRange { lba: 0, blocks: mib << 11 };
        let zero = |range| IoCommand::WriteZeroes { range, deallocate: false, fua: false };
        for (command, steps) in [
            (IoCommand::Write { range: mib(1), fua: false }, 256),
            (IoCommand::Compare { range: mib(1) }, 256),
            (zero(mib(1)), 64),
            (zero(mib(4)), 256),
            (IoCommand::Deallocate { range: mib(4) }, 256),
            (IoCommand::DatasetManagement { ranges: 1, deallocate: true }, 256),
            (IoCommand::DatasetManagement { ranges: 256, deallocate: false }, 1),
            (IoCommand::Read { range: mib(1), fua: false }, 0),
            (IoCommand::Flush, 0),
        ] {
            turns.work(OnTheSpot::of(&command, format));
            assert_eq!(turns.take_work(), steps, "{command:?}");
            assert_eq!(turns.take_work(), 0);
        }
    }

    #[test]
    fn who_leaves_is_in_no_line() {
        let mut turns = Turns::new();
        let (one, other) = (turns.join(name(1)), turns.join(name(2)));
        turns.wait(Kind::Io, one, key(1));
        turns.wait(Kind::Admin, one, key(2));
        turns.wait(Kind::Io, other, key(3));
        turns.leave(one);
        assert_eq!(turns.next(Kind::Io).map(|(key, _)| key), Some(key(3)));
        assert!(!turns.any_wait());
        turns.leave(other);
        assert!(turns.hosts.is_empty() && turns.by_name.is_empty());
    }

    #[test]
    fn leaving_the_line_removes_one_connection_only() {
        let mut turns = Turns::new();
        let (one, other) = (turns.join(name(1)), turns.join(name(2)));
        turns.leave_line(Kind::Admin, one, key(1));
        assert!(!turns.any_wait());
        for (host, index) in [(one, 1), (one, 2), (other, 3)] {
            turns.wait(Kind::Admin, host, key(index));
        }
        turns.leave_line(Kind::Admin, other, key(3));
        turns.leave_line(Kind::Admin, one, key(1));
        assert_eq!(turns.next(Kind::Admin).map(|(key, _)| key), Some(key(2)));
        assert!(!turns.any_wait());
        assert!(turns.wait(Kind::Admin, other, key(3)), "alone again");
        assert_eq!(turns.next(Kind::Admin).map(|(key, _)| key), Some(key(3)));
    }

    #[test]
    fn connections_in_line_of_either_kind_are_known_and_the_first_knows_that_it_is_alone() {
        for (kind, other) in [(Kind::Io, Kind::Admin), (Kind::Admin, Kind::Io)] {
            let mut turns = Turns::new();
            let host = turns.join(name(1));
            assert!(!turns.any_wait());
            assert!(turns.wait(kind, host, key(1)), "alone");
            assert!(turns.any_wait());
            assert!(!turns.wait(kind, host, key(2)));
            assert!(turns.wait(other, host, key(3)), "alone among its kind");
        }
    }
}
