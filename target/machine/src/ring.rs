//! The set-up of an io_uring with the features that the daemon's reactors need.

use io_uring::{IoUring, Probe, cqueue, opcode, squeue};

use crate::ring_error::RingError;

/// A ring with 128-byte submission and 32-byte completion entries.
pub type WideRing = IoUring<squeue::Entry128, cqueue::Entry32>;

/// Operations that the kernel must have, and their names.
const REQUIRED: [(u8, &str); 11] = [
    (opcode::Accept::CODE, "ACCEPT"),
    (opcode::RecvMulti::CODE, "RECV"),
    (opcode::RecvMsg::CODE, "RECVMSG"),
    (opcode::SendMsg::CODE, "SENDMSG"),
    (opcode::AsyncCancel::CODE, "ASYNC_CANCEL"),
    (opcode::PollAdd::CODE, "POLL_ADD"),
    (opcode::Read::CODE, "READ"),
    (opcode::Write::CODE, "WRITE"),
    (opcode::Fsync::CODE, "FSYNC"),
    (opcode::Fallocate::CODE, "FALLOCATE"),
    (opcode::Close::CODE, "CLOSE"),
];

/// Makes a ring with `entries` submission entries and four times as many completion entries. Only the
/// calling thread may submit.
///
/// # Errors
/// The kernel lacks io_uring or a part of it, or this process may not use it. The message names the remedy.
pub fn set_up(entries: u32) -> Result<WideRing, RingError> {
    let ring = WideRing::builder()
        .setup_cqsize(entries.saturating_mul(4))
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .setup_submit_all()
        .build(entries)
        .map_err(RingError::Setup)?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).map_err(RingError::Setup)?;
    match REQUIRED.iter().find(|(code, _)| !probe.is_supported(*code)) {
        Some((_, name)) => Err(RingError::Missing(name)),
        None => Ok(ring),
    }
}

/// Returns whether the kernel has NVMe passthrough (URING_CMD).
#[must_use]
pub fn has_passthrough(ring: &WideRing) -> bool {
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).is_ok()
        && probe.is_supported(opcode::UringCmd80::CODE)
}

/// The result of setting up a small ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trial {
    /// This process can use io_uring.
    Usable {
        /// Whether the kernel has NVMe passthrough.
        passthrough: bool,
    },
    /// There is no ring.
    Refused {
        /// The cause and the remedy, in a sentence.
        why: String,
        /// A command that removes the cause, if there is one.
        remedy: Option<&'static str>,
    },
}

impl Trial {
    /// Sets up a ring in this process, and closes it.
    #[must_use]
    pub fn run() -> Self {
        match set_up(8) {
            Ok(ring) => Self::Usable { passthrough: has_passthrough(&ring) },
            Err(error) => Self::Refused { why: error.to_string(), remedy: error.remedy() },
        }
    }
}
