//! What namespaces keep their blocks on, behind one trait.
//!
//! A backend is opened once and shared by all reactors. An [`Immediate`] one (memory, null)
//! carries a command out on the spot; a [`Queued`] one (file, block device, NVMe passthrough)
//! splits it into units for the reactor's ring. The reactor owns buffers and rings; a backend
//! only says what to submit and what a result means.

mod claim;
mod errors;
mod file;
mod holders;
mod look;
mod memory;
mod null;
mod nvme;
mod nvme_uapi;
mod open;
mod passthrough;
mod probe;
mod seen;
mod signature;
mod source;
mod sysfs;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::{fmt, io};

use fabric::nvm::{BlockFormat, IoCommand, IoLimits};
use fabric::nvme::{Sqe, Status};
use io_uring::squeue;
use thiserror::Error;

use crate::access;
use crate::shared::lock;

pub use claim::{Claims, OwnFile};
pub use errors::{Answer, Bell, DeviceError};
pub use open::{Opening, open};
pub use probe::{Probed, probe};
pub use signature::OnSignature;
pub use sluice_core::device::{Data, Immediate, Timed};
pub use sluice_core::{ZEROES, zeroes};

/// The largest scratch buffer of a command without data (Verify), in bytes.
pub const SCRATCH_MAX: usize = 256 << 10;

/// A backend that cannot be opened or resized, with the reason and what would be right.
#[derive(Clone, Debug, Error)]
#[error("{what}: {why}")]
pub struct BackendError {
    /// What kind of reason it is.
    pub cause: Cause,
    /// The file, device or setting.
    pub what: String,
    /// What is wrong and what would be right.
    pub why: String,
}

/// Why a backend cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// There is no such file or device, at least not now.
    Missing,
    /// Somebody has it: another namespace, the kernel, another program.
    InUse,
    /// It holds a file system or the like, and was never seen: only with `force`.
    HoldsData,
    /// It has become smaller, or is another device than the one that was seen.
    Changed,
    /// It cannot be served, or the operating system refuses.
    Unusable,
}

impl BackendError {
    fn new(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self { cause: Cause::Unusable, what: what.to_string(), why: why.to_string() }
    }

    /// An error of the operating system's.
    fn io(path: &Path, error: &io::Error) -> Self {
        let gone = matches!(
            error.raw_os_error(),
            Some(libc::ENOENT | libc::ENXIO | libc::ENODEV | libc::ENOMEDIUM)
        );
        let cause = if gone { Cause::Missing } else { Cause::Unusable };
        Self { cause, ..Self::new(path.display(), access::explain(error, path)) }
    }

    fn missing(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self { cause: Cause::Missing, ..Self::new(what, why) }
    }

    fn in_use(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self { cause: Cause::InUse, ..Self::new(what, why) }
    }

    fn holds_data(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self { cause: Cause::HoldsData, ..Self::new(what, why) }
    }

    fn changed(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self { cause: Cause::Changed, ..Self::new(what, why) }
    }
}

/// What a backend can do; hosts learn it from Identify.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a bit of the Identify data")]
pub struct Abilities {
    /// Completed writes may be lost with power until a Flush.
    pub volatile_cache: bool,
    /// Dataset Management deallocates.
    pub deallocate: bool,
    /// Deallocated blocks read as zeroes.
    pub zeroes_after_deallocate: bool,
    /// Write Zeroes.
    pub write_zeroes: bool,
    /// Compare.
    pub compare: bool,
    /// Verify.
    pub verify: bool,
}

/// What is fixed when a backend is opened.
#[derive(Clone, Debug)]
pub struct Description {
    /// `null`, `memory`, `file`, `block` or `nvme`.
    pub kind: &'static str,
    /// The file or device, where there is one.
    pub path: Option<PathBuf>,
    /// What a device says that it is: WWN, serial number; none where it says nothing.
    pub device: Option<String>,
    /// What a logical block is.
    pub format: BlockFormat,
    /// What it can do.
    pub abilities: Abilities,
    /// Identify Namespace data of the real device behind passthrough.
    pub identify: Option<Box<[u8; 4096]>>,
    /// Identify Controller data of the real device behind passthrough.
    pub controller: Option<Box<[u8; 4096]>>,
}

/// What changes while a backend is open; read by anybody.
#[derive(Debug, Default)]
pub struct Health {
    blocks: AtomicU64,
    failed: AtomicBool,
    fault: Mutex<Option<String>>,
    errors: AtomicU64,
    last: Mutex<Option<DeviceError>>,
    bell: OnceLock<Arc<Bell>>,
}

impl Health {
    fn new(blocks: u64) -> Self {
        Self { blocks: AtomicU64::new(blocks), ..Self::default() }
    }

    /// What the ranges of a Dataset Management command are checked against.
    fn limits(&self, format: BlockFormat) -> IoLimits {
        let blocks = self.blocks();
        IoLimits { format, blocks, read_only: false, max_transfer: u32::MAX }
    }

