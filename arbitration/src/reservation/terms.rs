//! What a tenant reserves, in its own terms (seed row F1).

use crate::time::Nanos;

/// How much is reserved for each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// This many commands.
    Operations(u64),
    /// This many bytes.
    Bytes(u64),
    /// This much of the device's time.
    DeviceTime(Nanos),
}

/// What the broker knows of where a tenant's commands go.
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
    /// The usual size of a command in bytes: what turns bytes into commands and back.
    pub request_bytes: u32,
    /// Writes among the commands, in per cent.
    pub write_percent: u8,
    /// Where they go.
    pub locality: Locality,
}
