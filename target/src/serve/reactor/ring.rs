//! One io_uring for each reactor: set-up, submission, completions, and the receive buffers that
//! the kernel picks from.
//!
//! The ring has 128-byte submission and 32-byte completion entries, so that NVMe passthrough,
//! files and sockets share it and one wait covers them all. It is created on the thread that uses
//! it (SINGLE_ISSUER, DEFER_TASKRUN).

use std::collections::VecDeque;
use std::io;
use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use crate::sys::mapping::Mapping;
use io_uring::types::{BufRingEntry, CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{cqueue, opcode, squeue};
use sluice_machine::ring::{self, WideRing};
use sluice_machine::ring_error::RingError;

/// Longest wait in which more completions than one are waited for.
const SEND_WAIT: Duration = Duration::from_millis(1);

/// Buffer group of the receive buffers.
const RECV_GROUP: u16 = 0;

/// One completion.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// What the submission carried.
    pub user_data: u64,
    /// Bytes or 0 on success, a negated errno, or for passthrough an NVMe status above 0.
    pub result: i32,
    /// Completion flags.
    pub flags: u32,
    /// The first extra quadword: for passthrough the command's result.
    pub extra: u64,
}

impl Completion {
    /// Says whether a multishot operation goes on.
    #[must_use]
    pub fn more(&self) -> bool {
        cqueue::more(self.flags)
    }

    /// Says whether a receive has left something in its socket, as far as the kernel says.
    #[must_use]
    pub fn left_more(&self) -> bool {
        cqueue::sock_nonempty(self.flags)
    }

    /// Returns the receive buffer that holds the data.
    #[must_use]
    pub fn buffer(&self) -> Option<u16> {
        cqueue::buffer_select(self.flags)
    }
}

/// A reactor's ring.
pub struct Ring {
    ring: WideRing,
    /// Entries that found the submission queue full.
    backlog: VecDeque<squeue::Entry128>,
    /// System calls that were made for the ring.
    calls: u64,
    /// Sends queued since the last system call, and sends in flight before it.
    sends_queued: usize,
    sends_flying: usize,
    /// Sockets that are being closed.
    closing: usize,
    /// Keeps the receive buffers' memory until the ring is gone.
    _memory: Rc<RecvMemory>,
}

/// The sizes of a ring.
#[derive(Clone, Copy, Debug)]
pub struct RingSize {
    /// Submission queue entries.
    pub entries: u32,
    /// Number of receive buffers, a power of two.
    pub buffers: u16,
    /// Bytes of each receive buffer.
    pub buffer_bytes: usize,
}

impl Ring {
    /// Makes the calling thread's ring, and the buffers it receives into.
    ///
    /// # Errors
    /// The kernel lacks io_uring or a part of it; the message says what to do.
    pub fn new(size: RingSize) -> Result<(Self, RecvBuffers), RingError> {
        let ring = ring::set_up(size.entries)?;
        let buffers = RecvBuffers::new(&ring, size).map_err(RingError::Buffers)?;
        let memory = Rc::clone(&buffers.memory);
        Ok((
            Self {
                ring,
                backlog: VecDeque::new(),
                calls: 0,
                sends_queued: 0,
                sends_flying: 0,
                closing: 0,
                _memory: memory,
            },
            buffers,
        ))
    }

    /// Lets the kernel's worker threads of this ring run on these CPUs. They inherit the pinning
    /// of the thread that made the ring, and would wait for it to stop polling.
    ///
    /// # Errors
    /// None of the CPUs is there.
    pub fn let_workers_run_on(&self, cpus: &[usize]) -> io::Result<()> {
        // SAFETY: all zeroes is a valid, empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        let most = 8 * size_of::<libc::cpu_set_t>();
        for &cpu in cpus.iter().filter(|&&cpu| cpu < most) {
            // SAFETY: `cpu` is a bit of the set.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
        self.ring.submitter().register_iowq_aff(&set)
    }

    /// Says whether this kernel has NVMe passthrough (URING_CMD) at all.
    #[must_use]
    pub fn has_passthrough(&self) -> bool {
        ring::has_passthrough(&self.ring)
    }

    /// Makes room for this many registered buffers.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn make_room_for_buffers(&self, count: u16) -> io::Result<()> {
        self.ring.submitter().register_buffers_sparse(count.into())
    }

