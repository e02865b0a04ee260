//! Completion queues.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use rdma_sys::{
    ibv_ack_cq_events, ibv_comp_channel, ibv_cq, ibv_create_comp_channel, ibv_create_cq,
    ibv_destroy_comp_channel, ibv_destroy_cq, ibv_get_cq_event, ibv_poll_cq, ibv_req_notify_cq,
    ibv_wc, ibv_wc_status, ibv_wc_status_str,
};

use super::device::Device;
use crate::error::{Error, has_ended};

/// Number of completions that are taken from a queue at a time.
const BATCH: u16 = 32;

/// The end of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome(ibv_wc_status::Type);

impl Outcome {
    /// The outcome of a work request that was carried out.
    pub const SUCCESS: Self = Self(ibv_wc_status::IBV_WC_SUCCESS);

    /// The outcome of a work request that was not carried out because its queue pair was in error.
    pub(super) const FLUSHED: Self = Self(ibv_wc_status::IBV_WC_WR_FLUSH_ERR);

    /// Makes the outcome of a status.
    #[cfg(test)]
    pub(super) fn from_status(status: ibv_wc_status::Type) -> Self {
        Self(status)
    }

    /// Returns whether the work request was carried out.
    #[inline]
    #[must_use]
    pub fn is_success(self) -> bool {
        self.0 == ibv_wc_status::IBV_WC_SUCCESS
    }

    /// Returns whether the work request was not carried out because the queue pair was in error
    /// already.
    #[must_use]
    pub fn is_flushed(self) -> bool {
        self == Self::FLUSHED
    }

    /// Returns whether the peer's memory did not allow the access.
    #[must_use]
    pub fn is_remote_access(self) -> bool {
        matches!(
            self.0,
            ibv_wc_status::IBV_WC_REM_ACCESS_ERR | ibv_wc_status::IBV_WC_REM_INV_REQ_ERR
        )
    }

    /// Returns whether the peer has not answered, however often the work request was sent.
    #[must_use]
    pub fn is_unanswered(self) -> bool {
        self.0 == ibv_wc_status::IBV_WC_RETRY_EXC_ERR
    }

    /// Returns the outcome in words.
    #[must_use]
    pub fn text(self) -> &'static str {
        // SAFETY: the function answers a static string for any number.
        let text = unsafe { CStr::from_ptr(ibv_wc_status_str(self.0)) };
        text.to_str().unwrap_or("unknown")
    }
}

/// A completion. It is taken by the queue pair whose work request it is of.
#[derive(Debug)]
pub struct Completion {
    pub(super) work: u64,
    pub(super) queue_pair: u32,
    pub(super) outcome: Outcome,
    /// Bytes that were received.
    pub(super) bytes: u32,
}

impl Completion {
    /// Returns the number of the queue pair.
    #[inline]
    #[must_use]
    pub fn queue_pair(&self) -> u32 {
        self.queue_pair
    }

    /// Returns the outcome.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }
}

#[derive(Debug)]
struct Channel {
    raw: NonNull<ibv_comp_channel>,
    _device: Device,
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: the completion queue of the channel is gone. The device is open.
        unsafe { ibv_destroy_comp_channel(self.raw.as_ptr()) };
    }
}

/// The shared queue behind all handles.
#[derive(Debug)]
pub(super) struct RawQueue {
    raw: NonNull<ibv_cq>,
    channel: Channel,
    capacity: u32,
}

// SAFETY: verbs may be called by all threads.
unsafe impl Send for RawQueue {}
// SAFETY: as for `Send`.
unsafe impl Sync for RawQueue {}

impl RawQueue {
    pub(super) fn raw(&self) -> *mut ibv_cq {
        self.raw.as_ptr()
    }
}

impl Drop for RawQueue {
    fn drop(&mut self) {
        // SAFETY: queue pairs hold the queue, so none is left; all events were acknowledged.
        let answer = unsafe { ibv_destroy_cq(self.raw.as_ptr()) };
        debug_assert!(has_ended(answer), "nothing uses the completion queue");
    }
}

