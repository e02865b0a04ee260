//! The terms of a tenant's reservation (docs/research/sources.md, F1: reservations in the tenant's terms).

use std::fmt;
use std::time::Duration;

use units::Nanos;

/// The shortest period.
pub const SHORTEST_PERIOD: Nanos = Nanos(1_000_000);
/// The longest period.
pub const LONGEST_PERIOD: Nanos = Nanos(3_600_000_000_000);

/// The amount that is reserved for each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// Number of commands.
    Operations(u64),
    /// Number of bytes.
    Bytes(u64),
    /// Time of the device.
    DeviceTime(Nanos),
}

impl Budget {
    /// Returns the amount, in the budget's own unit: commands, bytes or ns.
    #[must_use]
    pub const fn amount(self) -> u64 {
        match self {
            Self::Operations(amount) | Self::Bytes(amount) | Self::DeviceTime(Nanos(amount)) => {
                amount
            }
        }
    }

    /// Returns another amount of the same unit.
    #[must_use]
    pub const fn with_amount(self, amount: u64) -> Self {
        match self {
            Self::Operations(_) => Self::Operations(amount),
            Self::Bytes(_) => Self::Bytes(amount),
            Self::DeviceTime(_) => Self::DeviceTime(Nanos(amount)),
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operations(1) => f.write_str("1 command"),
            Self::Operations(n) => write!(f, "{n} commands"),
            Self::Bytes(n) => write!(f, "{}", Bytes(*n)),
            Self::DeviceTime(ns) => write!(f, "{:?} of device time", Duration::from_nanos(ns.0)),
        }
    }
}

/// The locality of a tenant's commands, as the broker knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locality {
    /// Anywhere.
    #[default]
    Random,
    /// One after the other.
    Sequential,
}

/// A reservation as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Budget b.
    pub budget: Budget,
    /// Period p.
    pub period: Nanos,
    /// The usual size of a command in bytes, by which bytes are translated into commands and back.
    pub request_bytes: u32,
    /// Writes among the commands, in per cent.
    pub write_percent: u8,
    /// Locality of the commands.
    pub locality: Locality,
    /// Allowed latency: the longest time from a command's arrival to its completion, for commands
    /// that arrive at the reserved rate, except for bursts of `burst`. `None`: only each period's
    /// budget counts.
    pub latency: Option<Nanos>,
    /// Burstiness: commands that may come at once, at least 1.
    pub burst: u32,
    /// Periods whose writes the target's buffers may hold, at least 1 (docs/research/sources.md, F4: buffers
    /// count in admission): the device's period is this many times as long.
    pub buffers: u32,
}

impl Terms {
    /// Makes the terms of random reads of 4 KiB.
    #[must_use]
    pub const fn of(budget: Budget, period: Nanos) -> Self {
        Self {
            budget,
            period,
            request_bytes: 4096,
            write_percent: 0,
            locality: Locality::Random,
            latency: None,
            burst: 1,
            buffers: 1,
        }
    }

    /// Returns the same rate with a period `k` times as long (docs/research/sources.md, F4: buffers count in
    /// admission). A stream of writes may reserve it if the server has `k` times the buffers for
    /// it, and absorbs the commands of `k` periods. The fixed cost of a period is then paid once
    /// instead of `k` times.
    #[must_use]
    pub const fn lengthened(mut self, k: u32) -> Self {
        let k = k as u64;
        self.budget = self.budget.with_amount(self.budget.amount().saturating_mul(k));
        self.period = Nanos(self.period.0.saturating_mul(k));
        self
    }
}

impl fmt::Display for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = Bytes(self.request_bytes.into());
        let period = Duration::from_nanos(self.period.0);
        match self.budget {
            Budget::Operations(_) => write!(f, "{} of {size} every {period:?}", self.budget)?,
            Budget::Bytes(_) => {
                write!(f, "{} every {period:?} in commands of {size}", self.budget)?;
            }
            Budget::DeviceTime(_) => write!(f, "{} every {period:?}", self.budget)?,
        }
        if let Some(latency) = self.latency {
            write!(f, ", each within {:?}", Duration::from_nanos(latency.0))?;
        }
        if self.burst > 1 {
            write!(f, ", {} at once", self.burst)?;
        }
        if self.buffers > 1 {
            write!(f, ", with buffers for {} periods", self.buffers)?;
        }
        Ok(())
    }
}

/// A size in the largest unit that divides it.
pub(super) struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        let whole = |shift: u32| self.0 != 0 && self.0.trailing_zeros() >= shift;
        match UNITS.iter().find(|(shift, _)| whole(*shift)) {
            Some((shift, unit)) => write!(f, "{} {unit}", self.0 >> shift),
            None => write!(f, "{} bytes", self.0),
        }
    }
}
