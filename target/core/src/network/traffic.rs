//! A connection's part in stage S6: it counts the traffic of each class, holds replies back while the connection is
//! limited, and paces R2Ts. [`Pacing`] reports to the poller (docs/research/sources.md, E7, F5).

use std::ops::Deref;
use std::sync::Arc;

use arbitration::settings::OrderSettings;
use arbitration::{Class, PerClass};
use fabric::Nanos;
use fabric::queue::{Payload as _, SlotId, Transport};
use qtcp::pacing::Pacing;

use super::fairness::weight;
use super::pacer::{R2tPacer, Turn, r2t_bytes};
use super::replies::Replies;
use super::tokens::Tokens;
use crate::memory::payload::TxData;

/// Maximum bytes that are handed to the kernel at once while replies are limited: their order is fixed then.
const BATCH: usize = 64 << 10;

/// One connection's side of stage S6.
#[derive(Debug)]
pub(crate) struct Traffic<B> {
    pub(crate) pacing: Arc<Pacing>,
    /// Bytes of data handed to the kernel.
    sent: PerClass<u64>,
    /// Bytes of data received.
    received: PerClass<u64>,
    /// Bytes that the host was asked for and still owes.
    owed: PerClass<u64>,
    replies: Replies<B>,
    /// Bytes that may be sent by now, if the target itself paces answers.
    tokens: Tokens,
    /// Whether the reactor's agenda has the connection, to send more when its time has come.
    listed: bool,
    pacer: R2tPacer,
    /// Whether something changed that was not published.
    changed: bool,
}

impl<B: Deref<Target = [u8]>> Traffic<B> {
    /// Makes the traffic of a connection of which nothing has moved yet.
    pub(crate) fn new(pacing: Arc<Pacing>, now: Nanos) -> Self {
        Self {
            pacing,
            sent: PerClass::default(),
            received: PerClass::default(),
            owed: PerClass::default(),
            replies: Replies::default(),
            tokens: Tokens::new(now),
            listed: false,
            pacer: R2tPacer::new(now),
            changed: false,
        }
    }

    /// Returns how many bytes of replies wait.
    pub(crate) fn waiting_bytes(&self) -> usize {
        usize::try_from(self.replies.all_bytes()).unwrap_or(usize::MAX)
    }

    /// Returns whether replies wait for their turn.
    pub(crate) fn holds_replies(&self) -> bool {
        !self.replies.is_empty()
    }

    /// Counts the commands a part of whose data has come, and whose hosts were not asked for more.
    pub(crate) fn begun(&self) -> u64 {
        self.pacer.begun() as u64
    }

    /// Returns whether a new command must wait for its turn before its data is requested.
    #[inline]
    pub(crate) fn needs_turns(&mut self) -> bool {
        self.pacer.is_needed(&self.pacing)
    }

    /// Returns the command whose data to ask for now.
    pub(crate) fn next_r2t(&mut self, now: Nanos) -> Turn {
        let busy = self.owed.iter().any(|(_, bytes)| *bytes > 0);
        let turn = self.pacer.pull(now, &self.pacing, busy);
        self.changed |= matches!(turn, Turn::R2t(..));
        turn
    }

    /// Charges the data that is requested for a command of [`Self::next_r2t`]: at most the `bytes` that the command
    /// still needs.
    pub(crate) fn charge_r2t(&mut self, order: &OrderSettings, class: Class, bytes: u32) {
        let bytes = bytes.min(r2t_bytes(&self.pacing).unwrap_or(u32::MAX));
        self.pacer.charge(&self.pacing, class, weight(order, class), bytes);
    }

    /// Returns the R2T pacer, to add or remove a command.
    pub(crate) fn pacer_mut(&mut self) -> &mut R2tPacer {
        self.changed = true;
        &mut self.pacer
    }

    /// Asks for a command's data of `bytes` bytes, for which there is room: for all of the data, or
    /// for a first part.
    pub(crate) fn fetch<T: Transport>(
        &mut self,
        transport: &mut T,
        slot: SlotId,
        class: Class,
        bytes: u32,
    ) {
        let asked = match r2t_bytes(&self.pacing) {
            Some(most) if most < bytes => {
                transport.fetch_metered(slot, bytes);
                transport.grant(slot, most)
            }
            _ => {
                transport.fetch(slot, bytes);
                bytes
            }
        };
        self.asked(class, asked);
    }

    /// Asks for more of a command's data. Returns the number of bytes.
    pub(crate) fn fetch_more<T: Transport>(
        &mut self,
        transport: &mut T,
        slot: SlotId,
        class: Class,
    ) -> u32 {
        let asked = transport.grant(slot, r2t_bytes(&self.pacing).unwrap_or(u32::MAX));
        self.asked(class, asked);
        asked
    }

    fn asked(&mut self, class: Class, bytes: u32) {
        self.owed[class] += u64::from(bytes);
        self.changed = true;
    }

    /// Counts data of a class that has come; the host was asked for it, or a capsule brought it.
    #[inline]
    pub(crate) fn received(&mut self, class: Class, bytes: usize, asked: bool) {
        self.received[class] += bytes as u64;
        if asked {
            self.owed[class] = self.owed[class].saturating_sub(bytes as u64);
        }
        self.changed = true;
    }

