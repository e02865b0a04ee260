//! Hosts: their associations, their queues, and their loads.
//!
//! A host behaves as Linux: one admin queue, then I/O queues, each a connection of its own; write data is in capsules
//! up to the controller's limit, and beyond that is sent on request. It needs no CPU time: a host answers everything
//! that arrives at once.

mod load;
mod pair;
mod queue;
mod written;

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use arbitration::overload::RetryDelays;
use fabric::host::{Action, AdminCommand, Association, Settings, commands};
use fabric::nvme::{Cqe, Status};
use slab::Slab;
use units::{Class, Nanos};

use self::load::{Load, Next};
use self::queue::{Heard, Part, Purpose, Queue};
use self::written::{LARGEST, Written};
use crate::connection::Connection;
use crate::load::Access;
use crate::measured::HostMeasured;
use crate::network::Network;
use crate::plan::HostPlan;

pub(crate) use load::Window;

/// Size of a block in bytes.
const BLOCK: u64 = 512;
/// Keep alive timeout, as `nvme connect` sets it.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// How often a command is tried again (`nvme_core.max_retries`).
const RETRIES: u8 = 5;

/// A host's request to the model.
#[derive(Debug)]
pub(crate) enum Wish {
    /// A connection for this queue.
    Connect(u16),
    /// Run its association at this time.
    Timer(Nanos),
    /// Run one of its loads at this time.
    Load(usize, Nanos),
    /// Try a command again at this time.
    Retry(Nanos, Again),
}

/// A command that is tried again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Again(Part);

/// Everything around a host that it acts on.
#[derive(Debug)]
pub(crate) struct Around<'a> {
    pub(crate) now: Nanos,
    pub(crate) connections: &'a mut Vec<Connection>,
    pub(crate) network: &'a mut Network,
    pub(crate) wishes: &'a mut Vec<Wish>,
}

/// An access that a load has wanted, and that has not ended.
#[derive(Debug)]
struct Wanted {
    load: usize,
    at: Nanos,
    write: bool,
    bytes: u64,
    /// Parts that are not answered.
    left: u32,
    failed: bool,
}

#[derive(Debug)]
pub(crate) struct Host {
    name: String,
    association: Association,
    io_queues: u16,
    depth: u16,
    priority: Option<Class>,
    /// Queues by their numbers: the admin queue first.
    queues: Vec<Option<Queue>>,
    /// Whether all I/O queues are connected.
    up: bool,
    loads: Vec<Load>,
    wanted: Slab<Wanted>,
    /// Commands that wait for a free place in a queue, in the order in which they were wanted.
    waiting: VecDeque<Part>,
    /// The I/O queue that is next in turn.
    turn: usize,
    /// The most bytes of one command.
    largest: u64,
    window: Window,
    /// Time of the planned look at the association.
    timer: Option<Nanos>,
    lost: Vec<String>,
    heard: Vec<Heard>,
}

impl Host {
    /// Makes host number `number`. `classes` has the class that each load's commands will have.
    pub(crate) fn new(
        number: usize,
        (nqn, subsystem): (String, &str),
        plan: HostPlan,
        classes: &[Class],
        window: Window,
    ) -> Self {
        let settings = Settings {
            subsystem: subsystem.to_owned(),
            host: nqn,
            host_id: (number as u128 + 1).to_be_bytes(),
            credentials: None,
            keep_alive: KEEP_ALIVE,
            queues: plan.queues,
            weighted_round_robin: plan.priority.is_some(),
            honours_retry_delays: false,
            event_requests: 0,
            events: 0,
        };
        let loads = plan.loads.into_iter().zip(classes).map(|(load, class)| {
            let nsid = u32::try_from(load.namespace).unwrap_or(u32::MAX).saturating_add(1);
            Load::new(nsid, load.class, *class, load.source)
        });
        Self {
            name: plan.name,
            association: Association::new(settings),
            io_queues: plan.queues,
            depth: plan.depth,
            priority: plan.priority,
            queues: Vec::new(),
            up: false,
            loads: loads.collect(),
            wanted: Slab::new(),
            waiting: VecDeque::new(),
            turn: 0,
            largest: u64::from(LARGEST),
            window,
            timer: None,
            lost: Vec::new(),
            heard: Vec::new(),
        }
    }

