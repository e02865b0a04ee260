//! Queue pairs: posted work, its ownership meanwhile, and its completions.

use std::collections::VecDeque;
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fabric::queue::Remote;
use fabric::rdma::placement::Placement;
use rdma_sys::{
    ibv_modify_qp, ibv_post_recv, ibv_post_send, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask, ibv_qp_cap,
    ibv_qp_init_attr, ibv_qp_state, ibv_qp_type, ibv_query_qp, ibv_recv_wr, ibv_send_flags,
    ibv_send_wr, ibv_sge, ibv_wr_opcode, rdma_create_qp, rdma_destroy_qp, rdma_init_qp_attr,
};

use super::completion::{Completion, CompletionQueue, Outcome, RawQueue};
use super::connection::Id;
use super::flush::Flushes;
use super::rate_limit::RateLimit;
use super::receive::{ReceiveMemory, Received};
use super::region::{Key, Region, Regions};
use crate::error::Error;
use crate::facts::Arrivals;
use crate::memory::{Access, Stable, StableMut};
use crate::params::ConnectionParams;
use crate::work::{Done, QueuePairSize, Work, WorkOrder};

/// Returns the most bytes of data in a packet: codes 1 to 5 are 256 to 4096 bytes.
fn packet_bytes(path_mtu: u32) -> u32 {
    128 << path_mtu.min(5)
}

/// A work request that is with the device.
#[derive(Debug)]
struct Posted<P, B> {
    work: Work<P, B>,
    ends: bool,
    /// Place of the first bytes of a SEND with data behind them.
    head: Option<u16>,
    _key: Option<Key>,
}

/// The queue pair itself. The connection's identifier is dropped behind it.
#[derive(Debug)]
struct Raw {
    id: Id,
    /// The queue pair; null once it was destroyed.
    queue: *mut ibv_qp,
    /// The limit that the device can keep.
    limit: Option<RateLimit>,
    /// Posts FLUSHes, if this was requested and the device supports them.
    flushes: Option<Flushes>,
    _completions: Arc<RawQueue>,
}

// SAFETY: verbs may be called by all threads; the pointer is the identifier's own queue pair.
unsafe impl Send for Raw {}

impl Raw {
    /// Returns the queue pair.
    fn queue(&self) -> Result<*mut ibv_qp, Error> {
        if self.queue.is_null() { Err(Error::gone("the queue pair")) } else { Ok(self.queue) }
    }

    /// Destroys the queue pair, if that was not done.
    fn destroy(&mut self) {
        if self.queue.is_null() {
            return;
        }
        self.queue = null_mut();
        self.flushes = None;
        if let Some(limit) = &self.limit {
            limit.end();
        }
        // SAFETY: the identifier has a queue pair, which ends once: here. From then on it has none.
        unsafe {
            rdma_destroy_qp(self.id.raw());
            (*self.id.raw()).qp = null_mut();
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.destroy();
    }
}

/// A queue pair with its connection and its receive buffers, which are all with the device.
#[derive(Debug)]
pub struct QueuePair {
    // The fields are dropped in this order: the queue pair first.
    raw: Raw,
    regions: Regions,
    receive: Arc<ReceiveMemory>,
    receive_region: Region,
    receives: u16,
    heads: Option<Heads>,
    number: u32,
    /// Number that distinguishes this queue pair's works from an earlier queue pair with the same
    /// number.
    generation: u32,
    /// Bytes of a SEND that are copied when it is posted.
    inline: u32,
}

/// A queue pair on the thread that uses it, with the works that are with the device; `P` is data that
/// works send, `B` a buffer that they write to.
#[derive(Debug)]
pub struct ActivePair<P, B> {
    // The fields are dropped in this order: the queue pair first.
    pair: QueuePair,
    posted: VecDeque<Posted<P, B>>,
    /// Number of the first work that is with the device.
    first: WorkOrder,
    /// The owners of receive buffers.
    received: Rc<Received>,
    list: List,
}

/// The work requests of one call of `post`, with their parts. They are empty between calls.
#[derive(Default)]
struct List {
    requests: Vec<ibv_send_wr>,
    parts: Vec<ibv_sge>,
}

impl std::fmt::Debug for List {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} requests", self.requests.len())
    }
}

