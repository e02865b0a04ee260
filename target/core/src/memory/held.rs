//! Blocks that answers are sent from where they are, in the memory of their device.

use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

/// Size in bytes of the pages by which held blocks are sent, where an answer goes in pieces.
pub const PAGE: usize = 4096;

/// Blocks in a device's own memory, which do not change until this is dropped, even if the device is written. They
/// stay in place when this moves.
pub trait HeldBlocks: fmt::Debug {
    /// Returns the content of the blocks.
    fn bytes(&self) -> &[u8];
}

/// Blocks that a device holds for the answer to a read.
#[derive(Debug)]
pub struct Held {
    blocks: Box<dyn HeldBlocks>,
    #[expect(dead_code, reason = "it ends with the blocks")]
    counted: Option<Counted>,
}

impl Held {
    /// Makes a handle of a device's blocks.
    pub fn new(blocks: impl HeldBlocks + 'static) -> Self {
        Self { blocks: Box::new(blocks), counted: None }
    }

    /// Counts the blocks in the total of a reactor.
    pub(crate) fn counted(self, total: &HeldTotal) -> Self {
        let bytes = self.blocks.bytes().len().next_power_of_two();
        total.0.set(total.0.get() + bytes);
        Self { counted: Some(Counted { bytes, total: total.clone() }), ..self }
    }
}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.blocks.bytes()
    }
}

/// The bytes of all blocks that devices hold for one reactor, each answer rounded up to its buffer's size. They are
/// memory of devices, but bound hosts that do not receive their answers as buffers do: code that divides the
/// buffers counts these bytes as in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldTotal(Rc<Cell<usize>>);

impl HeldTotal {
    pub(crate) fn bytes(&self) -> usize {
        self.0.get()
    }
}

/// A part of the total, subtracted when the blocks are released.
#[derive(Debug)]
struct Counted {
    bytes: usize,
    total: HeldTotal,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.total.0.set(self.total.0.get().saturating_sub(self.bytes));
    }
}