    /// Registers memory as a buffer: its pages stay where they are until the ring is gone.
    ///
    /// # Errors
    /// The kernel refuses: there is no room, or more memory would be locked than is allowed.
    pub fn register(&self, place: u16, start: *mut u8, length: usize) -> io::Result<()> {
        let buffer = libc::iovec { iov_base: start.cast(), iov_len: length };
        // SAFETY: the kernel takes the pages that are there now, and keeps them even if they are
        // unmapped: whoever submits an entry that uses the buffer vouches for its memory.
        unsafe { self.ring.submitter().register_buffers_update(place.into(), &[buffer], None) }
    }

    /// Accepts one connection; the completion's result is its socket.
    pub fn accept(&mut self, listener: RawFd, user_data: u64) {
        let (nobody, no_length) = (std::ptr::null_mut(), std::ptr::null_mut());
        let entry = opcode::Accept::new(Fd(listener), nobody, no_length);
        let entry = entry.flags(libc::SOCK_CLOEXEC).build();
        // SAFETY: the entry refers to no memory of ours.
        unsafe { self.push(entry.user_data(user_data).into()) };
    }

    /// Closes a socket on a worker thread of the kernel: to end a TCP connection takes as long as
    /// several small commands. [`Self::closed`] notes its completion.
    pub fn close(&mut self, socket: OwnedFd, user_data: u64) {
        let entry = opcode::Close::new(Fd(socket.into_raw_fd())).build();
        let entry = entry.flags(squeue::Flags::ASYNC).user_data(user_data);
        self.closing += 1;
        // SAFETY: the entry refers to no memory of ours, and nobody else has the descriptor.
        unsafe { self.push(entry.into()) };
    }

    /// Completes with result 0 in the next turn, without doing anything.
    pub fn complete_nothing(&mut self, user_data: u64) {
        let entry = opcode::Nop::new().build();
        // SAFETY: the entry refers to no memory.
        unsafe { self.push(entry.user_data(user_data).into()) };
    }

    /// Notes that a socket is closed.
    pub fn closed(&mut self) {
        self.closing = self.closing.saturating_sub(1);
    }

