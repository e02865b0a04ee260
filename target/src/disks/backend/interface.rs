//! The trait of all backends, and the ways in which they carry commands out.

use std::fmt;
use std::sync::Arc;

use sluice_core::device::{Immediate, Timed};

use super::description::Description;
use super::error::BackendError;
use super::health::Health;
use super::queued::Queued;
use crate::disks::block_memory::BlockMemory;

/// The store of one or more namespaces.
pub trait Backend: Send + Sync + fmt::Debug {
    /// Returns the properties that are fixed.
    fn description(&self) -> &Description;
    /// Returns the properties that change.
    fn health(&self) -> &Health;
    /// Returns how commands are carried out.
    fn style(&self) -> Style<'_>;
    /// Checks whether the file or device is gone or has changed since it was opened. The keeper calls this every few
    /// seconds; a reactor must not, since the check may block.
    fn look(&self) -> Option<Finding> {
        None
    }

    /// Returns a text that distinguishes the data from other files and devices, independent of their paths; `None`
    /// if there is no such text.
    fn origin(&self) -> Option<String> {
        self.description().device.clone()
    }

    /// Returns the memory that the blocks are in, where answers may be sent from there.
    fn memory(&self) -> Vec<Arc<BlockMemory>> {
        Vec::new()
    }

    /// Returns the size in blocks that the file or device has now, which may differ from the size
    /// that is served.
    ///
    /// # Errors
    /// The size cannot be read.
    fn present_blocks(&self) -> Result<u64, BackendError> {
        Ok(self.health().blocks())
    }

    /// Sets the size in blocks; `None` stands for the size that the file or device has now. Returns
    /// the size in blocks.
    ///
    /// # Errors
    /// The backend cannot have that size.
    fn resize(&self, blocks: Option<u64>) -> Result<u64, BackendError>;
}

/// A fault of an open file or device, in words for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The file or device is gone: no command can be carried out any more.
    Gone(String),
    /// The file or device has changed; the rest of it is served.
    Damaged(String),
}

/// The way in which a backend carries out commands.
#[derive(Debug)]
pub enum Style<'a> {
    /// On the reactor, at once.
    Immediate(&'a dyn Immediate),
    /// Through the reactor's ring.
    Queued(&'a dyn Queued),
    /// On the reactor, at once, with a completion after a service time: the model of a device.
    Timed(&'a dyn Timed),
}
