//! The forecast of buffer space that will be free soon (docs/research/sources.md, F5: the server asks for
//! data when it has room).
//!
//! An R2T for space that is free only when the data comes saves the round trip for which the space
//! would stand empty. The forecast is made from the space that has become free in the last tens of
//! milliseconds.

use core::time::Duration;

use units::{Average, weight_of};

use crate::{Nanos, Rate};

/// The time constant of the rate at which space becomes free.
const MEMORY: Duration = Duration::from_millis(50);
/// The part of the expected space that [`Forecast::within`] counts on.
const CAUTION: f64 = 0.5;

/// Forecasts how much space becomes free.
#[derive(Clone, Copy, Debug)]
pub struct Forecast {
    /// The rate at which space becomes free, in bytes per second.
    rate: Average,
    /// Bytes that have become free since the start.
    freed: u64,
    /// The time of the last sample.
    at: Option<Nanos>,
}

impl Default for Forecast {
    fn default() -> Self {
        Self { rate: Average::default().starting(0.0), freed: 0, at: None }
    }
}

impl Forecast {
    /// Records that `freed` bytes in all have become free by `now`. At a time that was recorded
    /// already, they count with the bytes that become free until the next.
    pub fn see(&mut self, now: Nanos, freed: u64) {
        let Some(at) = self.at else {
            (self.at, self.freed) = (Some(now), freed);
            return;
        };
        let time = now.since(at);
        if time.is_zero() {
            return;
        }
        self.at = Some(now);
        let before = core::mem::replace(&mut self.freed, freed);
        #[expect(clippy::cast_precision_loss, reason = "bytes of one interval")]
        let rate = Rate::over(freed.saturating_sub(before) as f64, time);
        self.rate.add_by(rate.bytes(), weight_of(time, MEMORY));
    }

    /// Computes the bytes that may be counted on to become free within `time`.
    #[must_use]
    pub fn within(&self, time: Duration) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative")]
        let bytes = (self.rate.value() * time.as_secs_f64() * CAUTION) as u64;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f5_the_forecast_of_free_space_is_cautious() {
        let mut forecast = Forecast::default();
        let second = Duration::from_secs(1);
        assert_eq!(forecast.within(second), 0, "nothing is known yet");
        // 1 MB in each millisecond.
        for ms in 0..1000_u64 {
            forecast.see(Nanos(ms * 1_000_000), ms * 1_000_000);
        }
        let soon = forecast.within(Duration::from_millis(2));
        assert!((900_000..=1_000_000).contains(&soon), "{soon}");
        for ms in 1000..2000_u64 {
            forecast.see(Nanos(ms * 1_000_000), 999_000_000);
        }
        assert!(forecast.within(second) < 10_000, "a device that stands still frees nothing");
        forecast.see(Nanos(2_000_000_000), 0);
        forecast.see(Nanos(2_000_000_000), u64::MAX);
        assert!(forecast.within(Duration::MAX) < u64::MAX || forecast.rate.value().is_finite());
    }

    #[test]
    fn space_freed_between_simultaneous_looks_counts() {
        let mut forecast = Forecast::default();
        for ms in 0..1000_u64 {
            forecast.see(Nanos(ms * 1_000_000), ms * 1_000_000);
            forecast.see(Nanos(ms * 1_000_000), (ms + 1) * 1_000_000);
        }
        let soon = forecast.within(Duration::from_millis(2));
        assert!((900_000..=1_000_000).contains(&soon), "{soon}");
    }
}
