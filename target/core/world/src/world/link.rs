//! The link that all connections share, at work: it carries a rate, queues the rest, and marks what
//! has stood in the queue. Connections are observed, and limits published, as the daemon does it.

use std::sync::Arc;
use std::time::Duration;

use fabric::Nanos;
use qtcp::Rate;
use qtcp::class_split::{ClassSplit, REST};
use qtcp::pacing::Pacing;

use super::shared_link::{LOOK_NS, MARK_NS, Paced, Way};
use super::{Event, World};

impl World {
    /// Joins a connection to its link when its I/O queue is connected: the connection is looked at
    /// from now on.
    pub(super) fn join_link(&mut self, connection: usize, pacing: Arc<Pacing>) {
        let now = self.now;
        let (down, up) = Default::default();
        let index = self.paced.len();
        let paced = Paced { pacing, connection, looked_at: now, moved_at: now, down, up };
        self.paced.push(paced);
        if let Some(connection) = self.connections.get_mut(connection) {
            connection.paced = Some(index);
        }
        if self.link.is_some()
            && let Some(paced) = self.paced.get(index)
        {
            paced.pacing.set_ahead_at(Some(Rate::ZERO));
            self.after(LOOK_NS, Event::Sample(index));
        }
    }

    /// Returns the time at which bytes arrive that one end of a connection sends now, after the
    /// time that they are under way alone.
    pub(super) fn carry(&mut self, index: usize, way: Way, bytes: usize, alone: u64) -> Nanos {
        let now = self.now;
        let arrives = Nanos(now.0 + alone);
        let Some(link) = &mut self.link else { return arrives };
        let Some(connection) = self.connections.get_mut(index) else { return arrives };
        let bytes = bytes as u64;
        let takes = |rate: u64| bytes.saturating_mul(1_000_000_000) / rate.max(1);
        // The sender's own pace comes before the link.
        let sent = match (way, connection.pace) {
            (Way::Down, Some(rate)) => {
                let sent = arrives.max(connection.pace_at);
                connection.pace_at = Nanos(sent.0 + takes(rate));
                sent
            }
            _ => arrives,
        };
        let rate = link.rate;
        let lane = link.lane(way);
        let through = Nanos(lane.free_at.max(sent).0 + takes(rate));
        let queued = lane.free_at.ns_since(sent);
        lane.free_at = through;
        if let Some(paced) = connection.paced.and_then(|paced| self.paced.get_mut(paced)) {
            let seen = match way {
                Way::Down => &mut paced.down,
                Way::Up => &mut paced.up,
            };
            seen.bytes += bytes;
            seen.marked += if queued > MARK_NS { bytes } else { 0 };
            seen.queued = queued;
        }
        through
    }

    /// Looks at a connection as the daemon's poller does.
    pub(super) fn sample(&mut self, index: usize) {
        let now = self.now;
        let Some(paced) = self.paced.get_mut(index) else { return };
        let Some(link) = self.link.as_mut().filter(|_| !self.settling) else { return };
        let Some(connection) = self.connections.get_mut(paced.connection) else { return };
        let Paced { pacing, down, up, .. } = paced;
        if connection.key.is_none() {
            down.leave(&mut link.down);
            up.leave(&mut link.up);
            return;
        }
        let quiet = down.is_quiet(&pacing.out) && up.is_quiet(&pacing.into);
        if !quiet {
            paced.moved_at = now;
        }
        let interval = now.ns_since(paced.looked_at);
        paced.looked_at = now;
        let before = (connection.pace, pacing.r2t_rate());
        if quiet && now.since(paced.moved_at) > REST {
            down.leave(&mut link.down);
            up.leave(&mut link.up);
            connection.pace = None;
            pacing.set_r2t_rate(None);
        } else {
            let rtt = connection.up_ns + connection.down_ns + down.queued + up.queued;
            pacing.set_rtt(Duration::from_nanos(rtt));
            let is_sending = connection.sending.is_some() || !connection.down.is_empty();
            let all = down.observation(interval, rtt, !is_sending);
            let split = ClassSplit { all: &all, idle: !is_sending };
            let limit = split.observe(now, &mut link.down.classes, &pacing.out, &mut down.flows);
            connection.pace = limit.map(whole);
            let all = up.observation(interval, rtt, false);
            let split = ClassSplit { all: &all, idle: true };
            let limit = split.observe(now, &mut link.up.classes, &pacing.into, &mut up.flows);
            pacing.set_r2t_rate(limit.map(whole));
        }
        pacing.set_held(connection.pace.is_some());
        pacing.set_ahead_at(Some(down.flows.values().map(|flow| flow.standing.rate).sum()));
        if before != (connection.pace, pacing.r2t_rate()) {
            self.rates_changed += 1;
        }
        self.after(LOOK_NS, Event::Sample(index));
    }

    /// Lifts the limits that the link has set.
    pub(super) fn lift_limits(&mut self) {
        self.rates_changed += 1;
        for paced in &self.paced {
            paced.pacing.set_r2t_rate(None);
            paced.pacing.set_held(false);
            paced.pacing.set_ahead_at(None);
            if let Some(connection) = self.connections.get_mut(paced.connection) {
                connection.pace = None;
            }
        }
    }
}

/// Returns a rate in whole bytes a second, rounded down, at least one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "never negative")]
fn whole(rate: Rate) -> u64 {
    (rate.bytes() as u64).max(1)
}