    /// Notes that a queue has its connection.
    pub(crate) fn attach(&mut self, qid: u16, connection: usize, around: &mut Around<'_>) {
        let place = usize::from(qid);
        if self.queues.len() <= place {
            self.queues.resize_with(place + 1, || None);
        }
        let depth = if qid == 0 { 0 } else { self.depth };
        if let Some(at) = self.queues.get_mut(place) {
            let rdma = around.connections.get(connection).is_some_and(|one| one.pair.is_some());
            *at = Some(Queue::new(connection, depth, rdma));
        }
        self.pump(qid, around);
    }

    /// Notes that a connection was lost.
    pub(crate) fn lose(&mut self, qid: u16, why: &str) {
        self.lost.push(format!("queue {qid}: {why}"));
    }

    /// Handles the data that has arrived on a queue.
    pub(crate) fn hear(&mut self, qid: u16, around: &mut Around<'_>) {
        let mut heard = std::mem::take(&mut self.heard);
        let queue = self.queues.get_mut(usize::from(qid)).and_then(Option::as_mut);
        if let Some(queue) = queue
            && let Some(connection) = around.connections.get_mut(queue.connection)
        {
            queue.hear(around.now, connection, around.network, &mut heard);
        }
        for one in heard.drain(..) {
            match one {
                Heard::Ready => self.ready(qid, around),
                Heard::Answered(purpose, cqe) => self.answered(qid, purpose, &cqe, around),
                Heard::Lost(why) => self.lose(qid, &why),
            }
        }
        self.heard = heard;
        self.dispatch(around);
        self.pump(qid, around);
    }

    /// Continues sending on a queue whose socket has room.
    pub(crate) fn pump(&mut self, qid: u16, around: &mut Around<'_>) {
        let queue = self.queues.get_mut(usize::from(qid)).and_then(Option::as_mut);
        if let Some(queue) = queue
            && let Some(connection) = around.connections.get_mut(queue.connection)
        {
            queue.pump(around.now, connection, around.network);
        }
    }

    /// Advances the association's time.
    pub(crate) fn time(&mut self, around: &mut Around<'_>) {
        if self.timer.take_if(|at| *at <= around.now).is_some() {
            self.association.tick(around.now);
            self.associate(around);
        }
    }

    /// Submits the access of a load whose time has come.
    pub(crate) fn load_due(&mut self, index: usize, around: &mut Around<'_>) {
        let access = self.loads.get_mut(index).and_then(|load| load.due(around.now));
        if let Some(access) = access {
            self.want(index, around.now, access);
            self.ask(index, around);
        }
        self.dispatch(around);
    }

    /// Tries a command again.
    pub(crate) fn try_again(&mut self, Again(part): Again, around: &mut Around<'_>) {
        self.waiting.push_front(part);
        self.dispatch(around);
    }

    /// Returns the results of its loads.
    pub(crate) fn measured(&self) -> HostMeasured {
        let mut loads: Vec<_> = self.loads.iter().map(|load| load.measured.clone()).collect();
        for part in self.queues.iter().flatten().flat_map(Queue::outstanding) {
            if let Some(load) = self.wanted.get(part.access).and_then(|one| loads.get_mut(one.load))
            {
                load.outstanding += 1;
            }
        }
        for (_, wanted) in &self.wanted {
            if let Some(load) = loads.get_mut(wanted.load) {
                load.unfinished += 1;
            }
        }
        HostMeasured { name: self.name.clone(), loads, lost: self.lost.clone() }
    }