/// Registered memory for the first bytes of SENDs that have data behind them, and for short data.
#[derive(Debug)]
struct Heads {
    memory: Arc<ReceiveMemory>,
    region: Region,
    free: Vec<u16>,
}

impl Heads {
    /// Makes a place for each of `sends` SENDs, with room for `copied` bytes of data.
    fn new(regions: &Regions, sends: u32, copied: usize) -> Result<Self, Error> {
        let count = u16::try_from(sends).unwrap_or(u16::MAX);
        let size = HEAD.saturating_add(copied);
        let memory = ReceiveMemory::new(count, size).ok_or_else(Error::no_memory)?;
        let region = Region::new(regions.domain(), memory.clone(), Access::empty())?;
        Ok(Self { memory, region, free: (0..count).collect() })
    }

    /// Returns the most bytes of data that have room behind the first bytes of a SEND.
    fn room(&self) -> usize {
        self.memory.size().saturating_sub(HEAD)
    }
}

/// Bytes of a SEND that come ahead of its data, at the most.
const HEAD: usize = 64;

/// How long a peer waits that has found no receive buffer: 0.64 ms, in the code of the InfiniBand
/// specification (table 45).
const NOT_READY: u8 = 12;

/// The kind of a work's number: a receive, else a send.
const RECEIVE: u64 = 1 << 31;

static GENERATIONS: AtomicU32 = AtomicU32::new(1);

impl QueuePair {
    /// Makes a queue pair for a connection, with all its receive buffers posted.
    ///
    /// # Errors
    /// The device does not allow the size, or there is no memory.
    pub fn new(
        id: Id,
        regions: &Regions,
        completions: &CompletionQueue,
        size: QueuePairSize,
    ) -> Result<Self, Error> {
        let limits = regions.domain().device().limits();
        for (what, wanted) in
            [("send work requests", size.sends), ("receive buffers", size.receives.into())]
        {
            if wanted > limits.work_requests {
                let (has, wanted) = (limits.work_requests.into(), wanted.into());
                return Err(Error::Limit { what, has, wanted });
            }
        }
        let parts = 1 + u32::from(size.send_payloads);
        let shared = completions.shared();
        // SAFETY: all zeroes are attributes, with null for unused ones.
        let mut attributes: ibv_qp_init_attr = unsafe { std::mem::zeroed() };
        attributes.send_cq = shared.raw();
        attributes.recv_cq = shared.raw();
        attributes.qp_type = ibv_qp_type::IBV_QPT_RC;
        attributes.cap = ibv_qp_cap {
            max_send_wr: size.sends.max(1),
            max_recv_wr: u32::from(size.receives).max(1),
            max_send_sge: parts,
            max_recv_sge: 1,
            max_inline_data: 64,
        };
        let domain = regions.domain();
        let flushes = match size.flushes && limits.flushes.is_some() {
            // SAFETY: identifier, domain and completion queue live, and do so longer than the queue pair.
            true => unsafe { Flushes::create(id.raw(), domain.raw(), &mut attributes) },
            false => None,
        };
        if flushes.is_none() {
            // SAFETY: as above.
            let answer = unsafe { rdma_create_qp(id.raw(), domain.raw(), &raw mut attributes) };
            Error::check("rdma_create_qp", answer)?;
        }
        // SAFETY: the call has made the identifier's queue pair.
        let queue = unsafe { (*id.raw()).qp };
        // SAFETY: the queue pair lives.
        let number = unsafe { (*queue).qp_num };
        // SAFETY: `Raw` ends the limit before it destroys the queue pair.
        let limit = limits.rates.map(|range| unsafe { RateLimit::new(queue, range) });
        let raw = Raw { id, queue, limit, flushes, _completions: shared };
        let receive = ReceiveMemory::new(size.receives, size.receive_bytes);
        let receive = receive.ok_or_else(Error::no_memory)?;
        let receive_region = Region::new(domain, receive.clone(), Access::LOCAL_WRITE)?;
        let heads = match size.send_payloads {
            true => Some(Heads::new(regions, size.sends, 0)?),
            false => None,
        };
        let pair = Self {
            raw,
            regions: regions.clone(),
            receive,
            receive_region,
            receives: size.receives,
            heads,
            number,
            generation: GENERATIONS.fetch_add(1, Ordering::Relaxed),
            inline: attributes.cap.max_inline_data,
        };
        let all: Vec<u16> = (0..size.receives).collect();
        pair.post_receives(&all)?;
        Ok(pair)
    }

