//! The discrete-time model of QTCP on one bottleneck (docs/research/sources.md, E3; Eq. 7 to 17).
//!
//! Time goes in slots of a round trip; everything is counted in packets. One [`Model::step`] is one
//! slot, in the order of the paragraph after Eq. (14): the probability `p` that a packet finds the
//! queue beyond its threshold, each class's allocated bandwidth `C_i` and quality factor `Q_i`, its
//! smoothed mark fraction `alpha_i`, then its window `W_i` and the slot's length `R_i`, and finally
//! its queue `q_i`.
//!
//! # How the equations are read
//!
//! Indices without a slot refer to the slot before. So `p(n)` and `R_i(n)` use `B(n-1)`, the sum of
//! all classes' queues, and `R_i(n) = 2 d_i + B(n-1)/C`: the way there waits in the queue, the way
//! back does not. The latency of a packet is `d_i + q_i/C_i`.
//!
//! Four things are not taken by the letter:
//!
//! - **`C_i` of Eq. (14).** Eq. (9) gives a class with a share the bandwidth that it *should* have,
//!   and Eq. (14) drains its queue at that rate. A link that serves in order of arrival knows no
//!   shares. Taken literally, a class below its share leaves part of the link idle beside classes
//!   that wait, and the model cannot show the unfairness that the quality factor must remove. For
//!   latency classes `C_i = W_i/R_i` ignores the link: a queue grows by the window's growth beside
//!   an idle link. Here the share enters `Q_i` (Eq. 10), and queues are drained in order of
//!   arrival: each class by its part of the waiting and arriving packets, all of them together by
//!   `C`. If all are at their shares, both readings are the same, and in either `B(n)` is the
//!   excess of the windows over the round trips, `sum W_i - sum C_i 2 d_i`.
//! - **"No congestion" in Eq. (12)**, `alpha_i <= epsilon`. A smoothed fraction stays above any small bound for many
//!   slots after the last mark, and windows would shrink during all these slots, far below the link's capacity. Eq. (5)
//!   states the intent, "No ECN": here a window grows in a slot without marks (`p = 0`) as well.
//! - **A window that is not used** (`W'_i < W_i` of Eq. 17) does not grow. Otherwise a class with
//!   little to send collects a window without bound, and floods the link with it at its first
//!   burst.
//! - **A class that sent nothing** in the last slot has no measured throughput to divide by in
//!   Eq. (10): its quality factor is 1. It saw no marks either, and keeps its window.
//!
//! The rate measured for Eq. (10) is the sent rate, `W'/R`, without the smoothing of Eq. (1): a
//! slot is a round trip already.
//!
//! All classes step together, each by its own round trip. As with the model of the source, that is
//! exact where round trips are equal and an approximation elsewhere.

mod arrivals;
mod class;
mod error;
mod setup;

#[cfg(test)]
mod tests;

pub use arrivals::{Arrivals, Process};
pub use class::ClassState;
pub use error::SetupError;
pub use setup::{Goal, ModelClass, Setup};

use class::SlotFacts;

/// The model: a setup and the states of its classes.
#[derive(Clone, Debug)]
pub struct Model {
    setup: Setup,
    states: Vec<ClassState>,
    sources: Vec<Process>,
    /// Seconds since the start.
    time: f64,
    /// Slots since the start.
    slot: u64,
    /// Packets of all classes in the queue (`B`).
    queue: f64,
    /// The fraction of packets that were marked in the last slot (`p`).
    marked: f64,
}

impl Model {
    /// Makes the model at its start: nothing sent, nothing in the queue, windows at their initial
    /// size.
    ///
    /// # Errors
    ///
    /// The setup has a value that cannot be; the error tells the range.
    pub fn new(setup: Setup) -> Result<Self, SetupError> {
        setup.check()?;
        let states = setup.classes.iter().map(|class| ClassState::new(class, &setup)).collect();
        let seeds = setup.seed..;
        let sources = setup.classes.iter().zip(seeds);
        let sources = sources.map(|(class, seed)| Process::new(class.arrivals, seed)).collect();
        Ok(Self { setup, states, sources, time: 0.0, slot: 0, queue: 0.0, marked: 0.0 })
    }

    /// Runs one slot.
    pub fn step(&mut self) {
        self.marked = mark_probability(self.queue, self.setup.threshold);
        let slot = SlotFacts {
            setup: &self.setup,
            shares: self.setup.shares(),
            marked: self.marked,
            wait: self.queue / self.setup.capacity,
        };
        for ((state, class), source) in
            self.states.iter_mut().zip(&self.setup.classes).zip(&mut self.sources)
        {
            state.send(class, &slot, source);
        }
        self.drain();
        self.time += self.slot_length();
        self.slot += 1;
    }

    /// Serves the waiting and the new packets, in order of arrival (in place of Eq. 14).
    fn drain(&mut self) {
        let offered: f64 = self.states.iter().map(ClassState::offered).sum();
        let left =
            if offered > self.setup.capacity { 1.0 - self.setup.capacity / offered } else { 0.0 };
        for (state, class) in self.states.iter_mut().zip(&self.setup.classes) {
            state.drain(class, left);
        }
        self.queue = self.states.iter().map(|state| state.queue).sum();
    }

    /// Computes the seconds of the last slot: the mean of the classes' round trips.
    fn slot_length(&self) -> f64 {
        let mut classes = 0.0;
        let mut sum = 0.0;
        for state in &self.states {
            classes += 1.0;
            sum += state.rtt;
        }
        if classes > 0.0 { sum / classes } else { 0.0 }
    }

    /// Returns the seconds since the start.
    #[must_use]
    pub const fn time(&self) -> f64 {
        self.time
    }

    /// Returns the slots since the start.
    #[must_use]
    pub const fn slot(&self) -> u64 {
        self.slot
    }

    /// Returns the packets of all classes in the queue (`B`).
    #[must_use]
    pub const fn queue(&self) -> f64 {
        self.queue
    }

    /// Returns the fraction of packets that were marked in the last slot (`p`, Eq. 8), 0.0 to 1.0.
    #[must_use]
    pub const fn marked(&self) -> f64 {
        self.marked
    }

    /// Returns the classes, in the setup's order.
    #[must_use]
    pub fn classes(&self) -> &[ClassState] {
        &self.states
    }

    /// Returns the setup.
    #[must_use]
    pub const fn setup(&self) -> &Setup {
        &self.setup
    }
}

/// Computes the probability that a packet finds the queue at or beyond its threshold (Eq. 8).
fn mark_probability(queue: f64, threshold: f64) -> f64 {
    if queue >= threshold { (1.0 - (threshold - 1.0) / queue).clamp(0.0, 1.0) } else { 0.0 }
}
