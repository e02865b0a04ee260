//! The weights and the burst by which a host orders its own queues.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::Class;

/// The present value of a controller's Arbitration feature (01h), which all reactors share: AB in
/// bits 2:0, LPW in 15:8, MPW in 23:16, HPW in 31:24. Each weight is 0's based.
///
/// A reader needs no order with other memory: a command that goes while the host changes the value
/// goes by the one or the other.
#[derive(Debug, Default)]
pub struct QueueWeights(AtomicU32);

impl QueueWeights {
    /// Makes the weights of this value of the feature.
    #[must_use]
    pub const fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }

    /// Sets the feature's value.
    pub fn set(&self, value: u32) {
        self.0.store(value, Relaxed);
    }

    /// Returns the weight of the queues of a priority class, from 1 to 256. Urgent goes first and
    /// has none of its own: it counts as High.
    #[inline]
    #[must_use]
    pub fn weight(&self, priority: Class) -> u16 {
        let [_, low, medium, high] = self.0.load(Relaxed).to_le_bytes();
        let weight = match priority {
            Class::Urgent | Class::High => high,
            Class::Medium => medium,
            Class::Low => low,
        };
        u16::from(weight) + 1
    }

    /// Returns how many commands of one queue may go in a row, while others of its priority class
    /// wait; `None`: any number (AB is 111b).
    #[inline]
    #[must_use]
    pub fn burst(&self) -> Option<u16> {
        match self.0.load(Relaxed) & 0b111 {
            0b111 => None,
            exponent => Some(1 << exponent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arbitration_feature_has_weights_and_a_burst() {
        let weights = QueueWeights::new(0xff02_0003);
        assert_eq!(Class::ALL.map(|class| weights.weight(class))[1..], [256, 3, 1]);
        assert_eq!(weights.burst(), Some(8));
        let bursts = [0, 1, 5, 6, 7].map(|exponent| {
            weights.set(exponent);
            weights.burst()
        });
        assert_eq!(bursts, [Some(1), Some(2), Some(32), Some(64), None]);
        assert_eq!(Class::ALL.map(|class| weights.weight(class)), [1; 4], "0's based");
    }
}
