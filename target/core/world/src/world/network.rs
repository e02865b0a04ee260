//! The network between hosts and reactors.

use fabric::queue::Inbox as _;
use sluice_core::testing::{Input, wire};

use super::{Event, World};

impl World {
    /// Plans the next delivery in each direction that has something.
    pub(super) fn schedule(&mut self, index: usize) {
        if self.link.is_some() {
            return self.schedule_on_link(index);
        }
        let Some(connection) = self.connections.get_mut(index) else { return };
        let up = connection.can_deliver_up() && !connection.up_scheduled;
        let down = connection.can_deliver_down() && !connection.down_scheduled;
        connection.up_scheduled |= up;
        connection.down_scheduled |= down;
        let (up_ns, down_ns) = (connection.up_ns, connection.down_ns);
        if up {
            self.after(up_ns, Event::Up(index));
        }
        if down {
            self.after(down_ns, Event::Down(index));
        }
    }

    pub(super) fn chunk(&mut self, length: usize) -> usize {
        if self.scenario.whole_chunks || length <= 1 {
            return length;
        }
        if self.rng.u8(0..4) == 0 { self.rng.usize(1..=length) } else { length }
    }

    pub(super) fn deliver_up(&mut self, index: usize) {
        let on_link = self.link.is_some();
        let length = self.connections.get(index).map_or(0, |connection| match on_link {
            true => connection.up_arrived.min(connection.up.len()),
            false => connection.up.len(),
        });
        let length = self.chunk(length);
        let length = self.chunk_of_flood(length);
        let buffers = self.scenario.receive_buffers;
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.up_scheduled = false;
        let (Some(key), true) = (connection.key, connection.can_deliver_up()) else { return };
        if length == 0 && !connection.stopping && !connection.cut {
            // What the host has sent meanwhile is on its way.
            return self.schedule(index);
        }
        let before = connection.up.len();
        let reactor = connection.reactor;
        let is_full = self.reactors.get(reactor).is_some_and(|one| one.received() >= buffers);
        // A receive that was told to stop may go on for a while.
        let stops = connection.stopping && self.rng.bool();
        if length > 0 && !connection.silent && !stops {
            let input = if connection.once.is_some() {
                let (place, placed, rest) = connection.take_once(length);
                self.outcome.placed += placed as u64;
                Input::ReceivedOnce(key, place, placed, rest)
            } else if is_full {
                (connection.armed, connection.one_chunk) = (false, false);
                connection.stopping = false;
                self.put(reactor, Input::ReceiveStarved(key));
                return;
            } else {
                Input::Received(key, connection.up.take(length))
            };
            let taken = before - connection.up.len();
            connection.up_sent = connection.up_sent.saturating_sub(taken);
            connection.up_arrived = connection.up_arrived.saturating_sub(taken);
            let ends = connection.one_chunk && matches!(input, Input::Received(..));
            if ends {
                (connection.armed, connection.one_chunk) = (false, false);
                connection.stopping = false;
            }
            self.put(reactor, input);
            if ends {
                self.put(reactor, Input::ReceiveEnded(key, false));
            }
        } else {
            let lost = connection.cut;
            (connection.armed, connection.stopping, connection.once) = (false, false, None);
            connection.one_chunk = false;
            self.put(reactor, Input::ReceiveEnded(key, lost));
        }
        self.fall_silent(index);
        self.pump_up(index);
        self.goes_on_receiving(index);
    }

    /// Moves what a host has to send onto its connection.
    pub(super) fn pump_up(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let queue = self
            .hosts
            .get_mut(connection.host)
            .and_then(|host| host.queues.get_mut(usize::from(connection.qid))?.as_mut());
        if let Some(queue) = queue.filter(|queue| queue.connection == index && !connection.cut) {
            let room = connection.up_room();
            connection.up.fill(&mut queue.protocol, room);
        }
        self.schedule(index);
    }

    pub(super) fn deliver_down(&mut self, index: usize) {
        let deaf = self.is_deaf(index);
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.down_scheduled = false;
        if !deaf {
            let length = connection.down.len();
            let length = self.chunk(length);
            self.hand_down(index, length);
        }
    }

    /// Gives a host what has arrived, and lets the target go on sending.
    pub(super) fn hand_down(&mut self, index: usize, length: usize) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let count = length.min(connection.down.len());
        let arrived = connection.down.take(count);
        connection.down_sent = connection.down_sent.saturating_sub(length);
        let over = connection.take_batch();
        let (reactor, key, cut) = (connection.reactor, connection.key, connection.cut);
        let ends = cut && connection.down.is_empty() && count == 0;
        let (host, qid) = (connection.host, connection.qid);
        if ends {
            connection.host_knows = true;
        }
        if let (Some(batch), Some(key)) = (over, key) {
            self.put(reactor, Input::Sent(key, batch, cut));
        }
        if count > 0 || length == 0 {
            self.hear(host, qid, index, arrived.kept());
        }
        if ends {
            self.lose(host, qid, index);
        }
        self.pump_up(index);
    }

    /// Answers an RDMA READ, which has been to the host and back.
    pub(super) fn end_fetch(&mut self, index: usize) {
        let breaks = self.scenario.faults && !self.settling && self.rng.u16(0..500) == 0;
        if breaks {
            self.cut(index);
        }
        let Some(connection) = self.connections.get_mut(index) else { return };
        if connection.silent && !connection.cut {
            let again = connection.up_ns * 100;
            return self.after(again, Event::Fetch(index));
        }
        let Some((fetch, mut place)) = connection.fetching.pop_front() else { return };
        let (reactor, cut) = (connection.reactor, connection.cut);
        let Some(key) = connection.key else { return };
        let (host, qid) = (connection.host, connection.qid);
        let queue = self.hosts.get_mut(host).and_then(|host| host.queue(qid));
        let queue = queue.filter(|queue| queue.connection == index && !cut);
        let (mut bytes, mut lost) = (Vec::new(), true);
        match queue.map(|queue| wire::fetch(&mut queue.protocol, &fetch, place.as_mut())) {
            Some(Ok(own)) => {
                (bytes, lost) = (own, false);
                self.outcome.fetched += u64::from(fetch.length);
                let placed = if place.is_some() { fetch.length } else { 0 };
                self.outcome.placed += u64::from(placed);
            }
            Some(Err(violation)) => {
                self.breaks(format!("the target broke the protocol: {violation}"));
            }
            None => {}
        }
        self.put(reactor, Input::Fetched(key, fetch, place, bytes, lost));
        self.schedule(index);
    }

    pub(super) fn cut(&mut self, index: usize) {
        self.trace(|| format!("connection {index} is cut"));
        if let Some(connection) = self.connections.get_mut(index) {
            connection.cut = true;
            // Units that were on their way may arrive in part.
            let keep = self.rng.usize(0..=connection.up.len());
            connection.up.truncate(keep);
            let keep = self.rng.usize(0..=connection.down.len());
            connection.down.truncate(keep);
            connection.silent = false;
        }
        self.schedule(index);
    }
}
