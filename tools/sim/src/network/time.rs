//! Times within the network, in picoseconds: a byte takes 80 of them at 100 Gb/s.

use units::Nanos;

/// A time in picoseconds since the origin. The longest one is 213 days after it.
pub(super) type Picos = u64;

/// Picoseconds in a nanosecond.
pub(super) const NANO: Picos = 1000;
/// Picoseconds in a microsecond.
pub(super) const MICRO: Picos = 1000 * NANO;
/// Picoseconds in a millisecond.
pub(super) const MILLI: Picos = 1000 * MICRO;
/// Picoseconds in a second.
pub(super) const SECOND: Picos = 1000 * MILLI;

/// Converts from nanoseconds; a time that does not fit is the longest.
#[inline]
pub(super) const fn picos(time: Nanos) -> Picos {
    time.0.saturating_mul(NANO)
}

/// Converts to whole nanoseconds, rounded up, so that no event is reported before it happens.
#[inline]
pub(super) const fn nanos(time: Picos) -> Nanos {
    Nanos(time.div_ceil(NANO))
}

/// Computes how long `bytes` take at a rate in bits per second, at least 1.
#[inline]
pub(super) const fn time_of(bytes: u32, rate: u64) -> Picos {
    // 2^21 bytes are the most that fit in the product.
    (bytes as u64).saturating_mul(8 * SECOND) / rate
}

/// Computes how long `bytes` take at a rate in bytes per second: never longer than an hour, and
/// that where the rate is no rate.
#[inline]
pub(super) fn time_at(bytes: u32, rate: f64) -> Picos {
    const HOUR: f64 = 3600.0 * 1e12;
    let time = f64::from(bytes) * 1e12 / rate;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to an hour")]
    let time = if (0.0..HOUR).contains(&time) { time } else { HOUR } as Picos;
    time
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_takes_80_picoseconds_at_100_gigabits() {
        assert_eq!(time_of(1500, 100_000_000_000), 120 * NANO);
        assert_eq!(time_of(1, 30_000_000_000), 266, "and part of one is left out");
        assert_eq!(time_at(1500, 12.5e9), 120 * NANO);
        assert_eq!(time_at(1500, 0.0), 3600 * SECOND);
    }

    #[test]
    fn what_is_told_has_happened() {
        assert_eq!(nanos(1), Nanos(1));
        assert_eq!(nanos(picos(Nanos(7))), Nanos(7));
        assert_eq!(picos(Nanos::MAX), u64::MAX);
    }
}
