//! Commands of tests, for blocks of 4096 bytes and queues of 64 entries.

use std::time::Duration;

use fabric::host::commands;
use fabric::nvme::Sqe;
use fabric::nvme::property::offset;
use zerocopy::little_endian::{U16, U32};

/// Bytes of a block.
pub const BLOCK: usize = 4096;

/// The keep-alive time of all controllers.
pub const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Returns Connect for a queue of 64 entries (32 for admin queues), without submission queue flow
/// control.
#[must_use]
pub fn connect(qid: u16) -> Sqe {
    let kato_ms = u32::try_from(KEEP_ALIVE.as_millis()).unwrap_or(u32::MAX);
    let (outstanding, kato_ms) = if qid == 0 { (31, kato_ms) } else { (63, 0) };
    commands::connect(qid, outstanding, kato_ms, None)
}

/// Returns Property Set of CC: enable.
#[must_use]
pub fn enable() -> Sqe {
    commands::property_set(offset::CC, commands::CC_ENABLE)
}

/// Returns an I/O command on blocks of namespace 1.
#[must_use]
pub fn io(opcode: u8, lba: u32, blocks: u32) -> Sqe {
    Sqe { opcode, ..commands::transfer(false, 1, lba.into(), blocks, 0) }
}

/// Returns a command with another identifier and namespace.
#[must_use]
pub fn numbered(sqe: Sqe, cid: u16, nsid: u32) -> Sqe {
    Sqe { cid: U16::new(cid), nsid: U32::new(nsid), ..sqe }
}

/// Returns blocks that tell where they belong (the first four bytes of each) and what wrote them
/// (all others).
#[must_use]
pub fn pattern(lba: u32, blocks: u32, salt: u8) -> Vec<u8> {
    let block = |lba: u32| lba.to_le_bytes().into_iter().chain([salt; BLOCK - 4]);
    (lba..lba.saturating_add(blocks)).flat_map(block).collect()
}
