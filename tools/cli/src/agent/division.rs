//! Division of a node's rates among control groups: pure logic, with the time as an argument.
//!
//! Each group at each disk of a session is a *user*. A user below nine tenths of its limit is satisfied, and claims its
//! use. All others claim everything. Users with traffic get their claim or an equal share, whichever is less (max-min). A
//! satisfied user may grow up to the share of the others: it is not held back below that.
//!
//! Commands in flight wait in the order of the target, which does not distinguish groups. While they take longer than
//! [`QUEUE`] to pass the session's rates, the groups have less than these rates. From [`LONG_QUEUE`] on, all groups with
//! traffic claim everything, since their use does not show their demand.

use std::collections::BTreeMap;

use arbitration::Nanos;
use arbitration::nodes::{divide_max_min, scale};
use fabric::nvme::node::NodeRates;

/// Parts in which shares are computed.
const WHOLE: u64 = 1 << 20;
/// Divisors of the whole: the least share of a direction, and the claim of a satisfied user beyond its use.
const DIRECTION: u64 = 16;
const CLAIM: u64 = 256;

/// Time in ns for which commands in flight may wait for the session's rates: the kernel's throttling lets groups send in
/// slices of 20 or 100 ms.
const QUEUE: u64 = 25_000_000;
/// Divisor of the rates: the part that is left, so that no queue stands at the target.
const SPARE: u64 = 64;
/// Time in ns from which on the use of groups does not show their demand.
const LONG_QUEUE: u64 = 100_000_000;
/// Time in ns in which longer queues drain, and the most of the rates that this takes, as a divisor.
const DRAIN: u64 = 300_000_000;
const DRAIN_MOST: u64 = 2;
/// Divisor of the difference by which the use of a user is followed: traffic comes in bursts.
const FOLLOW: u64 = 4;

/// A group at a disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct User {
    /// The group, by its path below the root group.
    pub(super) group: String,
    /// The disk's MAJOR:MINOR.
    pub(super) disk: String,
}

/// Counts of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) bytes: u64,
    pub(super) operations: u64,
}

/// Limits of reads and of writes; `None`: unlimited.
pub(super) type Limits = [NodeRates; 2];

#[derive(Clone, Debug, Default)]
struct Known {
    at: Nanos,
    /// Counts of reads and writes then.
    done: [Done; 2],
    /// Recent use.
    used: Option<[NodeUse; 2]>,
    limits: Limits,
}

/// Counts of users, and their limits.
#[derive(Clone, Debug, Default)]
pub(super) struct Division {
    users: BTreeMap<User, Known>,
    /// Whether a user had reached its limit at the last division.
    is_limiting: bool,
}

/// Use of a user since the last division, per second.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    directions: [NodeUse; 2],
    has_reached_limit: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct NodeUse {
    operations: u64,
    bytes: u64,
}

impl NodeUse {
    /// Returns the use after another measurement.
    fn follow(self, new: Self) -> Self {
        let of = |old: u64, new: u64| old - old / FOLLOW + new / FOLLOW;
        Self { operations: of(self.operations, new.operations), bytes: of(self.bytes, new.bytes) }
    }
}

/// Computes the time in ns in which commands in flight pass the session's rates.
fn queue_time(rates: [NodeRates; 3], in_flight: Done) -> u64 {
    let time =
        |amount: u64, rate: Option<u64>| rate.map_or(0, |rate| scale(amount, 1_000_000_000, rate));
    let times = rates.iter().map(|rates| {
        time(in_flight.bytes, rates.bandwidth).max(time(in_flight.operations, rates.iops))
    });
    times.max().unwrap_or(0)
}

/// Computes the rates that groups may use while a queue of this time drains.
fn draining(rates: [NodeRates; 3], queue: u64) -> [NodeRates; 3] {
    let queue = queue.saturating_sub(QUEUE).min(DRAIN / DRAIN_MOST);
    let of = |rate: Option<u64>| rate.map(|rate| rate - rate / SPARE - scale(rate, queue, DRAIN));
    rates
        .map(|NodeRates { iops, bandwidth }| NodeRates { iops: of(iops), bandwidth: of(bandwidth) })
}

impl Use {
    fn between(known: &Known, now: Nanos, done: [Done; 2]) -> Self {
        let ns = now.ns_since(known.at).max(1);
        let rate = |before: u64, after: u64| scale(after.saturating_sub(before), 1_000_000_000, ns);
        let [reads, writes] = known.done;
        let [new_reads, new_writes] = done;
        let of = |before: Done, after: Done| NodeUse {
            operations: rate(before.operations, after.operations),
            bytes: rate(before.bytes, after.bytes),
        };
        let now_used = [of(reads, new_reads), of(writes, new_writes)];
        let directions = match known.used {
            Some([read, written]) => {
                let [new_read, new_written] = now_used;
                [read.follow(new_read), written.follow(new_written)]
            }
            None => now_used,
        };
        let has_reached = |used: u64, limit: Option<u64>| {
            limit.is_some_and(|limit| used > 0 && used >= limit - limit / 10)
        };
        let has_reached_limit = directions.iter().zip(known.limits).any(|(used, limits)| {
            has_reached(used.operations, limits.iops) || has_reached(used.bytes, limits.bandwidth)
        });
        Self { directions, has_reached_limit }
    }

