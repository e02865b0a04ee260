//! The unit in which a window's room is counted.

/// The price of a read of ordinary size, at most 128 KiB. Depths count in these.
pub const SLOT: u32 = 256;

/// [`SLOT`] among 64-bit numbers.
pub(super) const SLOTS: u64 = SLOT as u64;