/// A completion queue with a descriptor of its own to wait on.
#[derive(Debug)]
pub struct CompletionQueue(Arc<RawQueue>);

impl CompletionQueue {
    /// Makes a queue with room for at least `capacity` completions.
    ///
    /// # Errors
    /// The device does not allow so many, or has no room.
    pub fn new(device: &Device, capacity: u32) -> Result<Self, Error> {
        // SAFETY: the device is open.
        let channel = unsafe { ibv_create_comp_channel(device.raw()) };
        let channel =
            NonNull::new(channel).ok_or_else(|| Error::last("ibv_create_comp_channel"))?;
        let channel = Channel { raw: channel, _device: device.clone() };
        // SAFETY: the channel is open, so its descriptor is.
        let fd = unsafe { BorrowedFd::borrow_raw((*channel.raw.as_ptr()).fd) };
        super::connection::set_non_blocking(fd)?;
        let wanted = i32::try_from(capacity).unwrap_or(i32::MAX);
        // SAFETY: device and channel are open, and live as long as the queue.
        let raw =
            unsafe { ibv_create_cq(device.raw(), wanted, null_mut(), channel.raw.as_ptr(), 0) };
        let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_create_cq"))?;
        // SAFETY: the call has made the queue.
        let capacity = u32::try_from(unsafe { (*raw.as_ptr()).cqe }).unwrap_or(capacity);
        Ok(Self(Arc::new(RawQueue { raw, channel, capacity })))
    }

    /// Returns how many completions the queue has room for.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.0.capacity
    }

    /// Returns another handle to the queue, for making queue pairs on it. Completions are taken by
    /// one handle.
    #[must_use]
    pub fn share(&self) -> Self {
        Self(Arc::clone(&self.0))
    }

    pub(super) fn shared(&self) -> Arc<RawQueue> {
        Arc::clone(&self.0)
    }

    /// Polls up to 32 completions. Returns whether there may be more.
    ///
    /// # Errors
    /// The device has failed.
    #[inline]
    pub fn poll(&mut self, into: &mut Vec<Completion>) -> Result<bool, Error> {
        // SAFETY: all zeroes are completions, of plain numbers.
        let mut taken: [ibv_wc; BATCH as usize] = unsafe { std::mem::zeroed() };
        // SAFETY: the queue lives, and there is room for as many completions as are asked for.
        let count = unsafe { ibv_poll_cq(self.0.raw(), BATCH.into(), taken.as_mut_ptr()) };
        let Ok(count) = usize::try_from(count) else {
            return Err(Error::returned("ibv_poll_cq", count));
        };
        into.extend(taken.iter().take(count).map(|one| Completion {
            work: one.wr_id,
            queue_pair: one.qp_num,
            outcome: Outcome(one.status),
            bytes: one.byte_len,
        }));
        Ok(count == usize::from(BATCH))
    }

    /// Makes the descriptor readable when the next completion arrives. An earlier completion does
    /// not count: poll once more.
    ///
    /// # Errors
    /// The device has failed.
    pub fn arm(&mut self) -> Result<(), Error> {
        // SAFETY: the queue lives.
        Error::check("ibv_req_notify_cq", unsafe { ibv_req_notify_cq(self.0.raw(), 0) })
    }

    /// Consumes the events that made the descriptor readable.
    pub fn take_events(&mut self) {
        let (mut queue, mut context) = (null_mut(), null_mut());
        let channel = self.0.channel.raw.as_ptr();
        // SAFETY: the channel is open and does not block; each event is acknowledged once, on the
        // channel's only queue.
        unsafe {
            while ibv_get_cq_event(channel, &raw mut queue, &raw mut context) == 0 {
                ibv_ack_cq_events(queue, 1);
            }
        }
    }
}

impl AsFd for CompletionQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel is open as long as the queue lives.
        unsafe { BorrowedFd::borrow_raw((*self.0.channel.raw.as_ptr()).fd) }
    }
}
