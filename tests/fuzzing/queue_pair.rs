//! `queue_pair`: a host sends arbitrary private data and command capsules over RDMA, while devices complete their work
//! requests in any permitted order.
//!
//! The input is the length of the private data and the data, a byte of settings (bits 1:0 RDMA READs at once, 3:2 work
//! requests at once, 5:4 the longest READ), then a list of steps: a byte that selects the step, then its parameters.

use std::collections::{BTreeMap, VecDeque};

use fabric::nvm::Transfer;
use fabric::nvme::{SglKind, Sqe, Status};
use fabric::queue::{CapsuleData, Fetch, Payload, Received, Remote, SlotId, Transport};
use fabric::rdma::wire::private_data::{ConnectRequest, QueueLimits};
use fabric::rdma::wire::{Batch, COMMAND_BYTES, Post, QueueParams, TargetQueue};
use zerocopy::FromZeros as _;
use zerocopy::IntoBytes as _;

use super::input::{byte, bytes};

/// Entries of the queue, which bound the commands that may be outstanding.
const ENTRIES: u16 = 8;
/// The most in-capsule data, in bytes.
const IN_CAPSULE: u32 = 4096;
/// The most data that a command moves here, in bytes.
const MOST: u32 = 1 << 16;
/// The data that one grant of a metered transfer asks for, in bytes.
const STEP: u32 = 6000;

/// Runs one input.
pub fn run(mut data: &[u8]) {
    let length = usize::from(byte(&mut data));
    let limits = QueueLimits { admin_entries: 32, io_entries: 128 };
    if let Ok(request) = ConnectRequest::parse(bytes(&mut data, length), limits) {
        assert!((1..=128).contains(&request.entries()), "{} entries", request.entries());
    }
    let mut bench = Bench::new(byte(&mut data));
    while !data.is_empty() && bench.open {
        bench.step(&mut data);
        bench.hand_out();
    }
}

/// The data of a command that is on its way.
struct Coming {
    length: u32,
    fetched: u32,
    remote: Remote,
}

struct Bench {
    queue: TargetQueue<Vec<u8>, Vec<u8>>,
    params: QueueParams,
    /// Data that commands have asked for, and the data that they return, by their slots.
    coming: BTreeMap<SlotId, Coming>,
    /// Identifiers of commands that are not answered.
    unanswered: BTreeMap<u16, u32>,
    fetches: Vec<Fetch>,
    batches: VecDeque<(usize, Batch<Vec<u8>>)>,
    connected: bool,
    open: bool,
}

impl Bench {
    fn new(settings: u8) -> Self {
        let of = |shift: u8, values: [u16; 4]| {
            values.get(usize::from(settings >> shift & 3)).copied().unwrap_or(1)
        };
        let params = QueueParams {
            qid: 1,
            entries: ENTRIES,
            in_capsule_data: IN_CAPSULE,
            reads: of(0, [1, 2, 4, 16]),
            max_read: of(4, [512, 4096, 5000, 65_535]).into(),
            posts: of(2, [1, 2, 5, 24]),
        };
        Self {
            queue: TargetQueue::new(params),
            params,
            coming: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            fetches: Vec::new(),
            batches: VecDeque::new(),
            connected: false,
            open: true,
        }
    }

    fn step(&mut self, data: &mut &[u8]) {
        let what = byte(data);
        match what & 3 {
            0 => {
                let length = usize::from(byte(data)) * 2;
                self.receive(bytes(data, length).to_vec());
            }
            1 => {
                // A common command: opcode, identifier, key, length and the data behind it.
                let mut sqe = Sqe::new_zeroed();
                sqe.opcode = byte(data);
                sqe.flags = (what >> 4 & 1 ^ 1) << 6;
                sqe.cid.set(u16::from(byte(data) & 15));
                sqe.cdw15.set(u32::from(what >> 2 & 1));
                let sgl = bytes(data, 16);
                let mut entry = sqe.as_bytes().to_vec();
                for (to, from) in entry.iter_mut().skip(24).zip(sgl) {
                    *to = *from;
                }
                let behind = usize::from(byte(data)) * 16 * usize::from(what >> 3 & 1);
                entry.resize(COMMAND_BYTES + behind, 0x5a);
                self.receive(entry);
            }
            2 => {
                if let Some(most) = self.fetches.len().checked_sub(1) {
                    let fetch = self.fetches.remove(usize::from(byte(data)).min(most));
                    self.fetched(&fetch);
                }
            }
            _ => {
                if let Some((count, batch)) = self.batches.pop_front() {
                    assert!(count <= usize::from(self.params.posts));
                    self.queue.give_back(batch);
                }
            }
        }
    }

