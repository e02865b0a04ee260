//! The R2T pacer: asks a host for data no faster than it may send it.
//!
//! An unmodified host sends no more data than was requested, so the rate of R2Ts is the rate of its connection on
//! the network. One R2T requests a part of a command's data; the next one is due when all of that part has arrived,
//! and the token bucket is not in debt. A command with a part of its data comes before a new one: its buffer is
//! free sooner, and the device sees neighbouring blocks together. Classes take turns by their weights.

use std::collections::VecDeque;
use std::time::Duration;

use arbitration::{Class, PerClass};
use fabric::Nanos;
use fabric::queue::SlotId;
use qtcp::pacing::Pacing;

use super::fairness::Fairness;
use super::tokens::{Tokens, bytes_in};

/// Minimum time that one R2T covers, in ns: short ones spread a host's bursts, long ones keep its commands
/// together. If the round trip is longer, an R2T covers the round trip: a host with one command gets one R2T in
/// each.
const R2T_NS: u64 = 4_000_000;
/// The longest time that one R2T is for, in ns. While a host owes data or waits to be asked, tokens
/// of this time are kept: the host was not idle, and a late thread must not cost it its part.
const LATE_NS: u64 = 50_000_000;
/// The smallest R2T in bytes, but for the end of a command's data.
const R2T_MIN: u64 = 16 << 10;

/// The data that one connection's host has not been asked for yet.
#[derive(Debug)]
pub(crate) struct R2tPacer {
    /// Bytes that may be asked for now.
    tokens: Tokens,
    /// Whether a rate was set when tokens were last counted.
    limited: bool,
    /// Whether there was something to ask for all the time since tokens were last counted.
    waited: bool,
    /// Commands of which a part has come.
    begun: PerClass<VecDeque<SlotId>>,
    /// Commands of which nothing was asked for, with their bytes.
    fresh: PerClass<VecDeque<(SlotId, u32)>>,
    fresh_bytes: PerClass<u64>,
    fairness: Fairness,
    count: usize,
    /// Whether the reactor's agenda has the connection.
    listed: bool,
}

/// The command whose data comes next.
#[derive(Debug)]
pub(crate) enum Next {
    /// Part of the command's data has come.
    Begun(SlotId),
    /// Nothing was asked for, with the command's bytes.
    Fresh(SlotId, u32),
}

/// The next step of the pacer's caller.
#[derive(Debug)]
pub(crate) enum Turn {
    /// An R2T for a command of this class is due: send it, and [`R2tPacer::charge`] it.
    R2t(Class, Next),
    /// Nothing is due before this time.
    Later(Nanos),
    /// Nothing waits to be asked for.
    Idle,
}

impl R2tPacer {
    pub(crate) fn new(now: Nanos) -> Self {
        Self {
            tokens: Tokens::new(now),
            limited: false,
            waited: false,
            begun: PerClass::default(),
            fresh: PerClass::default(),
            fresh_bytes: PerClass::default(),
            fairness: Fairness::default(),
            count: 0,
            listed: false,
        }
    }

    /// Returns the number of bytes of a class that were not asked for; at least 1 where a command
    /// was begun.
    pub(crate) fn waiting_bytes(&self, class: Class) -> u64 {
        // The transport knows the rest of begun commands: one byte stands for all of them here, so that the class
        // counts as waiting.
        self.fresh_bytes[class] + u64::from(!self.begun[class].is_empty())
    }

    /// Returns whether a new command has to wait for its turn.
    #[inline]
    pub(crate) fn is_needed(&mut self, pacing: &Pacing) -> bool {
        let is_limited = pacing.r2t_rate().is_some();
        self.limited &= is_limited;
        is_limited || self.count > 0
    }

    /// Notes that the reactor's agenda has the connection. Returns whether the agenda had it
    /// before.
    pub(crate) fn list(&mut self) -> bool {
        std::mem::replace(&mut self.listed, true)
    }

    /// Returns the next step; `busy` where the host owes data that it was asked for.
    pub(crate) fn pull(&mut self, now: Nanos, pacing: &Pacing, busy: bool) -> Turn {
        let rate = pacing.r2t_rate();
        self.limited &= rate.is_some();
        if self.count > 0
            && let Some(rate) = rate
        {
            if !std::mem::replace(&mut self.limited, true) {
                // The host was not limited until now: it waited for no tokens.
                self.tokens = Tokens::new(now);
            }
            self.refill(now, rate, pacing.rtt(), busy);
            if let Some(due) = self.tokens.due(now, rate) {
                self.waited = true;
                return Turn::Later(due);
            }
        }
        match self.pop() {
            Some((class, next)) => Turn::R2t(class, next),
            None => {
                self.listed = false;
                Turn::Idle
            }
        }
    }

