//! DCQCN (Zhu et al., SIGCOMM 2015): rates instead of windows, timers instead of round trips.
//!
//! QRDMA (docs/research/sources.md, E2, E11) is built on DCQCN, and compared with it in Fig. 18 and 19.

use core::time::Duration;

use qtcp::{Observation, Rate};
use units::{Average, Nanos, nanos, within};

use super::{Controller, Decision, FlowTarget, Limits, Path, Report, reduction};

/// The settings of a rate-based controller. Times below 1 us count as 1 us, no bytes as one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The bounds of the window, in packets.
    pub limits: Limits,
    /// The rate of the link, at which a flow starts and which it never exceeds.
    pub line: Rate,
    /// The least rate.
    pub min: Rate,
    /// The part of a congestion notification in alpha, above 0.0 to 1.0.
    pub g: f64,
    /// The time without a notification after which alpha decays (K of the paper's Eq. 2).
    pub alpha_timer: Duration,
    /// The time in which at most one notification, and one cut, counts (N of the paper's section
    /// 3.1).
    pub cnp_interval: Duration,
    /// The number of rounds of fast recovery (F).
    pub recovery_rounds: u32,
    /// The time between two increases of the rate (T).
    pub increase_timer: Duration,
    /// The bytes sent between two increases of the rate (B).
    pub increase_bytes: u64,
    /// The rate that additive increase adds in a round (`R_AI`).
    pub additive: Rate,
    /// The rate that hyper increase adds in its first round, and twice in its second (`R_HAI`).
    pub hyper: Rate,
    /// The part of the old value in the smoothed throughput (gamma of Eq. 1), 0.0 to below 1.0.
    pub gamma: f64,
}

impl Settings {
    /// Makes the settings of DCQCN's paper, on a link of this rate.
    ///
    /// The paper has no figure for hyper increase and the least rate: these are ten times additive
    /// increase, and 10 Mbit/s, as in QCN (IEEE 802.1Qau).
    #[must_use]
    pub fn of(line: Rate) -> Self {
        Self {
            limits: Limits::default(),
            line,
            min: Rate::from_bits(10e6),
            g: 1.0 / 256.0,
            alpha_timer: Duration::from_micros(55),
            cnp_interval: Duration::from_micros(50),
            recovery_rounds: 5,
            increase_timer: Duration::from_micros(55),
            increase_bytes: 10_000_000,
            additive: Rate::from_bits(40e6),
            hyper: Rate::from_bits(400e6),
            gamma: 0.5,
        }
    }
}

impl Default for Settings {
    /// Makes the settings for the 40 Gbit/s of DCQCN's paper.
    fn default() -> Self {
        Self::of(Rate::from_bits(40e9))
    }
}

/// The most rounds of increase that one step catches up on, which bounds the cost of a step after a
/// long pause. The timers of [`Settings`] take less than half of them from the least rate to
/// 100 Gbit/s.
const MAX_ROUNDS: u64 = 8192;

/// A periodic timer.
#[derive(Clone, Copy, Debug)]
struct Timer {
    period: u64,
    due: Nanos,
}

impl Timer {
    fn new(period: Duration) -> Self {
        Self { period: nanos(period).max(1000), due: Nanos::MAX }
    }

    const fn restart(&mut self, now: Nanos) {
        self.due = now.after(self.period);
    }

    /// Counts how often the timer has gone off until `now`.
    #[inline]
    const fn expired(&mut self, now: Nanos) -> u64 {
        if now.0 < self.due.0 {
            return 0;
        }
        let late = now.0 - self.due.0;
        self.due = now.after(self.period - late % self.period);
        late / self.period + 1
    }
}

/// The reaction point of DCQCN: the present rate RC, the target rate RT, alpha, and the counters
/// that raise the rate.
///
/// Until the first notification the flow sends at the rate of the link and nothing runs.
#[derive(Clone, Debug)]
pub(super) struct Reaction {
    settings: Settings,
    /// The present rate (RC), in bytes per second.
    present: f64,
    /// The target rate (RT), in bytes per second.
    target: f64,
    /// The rate of the link, in bytes per second.
    line: f64,
    /// The least rate, in bytes per second.
    min: f64,
    alpha: f64,
    alpha_timer: Timer,
    increase_timer: Timer,
    /// Rounds of the timer since the last cut.
    timer_rounds: u32,
    /// Rounds of the byte counter since the last cut.
    byte_rounds: u32,
    /// Bytes that were sent in the present round.
    bytes: u64,
    cut_at: Option<Nanos>,
    path: Path,
}

impl Reaction {
    pub(super) fn new(settings: &Settings) -> Self {
        let line = settings.line.bytes();
        Self {
            settings: Settings {
                limits: settings.limits.sound(),
                g: within(settings.g, f64::EPSILON, 1.0),
                ..*settings
            },
            present: line,
            target: line,
            line,
            min: settings.min.bytes().min(line),
            alpha: 1.0,
            alpha_timer: Timer::new(settings.alpha_timer),
            increase_timer: Timer::new(settings.increase_timer),
            timer_rounds: 0,
            byte_rounds: 0,
            bytes: 0,
            cut_at: None,
            path: Path::default(),
        }
    }

