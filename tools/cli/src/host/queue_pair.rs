//! One RDMA queue pair to a target, in the host role.

use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Instant;

use anyhow::{Context as _, anyhow, bail, ensure};
use fabric::nvme::Sqe;
use fabric::queue::{HostReceived, HostTransport as _, SubmitError};
use fabric::rdma::wire::private_data::{ConnectAccept, ConnectRequest};
use fabric::rdma::wire::{HostInput, HostPost, HostQueue, HostQueueParams, RESPONSE_BYTES};
use fabric_verbs::{
    Access, ActivePair, Arena, Completion, CompletionQueue, ConnectionParams, Domain, Done, Event,
    EventChannel, Id, Outcome, QueuePair, QueuePairSize, ReceiveBuffer, Regions, Token, Work,
};
use nix::poll::{PollFd, PollFlags};
use zerocopy::IntoBytes as _;
use zerocopy::little_endian::U16;

use super::queue_room::QueueRoom;
use super::reach::{self, next_event, unexpected};
use super::socket::{ANSWER_TIMEOUT, Data, resolve};

/// RDMA READs of the target that this side answers at once, at the most.
const READS: u8 = 16;
/// How often packets are sent again that are not acknowledged, and that find no receive buffer.
const RETRIES: u8 = 7;
/// The least bytes of a command's part of the memory: Connect's data have room.
const LEAST_PART: u32 = 4096;
/// Turns without a response after which the connection's events are looked at: that is a system call.
const IDLE_TURNS: u32 = 1024;
/// The name of the connection; its event channel has no other.
const TOKEN: Token = Token(1);

#[derive(Debug)]
pub(crate) struct HostQueuePair {
    pair: ActivePair<Data, Vec<u8>>,
    completions: CompletionQueue,
    channel: EventChannel,
    queue: HostQueue<Data, ReceiveBuffer>,
    /// The memory that commands move their data from and to, a part for each.
    arena: Arena,
    part: u32,
    /// Work requests that may be with the device.
    sends: usize,
    /// Response capsules that have come.
    arrived: Vec<ReceiveBuffer>,
    /// Completions and work requests on their way; empty between calls.
    taken: Vec<Completion>,
    works: Vec<Work<Data, Vec<u8>>>,
    /// A command whose capsule waits for room.
    held: Option<HostPost<Data>>,
    /// What a command has read.
    scratch: Vec<u8>,
    keeps_data: bool,
    waits: bool,
    idle: u32,
    address: String,
}

impl HostQueuePair {
    /// Connects. Reads wait, with a time limit. `tos` is the ToS or traffic class byte of all packets.
    pub(crate) fn connect(address: &str, room: QueueRoom, tos: Option<u8>) -> anyhow::Result<Self> {
        let peer = resolve(address)?;
        let channel = reach::open()?;
        let id = reach::route(&channel, peer, TOKEN, tos).with_context(|| {
            format!(
                "cannot reach {address} over RDMA: it must be an address of the target behind a \
                     network interface of this machine that has an RDMA device (rdma link show)"
            )
        })?;
        let mut new = Self::make(channel, id, room, address)?;
        let accepted = new.ask(room).with_context(|| {
            format!(
                "cannot connect to {address} over RDMA: is the target running, and does it listen \
                 there over RDMA? (try -a ADDRESS:PORT, or -t tcp)"
            )
        })?;
        let capsules = ConnectAccept::parse(&accepted)
            .with_context(|| format!("{address} broke the protocol of NVMe/RDMA"))?;
        new.queue.limit_capsules(capsules);
        Ok(new)
    }