    fn receive(&mut self, capsule: Vec<u8>) {
        let capsules = [capsule];
        let mut input = &capsules[..];
        loop {
            match self.queue.next(&mut input) {
                Ok(Some(event)) => self.received(event),
                Ok(None) => break,
                Err(_) => {
                    self.open = false;
                    let more = self.queue.next(&mut input);
                    assert!(matches!(more, Ok(None)), "input after a violation");
                    return;
                }
            }
        }
        let most = if self.connected { usize::from(ENTRIES) } else { 1 };
        assert!(self.queue.in_flight() <= most, "{} commands", self.queue.in_flight());
    }

    fn received(&mut self, event: Received<'_>) {
        match event {
            Received::Command { slot, data } => {
                let sqe = *self.queue.sqe_of(slot);
                *self.unanswered.entry(sqe.cid.get()).or_default() += 1;
                self.command(slot, &sqe, &data);
            }
            Received::DataEnd { slot, digest_ok } => {
                let coming = self.coming.remove(&slot).expect("an end that nobody waits for");
                assert_eq!(coming.fetched, coming.length, "the end before all data");
                assert!(digest_ok, "a digest over RDMA");
                self.queue.complete(slot, 0, Status::SUCCESS);
            }
            Received::GrantEnd { slot } => {
                assert!(self.queue.grant(slot, STEP) > 0, "the next grant is due");
            }
            Received::Initialized => {}
            Received::Data { .. } | Received::Terminated { .. } => {
                unreachable!("{event:?} over RDMA")
            }
        }
    }

    /// Carries out a command. Bits 1:0 of the opcode are the direction: 01b to the target, 10b to the
    /// host.
    fn command(&mut self, slot: SlotId, sqe: &Sqe, data: &CapsuleData<'_>) {
        if !self.connected {
            self.connected = true;
            self.queue.set_queue(ENTRIES, sqe.cdw15.get() & 1 == 1);
            self.queue.set_in_capsule_data(IN_CAPSULE);
        }
        assert!(!self.coming.contains_key(&slot), "the slot of a command that is not complete");
        let length = sqe.sgl.data_length().min(MOST);
        let transfer = match sqe.opcode & 3 {
            1 => Transfer::ToController(length),
            2 => Transfer::ToHost(length),
            _ => Transfer::None,
        };
        if let Err(status) = self.queue.check_place(sqe, &transfer, data) {
            return self.queue.complete(slot, 0, status);
        }
        match (transfer, data) {
            (Transfer::ToController(length), CapsuleData::None) if length > 0 => {
                let SglKind::Keyed { address, key, .. } = sqe.sgl.decode() else {
                    unreachable!("its place was checked: {sqe:?}")
                };
                let remote = Remote { address, key };
                self.coming.insert(slot, Coming { length, fetched: 0, remote });
                if sqe.cdw15.get() & 1 == 0 {
                    self.queue.fetch(slot, length);
                } else {
                    self.queue.fetch_metered(slot, length);
                    self.queue.grant(slot, STEP);
                }
            }
            (Transfer::ToHost(length), _) if length > 0 => {
                self.queue.complete_with_data(slot, vec![0xa5; length as usize], 0);
            }
            _ => self.queue.complete(slot, 7, Status::SUCCESS),
        }
    }

    fn fetched(&mut self, fetch: &Fetch) {
        let coming = self.coming.get_mut(&fetch.slot).expect("a fetch that nobody waits for");
        assert_eq!(fetch.offset, coming.fetched, "parts in their order");
        coming.fetched += fetch.length;
        if let Some(event) = self.queue.fetched(fetch) {
            self.received(event);
        }
    }

    /// Checks the queue pair's new work requests.
    fn hand_out(&mut self) {
        while let Some(batch) = self.queue.take_batch() {
            for post in &batch.posts {
                self.check_post(post);
            }
            self.batches.push_back((batch.posts.len(), batch));
        }
        let posted: usize = self.batches.iter().map(|(count, _)| count).sum();
        assert!(posted <= usize::from(self.params.posts), "{posted} work requests are out");
        while let Some(fetch) = self.queue.take_fetch() {
            let coming = self.coming.get(&fetch.slot).expect("a fetch for a command");
            assert!((1..=self.params.max_read).contains(&fetch.length), "{fetch:?}");
            assert!(fetch.offset + fetch.length <= coming.length, "{fetch:?}");
            assert_eq!(fetch.remote, coming.remote.after(fetch.offset), "{fetch:?}");
            self.fetches.push(fetch);
        }
        assert!(self.fetches.len() <= usize::from(self.params.reads), "READs at once");
    }

    fn check_post(&mut self, post: &Post<Vec<u8>>) {
        match post {
            Post::Data { payload, .. } => {
                assert!((1..=MOST as usize).contains(&payload.bytes().len()))
            }
            Post::Response { cqe, .. } => {
                let waits = self.unanswered.get_mut(&cqe.cid.get()).expect("a command's answer");
                *waits = waits.checked_sub(1).expect("one answer for each command");
            }
        }
    }
}
