//! The hosts, which connect, send commands, and check the answers.

use fabric::Nanos;
use fabric::controller::BackendId;
use fabric::host::commands;
use fabric::nvme::{Cqe, Sqe, opcode};
use fabric::queue::{HostReceived, HostTransport};
use fabric::tcp::HostParams;
use sluice_core::testing::BLOCK;
use sluice_core::testing::wire::{self, Carrier, HostEnd};
use zerocopy::little_endian::U32;

use super::{ENTRIES, Event, Input, Known, World};
use crate::connection::Connection;
use crate::host::{Host, Outstanding, Phase, Purpose, Queue, io, named};
use crate::scenario::{Carriers, Scenario};

impl World {
    pub(super) fn connect(&mut self, host: usize, qid: u16) {
        if self.drain.is_some() {
            // No host is left that listens.
            return self.trace(|| format!("host {host} finds nobody for queue {qid}"));
        }
        let index = self.connections.len();
        let reactor = self.rng.usize(0..self.reactors.len());
        let slow = self.scenario.faults && self.rng.u8(0..10) == 0;
        let times = (self.rng.u64(1_000..100_000), self.rng.u64(1_000..100_000));
        let times = if slow { (times.0, times.1 * 100) } else { times };
        let carrier = self.chooses_carrier();
        let mapped = self.scenario.bound && self.rng.bool();
        let connection = Connection::new((host, qid), reactor, carrier, times);
        self.connections.push(Connection { mapped, ..connection });
        self.outcome.connections += 1;
        self.outcome.rdma += u64::from(carrier == Carrier::Rdma);
        self.trace(|| format!("host {host} connects queue {qid} as connection {index}"));
        let protocol = match carrier {
            Carrier::Tcp => {
                let [header_digest, data_digest] = [self.scenario.digests; 2];
                let params = HostParams { header_digest, data_digest, ..HostParams::default() };
                wire::host_over_tcp(params)
            }
            Carrier::Rdma => wire::host_over_rdma(self.scenario.part(), self.rng.bool()),
        };
        let (queues, place) = (&mut self.hosts[host].queues, usize::from(qid));
        if queues.len() <= place {
            queues.resize_with(place + 1, || None);
        }
        queues[place] = Some(Queue::new(index, protocol));
        self.put(reactor, Input::Accept(index));
        self.pump_up(index);
    }

    /// Chooses what carries the next connection.
    fn chooses_carrier(&mut self) -> Carrier {
        let rdma = match self.scenario.carriers {
            Carriers::Tcp => false,
            Carriers::Rdma => true,
            Carriers::Both => self.rng.bool(),
        };
        if rdma { Carrier::Rdma } else { Carrier::Tcp }
    }

    /// Processes input that a host has received on one of its queues.
    pub(super) fn hear(
        &mut self,
        host: usize,
        qid: u16,
        index: usize,
        mut input: <HostEnd as HostTransport>::Chunk<'_>,
    ) {
        loop {
            let queue = self.hosts[host].queue(qid).filter(|queue| queue.connection == index);
            let Some(queue) = queue else { return };
            match queue.protocol.next(&mut input) {
                Ok(None) => return,
                Ok(Some(HostReceived::Ready { .. })) => self.ready(host, qid),
                Ok(Some(HostReceived::ReadData { cid, offset, bytes })) => {
                    let command = queue.outstanding.get_mut(usize::from(cid));
                    let into = command.and_then(Option::as_mut).and_then(|command| {
                        command.read.get_mut(offset as usize..)?.get_mut(..bytes.len())
                    });
                    match into {
                        Some(into) => into.copy_from_slice(bytes),
                        None => self.breaks(format!("command {cid} was sent data beyond its own")),
                    }
                }
                Ok(Some(HostReceived::DigestError { cid })) => {
                    self.breaks(format!("command {cid} of queue {qid} has a wrong digest"));
                }
                Ok(Some(HostReceived::Response { cid, cqe, .. })) => {
                    let place = queue.outstanding.get_mut(usize::from(cid));
                    let Some(outstanding) = place.and_then(Option::take) else {
                        return self.breaks(format!("command {cid} of {qid} was answered twice"));
                    };
                    queue.in_flight -= 1;
                    self.answered(host, qid, outstanding, &cqe);
                }
                Ok(Some(HostReceived::Terminated(why))) => {
                    self.breaks(format!("the target says that a host broke the protocol: {why:?}"));
                }
                Err(why) => return self.breaks(format!("the target broke the protocol: {why}")),
            }
        }
    }

