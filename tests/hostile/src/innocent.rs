//! An innocent host beside others: the host writes, reads back and compares,
//! one command at a time.

use std::io::{Error, Result};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fabric::nvme::opcode;

use crate::commands::{BLOCK, io, numbered, pattern};
use crate::{Identity, Queue, stamped};

/// The blocks that one host writes to.
const REGION: u32 = 256;

/// The times that commands took, from the call until the answer was at the host's socket.
#[derive(Debug, Clone, Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// Returns the number of commands.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the time within which a part of the commands ended; 1 for the longest of all.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of a count, no larger than it"
    )]
    pub fn quantile(&self, part: f64) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = (sorted.len() as f64 * part) as usize;
        sorted.get(at).or(sorted.last()).copied().unwrap_or_default()
    }
}

/// An innocent host with a controller and one queue.
#[derive(Debug)]
pub struct Innocent {
    _admin: Queue,
    queue: Queue,
    nsid: u32,
    first: u32,
    rounds: u32,
}

impl Innocent {
    /// Connects the `n`-th innocent host, which has 256 blocks of namespace `nsid` of its own.
    ///
    /// # Errors
    /// The target refuses the connection, or breaks it.
    pub fn connect(address: SocketAddr, subsystem: &str, n: u32, nsid: u32) -> Result<Self> {
        let host = Identity::numbered(subsystem, n);
        let (admin, cntlid) = Queue::controller(address, &host)?;
        let (queue, _) = Queue::connect(address, &host, 1, cntlid)?;
        Ok(Self { _admin: admin, queue, nsid, first: n * REGION, rounds: 0 })
    }

    /// Writes one block, reads it back and compares; adds the two times to `latencies`.
    ///
    /// # Errors
    /// A connection that ended, a status other than success, or other data than was written.
    pub fn round(&mut self, latencies: &mut Latencies) -> Result<()> {
        let lba = self.first + self.rounds % REGION;
        let [salt, ..] = self.rounds.to_le_bytes();
        self.rounds = self.rounds.wrapping_add(1);
        let data = pattern(lba, 1, salt);
        for (opcode, write) in [(opcode::io::WRITE, true), (opcode::io::READ, false)] {
            let sqe = numbered(io(opcode, lba, 1), 0, self.nsid);
            let start = stamped::now();
            let read = if write { 0 } else { u32::try_from(BLOCK).unwrap_or(u32::MAX) };
            let answer = self.queue.call(sqe, write.then(|| data.clone()), read)?;
            latencies.0.push(self.queue.came().saturating_sub(start));
            if !answer.status.is_success() {
                return Err(Error::other(format!("block {lba}: {}", answer.status)));
            }
            if !write && answer.data != data {
                return Err(Error::other(format!("block {lba} has other data than was written")));
            }
        }
        Ok(())
    }

    /// Runs rounds until `over`, and `least` rounds at least.
    ///
    /// # Errors
    /// The same as of [`Innocent::round`].
    pub fn run(&mut self, least: usize, over: &AtomicBool) -> Result<Latencies> {
        let mut latencies = Latencies::default();
        while latencies.count() < 2 * least || !over.load(Ordering::Relaxed) {
            self.round(&mut latencies)?;
        }
        Ok(latencies)
    }
}
