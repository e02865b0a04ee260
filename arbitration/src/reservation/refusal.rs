//! The reason why a reservation is refused, and terms that would fit (docs/research/sources.md, F2: what
//! does not fit is refused).

use std::fmt;
use std::time::Duration;

use units::Nanos;

use super::terms::{Bytes, Terms};
use super::utilisation::Utilisation;

/// The refusal of a reservation, with a message for the person who asked for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The budget is zero.
    #[error("a reservation of nothing: give a budget of at least 1")]
    NoBudget,
    /// The period cannot be kept count of.
    #[error("a period of {:?}: it must be from 1 ms to 1 hour", Duration::from_nanos(.0.0))]
    Period(Nanos),
    /// The usual size of a command is zero.
    #[error("a request_size of 0: give the usual size of a command, such as \"4 KiB\"")]
    NoRequestSize,
    /// More than all commands are writes.
    #[error("{0} % writes: at most 100 % of the commands can be writes")]
    WritePercent(u8),
    /// No command may come at any time.
    #[error("a burst of 0: give the number of commands that may come at once, at least 1")]
    NoBurst,
    /// A latency that no period can keep.
    #[error("a latency of {:?}: it must be from 2 ms to 1 hour", Duration::from_nanos(.0.0))]
    Latency(Nanos),
    /// Reads cannot be held in buffers before they come.
    #[error("buffers for several periods are for writes: give 1, or writes = \"100 %\"")]
    BuffersOfReads,
    /// Buffers for several periods make commands wait for as long.
    #[error("a latency, and buffers for several periods: give one of the two")]
    LatencyAndBuffers,
    /// A part of the device that cannot be had.
    #[error("{0}")]
    Utilisation(Box<Shortage>),
    /// A period as short as the device's worst case.
    #[error(
        "a single command may take the device {:?}, which is too long for periods of {:?}: \
         give periods of at least {:?}",
        Duration::from_nanos(.worst.0), Duration::from_nanos(.period.0),
        Duration::from_nanos(.shortest.0)
    )]
    TooShort {
        /// The longest that one command may be in the device.
        worst: Nanos,
        /// The shortest period of those reserved and the one asked for.
        period: Nanos,
        /// The shortest that would do.
        shortest: Nanos,
    },
    /// A latency as short as the device's worst case.
    #[error(
        "a single command may take the device {:?}, which is too long for a latency of {:?}: \
         give a latency of at least {:?}",
        Duration::from_nanos(.worst.0), Duration::from_nanos(.latency.0),
        Duration::from_nanos(.shortest.0)
    )]
    TooSlow {
        /// The longest that one command may be in the device.
        worst: Nanos,
        /// The latency that was asked for.
        latency: Nanos,
        /// The shortest that would do.
        shortest: Nanos,
    },
    /// A window that holds the device's commands for longer than a period.
    #[error(
        "a window of {window} holds commands in the device for {:?}, longer than {:?}, in which {terms} \
         are reserved: give a window of at most {most} (with {in_time}, one command at a time is \
         complete in time), or none: it then follows the reservation",
        Duration::from_nanos(.held.0), Duration::from_nanos(.period.0)
    )]
    Window {
        /// The terms that were asked for.
        terms: Box<Terms>,
        /// The window, in commands.
        window: u32,
        /// The time for which commands are in the device behind a full window.
        held: Nanos,
        /// The period that the device keeps, or the allowed latency.
        period: Nanos,
        /// The largest window that is not refused.
        most: u64,
        /// The largest window with which one command at a time has the reserved rate, where its depth
        /// achieves that at all.
        in_time: u64,
    },
    /// No room for the commands between network and device (docs/research/sources.md, F4: buffers count in
    /// admission).
    #[error(
        "{} of buffers are needed so that the commands can be in the device at once, {} are left",
        Bytes(*.needed), Bytes(*.left)
    )]
    Buffers {
        /// Bytes needed.
        needed: u64,
        /// Bytes that are left.
        left: u64,
    },
}

/// A shortage: the part of the device that is asked for, and the part that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Terms that were asked for.
    pub terms: Terms,
    /// Part of the device that the terms need.
    pub needed: Utilisation,
    /// Part of the device that is left.
    pub left: Utilisation,
    /// Part of the device that is reserved already, and by how many reservations.
    pub reserved: (Utilisation, usize),
    /// Part of the device that is kept for Urgent.
    pub urgent: Utilisation,
    /// Part of the device by which one command at its worst may delay the reservations.
    pub blocking: Utilisation,
    /// Terms that would fit with the same period, if any.
    pub fits: Option<Terms>,
    /// Terms that would fit at the same rate with a longer period, if any.
    pub fits_longer: Option<Terms>,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (reserved, count) = self.reserved;
        let plural = if count == 1 { "" } else { "s" };
        write!(f, "{} need {} of the device, and {} is left", self.terms, self.needed, self.left)?;
        write!(f, " ({reserved} is reserved by {count} reservation{plural}, ")?;
        write!(f, "{} is kept for urgent commands, ", self.urgent)?;
        write!(f, "{} for the longest command): ", self.blocking)?;
        match (self.fits, self.fits_longer) {
            (None, None) => f.write_str("nothing of this kind would fit"),
            (Some(fits), None) => write!(f, "at most {fits} would fit"),
            (None, Some(longer)) => write!(f, "{longer} would fit"),
            (Some(fits), Some(longer)) => {
                write!(f, "at most {fits}, or {longer}, would fit")
            }
        }
    }
}
