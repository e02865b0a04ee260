//! Classes of quality of service: their numbers, the 2-bit field in which a command names one, and
//! one value for each.

use core::fmt;
use core::ops::{Index, IndexMut};

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
    /// The number of classes.
    pub const COUNT: usize = 4;

    /// All classes, the most urgent first: each at its [number](Self::number).
    pub const ALL: [Self; Self::COUNT] = [Self::Urgent, Self::High, Self::Medium, Self::Low];

    /// Returns the number by which tables and sets of bits know the class: 0 for Urgent to 3 for
    /// Low.
    #[must_use]
    #[inline]
    pub const fn number(self) -> usize {
        match self {
            Self::Urgent => 0,
            Self::High => 1,
            Self::Medium => 2,
            Self::Low => 3,
        }
    }

    /// Returns the class that a command's CDW13 names in bits 9:8: 00b none (inherit), 01b Medium,
    /// 10b High, 11b Urgent.
    ///
    /// The bits are spare only where CETYPE (`cdw12` bits 19:16) is zero; else they belong to the
    /// command extension and name no class.
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

    /// Returns the class that CATTR bits 1:0 of a Connect command name: 00b Urgent, 01b High, 10b
    /// Medium, 11b Low. They count only while CC.AMS is weighted round robin with urgent.
    #[must_use]
    pub const fn of_connect(priority_class: u8) -> Self {
        match priority_class & 0b11 {
            0 => Self::Urgent,
            1 => Self::High,
            2 => Self::Medium,
            _ => Self::Low,
        }
    }

    /// Returns `urgent`, `high`, `medium` or `low`.
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
// The fields are in the order of the numbers, so that an index finds its value without a branch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PerClass<T> {
    /// The value of Urgent.
    pub urgent: T,
    /// The value of High.
    pub high: T,
    /// The value of Medium.
    pub medium: T,
    /// The value of Low.
    pub low: T,
}

impl<T> PerClass<T> {
    /// Makes the values one by one, the most urgent class's first.
    pub fn from_fn(mut make: impl FnMut(Class) -> T) -> Self {
        Self {
            urgent: make(Class::Urgent),
            high: make(Class::High),
            medium: make(Class::Medium),
            low: make(Class::Low),
        }
    }

    /// Returns the values with their classes, the most urgent first.
    pub fn iter(&self) -> impl Iterator<Item = (Class, &T)> {
        Class::ALL.into_iter().zip(self.values())
    }

    /// Returns the values alone, the most urgent class's first.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        [&self.urgent, &self.high, &self.medium, &self.low].into_iter()
    }

    /// Returns the values alone, to be changed, the most urgent class's first.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        [&mut self.urgent, &mut self.high, &mut self.medium, &mut self.low].into_iter()
    }

    /// Converts each value.
    #[must_use]
    pub fn map<U>(self, mut make: impl FnMut(T) -> U) -> PerClass<U> {
        PerClass {
            urgent: make(self.urgent),
            high: make(self.high),
            medium: make(self.medium),
            low: make(self.low),
        }
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

    #[test]
    fn a_connect_command_names_classes_the_other_way_round() {
        assert_eq!([0, 1, 2, 3].map(Class::of_connect), Class::ALL);
        assert_eq!(Class::of_connect(0b111), Class::Low, "two bits count");
    }

    #[test]
    fn class_has_number_name_and_rank() {
        for (number, class) in Class::ALL.into_iter().enumerate() {
            assert_eq!(class.number(), number);
            assert_eq!(class.to_string(), ["urgent", "high", "medium", "low"][number]);
        }
        assert!(Class::ALL.is_sorted_by(|a, b| a > b), "the more urgent class is the greater");
        assert_eq!(Class::default(), Class::Low);
    }

    #[test]
    fn each_class_has_its_own_value() {
        let mut values = PerClass::from_fn(Class::number);
        assert_eq!(values, PerClass { urgent: 0, high: 1, medium: 2, low: 3 });
        for class in Class::ALL {
            assert_eq!(values[class], class.number());
            values[class] += 10;
        }
        assert!(values.values().eq(&[10, 11, 12, 13]));
        assert!(values.iter().map(|(class, _)| class).eq(Class::ALL));
        assert!(values.iter().all(|(class, value)| *value == class.number() + 10));
        values.values_mut().for_each(|value| *value *= 2);
        let more = values.map(|value| value + 1);
        assert_eq!(more, PerClass { urgent: 21, high: 23, medium: 25, low: 27 });
    }
}
