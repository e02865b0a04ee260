//! A check of the parts that classes have of the link: by their shares in each direction, whatever
//! the round trips and the connections of their hosts.

use std::time::Duration;

use arbitration::{Class, PerClass};
use fabric::Nanos;

use super::shared_link::{Way, share};
use super::shares::TOLERANCE;
use crate::oracle::Broken;
use crate::scenario::{LINK_SETTLE_NS, Moves};

/// Shortest time for which parts are measured, in ns.
const MEASURED_NS: u64 = 5_000_000_000;
/// The least part of what the link carries that classes have of it together.
const MOST: f64 = 0.9;
/// The same for writes of hosts that read too, and are asked for data behind answers.
const BESIDE_READS: f64 = 0.4;

/// The bytes that classes have moved over the link.
#[derive(Debug, Default)]
pub(super) struct LinkShares {
    /// Time from which on bytes count; `None` until all queues of all hosts are there.
    since: Option<Nanos>,
    down: PerClass<u64>,
    up: PerClass<u64>,
}

impl LinkShares {
    /// Counts bytes of a class, some time after all queues of all hosts are there, which `complete`
    /// says.
    pub(super) fn count(
        &mut self,
        now: Nanos,
        (way, class, bytes): (Way, Class, u64),
        complete: impl FnOnce() -> bool,
    ) {
        if self.since.is_none() && complete() {
            self.since = Some(Nanos(now.0 + LINK_SETTLE_NS));
        }
        if self.since.is_some_and(|since| now >= since) {
            let moved = match way {
                Way::Down => &mut self.down,
                Way::Up => &mut self.up,
            };
            moved[class] += bytes;
        }
    }

    /// Checks that each of these classes had its share of each direction that was used, and that
    /// these had most of what a link of `rate` bytes a second carries by `now`.
    pub(super) fn check(
        &self,
        classes: &[Class],
        moves: Moves,
        rate: u64,
        now: Nanos,
    ) -> Result<(), Broken> {
        let broken = |what| Err(Broken { at: now, what });
        let Some(measured) = self.since.map(|since| now.ns_since(since)) else {
            return broken("no share was measured: not all queues were there".to_owned());
        };
        let carries = rate as f64 * Duration::from_nanos(measured).as_secs_f64();
        let (down, up) = match moves {
            Moves::Reads => (Some((&self.down, MOST)), None),
            Moves::Writes => (None, Some((&self.up, MOST))),
            Moves::Both => (Some((&self.down, MOST)), Some((&self.up, BESIDE_READS))),
        };
        let present = Class::ALL.into_iter().filter(|class| classes.contains(class));
        let shares: f64 = present.filter_map(share).sum();
        for (way, moved) in [(Way::Down, down), (Way::Up, up)] {
            let Some((moved, least)) = moved else { continue };
            let all = moved.values().sum::<u64>() as f64;
            if measured < MEASURED_NS || all < least * carries {
                return broken(format!(
                    "of {carries} bytes {way:?} in {measured} ns classes moved {moved:?}"
                ));
            }
            for class in classes {
                let part = share(*class).unwrap_or_default() / shares;
                let of_part = moved[*class] as f64 / (all * part);
                if (of_part - 1.0).abs() > TOLERANCE {
                    return broken(format!(
                        "{class} had {of_part:.2} of its part {way:?}: {moved:?}"
                    ));
                }
            }
        }
        Ok(())
    }
}