    /// Notes that a queue accepts commands.
    fn ready(&mut self, qid: u16, around: &mut Around<'_>) {
        if qid == 0 {
            self.association.connect(around.now);
            return self.associate(around);
        }
        let connect = self.association.io_connector().connect(qid, self.depth, self.priority);
        match connect {
            Ok((sqe, data)) => {
                if let Some(queue) = self.queues.get_mut(usize::from(qid)).and_then(Option::as_mut)
                {
                    let data = Some(Written::Bytes(Rc::new(data)));
                    queue.submit(sqe, data, 0, Purpose::Connect);
                }
            }
            Err(error) => self.lose(qid, &error.to_string()),
        }
    }

    /// Carries out the association's actions.
    fn associate(&mut self, around: &mut Around<'_>) {
        while let Some(action) = self.association.poll_action() {
            match action {
                Action::Submit(AdminCommand { sqe, data, read_length }) => {
                    let data = data.map(|data| Written::Bytes(Rc::new(data)));
                    let purpose = Purpose::Admin(vec![0; read_length as usize]);
                    if let Some(Some(queue)) = self.queues.first_mut() {
                        queue.submit(sqe, data, read_length, purpose);
                    }
                }
                Action::Ready => {
                    let facts = self.association.facts();
                    self.largest = self.largest.min(facts.max_transfer / BLOCK * BLOCK).max(BLOCK);
                    let queues =
                        self.io_queues.min(u16::try_from(facts.queues).unwrap_or(u16::MAX));
                    self.io_queues = queues;
                    around.wishes.extend((1..=queues).map(Wish::Connect));
                }
                // Hosts without credentials prove nothing.
                Action::Work(_) | Action::Event(_) | Action::Answered { .. } => {}
                Action::Ended(error) => {
                    let why =
                        error.map_or_else(|| "it was shut down".to_owned(), |e| e.to_string());
                    self.lose(0, &why);
                }
            }
        }
        self.pump(0, around);
        if let Some(at) = self.association.next_timeout()
            && self.timer.is_none_or(|timer| at < timer)
        {
            self.timer = Some(at);
            around.wishes.push(Wish::Timer(at));
        }
    }

    /// Handles the answer to a command.
    fn answered(&mut self, qid: u16, purpose: Purpose, cqe: &Cqe, around: &mut Around<'_>) {
        let status = cqe.status();
        match purpose {
            Purpose::Admin(read) => {
                self.association.answered(around.now, cqe, read);
                self.associate(around);
            }
            Purpose::Connect if status.is_success() => {
                let in_capsule = self.association.facts().in_capsule_data;
                if let Some(queue) = self.queues.get_mut(usize::from(qid)).and_then(Option::as_mut)
                {
                    queue.connected(in_capsule);
                }
                let live = self.queues.iter().skip(1).flatten().filter(|queue| queue.live).count();
                if live == usize::from(self.io_queues) && !self.up {
                    self.up = true;
                    (0..self.loads.len()).for_each(|load| self.ask(load, around));
                }
            }
            Purpose::Connect => self.lose(qid, &format!("its Connect failed: {status}")),
            Purpose::Io(part) => self.io_answered(part, cqe, around),
        }
    }

    /// Handles the answer to an I/O command.
    fn io_answered(&mut self, part: Part, cqe: &Cqe, around: &mut Around<'_>) {
        let status = cqe.status();
        let Some(wanted) = self.wanted.get_mut(part.access) else { return };
        let index = wanted.load;
        let Some(load) = self.loads.get_mut(index) else { return };
        load.measured.answered += 1;
        if !status.is_success() {
            load.measured.failed += 1;
            if !status.is_dnr() && part.tries <= RETRIES {
                let at = around.now.after(retry_ns(status).max(1));
                return around.wishes.push(Wish::Retry(at, Again(part)));
            }
            wanted.failed = true;
        }
        wanted.left -= 1;
        if wanted.left > 0 {
            return;
        }
        let wanted = self.wanted.remove(part.access);
        load.measured.ended += 1;
        if !wanted.failed {
            load.count(around.now, wanted.at, (wanted.write, wanted.bytes), &self.window);
        }
        if let Some(access) = load.take_held() {
            self.want(index, around.now, access);
            self.ask(index, around);
        }
    }

