//! Receiving once, so that a command's data goes straight into its buffer: one gathered receive for each socket,
//! whose first part is the buffer and whose second part is a little room for the bytes behind it, as a rule the
//! head of the next data.

use std::os::fd::RawFd;

use super::pool::Buffer;
use super::ring::{Completion, Ring};

/// A part of a command's buffer to receive into.
pub(super) type DataPlace = sluice_core::DataPlace<Buffer>;

/// Room behind a command's data, in bytes: for many capsules, and little of the next command's data, which is copied
/// from here.
const REST: usize = 4096;

/// The kernel's description of a receive, and the room for bytes beside a command's data.
#[derive(Debug)]
struct Message {
    header: Box<libc::msghdr>,
    runs: Box<[libc::iovec; 2]>,
    rest: Box<[u8; REST]>,
}

impl Message {
    fn new() -> Self {
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        Self {
            // SAFETY: all zeroes is a valid msghdr: no name, no runs, no control data.
            header: Box::new(unsafe { std::mem::zeroed() }),
            runs: Box::new([none; 2]),
            rest: Box::new([0; REST]),
        }
    }
}

/// The result of a single receive.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) place: Option<DataPlace>,
    /// Number of bytes in the place.
    pub(super) placed: usize,
    pub(super) rest: Rest,
}

/// The bytes that came after those in a place.
#[derive(Debug)]
pub(super) struct Rest {
    message: Message,
    length: usize,
}

impl Rest {
    pub(super) fn bytes(&self) -> &[u8] {
        self.message.rest.get(..self.length).unwrap_or_default()
    }
}

/// The receive of one socket. The memory that the kernel uses stays in place when this value moves.
#[derive(Debug, Default)]
pub(super) struct Receiving {
    /// Message that is kept from one receive to the next.
    idle: Option<Message>,
    /// Whether the last receive has left nothing in the socket.
    emptied: bool,
    /// Whether that is not known: over TLS the kernel does not report it, and treats a socket in which a KeyUpdate
    /// waits like an empty one.
    unknown: bool,
    /// The receive that is in the ring.
    active: Option<(Message, Option<DataPlace>)>,
}

// SAFETY: the pointers in a message are only ever used by the kernel, during a receive that ends
// before the message is changed; a socket stays on its reactor's thread.
unsafe impl Send for Receiving {}

impl Receiving {
    /// Has each receive try the socket before it waits for something to come.
    pub(super) fn try_first(&mut self) {
        self.unknown = true;
    }

    /// Receives into `place`, as far as there is one, and then beside it. There must be no receive
    /// in the ring.
    #[inline]
    pub(super) fn start(
        &mut self,
        place: Option<DataPlace>,
        socket: RawFd,
        tag: u64,
        ring: &mut Ring,
    ) {
        debug_assert!(self.active.is_none(), "one receive at a time");
        let message = self.idle.take().unwrap_or_else(Message::new);
        let (message, place) = self.active.insert((message, place));
        let rest = libc::iovec { iov_base: message.rest.as_mut_ptr().cast(), iov_len: REST };
        let data = place.as_mut().map(|place| libc::iovec {
            iov_base: place.buffer.address(place.range.start).cast(),
            iov_len: place.bytes_mut().len(),
        });
        *message.runs = [data.unwrap_or(rest), rest];
        message.header.msg_iov = message.runs.as_mut_ptr();
        message.header.msg_iovlen = 1 + usize::from(data.is_some());
        // SAFETY: header, runs and the room for the rest are boxed, the place's buffer is in its
        // arena, and `bytes_mut` is a part of it. None of them is touched or dropped before the receive
        // has completed: `ended` is called then, and `drop` leaks them where it was not.
        unsafe { ring.receive_message(socket, &raw mut *message.header, self.emptied, tag) };
    }

