//! Replies in the order of their classes: answers with data that wait while the connection's rate is
//! limited (docs/research/sources.md, E7: classes share a connection by their weights).

use std::collections::VecDeque;
use std::ops::Deref;

use arbitration::overload::WAIT_MAX;
use arbitration::{Class, PerClass};
use fabric::Nanos;
use fabric::queue::{Payload as _, SlotId};

use super::fairness::Fairness;
use crate::memory::payload::TxData;

/// An answer that waits, or the rest of one.
#[derive(Debug)]
struct Reply<B> {
    slot: SlotId,
    data: TxData<B>,
    /// Bytes of the data that were sent.
    gone: usize,
    /// Time from which on it waits.
    since: Nanos,
}

/// The part of an answer that is sent at one time.
#[derive(Debug)]
pub(crate) struct Piece<B> {
    pub(crate) class: Class,
    pub(crate) slot: SlotId,
    pub(crate) data: TxData<B>,
    /// Offset of the piece in the command's data, in bytes.
    pub(crate) offset: u32,
    /// Whether the answer ends with this piece.
    pub(crate) last: bool,
}

/// Answers with data that wait.
#[derive(Debug)]
pub(crate) struct Replies<B> {
    waiting: PerClass<VecDeque<Reply<B>>>,
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
    /// Returns whether no answer waits.
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
    pub(crate) fn push(&mut self, now: Nanos, class: Class, slot: SlotId, data: TxData<B>) {
        if self.waiting[class].is_empty() {
            self.fairness.join(class);
        }
        self.bytes[class] += data.bytes().len() as u64;
        self.count += 1;
        self.waiting[class].push_back(Reply { slot, data, gone: 0, since: now });
    }

    /// Removes the answers that have waited for more than [`WAIT_MAX`] and of which nothing was sent, unless `stays`
    /// says that one stays. Returns the slots of their commands.
    pub(crate) fn take_overdue(
        &mut self,
        now: Nanos,
        mut stays: impl FnMut(SlotId) -> bool,
    ) -> Vec<SlotId> {
        let mut overdue = Vec::new();
        for class in Class::ALL {
            let bytes = &mut self.bytes[class];
            self.waiting[class].retain(|reply| {
                let is_due = reply.gone == 0 && now.ns_since(reply.since) > WAIT_MAX;
                let stays = !is_due || stays(reply.slot);
                if !stays {
                    *bytes = bytes.saturating_sub(reply.data.bytes().len() as u64);
                    overdue.push(reply.slot);
                }
                stays
            });
        }
        self.count -= overdue.len();
        overdue
    }

    /// Takes the answer whose turn it is, or `most` bytes of it.
    pub(crate) fn pop(&mut self, weight: impl Fn(Class) -> u64, most: usize) -> Option<Piece<B>> {
        let waiting = &self.waiting;
        let class = self.fairness.next(|class| !waiting[class].is_empty())?;
        let piece = self.next_piece(class, most.max(1))?;
        let bytes = piece.data.bytes().len() as u64;
        self.bytes[class] = self.bytes[class].saturating_sub(bytes);
        self.fairness.spend(class, bytes, weight(class));
        Some(piece)
    }

    fn next_piece(&mut self, class: Class, most: usize) -> Option<Piece<B>> {
        let waiting = &mut self.waiting[class];
        let Reply { slot, data, gone, .. } = waiting.front_mut()?;
        let (slot, start, end) = (*slot, *gone, data.bytes().len());
        let offset = u32::try_from(start).unwrap_or(u32::MAX);
        let most = if end - start > most { data.cut(most) } else { most };
        if end - start > most {
            *gone += most;
            let data = data.part(start..start + most);
            return Some(Piece { class, slot, data, offset, last: false });
        }
        let Reply { mut data, .. } = waiting.pop_front()?;
        self.count -= 1;
        let data = if start > 0 { data.part(start..end) } else { data };
        Some(Piece { class, slot, data, offset, last: true })
    }
}