    /// Copies data of SENDs of up to `most` bytes when they are posted. Such data need not be in registered memory,
    /// whose registration for each SEND is expensive. `sends` equals the queue pair's size.
    ///
    /// # Errors
    /// There is no memory.
    pub fn with_copied_payloads(mut self, sends: u32, most: usize) -> Result<Self, Error> {
        self.heads = Some(Heads::new(&self.regions, sends, most)?);
        Ok(self)
    }

    /// Returns the connection.
    #[must_use]
    pub fn id(&self) -> &Id {
        &self.raw.id
    }

    /// Returns the limit on the queue pair's sending rate; `None` if the device cannot enforce one.
    #[must_use]
    pub fn rate_limit(&self) -> Option<RateLimit> {
        self.raw.limit.clone()
    }

    /// Accepts the connection, which a peer asked for: [`Event::Established`] follows. `tos` is the
    /// traffic class byte of sent packets; `None` means the peer's. Returns the most bytes of data
    /// of a packet.
    ///
    /// [`Event::Established`]: crate::Event::Established
    ///
    /// # Errors
    /// The kernel refuses, or the peer has gone.
    pub fn accept(
        &self,
        params: ConnectionParams,
        private_data: &[u8],
        tos: Option<u8>,
    ) -> Result<u32, Error> {
        let id = &self.raw.id;
        let queue = self.raw.queue()?;
        // The connection manager would bring the queue pair up with the peer's traffic class, and have a
        // peer that finds no receive buffer try again after 655 ms.
        self.come_up(ibv_qp_state::IBV_QPS_INIT, |_| {})?;
        let mut mtu = 0;
        self.come_up(ibv_qp_state::IBV_QPS_RTR, |attributes| {
            mtu = packet_bytes(attributes.path_mtu);
            if let Some(tos) = tos {
                attributes.ah_attr.grh.traffic_class = tos;
            }
            attributes.min_rnr_timer = NOT_READY;
            attributes.max_dest_rd_atomic = params.responder_resources;
        })?;
        self.come_up(ibv_qp_state::IBV_QPS_RTS, |attributes| {
            attributes.max_rd_atomic = params.initiator_depth;
        })?;
        // SAFETY: the identifier lives. Without a queue pair of its own, it takes this one's number.
        unsafe { (*id.raw()).qp = null_mut() };
        let accepted = id.accept(params, private_data, self.number());
        // SAFETY: the identifier lives, and has its queue pair again, which it destroys.
        unsafe { (*id.raw()).qp = queue };
        accepted.map(|()| mtu)
    }

    /// Brings the queue pair to its next state, with the connection's attributes but for a change.
    fn come_up(
        &self,
        state: ibv_qp_state::Type,
        change: impl FnOnce(&mut ibv_qp_attr),
    ) -> Result<(), Error> {
        // SAFETY: all zeroes are attributes.
        let mut attributes: ibv_qp_attr = unsafe { std::mem::zeroed() };
        attributes.qp_state = state;
        let mut mask = 0;
        // SAFETY: the identifier lives, and the attributes do during the call.
        let answer =
            unsafe { rdma_init_qp_attr(self.raw.id.raw(), &raw mut attributes, &raw mut mask) };
        Error::check("rdma_init_qp_attr", answer)?;
        change(&mut attributes);
        let queue = self.raw.queue()?;
        // SAFETY: the queue pair lives, and the attributes do during the call.
        let answer = unsafe { ibv_modify_qp(queue, &raw mut attributes, mask) };
        Error::check("ibv_modify_qp", answer)
    }

