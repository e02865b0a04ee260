//! Bursts: one reactor takes several commands of a class before it looks at the classes again.

use units::Class;

use super::{ClassClock, Pace};

/// The class that a reactor takes commands of, and how many more it takes.
#[derive(Debug, Default)]
pub(crate) struct ClassBurst {
    class: Option<Class>,
    left: u16,
}

impl ClassBurst {
    /// Chooses the class that is next by weight, of those in `has` (a [`bit`](super::bit) each).
    #[inline]
    pub(crate) fn pick(&mut self, clock: &ClassClock, pace: &Pace, has: u8) -> Option<Class> {
        let current = self.class.filter(|_| self.left > 0);
        let class = clock.pick(has, current)?;
        if current != Some(class) {
            (self.class, self.left) = (Some(class), pace.burst_length(class));
        }
        Some(class)
    }

    /// Counts a command that went by its class's weight.
    #[inline]
    pub(crate) fn took(&mut self) {
        self.left = self.left.saturating_sub(1);
    }
}
