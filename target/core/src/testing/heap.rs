//! Buffers on the heap: the arena of simulated reactors, and of tests.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use crate::machine::arena::{Memory, Use};
use crate::memory::buddies::{Block, Buddies, arena_bytes};

/// An arena of one reactor's buffers; their bytes are their own.
#[derive(Clone, Debug)]
pub struct HeapArena(Rc<Arena>);

#[derive(Debug)]
struct Arena {
    bytes: usize,
    free: RefCell<Buddies>,
    /// Bytes of buffers that were given back, to be used again.
    spare: RefCell<Vec<Vec<u8>>>,
}

impl HeapArena {
    /// Makes an arena of `bytes` bytes (rounded down to a multiple of `largest`) for buffers of up
    /// to `largest` bytes.
    #[must_use]
    pub fn new(bytes: usize, largest: usize) -> Self {
        let free = RefCell::new(Buddies::new(bytes, largest));
        Self(Rc::new(Arena { bytes: arena_bytes(bytes, largest), free, spare: RefCell::default() }))
    }
}

/// A buffer. It keeps its old contents, as on a real machine.
#[derive(Debug)]
pub struct HeapBuffer {
    arena: HeapArena,
    block: Block,
    bytes: Vec<u8>,
}

impl Deref for HeapBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for HeapBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for HeapBuffer {
    fn drop(&mut self) {
        self.arena.0.free.borrow_mut().give_back(&self.block);
        self.arena.0.spare.borrow_mut().push(std::mem::take(&mut self.bytes));
    }
}

impl Memory for HeapArena {
    type Buffer = HeapBuffer;

    fn take(&self, length: usize, what: Use) -> Option<HeapBuffer> {
        let block = self.0.free.borrow_mut().take(length, what)?;
        let mut bytes = self.0.spare.borrow_mut().pop().unwrap_or_default();
        if bytes.len() != length {
            bytes.resize(length, 0xee);
        }
        Some(HeapBuffer { arena: self.clone(), block, bytes })
    }

    fn has(&self, length: usize) -> bool {
        self.0.free.borrow_mut().has(length)
    }

    fn usage(&self) -> (usize, usize) {
        (self.0.free.borrow().used(), self.0.bytes)
    }

    fn data_used(&self) -> usize {
        self.0.free.borrow().data_used()
    }

    fn reserve_used(&self) -> usize {
        self.0.free.borrow().reserve_used()
    }

    fn data_freed(&self) -> u64 {
        self.0.free.borrow().data_freed()
    }
}