    /// Makes the queue pair and its memory.
    fn make(channel: EventChannel, id: Id, room: QueueRoom, address: &str) -> anyhow::Result<Self> {
        let device = id.device()?;
        let commands = u32::from(room.depth) + 1;
        let part = room.transfer.max(LEAST_PART);
        let regions = Regions::new(&Domain::new(&device)?);
        let length = (commands as usize).checked_mul(part as usize).context("too much memory")?;
        let access = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE;
        let arena = Arena::new(&regions, length, access).map_err(anyhow::Error::msg).with_context(
            || {
                format!(
                    "cannot register {length} bytes with the RDMA device: use a smaller --depth or \
                 --bs, or raise the limit of locked memory (ulimit -l)"
                )
            },
        )?;
        // A response may be taken before the completion of its command's SEND.
        let sends = 2 * commands;
        let size = QueuePairSize {
            sends,
            receives: u16::try_from(commands).unwrap_or(u16::MAX),
            receive_bytes: RESPONSE_BYTES,
            send_payloads: false,
            flushes: false,
        };
        let completions = CompletionQueue::new(&device, sends + commands)
            .map_err(anyhow::Error::msg)
            .context("use a smaller --depth and more --connections")?;
        let pair = QueuePair::new(id, &regions, &completions, size)
            .map_err(anyhow::Error::msg)
            .context("use a smaller --depth and more --connections")?;
        let pair = match room.in_capsule_data.min(room.transfer) {
            0 => pair,
            _ => pair.with_copied_payloads(sends, room.in_capsule_data as usize)?,
        };
        let params = HostQueueParams {
            memory: arena.remote(),
            length: arena.length(),
            part,
            invalidate: false,
        };
        Ok(Self {
            pair: pair.activate(),
            completions,
            channel,
            queue: HostQueue::new(params),
            arena,
            part,
            sends: sends as usize,
            arrived: Vec::new(),
            taken: Vec::new(),
            works: Vec::new(),
            held: None,
            scratch: Vec::new(),
            keeps_data: true,
            waits: true,
            idle: 0,
            address: address.to_owned(),
        })
    }

    /// Asks the target for the connection. Returns what it says on accepting.
    fn ask(&self, room: QueueRoom) -> anyhow::Result<Vec<u8>> {
        let QueueRoom { qid, cntlid, depth, .. } = room;
        let request = ConnectRequest {
            qid: U16::new(qid),
            hrqsize: U16::new(depth.saturating_add(1)),
            hsqsize: U16::new(depth),
            cntlid: U16::new(cntlid),
            ..ConnectRequest::default()
        };
        let id = self.pair.pair().id();
        let params = ConnectionParams {
            responder_resources: id.device()?.limits().reads_answered.min(READS),
            initiator_depth: 0,
            retries: RETRIES,
            not_ready_retries: RETRIES,
        };
        id.connect(params, request.as_bytes()).map_err(anyhow::Error::msg)?;
        match next_event(&self.channel)? {
            Event::Established(_, said) => Ok(said),
            other => Err(unexpected(other)),
        }
    }

    /// Prepares for load: as [`super::connection::Connection::begin_load`].
    pub(crate) fn begin_load(&mut self, in_capsule_data: u32, keeps_data: bool) {
        self.queue.set_in_capsule_data(in_capsule_data);
        (self.keeps_data, self.waits) = (keeps_data, false);
    }

    #[inline]
    pub(crate) fn submit(
        &mut self,
        sqe: Sqe,
        data: Option<Data>,
        read_length: u32,
    ) -> Result<(), SubmitError> {
        self.queue.submit(sqe, data, read_length)
    }

    /// Takes the responses that have come. Returns their number; `None` where none came in time.
    #[inline]
    pub(crate) fn read(&mut self) -> anyhow::Result<Option<usize>> {
        self.poll()?;
        if self.arrived.is_empty() {
            if self.waits {
                self.wait()?;
            } else {
                self.idle += 1;
                if self.idle == IDLE_TURNS {
                    self.idle = 0;
                    self.check_events()?;
                }
            }
        }
        Ok(Some(self.arrived.len()).filter(|count| *count > 0))
    }

    /// Takes what has completed.
    #[inline]
    fn poll(&mut self) -> anyhow::Result<()> {
        let Self { pair, completions, arrived, taken, .. } = self;
        while completions.poll(taken)? {}
        let mut failed = None;
        for completion in taken.drain(..) {
            pair.complete(completion, |done| match done {
                Done::Received(capsule) => arrived.push(capsule),
                Done::Work { outcome, .. } if outcome.is_success() => {}
                Done::Work { outcome, .. } | Done::Lost(outcome) => {
                    failed.get_or_insert(outcome);
                }
            });
        }
        // What came before the failure is looked at first.
        match failed {
            Some(outcome) if arrived.is_empty() => Err(self.lost(outcome)),
            _ => Ok(()),
        }
    }

