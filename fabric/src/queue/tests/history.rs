//! Random histories of commands over wires that deliver in pieces of any size, in any order of the
//! ends' turns: written data is read back, and each command is answered once.

use fastrand::Rng;
use proptest::prelude::*;
use zerocopy::little_endian::{U16, U32};

use super::joined::{Joined, Rdma, Tcp};
use crate::nvme::{Sqe, Status};
use crate::queue::{CapsuleData, HostReceived, HostTransport, Received, SlotId, Transport};

/// One command of a random history. [`Op::RefusedWrite`] is answered with an error before its data has arrived.
#[derive(Clone, Copy, Debug)]
enum Op {
    Read { length: u32, part: u32, result: u64 },
    Write { length: u32 },
    RefusedWrite { length: u32 },
    NoData,
}

#[derive(Clone, Debug)]
struct History {
    in_capsule: u32,
    entries: u16,
    flow_control: bool,
    ops: Vec<Op>,
    seed: u64,
}

fn op() -> impl Strategy<Value = Op> {
    let length = || prop_oneof![Just(512u32), 1u32..300, 1u32..40_000];
    prop_oneof![
        3 => (length(), 1u32..50_000, prop_oneof![4 => Just(0u64), 1 => any::<u64>()])
            .prop_map(|(length, part, result)| Op::Read { length, part, result }),
        3 => length().prop_map(|length| Op::Write { length }),
        1 => length().prop_map(|length| Op::RefusedWrite { length }),
        1 => Just(Op::NoData),
    ]
}

prop_compose! {
    fn history()(
        in_capsule in prop_oneof![Just(0u32), Just(4096), 0u32..10_000],
        entries in 1u16..12,
        flow_control: bool,
        ops in prop::collection::vec(op(), 1..40),
        seed: u64,
    ) -> History {
        History { in_capsule, entries, flow_control, ops, seed }
    }
}

/// Returns the data of command number `op`: every byte tells its place.
fn pattern(op: usize, length: u32) -> Vec<u8> {
    (0..length)
        .map(|at| (at as usize * 31 + (at as usize >> 8) * 7 + op * 101).to_le_bytes()[0])
        .collect()
}

/// Returns the most bytes that an end sends at a time.
fn limit(random: &mut Rng) -> usize {
    if random.bool() { usize::MAX } else { 1 + random.usize(..9000) }
}

/// Removes a chunk from the front of a wire.
fn chunk<U>(wire: &mut Vec<U>, random: &mut Rng) -> Vec<U> {
    let n = match random.usize(..3) {
        0 => wire.len(),
        1 => random.usize(..8) + 1,
        _ => random.usize(..5000) + 1,
    };
    wire.drain(..n.min(wire.len())).collect()
}

/// The target's shell: its state for each slot.
struct Target<J: Joined> {
    connection: J::Target,
    written: Vec<Vec<Option<u8>>>,
    ready: Vec<SlotId>,
}

impl<J: Joined> Target<J> {
    /// Receives arrived units. Half of the times, data of a command is received in its place.
    fn receive(&mut self, mut input: &[J::ToTarget], history: &History, random: &mut Rng) {
        while !input.is_empty() {
            let arriving = self.connection.arriving().filter(|_| random.bool());
            let Some(arriving) = arriving else { return self.take(input, history) };
            let (part, rest) = input.split_at(input.len().min(arriving.length as usize));
            let bytes = J::data(part);
            assert!(self.connection.arrived(bytes), "the command is not answered");
            self.data(arriving.slot, arriving.offset, bytes);
            input = rest;
        }
        // The end of data may have come with it.
        self.take(&[], history);
    }

    fn take(&mut self, mut input: &[J::ToTarget], history: &History) {
        loop {
            let (arriving, before) = (self.connection.arriving(), input);
            let Some(event) = J::next(&mut self.connection, &mut input).unwrap() else { break };
            if let Some(told) = arriving.filter(|_| !before.is_empty()) {
                let Received::Data { slot, offset, bytes } = event else { panic!("{event:?}") };
                assert_eq!((told.slot, told.offset), (slot, offset));
                assert_eq!(bytes.len(), before.len().min(told.length as usize));
                let place = before.as_ptr().cast();
                assert_eq!(bytes.as_ptr(), place, "the bytes are handed over where they are");
            }
            match event {
                Received::Initialized => {
                    let History { entries, flow_control, in_capsule, .. } = *history;
                    self.connection.set_queue(entries, flow_control);
                    self.connection.set_in_capsule_data(in_capsule);
                }
                Received::Command { slot, data } => {
                    let sqe = *self.connection.sqe_of(slot);
                    self.command(slot, &sqe, &data, history);
                }
                Received::Data { slot, offset, bytes } => self.data(slot, offset, bytes),
                Received::DataEnd { slot, digest_ok } => {
                    assert!(digest_ok);
                    self.check_write(slot, history);
                    self.ready.push(slot);
                }
                Received::GrantEnd { slot } => {
                    assert!(self.connection.grant(slot, 5000) > 0, "the next grant is due");
                }
                Received::Terminated(_) => panic!("terminated"),
            }
        }
        assert!(input.is_empty());
    }

