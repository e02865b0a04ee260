//! The settings of the stages: the same values for the target, the benchmarks and the simulator.

use units::{Nanos, PerClass};

/// The unit in which the shares of classes, sessions and hosts are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Commands, as the NVMe specification says.
    Commands,
    /// Bytes read or written, at least 4 KiB for each command. Write Zeroes and deallocations, which
    /// move no data, count as 4 KiB.
    #[default]
    Bytes,
    /// Device time, estimated from the measured profile of the device by size and direction. Bytes
    /// where a device has no profile yet.
    Time,
}

/// The weights of the three classes that share by weight, 1 to 256 each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights {
    /// The weight of High.
    pub high: u16,
    /// The weight of Medium.
    pub medium: u16,
    /// The weight of Low.
    pub low: u16,
}

impl Default for Weights {
    /// Returns 3:2:1, as in all runs of the source (docs/research/sources.md, E5: classes share the device
    /// by weight).
    fn default() -> Self {
        Self { high: 3, medium: 2, low: 1 }
    }
}

/// Stage S4, the order of the classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderSettings {
    /// The weights.
    pub weights: Weights,
    /// The unit in which shares are counted.
    pub unit: Unit,
    /// Arbitration burst: at most this many commands are taken from one queue at a time;
    /// `u16::MAX`: no limit but the weight. With a unit other than commands, the cost of as many
    /// reads of 4 KiB, and at least one command.
    pub burst: u16,
    /// The share of a device, in per cent (1 to 90), that Urgent may use strictly first. Urgent's
    /// demand beyond it has the weight of High.
    pub urgent_share: u8,
}

impl Default for OrderSettings {
    fn default() -> Self {
        Self { weights: Weights::default(), unit: Unit::default(), burst: 4, urgent_share: 20 }
    }
}

/// Stage S5: how much a device may hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowRule {
    /// The device accepts every command.
    Off,
    /// At most this many commands of ordinary size.
    Fixed(u32),
    /// The number of commands that the device completes within this time, between 1 and `max`.
    Adaptive {
        /// Latency that the device should keep.
        target: Nanos,
        /// Greatest depth, in commands of ordinary size.
        max: u32,
    },
}

impl Default for WindowRule {
    fn default() -> Self {
        Self::Fixed(128)
    }
}

/// The DSCP (the upper six bits of ToS and traffic class, 0 to 63) that stands for each class. 0,
/// which hosts send that set nothing, is best effort and stands for no class.
pub type ClassDscps = PerClass<u8>;

/// Returns EF for Urgent, AF41 for High, AF21 for Medium, CS1 for Low (RFC 4594).
#[must_use]
pub const fn default_dscps() -> ClassDscps {
    PerClass { urgent: 46, high: 34, medium: 18, low: 8 }
}