    /// Waits for a response, asleep.
    fn wait(&mut self) -> anyhow::Result<()> {
        let end = Instant::now() + ANSWER_TIMEOUT;
        while self.arrived.is_empty() {
            self.completions.arm()?;
            // A completion that came before is not told of.
            self.poll()?;
            let left = end.saturating_duration_since(Instant::now());
            if !self.arrived.is_empty() || left.is_zero() {
                break;
            }
            let mut fds = [
                PollFd::new(self.completions.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.channel.as_fd(), PollFlags::POLLIN),
            ];
            reach::sleep(&mut fds, left)?;
            self.completions.take_events();
            self.poll()?;
            if self.arrived.is_empty() {
                self.check_events()?;
            }
        }
        Ok(())
    }

    /// Has the next completion told of. Returns the descriptor that becomes readable then; `None` where
    /// something has completed already.
    pub(crate) fn arm(&mut self) -> anyhow::Result<Option<BorrowedFd<'_>>> {
        self.completions.take_events();
        self.completions.arm()?;
        // A completion that came before is not told of.
        self.poll()?;
        Ok(self.arrived.is_empty().then(|| self.completions.as_fd()))
    }

    /// Looks whether the connection has ended.
    fn check_events(&self) -> anyhow::Result<()> {
        while let Some(event) = self.channel.next()? {
            match event {
                Event::DeviceRemoved(_) => {
                    bail!("the RDMA device that leads to {} is gone", self.address)
                }
                event if event.ends_connection() => {
                    bail!("{} closed the connection", self.address)
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Says why the queue pair has failed.
    fn lost(&self, outcome: Outcome) -> anyhow::Error {
        match self.check_events() {
            Err(error) => error,
            Ok(()) => anyhow!("the RDMA connection to {} failed: {}", self.address, outcome.text()),
        }
    }

    /// Hands each event in the responses that have come to `handle`.
    #[inline]
    pub(crate) fn parse(&mut self, mut handle: impl FnMut(HostReceived<'_>)) -> anyhow::Result<()> {
        let Self { queue, arrived, arena, scratch, part, keeps_data, address, .. } = self;
        // The target may write to the memory at any time, so there is no reference to it: what a
        // command has read is copied from it.
        let mut input = HostInput { capsules: arrived.as_slice(), memory: &[] };
        loop {
            let event = queue.next(&mut input);
            let event = event.with_context(|| format!("{address} broke the protocol"))?;
            let Some(event) = event else { break };
            if let HostReceived::Response { cid, received, .. } = event
                && *keeps_data
                && received > 0
            {
                scratch.resize(received as usize, 0);
                let offset = usize::from(cid) * *part as usize;
                ensure!(arena.read(offset, scratch), "command {cid} has no memory");
                handle(HostReceived::ReadData { cid, offset: 0, bytes: scratch.as_slice() });
            }
            handle(event);
        }
        arrived.clear();
        Ok(self.pair.repost()?)
    }

    /// Posts what is queued, as far as the send queue and the target have room. Returns whether all was
    /// posted.
    #[inline]
    pub(crate) fn flush(&mut self) -> anyhow::Result<bool> {
        let Self { pair, queue, arena, part, sends, works, held, .. } = self;
        while let Some(post) = held.take().or_else(|| queue.take_post()) {
            if pair.posted() + works.len() >= *sends {
                *held = Some(post);
                break;
            }
            match post {
                HostPost::Place { cid, data } => {
                    let offset = usize::from(cid) * *part as usize;
                    ensure!(arena.write(offset, &data), "command {cid} has no memory");
                }
                HostPost::Capsule { sqe, data } => works.push(match data {
                    None => Work::send(sqe.as_bytes(), None),
                    Some(data) => Work::send_with(sqe.as_bytes(), data),
                }),
            }
        }
        if !works.is_empty()
            && let Err((error, _)) = pair.post(works.drain(..))
        {
            return Err(error).with_context(|| format!("sending to {}", self.address));
        }
        Ok(self.held.is_none() && !self.queue.has_posts())
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for HostQueuePair {
    fn drop(&mut self) {
        // The target hears of the end at once. A connection that has ended already is no error.
        let _ = self.pair.pair().id().disconnect();
    }
}
