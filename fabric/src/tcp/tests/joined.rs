//! Host and target joined by an in-memory wire that cuts the streams anywhere.

use proptest::prelude::*;
use zerocopy::little_endian::{U16, U32};

use crate::nvme::{Sqe, Status};
use crate::tcp::{
    CapsuleData, HostConnection, HostParams, HostReceived, Payload, Received, SlotId,
    TargetConnection, TargetParams, Tx,
};

/// One command of a random history.
#[derive(Clone, Copy, Debug)]
enum Op {
    Read {
        length: u32,
        part: u32,
        result: u64,
    },
    Write {
        length: u32,
    },
    /// A write that the target answers with an error before its data has arrived.
    RefusedWrite {
        length: u32,
    },
    NoData,
}

#[derive(Clone, Debug)]
struct History {
    target: TargetParams,
    host: HostParams,
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
        (cpda, hpda) in (0u8..=31, 0u8..=31),
        digests: [bool; 4],
        max_h2c_data in 4096u32..30_000,
        (max_r2t_data, max_c2h_data) in (512u32..50_000, 512u32..50_000),
        maxr2t in prop_oneof![0u32..7, Just(u32::MAX)],
        in_capsule in prop_oneof![Just(0u32), Just(4096), 0u32..10_000],
        entries in 1u16..12,
        flow_control: bool,
        ops in prop::collection::vec(op(), 1..40),
        seed: u64,
    ) -> History {
        let [header_digest, data_digest, ask_header, ask_data] = digests;
        History {
            target: TargetParams {
                cpda, header_digest, data_digest, max_h2c_data,
                in_capsule_data: in_capsule, max_r2t_data, max_c2h_data,
            },
            host: HostParams { hpda, header_digest: ask_header, data_digest: ask_data, maxr2t },
            in_capsule, entries, flow_control, ops, seed,
        }
    }
}

/// The data of command number `op`: every byte tells its place.
fn pattern(op: usize, length: u32) -> Vec<u8> {
    (0..length)
        .map(|at| (at as usize * 31 + (at as usize >> 8) * 7 + op * 101).to_le_bytes()[0])
        .collect()
}

/// xorshift64: the cuts and the order of what happens.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }
}

/// Moves some bytes from a send queue to a wire.
fn transmit<P: Payload>(tx: &mut Tx<P>, wire: &mut Vec<u8>, random: &mut Random) {
    tx.begin();
    let left: usize = tx.slices().map(<[u8]>::len).sum();
    if left == 0 {
        return;
    }
    let n = if random.below(2) == 0 { left } else { 1 + random.below(left.min(9000)) };
    let bytes: Vec<u8> = tx.slices().flatten().take(n).copied().collect();
    wire.extend(bytes);
    assert_eq!(tx.advance(n), n == left);
}

/// A chunk from the front of a wire.
fn chunk(wire: &mut Vec<u8>, random: &mut Random) -> Vec<u8> {
    let n = match random.below(3) {
        0 => wire.len(),
        1 => random.below(8) + 1,
        _ => random.below(5000) + 1,
    };
    wire.drain(..n.min(wire.len())).collect()
}

/// The target's shell: what it holds for each slot.
struct Target {
    connection: TargetConnection<Vec<u8>>,
    written: Vec<Vec<Option<u8>>>,
    ready: Vec<SlotId>,
}

