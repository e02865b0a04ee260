//! Sources that end.

use units::Nanos;

use super::{Arrival, Source};

/// A source that wants nothing any more from a time on.
#[derive(Debug)]
pub struct Until {
    source: Box<dyn Source>,
    end: Nanos,
}

impl Until {
    /// Makes a source that wants what another one wants before `end`.
    #[must_use]
    pub fn new(source: Box<dyn Source>, end: Nanos) -> Self {
        Self { source, end }
    }
}

impl Source for Until {
    fn next(&mut self, now: Nanos) -> Arrival {
        if now >= self.end {
            return Arrival::Never;
        }
        match self.source.next(now) {
            Arrival::At(at, _) if at >= self.end => Arrival::Never,
            arrival => arrival,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Closed, Open, Places, Process, Shape, Size};
    use super::*;

    const SHAPE: Shape =
        Shape { reads: 1.0, size: Size::Fixed(4096), places: Places::Random, within: 1 << 20 };

    #[test]
    fn nothing_is_wanted_from_the_end_on() {
        let open = Open::new(Process::Constant { rate: 1e6 }, SHAPE, Nanos(0), 1);
        let mut open = Until::new(Box::new(open), Nanos(3500));
        let times: Vec<u64> = std::iter::from_fn(|| match open.next(Nanos(0)) {
            Arrival::At(at, _) => Some(at.0),
            _ => None,
        })
        .take(10)
        .collect();
        assert_eq!(times, [1000, 2000, 3000]);
        let mut closed = Until::new(Box::new(Closed::new(1, SHAPE, Nanos(0), 1)), Nanos(10));
        assert!(matches!(closed.next(Nanos(0)), Arrival::At(Nanos(0), _)));
        assert!(matches!(closed.next(Nanos(9)), Arrival::WhenOneEnds(_)));
        assert_eq!(closed.next(Nanos(10)), Arrival::Never);
    }
}
