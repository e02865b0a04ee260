//! Asking hosts for data (R2T) no faster than they may send it.
//!
//! An unmodified host sends no more data than it was asked for: so what its connection may have of
//! the network is what it is asked for in a time. A grant is a batch of a command's data; the next
//! one is due when all of it has come, and when the bucket of tokens is not in debt. Data of a
//! command that was begun comes before that of the next one: its buffer is free the sooner, and
//! the device sees neighbours together. Classes take turns by their weights.

use std::collections::VecDeque;
use std::time::Duration;

use arbitration::{Class, PerClass};
use fabric::Nanos;
use fabric::queue::{SlotId, Transport as _};

use crate::commands::State;
use crate::connection::Connection;
use crate::context::Context;
use crate::driver::Driver;
use crate::turns::{Turns, weight};

/// The time for which one grant is at least, in ns: smaller grants spread a host's bursts, larger
/// ones keep its commands together. Where a round trip takes longer, it is for that: a host with
/// one command has one grant in a round trip.
const GRANT_NS: u64 = 4_000_000;
/// A grant is for no longer than this, in ns. While a host is waited for or waits, tokens of so
/// much time are kept: it was not idle, and a thread that is late is not to cost it its part.
const LATE_NS: u64 = 50_000_000;
/// One second, in ns.
const SECOND: u64 = 1_000_000_000;
/// The smallest grant, in bytes, but for the end of a command's data.
const GRANT_MIN: u64 = 16 << 10;

/// What one connection's host is still to be asked for.
#[derive(Debug)]
pub(crate) struct Asks {
    /// Bytes that may be asked for now; a debt where more was.
    tokens: i64,
    /// When they were last counted.
    at: Nanos,
    /// There was something to ask for all the time since.
    waited: bool,
    /// Commands of which a part has come.
    begun: PerClass<VecDeque<SlotId>>,
    /// Commands of which nothing was asked for: their bytes too.
    fresh: PerClass<VecDeque<(SlotId, u32)>>,
    fresh_bytes: PerClass<u64>,
    turns: Turns,
    count: usize,
    /// It is in the reactor's list of connections that have something to ask for.
    pub(crate) listed: bool,
}

/// What is next.
enum Next {
    Begun(SlotId),
    Fresh(SlotId, u32),
}

impl Asks {
    pub(crate) fn new(now: Nanos) -> Self {
        Self {
            tokens: 0,
            at: now,
            waited: false,
            begun: PerClass::default(),
            fresh: PerClass::default(),
            fresh_bytes: PerClass::default(),
            turns: Turns::default(),
            count: 0,
            listed: false,
        }
    }

    /// Bytes of a class that were not asked for.
    pub(crate) fn waiting_bytes(&self, class: Class) -> u64 {
        self.fresh_bytes[class] + self.begun[class].len() as u64
    }

    /// Commands of which a part has come: their hosts owe nothing.
    pub(crate) fn begun(&self) -> usize {
        self.begun.iter().map(|(_, begun)| begun.len()).sum()
    }

    pub(crate) fn push_fresh(&mut self, class: Class, slot: SlotId, bytes: u32) {
        self.join(class);
        self.fresh[class].push_back((slot, bytes));
        self.fresh_bytes[class] += u64::from(bytes);
    }

    fn push_begun(&mut self, class: Class, slot: SlotId) {
        self.join(class);
        self.begun[class].push_back(slot);
    }

    fn join(&mut self, class: Class) {
        if self.fresh[class].is_empty() && self.begun[class].is_empty() {
            self.turns.join(class);
        }
        self.count += 1;
    }

    /// Adds the tokens of the time since they were last counted: of no more than one grant, unless
    /// the host was waiting, or waited for (`busy`). A debt of a faster time is no more than one
    /// grant of the present one.
    fn refill(&mut self, now: Nanos, rate: u64, rtt: Duration, busy: bool) {
        let most = i64::try_from(grant(rate, rtt)).unwrap_or(i64::MAX);
        let waited = std::mem::take(&mut self.waited);
        let late = if busy || waited { bytes_in(rate, LATE_NS) } else { 0 };
        let kept = most.max(i64::try_from(late).unwrap_or(i64::MAX));
        let nanos = now.0.saturating_sub(self.at.0).min(SECOND);
        let parts = u128::from(rate) * u128::from(nanos);
        let new = i64::try_from(parts / u128::from(SECOND)).unwrap_or(i64::MAX);
        if new > 0 {
            // What is less than a byte stays for the next time.
            let rest = parts % u128::from(SECOND) / u128::from(rate.max(1));
            self.at = Nanos(now.0.saturating_sub(u64::try_from(rest).unwrap_or(0)));
            self.tokens = self.tokens.saturating_add(new).min(kept);
        }
        self.tokens = self.tokens.max(-most);
    }