    /// Charges the data that a host was asked for to its class and to the connection.
    pub(crate) fn charge(&mut self, pacing: &Pacing, class: Class, weight: u64, bytes: u32) {
        self.fairness.spend(class, u64::from(bytes), weight);
        if pacing.r2t_rate().is_some() {
            self.tokens.take(u64::from(bytes));
        }
    }

    /// Returns the number of commands of which a part has come: their hosts owe nothing.
    pub(crate) fn begun(&self) -> usize {
        self.begun.iter().map(|(_, begun)| begun.len()).sum()
    }

    /// Adds a command of which nothing was asked for.
    pub(crate) fn push_fresh(&mut self, class: Class, slot: SlotId, bytes: u32) {
        self.join(class);
        self.fresh[class].push_back((slot, bytes));
        self.fresh_bytes[class] += u64::from(bytes);
    }

    /// Adds a command again: its host has sent all requested data, and there is more.
    pub(crate) fn push_begun(&mut self, class: Class, slot: SlotId) {
        self.join(class);
        self.begun[class].push_back(slot);
    }

    fn join(&mut self, class: Class) {
        if self.fresh[class].is_empty() && self.begun[class].is_empty() {
            self.fairness.join(class);
        }
        self.count += 1;
    }

    /// Adds the tokens of the time since they were last counted: of no more than one R2T, unless
    /// the host waited to be asked or owed data (`busy`). A debt from a time of a higher rate
    /// counts as no more than one R2T at the present rate.
    fn refill(&mut self, now: Nanos, rate: u64, rtt: Duration, busy: bool) {
        let most = r2t(rate, rtt);
        let waited = std::mem::take(&mut self.waited);
        let late = if busy || waited { bytes_in(rate, LATE_NS) } else { 0 };
        self.tokens.refill(now, rate, most.max(late), most);
    }

    fn pop(&mut self) -> Option<(Class, Next)> {
        let Self { begun, fresh, .. } = self;
        let class = self.fairness.next(|c| !begun[c].is_empty() || !fresh[c].is_empty())?;
        self.count -= 1;
        if let Some(slot) = self.begun[class].pop_front() {
            return Some((class, Next::Begun(slot)));
        }
        let (slot, bytes) = self.fresh[class].pop_front()?;
        self.fresh_bytes[class] = self.fresh_bytes[class].saturating_sub(u64::from(bytes));
        Some((class, Next::Fresh(slot, bytes)))
    }

    /// Forgets a command.
    pub(crate) fn forget(&mut self, slot: SlotId) {
        for class in Class::ALL {
            let before = self.fresh[class].len() + self.begun[class].len();
            let bytes = &mut self.fresh_bytes[class];
            self.fresh[class].retain(|(other, length)| {
                let keep = *other != slot;
                *bytes -= if keep { 0 } else { u64::from(*length).min(*bytes) };
                keep
            });
            self.begun[class].retain(|other| *other != slot);
            self.count -= before - self.fresh[class].len() - self.begun[class].len();
        }
    }
}

/// Returns the bytes of one R2T, where the host may not be asked for all of a command's data at
/// once.
pub(crate) fn r2t_bytes(pacing: &Pacing) -> Option<u32> {
    let bytes = r2t(pacing.r2t_rate()?, pacing.rtt());
    Some(u32::try_from(bytes).unwrap_or(u32::MAX))
}

/// Returns the bytes of one R2T at a rate in bytes per second: whole 4 KiB.
fn r2t(rate: u64, rtt: Duration) -> u64 {
    let rtt = u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX);
    bytes_in(rate, rtt.clamp(R2T_NS, LATE_NS)).max(R2T_MIN) & !4095
}

#[cfg(test)]
mod tests {
    use arbitration::settings::OrderSettings;

    use super::*;
    use crate::network::fairness::weight;

    const RTT: Duration = Duration::from_micros(500);