    /// Takes the completion of a receive.
    pub(super) fn ended(&mut self, completion: &Completion) -> Option<Received> {
        let (message, mut place) = self.active.take()?;
        let bytes = usize::try_from(completion.result).unwrap_or(0);
        self.emptied = bytes > 0 && !completion.left_more() && !self.unknown;
        let placed = place.as_mut().map_or(0, |place| place.bytes_mut().len()).min(bytes);
        Some(Received { place, placed, rest: Rest { message, length: bytes - placed } })
    }

    /// Keeps the room for the next receive.
    pub(super) fn keep(&mut self, rest: Rest) {
        self.idle = Some(rest.message);
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        debug_assert!(self.active.is_none(), "dropped during a receive");
        if let Some(active) = self.active.take() {
            // The kernel may still write to them.
            std::mem::forget(active);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use fabric::queue::SlotId;
    use sluice_core::{Memory as _, Use};

    use super::super::pool::Pool;
    use super::super::ring::tests::{small_ring, wait_for};
    use super::*;

    fn ended(ring: &mut Ring, receiving: &mut Receiving) -> Received {
        let [completion] = &wait_for(ring, 1)[..] else { panic!("one is in the ring") };
        assert_eq!(completion.user_data, 7);
        receiving.ended(completion).unwrap()
    }

    #[test]
    fn data_goes_where_it_belongs_and_what_follows_beside_it() {
        let (mut ring, _buffers) = small_ring(8);
        let pool = Pool::new(1 << 20, 1 << 18).unwrap();
        let (mut writer, reader) = UnixStream::pair().unwrap();
        let sent: Vec<u8> = (0..60_000u32).map(|i| (i % 251).to_le_bytes()[0]).collect();
        writer.write_all(&sent).unwrap();
        let (mut receiving, mut got) = (Receiving::default(), Vec::new());
        // Sizes of places; 0 is none. Sockets move meanwhile, as the table of them grows.
        for length in [0, 10_000, 1, 4096, 0, 30_000].into_iter().cycle() {
            let place = (length > 0).then(|| {
                let mut buffer = pool.take(100 + length, Use::Any).unwrap();
                buffer.fill(0xee);
                DataPlace { slot: SlotId(3), buffer, range: 50..50 + length }
            });
            receiving.start(place, reader.as_raw_fd(), 7, &mut ring);
            let mut moved = Box::new(receiving);
            let received = ended(&mut ring, &mut moved);
            if let Some(place) = received.place {
                assert!(received.placed > 0 && place.slot == SlotId(3));
                let end = 50 + received.placed;
                got.extend_from_slice(&place.buffer[50..end]);
                let others = place.buffer[..50].iter().chain(&place.buffer[end..]);
                assert!(others.copied().all(|byte| byte == 0xee), "beside the place");
            }
            got.extend_from_slice(received.rest.bytes());
            moved.keep(received.rest);
            receiving = *moved;
            if got.len() == sent.len() {
                break;
            }
        }
        assert_eq!(got, sent);
        assert_eq!(pool.usage().0, 0, "all buffers are back");
    }

    #[test]
    fn a_stream_that_ends_gives_the_buffer_back() {
        let (mut ring, _buffers) = small_ring(8);
        let pool = Pool::new(1 << 20, 1 << 18).unwrap();
        let (writer, reader) = UnixStream::pair().unwrap();
        let buffer = pool.take(4096, Use::Any).unwrap();
        let place = DataPlace { slot: SlotId(0), buffer, range: 0..4096 };
        let mut receiving = Receiving::default();
        receiving.start(Some(place), reader.as_raw_fd(), 7, &mut ring);
        ring.turn(None).unwrap();
        assert!(pool.usage().0 > 0, "the ring has it");
        drop(writer);
        let received = ended(&mut ring, &mut receiving);
        assert_eq!((received.placed, received.rest.bytes().len()), (0, 0));
        drop(received);
        assert_eq!(pool.usage().0, 0);
    }
}
