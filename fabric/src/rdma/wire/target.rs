//! The target's end of a queue pair.

use core::fmt::Debug;
use core::ops::Deref;
use std::collections::VecDeque;

use zerocopy::{FromBytes, IntoBytes};

use super::place::{self, Keyed};
use super::{COMMAND_BYTES, RESPONSE_BYTES, Violation};
use crate::fabrics::{ConnectCommand, ConnectField};
use crate::nvm::Transfer;
use crate::nvme::{Cqe, Sqe, Status};
use crate::queue::{
    Arriving, CapsuleData, Chunk, Commands, Fetch, Payload, Progress, Received, Remote, SlotId,
    Transport,
};

/// The parameters of a queue pair, as its connection was accepted.
#[derive(Clone, Copy, Debug)]
pub struct QueueParams {
    /// The queue identifier of the connection's private data.
    pub qid: u16,
    /// Number of receive buffers, each for one command capsule: the most entries of the queue.
    pub entries: u16,
    /// The most in-capsule data, bytes: the room of a receive buffer behind the command.
    pub in_capsule_data: u32,
    /// RDMA READs that may be out at once, 1 at least: what both ends allow.
    pub reads: u16,
    /// The most bytes that one RDMA READ moves, 1 at least.
    pub max_read: u32,
    /// Work requests of [`Batch`]es that may be out at once, 1 at least: the entries of the send
    /// queue that READs leave.
    pub posts: u16,
}

/// A work request for the send queue of a queue pair.
#[derive(Debug)]
pub enum Post<P> {
    /// RDMA WRITE of data that a command returns.
    Data {
        /// The data.
        payload: P,
        /// Its place in the host's memory.
        remote: Remote,
    },
    /// SEND of a response capsule.
    Response {
        /// The capsule.
        cqe: Cqe,
        /// The key that the host wants invalidated with it (SEND with INVALIDATE).
        invalidate: Option<u32>,
    },
}

impl<P: Payload> Post<P> {
    /// Returns the number of bytes that the work request moves.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Data { payload, .. } => payload.bytes().len(),
            Self::Response { .. } => RESPONSE_BYTES,
        }
    }

    /// Returns the response capsule, if the work request sends one.
    #[must_use]
    pub fn capsule(&self) -> Option<&[u8]> {
        match self {
            Self::Response { cqe, .. } => Some(cqe.as_bytes()),
            Self::Data { .. } => None,
        }
    }
}

/// Work requests that are posted together, in order. Their payloads are the batch's until the device
/// is done with all of them.
#[derive(Debug)]
pub struct Batch<P> {
    /// The work requests. Their shell may take them out.
    pub posts: Vec<Post<P>>,
    /// Entries of the send queue that the batch takes.
    credits: u16,
    bytes: usize,
}

impl<P> Batch<P> {
    /// Returns the number of bytes that the batch moves.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// The target's end of a queue pair; `P` is the payload of what commands return, `B` a receive buffer
/// with a command capsule, which may be used again when its last clone is dropped.
#[derive(Debug)]
pub struct TargetQueue<P, B> {
    params: QueueParams,
    in_capsule_data: u32,
    commands: Commands,
    /// Whether the connection's set-up was reported.
    opened: bool,
    closed: bool,
    /// Work requests that were not handed out, and the number of their bytes.
    outbox: VecDeque<Post<P>>,
    unsent: usize,
    /// Batches that are out, and the entries of the send queue that they take.
    batches: usize,
    posted: u16,
    /// The number of their bytes.
    under_way: usize,
    /// Memory of batches that came back.
    spare: Vec<Vec<Post<P>>>,
    /// Fetches that were not handed out, and the number of outstanding ones.
    fetches: VecDeque<Fetch>,
    fetching: u16,
    /// The bytes of outstanding fetches, and their bound.
    fetching_bytes: u64,
    fetch_bound: Option<u64>,
    capsules: core::marker::PhantomData<fn(B)>,
}

impl<P: Payload, B> TargetQueue<P, B> {
    /// Makes the end of a queue pair whose connection is accepted. Parameters out of range are
    /// brought into range.
    #[must_use]
    pub fn new(params: QueueParams) -> Self {
        let params = QueueParams {
            entries: params.entries.max(1),
            reads: params.reads.max(1),
            max_read: params.max_read.max(1),
            posts: params.posts.max(1),
            ..params
        };
        Self {
            params,
            in_capsule_data: params.in_capsule_data,
            commands: Commands::new(),
            opened: false,
            closed: false,
            outbox: VecDeque::new(),
            unsent: 0,
            batches: 0,
            posted: 0,
            under_way: 0,
            spare: Vec::new(),
            fetches: VecDeque::new(),
            fetching: 0,
            fetching_bytes: 0,
            fetch_bound: None,
            capsules: core::marker::PhantomData,
        }
    }

