//! Verbs that came later, which a device's driver may lack.
//!
//! The context of an open device is the last part of a `verbs_context`, which has grown at its front:
//! its `sz` says how much of it is there (verbs.h). The crate's own functions for these verbs take no
//! context of a machine with 64 bits for an extended one.

use std::mem::offset_of;
use std::ptr::NonNull;

use rdma_sys::{ibv_context, verbs_context};

/// Finds the extended context of a device, if it has all from the field at this offset on.
///
/// # Safety
/// The context is open.
pub(super) unsafe fn extended_from(
    context: NonNull<ibv_context>,
    offset: usize,
) -> Option<NonNull<verbs_context>> {
    // SAFETY: the caller vouches for the context. One whose `abi_compat` has all bits set is the last
    // part of a `verbs_context`, of which the `sz` bytes up to its end are there.
    unsafe {
        if (*context.as_ptr()).abi_compat as usize != usize::MAX {
            return None;
        }
        let whole = context.byte_sub(offset_of!(verbs_context, context)).cast::<verbs_context>();
        let from_there = size_of::<verbs_context>().checked_sub(offset)?;
        ((*whole.as_ptr()).sz >= from_there).then_some(whole)
    }
}

/// Returns a later verb of an open device, if its driver has it: `later_verb!(context, query_device_ex)`.
/// Unsafe: the context is open.
macro_rules! later_verb {
    ($context:expr, $verb:ident) => {{
        let offset = std::mem::offset_of!(rdma_sys::verbs_context, $verb);
        $crate::devices::extended::extended_from($context, offset)
            .and_then(|whole| (*whole.as_ptr()).$verb)
    }};
}

pub(super) use later_verb;
