//! Sources that always have as much outstanding.

use fastrand::Rng;
use units::Nanos;

use super::shape::Drawn;
use super::{Arrival, Shape, Source};

/// A source that has a number of accesses outstanding: as soon as one ends, it wants another.
#[derive(Clone, Debug)]
pub struct Closed {
    drawn: Drawn,
    random: Rng,
    begin: Nanos,
    /// The first accesses that are still to come.
    first: u32,
}

impl Closed {
    /// Makes a source that wants its first `depth` accesses at `begin`.
    #[must_use]
    pub fn new(depth: u32, shape: Shape, begin: Nanos, seed: u64) -> Self {
        Self { drawn: Drawn::new(shape), random: Rng::with_seed(seed), begin, first: depth }
    }
}

impl Source for Closed {
    fn next(&mut self, now: Nanos) -> Arrival {
        let access = self.drawn.draw(&mut self.random);
        if self.first == 0 {
            return Arrival::WhenOneEnds(access);
        }
        self.first -= 1;
        Arrival::At(self.begin.max(now), access)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Places, Size};
    use super::*;

    #[test]
    fn so_many_come_at_once_and_each_other_one_when_one_ends() {
        let (size, places) = (Size::Fixed(4096), Places::Sequential);
        let shape = Shape { reads: 1.0, size, places, within: 1 << 20 };
        let mut source = Closed::new(3, shape, Nanos(7), 1);
        for place in 0..3 {
            let Arrival::At(at, access) = source.next(Nanos::ZERO) else { panic!("not at once") };
            assert_eq!((at, access.offset), (Nanos(7), place * 4096));
        }
        assert!(matches!(source.next(Nanos(9)), Arrival::WhenOneEnds(_)));
    }
}
