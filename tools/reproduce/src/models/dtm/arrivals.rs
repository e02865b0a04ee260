//! The packets that a class has to send: the packet generation process (Eq. 15 to 17).

use core::time::Duration;

use fastrand::Rng;

use super::error::{SetupError, require};

/// The process by which a class gets packets to send. Rates are in packets per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Arrivals {
    /// A process with always something to send.
    #[default]
    Saturated,
    /// Packets at equal distances.
    Constant {
        /// Packets per second.
        rate: f64,
    },
    /// Packets at exponentially distributed distances.
    Poisson {
        /// Packets per second.
        rate: f64,
        /// Packets that arrive at once, such as the packets of one request; at least 1.
        burst: f64,
    },
    /// Packets at equal distances for a while, then none for a while; both times are exponentially
    /// distributed.
    OnOff {
        /// Packets per second in the mean over both.
        rate: f64,
        /// Mean time of sending.
        on: Duration,
        /// Mean time of silence.
        off: Duration,
    },
}

impl Arrivals {
    /// Checks that the process can be modelled; `at` is the class's number for the error.
    pub(super) fn check(&self, at: usize) -> Result<(), SetupError> {
        let of = |what: &str| format!("the {what} of class {at}'s arrivals");
        let checked = |rate| require(&of("rate"), rate, 0.0..=1e10, "0 to 1e10 packets per second");
        let time = |what: &str, time: Duration| {
            require(&of(what), time.as_secs_f64(), 1e-6..=1e4, "1e-6 to 1e4 seconds")
        };
        match *self {
            Self::Saturated => Ok(()),
            Self::Constant { rate } => checked(rate),
            Self::Poisson { rate, burst } => {
                checked(rate)?;
                require(&of("burst"), burst, 1.0..=1e6, "1 to 1000000 packets")
            }
            Self::OnOff { rate, on, off } => {
                checked(rate)?;
                time("time of sending", on)?;
                time("time of silence", off)
            }
        }
    }
}

/// The number of arrivals in an interval from which on their mean is taken instead: randomness
/// would move it by less than a thousandth.
const MANY: f64 = 1e6;

/// The arrivals of one class over time.
#[derive(Clone, Debug)]
pub struct Process {
    arrivals: Arrivals,
    random: Rng,
    /// Seconds until the next arrival, or until sending and silence change.
    next: f64,
    /// Whether an [`Arrivals::OnOff`] source is sending.
    sending: bool,
    /// The fraction of a packet that is left over from the last interval.
    part: f64,
}

impl Process {
    /// Makes the process at its start, the same for the same seed.
    #[must_use]
    pub fn new(arrivals: Arrivals, seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let next = match arrivals {
            Arrivals::Poisson { rate, burst } => exponential(&mut random, burst / rate),
            Arrivals::OnOff { on, .. } => exponential(&mut random, on.as_secs_f64()),
            Arrivals::Saturated | Arrivals::Constant { .. } => 0.0,
        };
        Self { arrivals, random, next, sending: true, part: 0.0 }
    }

    /// Counts the packets that come in the next `seconds`, `M - 1` of Eq. (15): whole ones, or
    /// without bound where there is always something to send.
    pub fn within(&mut self, seconds: f64) -> f64 {
        match self.arrivals {
            Arrivals::Saturated => f64::INFINITY,
            Arrivals::Constant { rate } => self.whole(rate * seconds),
            Arrivals::Poisson { rate, burst } if rate * seconds > MANY * burst => {
                self.whole(rate * seconds)
            }
            Arrivals::Poisson { rate, burst } => burst * self.arrive(seconds, burst / rate),
            Arrivals::OnOff { rate, on, off } => {
                let (on, off) = (on.as_secs_f64(), off.as_secs_f64());
                let sending = self.alternate(seconds, on, off);
                self.whole(rate * (on + off) / on * sending)
            }
        }
    }

    /// Counts the arrivals at a mean distance of `gap` in the next `seconds`.
    fn arrive(&mut self, seconds: f64, gap: f64) -> f64 {
        let mut left = seconds;
        let mut arrivals = 0.0;
        while self.next <= left {
            left -= self.next;
            self.next = exponential(&mut self.random, gap);
            arrivals += 1.0;
        }
        self.next -= left;
        arrivals
    }

    /// Computes for how many of the next `seconds` an on-off source sends.
    fn alternate(&mut self, seconds: f64, on: f64, off: f64) -> f64 {
        let mut left = seconds;
        let mut sending = 0.0;
        while self.next <= left {
            left -= self.next;
            sending += if self.sending { self.next } else { 0.0 };
            self.sending = !self.sending;
            self.next = exponential(&mut self.random, if self.sending { on } else { off });
        }
        self.next -= left;
        sending + if self.sending { left } else { 0.0 }
    }

    /// Returns the whole packets, and keeps the rest for the next interval.
    fn whole(&mut self, packets: f64) -> f64 {
        let sum = self.part + packets;
        self.part = sum.fract();
        sum.trunc()
    }
}

/// Draws an exponentially distributed number of that mean.
fn exponential(random: &mut Rng, mean: f64) -> f64 {
    // 1 is never drawn, so the logarithm is of more than 0.
    -mean * (1.0 - random.f64()).ln()
}
