//! The trait of all backends, and the two ways in which they carry commands out.

use std::fmt;

use sluice_core::device::{Immediate, Timed};

use super::description::Description;
use super::error::BackendError;
use super::health::Health;
use super::queued::Queued;

/// The store of one or more namespaces.
pub trait Backend: Send + Sync + fmt::Debug {
    /// Returns what is fixed.
    fn description(&self) -> &Description;
    /// Returns what changes.
    fn health(&self) -> &Health;
    /// Returns how commands are carried out.
    fn style(&self) -> Style<'_>;
    /// Looks whether the file or device is still what it was when it was opened. Cheap enough for
    /// every few seconds; not on a reactor.
    fn look(&self) -> Option<Finding> {
        None
    }

    /// Returns the size in blocks that the file or device has now, which may be another than what
    /// is served.
    ///
    /// # Errors
    /// It does not say.
    fn present_blocks(&self) -> Result<u64, BackendError> {
        Ok(self.health().blocks())
    }

    /// Sets the size in blocks, or with `None` takes the size that the file or device has now.
    /// Answers the size in blocks.
    ///
    /// # Errors
    /// The backend cannot have that size.
    fn resize(&self, blocks: Option<u64>) -> Result<u64, BackendError>;
}

/// What is wrong with a file or device that is open, in words for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It is gone: no command can be carried out any more.
    Gone(String),
    /// It is not what it was; what is left of it is served.
    Damaged(String),
}

/// How a backend carries out commands.
#[derive(Debug)]
pub enum Style<'a> {
    /// On the spot.
    Immediate(&'a dyn Immediate),
    /// Through the reactor's ring.
    Queued(&'a dyn Queued),
    /// On the spot, but complete only after a while: the model of a device.
    Timed(&'a dyn Timed),
}