    /// When the bucket is out of debt.
    fn due(&self, now: Nanos, rate: u64) -> Nanos {
        let debt = u128::from(self.tokens.unsigned_abs());
        let nanos = debt * u128::from(SECOND) / u128::from(rate.max(1)) + 1;
        Nanos(now.0.saturating_add(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    fn charge(&mut self, bytes: u32) {
        self.tokens = self.tokens.saturating_sub(i64::from(bytes));
    }

    fn pop(&mut self) -> Option<(Class, Next)> {
        let Self { begun, fresh, .. } = self;
        let class = self.turns.next(|c| !begun[c].is_empty() || !fresh[c].is_empty())?;
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

/// The bytes of one grant at a rate in bytes per second: whole 4 KiB.
fn grant(rate: u64, rtt: Duration) -> u64 {
    let rtt = u64::try_from(rtt.as_nanos()).unwrap_or(u64::MAX);
    bytes_in(rate, rtt.clamp(GRANT_NS, LATE_NS)).max(GRANT_MIN) & !4095
}

/// What a rate in bytes per second is in a time in ns.
fn bytes_in(rate: u64, nanos: u64) -> u64 {
    u64::try_from(u128::from(rate) * u128::from(nanos) / u128::from(SECOND)).unwrap_or(u64::MAX)
}

impl<D: Driver> Connection<D> {
    /// The bytes of one grant, where the host may not be asked for all of a command's data at
    /// once.
    fn grant_size(&self) -> Option<u32> {
        let flow = &self.net.as_ref()?.flow;
        let bytes = grant(flow.grant_rate()?, flow.rtt());
        Some(u32::try_from(bytes).unwrap_or(u32::MAX))
    }

    /// A command's data is to be asked for when its turn has come; false where it need not wait.
    #[inline]
    pub(crate) fn wait_to_ask(&mut self, io: &mut Context<D>, slot: SlotId, bytes: usize) -> bool {
        let Some(net) = &mut self.net else { return false };
        if net.flow.grant_rate().is_none() && net.asks.count == 0 {
            return false;
        }
        let class = self.commands.charged(slot).class;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        net.wait(|asks| asks.push_fresh(class, slot, bytes));
        self.commands.change(slot, State::R2tTurn);
        self.list_asks(io);
        true
    }

    /// All that a command's host was asked for has come, and there is more.
    pub(crate) fn grant_end(&mut self, io: &mut Context<D>, slot: SlotId) {
        let class = self.commands.charged(slot).class;
        let Some(net) = &mut self.net else { return };
        net.wait(|asks| asks.push_begun(class, slot));
        self.list_asks(io);
    }

    fn list_asks(&mut self, io: &mut Context<D>) {
        if let Some(net) = &mut self.net
            && !std::mem::replace(&mut net.asks.listed, true)
        {
            io.asking.push(self.key);
            io.next_ask = io.now;
        }
    }

    /// Asks for what may be asked for now; when there may be more, if there is more.
    pub(crate) fn ask(&mut self, io: &mut Context<D>) -> Option<Nanos> {
        loop {
            if self.net.as_ref()?.asks.count == 0 || self.is_closing() {
                break;
            }
            let net = self.net.as_mut()?;
            if let Some(rate) = net.flow.grant_rate() {
                let (rtt, busy) = (net.flow.rtt(), net.is_owed());
                net.asks.refill(io.now, rate, rtt, busy);
                if net.asks.tokens < 0 {
                    net.asks.waited = true;
                    return Some(net.asks.due(io.now, rate));
                }
            }
            let (class, next) = net.asks.pop()?;
            let most = self.grant_size().unwrap_or(u32::MAX);
            let bytes = match next {
                Next::Begun(slot) => {
                    // It owed nothing while it was not asked.
                    self.heard = io.now;
                    let asked = self.protocol.grant(slot, most);
                    self.net.as_mut()?.asked(class, asked);
                    asked
                }
                Next::Fresh(slot, bytes) => {
                    self.fetch(io, slot, bytes as usize);
                    bytes.min(most)
                }
            };
            self.charge(io, class, bytes);
            self.mark_dirty(io);
        }
        let net = self.net.as_mut()?;
        net.asks.listed = false;
        None
    }

    fn charge(&mut self, io: &Context<D>, class: Class, bytes: u32) {
        let Some(net) = &mut self.net else { return };
        net.asks.turns.spend(class, u64::from(bytes), weight(io, class));
        if net.flow.grant_rate().is_some() {
            net.asks.charge(bytes);
        }
    }

    /// A command that waited to be asked for its data goes on: to the memory for it.
    fn fetch(&mut self, io: &mut Context<D>, slot: SlotId, bytes: usize) {
        if !matches!(self.commands.state(slot), State::R2tTurn) {
            return;
        }
        // Settings may have changed while it waited, and its place among the stages with them.
        let sqe = *self.protocol.sqe_of(slot);
        self.charged_now(io, slot, &sqe);
        self.wait_for_memory(io, slot, bytes);
    }

    /// Asks for a command's data, for which there is a buffer: all of it, or a first grant.
    pub(crate) fn request(&mut self, io: &Context<D>, slot: SlotId, bytes: u32) {
        let class = self.commands.charged(slot).class;
        // It owes nothing before it is asked.
        self.heard = io.now;
        let asked = match self.grant_size() {
            Some(most) if most < bytes => {
                self.protocol.fetch_metered(slot, bytes);
                self.protocol.grant(slot, most)
            }
            _ => {
                self.protocol.fetch(slot, bytes);
                bytes
            }
        };
        if let Some(net) = &mut self.net {
            net.asked(class, asked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_micros(500);

    #[test]
    fn f5_grants_are_batches_that_keep_the_rate() {
        let rate = 4_000_000;
        assert_eq!(grant(rate, RTT), 16 << 10, "no less than keeps commands together");
        assert_eq!(grant(1_000_000_000, RTT) % 4096, 0);
        assert!(grant(1_000_000_000, RTT) > 3 << 20);
        let mut asks = Asks::new(Nanos(0));
        let (mut now, mut granted) = (Nanos(0), 0_u64);
        while now.0 < 10_000_000_000 {
            asks.refill(now, rate, RTT, false);
            if asks.tokens < 0 {
                now = asks.due(now, rate);
                continue;
            }
            asks.charge(16 << 10);
            granted += 16 << 10;
        }
        let off = granted.abs_diff(10 * rate);
        assert!(off < 64 << 10, "{off} bytes off in ten seconds");
    }

    #[test]
    fn f5_tokens_are_not_saved_up() {
        let mut asks = Asks::new(Nanos(0));
        asks.refill(Nanos(60_000_000_000), 4_000_000, RTT, false);
        assert_eq!(asks.tokens, 16 << 10);
    }

    #[test]
    fn f5_the_rate_holds_however_often_it_is_looked_at() {
        let (rate, mut asks) = (100_000, Asks::new(Nanos(0)));
        asks.refill(Nanos(1_000_000_000), rate, RTT, false);
        asks.charge(16 << 10);
        // Every 15 us: one and a half bytes each time.
        for turn in 0..10_000_u64 {
            asks.refill(Nanos(1_000_000_000 + turn * 15_000), rate, RTT, false);
        }
        assert!((14_990..=15_000).contains(&asks.tokens), "{} of 15000 bytes", asks.tokens);
    }

    #[test]
    fn f5_a_debt_of_a_faster_time_is_no_more_than_a_grant() {
        let mut asks = Asks::new(Nanos(0));
        asks.refill(Nanos(1), 1_000_000_000, RTT, false);
        asks.charge(1 << 20);
        let rate = 14_000;
        asks.refill(Nanos(1_000_000), rate, RTT, false);
        let wait = asks.due(Nanos(1_000_000), rate).0 - 1_000_000;
        assert!(wait <= 1_300_000_000, "{wait} ns, for 16 KiB in 1.2 s");
    }

    #[test]
    fn f5_no_class_is_starved_of_what_it_may_be_asked_for() {
        let mut asks = Asks::new(Nanos(0));
        let mut asked = PerClass::<u32>::default();
        let weight = |class| match class {
            Class::High => 3,
            Class::Medium => 2,
            _ => 1,
        };
        for class in [Class::Low, Class::Medium, Class::High] {
            asks.push_begun(class, SlotId(0));
        }
        for _ in 0..60 {
            let (class, _) = asks.pop().unwrap();
            asked[class] += 1;
            asks.turns.spend(class, 16 << 10, weight(class));
            asks.push_begun(class, SlotId(0));
        }
        assert_eq!((asked.high, asked.medium, asked.low), (30, 20, 10));
        asks.push_fresh(Class::Urgent, SlotId(9), 4096);
        assert_eq!(asks.pop().unwrap().0, Class::Urgent, "before all that waits");
    }

    #[test]
    fn a_command_that_is_withdrawn_is_not_asked_for() {
        let mut asks = Asks::new(Nanos(0));
        for slot in 0..4 {
            asks.push_fresh(Class::High, SlotId(slot), 1000);
        }
        asks.forget(SlotId(2));
        assert_eq!((asks.count, asks.waiting_bytes(Class::High)), (3, 3000));
        let mut left = Vec::new();
        while let Some((_, Next::Fresh(slot, _))) = asks.pop() {
            left.push(slot.0);
        }
        assert_eq!((left, asks.count), (vec![0, 1, 3], 0));
    }

    #[test]
    fn f5_a_late_thread_costs_a_waiting_host_nothing() {
        let (rate, mut asks, mut granted) = (4_000_000, Asks::new(Nanos(0)), 0_u64);
        // It comes every 20 ms, for grants of 4 ms.
        for turn in 1..=500_u64 {
            let now = Nanos(turn * 20_000_000);
            loop {
                asks.refill(now, rate, RTT, false);
                if asks.tokens < 0 {
                    asks.waited = true;
                    break;
                }
                asks.charge(16 << 10);
                granted += 16 << 10;
            }
        }
        assert!(granted.abs_diff(10 * rate) < rate / 10, "{granted} bytes in ten seconds");
    }

    #[test]
    fn f5_one_command_has_its_rate_on_a_long_way() {
        let rtt = Duration::from_millis(20);
        assert!(grant(4_000_000, rtt) >= 76_000, "a round trip's worth");
        assert!(grant(4_000_000, Duration::from_secs(1)) <= 200_000, "but no more than 50 ms");
    }
}
