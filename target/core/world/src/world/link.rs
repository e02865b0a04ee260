//! The link that all connections share, at work: it carries a rate, queues the rest, and marks what
//! has stood in the queue. Connections are observed, and limits published, as the daemon does it.

use std::sync::Arc;
use std::time::Duration;

use fabric::Nanos;
use qtcp::Rate;
use qtcp::class_split::{ClassSplit, REST, moves};
use qtcp::pacing::{Answers, Pacing};

use super::shared_link::{LOOK_NS, MARK_BYTES, PIECE, Paced, Way};
use super::{Event, TURN_NS, World};

impl World {
    /// Joins a connection to its link when its I/O queue is connected: the connection is looked at
    /// from now on.
    pub(super) fn join_link(&mut self, connection: usize, pacing: Arc<Pacing>) {
        let now = self.now;
        let (lately, down, up) = Default::default();
        let index = self.paced.len();
        let paced = Paced { pacing, connection, looked_at: now, moved_at: now, lately, down, up };
        self.paced.push(paced);
        if let Some(connection) = self.connections.get_mut(connection) {
            connection.paced = Some(index);
        }
        if self.link.is_some()
            && let Some(paced) = self.paced.get(index)
        {
            paced.pacing.hand_over(Answers::Whole(Rate::ZERO));
            self.after(LOOK_NS, Event::Sample(index));
        }
    }

    /// Gives the link what both ends of a connection have to send, and plans what follows.
    pub(super) fn schedule_on_link(&mut self, index: usize) {
        self.send_up(index);
        self.send_down(index);
    }

    fn send_up(&mut self, index: usize) {
        while let Some(connection) = self.connections.get_mut(index) {
            let unsent = connection.up.len().saturating_sub(connection.up_sent);
            if unsent == 0 {
                break;
            }
            let (piece, alone) = (unsent.min(PIECE), connection.up_ns);
            connection.up_sent += piece;
            let at = self.carry(index, Way::Up, piece, alone);
            self.at(at, Event::UpCrossed(index, piece));
        }
        let Some(connection) = self.connections.get_mut(index) else { return };
        let comes = connection.up_arrived > 0 || connection.stopping || connection.cut;
        if comes && connection.can_deliver_up() && !connection.up_scheduled {
            connection.up_scheduled = true;
            self.after(TURN_NS, Event::Up(index));
        }
    }

    /// Takes note that a piece has crossed the link to the target.
    pub(super) fn crossed_up(&mut self, index: usize, piece: usize) {
        if let Some(connection) = self.connections.get_mut(index) {
            connection.up_arrived += piece;
        }
        self.schedule(index);
    }

    fn send_down(&mut self, index: usize) {
        while let Some(connection) = self.connections.get_mut(index) {
            let unsent = connection.down.len().saturating_sub(connection.down_sent);
            let paced = connection.pace.map_or(self.now, |_| connection.pace_at).max(self.now);
            if unsent == 0 || paced > self.now {
                // The socket has room for more, the end is to be told, or the pace allows more then.
                let more = paced > self.now || connection.down.is_empty();
                let idle = !connection.can_deliver_down() || connection.down_scheduled;
                if more && !idle {
                    connection.down_scheduled = true;
                    self.at(paced.max(Nanos(self.now.0 + TURN_NS)), Event::Sends(index));
                }
                return;
            }
            let (piece, alone) = (unsent.min(PIECE), connection.down_ns);
            connection.down_sent += piece;
            let at = self.carry(index, Way::Down, piece, alone);
            self.at(at, Event::DownCrossed(index, piece));
        }
    }

    /// Lets the target go on sending.
    pub(super) fn send_again(&mut self, index: usize) {
        if let Some(connection) = self.connections.get_mut(index) {
            connection.down_scheduled = false;
        }
        self.hand_down(index, 0);
    }

    /// Returns the time at which a piece arrives that one end of a connection sends now: it waits for
    /// the link, and is under way `alone` for some time then.
    fn carry(&mut self, index: usize, way: Way, piece: usize, alone: u64) -> Nanos {
        let now = self.now;
        let Some(link) = &mut self.link else { return now };
        let Some(connection) = self.connections.get_mut(index) else { return now };
        let bytes = piece as u64;
        let takes = |rate: u64| takes_of(bytes, rate);
        if let (Way::Down, Some(rate)) = (way, connection.pace) {
            connection.pace_at = Nanos(now.0 + takes(rate));
        }
        let rate = link.rate;
        let direction = link.direction(way);
        let through = Nanos(direction.free_at.max(now).0 + takes(rate));
        let queued = direction.free_at.ns_since(now);
        direction.free_at = through;
        if let Some(paced) = connection.paced.and_then(|paced| self.paced.get_mut(paced)) {
            let seen = match way {
                Way::Down => &mut paced.down,
                Way::Up => &mut paced.up,
            };
            seen.bytes += bytes;
            seen.marked += if queued > takes_of(MARK_BYTES, rate) { bytes } else { 0 };
            seen.queued = queued;
        }
        Nanos(through.0 + alone)
    }

    /// Looks at a connection as the daemon's poller does.
    pub(super) fn sample(&mut self, index: usize) {
        let now = self.now;
        let Some(paced) = self.paced.get_mut(index) else { return };
        let Some(link) = self.link.as_mut().filter(|_| !self.settling) else { return };
        let Some(connection) = self.connections.get_mut(paced.connection) else { return };
        let Paced { pacing, lately, down, up, .. } = paced;
        if connection.key.is_none() {
            down.leave(&mut link.down);
            up.leave(&mut link.up);
            return;
        }
        let writes = moves(&pacing.into, &up.flows);
        let quiet = !writes && !moves(&pacing.out, &down.flows);
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
            lately.see(now, down.marked > 0 || up.marked > 0, writes);
            let is_sending = !connection.sending.is_empty() || !connection.down.is_empty();
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
        let rate = down.flows.values().map(|flow| flow.standing.rate).sum();
        pacing.hand_over(lately.answers(now, rate));
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
            paced.pacing.set_out_rate(None);
            paced.pacing.set_asked(None);
            paced.pacing.hand_over(Answers::All);
            if let Some(connection) = self.connections.get_mut(paced.connection)
                && connection.pace.take().is_some()
            {
                connection.down_scheduled = false;
            }
        }
    }
}

/// Returns the time in ns that bytes take at a rate in bytes a second.
fn takes_of(bytes: u64, rate: u64) -> u64 {
    bytes.saturating_mul(1_000_000_000) / rate.max(1)
}

/// Returns a rate in whole bytes a second, rounded down, at least one.
fn whole(rate: Rate) -> u64 {
    rate.whole().max(1)
}
