//! Hosts that hold as much of a target as they can or keep it busy, and one beside them that must proceed.

use fabric::host::commands;
use sluice_core::testing::wire::{Carrier, Up};
use sluice_core::testing::{self, Receive};

use super::{BEGIN_NS, Event, Input, MAX_WAITING, Reactor, World};
use crate::connection::{BESIDE, Connection};
use crate::host::Phase;
use crate::scenario::Hostility;

/// Maximum time that the last host may wait for an answer while the others hold as much as they can, in ns.
const WAIT_NS: u64 = 1_000_000_000;

/// Reactor time of one use of the service, in ns, and the maximum number of uses in a turn: twice the admin
/// commands of a turn, and the needs of ends and log entries.
const SERVE_NS: u64 = 5_000;
const SERVED_MAX: u32 = 48;

/// Reactor time of serving a connection, in ns, and the maximum number of connections that a turn serves.
const TAKE_IN_NS: u64 = 50_000;
const TAKEN_IN_MAX: u64 = 4;

/// Connections that a host makes at once beside its own, the time from one such crowd to the next,
/// in ns, and the crowds that it makes.
const CROWD: usize = 200;
const CROWD_EVERY_NS: u64 = 2_000_000;
const CROWDS: u32 = 50;

/// Connections that may be ending while as many as may be there wait for a Connect.
const ENDING_MAX: usize = 64;

/// Bytes that no NVMe host sends.
const NONSENSE: &[u8] = b"GET / HTTP/1.1\r\nHost: nobody's\r\n\r\n";

/// Admin commands that a host has under way which floods: fewer than its queue
/// has entries, so that its association has room for its own.
const FLOOD_DEPTH: usize = 20;

/// Maximum bytes received at once from a host that floods.
const FLOOD_CHUNK: usize = 256;

/// Largest number of blocks of a command of the last host.
const SMALL: u32 = 8;

impl World {
    /// Returns the hostility of a connection's host, once the connection's queue is connected.
    fn hostility(&mut self, index: usize) -> Option<Hostility> {
        let Connection { host, qid, .. } = self.connections[index];
        let hostility = self.scenario.hostility_of(host).filter(|_| !self.settling)?;
        let live = self.hosts[host].queue(qid)?.live;
        (qid > 0 && live).then_some(hostility)
    }

    /// Returns whether the connection's host reads nothing.
    pub(super) fn is_deaf(&mut self, index: usize) -> bool {
        self.hostility(index) == Some(Hostility::KeepsAnswers)
    }

    /// Silences a connection at any byte, if its host is to owe data.
    pub(super) fn fall_silent(&mut self, index: usize) {
        if self.hostility(index) == Some(Hostility::OwesData) && self.rng.u8(0..16) == 0 {
            self.connections[index].silent = true;
        }
    }

    /// Returns the maximum blocks of a host's commands: beside hosts that hold as much as they can, another has no
    /// claim on memory for large ones.
    pub(super) fn largest_of(&self, host: usize) -> u32 {
        let beside = !self.scenario.hostility.is_empty() && host + 1 == self.hosts.len();
        if beside { SMALL } else { u32::MAX }
    }

    /// Checks that the last host has answers in time.
    pub(super) fn check_innocent(&mut self) {
        if self.scenario.hostility.is_empty() || self.settling {
            return;
        }
        let Some(host) = self.hosts.last() else { return };
        if host.phase != Phase::Up && self.now.0 > BEGIN_NS + WAIT_NS {
            return self.breaks("a new host does not find its way in");
        }
        let since = host.answered_at.max(host.asked_at);
        if host.io_outstanding() > 0 && self.now.ns_since(since) > WAIT_NS {
            let held = self.held();
            self.breaks(format!("a host waits since {since:?} beside hosts that hold: {held:?}"));
        }
    }

