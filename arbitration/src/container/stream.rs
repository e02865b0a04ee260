//! The containers of one stream: how large they are, and until when the present one may take.

use units::Nanos;

use super::predictor::Predictor;

/// Longest time, in ns after its container began, to which a deadline is put off: well before a
/// Linux host would give a command up (30 s).
const LONGEST: u64 = 5_000_000_000;

/// Most requests with which a stream that came late catches up.
const ARREARS: u64 = 8;

/// The stream's present container, as it is expected to be (docs/research/sources.md, I2: containers are
/// predicted).
#[derive(Clone, Copy, Debug)]
struct Expected {
    /// Requests whose deadlines are postponed to the deadline of the last of them: two thirds of
    /// the container. The rest is the safety zone, should the container turn out smaller.
    assumed: u64,
    /// Time from the container's beginning to the deadline of the last of those, in ns.
    together: u64,
}

/// The history of a stream (docs/research/sources.md, I1, I2).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stream {
    /// Requests in a container.
    size: Predictor,
    /// Time from a container's beginning to the deadline of its last request, divided by the number
    /// of its requests, in ns.
    allowed: Predictor,
    expected: Option<Expected>,
    /// Time at which the container began; `None` before its first request.
    begun: Option<Nanos>,
    /// Number of the container's requests that were chosen so far.
    served: u64,
    /// Deadline of the request that was chosen last.
    last_deadline: Nanos,
    /// Time from which the next request's latency counts, if that request came earlier.
    turn: Nanos,
    /// Requests that wait.
    pub(super) waiting: u32,
}

impl Stream {
    /// Takes note that a request came.
    pub(super) fn entered(&mut self, now: Nanos) {
        self.waiting += 1;
        self.begun.get_or_insert(now);
    }

    /// Takes note that a request left without being served.
    pub(super) fn left(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
    }

    /// Takes note that a request of this deadline and allowed latency was chosen.
    pub(super) fn chosen(&mut self, now: Nanos, deadline: Nanos, latency: u64) {
        let earliest = Nanos(now.0.saturating_sub(latency.saturating_mul(ARREARS)));
        self.last_deadline = self.own(deadline, latency);
        self.turn = self.due(deadline, latency).min(now).max(earliest);
        self.served += 1;
        self.left();
    }

    /// Ends the container at an output, and learns from the container unless it had no requests.
    pub(super) fn output(&mut self, now: Nanos) {
        if let Some(begun) = self.begun.filter(|_| self.served > 0) {
            self.size.add(self.served);
            self.allowed.add(self.last_deadline.ns_since(begun).min(LONGEST));
            self.expect();
        }
        self.begun = (self.waiting > 0).then_some(now);
        self.served = 0;
    }

    fn expect(&mut self) {
        let (Some(size), Some(whole)) = (self.size.mean(), self.allowed.mean()) else { return };
        let assumed = size * 2 / 3;
        let together = whole.saturating_mul(assumed).checked_div(size).unwrap_or(0);
        self.expected = Some(Expected { assumed, together });
    }

    /// Returns the time by which the next request has to be done, whose own deadline and allowed
    /// latency these are.
    ///
    /// The first requests of a container share the deadline of the last of them. Those after them
    /// keep their own, but a stream that got more than one request for each of its allowed
    /// latencies since the container began has that to its credit until the container ends: the
    /// container is the unit in which service is promised.
    pub(super) fn due(&self, deadline: Nanos, latency: u64) -> Nanos {
        let own = self.own(deadline, latency);
        let (Some(expected), Some(begun)) = (self.expected, self.begun) else { return own };
        let credit = latency.saturating_mul(self.served).min(LONGEST);
        let together = match self.served < expected.assumed {
            // The time in which this many requests were promised is the bound.
            true => expected.together.min(latency.saturating_mul(expected.assumed)),
            false => 0,
        };
        own.max(begun.after(credit.max(together)))
    }

    /// Returns the number of requests that have to be done by the time that the next one is due.
    pub(super) fn needed(&self) -> u32 {
        let assumed = self.expected.map_or(0, |expected| expected.assumed);
        let left = u32::try_from(assumed.saturating_sub(self.served)).unwrap_or(u32::MAX);
        left.max(1).min(self.waiting)
    }

    /// Returns the expected number of requests in a container; 0 before the first output.
    pub(super) fn size(&self) -> u64 {
        self.size.mean().unwrap_or(0)
    }

    /// Returns whether the next request shares its deadline with others, so that any of them may be
    /// next.
    pub(super) fn is_together(&self) -> bool {
        self.expected.is_some_and(|expected| self.served < expected.assumed)
    }

    /// Returns a request's deadline, counted from when the request before it was served, or was due
    /// if that was earlier. With more in flight than the latency allows for, deadlines counted from
    /// the arrival are past before anything can be done about them, and say nothing; "20 ms" is
    /// then the same as "50 in a second".
    fn own(&self, deadline: Nanos, latency: u64) -> Nanos {
        deadline.max(self.turn.after(latency))
    }
}