    fn capsule<'a>(&mut self, bytes: &'a [u8]) -> Result<Received<'a>, Violation> {
        let Some((sqe, data)) = bytes.split_at_checked(COMMAND_BYTES) else {
            return Err(Violation("a capsule of less than 64 bytes"));
        };
        if data.len() > self.in_capsule_data as usize {
            return Err(Violation("more in-capsule data than the queue takes"));
        }
        let Ok(sqe) = Sqe::ref_from_bytes(sqe) else {
            return Err(Violation("a capsule without a command"));
        };
        let slot = self.commands.take(sqe);
        let slot = slot.ok_or(Violation("more commands outstanding than queue entries"))?;
        let data = if data.is_empty() { CapsuleData::None } else { CapsuleData::Whole(data) };
        Ok(Received::Command { slot, data })
    }

    /// Returns the key that the response to a command invalidates.
    fn invalidates(&self, slot: SlotId) -> Option<u32> {
        let keyed =
            Keyed::from_command(self.commands.sqe_of(slot)).filter(|keyed| keyed.invalidate)?;
        Some(keyed.remote.key)
    }

    fn post(&mut self, post: Post<P>) {
        self.unsent += post.bytes();
        self.outbox.push_back(post);
    }

    fn put_data(&mut self, slot: SlotId, payload: P, offset: u32) {
        let keyed = Keyed::from_command(self.commands.sqe_of(slot));
        debug_assert!(keyed.is_some(), "data was checked to have a place");
        if let Some(Keyed { remote, .. }) = keyed
            && !payload.bytes().is_empty()
        {
            self.post(Post::Data { payload, remote: remote.after(offset) });
        }
    }

    /// Returns whether the command is there whose data was fetched, and was not answered.
    #[cfg(test)]
    pub(super) fn wants_data(&self, slot: SlotId) -> bool {
        self.commands.wants_data(slot)
    }

    /// Asks for the next part of a command's data, if it may be asked for. Returns its length.
    fn ask(&mut self, slot: SlotId, metered: bool, most: u32) -> u32 {
        let most = most.min(self.params.max_read).min(self.most_at_once());
        let part = self.commands.open_grant(slot, metered, (1, most), |_| 0);
        let keyed = Keyed::from_command(self.commands.sqe_of(slot));
        let (Some((_, offset, length)), Some(Keyed { remote, .. })) = (part, keyed) else {
            return 0;
        };
        let remote = remote.after(offset);
        self.fetches.push_back(Fetch { slot, offset, length, remote });
        length
    }

    /// Returns the most bytes of one fetch, whole 4 KiB: half of the bound of all.
    fn most_at_once(&self) -> u32 {
        let half = |bound: u64| u32::try_from(bound / 2).unwrap_or(u32::MAX) & !4095;
        self.fetch_bound.map_or(u32::MAX, |bound| half(bound).max(4096))
    }

    /// Closes the part of a command's data that was asked for.
    fn close_part(&mut self, slot: SlotId) -> Progress {
        let Some((_, grant)) = self.commands.find_grant(slot, 0, 0) else { return Progress::More };
        grant.next = grant.end;
        self.ask(slot, false, u32::MAX);
        self.commands.piece_end(slot, true)
    }

    /// Forgets a fetch of a command's data that was not handed out.
    #[cold]
    fn forget_fetch(&mut self, slot: SlotId) {
        let before = self.fetches.len();
        self.fetches.retain(|fetch| fetch.slot != slot);
        if self.fetches.len() < before {
            let invalidate = self.invalidates(slot);
            if let Progress::Complete(cqe) = self.close_part(slot) {
                self.post(Post::Response { cqe, invalidate });
            }
        }
    }
}