#[cfg(test)]
mod tests {
    use arbitration::settings::{OrderSettings, Weights};

    use super::*;
    use crate::memory::held::Held;
    use crate::memory::lease::Leased;
    use crate::network::fairness;

    #[test]
    fn e7_answers_leave_in_the_order_of_their_classes() {
        let mut replies = Replies::<Vec<u8>>::default();
        for slot in 0..60 {
            for class in [Class::Low, Class::Medium, Class::High] {
                replies.push(Nanos(0), class, SlotId(slot), TxData::Bytes(vec![0; 8400]));
            }
        }
        let weights = Weights { high: 7, medium: 4, low: 1 };
        let order = OrderSettings { weights, ..OrderSettings::default() };
        let weight = |class| fairness::weight(&order, class);
        let mut seen = PerClass::<u32>::default();
        for _ in 0..60 {
            let Piece { class, last, .. } = replies.pop(weight, 8400).unwrap();
            assert!(last);
            seen[class] += 1;
        }
        assert_eq!((seen.high, seen.medium, seen.low), (35, 20, 5));
        replies.push(Nanos(0), Class::Urgent, SlotId(99), TxData::Bytes(vec![0; 10]));
        let urgent = replies.pop(weight, 6000).unwrap();
        assert_eq!(urgent.class, Class::Urgent, "before all that waits");
        while replies.pop(weight, 6000).is_some() {}
        assert_eq!((replies.count, replies.bytes), (0, PerClass::default()));
    }

    #[test]
    fn a_large_answer_goes_in_pieces_between_which_others_have_their_turns() {
        let mut replies = Replies::<Vec<u8>>::default();
        let data: Vec<u8> = (0..=249).cycle().take(10_000).collect();
        replies.push(Nanos(0), Class::Low, SlotId(1), TxData::Bytes(data.clone()));
        replies.push(Nanos(0), Class::Low, SlotId(2), TxData::Bytes(vec![7; 4000]));
        let mut pieces = vec![replies.pop(|_| 1, 4000).unwrap()];
        assert_eq!(replies.bytes(Class::Low), 10_000);
        replies.push(Nanos(0), Class::Urgent, SlotId(3), TxData::Bytes(vec![0; 10]));
        pieces.extend(std::iter::from_fn(|| replies.pop(|_| 1, 4000)));
        assert_eq!((replies.count, replies.bytes), (0, PerClass::default()));
        assert_eq!(pieces[1].class, Class::Urgent, "between two pieces");
        let of_slot = |slot| pieces.iter().filter(move |piece| piece.slot == SlotId(slot));
        let size = |piece: &Piece<_>| (piece.offset, piece.data.bytes().len(), piece.last);
        let large = [(0, 4000, false), (4000, 4000, false), (8000, 2000, true)];
        assert!(of_slot(1).map(size).eq(large));
        assert!(of_slot(2).map(size).eq([(0, 4000, true)]));
        assert!(of_slot(3).map(size).eq([(0, 10, true)]));
        assert!(of_slot(1).flat_map(|piece| piece.data.bytes()).eq(&data));
    }

    #[test]
    fn blocks_that_a_device_holds_go_by_whole_pages() {
        let lengths = |most| {
            let mut replies = Replies::<Vec<u8>>::default();
            let blocks = Held::new(vec![1; 20_000]);
            replies.push(Nanos(0), Class::Low, SlotId(1), TxData::Held(Leased::new(blocks, None)));
            let pieces = std::iter::from_fn(|| replies.pop(|_| 1, most));
            pieces.map(|piece| (piece.offset, piece.data.bytes().len())).collect::<Vec<_>>()
        };
        assert_eq!(lengths(20_000), [(0, 20_000)]);
        assert_eq!(lengths(9000), [(0, 8192), (8192, 8192), (16_384, 3616)]);
        let pages: Vec<_> = lengths(100).into_iter().map(|(_, length)| length).collect();
        assert_eq!(pages, [4096, 4096, 4096, 4096, 3616], "one page at the least");
    }
}
