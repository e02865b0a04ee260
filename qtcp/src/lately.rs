//! Recent events of a connection, which decide how it hands answers over.

use crate::class_split::REST;
use crate::pacing::Answers;
use crate::{Nanos, Rate};

/// The times at which a connection last saw that its link is full, and at which its host last wrote.
#[derive(Debug, Default)]
pub struct RecentEvents {
    marked_at: Option<Nanos>,
    wrote_at: Option<Nanos>,
}

impl RecentEvents {
    /// Notes the result of a look: marks or other signs of congestion, and data that the host has
    /// sent or will be asked for.
    pub fn see(&mut self, now: Nanos, marked: bool, writes: bool) {
        for (at, seen) in [(&mut self.marked_at, marked), (&mut self.wrote_at, writes)] {
            if seen {
                *at = Some(now);
            }
        }
    }

    /// Returns whether there were signs of congestion within [`REST`].
    #[must_use]
    pub fn is_congested(&self, now: Nanos) -> bool {
        is_recent(self.marked_at, now)
    }

    /// Returns whether the host has written within [`REST`].
    #[must_use]
    pub fn is_written_to(&self, now: Nanos) -> bool {
        is_recent(self.wrote_at, now)
    }

    /// Returns the answers that the connection hands over at once when it sends at this rate. On a
    /// full link, the next requests to a writing host would wait behind whole answers. Otherwise
    /// whole answers keep the link busy while this machine is late.
    #[must_use]
    pub fn answers(&self, now: Nanos, rate: Rate) -> Answers {
        if self.is_congested(now) && self.is_written_to(now) {
            Answers::Pieces(rate)
        } else {
            Answers::Whole(rate)
        }
    }
}

fn is_recent(at: Option<Nanos>, now: Nanos) -> bool {
    at.is_some_and(|at| now.since(at) < REST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_to_writer_over_full_link_are_split() {
        let rate = Rate::new(1e6);
        let now = Nanos(1_000_000_000);
        let rests = now + REST;
        for (marked, writes) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut lately = RecentEvents::default();
            lately.see(now, marked, writes);
            lately.see(now, false, false);
            assert_eq!(lately.is_congested(now), marked);
            assert!(!lately.is_congested(rests));
            let pieces = |now| matches!(lately.answers(now, rate), Answers::Pieces(_));
            assert_eq!(pieces(now), marked && writes, "marks: {marked}, writes: {writes}");
            assert!(!pieces(rests), "a second later");
        }
    }
}
