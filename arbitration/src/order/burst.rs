//! Bursts: one reactor takes several commands of a class before it looks at the classes again.

use units::Class;

use super::{ClassClock, Pace};

/// The class that a reactor serves, and the remaining cost of its turn.
#[derive(Debug, Default)]
pub(crate) struct ClassBurst {
    class: Option<Class>,
    left: u32,
}

impl ClassBurst {
    /// Chooses the class that is next by weight, of those in `has` (a [`bit`](super::bit) each).
    #[inline]
    pub(crate) fn pick(&mut self, clock: &ClassClock, pace: &Pace, has: u8) -> Option<Class> {
        let current = self.class.filter(|_| self.left > 0);
        let class = clock.pick(has, current)?;
        if current != Some(class) {
            (self.class, self.left) = (Some(class), pace.burst_cost(class));
        }
        Some(class)
    }

    /// Counts the cost of a command that went by its class's weight.
    #[inline]
    pub(crate) fn took(&mut self, cost: u32) {
        self.left = self.left.saturating_sub(cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::{CommandKind, bit};
    use crate::settings::{OrderSettings, Unit, Weights};
    use crate::sharing::Sharing;

    /// Returns the longest runs of one class of two that always wait, with commands of this size.
    fn longest_run(unit: Unit, bytes: u32) -> usize {
        let weights = Weights { high: 3, medium: 3, low: 1 };
        let pace = Pace::new(&OrderSettings { weights, unit, burst: 4, urgent_share: 20 });
        let (clock, mut burst) = (ClassClock::new(Sharing::One), ClassBurst::default());
        let has = bit(Class::High) | bit(Class::Medium);
        clock.begins(Class::High);
        clock.begins(Class::Medium);
        let mut classes = Vec::new();
        for _ in 0..100 {
            let class = burst.pick(&clock, &pace, has).unwrap();
            let kind = CommandKind { write: false, bytes, has_data: true };
            let cost = pace.cost_at(&crate::order::DeviceTimes::default(), kind);
            burst.took(cost);
            clock.charge(&pace, class, cost);
            classes.push(class);
        }
        classes.chunk_by(|a, b| a == b).map(<[Class]>::len).max().unwrap()
    }

    #[test]
    fn burst_ends_with_the_bytes_of_its_small_commands() {
        assert_eq!(longest_run(Unit::Commands, 4096), 3, "the weight bounds a burst of 4");
        assert_eq!(longest_run(Unit::Commands, 1 << 20), 3);
        assert_eq!(longest_run(Unit::Bytes, 512), 3);
        assert_eq!(longest_run(Unit::Bytes, 4096), 3);
        assert_eq!(longest_run(Unit::Bytes, 1 << 20), 1);
    }
}
