//! Times of the network's figures, in picoseconds.

/// A time in picoseconds since the start: a byte takes 80 of them at 100 Gb/s.
pub(crate) type Time = u64;

/// Picoseconds in a nanosecond.
pub(crate) const NANO: Time = 1000;
/// Picoseconds in a microsecond.
pub(crate) const MICRO: Time = 1000 * NANO;
/// Picoseconds in a millisecond.
pub(crate) const MILLI: Time = 1000 * MICRO;
/// Picoseconds in a second.
pub(crate) const SECOND: Time = 1000 * MILLI;

/// Converts seconds to a time: zero where they are negative, the longest time where they are too
/// many.
pub(crate) fn from_seconds(seconds: f64) -> Time {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    let time = (seconds * SECOND as f64).round() as Time;
    time
}

/// Converts a time to seconds.
pub(crate) fn seconds(time: Time) -> f64 {
    time as f64 / SECOND as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_seconds_are_the_same() {
        assert_eq!(from_seconds(98e-6), 98 * MICRO);
        assert_eq!(seconds(3 * MILLI), 0.003);
        assert_eq!(from_seconds(-1.0), 0);
    }
}
