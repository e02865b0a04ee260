//! The state of a class, and its part of a slot.

use super::{Goal, ModelClass, Process, Setup};

/// The state of a class after a slot. Times are in seconds, rates in packets per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassState {
    /// The window of each of its flows in packets (`W_i`), within the setup's limits.
    pub window: f64,
    /// The packets that all flows of the class sent in the slot (`W'_i`).
    pub sent: f64,
    /// The packets that the class has to send and has not sent yet (`U_i`); infinite where there is
    /// always something to send.
    pub backlog: f64,
    /// The smoothed fraction of marked packets, 0.0 to 1.0 (`alpha_i`).
    pub alpha: f64,
    /// The quality factor (`Q_i`).
    pub quality: f64,
    /// The round-trip time (`R_i`).
    pub rtt: f64,
    /// The class's packets in the queue (`q_ai`).
    pub queue: f64,
    /// The rate at which the link carried the class in the slot.
    pub carried: f64,
    /// The time of a packet from end to end (`L_i`).
    pub latency: f64,
    /// Whether there was less to send than the window allowed.
    pub limited: bool,
}

/// The facts of a slot that all classes have in common.
#[derive(Debug)]
pub(super) struct SlotFacts<'a> {
    pub(super) setup: &'a Setup,
    /// The sum of all shares.
    pub(super) shares: f64,
    /// The fraction of packets that were marked (`p`).
    pub(super) marked: f64,
    /// Seconds that the queue takes to drain, `B(n-1)/C`.
    pub(super) wait: f64,
}

impl ClassState {
    pub(super) fn new(class: &ModelClass, setup: &Setup) -> Self {
        let delay = class.delay.as_secs_f64();
        Self {
            window: setup.limits.clamp(setup.limits.initial),
            sent: 0.0,
            backlog: 0.0,
            alpha: 0.0,
            quality: 1.0,
            rtt: 2.0 * delay,
            queue: 0.0,
            carried: 0.0,
            latency: delay,
            limited: true,
        }
    }

    /// Adjusts the window to the result of the last slot, and sends the packets that it admits (Eq.
    /// 9 to 13, 15 to 17).
    pub(super) fn send(&mut self, class: &ModelClass, slot: &SlotFacts<'_>, source: &mut Process) {
        let setup = slot.setup;
        self.quality = self.quality_factor(class, slot);
        // A class that sent nothing has seen no marks.
        if self.sent > 0.0 {
            self.alpha += setup.gain * (slot.marked - self.alpha);
            self.window = setup.limits.clamp(self.next_window(slot));
        }
        let came = source.within(self.rtt);
        self.backlog = (self.backlog - self.sent).max(0.0) + came;
        let windows = self.window * f64::from(class.flows);
        self.limited = self.backlog < windows;
        self.sent = windows.min(self.backlog);
        self.rtt = 2.0 * class.delay.as_secs_f64() + slot.wait;
    }

    /// Computes `Q_i(n)` (Eq. 10).
    fn quality_factor(&self, class: &ModelClass, slot: &SlotFacts<'_>) -> f64 {
        match class.goal {
            Goal::None => 1.0,
            Goal::Share(share) if self.sent > 0.0 => {
                slot.setup.capacity * share / slot.shares * self.rtt / self.sent
            }
            Goal::Share(_) => 1.0,
            Goal::Latency(target) => self.latency / target.as_secs_f64(),
        }
    }

    /// Computes `W_i(n)` (Eq. 12).
    fn next_window(&self, slot: &SlotFacts<'_>) -> f64 {
        if slot.marked <= 0.0 || self.alpha <= slot.setup.epsilon {
            return if self.limited { self.window } else { self.window + 1.0 };
        }
        self.window * (1.0 - self.alpha / 2.0) * self.quality.min(1.0)
    }

    /// Computes the demand for the link in packets per second: packets waiting or sent in this
    /// slot.
    pub(super) fn offered(&self) -> f64 {
        (self.queue + self.sent) / self.rtt
    }

    /// Keeps the fraction `left` in the queue; the link has carried the rest.
    pub(super) fn drain(&mut self, class: &ModelClass, left: f64) {
        let offered = self.queue + self.sent;
        self.queue = offered * left;
        self.carried = (offered - self.queue) / self.rtt;
        let queueing = if self.carried > 0.0 { self.queue / self.carried } else { 0.0 };
        self.latency = class.delay.as_secs_f64() + queueing;
    }
}
