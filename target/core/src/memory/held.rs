//! Blocks that answers are sent from where they are, in the memory of their device.

use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

/// Size in bytes of the pages by which held blocks are sent, where an answer goes in pieces.
pub const PAGE: usize = 4096;

/// Blocks in a device's own memory, which stay as they are until this is dropped, whatever is written
/// to the device meanwhile. They stay where they are when this moves.
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

    /// Counts the blocks among those that answers wait with.
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

/// The bytes of all blocks that devices hold for one reactor, each answer's as much as a buffer for it
/// would have. They are of the memory of devices, but hosts that do not take their answers are bounded
/// by them as by buffers: whoever divides the buffers counts these among those in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldTotal(Rc<Cell<usize>>);

impl HeldTotal {
    pub(crate) fn bytes(&self) -> usize {
        self.0.get()
    }
}

/// A part of the total, which is taken from it when the blocks are let go.
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