    /// Says whether sockets are being closed.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.closing > 0
    }

    /// Receives until cancelled or out of buffers; each completion names a buffer.
    pub fn receive(&mut self, socket: RawFd, user_data: u64) {
        let entry = opcode::RecvMulti::new(Fd(socket), RECV_GROUP).build();
        // SAFETY: the kernel writes to the ring's own registered buffers only.
        unsafe { self.push(entry.user_data(user_data).into()) };
    }

    /// Receives once; its completion names a buffer, if there was one.
    pub fn receive_chunk(&mut self, socket: RawFd, user_data: u64) {
        // The length is the buffer's.
        let entry = opcode::Recv::new(Fd(socket), std::ptr::null_mut(), 0).buf_group(RECV_GROUP);
        let entry = entry.build().flags(squeue::Flags::BUFFER_SELECT);
        // SAFETY: the kernel writes to the ring's own registered buffers only.
        unsafe { self.push(entry.user_data(user_data).into()) };
    }

    /// Receives a message once; with `wait`, the socket is known to be empty, and is not tried
    /// before something has come.
    ///
    /// # Safety
    /// As [`Self::push`]: `message` and all it refers to.
    pub unsafe fn receive_message(
        &mut self,
        socket: RawFd,
        message: *mut libc::msghdr,
        wait: bool,
        user_data: u64,
    ) {
        /// The flag IORING_RECVSEND_POLL_FIRST.
        const POLL_FIRST: u16 = 1;
        let entry = opcode::RecvMsg::new(Fd(socket), message);
        let entry = entry.ioprio(if wait { POLL_FIRST } else { 0 }).build();
        // SAFETY: the caller vouches for the message.
        unsafe { self.push(entry.user_data(user_data).into()) };
    }

    /// Waits for a file descriptor to become readable, again and again.
    pub fn watch(&mut self, fd: RawFd, user_data: u64) {
        let flags = u32::from(libc::POLLIN.unsigned_abs());
        let entry = opcode::PollAdd::new(Fd(fd), flags).multi(true).build();
        // SAFETY: the entry refers to no memory of ours.
        unsafe { self.push(entry.user_data(user_data).into()) };
    }

    /// Sends a message; with `whole`, the kernel goes on by itself where only a part of it fits.
    ///
    /// # Safety
    /// As [`Self::push`]: `message` and all it refers to.
    pub unsafe fn send(
        &mut self,
        socket: RawFd,
        message: *const libc::msghdr,
        whole: bool,
        user_data: u64,
    ) {
        let whole = if whole { libc::MSG_WAITALL } else { 0 };
        let flags = (libc::MSG_NOSIGNAL | whole).unsigned_abs();
        let entry = opcode::SendMsg::new(Fd(socket), message).flags(flags).build();
        self.sends_queued += 1;
        // SAFETY: the caller vouches for the message.
        unsafe { self.push(entry.user_data(user_data).into()) };
    }

    /// Takes the completion of a send.
    pub fn send_ended(&mut self) {
        self.sends_flying = self.sends_flying.saturating_sub(1);
    }

    /// Cancels the operations submitted with `target`; completes with `user_data` itself.
    pub fn cancel(&mut self, target: u64, user_data: u64) {
        let all = CancelBuilder::user_data(target).all();
        let entry = opcode::AsyncCancel2::new(all).build();
        // SAFETY: the entry refers to no memory of ours.
        unsafe { self.push(entry.user_data(user_data).into()) };
    }

    /// Queues an entry for the next [`Self::turn`].
    ///
    /// # Safety
    /// All memory that the entry refers to stays valid, and is used by nobody else in a way that
    /// conflicts, until its (last) completion has been seen.
    pub unsafe fn push(&mut self, entry: squeue::Entry128) {
        if !self.backlog.is_empty() {
            self.backlog.push_back(entry);
            return;
        }
        // SAFETY: the caller vouches for the entry's memory.
        if unsafe { self.ring.submission().push(&entry) }.is_err() {
            self.backlog.push_back(entry);
        }
    }

    /// Submits the queued entries, and runs no deferred work.
    ///
    /// # Errors
    /// io_uring_enter fails, and would fail in the next turn as well.
    pub fn submit(&mut self) -> io::Result<()> {
        self.refill();
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        self.sends_flying += std::mem::take(&mut self.sends_queued);
        self.calls += 1;
        passing(self.ring.submit())
    }

    /// Submits what is queued and runs deferred work; with `wait`, sleeps until a completion is
    /// there, at most that long.
    ///
    /// # Errors
    /// What io_uring_enter says, interruptions and time-outs aside.
    pub fn turn(&mut self, wait: Option<Duration>) -> io::Result<()> {
        self.refill();
        let (sends, flying) = (self.sends_queued, self.sends_flying);
        self.sends_flying += std::mem::take(&mut self.sends_queued);
        let outcome = match wait {
            Some(time) if self.backlog.is_empty() => {
                // A send completes at once as a rule, and would end the wait that it begins. So
                // the completion after the sends' is waited for; but not for long, in case a send
                // finds its socket full, and not where one has found it so.
                let (want, time) = match sends {
                    1.. if flying == 0 => (1 + sends, time.min(SEND_WAIT)),
                    _ => (1, time),
                };
                let time = Timespec::new().sec(time.as_secs()).nsec(time.subsec_nanos());
                self.calls += 1;
                let args = SubmitArgs::new().timespec(&time);
                self.ring.submitter().submit_with_args(want, &args)
            }
            _ if self.nothing_to_enter_for() => {
                std::hint::spin_loop();
                return Ok(());
            }
            _ => self.enter(),
        };
        passing(outcome)
    }

    /// Submits, and runs deferred work in the same call: what a send wakes on this machine is often
    /// an answer already.
    fn enter(&mut self) -> io::Result<usize> {
        const GETEVENTS: u32 = 1;
        let entries = u32::try_from(self.ring.submission().len()).unwrap_or(u32::MAX);
        self.calls += 1;
        // SAFETY: no argument is passed that the kernel would read.
        unsafe { self.ring.submitter().enter::<libc::sigset_t>(entries, 0, GETEVENTS, None) }
    }

    /// Says whether a system call would do nothing: no entry to submit, no deferred work to run. A
    /// reactor that polls looks at memory only.
    fn nothing_to_enter_for(&mut self) -> bool {
        let queue = self.ring.submission();
        queue.is_empty() && !queue.taskrun() && !queue.cq_overflow()
    }

    /// Moves the backlog into the submission queue as far as it has room.
    fn refill(&mut self) {
        while let Some(entry) = self.backlog.front() {
            // SAFETY: whoever pushed the entry vouched for its memory.
            if unsafe { self.ring.submission().push(entry) }.is_err() {
                self.calls += 1;
                if self.ring.submit().is_err() {
                    return;
                }
                continue;
            }
            self.backlog.pop_front();
        }
    }

    /// Counts the system calls that were made for the ring.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Moves up to `into`'s spare capacity of completions into it.
    pub fn completions(&mut self, into: &mut Vec<Completion>) {
        let room = into.capacity() - into.len();
        into.extend(self.ring.completion().take(room).map(|entry| Completion {
            user_data: entry.user_data(),
            result: entry.result(),
            flags: entry.flags(),
            extra: entry.big_cqe()[0],
        }));
    }
}

