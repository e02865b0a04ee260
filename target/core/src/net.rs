//! What a connection's reactor does for stage S6: counts what moves for each class, keeps answers
//! back while they are limited so that they leave in the order of their classes, and asks hosts for
//! data no faster than they may send it (docs/sources.md, E7, F5).

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

use arbitration::{Class, PerClass};
use fabric::Nanos;
use fabric::queue::{Payload as _, SlotId, Transport as _};
use qtcp::pacing::Pacing;

use crate::asks::Asks;
use crate::connection::{Connection, Stage};
use crate::context::Context;
use crate::driver::{Buffer, Driver};
use crate::payload::TxData;
use crate::turns::{Turns, weight};

/// While answers are limited, no more than this is handed to the kernel at once, in bytes: what is
/// handed over has its place in the stream.
const BATCH: usize = 64 << 10;

/// One connection's side of it.
#[derive(Debug)]
pub(crate) struct Net<B> {
    pub(crate) flow: Arc<Pacing>,
    /// Bytes of data handed to the kernel, or received; and bytes that hosts were asked for and
    /// still owe.
    out: PerClass<u64>,
    into: PerClass<u64>,
    owed: PerClass<u64>,
    answers: Answers<B>,
    pub(crate) asks: Asks,
    /// Something changed that the poller does not know yet.
    changed: bool,
}

/// Answers with data that wait.
#[derive(Debug)]
struct Answers<B> {
    waiting: PerClass<VecDeque<(SlotId, TxData<B>)>>,
    bytes: PerClass<u64>,
    turns: Turns,
    count: usize,
}

impl<B> Default for Answers<B> {
    fn default() -> Self {
        Self {
            waiting: PerClass::from_fn(|_| VecDeque::new()),
            bytes: PerClass::default(),
            turns: Turns::default(),
            count: 0,
        }
    }
}

impl<B: Deref<Target = [u8]>> Answers<B> {
    fn push(&mut self, class: Class, slot: SlotId, data: TxData<B>) {
        if self.waiting[class].is_empty() {
            self.turns.join(class);
        }
        self.bytes[class] += data.bytes().len() as u64;
        self.count += 1;
        self.waiting[class].push_back((slot, data));
    }

    /// The next answer.
    fn pop(&mut self, weight: impl Fn(Class) -> u64) -> Option<(Class, SlotId, TxData<B>)> {
        let waiting = &self.waiting;
        let class = self.turns.next(|class| !waiting[class].is_empty())?;
        let (slot, data) = self.waiting[class].pop_front()?;
        let bytes = data.bytes().len() as u64;
        self.bytes[class] = self.bytes[class].saturating_sub(bytes);
        self.turns.spend(class, bytes, weight(class));
        self.count -= 1;
        Some((class, slot, data))
    }
}

impl<B: Deref<Target = [u8]>> Net<B> {
    fn new(flow: Arc<Pacing>, now: Nanos) -> Self {
        Self {
            flow,
            out: PerClass::default(),
            into: PerClass::default(),
            owed: PerClass::default(),
            answers: Answers::default(),
            asks: Asks::new(now),
            changed: false,
        }
    }

    /// Bytes of answers that wait.
    pub(crate) fn waiting_bytes(&self) -> usize {
        let bytes: u64 = self.answers.bytes.iter().map(|(_, bytes)| bytes).sum();
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Something waits to be asked for, or does so no more.
    pub(crate) fn wait<R>(&mut self, change: impl FnOnce(&mut Asks) -> R) -> R {
        self.changed = true;
        change(&mut self.asks)
    }

    /// Whether the host owes data that it was asked for.
    pub(crate) fn is_owed(&self) -> bool {
        self.owed.iter().any(|(_, bytes)| *bytes > 0)
    }

    /// The host was asked for data of a class.
    pub(crate) fn asked(&mut self, class: Class, bytes: u32) {
        self.owed[class] += u64::from(bytes);
        self.changed = true;
    }

    /// Data of a class has come; the host was asked for it, or a capsule brought it.
    #[inline]
    pub(crate) fn received(&mut self, class: Class, bytes: usize, asked: bool) {
        self.into[class] += bytes as u64;
        if asked {
            self.owed[class] = self.owed[class].saturating_sub(bytes as u64);
        }
        self.changed = true;
    }

    /// Tells the poller.
    fn publish(&mut self, sending: bool, active: u32) {
        self.flow.set_sending(sending);
        if !std::mem::take(&mut self.changed) {
            return;
        }
        if active == 0 {
            // What a host was asked for and did not send, its command being answered before.
            self.owed = PerClass::default();
        }
        for class in Class::ALL {
            let (out, into) = (&self.flow.out[class], &self.flow.into[class]);
            out.publish(self.out[class], self.answers.bytes[class]);
            into.publish(self.into[class], self.owed[class] + self.asks.waiting_bytes(class));
        }
    }
}

impl<D: Driver> Connection<D> {
    /// An I/O connection is known to the network's poller from now on.
    pub(crate) fn join_network(&mut self, io: &mut Context<D>) {
        if !matches!(self.stage, Stage::Io(_)) || self.net.is_some() {
            return;
        }
        let flow = Arc::<Pacing>::default();
        if io.driver.join_network(self.key, &flow) {
            self.net = Some(Box::new(Net::new(flow, io.now)));
        }
    }

