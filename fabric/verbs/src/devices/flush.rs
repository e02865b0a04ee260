//! RDMA FLUSH (InfiniBand specification, annex A19): an operation that completes once the data of
//! earlier WRITEs is placed in the peer's memory.
//!
//! Few devices support it, and libraries only if they are newer than the version that this module may have been built
//! with (Debian 12's have none, Debian 13's do). So this module defines its numbers and the place of its function; a
//! queue pair that was made with [`SEND_OPERATION`] has that function.

use std::mem::offset_of;
use std::ptr::NonNull;

use fabric::queue::Remote;
use fabric::rdma::placement::Placement;
use rdma_sys::{
    ibv_pd, ibv_qp_ex, ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_qp_init_attr_mask,
    ibv_qp_to_qp_ex, ibv_send_flags, rdma_cm_id, rdma_create_qp_ex,
};

use crate::error::Error;

/// Returns the placement types of a FLUSH: bit 0 global, bit 1 persistent (`enum ibv_placement_type`).
const fn types(placement: Placement) -> u8 {
    match placement {
        Placement::Global => 1,
        Placement::Persistent => 3,
    }
}

/// Finds the best placement that a device can answer with, by its extended capabilities: bit 38 global,
/// bit 39 persistent (`device_cap_flags_ex`).
pub(super) const fn of_device(capabilities: u64) -> Option<Placement> {
    match capabilities >> 38 & 3 {
        3 => Some(Placement::Persistent),
        1 => Some(Placement::Global),
        _ => None,
    }
}

/// The operation in the set that a queue pair is made for (`IBV_QP_EX_WITH_FLUSH`).
const SEND_OPERATION: u64 = 1 << 11;
/// How much of a registration is flushed: the bytes that are named (`IBV_FLUSH_RANGE`).
const RANGE: u8 = 0;

/// `wr_flush` of `struct ibv_qp_ex`: queue pair, key, address, length, placement types, selectivity.
type Post = unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, usize, u8, u8);

/// The place of `wr_flush`: behind `wr_abort` and `wr_atomic_write`.
const POST: usize = offset_of!(ibv_qp_ex, wr_abort) + 2 * size_of::<Option<Post>>();

/// The function that posts FLUSHes on one queue pair, which must outlive this value.
#[derive(Debug)]
pub(super) struct Flushes {
    pair: NonNull<ibv_qp_ex>,
    post: Post,
}

// SAFETY: verbs may be called by all threads.
unsafe impl Send for Flushes {}

impl Flushes {
    /// Creates the queue pair of an identifier with support for FLUSH; `None` if the library or the
    /// driver cannot, and there is no queue pair then. The device's actual sizes are written to
    /// `attributes`.
    ///
    /// # Safety
    /// The identifier has a device and no queue pair. Identifier, domain and the objects named by
    /// the attributes outlive the queue pair.
    pub(super) unsafe fn create(
        id: *mut rdma_cm_id,
        domain: *mut ibv_pd,
        attributes: &mut ibv_qp_init_attr,
    ) -> Option<Self> {
        // SAFETY: all zeroes are attributes, with null for unused ones.
        let mut all: ibv_qp_init_attr_ex = unsafe { std::mem::zeroed() };
        all.send_cq = attributes.send_cq;
        all.recv_cq = attributes.recv_cq;
        all.qp_type = attributes.qp_type;
        all.cap = attributes.cap;
        all.pd = domain;
        all.comp_mask = ibv_qp_init_attr_mask::IBV_QP_INIT_ATTR_PD.0
            | ibv_qp_init_attr_mask::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS.0;
        all.send_ops_flags = SEND_OPERATION;
        // SAFETY: the caller vouches for identifier and attributes.
        if unsafe { rdma_create_qp_ex(id, &raw mut all) } != 0 {
            return None;
        }
        attributes.cap = all.cap;
        // SAFETY: the call has made the identifier's queue pair, with functions for its operations:
        // so it is an extended one, and has all functions up to FLUSH.
        unsafe {
            let pair = NonNull::new(ibv_qp_to_qp_ex((*id).qp));
            let post = pair.and_then(|pair| pair.byte_add(POST).cast::<Option<Post>>().read());
            if let (Some(pair), Some(post)) = (pair, post) {
                return Some(Self { pair, post });
            }
            rdma_sys::rdma_destroy_qp(id);
            (*id).qp = std::ptr::null_mut();
        }
        None
    }

    /// Posts a FLUSH of `length` bytes, to be completed with this number.
    ///
    /// # Safety
    /// The queue pair lives.
    ///
    /// # Errors
    /// The device has failed, or has no room.
    pub(super) unsafe fn post(
        &self,
        number: u64,
        remote: Remote,
        length: u32,
        placement: Placement,
    ) -> Result<(), Error> {
        const CALL: &str = "ibv_wr_flush";
        let pair = self.pair.as_ptr();
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        // SAFETY: the caller vouches for the queue pair, whose functions these are. Between start and
        // completion nothing else is posted: both are calls of this thread, and the list is the driver's.
        let answer = unsafe {
            let none = || Error::returned(CALL, libc::EOPNOTSUPP);
            let start = (*pair).wr_start.ok_or_else(none)?;
            let complete = (*pair).wr_complete.ok_or_else(none)?;
            start(pair);
            (*pair).wr_id = number;
            (*pair).wr_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
            (self.post)(pair, remote.key, remote.address, length, types(placement), RANGE);
            complete(pair)
        };
        Error::check(CALL, answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flush_without_visibility_is_unsupported() {
        let of = |bits: u64| of_device(bits << 38);
        assert_eq!(of(0), None);
        assert_eq!(of(1), Some(Placement::Global));
        assert_eq!(of(2), None, "what is persistent and seen by nobody is of no use");
        assert_eq!(of(3), Some(Placement::Persistent));
        assert_eq!(of(4 | 1), Some(Placement::Global), "other bits are others'");
        assert_eq!(of_device(u64::MAX >> 26), None);
    }

    #[test]
    fn the_function_lies_where_the_library_has_it() {
        // verbs.h of rdma-core 56 has 22 functions: `wr_abort` is the 20th, `wr_flush` the last.
        let first = offset_of!(ibv_qp_ex, wr_atomic_cmp_swp);
        assert_eq!(offset_of!(ibv_qp_ex, wr_abort), first + 19 * 8);
        assert_eq!(POST, first + 21 * 8);
        assert_eq!(offset_of!(ibv_qp_ex, qp_base), 0);
    }
}
