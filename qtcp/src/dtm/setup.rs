//! What is modelled.

use core::time::Duration;

use super::Arrivals;
use crate::Limits;

/// What a class of the model is to have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Goal {
    /// Whatever it gets: Q = 1, which is DCTCP.
    #[default]
    None,
    /// A share of the link, relative to the other classes' (`r_i`).
    Share(f64),
    /// Packets that take no longer than this from end to end (`L_it`).
    Latency(Duration),
}

/// A class of flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// What all its flows together are to have; with latency, what each packet is to have.
    pub goal: Goal,
    /// How many flows share it, at least 1. Each has a window of its own.
    pub flows: u32,
    /// The way there or back without queues (`d_i`).
    pub delay: Duration,
    /// What its flows together have to send.
    pub arrivals: Arrivals,
}

/// A bottleneck link and its classes.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// What the link carries in packets per second (`C`).
    pub capacity: f64,
    /// The queue from which packets are marked, in packets (`K`), at least 1.
    pub threshold: f64,
    /// The weight of the last slot in the mark fraction (gamma of Eq. 11), above 0, up to 1.
    pub gain: f64,
    /// The mark fraction up to which a link is not congested (epsilon of Eq. 12), 0 to 1.
    pub epsilon: f64,
    /// The bounds of a flow's window.
    pub limits: Limits,
    /// The random seed.
    pub seed: u64,
    /// The classes.
    pub classes: Vec<Class>,
}

impl Default for Setup {
    /// 100 Gb/s of 1500-byte packets and a threshold of 140 packets, as in the source's
    /// evaluation; a gain of a half (its text after Eq. 3); no classes.
    fn default() -> Self {
        Self {
            capacity: 100e9 / 8.0 / 1500.0,
            threshold: 140.0,
            gain: 0.5,
            epsilon: 0.01,
            limits: Limits::default(),
            seed: 1,
            classes: Vec::new(),
        }
    }
}

/// Why a setup cannot be modelled.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// There is nothing to model.
    #[error("there are no classes: name at least one")]
    NoClasses,
    /// A number is not in its range.
    #[error("{what} is {value}: it must be {range}")]
    Range {
        /// Of the link, or of which class.
        what: String,
        /// What it is.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
}

impl Setup {
    /// The sum of all shares (`sum r_i`).
    pub(super) fn shares(&self) -> f64 {
        let share = |class: &Class| if let Goal::Share(share) = class.goal { share } else { 0.0 };
        self.classes.iter().map(share).sum()
    }

    /// Whether this can be modelled.
    pub(super) fn check(&self) -> Result<(), SetupError> {
        if self.classes.is_empty() {
            return Err(SetupError::NoClasses);
        }
        let limits = &self.limits;
        require("the capacity", self.capacity, 1.0..=1e12, "1 to 1e12 packets per second")?;
        require("the threshold", self.threshold, 1.0..=1e9, "1 to 1e9 packets")?;
        require("the gain", self.gain, f64::MIN_POSITIVE..=1.0, "above 0 and at most 1")?;
        require("epsilon", self.epsilon, 0.0..=1.0, "0 to 1")?;
        require("the least window", limits.min, 1.0..=1e9, "1 to 1e9 packets")?;
        require(
            "the largest window",
            limits.max,
            limits.min..=1e9,
            "at least the least window, and at most 1e9 packets",
        )?;
        require("the initial window", limits.initial, 1.0..=1e9, "1 to 1e9 packets")?;
        self.classes.iter().enumerate().try_for_each(|(at, class)| class.check(at + 1))
    }
}

impl Class {
    fn check(&self, at: usize) -> Result<(), SetupError> {
        let of = |what: &str| format!("the {what} of class {at}");
        require(&of("number of flows"), f64::from(self.flows), 1.0..=1e6, "1 to 1000000")?;
        let seconds = 1e-9..=10.0;
        let range = "1 nanosecond to 10 seconds (a value of 1 is a second)";
        require(&of("delay"), self.delay.as_secs_f64(), seconds.clone(), range)?;
        match self.goal {
            Goal::None => Ok(()),
            Goal::Share(share) => {
                require(&of("share"), share, 1e-6..=1e6, "a positive number, 1e-6 to 1e6")
            }
            Goal::Latency(target) => {
                require(&of("latency target"), target.as_secs_f64(), seconds, range)
            }
        }?;
        self.arrivals.check(at)
    }
}

/// Refuses a number outside of its range, and what is not a number.
pub(super) fn require(
    what: &str,
    value: f64,
    allowed: core::ops::RangeInclusive<f64>,
    range: &'static str,
) -> Result<(), SetupError> {
    if allowed.contains(&value) {
        return Ok(());
    }
    Err(SetupError::Range { what: what.to_owned(), value, range })
}