    /// Processes the events until `now`: the timers that expired first, then, if there was a mark
    /// and none counted for a while, the cut. `quality` below 1 cuts deeper (Eq. 6).
    #[inline]
    pub(super) fn step(&mut self, now: Nanos, seen: &Observation, quality: f64) {
        self.path.see(seen);
        if self.cut_at.is_some() {
            self.decay(now);
            self.recover(now, seen.bytes);
        }
        let rests =
            |cut_at: Nanos| now.0.saturating_sub(cut_at.0) < nanos(self.settings.cnp_interval);
        if seen.marked > 0 && !self.cut_at.is_some_and(rests) {
            self.cut(now, quality);
        }
    }

    /// Cuts the rate: RT = RC, RC = RC(1 - alpha/2)Q, then alpha = (1 - g)alpha + g. Recovery
    /// starts from its first round.
    fn cut(&mut self, now: Nanos, quality: f64) {
        self.target = self.present;
        self.present *= reduction(self.alpha) * quality.min(1.0);
        self.present = self.present.max(self.min);
        let g = self.settings.g;
        self.alpha = (1.0 - g) * self.alpha + g;
        self.alpha_timer.restart(now);
        self.increase_timer.restart(now);
        (self.timer_rounds, self.byte_rounds, self.bytes) = (0, 0, 0);
        self.cut_at = Some(now);
    }

    /// Decays alpha: alpha = (1 - g)alpha for each expiry of its timer.
    #[inline]
    fn decay(&mut self, now: Nanos) {
        let times = self.alpha_timer.expired(now);
        if times > 0 {
            self.alpha *= (1.0 - self.settings.g).powi(i32::try_from(times).unwrap_or(i32::MAX));
        }
    }

    /// Raises the rate by a round for each time that the timer went off or the bytes were full.
    #[inline]
    fn recover(&mut self, now: Nanos, bytes: u64) {
        for _ in 0..self.increase_timer.expired(now).min(MAX_ROUNDS) {
            self.timer_rounds = self.timer_rounds.saturating_add(1);
            self.raise();
        }
        let batch = self.settings.increase_bytes.max(1);
        self.bytes = self.bytes.saturating_add(bytes);
        for _ in 0..(self.bytes / batch).min(MAX_ROUNDS) {
            self.byte_rounds = self.byte_rounds.saturating_add(1);
            self.raise();
        }
        self.bytes %= batch;
    }

    /// Raises the rate by one round: fast recovery until either counter has completed its rounds,
    /// hyper increase once both have, additive increase between.
    #[inline]
    fn raise(&mut self) {
        let recovery = self.settings.recovery_rounds;
        let fewer = self.timer_rounds.min(self.byte_rounds);
        if fewer > recovery {
            self.target += self.settings.hyper.bytes() * f64::from(fewer - recovery);
        } else if self.timer_rounds.max(self.byte_rounds) > recovery {
            self.target += self.settings.additive.bytes();
        }
        self.target = self.target.min(self.line);
        self.present = f64::midpoint(self.present, self.target);
    }

    /// Returns the rate, and the window of the packets that it has under way in a round trip; the
    /// largest window while the path is not known.
    #[inline]
    pub(super) fn decision(&self) -> Decision {
        let limits = &self.settings.limits;
        let window =
            self.path.window(self.present).map_or(limits.max, |packets| limits.clamp(packets));
        Decision { window, rate: Rate::new(self.present) }
    }

    #[inline]
    pub(super) const fn alpha(&self) -> f64 {
        self.alpha
    }
}

/// DCQCN, which has no target. A step may come at any time; it catches up on the timers.
///
/// One step takes at most one notification, so steps further apart than the interval of
/// notifications react more slowly than an adapter in hardware.
#[derive(Clone, Debug)]
pub struct Dcqcn {
    reaction: Reaction,
    rate: Average,
}

impl Dcqcn {
    /// Makes a flow at the rate of the link.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self { reaction: Reaction::new(settings), rate: Average::keeping(settings.gamma) }
    }
}

impl Default for Dcqcn {
    fn default() -> Self {
        Self::new(&Settings::default())
    }
}

impl Controller for Dcqcn {
    fn set_target(&mut self, _: FlowTarget) {}

    #[inline]
    fn step(&mut self, now: Nanos, seen: &Observation) -> Decision {
        if let Some(rate) = seen.rate() {
            self.rate.add(rate.bytes());
        }
        self.reaction.step(now, seen, 1.0);
        self.reaction.decision()
    }

    fn decision(&self) -> Decision {
        self.reaction.decision()
    }

    fn report(&self) -> Report {
        let rate = Rate::new(self.rate.value());
        Report { alpha: self.reaction.alpha(), quality: 1.0, rate }
    }
}

#[cfg(test)]
mod tests;
