//! The link and the classes of a model.

use core::time::Duration;

use super::Arrivals;
use super::error::{SetupError, require};
use sluice_sim::control::Limits;

/// The goal of a class of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Goal {
    /// No goal: Q = 1, which is DCTCP.
    #[default]
    None,
    /// A share of the link, relative to the other classes' (`r_i`).
    Share(f64),
    /// Packets that take no longer than this from end to end (`L_it`).
    Latency(Duration),
}

/// A class of flows.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelClass {
    /// The goal of all flows together; a latency applies to each packet.
    pub goal: Goal,
    /// The number of flows, at least 1. Each has a window of its own.
    pub flows: u32,
    /// The way there or back without queues (`d_i`).
    pub delay: Duration,
    /// The packets that all flows together have to send.
    pub arrivals: Arrivals,
}

/// A bottleneck link and its classes.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The capacity of the link in packets per second (`C`).
    pub capacity: f64,
    /// The length of the queue from which on packets are marked, in packets (`K`), at least 1.
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
    pub classes: Vec<ModelClass>,
}

impl Default for Setup {
    /// Makes a link of 100 Gb/s with 1500-byte packets and a threshold of 140 packets, as in the
    /// source's evaluation, and a gain of a half (its text after Eq. 3), without classes.
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

impl Setup {
    /// Adds up all shares (`sum r_i`).
    pub(super) fn shares(&self) -> f64 {
        let share =
            |class: &ModelClass| if let Goal::Share(share) = class.goal { share } else { 0.0 };
        self.classes.iter().map(share).sum()
    }

    /// Checks that the setup can be modelled.
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

impl ModelClass {
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