    /// Returns whether `bytes` bytes of a command's data may be sent at once, and counts them if so. Otherwise,
    /// [`Self::hold`] the data.
    #[inline]
    pub(crate) fn sends_now<T: Transport>(
        &mut self,
        transport: &T,
        class: Class,
        bytes: usize,
    ) -> bool {
        self.changed = true;
        let ahead = self.pacing.ahead();
        let now = !self.pacing.is_held()
            && !self.holds_replies()
            && bytes <= self.pacing.piece()
            && takes_more(transport, ahead);
        if now {
            self.sent[class] += bytes as u64;
        }
        now
    }

    /// Holds a command's data until its turn has come.
    #[cold]
    pub(crate) fn hold(&mut self, now: Nanos, class: Class, slot: SlotId, data: TxData<B>) {
        self.replies.push(now, class, slot, data);
    }

    /// Takes out the replies that have waited for more than [`WAIT_MAX`](arbitration::overload::WAIT_MAX) while the
    /// connection's rate is limited, and of which nothing was sent, unless `stays` says that one stays. Returns the
    /// slots of their commands, which have no answer now.
    pub(crate) fn take_overdue_replies(
        &mut self,
        now: Nanos,
        stays: impl FnMut(SlotId) -> bool,
    ) -> Vec<SlotId> {
        if !self.pacing.is_held() || self.replies.is_empty() {
            return Vec::new();
        }
        self.changed = true;
        self.replies.take_overdue(now, stays)
    }

    /// Moves replies whose turn it is to the transport. Calls `moved` with the slot of each whose last part moves, and
    /// the unsent bytes of the transport. Returns the time at which more may be sent, if the rest waits for the connection's rate and the reactor's agenda has no such time.
    #[inline]
    pub(crate) fn move_replies<T: Transport<Payload = TxData<B>>>(
        &mut self,
        transport: &mut T,
        order: &OrderSettings,
        now: Nanos,
        mut moved: impl FnMut(SlotId, usize),
    ) -> Option<Nanos> {
        if self.replies.is_empty() {
            return None;
        }
        // Later answers and R2Ts queue behind the data that is handed over now, so large answers go in pieces.
        let ahead = self.pacing.ahead();
        let by_socket = self.pacing.is_held() && transport.under_way().is_none();
        let most = if by_socket { ahead.min(BATCH) } else { ahead };
        let at_once = self.pacing.piece();
        let rate = self.pacing.out_rate();
        if let Some(rate) = rate {
            // Tokens that a late thread has not used, and a debt from a time of a higher rate, count for at most
            // the bytes that may be under way.
            self.tokens.refill(now, rate, ahead as u64, ahead as u64);
        }
        while takes_more(transport, most) {
            if let Some(due) = rate.and_then(|rate| self.tokens.due(now, rate)) {
                return (!std::mem::replace(&mut self.listed, true)).then_some(due);
            }
            let Some(piece) = self.replies.pop(|class| weight(order, class), at_once) else {
                break;
            };
            let bytes = piece.data.bytes().len() as u64;
            self.sent[piece.class] += bytes;
            if rate.is_some() {
                self.tokens.take(bytes);
            }
            self.changed = true;
            transport.send_data(piece.slot, piece.data, piece.offset, piece.last);
            if piece.last {
                moved(piece.slot, transport.unsent());
            }
        }
        None
    }

    /// Takes note that the reactor's agenda no longer has the connection, to send more.
    pub(crate) fn leave_agenda(&mut self) {
        self.listed = false;
    }

    /// Limits the host's data that the transport may have under way, as the network's stage allows.
    #[inline]
    pub(crate) fn bound_fetches<T: Transport>(&self, transport: &mut T) {
        transport.bound_fetches(self.pacing.asked());
    }

    /// Publishes changes to the poller. `active` commands are in the target.
    #[inline]
    pub(crate) fn publish(&mut self, sending: bool, active: u32) {
        self.pacing.set_sending(sending);
        if !std::mem::take(&mut self.changed) {
            return;
        }
        if active == 0 {
            // Debts end that no command has any more: the host did not send the data before the
            // command was answered.
            self.owed = PerClass::default();
        }
        for class in Class::ALL {
            let (out, into) = (&self.pacing.out[class], &self.pacing.into[class]);
            out.publish(self.sent[class], self.replies.bytes(class));
            let waiting = self.owed[class] + self.pacer.waiting_bytes(class);
            into.publish(self.received[class], waiting);
        }
    }
}

/// Returns whether less than `most` is ahead of the next data. If the transport does not know the bytes under way,
/// a batch that the kernel has not taken yet counts as 64 KiB: on a slow link, answers wait behind that batch at
/// most.
#[inline]
fn takes_more<T: Transport>(transport: &T, most: usize) -> bool {
    let batch = || if transport.is_sending() { BATCH } else { 0 };
    let ahead = transport.under_way().unwrap_or_else(batch);
    transport.unsent().saturating_add(ahead) < most
}