/// Passes over errors after which the next turn may succeed.
fn passing(outcome: io::Result<usize>) -> io::Result<()> {
    // EBUSY: completions must be taken before more can be submitted, which comes next.
    let passes = [libc::ETIME, libc::EINTR, libc::EBUSY, libc::EAGAIN];
    match outcome {
        Err(error) if !error.raw_os_error().is_some_and(|errno| passes.contains(&errno)) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("backlog", &self.backlog.len()).finish_non_exhaustive()
    }
}

/// The ring of provided buffers, and the buffers.
#[derive(Debug)]
struct RecvMemory {
    ring: Mapping,
    data: Mapping,
}

/// The receive buffers that the kernel picks from.
#[derive(Debug)]
pub struct RecvBuffers {
    memory: Rc<RecvMemory>,
    entries: u16,
    bytes: usize,
    tail: u16,
}

impl RecvBuffers {
    fn new(ring: &WideRing, size: RingSize) -> io::Result<Self> {
        let entries = size.buffers.next_power_of_two();
        let memory = RecvMemory {
            ring: Mapping::anonymous(usize::from(entries) * size_of::<BufRingEntry>())?,
            data: Mapping::anonymous(usize::from(entries) * size.buffer_bytes)?,
        };
        // SAFETY: the mapping is page-aligned, large enough for `entries`, and lives as long as
        // the ring, which holds a reference to it.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(
                memory.ring.address(0) as u64,
                entries,
                RECV_GROUP,
                0,
            )
        }?;
        let mut new = Self { memory: Rc::new(memory), entries, bytes: size.buffer_bytes, tail: 0 };
        for buffer in 0..entries {
            new.recycle(buffer);
        }
        new.publish();
        Ok(new)
    }

    /// Returns the received bytes in a buffer that a completion named.
    #[must_use]
    pub fn received(&self, buffer: u16, length: usize) -> &[u8] {
        // SAFETY: a buffer that a completion named is ours until it is recycled, and recycling
        // takes `&mut self`, which ends this borrow.
        unsafe { self.memory.data.slice(usize::from(buffer) * self.bytes, length.min(self.bytes)) }
    }

    /// Gives a buffer back to the kernel, with the next [`Self::publish`].
    pub fn recycle(&mut self, buffer: u16) {
        let slot = usize::from(self.tail & (self.entries - 1));
        let address = self.memory.data.address(usize::from(buffer) * self.bytes) as u64;
        let entry = self.memory.ring.address(slot * size_of::<BufRingEntry>());
        // SAFETY: `slot` is inside the ring's mapping, which is aligned for its entries; the
        // kernel reads an entry only once the tail has passed it.
        let entry = unsafe { &mut *entry.cast::<BufRingEntry>() };
        entry.set_addr(address);
        entry.set_len(u32::try_from(self.bytes).unwrap_or(u32::MAX));
        entry.set_bid(buffer);
        self.tail = self.tail.wrapping_add(1);
    }

    /// Makes recycled buffers visible to the kernel.
    pub fn publish(&mut self) {
        let base = self.memory.ring.address(0).cast::<BufRingEntry>();
        // SAFETY: `base` is the registered ring's first entry; its tail word is shared with the
        // kernel, which expects a release store.
        unsafe {
            let tail = BufRingEntry::tail(base).cast::<AtomicU16>();
            (*tail).store(self.tail, Ordering::Release);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Makes a ring with two buffers of 4 KiB.
    pub(in super::super) fn small_ring(entries: u32) -> (Ring, RecvBuffers) {
        Ring::new(RingSize { entries, buffers: 2, buffer_bytes: 4096 }).unwrap()
    }

    /// Takes turns until so many operations are complete.
    pub(in super::super) fn wait_for(ring: &mut Ring, count: usize) -> Vec<Completion> {
        let mut seen = Vec::with_capacity(64);
        for _ in 0..1000 {
            ring.turn(Some(Duration::from_millis(10))).unwrap();
            ring.completions(&mut seen);
            if seen.len() >= count {
                return seen;
            }
        }
        panic!("only {seen:?} is complete");
    }

    #[test]
    fn a_stream_is_received_whole_although_the_buffers_run_out() {
        let (mut ring, mut buffers) = small_ring(8);
        let (mut writer, reader) = UnixStream::pair().unwrap();
        let sent: Vec<u8> = (0..40_000u32).map(|i| i.to_le_bytes()[0]).collect();
        writer.write_all(&sent).unwrap();
        ring.receive(reader.as_raw_fd(), 7);
        let mut got = Vec::new();
        while got.len() < sent.len() {
            for completion in wait_for(&mut ring, 1) {
                assert_eq!(completion.user_data, 7);
                if let Some(buffer) = completion.buffer() {
                    let length = usize::try_from(completion.result).unwrap();
                    got.extend_from_slice(buffers.received(buffer, length));
                    buffers.recycle(buffer);
                }
                buffers.publish();
                if !completion.more() {
                    ring.receive(reader.as_raw_fd(), 7);
                }
            }
        }
        assert_eq!(got, sent);
    }

    #[test]
    fn more_entries_than_the_queue_holds_are_all_submitted() {
        let (mut ring, _buffers) = small_ring(4);
        let pairs: Vec<_> = (0..20).map(|_| UnixStream::pair().unwrap()).collect();
        for (index, (_, reader)) in pairs.iter().enumerate() {
            ring.watch(reader.as_raw_fd(), index as u64);
        }
        for (writer, _) in &pairs {
            (&*writer).write_all(b"x").unwrap();
        }
        let mut seen: Vec<u64> = wait_for(&mut ring, 20).iter().map(|c| c.user_data).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, (0..20).collect::<Vec<_>>());
    }
}
