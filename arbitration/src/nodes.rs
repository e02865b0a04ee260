//! Division of a session's credits and rates among client nodes (docs/research/sources.md, D6 and F6: credits pace the
//! clients of a node; F5: credits are limited in time and favour batches).
//!
//! A node reports its commands in flight, waiting and completed. Each [`ROUND`] the table divides the session's caps and
//! limits among the nodes with demand:
//!
//! - A node with nothing waiting is satisfied, and claims its use. All others claim everything. Each gets its claim or an
//!   equal share, whichever is less (max-min). The rest is divided equally. A satisfied node is not held back below the
//!   share of the others.
//! - If there are more nodes with demand than batches of [`BATCH`] operations, some of them are active in each round,
//!   with a batch each, and the others have one operation. The nodes become active in turn.
//! - A node without demand has one batch, so that it can start at once.
//!
//! Credits are valid for [`VALID`] after a report. A node that no longer reports is forgotten then, and its share goes
//! to the others. The target's own credits and limits hold for every node: this table moves
//! their wait to where it costs the target nothing.

use std::collections::HashMap;
use std::sync::Arc;

use units::Nanos;

use crate::credit::{Caps, Used};
use crate::limit::{Rate, Rates};
use crate::session::Session;

/// Time after a report for which a node's credits are valid.
pub const VALID: Nanos = Nanos(2_000_000_000);
/// Time after which a node is to report again: one report in eight may be enough.
pub const REPORT: Nanos = Nanos(250_000_000);
/// Time between two divisions of a session.
pub const ROUND: Nanos = Nanos(100_000_000);
/// Operations that a node has at least while it is active.
pub const BATCH: u32 = 4;
/// The most nodes of one session, and of all. Beyond it, the node whose report is oldest is forgotten.
const NODES_MAX: usize = 4096;
/// Parts in which shares of rates are computed.
const WHOLE: u64 = 1 << 20;
/// Divisor of the whole: the claim of a satisfied node to a rate beyond its use.
const LEAST_PART: u64 = 256;
/// Divisor of the difference by which a node's rate is followed.
const FOLLOW: u64 = 4;

/// A node's report of one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeReport {
    /// In flight.
    pub in_flight: Used,
    /// Waiting on the node.
    pub waiting: Used,
    /// Completed since the node's agent started. Lower counts than before are a new start.
    pub completed: Used,
}

/// The part of a session that a node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeShare {
    /// The most in flight.
    pub caps: Caps,
    /// Rates of all commands, of reads, and of writes.
    pub rates: [Rates; 3],
}

#[derive(Debug, Default)]
struct NodeState {
    reported: Nanos,
    report: NodeReport,
    /// Completed operations and KiB per second, recently.
    rate: [u64; 2],
    /// The latest division: operations, KiB, and the share of rates in parts of [`WHOLE`].
    operations: u64,
    payload: u64,
    part: u64,
}

/// The nodes of one session.
#[derive(Debug, Default)]
struct SessionNodes {
    nodes: HashMap<String, NodeState>,
    /// The latest division.
    divided: Option<Nanos>,
    /// The node that is active first in the next round, among those with demand in order of their names.
    turn: usize,
}

/// The nodes of all sessions.
#[derive(Debug, Default)]
pub struct NodeTable {
    /// By the sessions' serial numbers.
    sessions: HashMap<u32, SessionNodes>,
}

/// The bounds of a session and of those above it.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    caps: Caps,
    rates: [Rates; 3],
}

