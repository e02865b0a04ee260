//! The times of commands of one kind.

use thiserror::Error;

use crate::rounding::whole;

/// The size of a command whose times these are, in KiB.
pub(super) const BASE_KIB: f64 = 4.0;

/// The times of commands of one kind, in ns.
#[derive(Clone, Debug, PartialEq)]
pub struct Times {
    /// Parts of all commands of 4 KiB, each with the time that this part does not exceed: from
    /// `(0.0, least)` to `(1.0, longest)`. Between two points times are spread evenly.
    points: Vec<(f64, f64)>,
    /// Time that each KiB beyond the first four adds.
    per_kib: f64,
    /// Time that a command of 4 KiB keeps its server, where this is longer than the command takes: of a
    /// write that is complete in a buffer. 0: no longer.
    holds: f64,
}

/// Times that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TimesError {
    /// The points do not begin with the part 0 and end with 1.
    #[error("times go from the shortest to the longest: give both")]
    Ends,
    /// A point is below the one before it.
    #[error("times fall: each must be at least the one before it")]
    Order,
    /// A time is no time.
    #[error("a time is 0 to 1 h, and the longest more than 0")]
    Range,
}

/// The longest time, in ns: an hour.
const LONGEST: f64 = 3.6e12;

impl Times {
    /// Makes times around a mean, give or take an eighth, as the daemon's `null` has them.
    ///
    /// # Errors
    /// The mean is no time.
    pub fn about(mean: f64, per_kib: f64) -> Result<Self, TimesError> {
        Self::new(vec![(0.0, mean * 0.875), (1.0, mean * 1.125)], per_kib, 0.0)
    }

    /// Makes times from points.
    ///
    /// # Errors
    /// The points are no distribution, or a time is out of its range.
    pub fn new(points: Vec<(f64, f64)>, per_kib: f64, holds: f64) -> Result<Self, TimesError> {
        let ends = (points.first().map(|first| first.0), points.last().map(|last| last.0));
        if ends != (Some(0.0), Some(1.0)) || points.len() < 2 {
            return Err(TimesError::Ends);
        }
        let mut before = (0.0, 0.0);
        for point in &points {
            if point.0 < before.0 || point.1 < before.1 {
                return Err(TimesError::Order);
            }
            before = *point;
        }
        let longest = before.1;
        let range = 0.0..=LONGEST;
        let within = range.contains(&per_kib) && range.contains(&holds);
        if longest <= 0.0 || !range.contains(&longest) || !within {
            return Err(TimesError::Range);
        }
        Ok(Self { points, per_kib, holds })
    }

    /// Returns the points.
    #[must_use]
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// Returns the time that each KiB beyond the first four adds, in ns.
    #[must_use]
    pub const fn per_kib(&self) -> f64 {
        self.per_kib
    }

    /// Returns the time that a command of 4 KiB keeps its server, in ns, where this is longer than the
    /// command takes; otherwise 0.
    #[must_use]
    pub const fn held(&self) -> f64 {
        self.holds
    }

    /// Computes the mean time of a command of 4 KiB, in ns.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let pairs = self.points.iter().zip(self.points.iter().skip(1));
        pairs.map(|((from, low), (to, high))| (to - from) * (low + high) / 2.0).sum()
    }

    /// Computes the longest time of a command of 4 KiB, in ns.
    #[must_use]
    pub fn longest(&self) -> f64 {
        self.points.last().map_or(0.0, |(_, longest)| *longest)
    }

    /// Multiplies the times of 4 KiB by a factor.
    #[must_use]
    pub(super) fn scaled(&self, factor: f64) -> Vec<(f64, f64)> {
        self.points.iter().map(|(part, ns)| (*part, ns * factor)).collect()
    }

    /// Draws the time of a command in ns. `part`, 0 to 1, decides which: the times that this part of all
    /// commands do not exceed.
    pub(super) fn draw(&self, part: f64, bytes: u64) -> u64 {
        let after = self.points.iter().position(|(to, _)| *to > part);
        let after = after.unwrap_or(self.points.len().saturating_sub(1)).max(1);
        let ends = (self.points.get(after - 1), self.points.get(after));
        let time = match ends {
            (Some((from, low)), Some((to, high))) if to > from => {
                low + (high - low) * (part - from) / (to - from)
            }
            _ => self.longest(),
        };
        whole(time + self.beyond(bytes))
    }

    /// Returns the time in ns that a command keeps its server at least.
    pub(super) fn holds(&self, bytes: u64) -> u64 {
        if self.holds > 0.0 { whole(self.holds + self.beyond(bytes)) } else { 0 }
    }

    /// Computes the time in ns of the bytes beyond the first 4 KiB.
    fn beyond(&self, bytes: u64) -> f64 {
        self.per_kib * (bytes as f64 / 1024.0 - BASE_KIB).max(0.0)
    }
}
