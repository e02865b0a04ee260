//! The network between hosts and reactors.

use super::shared_link::Way;
use super::{Event, Input, World};

impl World {
    /// Plans the next delivery in each direction that has something.
    pub(super) fn schedule(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        let up = connection.can_deliver_up() && !connection.up_scheduled;
        let down = connection.can_deliver_down() && !connection.down_scheduled;
        connection.up_scheduled |= up;
        connection.down_scheduled |= down;
        let (up_ns, down_ns) = (connection.up_ns, connection.down_ns);
        let (up_bytes, down_bytes) = (connection.up.len(), connection.down.len());
        if up {
            let at = self.carry(index, Way::Up, up_bytes, up_ns);
            self.at(at, Event::Up(index));
        }
        if down {
            let at = self.carry(index, Way::Down, down_bytes, down_ns);
            self.at(at, Event::Down(index));
        }
    }

    pub(super) fn chunk(&mut self, length: usize) -> usize {
        if self.scenario.whole_chunks || length <= 1 {
            return length;
        }
        if self.rng.u8(0..4) == 0 { self.rng.usize(1..=length) } else { length }
    }

    pub(super) fn deliver_up(&mut self, index: usize) {
        let length = self.connections.get(index).map_or(0, |connection| connection.up.len());
        let length = self.chunk(length);
        let length = self.chunk_of_flood(length);
        let buffers = self.scenario.receive_buffers;
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.up_scheduled = false;
        let (Some(key), true) = (connection.key, connection.can_deliver_up()) else { return };
        let reactor = connection.reactor;
        let is_full = self.reactors.get(reactor).is_some_and(|one| one.received() >= buffers);
        // A receive that was told to stop may go on for a while.
        let stops = connection.stopping && self.rng.bool();
        if !connection.up.is_empty() && !connection.silent && !stops {
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
            queue.protocol.send(&mut connection.up, room);
        }
        self.schedule(index);
    }

    pub(super) fn deliver_down(&mut self, index: usize) {
        if self.is_deaf(index) {
            if let Some(connection) = self.connections.get_mut(index) {
                connection.down_scheduled = false;
            }
            return;
        }
        let length = self.connections.get(index).map_or(0, |connection| connection.down.len());
        let length = self.chunk(length);
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.down_scheduled = false;
        let arrived = connection.down.take(length);
        let over = connection.take_batch();
        let (reactor, key, cut) = (connection.reactor, connection.key, connection.cut);
        let ends = cut && connection.down.is_empty() && arrived.len() == 0;
        let (host, qid) = (connection.host, connection.qid);
        if ends {
            connection.host_knows = true;
        }
        if let (Some(batch), Some(key)) = (over, key) {
            self.put(reactor, Input::Sent(key, batch, cut));
        }
        if arrived.len() > 0 {
            self.hear(host, qid, index, arrived.run());
        }
        if ends {
            self.lose(host, qid, index);
        }
        self.pump_up(index);
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