impl Bounds {
    fn along(session: &Arc<Session>) -> Self {
        let mut bounds = Self { caps: Caps::NONE, rates: [Rates::default(); 3] };
        let least = |one: Option<Rate>, other: Option<Rate>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            _ => one.or(other),
        };
        for session in session.line() {
            let (caps, limits) = (session.credits.caps(), session.limits());
            bounds.caps.operations = bounds.caps.operations.min(caps.operations);
            bounds.caps.payload = bounds.caps.payload.min(caps.payload);
            let here = [limits.total, limits.reads, limits.writes];
            for (rates, here) in bounds.rates.iter_mut().zip(here) {
                rates.iops = least(rates.iops, here.iops);
                rates.bandwidth = least(rates.bandwidth, here.bandwidth);
            }
        }
        bounds
    }

    /// Computes the part of the tightest limit that a rate of operations and KiB per second takes. Reports do not tell
    /// reads from writes: all may be of the direction that is limited.
    fn part(&self, [operations, kib]: [u64; 2]) -> u64 {
        let part = |used: u64, limit: Option<Rate>| {
            limit.map_or(0, |limit| scale(used, WHOLE, limit.get()))
        };
        let bytes = kib.saturating_mul(1024);
        let parts = self
            .rates
            .iter()
            .map(|Rates { iops, bandwidth }| part(operations, *iops).max(part(bytes, *bandwidth)));
        parts.max().unwrap_or(0)
    }

    /// Returns a node's part of the rates: at least 1 per second.
    fn rates(&self, part: u64) -> [Rates; 3] {
        let of =
            |rate: Rate| Rate::per_second(scale(rate.get(), part, WHOLE).max(1)).unwrap_or(rate);
        self.rates.map(|Rates { iops, bandwidth }| Rates {
            iops: iops.map(of),
            bandwidth: bandwidth.map(of),
        })
    }
}

