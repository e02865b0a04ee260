//! Words that arguments take.

use clap::ValueEnum;

/// A switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnOff {
    /// On
    #[value(alias = "true")]
    On,
    /// Off
    #[value(alias = "false")]
    Off,
}

/// A QoS class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Class {
    /// Before all others, within its share
    Urgent,
    /// The greatest weight
    High,
    /// Between high and low
    Medium,
    /// The least weight
    Low,
}

impl Class {
    /// Returns the daemon's word.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Urgent => "urgent",
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClassOrNone {
    /// Before all others, within its share
    Urgent,
    /// The greatest weight
    High,
    /// Between high and low
    Medium,
    /// The least weight
    Low,
    /// No class
    None,
}

impl ClassOrNone {
    /// Returns the daemon's word; none for no class.
    pub(super) fn name(self) -> Option<String> {
        let class = match self {
            Self::Urgent => Class::Urgent,
            Self::High => Class::High,
            Self::Medium => Class::Medium,
            Self::Low => Class::Low,
            Self::None => return None,
        };
        Some(class.name().to_owned())
    }
}