    pub(super) fn submit(
        &mut self,
        host: usize,
        qid: u16,
        sqe: Sqe,
        data: Option<Vec<u8>>,
        read: u32,
        purpose: Purpose,
    ) {
        let since = self.oracle.step();
        self.trace(|| format!("host {host} queue {qid} asks for {purpose:?}"));
        let asked = self.now;
        let outstanding = Outstanding { purpose, since, asked, read: vec![0xdd; read as usize] };
        let host = &mut self.hosts[host];
        if host.io_outstanding() == 0 {
            host.asked_at = asked;
        }
        if let Some(queue) = host.queue(qid) {
            // The association chooses its commands' identifiers itself.
            let sqe = if qid == 0 { sqe } else { named(sqe, queue.free()) };
            queue.submit(sqe, data, outstanding);
            let index = queue.connection;
            self.pump_up(index);
        }
    }

    /// Takes note that a connection takes commands.
    fn ready(&mut self, host: usize, qid: u16) {
        if qid > 0 {
            return self.connect_queue(host, qid);
        }
        let (queues, now) = (self.scenario.queues_of(host), self.now);
        let weighted = match self.scenario.watches_parts() {
            true => self.scenario.own_weights,
            false => !self.scenario.reserved && self.rng.bool(),
        };
        self.hosts[host].associate(now, queues, weighted);
        self.associate(host);
    }

    /// Takes the answer to a command.
    fn answered(&mut self, host: usize, qid: u16, outstanding: Outstanding, cqe: &Cqe) {
        let status = cqe.status();
        self.note(u64::from(status.bits()) << 16 | u64::from(qid));
        self.trace(|| format!("host {host} queue {qid}: {status} for {:?}", outstanding.purpose));
        let failed = !status.is_success();
        let now = self.now;
        self.check_rights(host, &outstanding, status);
        match outstanding.purpose {
            Purpose::Connect if failed => self.leave(host),
            Purpose::Connect => {
                let one = &mut self.hosts[host];
                let in_capsule = one.association.facts().in_capsule_data;
                if let Some(queue) = one.queue(qid) {
                    queue.protocol.set_in_capsule_data(in_capsule);
                    queue.live = true;
                }
                self.after(0, Event::Host(host));
            }
            Purpose::Admin | Purpose::Event => {
                self.hosts[host].association.answered(now, cqe, outstanding.read);
                self.associate(host);
                self.flood_admin(host);
            }
            Purpose::Read { nsid, lba } => {
                self.check_latency(host, outstanding.asked);
                self.io_answered((host, qid), failed, outstanding.since);
                if !failed {
                    for (offset, block) in (0..).zip(outstanding.read.chunks(BLOCK)) {
                        let seen = self.oracle.check(nsid, lba + offset, outstanding.since, block);
                        seen.unwrap_or_else(|what| self.breaks(what));
                    }
                }
            }
            Purpose::Write { nsid, lba, blocks, write } => {
                self.io_answered((host, qid), failed, outstanding.since);
                if !failed {
                    let oldest = || oldest(&self.hosts);
                    self.oracle.acknowledge(nsid, lba, blocks, write, oldest);
                }
            }
            Purpose::Other { .. } => self.io_answered((host, qid), failed, outstanding.since),
        }
    }

    pub(super) fn io_answered(&mut self, (host, qid): (usize, u16), failed: bool, since: u64) {
        self.is_answered(since);
        self.check_served(host);
        let (hosts, scenario) = (&self.hosts, &self.scenario);
        self.shares.count(host, Scenario::priority_of(qid), || are_complete(hosts, scenario));
        self.hosts[host].answered_at = self.now;
        self.outcome.answered += 1;
        self.outcome.succeeded += u64::from(!failed);
        let think = self.scenario.think_ns;
        let think = if think > 0 { self.rng.u64(0..think) } else { 0 };
        self.after(think, Event::Host(host));
    }

    /// Ends all connections of a host that has lost one.
    pub(super) fn lose(&mut self, host: usize, qid: u16, index: usize) {
        if self.hosts[host].queue(qid).is_some_and(|queue| queue.connection == index) {
            self.is_lost(host);
            self.leave(host);
        }
    }

    /// Gives up a host's controller, and connects the host again after a while.
    pub(super) fn leave(&mut self, index: usize) {
        let wait = self.rng.u64(1_000_000..2_000_000_000);
        self.trace(|| format!("host {index} leaves"));
        let host = &mut self.hosts[index];
        let queues = host.leave(Nanos(self.now.0 + wait));
        queues.into_iter().flatten().for_each(|queue| self.cut(queue.connection));
        self.after(wait, Event::Host(index));
    }