    fn command(&mut self, slot: SlotId, sqe: &Sqe, data: &CapsuleData<'_>, history: &History) {
        if self.written.len() <= usize::from(slot.0) {
            self.written.resize(usize::from(slot.0) + 1, Vec::new());
        }
        self.written[usize::from(slot.0)].clear();
        match (history.ops[sqe.cdw10.get() as usize], data) {
            (Op::RefusedWrite { .. }, CapsuleData::None) => {
                self.ask(slot, sqe, true);
                self.connection.complete(slot, 0, Status::WRITE_PROTECTED);
            }
            (Op::RefusedWrite { .. }, _) => {
                self.connection.complete(slot, 0, Status::WRITE_PROTECTED);
            }
            (Op::Write { .. }, CapsuleData::None) => {
                self.ask(slot, sqe, false);
            }
            (Op::Write { .. }, CapsuleData::Whole(bytes)) => {
                self.data(slot, 0, bytes);
                self.check_write(slot, history);
                self.ready.push(slot);
            }
            (Op::Write { length }, CapsuleData::Partial { length: told }) => {
                assert_eq!(length, *told);
            }
            _ => self.ready.push(slot),
        }
    }

    /// Asks for two of three commands' data grant by grant; a refused one may not get as far as its
    /// first.
    fn ask(&mut self, slot: SlotId, sqe: &Sqe, refused: bool) {
        let (op, length) = (sqe.cdw10.get(), sqe.sgl.data_length());
        if op.is_multiple_of(3) {
            return self.connection.fetch(slot, length);
        }
        self.connection.fetch_metered(slot, length);
        if op % 3 == 1 || !refused {
            let asked = self.connection.grant(slot, 1000);
            // The largest R2T may be smaller.
            assert!(asked > 0 && asked <= length.min(1000), "{asked} of {length}");
            assert_eq!(self.connection.grant(slot, 1000), 0, "one at a time");
        }
    }

    fn data(&mut self, slot: SlotId, offset: u32, bytes: &[u8]) {
        let written = &mut self.written[usize::from(slot.0)];
        let end = offset as usize + bytes.len();
        if written.len() < end {
            written.resize(end, None);
        }
        for (place, byte) in written[offset as usize..end].iter_mut().zip(bytes) {
            assert!(place.replace(*byte).is_none(), "a byte came twice");
        }
    }

    fn check_write(&self, slot: SlotId, history: &History) {
        let op = self.connection.sqe_of(slot).cdw10.get() as usize;
        let Op::Write { length } = history.ops[op] else { panic!("data for {op}") };
        let expected: Vec<_> = pattern(op, length).into_iter().map(Some).collect();
        assert_eq!(self.written[usize::from(slot.0)], expected);
    }

    /// Answers a random command that is ready.
    fn complete_one(&mut self, history: &History, random: &mut Rng) {
        if self.ready.is_empty() {
            return;
        }
        let slot = self.ready.swap_remove(random.usize(..self.ready.len()));
        let op = self.connection.sqe_of(slot).cdw10.get() as usize;
        assert_eq!(self.connection.find_cid(self.connection.sqe_of(slot).cid.get()), Some(slot));
        match history.ops[op] {
            Op::Read { length, part, result } if result != 0 || part >= length => {
                self.connection.complete_with_data(slot, pattern(op, length), result);
            }
            Op::Read { length, part, .. } => {
                let data = pattern(op, length);
                for (index, bytes) in data.chunks(part as usize).enumerate() {
                    let offset = u32::try_from(index).unwrap() * part;
                    let last = offset as usize + bytes.len() == data.len();
                    self.connection.send_data(slot, bytes.to_vec(), offset, last);
                }
            }
            _ => self.connection.complete(slot, 77, Status::SUCCESS),
        }
    }
}