    #[test]
    fn f5_grants_are_batches_that_keep_the_rate() {
        let rate = 4_000_000;
        assert_eq!(r2t(rate, RTT), 16 << 10, "no less than keeps commands together");
        assert_eq!(r2t(1_000_000_000, RTT) % 4096, 0);
        assert!(r2t(1_000_000_000, RTT) > 3 << 20);
        let mut pacer = R2tPacer::new(Nanos(0));
        let (mut now, mut granted) = (Nanos(0), 0_u64);
        while now.0 < 10_000_000_000 {
            pacer.refill(now, rate, RTT, false);
            if let Some(due) = pacer.tokens.due(now, rate) {
                now = due;
                continue;
            }
            pacer.tokens.take(16 << 10);
            granted += 16 << 10;
        }
        let off = granted.abs_diff(10 * rate);
        assert!(off < 64 << 10, "{off} bytes off in ten seconds");
    }

    #[test]
    fn f5_the_rate_holds_however_often_it_is_looked_at() {
        let (rate, mut pacer) = (100_000, R2tPacer::new(Nanos(0)));
        pacer.refill(Nanos(1_000_000_000), rate, RTT, false);
        pacer.tokens.take(16 << 10);
        // A refill every 15 us adds one and a half bytes.
        let times = (0..10_000).map(|turn| Nanos(1_000_000_000 + turn * 15_000));
        times.for_each(|now| pacer.refill(now, rate, RTT, false));
        let left = pacer.tokens.bytes();
        assert!((14_990..=15_000).contains(&left), "{left} of 15000 bytes");
    }

    #[test]
    fn f5_a_debt_of_a_faster_time_is_no_more_than_a_grant() {
        let mut pacer = R2tPacer::new(Nanos(0));
        pacer.refill(Nanos(1), 1_000_000_000, RTT, false);
        pacer.tokens.take(1 << 20);
        let rate = 14_000;
        pacer.refill(Nanos(1_000_000), rate, RTT, false);
        let wait = pacer.tokens.due(Nanos(1_000_000), rate).unwrap().0 - 1_000_000;
        assert!(wait <= 1_300_000_000, "{wait} ns, for 16 KiB in 1.2 s");
    }

    #[test]
    fn f5_no_class_is_starved_of_what_it_may_be_asked_for() {
        let mut pacer = R2tPacer::new(Nanos(0));
        let mut asked = PerClass::<u32>::default();
        let order = OrderSettings::default();
        let classes = [Class::Low, Class::Medium, Class::High].into_iter();
        classes.for_each(|class| pacer.push_begun(class, SlotId(0)));
        for _ in 0..60 {
            let (class, _) = pacer.pop().unwrap();
            asked[class] += 1;
            pacer.fairness.spend(class, 16 << 10, weight(&order, class));
            pacer.push_begun(class, SlotId(0));
        }
        assert_eq!((asked.high, asked.medium, asked.low), (30, 20, 10));
        pacer.push_fresh(Class::Urgent, SlotId(9), 4096);
        assert_eq!(pacer.pop().unwrap().0, Class::Urgent, "before all that waits");
    }

    /// A host that owes data and was not limited before has waited for no tokens when its limit begins.
    #[test]
    fn f5_a_rate_holds_from_when_it_is_set() {
        const PIECE: u64 = 256 << 10;
        let (pacing, mut pacer) = (Pacing::default(), R2tPacer::new(Nanos(0)));
        // Twice: the second time after the rate was lifted.
        for from in [1_000_000_000_u64, 3_000_000_000] {
            assert!(!pacer.is_needed(&pacing), "no rate is set");
            pacing.set_r2t_rate(Some(1_000_000_000));
            let (mut asked, mut now) = (0_u64, from);
            while now < from + 20_000_000 {
                pacer.push_fresh(Class::Medium, SlotId(0), 262_144);
                match pacer.pull(Nanos(now), &pacing, true) {
                    Turn::R2t(class, _) => {
                        pacer.charge(&pacing, class, 1, 262_144);
                        asked += PIECE;
                    }
                    Turn::Later(due) => {
                        pacer.forget(SlotId(0));
                        now = due.0;
                    }
                    Turn::Idle => panic!("a command waits"),
                }
            }
            assert!(asked.abs_diff(20_000_000) <= 2 * PIECE, "{asked} bytes in 20 ms");
            pacing.set_r2t_rate(None);
        }
    }

    #[test]
    fn f5_one_command_has_its_rate_on_a_long_way() {
        let rtt = Duration::from_millis(20);
        assert!(r2t(4_000_000, rtt) >= 76_000, "a round trip's worth");
        assert!(r2t(4_000_000, Duration::from_secs(1)) <= 200_000, "but no more than 50 ms");
    }
}