impl Target {
    fn receive(&mut self, mut input: &[u8], history: &History) {
        loop {
            let arriving = self.connection.arriving();
            let Some(event) = self.connection.next(&mut input).unwrap() else { break };
            if let (Some(told), Received::Data { slot, offset, bytes }) = (arriving, &event) {
                assert_eq!((told.0, told.1), (*slot, *offset));
                assert!(bytes.len() <= told.2 as usize);
            }
            match event {
                Received::Initialized => {
                    let History { entries, flow_control, in_capsule, .. } = *history;
                    self.connection.set_queue(entries, flow_control, in_capsule);
                }
                Received::Command { slot, sqe, data } => self.command(slot, &sqe, &data, history),
                Received::Data { slot, offset, bytes } => self.data(slot, offset, bytes),
                Received::DataEnd { slot, digest_ok } => {
                    assert!(digest_ok);
                    self.check_write(slot, history);
                    self.ready.push(slot);
                }
                Received::GrantEnd { slot } => {
                    assert!(self.connection.grant_data(slot, 5000) > 0, "the next grant is due");
                }
                Received::Terminated { .. } => panic!("terminated"),
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

    /// Two of three commands' data is asked for grant by grant; a refused one may not get as far
    /// as its first.
    fn ask(&mut self, slot: SlotId, sqe: &Sqe, refused: bool) {
        let (op, length) = (sqe.cdw10.get(), sqe.sgl.length.get());
        if op.is_multiple_of(3) {
            return self.connection.request_data(slot, length);
        }
        self.connection.request_data_metered(slot, length);
        if op % 3 == 1 || !refused {
            let asked = self.connection.grant_data(slot, 1000);
            // The largest R2T may be smaller.
            assert!(asked > 0 && asked <= length.min(1000), "{asked} of {length}");
            assert_eq!(self.connection.grant_data(slot, 1000), 0, "one at a time");
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
    fn complete_one(&mut self, history: &History, random: &mut Random) {
        if self.ready.is_empty() {
            return;
        }
        let slot = self.ready.swap_remove(random.below(self.ready.len()));
        let op = self.connection.sqe_of(slot).cdw10.get() as usize;
        assert_eq!(self.connection.find_cid(self.connection.cid(slot)), Some(slot));
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

/// The host's shell.
struct Host {
    connection: HostConnection<Vec<u8>>,
    ready: bool,
    next: usize,
    free: Vec<u16>,
    /// By CID: the command and what it has read.
    reading: Vec<(usize, Vec<u8>)>,
    done: Vec<usize>,
}

impl Host {
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

    fn receive(&mut self, mut input: &[u8], history: &History) {
        while let Some(event) = self.connection.next(&mut input).unwrap() {
            match event {
                HostReceived::Ready { header_digest, data_digest, .. } => {
                    let (target, host) = (&history.target, &history.host);
                    assert_eq!(header_digest, target.header_digest && host.header_digest);
                    assert_eq!(data_digest, target.data_digest && host.data_digest);
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

fn run(history: &History) {
    let mut random = Random(history.seed | 1);
    let mut target = Target {
        connection: TargetConnection::new(history.target),
        written: Vec::new(),
        ready: Vec::new(),
    };
    let mut host = Host {
        connection: HostConnection::new(history.host),
        ready: false,
        next: 0,
        free: (0..history.entries).collect(),
        reading: vec![(0, Vec::new()); usize::from(history.entries)],
        done: Vec::new(),
    };
    let (mut to_target, mut to_host) = (Vec::new(), Vec::new());
    while host.done.len() < history.ops.len() {
        match random.below(6) {
            0 => host.submit_one(history),
            1 => transmit(host.connection.tx(), &mut to_target, &mut random),
            2 => transmit(target.connection.tx(), &mut to_host, &mut random),
            3 => target.receive(&chunk(&mut to_target, &mut random), history),
            4 => host.receive(&chunk(&mut to_host, &mut random), history),
            _ => target.complete_one(history, &mut random),
        }
    }
    host.done.sort_unstable();
    assert!(host.done.iter().copied().eq(0..history.ops.len()), "each command once");
    assert_eq!((host.connection.in_flight(), target.connection.in_flight()), (0, 0));
    assert!(to_host.is_empty() && to_target.is_empty());
    assert_eq!(host.connection.tx().pending_bytes() + target.connection.tx().pending_bytes(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_byte_arrives_and_every_command_completes_once(history in history()) {
        run(&history);
    }
}
