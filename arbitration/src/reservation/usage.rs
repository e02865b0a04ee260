//! The use of a device beside reservations: the cost of the bound on its window.

use units::Nanos;

use super::tally::Tally;

/// The length of a span as a power of two of ns: about a second.
const SPAN_SHIFT: u32 = 30;

/// The device time of the commands that were carried out, by spans of about a second.
#[derive(Debug, Default)]
pub(crate) struct Use {
    /// Device time in ns, in even and in odd spans.
    times: [Tally; 2],
    /// The longest time of a command in the device, in even and in odd spans.
    longest: [Tally; 2],
}

const fn span(now: Nanos) -> u64 {
    // Spans are numbered from 1 on.
    (now.0 >> SPAN_SHIFT) + 1
}

fn tally_of(tallies: &[Tally; 2], span: u64) -> &Tally {
    let [even, odd] = tallies;
    if span.is_multiple_of(2) { even } else { odd }
}

impl Use {
    /// Counts a command that is complete.
    pub(crate) fn add(&self, now: Nanos, device_time: u64) {
        tally_of(&self.times, span(now)).add(span(now), device_time);
    }

    /// Takes note of a command that enters the device, where it takes this long.
    pub(crate) fn note_length(&self, now: Nanos, in_device: u64) {
        tally_of(&self.longest, span(now)).raise(span(now), in_device);
    }

    /// Computes the part of its time for which the device was busy in the latest whole span, 0 to 1.
    pub(crate) fn busy(&self, now: Nanos) -> f64 {
        let before = span(now) - 1;
        let used = tally_of(&self.times, before).used_in(before);
        (used as f64 / (1_u64 << SPAN_SHIFT) as f64).min(1.0)
    }

    /// Returns the longest time of a command in the device, in ns, in this span and the one before.
    pub(crate) fn longest(&self, now: Nanos) -> u64 {
        let [this, before] = [span(now), span(now) - 1];
        let of = |span: u64| tally_of(&self.longest, span).used_in(span);
        of(this).max(of(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f3_busy_time_uses_latest_whole_span() {
        let (used, second) = (Use::default(), 1 << SPAN_SHIFT);
        for span in 0..4 {
            let now = Nanos(span * second);
            let before = if span == 0 { 0.0 } else { 0.5 };
            assert_eq!(used.busy(now), before, "span {span}");
            used.add(now, second / 4);
            used.note_length(now, 1000 - span);
            used.add(now, second / 4);
        }
        assert_eq!(used.busy(Nanos(6 * second)), 0.0);
        assert_eq!([3, 4, 5].map(|at| used.longest(Nanos(at * second))), [998, 997, 0]);
    }
}