    /// Returns the queue pair's number, by which completions name it.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns how far the peer's packets have come, as the device counts them.
    ///
    /// # Errors
    /// The device has failed, or has ended the queue pair.
    pub fn arrivals(&self) -> Result<Arrivals, Error> {
        let queue = self.raw.queue()?;
        // SAFETY: all zeroes are attributes of both kinds.
        let (mut attributes, mut initial): (ibv_qp_attr, ibv_qp_init_attr) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        let mask = ibv_qp_attr_mask::IBV_QP_RQ_PSN | ibv_qp_attr_mask::IBV_QP_PATH_MTU;
        let mask = mask.0.cast_signed();
        // SAFETY: the queue pair lives, and both kinds of attributes do during the call.
        let answer = unsafe { ibv_query_qp(queue, &raw mut attributes, mask, &raw mut initial) };
        Error::check("ibv_query_qp", answer)?;
        Ok(Arrivals { next: attributes.rq_psn, packet: packet_bytes(attributes.path_mtu) })
    }

    /// Makes the queue pair usable by this thread.
    #[must_use]
    pub fn activate<P: Stable, B: StableMut>(self) -> ActivePair<P, B> {
        let received = Received::new(Arc::clone(&self.receive), self.receives);
        let (posted, first) = (VecDeque::new(), WorkOrder::default());
        ActivePair { pair: self, posted, first, received, list: List::default() }
    }

    fn work_number(&self, low: u64) -> u64 {
        u64::from(self.generation) << 32 | low
    }

    fn post_receives(&self, buffers: &[u16]) -> Result<(), Error> {
        let size = u32::try_from(self.receive.size()).unwrap_or(u32::MAX);
        let lkey = self.receive_region.lkey();
        let mut parts: Vec<ibv_sge> = buffers
            .iter()
            .map(|&index| ibv_sge { addr: self.receive.buffer(index) as u64, length: size, lkey })
            .collect();
        let mut requests: Vec<ibv_recv_wr> = Vec::with_capacity(buffers.len());
        for (&index, part) in buffers.iter().zip(&mut parts) {
            let wr_id = self.work_number(RECEIVE | u64::from(index));
            requests.push(ibv_recv_wr { wr_id, next: null_mut(), sg_list: part, num_sge: 1 });
        }
        let mut next = null_mut();
        for request in requests.iter_mut().rev() {
            request.next = next;
            next = request;
        }
        if next.is_null() {
            return Ok(());
        }
        let (queue, mut bad) = (self.raw.queue()?, null_mut());
        // SAFETY: the requests and their parts live until the call returns. The buffers are the
        // device's until their completions: nobody has a handle to them, and the memory lives as
        // long as the queue pair.
        let answer = unsafe { ibv_post_recv(queue, next, &raw mut bad) };
        Error::check("ibv_post_recv", answer)
    }
}

impl<P: Stable, B: StableMut> ActivePair<P, B> {
    /// Returns the queue pair.
    #[must_use]
    pub fn pair(&self) -> &QueuePair {
        &self.pair
    }

    /// Returns whether bytes are registered, so that they can be sent without a registration of
    /// their own.
    #[must_use]
    pub fn reaches(&self, bytes: &[u8]) -> bool {
        self.pair.regions.has(bytes)
    }

    /// Posts receive buffers that are free again.
    ///
    /// # Errors
    /// The device has failed.
    pub fn repost(&mut self) -> Result<(), Error> {
        if !self.received.has_free() {
            return Ok(());
        }
        let free = self.received.take_free();
        let answer = self.pair.post_receives(&free);
        if answer.is_err() {
            self.received.put_back(free);
        }
        answer
    }