#[cfg(test)]
mod tests {
    use fabric::nvme::{SglDescriptor, Sqe};
    use fabric::queue::Received;
    use fabric::rdma::wire::{QueueParams, TargetQueue};
    use qtcp::pacing::Answers;
    use zerocopy::IntoBytes as _;

    use super::*;

    #[test]
    fn f5_who_waits_to_be_asked_is_known_to_wait() {
        let mut traffic = Traffic::<Vec<u8>>::new(Arc::default(), Nanos(0));
        let waiting = |traffic: &Traffic<Vec<u8>>| traffic.pacing.into.high.read().1;
        traffic.pacer_mut().push_fresh(Class::High, SlotId(3), 5000);
        traffic.publish(false, 1);
        assert_eq!(waiting(&traffic), 5000);
        traffic.asked(Class::High, 9000);
        traffic.received(Class::High, 4000, true);
        traffic.received(Class::High, 4096, false);
        traffic.publish(false, 2);
        assert_eq!(waiting(&traffic), 10_000, "what a capsule brought was not asked for");
        traffic.pacer_mut().forget(SlotId(3));
        traffic.publish(false, 0);
        assert_eq!(waiting(&traffic), 0);
    }

    #[test]
    fn waiting_commands_and_replies_are_counted() {
        let mut traffic = Traffic::<Vec<u8>>::new(Arc::default(), Nanos(0));
        assert!(!traffic.needs_turns() && !traffic.holds_replies());
        assert_eq!((traffic.begun(), traffic.waiting_bytes()), (0, 0));
        traffic.pacing.set_r2t_rate(Some(1_000_000));
        assert!(traffic.needs_turns());
        for (class, slot, bytes) in [(Class::Low, SlotId(1), 700), (Class::High, SlotId(2), 30)] {
            traffic.pacer_mut().push_begun(class, slot);
            traffic.replies.push(Nanos(0), class, slot, TxData::Bytes(vec![1; bytes]));
        }
        assert!(traffic.holds_replies());
        assert_eq!((traffic.begun(), traffic.waiting_bytes()), (2, 730));
    }

    #[test]
    fn e2_no_more_of_a_queue_pair_is_under_way_than_its_window() {
        let params = QueueParams {
            qid: 1,
            entries: 4,
            in_capsule_data: 0,
            reads: 1,
            max_read: 1,
            posts: 100,
        };
        let mut queue = TargetQueue::<TxData<Vec<u8>>, Vec<u8>>::new(params);
        assert!(queue.next(&mut &[][..]).is_ok(), "it begins");
        queue.set_queue(4, true);
        let sgl = SglDescriptor::keyed(0, 1 << 20, 1, false);
        let capsule = [Sqe { flags: 0b01 << 6, sgl, ..Sqe::default() }.as_bytes().to_vec()];
        let Ok(Some(Received::Command { slot, .. })) = queue.next(&mut &capsule[..]) else {
            panic!("a command")
        };
        let mut traffic = Traffic::<Vec<u8>>::new(Arc::default(), Nanos(0));
        traffic.pacing.set_held(true);
        traffic.pacing.hand_over(Answers::Window(256 << 10));
        traffic.hold(Nanos(0), Class::High, slot, TxData::Bytes(vec![1; 600 << 10]));
        let order = OrderSettings::default();
        let mut moved = |queue: &mut TargetQueue<_, _>| {
            let before = traffic.replies.all_bytes();
            assert_eq!(traffic.move_replies(queue, &order, Nanos(0), |_, _| {}), None);
            before - traffic.replies.all_bytes()
        };
        assert_eq!(moved(&mut queue), 256 << 10);
        let batch = queue.take_batch().unwrap();
        assert_eq!(moved(&mut queue), 0, "it is under way");
        queue.give_back(batch);
        assert_eq!(moved(&mut queue), 256 << 10);
    }

    #[test]
    fn f5_a_host_that_owes_data_may_be_asked_for_what_a_late_thread_has_cost_it() {
        for (owes, waits, least, most) in [
            (true, false, 40_000, 60_000),
            (false, true, 40_000, 60_000),
            (false, false, 15_000, 30_000),
        ] {
            let mut traffic = Traffic::<Vec<u8>>::new(Arc::default(), Nanos(0));
            traffic.pacing.set_r2t_rate(Some(1_000_000));
            (0..100).for_each(|n| traffic.pacer_mut().push_fresh(Class::Low, SlotId(n), 1000));
            if owes {
                traffic.asked(Class::High, 10);
            }
            assert!(matches!(traffic.next_r2t(Nanos(0)), Turn::R2t(..)), "the rate holds from now");
            if waits {
                traffic.charge_r2t(&OrderSettings::default(), Class::Low, 1000);
                assert!(matches!(traffic.next_r2t(Nanos(0)), Turn::Later(_)));
            }
            let mut asked = 0;
            while let Turn::R2t(class, _) = traffic.next_r2t(Nanos(1_000_000_000)) {
                traffic.charge_r2t(&OrderSettings::default(), class, 1000);
                asked += 1000;
            }
            assert!((least..most).contains(&asked), "owes {owes}, waits {waits}: {asked} bytes");
        }
    }
}