/// Computes `amount * numerator / denominator`, at most `u64::MAX`. A denominator of 0 counts as 1.
#[must_use]
pub fn scale(amount: u64, numerator: u64, denominator: u64) -> u64 {
    let scaled = u128::from(amount) * u128::from(numerator) / u128::from(denominator.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Divides an amount among claims: each gets its claim, or an equal share of the rest after smaller claims.
#[must_use]
pub fn divide_max_min(amount: u64, claims: &[u64]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..claims.len()).collect();
    order.sort_by_key(|at| claims.get(*at));
    let mut shares = vec![0; claims.len()];
    let (mut left, mut among) = (amount, claims.len() as u64);
    for at in order {
        let claim = claims.get(at).copied().unwrap_or(0);
        let share = claim.min(left / among.max(1));
        if let Some(place) = shares.get_mut(at) {
            *place = share;
        }
        left -= share;
        among = among.saturating_sub(1);
    }
    // The rest is divided equally: claims may grow before the next round.
    let spare = left / (claims.len() as u64).max(1);
    shares.iter_mut().for_each(|share| *share += spare);
    shares
}

/// Returns a rate after another measurement: traffic comes in bursts.
fn follow(rate: u64, new: u64) -> u64 {
    match rate {
        0 => new,
        rate => rate - rate / FOLLOW + new / FOLLOW,
    }
}

/// Lists the claims of nodes: `claim` of satisfied nodes, everything for the others.
fn claims(nodes: &[&mut NodeState], claim: impl Fn(&NodeState) -> u64) -> Vec<u64> {
    let claim = |node: &&mut NodeState| if node.is_satisfied() { claim(node) } else { u64::MAX };
    nodes.iter().map(claim).collect()
}

impl NodeState {
    fn is_expired(&self, now: Nanos) -> bool {
        now.ns_since(self.reported) > VALID.0
    }

    fn has_demand(&self) -> bool {
        self.report.in_flight.operations > 0 || self.report.waiting.operations > 0
    }

    fn is_satisfied(&self) -> bool {
        self.report.waiting.operations == 0
    }

    fn update(&mut self, now: Nanos, report: NodeReport) {
        let ns = now.ns_since(self.reported).max(1);
        let rate = |before: u64, after: u64| scale(after.saturating_sub(before), 1_000_000_000, ns);
        let (before, after) = (self.report.completed, report.completed);
        self.rate = match self.reported {
            Nanos::ZERO => [0; 2],
            _ => {
                let [operations, kib] = self.rate;
                [
                    follow(operations, rate(before.operations.into(), after.operations.into())),
                    follow(kib, rate(before.payload, after.payload)),
                ]
            }
        };
        (self.reported, self.report) = (now, report);
    }
}

impl SessionNodes {
    /// Divides the session among its nodes, unless that was done less than a [`ROUND`] ago.
    fn divide(&mut self, now: Nanos, bounds: &Bounds) {
        if self.divided.is_some_and(|divided| now.ns_since(divided) < ROUND.0) {
            return;
        }
        self.divided = Some(now);
        self.nodes.retain(|_, node| !node.is_expired(now));
        let (mut wanting, idle): (Vec<_>, Vec<_>) =
            self.nodes.iter_mut().partition(|(_, node)| node.has_demand());
        wanting.sort_by_key(|(name, _)| *name);
        let mut wanting: Vec<&mut NodeState> = wanting.into_iter().map(|(_, node)| node).collect();
        let Caps { operations, payload } = bounds.caps;
        for (_, node) in idle {
            let equal = wanting.len() as u64 + 1;
            node.operations = u64::from(operations.clamp(1, BATCH));
            node.payload = payload / equal;
            node.part = WHOLE / equal;
        }
        let used = |node: &NodeState| bounds.part(node.rate).min(WHOLE);
        let parts = claims(&wanting, |node| used(node) + WHOLE / LEAST_PART);
        let payloads = claims(&wanting, |node| node.report.in_flight.payload.saturating_mul(2));
        let parts = divide_max_min(WHOLE, &parts);
        let payloads = divide_max_min(payload, &payloads);
        // The part of nodes that want more.
        let level = wanting.iter().zip(&parts).filter(|(node, _)| !node.is_satisfied());
        let level = level.map(|(_, part)| *part).max().unwrap_or(WHOLE);
        for (node, (part, payload)) in wanting.iter_mut().zip(parts.into_iter().zip(payloads)) {
            (node.part, node.payload) = (part, payload);
            // A satisfied node may grow to the part of the others.
            node.part = node.part.max(level);
        }
        let batches = usize::try_from(operations / BATCH).unwrap_or(usize::MAX).max(1);
        if wanting.len() <= batches {
            let claims = claims(&wanting, |node| {
                u64::from(node.report.in_flight.operations) * 2 + u64::from(BATCH)
            });
            let shares = divide_max_min(operations.into(), &claims);
            for (node, share) in wanting.iter_mut().zip(shares) {
                node.operations = share;
            }
            return;
        }
        let count = wanting.len();
        let first = self.turn % count;
        for (at, node) in wanting.iter_mut().enumerate() {
            let is_active = (at + count - first) % count < batches;
            node.operations = if is_active { operations.clamp(1, BATCH).into() } else { 1 };
        }
        self.turn = first + batches;
    }
}

impl NodeTable {
    /// Takes a node's report of a session.
    pub fn report(&mut self, now: Nanos, session: &Arc<Session>, node: &str, report: NodeReport) {
        if self.sessions.len() >= NODES_MAX {
            self.sessions.retain(|_, session| {
                session.nodes.retain(|_, node| !node.is_expired(now));
                !session.nodes.is_empty()
            });
        }
        if self.sessions.len() >= NODES_MAX && !self.sessions.contains_key(&session.serial()) {
            return;
        }
        let nodes = &mut self.sessions.entry(session.serial()).or_default().nodes;
        if nodes.len() >= NODES_MAX && !nodes.contains_key(node) {
            let oldest = nodes.iter().min_by_key(|(_, node)| node.reported);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                nodes.remove(&oldest);
            }
        }
        nodes.entry(node.to_owned()).or_default().update(now, report);
    }

    /// Returns a node's part of a session. A node that has not reported has a batch, and an equal part of the rates.
    pub fn share(&mut self, now: Nanos, session: &Arc<Session>, node: &str) -> NodeShare {
        let bounds = Bounds::along(session);
        let nodes = self.sessions.get_mut(&session.serial());
        let others = nodes.as_ref().map_or(0, |session| session.nodes.len()) as u64 + 1;
        let own = nodes.and_then(|session| {
            session.divide(now, &bounds);
            session.nodes.get(node).filter(|node| node.part != 0)
        });
        let Caps { operations, payload } = bounds.caps;
        let (own_operations, own_payload, part) = match own {
            Some(node) => (node.operations, node.payload, node.part),
            None => (u64::from(operations.clamp(1, BATCH)), payload / others, WHOLE / others),
        };
        let own_operations = u32::try_from(own_operations).unwrap_or(u32::MAX);
        let caps = Caps {
            operations: if operations == u32::MAX { u32::MAX } else { own_operations.max(1) },
            payload: if payload == u64::MAX { u64::MAX } else { own_payload.max(1) },
        };
        NodeShare { caps, rates: bounds.rates(part) }
    }

    /// Returns how many nodes report a session.
    #[must_use]
    pub fn nodes(&self, session: &Session) -> usize {
        self.sessions.get(&session.serial()).map_or(0, |session| session.nodes.len())
    }
}

#[cfg(test)]
mod tests;
