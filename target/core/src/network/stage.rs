//! A queue's part in stage S6, where the network's stage looks after its connection.

use std::ops::Deref;
use std::sync::Arc;

use arbitration::Class;
use arbitration::settings::OrderSettings;
use fabric::Nanos;
use fabric::queue::{CapsuleData, Payload as _, SlotId, Transport};
use qtcp::pacing::Pacing;

use super::traffic::Traffic;
use crate::memory::payload::TxData;

/// A queue's part in stage S6; nothing where the network's stage does not look after the
/// connection.
#[derive(Debug)]
pub(crate) struct Network<B> {
    traffic: Option<Box<Traffic<B>>>,
}

impl<B: Deref<Target = [u8]>> Network<B> {
    /// Makes the part of a connection that the network's stage does not look after yet.
    pub(crate) fn new() -> Self {
        Self { traffic: None }
    }

    /// Adds a connection of a class to the network's stage: `join` makes it known there, and returns false on
    /// failure.
    pub(crate) fn join(
        &mut self,
        now: Nanos,
        class: Class,
        join: impl FnOnce(&Arc<Pacing>) -> bool,
    ) {
        let pacing = Arc::<Pacing>::default();
        pacing.set_class(class);
        if self.traffic.is_none() && join(&pacing) {
            self.traffic = Some(Box::new(Traffic::new(pacing, now)));
        }
    }

    /// Publishes the connection's class to the poller.
    pub(crate) fn set_class(&self, class: Class) {
        if let Some(traffic) = &self.traffic {
            traffic.pacing.set_class(class);
        }
    }

    /// Returns the traffic of the connection.
    #[inline]
    pub(crate) fn traffic(&mut self) -> Option<&mut Traffic<B>> {
        self.traffic.as_deref_mut()
    }

    /// Counts data that has come whole with its command.
    #[inline]
    pub(crate) fn count_capsule(&mut self, class: Class, data: &CapsuleData<'_>) {
        if let (CapsuleData::Whole(bytes), Some(traffic)) = (data, &mut self.traffic) {
            traffic.received(class, bytes.len(), false);
        }
    }

    /// Answers a command with data: at once, or when its class's turn has come; returns whether it waits for that.
    /// It is always inlined, so that the data is moved once.
    #[inline(always)]
    pub(crate) fn reply<T: Transport<Payload = TxData<B>>>(
        &mut self,
        transport: &mut T,
        now: Nanos,
        class: Class,
        slot: SlotId,
        data: TxData<B>,
    ) -> bool {
        if let Some(traffic) = &mut self.traffic
            && !traffic.sends_now(transport, class, data.bytes().len())
        {
            traffic.hold(now, class, slot, data);
            return true;
        }
        transport.complete_with_data(slot, data, 0);
        false
    }

    /// Returns how many bytes of replies wait for their turn.
    #[inline]
    pub(crate) fn held_replies(&self) -> usize {
        self.traffic.as_ref().map_or(0, |traffic| traffic.waiting_bytes())
    }

    /// Returns whether replies wait for their turn.
    pub(crate) fn holds_replies(&self) -> bool {
        self.traffic.as_ref().is_some_and(|traffic| traffic.holds_replies())
    }

    /// Moves replies whose turn it is to the transport. Calls `moved` with the slot of each whose last part moves, and
    /// the unsent bytes of the transport. Returns the time at which the agenda must send more.
    #[inline]
    pub(crate) fn move_replies<T: Transport<Payload = TxData<B>>>(
        &mut self,
        transport: &mut T,
        order: &OrderSettings,
        now: Nanos,
        moved: impl FnMut(SlotId, usize),
    ) -> Option<Nanos> {
        self.traffic.as_mut()?.move_replies(transport, order, now, moved)
    }

    /// Limits the host's data that the transport may have under way, as the network's stage allows.
    #[inline]
    pub(crate) fn bound_fetches<T: Transport>(&self, transport: &mut T) {
        if let Some(traffic) = &self.traffic {
            traffic.bound_fetches(transport);
        }
    }

    /// Counts the commands a part of whose data has come, and whose hosts were not asked for more.
    pub(crate) fn begun(&self) -> u64 {
        self.traffic.as_ref().map_or(0, |traffic| traffic.begun())
    }

    /// Forgets a command that waits to be asked for its data.
    pub(crate) fn forget(&mut self, slot: SlotId) {
        if let Some(traffic) = &mut self.traffic {
            traffic.pacer_mut().forget(slot);
        }
    }

    /// Publishes changes to the poller. `active` commands are in the target.
    #[inline]
    pub(crate) fn publish(&mut self, sending: bool, active: u32) {
        if let Some(traffic) = &mut self.traffic {
            traffic.publish(sending, active);
        }
    }
}
