//! Hosts that hold what they can get of a target, and one beside them that goes on.

use super::World;
use crate::oracle::Broken;
use crate::scenario::Hostility;

/// Longest time that the last host may wait for an answer while the others hold what they can, in
/// ns.
const WAIT_NS: u64 = 1_000_000_000;

/// Largest number of blocks of a command of the last host.
const SMALL: u32 = 8;

impl World {
    /// Returns the hostility of a connection's host, once the connection's queue is connected.
    fn hostility(&mut self, index: usize) -> Option<Hostility> {
        let hostility = self.scenario.hostility.filter(|_| !self.settling)?;
        let connection = self.connections.get(index)?;
        let (host, qid) = (connection.host, connection.qid);
        let others = self.hosts.len().saturating_sub(1);
        let live = self.hosts.get_mut(host)?.queue(qid)?.live;
        (host < others && qid > 0 && live).then_some(hostility)
    }

    /// Says whether nothing is taken from a connection by its host.
    pub(super) fn is_deaf(&mut self, index: usize) -> bool {
        self.hostility(index) == Some(Hostility::KeepsAnswers)
    }

    /// Lets a connection fall silent at any byte.
    pub(super) fn fall_silent(&mut self, index: usize) {
        if self.hostility(index) == Some(Hostility::OwesData)
            && self.rng.u8(0..16) == 0
            && let Some(connection) = self.connections.get_mut(index)
        {
            connection.silent = true;
        }
    }

    /// Returns the most blocks of a host's commands: beside hosts that hold what they can, another
    /// has no claim on memory for large ones.
    pub(super) fn largest_of(&self, host: usize) -> u32 {
        let beside = self.scenario.hostility.is_some() && host + 1 == self.hosts.len();
        if beside { SMALL } else { u32::MAX }
    }

    /// Checks that the last host has answers in time.
    pub(super) fn check_innocent(&self) -> Result<(), Broken> {
        if self.scenario.hostility.is_none() || self.settling {
            return Ok(());
        }
        let Some(host) = self.hosts.last() else { return Ok(()) };
        let since = host.answered_at.max(host.asked_at);
        if host.io_outstanding() == 0 || self.now.ns_since(since) <= WAIT_NS {
            return Ok(());
        }
        let held: Vec<_> =
            self.reactors.iter().map(|one| (one.core.inventory(), one.core.states())).collect();
        let what = format!("a host waits since {since:?} beside hosts that hold: {held:?}");
        Err(Broken { at: self.now, what })
    }
}