    fn is_idle(&self) -> bool {
        self.directions.iter().all(|used| used.operations == 0)
    }

    fn total(&self) -> NodeUse {
        let [reads, writes] = self.directions;
        NodeUse {
            operations: reads.operations.saturating_add(writes.operations),
            bytes: reads.bytes.saturating_add(writes.bytes),
        }
    }

    /// Computes the part of the tightest of the node's limits that was used.
    fn part_of(&self, [all, reads, writes]: [NodeRates; 3]) -> u64 {
        let of = |used: NodeUse, rates: NodeRates| {
            let part =
                |used: u64, rate: Option<u64>| rate.map_or(0, |rate| scale(WHOLE, used, rate));
            part(used.operations, rates.iops).max(part(used.bytes, rates.bandwidth))
        };
        let [read, written] = self.directions;
        of(self.total(), all).max(of(read, reads)).max(of(written, writes)).min(WHOLE)
    }

    /// Computes the limits of reads and writes for a part of the node's rates. The part of the limits on all commands
    /// is split as the user's traffic is.
    fn limits(&self, [all, reads, writes]: [NodeRates; 3], share: u64) -> Limits {
        let total = self.total();
        let [read, written] = self.directions;
        let split = |of: u64, total: u64| match total {
            0 => WHOLE,
            total => scale(WHOLE, of, total).max(WHOLE / DIRECTION),
        };
        let least = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            _ => one.or(other),
        };
        let of = |used: NodeUse, own: NodeRates| {
            let limit = |all: Option<u64>, own: Option<u64>, split: u64| {
                let all = all.map(|rate| scale(scale(rate, share, WHOLE), split, WHOLE));
                least(all, own.map(|rate| scale(rate, share, WHOLE))).map(|rate| rate.max(1))
            };
            NodeRates {
                iops: limit(all.iops, own.iops, split(used.operations, total.operations)),
                bandwidth: limit(all.bandwidth, own.bandwidth, split(used.bytes, total.bytes)),
            }
        };
        [of(read, reads), of(written, writes)]
    }
}

impl Division {
    /// Divides the node's rates (of all commands, reads and writes) among users, by their counts so far and by the
    /// session's commands in flight. Returns the limits of each user.
    pub(super) fn divide(
        &mut self,
        now: Nanos,
        rates: [NodeRates; 3],
        in_flight: Done,
        done: &BTreeMap<User, [Done; 2]>,
    ) -> BTreeMap<User, Limits> {
        let queue = queue_time(rates, in_flight);
        let rates = draining(rates, queue);
        let uses: Vec<(&User, Use)> = done
            .iter()
            .map(|(user, done)| {
                let used = self.users.get(user).map(|known| Use::between(known, now, *done));
                (user, used.unwrap_or_default())
            })
            .collect();
        let busy = uses.iter().filter(|(_, used)| !used.is_idle()).count() as u64;
        let claims: Vec<u64> = uses
            .iter()
            .filter(|(_, used)| !used.is_idle())
            .map(|(_, used)| match used.has_reached_limit || queue > LONG_QUEUE {
                true => u64::MAX,
                false => used.part_of(rates) + WHOLE / CLAIM,
            })
            .collect();
        let shares = divide_max_min(WHOLE, &claims);
        // The share of users that want more.
        let level = claims.iter().zip(&shares).filter(|(claim, _)| **claim == u64::MAX);
        let level = level.map(|(_, share)| *share).max().unwrap_or(WHOLE);
        let mut shares = shares.into_iter();
        self.is_limiting =
            queue > LONG_QUEUE || uses.iter().any(|(_, used)| used.has_reached_limit);
        let is_limited = rates.iter().any(|rates| *rates != NodeRates::default());
        let mut divided = BTreeMap::new();
        let mut recent = BTreeMap::new();
        for (user, used) in uses {
            recent.insert(user.clone(), used.directions);
            // A user that starts has an equal share at once.
            let share = match used.is_idle() {
                true => WHOLE / (busy + 1),
                // A satisfied user may grow to the share of the others.
                false => shares.next().unwrap_or(WHOLE).max(level),
            };
            let limits = if is_limited { used.limits(rates, share) } else { Limits::default() };
            divided.insert(user.clone(), limits);
        }
        self.users.retain(|user, _| done.contains_key(user));
        for (user, done) in done {
            let limits = divided.get(user).copied().unwrap_or_default();
            // A user that was not known has no use yet.
            let used = recent.get(user).copied().filter(|_| self.users.contains_key(user));
            self.users.insert(user.clone(), Known { at: now, done: *done, used, limits });
        }
        divided
    }

