//! The size of the commands in a device.

use super::prices::ordinary;
use super::slot::SLOT;

/// The KiB that count as a command of their own.
const BASE_KIB: u64 = 4;

/// Commands in a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// Their price if all were of ordinary size, in 1/[`SLOT`].
    pub(crate) slots: u32,
    /// Their KiB beyond the first four of each, times the price of their direction.
    pub(crate) kib: u32,
}

impl Held {
    /// Returns a command of this price and size.
    #[inline]
    pub(crate) fn command(price: u32, bytes: u32) -> Self {
        let slots = ordinary(price, bytes);
        let kib = kib_beyond(bytes) * u64::from(slots) / u64::from(SLOT);
        Self { slots, kib: u32::try_from(kib).unwrap_or(u32::MAX) }
    }
}

/// Returns the whole and begun KiB beyond the first four.
pub(crate) const fn kib_beyond(bytes: u32) -> u64 {
    (bytes.div_ceil(1024) as u64).saturating_sub(BASE_KIB)
}
