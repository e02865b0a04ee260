//! The network between hosts and reactors.

use fabric::queue::Inbox as _;
use sluice_core::testing::{Input, Receive, wire};

use super::{Event, World};

impl World {
    /// Plans the next delivery in each direction that has something.
    pub(super) fn schedule(&mut self, index: usize) {
        let connection = &mut self.connections[index];
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
        let length = self.chunk(self.connections[index].up.len());
        let length = self.chunk_of_flood(length);
        let buffers = self.scenario.receive_buffers;
        let connection = &mut self.connections[index];
        connection.up_scheduled = false;
        let (Some(key), true) = (connection.key, connection.can_deliver_up()) else { return };
        if length == 0 && !connection.stopping && !connection.cut {
            // The host's latest output is on its way.
            return self.schedule(index);
        }
        let reactor = connection.reactor;
        // A receive may go on for a while after its stop was requested.
        let stops = connection.stopping && self.rng.bool();
        let receives = length > 0 && !connection.silent && !stops;
        match connection.receiving.take() {
            Some(Receive::Once(mut place)) if receives => {
                let (placed, rest) = connection.take_once(place.as_mut(), length);
                self.outcome.placed += placed as u64;
                self.put(reactor, Input::ReceivedOnce(key, place, placed, rest));
            }
            Some(_) if receives && self.reactors[reactor].received() >= buffers => {
                connection.stopping = false;
                return self.put(reactor, Input::ReceiveStarved(key));
            }
            Some(stream) if receives => {
                let input = Input::Received(key, connection.up.take(length));
                let ends = matches!(stream, Receive::Chunk);
                connection.receiving = (!ends).then_some(stream);
                connection.stopping &= !ends;
                self.put(reactor, input);
                if ends {
                    self.put(reactor, Input::ReceiveEnded(key, false));
                }
            }
            _ => {
                let lost = connection.cut;
                connection.stopping = false;
                self.put(reactor, Input::ReceiveEnded(key, lost));
            }
        }
        self.fall_silent(index);
        self.pump_up(index);
        self.goes_on_receiving(index);
    }

    /// Moves a host's output onto its connection.
    pub(super) fn pump_up(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let queue = self.hosts[connection.host].queue(connection.qid);
        if let Some(queue) = queue.filter(|queue| queue.connection == index && !connection.cut) {
            let room = connection.up_room();
            connection.up.fill(&mut queue.protocol, room);
        }
        self.schedule(index);
    }

    pub(super) fn deliver_down(&mut self, index: usize) {
        let deaf = self.is_deaf(index);
        let connection = &mut self.connections[index];
        connection.down_scheduled = false;
        if !deaf {
            let length = connection.down.len();
            let length = self.chunk(length);
            self.hand_down(index, length);
        }
    }

    /// Delivers arrived units to a host, and lets the target go on sending.
    pub(super) fn hand_down(&mut self, index: usize, length: usize) {
        let connection = &mut self.connections[index];
        let count = length.min(connection.down.len());
        let arrived = connection.down.take(count);
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
        let connection = &mut self.connections[index];
        if connection.silent && !connection.cut {
            let again = connection.up_ns * 100;
            return self.after(again, Event::Fetch(index));
        }
        let Some((fetch, mut place)) = connection.fetching.pop_front() else { return };
        let (reactor, cut) = (connection.reactor, connection.cut);
        let Some(key) = connection.key else { return };
        let (host, qid) = (connection.host, connection.qid);
        let queue = self.hosts[host].queue(qid);
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
        let connection = &mut self.connections[index];
        connection.cut = true;
        // Units that were on their way may arrive in part.
        let keep = self.rng.usize(0..=connection.up.len());
        connection.up.truncate(keep);
        let keep = self.rng.usize(0..=connection.down.len());
        connection.down.truncate(keep);
        connection.silent = false;
        self.schedule(index);
    }
}