    /// Returns how many users had reached their limits at the last division: commands of theirs wait.
    pub(super) fn is_limiting(&self) -> bool {
        self.is_limiting
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn user(group: &str) -> User {
        User { group: group.to_owned(), disk: "259:1".to_owned() }
    }

    /// Returns the time of a report.
    fn now(report: u64) -> Nanos {
        Nanos(report * 250_000_000)
    }

    fn bandwidth(rate: u64) -> [NodeRates; 3] {
        let all = NodeRates { bandwidth: Some(rate), iops: None };
        [all, NodeRates::default(), NodeRates::default()]
    }

    /// Groups that read, each with a demand in bytes per second, under the limits that they are given, for so many
    /// periods of 250 ms. Returns the bytes per second of the last period.
    fn simulate(rate: u64, demands: &[u64], periods: u64) -> Vec<u64> {
        let mut division = Division::default();
        let mut done = vec![0_u64; demands.len()];
        let mut limits = vec![u64::MAX; demands.len()];
        let mut last = vec![0; demands.len()];
        for period in 1..=periods {
            for (at, demand) in demands.iter().enumerate() {
                let moved = (*demand).min(limits[at]) / 4;
                (done[at], last[at]) = (done[at] + moved, moved * 4);
            }
            let counted = |bytes: u64| [Done { bytes, operations: bytes / 4096 }, Done::default()];
            let uses = done.iter().enumerate();
            let uses = uses.map(|(at, bytes)| (user(&format!("{at}")), counted(*bytes))).collect();
            let divided = division.divide(now(period), bandwidth(rate), Done::default(), &uses);
            for (at, limit) in limits.iter_mut().enumerate() {
                *limit = divided[&user(&format!("{at}"))][0].bandwidth.unwrap();
            }
        }
        last
    }

    #[test]
    fn d6_greedy_groups_spare_a_small_one() {
        let have = simulate(100 * MIB, &[1000 * MIB, 10 * MIB, 1000 * MIB, 60 * MIB], 40);
        assert_eq!(have[1], 10 * MIB);
        for at in [0, 2, 3] {
            let want = 30 * MIB;
            assert!(have[at].abs_diff(want) < want / 6, "{have:?}");
        }
        assert!(have.iter().sum::<u64>() <= 102 * MIB, "{have:?}");
    }

    #[test]
    fn d6_group_alone_has_the_whole_rate() {
        let have = simulate(100 * MIB, &[1000 * MIB, 0], 20);
        assert!(have[0] >= 96 * MIB, "{have:?}");
    }

    #[test]
    fn d6_groups_have_less_while_a_queue_drains() {
        let left = |bytes: u64| {
            let rates = bandwidth(100 * MIB);
            let queue = queue_time(rates, Done { bytes, operations: 1 });
            let [all, ..] = draining(rates, queue);
            all.bandwidth.unwrap() / MIB
        };
        assert_eq!([0, 2 * MIB, 11 * MIB, 1000 * MIB].map(left), [98, 98, 70, 48]);
    }

    #[test]
    fn session_without_rates_has_no_limits() {
        let uses = [(user("a"), [Done { bytes: 5, operations: 5 }, Done::default()])].into();
        let divided =
            Division::default().divide(now(1), Default::default(), Done::default(), &uses);
        assert_eq!(divided[&user("a")], Limits::default());
    }

    #[test]
    fn limit_is_split_by_direction_of_traffic() {
        let mut division = Division::default();
        let done = |reads: u64, writes: u64| {
            let of = |bytes| Done { bytes, operations: bytes / 4096 };
            [(user("a"), [of(reads), of(writes)])].into()
        };
        let rates = bandwidth(100 * MIB);
        division.divide(now(1), rates, Done::default(), &done(0, 0));
        let divided = division.divide(now(5), rates, Done::default(), &done(60 * MIB, 20 * MIB));
        let [reads, writes] = divided[&user("a")];
        let mib = |rate: Option<u64>| rate.unwrap() as f64 / MIB as f64;
        assert!((mib(reads.bandwidth) - 75.0 * 63.0 / 64.0).abs() < 0.01, "{reads:?}");
        assert!((mib(writes.bandwidth) - 25.0 * 63.0 / 64.0).abs() < 0.01, "{writes:?}");
    }

    proptest! {
        /// No group starves, and together they keep within the rate.
        #[test]
        fn d6_any_groups_keep_within_the_rate(
            demands in prop::collection::vec(0u64..2000, 1..12)
        ) {
            let demands: Vec<u64> = demands.into_iter().map(|mib| mib * MIB).collect();
            let have = simulate(100 * MIB, &demands, 60);
            let busy = demands.iter().filter(|demand| **demand > 0).count() as u64;
            for (have, demand) in have.iter().zip(&demands) {
                prop_assert!(*have >= (*demand).min(100 * MIB / busy) * 8 / 10, "{:?}", (have, demand));
            }
            let sum: u64 = have.iter().sum();
            let wanted: u64 = demands.iter().sum();
            prop_assert!(sum <= 102 * MIB, "{}", sum);
            prop_assert!(sum >= wanted.min(100 * MIB) * 9 / 10, "{} of {}", sum, wanted);
        }
    }
}