    /// Requests all accesses that a load's source wants now.
    fn ask(&mut self, index: usize, around: &mut Around<'_>) {
        while let Some(load) = self.loads.get_mut(index) {
            match load.ask(around.now) {
                Next::Now(at, access) => self.want(index, at, access),
                Next::Later(at) => return around.wishes.push(Wish::Load(index, at)),
                Next::Waits => return,
            }
        }
    }

    /// Splits an access of a load into commands that the controller accepts.
    fn want(&mut self, index: usize, at: Nanos, access: Access) {
        let Access { write, offset, length } = access;
        let first = offset / BLOCK;
        let end = offset.saturating_add(u64::from(length.max(1))).div_ceil(BLOCK);
        let most = self.largest / BLOCK;
        let left = u32::try_from((end - first).div_ceil(most)).unwrap_or(u32::MAX);
        let bytes = (end - first) * BLOCK;
        let wanted = Wanted { load: index, at, write, bytes, left, failed: false };
        let access = self.wanted.insert(wanted);
        if let Some(load) = self.loads.get_mut(index) {
            load.measured.wanted += 1;
        }
        let mut lba = first;
        while lba < end {
            let blocks = u32::try_from((end - lba).min(most)).unwrap_or(u32::MAX);
            self.waiting.push_back(Part { access, lba, blocks, tries: 0 });
            lba += u64::from(blocks);
        }
    }

    /// Submits commands that wait, as far as queues have room.
    fn dispatch(&mut self, around: &mut Around<'_>) {
        while let Some(part) = self.waiting.front().copied() {
            let count = self.queues.len().saturating_sub(1);
            let mut next = (0..count).map(|step| 1 + (self.turn + step) % count);
            let room = |place: &usize| {
                self.queues.get(*place).is_some_and(|one| one.as_ref().is_some_and(Queue::has_room))
            };
            let Some(place) = next.find(room) else { return };
            self.turn = place % count;
            self.waiting.pop_front();
            self.submit(place, part);
            self.pump(u16::try_from(place).unwrap_or(0), around);
        }
    }

    /// Submits a command on a queue that has room.
    fn submit(&mut self, place: usize, part: Part) {
        let Some(wanted) = self.wanted.get(part.access) else { return };
        let Some(load) = self.loads.get_mut(wanted.load) else { return };
        let Some(Some(queue)) = self.queues.get_mut(place) else { return };
        let cdw13 = load.named.map_or(0, cdw13_of);
        let sqe = commands::transfer(wanted.write, load.nsid, part.lba, part.blocks, cdw13);
        let bytes = u64::from(part.blocks) * BLOCK;
        let (data, read) = if wanted.write {
            (Some(Written::Zeroes(usize::try_from(bytes).unwrap_or(0))), 0)
        } else {
            (None, u32::try_from(bytes).unwrap_or(u32::MAX))
        };
        let part = Part { tries: part.tries.saturating_add(1), ..part };
        if queue.submit_io(sqe, data, read, part) {
            load.measured.submitted += 1;
        }
    }
}

/// Returns CDW13 of a command that names a class; Low has no name, and is inherited.
const fn cdw13_of(class: Class) -> u32 {
    let bits = match class {
        Class::Low => 0,
        Class::Medium => 1,
        Class::High => 2,
        Class::Urgent => 3,
    };
    bits << 8
}

/// Returns the time after which a host tries a command again, in ns, by the delays of the controller
/// (CRD of the status selects one of CRDT1 to CRDT3).
fn retry_ns(status: Status) -> u64 {
    let [first, second, third] =
        RetryDelays::DEFAULT.hundreds_of_ms().map(|delay| u64::from(delay) * 100_000_000);
    match status.bits() >> 11 & 0b11 {
        1 => first,
        2 => second,
        3 => third,
        _ => 0,
    }
}