impl<P, B> Transport for TargetQueue<P, B>
where
    P: Payload,
    B: Clone + Debug + Deref<Target = [u8]> + 'static,
{
    type Payload = P;
    type Inbox = Vec<B>;
    type Batch = Batch<P>;
    type Violation = Violation;

    fn next<'a>(
        &mut self,
        input: &mut Chunk<'a, Vec<B>>,
    ) -> Result<Option<Received<'a>>, Violation> {
        if !self.opened && !self.closed {
            self.opened = true;
            return Ok(Some(Received::Initialized));
        }
        if self.closed {
            *input = &[];
            return Ok(None);
        }
        let Some((capsule, rest)) = input.split_first() else { return Ok(None) };
        *input = rest;
        let event = self.capsule(capsule);
        self.closed = event.is_err();
        event.map(Some)
    }

    fn set_queue(&mut self, entries: u16, sq_flow_control: bool) {
        self.commands.set_queue(entries.min(self.params.entries), sq_flow_control);
    }

    fn set_in_capsule_data(&mut self, bytes: u32) {
        self.in_capsule_data = bytes.min(self.params.in_capsule_data);
    }

    fn check_place(
        &self,
        sqe: &Sqe,
        transfer: &Transfer,
        data: &CapsuleData<'_>,
    ) -> Result<(), Status> {
        place::check(sqe, transfer, data)
    }

    fn fetch(&mut self, slot: SlotId, length: u32) {
        if self.commands.fetch(slot, length, false) {
            self.ask(slot, false, u32::MAX);
        }
    }

    fn fetch_metered(&mut self, slot: SlotId, length: u32) {
        self.commands.fetch(slot, length, true);
    }

    fn grant(&mut self, slot: SlotId, most: u32) -> u32 {
        self.ask(slot, true, most.max(4))
    }

    fn fetches_into_buffers(&self) -> bool {
        true
    }

    fn take_fetch(&mut self) -> Option<Fetch> {
        if self.fetching >= self.params.reads {
            return None;
        }
        let next = u64::from(self.fetches.front()?.length);
        let full = |bound| self.fetching > 0 && self.fetching_bytes.saturating_add(next) > bound;
        if self.fetch_bound.is_some_and(full) {
            return None;
        }
        let fetch = self.fetches.pop_front()?;
        self.fetching += 1;
        self.fetching_bytes += next;
        Some(fetch)
    }

    fn bound_fetches(&mut self, bytes: Option<u64>) {
        self.fetch_bound = bytes;
    }

    fn fetched(&mut self, fetch: &Fetch) -> Option<Received<'static>> {
        self.fetching = self.fetching.saturating_sub(1);
        self.fetching_bytes = self.fetching_bytes.saturating_sub(fetch.length.into());
        let slot = fetch.slot;
        let invalidate = self.invalidates(slot);
        match self.close_part(slot) {
            Progress::More => None,
            Progress::GrantEnd => Some(Received::GrantEnd { slot }),
            Progress::End { digest_ok } => Some(Received::DataEnd { slot, digest_ok }),
            Progress::Complete(cqe) => {
                self.post(Post::Response { cqe, invalidate });
                None
            }
        }
    }

    fn check_connect(&self, command: &ConnectCommand) -> Result<(), ConnectField> {
        if command.qid.get() != self.params.qid {
            return Err(ConnectField::Qid);
        }
        // SQSIZE is 0's based: one less than the number of entries.
        if command.sqsize.get() >= self.params.entries {
            return Err(ConnectField::SqSize);
        }
        Ok(())
    }

    fn complete(&mut self, slot: SlotId, result: u64, status: Status) {
        let invalidate = self.invalidates(slot);
        match self.commands.complete(slot, result, status) {
            Some(cqe) => self.post(Post::Response { cqe, invalidate }),
            None => self.forget_fetch(slot),
        }
    }

    fn complete_with_data(&mut self, slot: SlotId, data: P, result: u64) {
        if self.commands.holds(slot) {
            self.put_data(slot, data, 0);
            self.complete(slot, result, Status::SUCCESS);
        }
    }

    fn send_data(&mut self, slot: SlotId, data: P, offset: u32, last: bool) {
        if self.commands.holds(slot) {
            self.put_data(slot, data, offset);
            if last {
                self.complete(slot, 0, Status::SUCCESS);
            }
        }
    }

    fn withdraw(&mut self, slot: SlotId) {
        if self.commands.is_settled(slot) {
            self.commands.release(slot);
        }
    }

    fn sqe_of(&self, slot: SlotId) -> &Sqe {
        self.commands.sqe_of(slot)
    }

    fn find_cid(&self, cid: u16) -> Option<SlotId> {
        self.commands.find_cid(cid)
    }

    fn in_flight(&self) -> usize {
        self.commands.in_flight()
    }

    fn in_data(&self) -> bool {
        false
    }

    fn brings_data(&self, input: &&[B]) -> bool {
        input.first().is_some_and(|capsule| capsule.len() > COMMAND_BYTES)
    }

    /// Returns `None`: capsules come whole, and data is fetched to where it belongs.
    fn arriving(&self) -> Option<Arriving> {
        None
    }

    fn arrived(&mut self, _: &[u8]) -> bool {
        debug_assert!(false, "nothing was arriving");
        false
    }

    fn unsent(&self) -> usize {
        self.unsent
    }

    fn take_batch(&mut self) -> Option<Batch<P>> {
        let room = self.params.posts - self.posted;
        let count = self.outbox.len().min(usize::from(room));
        let credits = u16::try_from(count).ok().filter(|&count| count > 0)?;
        let mut posts = self.spare.pop().unwrap_or_default();
        posts.extend(self.outbox.drain(..count));
        let bytes = posts.iter().map(Post::bytes).sum::<usize>();
        self.unsent -= bytes;
        self.under_way += bytes;
        self.posted += credits;
        self.batches += 1;
        Some(Batch { posts, credits, bytes })
    }

    fn give_back(&mut self, Batch { mut posts, credits, bytes }: Batch<P>) {
        posts.clear();
        self.under_way = self.under_way.saturating_sub(bytes);
        self.spare.push(posts);
        self.posted = self.posted.saturating_sub(credits);
        self.batches = self.batches.saturating_sub(1);
    }

    fn under_way(&self) -> Option<usize> {
        Some(self.under_way)
    }

    fn is_sending(&self) -> bool {
        self.batches > 0
    }
}
