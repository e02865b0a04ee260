//! Sending: one gathered send in flight for each socket, so that the stream keeps its order.

use std::os::fd::RawFd;

use fabric::tcp::Batch;
use sluice_core::TxData;

use super::pool::Buffer;
use super::ring::Ring;

/// Largest number of runs in one send: the kernel's limit (UIO_MAXIOV).
const RUNS_MAX: usize = 1024;

/// A KeyUpdate (RFC 8446, section 4.6.3): it answers one, and asks for none.
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

/// The control message with a record's type: a handshake message.
#[repr(C)]
struct RecordType {
    header: libc::cmsghdr,
    kind: u8,
}

impl RecordType {
    const HANDSHAKE: u8 = 22;

    fn handshake() -> Self {
        // The length without padding for alignment, as the kernel wants it.
        let length = std::mem::offset_of!(Self, kind) + 1;
        let (cmsg_level, cmsg_type) = (libc::SOL_TLS, libc::TLS_SET_RECORD_TYPE);
        let header = libc::cmsghdr { cmsg_len: length, cmsg_level, cmsg_type };
        Self { header, kind: Self::HANDSHAKE }
    }
}

/// A KeyUpdate that goes before the next data, and the kernel's description of it.
struct KeyUpdate {
    message: [u8; KEY_UPDATE.len()],
    kind: RecordType,
    run: libc::iovec,
    header: libc::msghdr,
    /// Whether it is in the ring.
    flying: bool,
}

impl KeyUpdate {
    fn new() -> Box<Self> {
        // SAFETY: all zeroes is a valid msghdr: no name, no runs, no control data.
        let header = unsafe { std::mem::zeroed() };
        let run = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: KEY_UPDATE.len() };
        let kind = RecordType::handshake();
        Box::new(Self { message: KEY_UPDATE, kind, run, header, flying: false })
    }

    /// Points the description to its parts, which move no more.
    fn describe(&mut self) -> *const libc::msghdr {
        self.flying = true;
        self.run.iov_base = self.message.as_mut_ptr().cast();
        self.header.msg_iov = &raw mut self.run;
        self.header.msg_iovlen = 1;
        self.header.msg_control = (&raw mut self.kind).cast();
        self.header.msg_controllen = size_of::<RecordType>();
        &raw const self.header
    }
}

/// The send of one socket: the batch, and the kernel's description of the batch. The bytes stay
/// where they are when this value moves.
#[derive(Default)]
pub(super) struct Sending {
    batch: Option<Batch<TxData<Buffer>>>,
    header: Option<Box<libc::msghdr>>,
    runs: Vec<libc::iovec>,
    /// Whether the kernel may send a part: over TLS it takes no MSG_WAITALL.
    parts: bool,
    /// The KeyUpdate that goes before the next data.
    key_update: Option<Box<KeyUpdate>>,
}

// SAFETY: the pointers in `header`, `runs` and `key_update` are only ever read by the kernel, during a send
// that ends before they are changed; a socket stays on its reactor's thread.
unsafe impl Send for Sending {}

impl Sending {
    /// Has each send take what fits into the socket, and the rest go with another one.
    pub(super) fn send_what_fits(&mut self) {
        self.parts = true;
    }

    /// Puts a KeyUpdate before the next data, and before the rest of a batch. A KeyUpdate that waits already
    /// answers this request too.
    pub(super) fn change_key(&mut self) {
        self.key_update.get_or_insert_with(KeyUpdate::new);
    }

    /// Takes the completion of a KeyUpdate with `result`, bytes or a negated errno. Returns whether it was sent;
    /// `None` if a send of the batch has completed.
    pub(super) fn key_changed(&mut self, result: i32) -> Option<bool> {
        self.key_update.take_if(|update| update.flying)?;
        Some(usize::try_from(result) == Ok(KEY_UPDATE.len()))
    }

    /// Sends no more of the batch, of which nothing is in the ring. Returns it.
    pub(super) fn give_up(&mut self) -> Option<Batch<TxData<Buffer>>> {
        self.batch.take()
    }

    /// Sends a batch. There must be none in flight.
    #[inline]
    pub(super) fn start(
        &mut self,
        batch: Batch<TxData<Buffer>>,
        socket: RawFd,
        tag: u64,
        ring: &mut Ring,
    ) {
        debug_assert!(self.batch.is_none(), "one send at a time");
        self.batch = Some(batch);
        self.submit(socket, tag, ring);
    }

    /// Submits the rest of the batch, or the KeyUpdate that goes before it.
    pub(super) fn submit(&mut self, socket: RawFd, tag: u64, ring: &mut Ring) {
        let Some(batch) = &self.batch else {
            debug_assert!(false, "what is submitted is left of a batch");
            return;
        };
        if let Some(update) = &mut self.key_update {
            // SAFETY: the update is boxed, and neither changed nor dropped before the send has
            // completed: `key_changed` is called then, and `drop` leaks it where it was not.
            return unsafe { ring.send(socket, update.describe(), false, tag) };
        }
        self.runs.clear();
        let runs = batch.slices().take(RUNS_MAX).map(|run| libc::iovec {
            iov_base: run.as_ptr().cast_mut().cast(),
            iov_len: run.len(),
        });
        // `extend` would ask for one after the other, at more than twice the cost.
        runs.for_each(|run| self.runs.push(run));
        let header = self.header.get_or_insert_with(|| {
            // SAFETY: all zeroes is a valid msghdr: no name, no runs, no control data.
            Box::new(unsafe { std::mem::zeroed() })
        });
        header.msg_iov = self.runs.as_mut_ptr();
        header.msg_iovlen = self.runs.len();
        // SAFETY: the header is boxed; the runs and the batch that they point to are neither
        // changed nor dropped before the send has completed: `ended` is called then, and `drop`
        // leaks them where it was not.
        unsafe { ring.send(socket, &raw const **header, !self.parts, tag) };
    }

    /// Takes the completion of a send with `result`, bytes or a negated errno. Returns the batch,
    /// if it is over: all was sent, or nothing more can be.
    pub(super) fn ended(
        &mut self,
        result: i32,
        socket: RawFd,
        tag: u64,
        ring: &mut Ring,
    ) -> Option<Batch<TxData<Buffer>>> {
        debug_assert!(self.batch.is_some(), "only a send that was started ends");
        let batch = self.batch.as_mut()?;
        match usize::try_from(result) {
            Ok(bytes) if !batch.advance(bytes) => {
                self.submit(socket, tag, ring);
                None
            }
            _ => self.batch.take(),
        }
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        debug_assert!(self.batch.is_none(), "dropped during a send");
        if let Some(batch) = self.batch.take() {
            // The kernel may still read them.
            std::mem::forget((batch, self.header.take(), std::mem::take(&mut self.runs)));
            std::mem::forget(self.key_update.take());
        }
    }
}

impl std::fmt::Debug for Sending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sending {{ active: {}, runs: {} }}", self.batch.is_some(), self.runs.len())
    }
}
