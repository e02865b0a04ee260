//! Replies in the order of their classes: answers with data that wait while the connection's rate is
//! limited (docs/sources.md, E7: classes share a connection by their weights).

use std::collections::VecDeque;
use std::ops::Deref;

use arbitration::{Class, PerClass};
use fabric::queue::{Payload as _, SlotId};

use crate::fairness::Fairness;
use crate::payload::TxData;

/// Answers with data that wait.
#[derive(Debug)]
pub(crate) struct Replies<B> {
    waiting: PerClass<VecDeque<(SlotId, TxData<B>)>>,
    bytes: PerClass<u64>,
    fairness: Fairness,
    count: usize,
}

impl<B> Default for Replies<B> {
    fn default() -> Self {
        Self {
            waiting: PerClass::from_fn(|_| VecDeque::new()),
            bytes: PerClass::default(),
            fairness: Fairness::default(),
            count: 0,
        }
    }
}

impl<B> Replies<B> {
    /// Says whether none waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns how many bytes of a class wait.
    pub(crate) fn bytes(&self, class: Class) -> u64 {
        self.bytes[class]
    }

    /// Returns how many bytes wait.
    pub(crate) fn all_bytes(&self) -> u64 {
        self.bytes.iter().map(|(_, bytes)| bytes).sum()
    }
}

impl<B: Deref<Target = [u8]>> Replies<B> {
    /// Adds an answer.
    pub(crate) fn push(&mut self, class: Class, slot: SlotId, data: TxData<B>) {
        if self.waiting[class].is_empty() {
            self.fairness.join(class);
        }
        self.bytes[class] += data.bytes().len() as u64;
        self.count += 1;
        self.waiting[class].push_back((slot, data));
    }

    /// Takes the answer whose turn it is.
    pub(crate) fn pop(
        &mut self,
        weight: impl Fn(Class) -> u64,
    ) -> Option<(Class, SlotId, TxData<B>)> {
        let waiting = &self.waiting;
        let class = self.fairness.next(|class| !waiting[class].is_empty())?;
        let (slot, data) = self.waiting[class].pop_front()?;
        let bytes = data.bytes().len() as u64;
        self.bytes[class] = self.bytes[class].saturating_sub(bytes);
        self.fairness.spend(class, bytes, weight(class));
        self.count -= 1;
        Some((class, slot, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e7_answers_leave_in_the_order_of_their_classes() {
        let mut replies = Replies::<Vec<u8>>::default();
        for slot in 0..60 {
            for class in [Class::Low, Class::Medium, Class::High] {
                replies.push(class, SlotId(slot), TxData::Bytes(vec![0; 6000]));
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
            let (class, ..) = replies.pop(weight).unwrap();
            seen[class] += 1;
        }
        assert_eq!((seen.high, seen.medium, seen.low), (30, 20, 10));
        replies.push(Class::Urgent, SlotId(99), TxData::Bytes(vec![0; 10]));
        assert_eq!(replies.pop(weight).unwrap().0, Class::Urgent, "before all that waits");
        while replies.pop(weight).is_some() {}
        assert_eq!((replies.count, replies.bytes), (0, PerClass::default()));
    }
}
