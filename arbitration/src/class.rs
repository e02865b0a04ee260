//! QoS classes, and the 2-bit field in which a command names one.

use std::fmt;
use std::ops::{Index, IndexMut};

/// A QoS class, as NVMe names them (NVMe base specification 2.0, section 3.4.4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The least weight.
    #[default]
    Low,
    /// Between Low and High.
    Medium,
    /// The greatest weight.
    High,
    /// Strictly before all others.
    Urgent,
}

impl Class {
    /// All classes, the most urgent first.
    pub const ALL: [Self; 4] = [Self::Urgent, Self::High, Self::Medium, Self::Low];

    /// The class that a command's CDW13 names in bits 9:8: 00b none (inherit), 01b Medium, 10b
    /// High, 11b Urgent.
    ///
    /// The bits are spare only where CETYPE (`cdw12` bits 19:16) is zero; else they belong to the
    /// command extension and name no class. Seed row E6.
    #[must_use]
    pub fn of_command(cdw12: u32, cdw13: u32) -> Option<Self> {
        if cdw12 >> 16 & 0xf != 0 {
            return None;
        }
        match cdw13 >> 8 & 0b11 {
            1 => Some(Self::Medium),
            2 => Some(Self::High),
            3 => Some(Self::Urgent),
            _ => None,
        }
    }

    /// The class that CATTR bits 1:0 of a Connect command name: 00b Urgent, 01b High, 10b Medium,
    /// 11b Low. They count only while CC.AMS is weighted round robin with urgent.
    #[must_use]
    pub const fn of_connect(priority_class: u8) -> Self {
        match priority_class & 0b11 {
            0 => Self::Urgent,
            1 => Self::High,
            2 => Self::Medium,
            _ => Self::Low,
        }
    }

    /// `urgent`, `high`, `medium` or `low`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Urgent => "urgent",
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One value for each class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerClass<T> {
    /// Of Urgent.
    pub urgent: T,
    /// Of High.
    pub high: T,
    /// Of Medium.
    pub medium: T,
    /// Of Low.
    pub low: T,
}

impl<T> PerClass<T> {
    /// Values made one by one.
    pub fn from_fn(mut make: impl FnMut(Class) -> T) -> Self {
        Self {
            urgent: make(Class::Urgent),
            high: make(Class::High),
            medium: make(Class::Medium),
            low: make(Class::Low),
        }
    }

    /// The values with their classes, the most urgent first.
    pub fn iter(&self) -> impl Iterator<Item = (Class, &T)> {
        Class::ALL.into_iter().map(|class| (class, &self[class]))
    }
}

impl<T> Index<Class> for PerClass<T> {
    type Output = T;

    #[inline]
    fn index(&self, class: Class) -> &T {
        match class {
            Class::Urgent => &self.urgent,
            Class::High => &self.high,
            Class::Medium => &self.medium,
            Class::Low => &self.low,
        }
    }
}

impl<T> IndexMut<Class> for PerClass<T> {
    #[inline]
    fn index_mut(&mut self, class: Class) -> &mut T {
        match class {
            Class::Urgent => &mut self.urgent,
            Class::High => &mut self.high,
            Class::Medium => &mut self.medium,
            Class::Low => &mut self.low,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e6_class_bits_count_only_without_a_command_extension() {
        assert_eq!(Class::of_command(0, 0), None, "a host that knows no QoS sends zero");
        assert_eq!(Class::of_command(0, 0x100), Some(Class::Medium));
        assert_eq!(Class::of_command(0, 0x200), Some(Class::High));
        assert_eq!(Class::of_command(0, 0x300), Some(Class::Urgent));
        assert_eq!(Class::of_command(0, 0xffff_fcff), None, "other bits name no class");
        assert_eq!(Class::of_command(0x1_0000, 0x300), None, "bits of a command extension");
    }
}
