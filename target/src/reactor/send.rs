//! Sending: one gathered send in flight for each socket, so that the stream keeps its order.

use std::os::fd::RawFd;

use fabric::tcp::{Payload, Tx};

use super::ring::Ring;

/// Runs in one send: the kernel's limit (UIO_MAXIOV).
const RUNS_MAX: usize = 1024;

/// The memory that a send in flight refers to. The boxes stay where they are when the connection
/// moves.
#[derive(Default)]
pub(super) struct SendState {
    header: Option<Box<libc::msghdr>>,
    runs: Vec<libc::iovec>,
    active: bool,
}

// SAFETY: the pointers in `header` and `runs` are only ever read by the kernel, during a send
// that ends before they are changed; a connection stays on its reactor's thread.
unsafe impl Send for SendState {}

impl SendState {
    /// Whether a send is in the ring.
    pub(super) fn active(&self) -> bool {
        self.active
    }

    /// The send has completed.
    pub(super) fn ended(&mut self) {
        self.active = false;
    }

    /// Submits the batch in flight (or makes one of what is queued), unless a send is in the ring.
    #[inline]
    pub(super) fn start<P: Payload>(
        &mut self,
        tx: &mut Tx<P>,
        socket: RawFd,
        tag: u64,
        ring: &mut Ring,
    ) {
        if self.active || (!tx.in_flight() && !tx.begin()) {
            return;
        }
        self.runs.clear();
        self.runs.extend(tx.slices().take(RUNS_MAX).map(|run| libc::iovec {
            iov_base: run.as_ptr().cast_mut().cast(),
            iov_len: run.len(),
        }));
        let header = self.header.get_or_insert_with(|| {
            // SAFETY: all zeroes is a valid msghdr: no name, no runs, no control data.
            Box::new(unsafe { std::mem::zeroed() })
        });
        header.msg_iov = self.runs.as_mut_ptr();
        header.msg_iovlen = self.runs.len();
        // SAFETY: the header is boxed, the runs' vector and the batch they point to are not
        // touched while `active` is set, and the connection that owns all three is not dropped
        // before the send has completed.
        unsafe { ring.send(socket, &raw const **header, tag) };
        self.active = true;
    }
}

impl std::fmt::Debug for SendState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SendState {{ active: {}, runs: {} }}", self.active, self.runs.len())
    }
}
