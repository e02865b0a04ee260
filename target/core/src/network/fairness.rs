//! Fairness among the classes that share one connection, by their weights.

use arbitration::settings::OrderSettings;
use arbitration::{Class, PerClass};

/// The order of the classes that wait: Urgent first, then the class that is furthest behind its
/// weight.
#[derive(Debug, Default)]
pub(crate) struct Fairness {
    /// Bytes charged to each class, divided by its weight.
    progress: PerClass<u64>,
    /// Progress of the class that was last served.
    reached: u64,
}

impl Fairness {
    /// Notes that a class of which nothing waited has something now. An idle class saves nothing
    /// up.
    pub(crate) fn join(&mut self, class: Class) {
        self.progress[class] = self.progress[class].max(self.reached);
    }

    /// Returns the waiting class whose turn it is.
    pub(crate) fn next(&mut self, waits: impl Fn(Class) -> bool) -> Option<Class> {
        if waits(Class::Urgent) {
            return Some(Class::Urgent);
        }
        let waiting = Class::ALL.into_iter().filter(|&class| waits(class));
        let class = waiting.min_by_key(|&class| self.progress[class])?;
        self.reached = self.reached.max(self.progress[class]);
        Some(class)
    }

    /// Charges bytes to a class.
    pub(crate) fn spend(&mut self, class: Class, bytes: u64, weight: u64) {
        self.progress[class] = self.progress[class].saturating_add(bytes / weight.max(1));
    }
}

pub(crate) fn weight(order: &OrderSettings, class: Class) -> u64 {
    let weights = order.weights;
    match class {
        Class::Urgent => 1,
        Class::High => u64::from(weights.high),
        Class::Medium => u64::from(weights.medium),
        Class::Low => u64::from(weights.low),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e7_who_was_away_has_saved_nothing() {
        let mut fairness = Fairness::default();
        for _ in 0..1000 {
            fairness.join(Class::High);
            assert_eq!(fairness.next(|class| class == Class::High), Some(Class::High));
            fairness.spend(Class::High, 4096, 3);
        }
        // Nothing of the high class waits at this moment.
        fairness.join(Class::Low);
        fairness.join(Class::High);
        let mut high = 0;
        for _ in 0..40 {
            let class = fairness.next(|class| matches!(class, Class::High | Class::Low)).unwrap();
            fairness.spend(class, 4096, if class == Class::High { 3 } else { 1 });
            high += u32::from(class == Class::High);
        }
        assert!((29..=31).contains(&high), "three quarters: {high} of 40");
    }
}