    /// Returns whether receive buffers are neither with the device nor free: somebody reads them.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.received.has_handles()
    }

    /// Posts works together. Their payloads and buffers belong to the queue pair until their
    /// completions. The last one has a completion, and each READ and atomic.
    ///
    /// # Errors
    /// The device has failed, or has no room, and the works that were not posted, in order.
    pub fn post(
        &mut self,
        works: impl IntoIterator<Item = Work<P, B>>,
    ) -> Result<(), (Error, Vec<Work<P, B>>)> {
        let before = self.posted.len();
        let mut failed = None;
        let mut works = works.into_iter();
        for work in works.by_ref() {
            if let Err((error, work)) = self.prepare(work) {
                failed = Some((error, work));
                break;
            }
        }
        let answer = self.ring(before);
        let mut rest = Vec::new();
        let error = match answer {
            Ok(()) => failed.map(|(error, work)| {
                rest.push(work);
                error
            }),
            Err((error, posted)) => {
                // The works from the first that was refused on were not posted.
                while self.posted.len() > before + posted {
                    rest.extend(self.posted.pop_back().map(|posted| self.unprepare(posted)));
                }
                rest.reverse();
                if self.posted.len() > before
                    && let Some(last) = self.posted.back_mut()
                {
                    last.ends = true;
                }
                rest.extend(failed.map(|(_, work)| work));
                Some(error)
            }
        };
        match error {
            None => Ok(()),
            Some(error) => {
                rest.extend(works);
                Err((error, rest))
            }
        }
    }

    /// Returns whether FLUSHes can be posted: it was asked for, and device and library have them.
    #[must_use]
    pub fn flushes(&self) -> bool {
        self.pair.raw.flushes.is_some()
    }

    /// Posts a FLUSH behind earlier works, of `length` bytes of the peer's memory. It completes, as
    /// a [`Work::Flush`], once the data of earlier WRITEs there is placed.
    ///
    /// # Errors
    /// The device or library has no FLUSH, the device has failed, or has no room.
    pub fn flush(
        &mut self,
        remote: Remote,
        length: u32,
        placement: Placement,
    ) -> Result<(), Error> {
        let number = self.pair.work_number(self.next_order().bits().into());
        let none = || Error::returned("ibv_wr_flush", libc::EOPNOTSUPP);
        let flushes = self.pair.raw.flushes.as_ref().ok_or_else(none)?;
        // SAFETY: there is something to post by, and so a queue pair, which lives.
        unsafe { flushes.post(number, remote, length, placement) }?;
        let work = Work::Flush { remote, length, placement };
        self.posted.push_back(Posted { work, ends: true, head: None, _key: None });
        Ok(())
    }

    /// Returns the number of the work that is posted next.
    fn next_order(&self) -> WorkOrder {
        let posted = u32::try_from(self.posted.len()).unwrap_or(u32::MAX);
        WorkOrder::from_bits(self.first.bits().wrapping_add(posted))
    }

    /// Makes the work request of a work, and keeps the work.
    fn prepare(&mut self, mut work: Work<P, B>) -> Result<(), (Error, Work<P, B>)> {
        let order = self.next_order();
        // SAFETY: all zeroes are a work request, with null for unused fields.
        let mut request: ibv_send_wr = unsafe { std::mem::zeroed() };
        request.wr_id = self.pair.work_number(order.bits().into());
        let first_part = self.list.parts.len();
        let (mut key, mut head) = (None, None);
        if matches!(work, Work::WriteBehind { .. }) {
            request.send_flags |= ibv_send_flags::IBV_SEND_FENCE.0;
        }
        let prepared = match &mut work {
            Work::Send { head: bytes, length, payload, invalidate } => {
                request.opcode = match invalidate {
                    Some(rkey) => {
                        request.imm_data_invalidated_rkey_union.invalidated_rkey = *rkey;
                        ibv_wr_opcode::IBV_WR_SEND_WITH_INV
                    }
                    None => ibv_wr_opcode::IBV_WR_SEND,
                };
                self.add_send(&mut request, bytes, *length, payload.as_ref(), (&mut key, &mut head))
            }
            Work::Write { payload, remote } | Work::WriteBehind { payload, remote } => {
                request.opcode = ibv_wr_opcode::IBV_WR_RDMA_WRITE;
                request.wr.rdma.remote_addr = remote.address;
                request.wr.rdma.rkey = remote.key;
                self.add_payload(payload.stable_bytes(), &mut key)
            }
            Work::Read { into, remote } => {
                request.opcode = ibv_wr_opcode::IBV_WR_RDMA_READ;
                request.wr.rdma.remote_addr = remote.address;
                request.wr.rdma.rkey = remote.key;
                self.add_buffer(into.stable_bytes_mut(), &mut key)
            }
            Work::FetchAdd { into, remote, add } => {
                request.opcode = ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD;
                request.wr.atomic.remote_addr = remote.address;
                request.wr.atomic.rkey = remote.key;
                request.wr.atomic.compare_add = *add;
                self.add_buffer(into.stable_bytes_mut(), &mut key)
            }
            Work::CompareSwap { into, remote, expect, swap } => {
                request.opcode = ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP;
                request.wr.atomic.remote_addr = remote.address;
                request.wr.atomic.rkey = remote.key;
                request.wr.atomic.compare_add = *expect;
                request.wr.atomic.swap = *swap;
                self.add_buffer(into.stable_bytes_mut(), &mut key)
            }
            Work::Flush { .. } => Err(Error::returned("a FLUSH among other works", libc::EINVAL)),
        };
        if let Err(error) = prepared {
            self.list.parts.truncate(first_part);
            return Err((error, work));
        }
        request.num_sge = i32::try_from(self.list.parts.len() - first_part).unwrap_or(0);
        if work.is_answered() {
            request.send_flags |= ibv_send_flags::IBV_SEND_SIGNALED.0;
        }
        self.list.requests.push(request);
        self.posted.push_back(Posted { work, ends: false, head, _key: key });
        Ok(())
    }

    /// Adds the parts of a SEND.
    fn add_send(
        &mut self,
        request: &mut ibv_send_wr,
        bytes: &[u8; 64],
        length: u8,
        payload: Option<&P>,
        (key, head): (&mut Option<Key>, &mut Option<u16>),
    ) -> Result<(), Error> {
        let length = u32::from(length.min(64));
        match (payload, &mut self.pair.heads) {
            (None, _) if length <= self.pair.inline => {
                request.send_flags |= ibv_send_flags::IBV_SEND_INLINE.0;
                // `ring` knows where the bytes are when all works are in their places.
                self.list.parts.push(ibv_sge { addr: 0, length, lkey: 0 });
                Ok(())
            }
            (payload, Some(heads)) => {
                let none = Error::Limit { what: "SENDs at once", has: 0, wanted: 1 };
                let place = heads.free.pop().ok_or(none)?;
                *head = Some(place);
                let to = heads.memory.buffer(place);
                // SAFETY: the place has 64 bytes, and is nobody else's until the work is over.
                unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), HEAD) };
                let lkey = heads.region.lkey();
                let data = payload.map(Stable::stable_bytes).unwrap_or_default();
                if data.len() <= heads.room() {
                    // SAFETY: behind the first bytes, which are at most 64, there is that much room.
                    let behind = unsafe { to.add(length as usize) };
                    // SAFETY: as above.
                    unsafe { behind.copy_from_nonoverlapping(data.as_ptr(), data.len()) };
                    let length = length.saturating_add(u32::try_from(data.len()).unwrap_or(0));
                    self.list.parts.push(ibv_sge { addr: to as u64, length, lkey });
                    return Ok(());
                }
                self.list.parts.push(ibv_sge { addr: to as u64, length, lkey });
                match payload {
                    Some(payload) => self.add_payload(payload.stable_bytes(), key),
                    None => Ok(()),
                }
            }
            (None, None) => {
                let (has, wanted) = (self.pair.inline.into(), length.into());
                Err(Error::Limit { what: "bytes of inline data", has, wanted })
            }
            (Some(_), None) => Err(Error::Limit { what: "parts of a SEND", has: 1, wanted: 2 }),
        }
    }

    fn add_payload(&mut self, bytes: &[u8], key: &mut Option<Key>) -> Result<(), Error> {
        let address = bytes.as_ptr().cast_mut();
        // SAFETY: the work keeps the payload, whose bytes are stable, until it is over; the device
        // only reads them.
        let region = unsafe { self.pair.regions.key(address, bytes.len(), Access::empty()) }?;
        self.add_part(address, bytes.len(), region, key)
    }

    fn add_buffer(&mut self, bytes: &mut [u8], key: &mut Option<Key>) -> Result<(), Error> {
        let address = bytes.as_mut_ptr();
        // SAFETY: the work keeps the buffer, whose bytes are stable and its own, until it is over.
        let region = unsafe { self.pair.regions.key(address, bytes.len(), Access::LOCAL_WRITE) }?;
        self.add_part(address, bytes.len(), region, key)
    }

    fn add_part(
        &mut self,
        address: *mut u8,
        length: usize,
        region: Key,
        key: &mut Option<Key>,
    ) -> Result<(), Error> {
        let too_long = Error::Limit { what: "bytes", has: u32::MAX.into(), wanted: length as u64 };
        let length = u32::try_from(length).map_err(|_| too_long)?;
        self.list.parts.push(ibv_sge { addr: address as u64, length, lkey: region.lkey() });
        *key = Some(region);
        Ok(())
    }

    /// Posts the work requests of all works behind the first `before` to the device.
    ///
    /// # Errors
    /// The device has refused one of them; with the number of those before it, which are posted.
    fn ring(&mut self, before: usize) -> Result<(), (Error, usize)> {
        let Some(last) = self.list.requests.last_mut() else { return Ok(()) };
        last.send_flags |= ibv_send_flags::IBV_SEND_SIGNALED.0;
        if let Some(last) = self.posted.back_mut() {
            last.ends = true;
        }
        let mut parts = self.list.parts.as_mut_slice();
        let works = self.posted.iter().skip(before);
        for (request, posted) in self.list.requests.iter_mut().zip(works) {
            let count = usize::try_from(request.num_sge).unwrap_or(0);
            let Some((own, rest)) = parts.split_at_mut_checked(count) else { break };
            if let (Work::Send { head, .. }, None, Some(part)) =
                (&posted.work, posted.head, own.first_mut())
            {
                part.addr = head.as_ptr() as u64;
            }
            request.sg_list = own.as_mut_ptr();
            parts = rest;
        }
        let mut next = null_mut();
        for request in self.list.requests.iter_mut().rev() {
            request.next = next;
            next = request;
        }
        let mut bad: *mut ibv_send_wr = null_mut();
        let answer = self.pair.raw.queue().map_err(|error| (error, 0)).and_then(|queue| {
            // SAFETY: the requests and their parts live until the call returns, and inline bytes
            // are copied by it. All other memory that they refer to is registered, and belongs to
            // the posted works until their completions were taken, or the queue pair was destroyed.
            let answer = unsafe { ibv_post_send(queue, next, &raw mut bad) };
            // A provider that names no request has them all in its ring, and could not tell the
            // device (librxe): they are the device's until the queue pair ends.
            let requests = &self.list.requests;
            let refused = requests.iter().position(|one| std::ptr::eq(one, bad));
            Error::check("ibv_post_send", answer)
                .map_err(|error| (error, refused.unwrap_or(requests.len())))
        });
        self.list.requests.clear();
        self.list.parts.clear();
        answer
    }

    fn unprepare(&mut self, Posted { work, head, .. }: Posted<P, B>) -> Work<P, B> {
        if let (Some(heads), Some(place)) = (&mut self.pair.heads, head) {
            heads.free.push(place);
        }
        work
    }

    /// Handles a completion of this queue pair, and passes on the ended works: also the earlier
    /// ones without a completion of their own.
    #[inline]
    pub fn complete(&mut self, completion: Completion, mut done: impl FnMut(Done<P, B>)) {
        let Completion { work, outcome, bytes, .. } = completion;
        if work >> 32 != u64::from(self.pair.generation) {
            return;
        }
        if work & RECEIVE != 0 {
            let index = u16::try_from(work & 0xffff).unwrap_or(u16::MAX);
            if !outcome.is_success() {
                done(Done::Lost(outcome));
            } else if let Some(buffer) = self.received.take(index, bytes) {
                done(Done::Received(buffer));
            }
            return;
        }
        let order = WorkOrder::from_bits(u32::try_from(work & 0x7fff_ffff).unwrap_or(0));
        let count = order.after(self.first) as usize + 1;
        if count > self.posted.len() {
            debug_assert!(false, "a completion of a work that was not posted");
            return;
        }
        // A send queue executes works in order: works before the completed one succeeded, since a failed work always
        // completes with an error.
        for left in (0..count).rev() {
            let Some(posted) = self.posted.pop_front() else { return };
            self.first = self.first.next();
            let ends = posted.ends;
            let outcome = if left == 0 { outcome } else { Outcome::SUCCESS };
            done(Done::Work { work: self.unprepare(posted), outcome, ends });
        }
    }

    /// Returns the number of works that are with the device.
    #[must_use]
    pub fn posted(&self) -> usize {
        self.posted.len()
    }

    /// Ends the queue pair's connection on this side: all works come back flushed.
    ///
    /// # Errors
    /// The device has failed.
    pub fn set_error(&mut self) -> Result<(), Error> {
        // SAFETY: all zeroes are attributes, of which only the state is used.
        let mut attributes: ibv_qp_attr = unsafe { std::mem::zeroed() };
        attributes.qp_state = ibv_qp_state::IBV_QPS_ERR;
        let mask = ibv_qp_attr_mask::IBV_QP_STATE.0.cast_signed();
        let queue = self.pair.raw.queue()?;
        // SAFETY: the queue pair lives.
        let answer = unsafe { ibv_modify_qp(queue, &raw mut attributes, mask) };
        Error::check("ibv_modify_qp", answer)
    }

    /// Destroys the queue pair of a removed device, which may owe completions for ever. Returns
    /// them, to be handled like the device's own: all outstanding works come back flushed.
    /// Completions that were not taken from the device are void, and nothing more can be posted.
    #[must_use]
    pub fn give_up(&mut self) -> Vec<Completion> {
        let pair = &mut self.pair;
        pair.raw.destroy();
        pair.generation = GENERATIONS.fetch_add(1, Ordering::Relaxed);
        let mut owed = Vec::with_capacity(self.posted.len());
        let mut order = self.first;
        for _ in &self.posted {
            owed.push(Completion {
                work: pair.work_number(order.bits().into()),
                queue_pair: pair.number,
                outcome: Outcome::FLUSHED,
                bytes: 0,
            });
            order = order.next();
        }
        owed
    }

    /// Ends the use of the queue pair on this thread, so that another one may drop it. Receive
    /// buffers that are in use stay valid.
    ///
    /// # Errors
    /// Works are with the device: the queue pair comes back.
    #[expect(clippy::result_large_err, reason = "the queue pair comes back")]
    pub fn retire(self) -> Result<QueuePair, Self> {
        if self.posted.is_empty() { Ok(self.pair) } else { Err(self) }
    }

    /// Destroys the queue pair, and gives back all works that were with the device: it reaches
    /// nothing of theirs any more.
    #[must_use]
    pub fn destroy(self) -> Vec<Work<P, B>> {
        let Self { pair, posted, .. } = self;
        drop(pair);
        posted.into_iter().map(|posted| posted.work).collect()
    }
}
