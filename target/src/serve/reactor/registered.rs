//! I/O buffers that the kernel keeps at hand for the ring (io_uring's registered buffers): it finds and pins their
//! pages once, and not for each command.
//!
//! An arena is registered part by part, each when a command first goes to a device with a buffer of it: no turn
//! takes long, and memory that no such command uses is not kept. If the kernel refuses a part (RLIMIT_MEMLOCK), its
//! buffers are used unregistered.

use std::cell::{Cell, RefCell};
use std::sync::Once;

use sluice_machine::ring_error::explain;

use super::ring::Ring;
use crate::sys::mapping::Mapping;

/// Bytes of a part, as log2, at the least: its pages are found in less than a millisecond.
const PART_SHIFT: u32 = 21;
/// Parts of an arena at the most: the kernel's table has room for 16,384, for all arenas of a ring.
const MOST: usize = 4096;

/// The part of an arena that bytes lie in, and whether it is registered.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// The place of the first part in the ring's table.
    first: Cell<u16>,
    /// log2 of the bytes of a part, a multiple of the arena's largest buffer.
    shift: u32,
    /// For each part whether it is registered. None are there before buffers are registered.
    done: RefCell<Vec<bool>>,
    /// Whether the kernel has refused a part.
    refused: Cell<bool>,
}

impl Parts {
    /// Divides an arena of `bytes`, whose buffers have up to `largest` bytes.
    pub(super) fn new(bytes: usize, largest: usize) -> Self {
        let least = (1 << PART_SHIFT).max(largest).max(bytes.div_ceil(MOST));
        Self { shift: least.next_power_of_two().trailing_zeros(), ..Self::default() }
    }

    /// Lets parts be registered with a ring from now on, at places of its table from `first` on. Returns
    /// how many places there are.
    pub(super) fn allow(&self, first: u16, bytes: usize) -> u16 {
        let count = bytes.div_ceil(1 << self.shift);
        self.first.set(first);
        *self.done.borrow_mut() = vec![false; count];
        u16::try_from(count).unwrap_or(u16::MAX)
    }

    /// Returns the place in the ring's table of the part in which byte `offset` of an arena lies, which is
    /// registered then; `None` where it cannot be.
    #[inline]
    pub(super) fn place(&self, offset: usize, arena: &Mapping, ring: &mut Ring) -> Option<u16> {
        let part = offset >> self.shift;
        let done = *self.done.borrow().get(part)?;
        let place = self.first.get() + u16::try_from(part).ok()?;
        let known = done || (!self.refused.get() && self.register(part, place, arena, ring));
        known.then_some(place)
    }

    #[cold]
    fn register(&self, part: usize, place: u16, arena: &Mapping, ring: &mut Ring) -> bool {
        static TOLD: Once = Once::new();
        let start = part << self.shift;
        let length = (arena.len() - start).min(1 << self.shift);
        match ring.register(place, arena.address(start), length) {
            Ok(()) => {
                if let Some(done) = self.done.borrow_mut().get_mut(part) {
                    *done = true;
                }
                true
            }
            Err(error) => {
                let why = explain(&error);
                TOLD.call_once(|| {
                    tracing::info!(why, "the pages of I/O buffers are pinned for each command");
                });
                self.refused.set(true);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;

    use io_uring::opcode;
    use io_uring::types::Fd;
    use sluice_core::{Memory as _, Use};

    use super::super::pool::Pool;
    use super::super::ring::tests::{small_ring, wait_for};
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn a_buffer_lies_in_one_part_and_the_table_has_room_for_all() {
        for (bytes, largest) in
            [(MIB, MIB), (64 * MIB, MIB), (8 * MIB, 8 << 10), (64 * MIB, 16 * MIB), (1 << 40, MIB)]
        {
            let parts = Parts::new(bytes, largest);
            let part = 1_usize << parts.shift;
            assert_eq!((part % largest, part < 1 << 31), (0, true), "{bytes}, {largest}");
            assert!(bytes.div_ceil(part) <= MOST, "{bytes}");
        }
    }

    #[test]
    fn data_comes_to_the_buffer_whose_part_was_registered() {
        let (pool, other) = (Pool::new(8 * MIB, MIB).unwrap(), Pool::new(MIB, 4096).unwrap());
        let mut ring = small_ring(8).0;
        let mut file = tempfile::tempfile().unwrap();
        let sent: Vec<u8> = (0..8 * MIB).map(|at| (at / 4096 % 251).to_le_bytes()[0]).collect();
        file.write_all(&sent).unwrap();
        let mut buffers: Vec<_> = (0..8).map(|_| pool.take(MIB, Use::Any).unwrap()).collect();
        assert_eq!(buffers[0].registered(&mut ring), None, "nothing is to be registered yet");
        let first = other.allow_registration(0);
        let all = first + pool.allow_registration(first);
        assert_eq!((first, all), (1, 5));
        ring.make_room_for_buffers(all).unwrap();
        let mut places = Vec::new();
        for (index, buffer) in buffers.iter_mut().enumerate() {
            let place = buffer.registered(&mut ring).unwrap();
            assert_eq!(buffer.registered(&mut ring), Some(place), "as before");
            places.push(place);
            let (address, offset) = (buffer.address(0), index * MIB);
            let length = u32::try_from(MIB).unwrap();
            let read = opcode::ReadFixed::new(Fd(file.as_raw_fd()), address, length, place);
            let entry = read.offset(offset as u64).build().user_data(7);
            // SAFETY: the buffer lives until the completion was seen.
            unsafe { ring.push(entry.into()) };
            assert_eq!(wait_for(&mut ring, 1)[0].result, i32::try_from(MIB).unwrap());
            assert!(buffer[..] == sent[offset..offset + MIB], "buffer {index}");
        }
        places.sort_unstable();
        assert_eq!(places, [1, 1, 2, 2, 3, 3, 4, 4], "parts of two buffers");
    }

    #[test]
    fn where_the_kernel_refuses_a_part_those_before_it_are_used() {
        let (mut ring, pool) = (small_ring(8).0, Pool::new(8 * MIB, MIB).unwrap());
        let buffers: Vec<_> = (0..8).map(|_| pool.take(MIB, Use::Any).unwrap()).collect();
        assert_eq!(pool.allow_registration(0), 4);
        // The table has room for one part only.
        ring.make_room_for_buffers(1).unwrap();
        let mut places =
            || -> Vec<_> { buffers.iter().map(|buffer| buffer.registered(&mut ring)).collect() };
        let first = places();
        assert_eq!(first.iter().flatten().collect::<Vec<_>>(), [&0, &0], "{first:?}");
        assert_eq!(places(), first);
    }
}