struct Host<J: Joined> {
    connection: J::Host,
    ready: bool,
    next: usize,
    free: Vec<u16>,
    /// By CID: the command and its data so far.
    reading: Vec<(usize, Vec<u8>)>,
    done: Vec<usize>,
}

impl<J: Joined> Host<J> {
    fn submit_one(&mut self, history: &History) {
        if !self.ready || self.next == history.ops.len() {
            return;
        }
        let Some(cid) = self.free.pop() else { return };
        let op = self.next;
        let cdw10 = U32::new(u32::try_from(op).unwrap());
        let sqe = Sqe { cid: U16::new(cid), cdw10, ..Sqe::default() };
        let (data, read) = match history.ops[op] {
            Op::Read { length, .. } => (None, length),
            Op::Write { length } | Op::RefusedWrite { length } => (Some(pattern(op, length)), 0),
            Op::NoData => (None, 0),
        };
        self.connection.submit(sqe, data, read).unwrap();
        self.reading[usize::from(cid)] = (op, Vec::new());
        self.next += 1;
    }

    fn receive(&mut self, mut input: &[J::ToHost], history: &History) {
        while let Some(event) = J::host_next(&mut self.connection, &mut input).unwrap() {
            match event {
                HostReceived::Ready { .. } => {
                    self.connection.set_in_capsule_data(history.in_capsule);
                    self.ready = true;
                }
                HostReceived::ReadData { cid, offset, bytes } => {
                    let read = &mut self.reading[usize::from(cid)].1;
                    assert_eq!(read.len(), offset as usize);
                    read.extend_from_slice(bytes);
                }
                HostReceived::Response { cid, cqe, received } => {
                    let (op, read) = std::mem::take(&mut self.reading[usize::from(cid)]);
                    assert_eq!(read.len(), received as usize);
                    let (data, result, status) = match history.ops[op] {
                        Op::Read { length, result, .. } => {
                            (pattern(op, length), result, Status::SUCCESS)
                        }
                        Op::RefusedWrite { .. } => (vec![], 0, Status::WRITE_PROTECTED),
                        Op::Write { .. } | Op::NoData => (vec![], 77, Status::SUCCESS),
                    };
                    assert_eq!((read, cqe.result.get(), cqe.status()), (data, result, status));
                    self.done.push(op);
                    self.free.push(cid);
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(input.is_empty());
    }
}

fn run<J: Joined>(settings: &J::Settings, history: &History) {
    let mut random = Rng::with_seed(history.seed);
    let (written, ready) = (Vec::new(), Vec::new());
    let mut target = Target::<J> { connection: J::target(settings), written, ready };
    let mut host = Host::<J> {
        connection: J::host(settings),
        ready: false,
        next: 0,
        free: (0..history.entries).collect(),
        reading: vec![(0, Vec::new()); usize::from(history.entries)],
        done: Vec::new(),
    };
    let (mut to_target, mut to_host) = (Vec::new(), Vec::new());
    while host.done.len() < history.ops.len() {
        match random.usize(..6) {
            0 => host.submit_one(history),
            1 => to_target.extend(J::from_host(&mut host.connection, limit(&mut random))),
            2 => to_host.extend(J::from_target(&mut target.connection, limit(&mut random))),
            3 => {
                target.receive(&chunk(&mut to_target, &mut random), history, &mut random);
            }
            4 => host.receive(&chunk(&mut to_host, &mut random), history),
            _ => target.complete_one(history, &mut random),
        }
    }
    host.done.sort_unstable();
    assert!(host.done.iter().copied().eq(0..history.ops.len()), "each command once");
    assert_eq!((host.connection.in_flight(), target.connection.in_flight()), (0, 0));
    assert!(to_host.is_empty() && to_target.is_empty());
    assert!(J::from_target(&mut target.connection, usize::MAX).is_empty(), "nothing is left");
    assert!(J::from_host(&mut host.connection, usize::MAX).is_empty(), "nothing is left");
    assert_eq!(target.connection.unsent(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn tcp_loses_no_byte_and_answers_each_command_once(
        settings in Tcp::settings(), history in history(),
    ) {
        run::<Tcp>(&settings, &history);
    }

    #[test]
    fn rdma_loses_no_byte_and_answers_each_command_once(
        settings in Rdma::settings(), history in history(),
    ) {
        run::<Rdma>(&settings, &history);
    }
}