    /// Answers a command with data: at once, or when its turn has come.
    #[inline]
    pub(crate) fn answer_with(&mut self, class: Class, slot: SlotId, data: TxData<Buffer<D>>) {
        if let Some(net) = &mut self.net {
            net.changed = true;
            if net.flow.is_held() || net.answers.count > 0 {
                net.answers.push(class, slot, data);
                return;
            }
            net.out[class] += data.bytes().len() as u64;
        }
        self.protocol.complete_with_data(slot, data, 0);
    }

    /// Moves answers whose turn it is to what is sent next.
    #[inline]
    pub(crate) fn take_turns(&mut self, io: &Context<D>) {
        let closing = self.is_closing();
        let Some(net) = &mut self.net else { return };
        // Behind what ends a connection nothing is sent any more.
        if net.answers.count > 0 && !closing {
            let held = net.flow.is_held();
            while !held || self.protocol.unsent() < BATCH {
                let Some((class, slot, data)) = net.answers.pop(|class| weight(io, class)) else {
                    break;
                };
                net.out[class] += data.bytes().len() as u64;
                net.changed = true;
                self.protocol.complete_with_data(slot, data, 0);
            }
        }
    }

    /// Tells the poller what has changed.
    #[inline]
    pub(crate) fn tell_network(&mut self) {
        let sending = self.is_sending();
        if let Some(net) = &mut self.net {
            net.publish(sending, self.commands.active());
        }
    }

    /// Whether answers wait for their turn.
    pub(crate) fn holds_answers(&self) -> bool {
        self.net.as_ref().is_some_and(|net| net.answers.count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e7_answers_leave_in_the_order_of_their_classes() {
        let mut answers = Answers::<Vec<u8>>::default();
        for slot in 0..60 {
            for class in [Class::Low, Class::Medium, Class::High] {
                answers.push(class, SlotId(slot), TxData::Bytes(vec![0; 6000]));
            }
        }
        let weight = |class| match class {
            Class::Urgent => 1,
            Class::High => 3,
            Class::Medium => 2,
            Class::Low => 1,
        };
        let mut seen = PerClass::<u32>::default();
        for _ in 0..60 {
            let (class, ..) = answers.pop(weight).unwrap();
            seen[class] += 1;
        }
        assert_eq!((seen.high, seen.medium, seen.low), (30, 20, 10));
        answers.push(Class::Urgent, SlotId(99), TxData::Bytes(vec![0; 10]));
        assert_eq!(answers.pop(weight).unwrap().0, Class::Urgent, "before all that waits");
        while answers.pop(weight).is_some() {}
        assert_eq!((answers.count, answers.bytes), (0, PerClass::default()));
    }

    #[test]
    fn f5_who_waits_to_be_asked_is_known_to_wait() {
        let mut net = Net::<Vec<u8>>::new(Arc::default(), Nanos(0));
        let waiting = |net: &Net<Vec<u8>>| net.flow.into.high.read().1;
        net.wait(|asks| asks.push_fresh(Class::High, SlotId(3), 5000));
        net.publish(false, 1);
        assert_eq!(waiting(&net), 5000);
        net.asked(Class::High, 9000);
        net.received(Class::High, 4000, true);
        net.received(Class::High, 4096, false);
        net.publish(false, 2);
        assert_eq!(waiting(&net), 10_000, "what a capsule brought was not asked for");
        net.wait(|asks| asks.forget(SlotId(3)));
        net.publish(false, 0);
        assert_eq!(waiting(&net), 0);
    }
}