    /// Returns the reactor time of a turn's uses of the service, in ns; checks that they are few.
    pub(super) fn serving_ns(&mut self, reactor: usize, served: u32) -> u64 {
        if !self.scenario.any_is(Hostility::FloodsAdmin) {
            return 0;
        }
        if served > SERVED_MAX && !self.settling {
            self.breaks(format!("reactor {reactor} used the service {served} times in a turn"));
        }
        u64::from(served) * SERVE_NS
    }

    /// Makes connections that are no queues, if the host is hostile in this way.
    pub(super) fn crowd(&mut self, host: usize) {
        let nonsense = match self.scenario.hostility_of(host) {
            Some(Hostility::TakesConnections) => false,
            Some(Hostility::SendsGarbage) => true,
            _ => return,
        };
        if self.settling || self.crowds >= CROWDS {
            return;
        }
        self.crowds += 1;
        for _ in 0..CROWD {
            let index = self.connections.len();
            let reactor = self.rng.usize(0..self.reactors.len());
            let times = (self.rng.u64(1_000..100_000), self.rng.u64(1_000..100_000));
            let connection = Connection::new((host, BESIDE), reactor, Carrier::Tcp, times);
            let sent: &[u8] = if nonsense { NONSENSE } else { &[] };
            let up = Up::Bytes(sent.iter().copied().collect());
            // A host that has sent nonsense ends the connection at once, or waits for an answer.
            let cut = nonsense && self.rng.bool();
            self.connections.push(Connection { up, cut, ..connection });
            self.put(reactor, Input::Accept(index));
        }
        self.after(CROWD_EVERY_NS, Event::Crowd(host));
    }

    /// Returns the reactor time of the connections that a turn has served, in ns; checks that they are few, and
    /// that not too many are without a Connect.
    pub(super) fn taking_in_ns(&mut self, reactor: usize, count: u64) -> u64 {
        if count > TAKEN_IN_MAX {
            self.breaks(format!("reactor {reactor} served {count} connections in a turn"));
        }
        let most = MAX_WAITING as usize + ENDING_MAX;
        let waiting = self.reactors[reactor].before_connect();
        if waiting > most as u64 {
            self.breaks(format!("reactor {reactor} has {waiting} connections without a Connect"));
        }
        if !self.scenario.hostility.is_empty() { count * TAKE_IN_NS } else { 0 }
    }

    /// Submits admin commands until `FLOOD_DEPTH` are under way, if the host floods its admin queue.
    pub(super) fn flood_admin(&mut self, index: usize) {
        let floods = self.scenario.hostility_of(index) == Some(Hostility::FloodsAdmin);
        let host = &mut self.hosts[index];
        let under_way = host.queue(0).map_or(FLOOD_DEPTH, |admin| admin.in_flight);
        if self.settling || !floods || under_way >= FLOOD_DEPTH {
            return;
        }
        for _ in under_way..FLOOD_DEPTH {
            if host.association.submit(commands::identify(1, 0), None, 4096).is_err() {
                break;
            }
        }
        self.associate(index);
    }

    /// Returns how much of `length` bytes is received at once: a little, where hosts flood.
    pub(super) fn chunk_of_flood(&self, length: usize) -> usize {
        let floods = self.scenario.any_is(Hostility::Floods);
        if floods { length.min(FLOOD_CHUNK) } else { length }
    }

    /// Receives all further input of a stream at once, if hosts flood.
    pub(super) fn goes_on_receiving(&mut self, index: usize) {
        let one = &self.connections[index];
        let stream = matches!(one.receiving, Some(Receive::Chunks | Receive::Chunk));
        if self.scenario.any_is(Hostility::Floods) && stream && !one.up.is_empty() {
            self.deliver_up(index);
        }
    }
}

impl Reactor {
    /// Counts the connections that it serves and that have sent no Connect that succeeded.
    pub(super) fn before_connect(&mut self) -> u64 {
        self.connections.len().saturating_sub(self.core.driver().queues.len()) as u64
    }

    /// Counts the chunks that it has received and not looked at.
    pub(super) fn received(&self) -> usize {
        let received = |one: &&Input| matches!(one, Input::Core(testing::Input::Received(..)));
        self.inbox.iter().filter(received).count()
    }
}
