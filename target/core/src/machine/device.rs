//! The device that keeps a namespace's blocks, as the core sees it.

use std::fmt;
use std::sync::Arc;

use arbitration::arbiter::DeviceId;
use arbitration::device as qos;
use fabric::Nanos;
use fabric::controller::BackendId;
use fabric::nvm::{BlockFormat, IoCommand};
use fabric::nvme::Status;

use crate::memory::held::Held;
use crate::stats::counters::IoStats;

/// A device that is open, shared by all reactors.
pub trait BlockDevice: fmt::Debug {
    /// Returns the way in which commands are executed.
    fn style(&self) -> Style<'_>;
    /// Returns the format of the device's blocks.
    fn format(&self) -> BlockFormat;
    /// Returns the number of logical blocks at present.
    fn blocks(&self) -> u64;
    /// Returns the device's window and the state of its classes.
    fn qos(&self) -> &Arc<qos::Device>;
    /// Returns the device's statistics in one reactor, which that reactor alone writes.
    fn stats(&self, reactor: usize) -> Option<&IoStats>;
}

/// The way in which a device carries out commands.
#[derive(Debug)]
pub enum Style<'a> {
    /// On the spot.
    Immediate(&'a dyn Immediate),
    /// By [`Driver::launch`](crate::Driver::launch).
    Queued,
    /// On the spot, but complete only after a while: the model of a device.
    Timed(&'a dyn Timed),
}

/// The data of a command that is carried out on the spot.
#[derive(Debug)]
pub enum Data<'a> {
    /// No data moves.
    None,
    /// The bytes to fill.
    Read(&'a mut [u8]),
    /// The host's bytes.
    Write(&'a [u8]),
}

/// A device that never waits.
pub trait Immediate: fmt::Debug {
    /// Carries out a command whose blocks exist; `data` has the command's length.
    fn run(&self, command: &IoCommand, data: Data<'_>) -> Status;

    /// Carries a read out without a copy: its answer is sent from where the blocks are. `None` where
    /// the device does not do so, or not now: it must be [run](Self::run).
    fn hold(&self, command: &IoCommand) -> Option<Held> {
        let _ = command;
        None
    }

    /// Returns whether every read returns zeroes, so that no buffer need be filled.
    fn reads_zeroes(&self) -> bool {
        false
    }
}

/// A device that carries commands out on the spot and completes them as slowly as a real one.
pub trait Timed: Immediate {
    /// Returns the time at which a command that is dispatched at `now` is complete.
    fn done_at(&self, now: Nanos, command: &IoCommand) -> Nanos;
}

/// Returns a device's place in tables: no other device has it before the last user of the device
/// has let go of it. Bits 31:0 of its identifier.
#[must_use]
pub fn place(id: BackendId) -> u32 {
    u32::try_from(id.0 & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

/// Returns a device's number in the arbiters.
#[inline]
#[must_use]
pub fn device_id(backend: BackendId) -> DeviceId {
    DeviceId(place(backend))
}