    pub(super) fn host(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        match host.phase {
            Phase::Away(until) if self.now >= until => {
                host.phase = Phase::Connecting;
                self.connect(index, 0);
            }
            Phase::Away(_) | Phase::Connecting => {}
            Phase::Up => (1..=self.scenario.queues_of(index)).for_each(|qid| self.fill(index, qid)),
        }
    }

    /// Submits as many commands as a queue's depth allows.
    pub(super) fn fill(&mut self, host: usize, qid: u16) {
        if self.scenario.latency && host == 0 {
            // This host sends in bursts only.
            return;
        }
        let depth = self.scenario.depth.min(usize::from(ENTRIES) - 1);
        while self.is_open() {
            let known = &mut self.hosts[host];
            let depth = depth.min(usize::from(known.association.facts().max_outstanding));
            let Some(queue) = known.queue(qid) else { return };
            if !queue.live || queue.in_flight >= depth {
                return;
            }
            self.command(host, qid);
        }
    }

    /// Submits a command at random.
    pub(super) fn command(&mut self, host: usize, qid: u16) {
        let known = match self.namespaces.len() {
            0 => Known { nsid: 1, backend: BackendId(0), blocks: 8 },
            n => self.namespaces[self.rng.usize(0..n)],
        };
        let largest = self.largest_of(host).min(self.scenario.largest);
        let most = u64::from(largest).min(known.blocks).max(1);
        let blocks = u32::try_from(self.rng.u64(1..=most)).unwrap_or(1);
        let lba = self.rng.u64(0..=known.blocks - u64::from(blocks).min(known.blocks));
        // If shares are checked, each host has one class, and each command takes one turn.
        let (classes, kinds) = if self.scenario.watches_parts() { (1, 85) } else { (4, 100) };
        // A class that the command names itself counts before its queue's.
        let class = if self.scenario.own_weights { 1 } else { self.rng.u32(0..classes) };
        self.outcome.submitted += 1;
        let nsid = known.nsid;
        let bytes = blocks * u32::try_from(BLOCK).unwrap_or(512);
        let command = |opcode| io(opcode, nsid, lba, blocks, class);
        let kind = self.rng.u8(0..kinds);
        let mut writes = |content| {
            let write = self.oracle.begin(nsid, lba, blocks, content);
            Purpose::Write { nsid, lba, blocks, write }
        };
        let (sqe, data, read, purpose) = match kind {
            0..45 => (command(opcode::io::READ), None, bytes, Purpose::Read { nsid, lba }),
            45..85 => {
                let content = self.rng.u64(1..u64::MAX);
                let data = content.to_le_bytes().repeat(bytes as usize / 8);
                (command(opcode::io::WRITE), Some(data), 0, writes(content))
            }
            85..90 => (command(opcode::io::WRITE_ZEROES), None, 0, writes(0)),
            90..94 => {
                let (sqe, definition) = commands::deallocate(nsid, lba, blocks);
                let cdw13 = command(opcode::io::DATASET_MANAGEMENT).cdw13;
                (Sqe { cdw13, ..sqe }, Some(definition), 0, writes(0))
            }
            94..96 => {
                let data = Some(vec![1; bytes as usize]);
                (command(opcode::io::COMPARE), data, 0, Purpose::Other { nsid })
            }
            96..98 => (command(opcode::io::VERIFY), None, 0, Purpose::Other { nsid }),
            _ => {
                let sqe = Sqe { opcode: opcode::io::FLUSH, nsid: U32::new(nsid), ..Sqe::default() };
                (sqe, None, 0, Purpose::Other { nsid })
            }
        };
        self.submit(host, qid, sqe, data, read, purpose);
    }
}

/// Returns whether all queues of all hosts are connected.
fn are_complete(hosts: &[Host], scenario: &Scenario) -> bool {
    (0..).zip(hosts).all(|(index, host)| {
        let live = host.queues.iter().skip(1).flatten().filter(|queue| queue.live);
        live.count() == usize::from(scenario.queues_of(index))
    })
}

/// Returns the step at which the oldest command began that is not answered.
fn oldest(hosts: &[Host]) -> u64 {
    let queues = hosts.iter().flat_map(|host| host.queues.iter().flatten());
    let steps = queues.flat_map(|queue| queue.outstanding.iter().flatten()).map(|o| o.since);
    steps.min().unwrap_or(u64::MAX)
}