    /// Number of logical blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed)
    }

    fn set_blocks(&self, blocks: u64) {
        self.blocks.store(blocks, Ordering::Relaxed);
    }

    /// Why the device is gone, if it is.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        if !self.failed.load(Ordering::Acquire) {
            return None;
        }
        lock(&self.fault).clone()
    }

    /// Notes that the device is gone; the first reason stays.
    pub(crate) fn fail(&self, why: String) {
        let mut fault = lock(&self.fault);
        if fault.is_none() {
            *fault = Some(why);
            self.failed.store(true, Ordering::Release);
        }
        drop(fault);
        self.ring();
    }

    /// Notes that the device answered a command with an error.
    fn note(&self, error: DeviceError) {
        *lock(&self.last) = Some(error);
        self.errors.fetch_add(1, Ordering::Release);
        self.ring();
    }

    /// Commands that the device answered with an error, and the last of these errors.
    #[must_use]
    pub fn errors(&self) -> (u64, Option<DeviceError>) {
        match self.errors.load(Ordering::Acquire) {
            0 => (0, None),
            count => (count, *lock(&self.last)),
        }
    }

    /// From now on, `bell` rings when something is noted.
    pub fn report_to(&self, bell: &Arc<Bell>) {
        // Whoever opened the backend says so once.
        let _ = self.bell.set(Arc::clone(bell));
    }

    fn ring(&self) {
        if let Some(bell) = self.bell.get() {
            bell.ring();
        }
    }
}

/// The store of one or more namespaces.
pub trait Backend: Send + Sync + fmt::Debug {
    /// What is fixed.
    fn description(&self) -> &Description;
    /// What changes.
    fn health(&self) -> &Health;
    /// How commands are carried out.
    fn style(&self) -> Style<'_>;
    /// Looks whether the file or device is still what it was when it was opened. Cheap enough for
    /// every few seconds; not on a reactor.
    fn look(&self) -> Option<Finding> {
        None
    }

    /// The size in blocks that the file or device has now, which may be another than what is
    /// served.
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

/// A command on its way through a [`Queued`] backend.
#[derive(Debug)]
pub struct Job<'a> {
    /// The command.
    pub command: &'a IoCommand,
    /// As it came from the host.
    pub sqe: &'a Sqe,
    /// The host's data (Write, Compare, Dataset Management), else empty.
    pub data: &'a [u8],
}

/// A part of a command: one entry in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// First byte on the device.
    pub offset: u64,
    /// Bytes on the device.
    pub length: u64,
    /// First byte in the command's memory.
    pub at: u32,
}

/// Which memory a command's units move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// None.
    None,
    /// The command's data buffer.
    Data,
    /// A scratch buffer of this many bytes, which the reactor provides (Compare, Verify).
    Scratch(u32),
    /// [`zeroes`].
    Zeroes,
}

/// What a unit's completion means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The unit has ended, with the result and status for the host.
    Done(u64, Status),
    /// The first bytes are done; the rest is to be submitted.
    Partial(u32),
    /// The device is busy: submit the unit again, a little later.
    Busy,
    /// The backend has learned that it must do this kind of command otherwise: plan it anew.
    Replan,
}

/// A backend whose commands go through the ring.
pub trait Queued: fmt::Debug {
    /// Splits a command into units (none: it is done already), and says which memory they move.
    ///
    /// # Errors
    /// The status to complete the command with.
    fn plan(&self, job: &Job<'_>, units: &mut Vec<Unit>) -> Result<Memory, Status>;

    /// The ring entry of a unit; `memory` is the address of the unit's first byte.
    fn entry(&self, job: &Job<'_>, unit: &Unit, memory: *mut u8) -> squeue::Entry128;

    /// What a completion means: `result` as in the ring's completion, `extra` its first extra
    /// quadword.
    fn finish(&self, job: &Job<'_>, unit: &Unit, result: i32, extra: u64) -> Outcome;
}

/// Splits bytes `offset..offset + length` into units of at most `largest` bytes whose memory is
/// contiguous.
fn split(units: &mut Vec<Unit>, offset: u64, length: u64, largest: u64) {
    let mut done = 0;
    while done < length {
        let bytes = largest.min(length - done);
        let at = u32::try_from(done).unwrap_or(u32::MAX);
        units.push(Unit { offset: offset + done, length: bytes, at });
        done += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_cover_their_range_once() {
        for (length, largest) in [(0u64, 8u64), (1, 8), (8, 8), (9, 8), (1 << 20, 128 << 10)] {
            let mut units = Vec::new();
            split(&mut units, 4096, length, largest);
            let mut next = 4096;
            for unit in &units {
                assert_eq!((unit.offset, u64::from(unit.at)), (next, next - 4096));
                assert!(unit.length > 0 && unit.length <= largest);
                next += unit.length;
            }
            assert_eq!(next, 4096 + length);
        }
    }
}
