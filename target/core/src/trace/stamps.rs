//! The stamps of the commands in a queue's table: the part of its time that each is in, and the parts before.

use std::sync::Arc;

use arbitration::Class;
use arbitration::arbiter::{Waited, Watch};
use arbitration::session::Session;
use fabric::Nanos;
use fabric::queue::SlotId;

use super::part::{Part, Times};

/// Commands of one queue that are stamped at one time.
const COMMANDS_MAX: usize = 128;

/// The stamps of a command.
#[derive(Debug)]
pub(crate) struct Stamp {
    pub(crate) class: Class,
    pub(crate) bytes: u32,
    pub(crate) received: Nanos,
    pub(crate) times: Times,
    /// The session that delayed the command most, and for how long in ns.
    pub(crate) session: Option<Arc<Session>>,
    longest: u64,
    part: Part,
    since: Nanos,
    /// The arbiter's counts while the command waits for its turn.
    watch: Option<Watch>,
}

impl Stamp {
    /// Makes the stamps of a command that has just arrived.
    #[inline]
    pub(crate) fn new(now: Nanos, received: Nanos, class: Class, bytes: u32) -> Self {
        let mut times = Times::default();
        times.add(Part::Input, now.ns_since(received));
        Self {
            class,
            bytes,
            received,
            times,
            session: None,
            longest: 0,
            part: Part::Device,
            since: now,
            watch: None,
        }
    }

    #[inline]
    fn enter(&mut self, now: Nanos, part: Part) {
        self.times.add(self.part, now.ns_since(self.since));
        (self.part, self.since) = (part, now);
    }

    fn waited(&mut self, now: Nanos, waited: Waited) {
        let Waited { iops, bandwidth, credits, reservation, order, window, session } = waited;
        for (part, ns) in [
            (Part::Iops, iops),
            (Part::Bandwidth, bandwidth),
            (Part::Credits, credits),
            (Part::Reservation, reservation),
            (Part::Order, order),
            (Part::Window, window),
        ] {
            self.times.add(part, ns);
        }
        let longest = iops.saturating_add(bandwidth).saturating_add(credits);
        if longest > self.longest {
            (self.longest, self.session) = (longest, session);
        }
        (self.since, self.watch) = (now, None);
    }
}

/// The stamps of the commands of a queue, by slot.
#[derive(Debug, Default)]
pub(crate) struct Stamps {
    slots: Vec<Option<Box<Stamp>>>,
    live: usize,
}

impl Stamps {
    fn find(&mut self, slot: SlotId) -> Option<&mut Stamp> {
        self.slots.get_mut(usize::from(slot.0))?.as_deref_mut()
    }

    /// Begins to stamp a command.
    pub(crate) fn begin(&mut self, slot: SlotId, stamp: Stamp) {
        let index = usize::from(slot.0);
        if self.live >= COMMANDS_MAX {
            return;
        }
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, || None);
        }
        if let Some(place) = self.slots.get_mut(index) {
            self.live += usize::from(place.is_none());
            *place = Some(Box::new(stamp));
        }
    }

    /// Notes that a command enters another part of its time.
    #[inline]
    pub(crate) fn enter(&mut self, now: Nanos, slot: SlotId, part: Part) {
        if let Some(stamp) = self.find(slot) {
            stamp.enter(now, part);
        }
    }

    /// Returns whether a command is stamped.
    pub(crate) fn has(&self, slot: SlotId) -> bool {
        self.slots.get(usize::from(slot.0)).is_some_and(Option::is_some)
    }

    /// Keeps the arbiter's counts of a command that begins to wait for its turn.
    pub(crate) fn watch(&mut self, slot: SlotId, watch: Option<Watch>) {
        if let Some(stamp) = self.find(slot) {
            stamp.watch = watch;
        }
    }

    /// Returns the arbiter's counts of a command that waits for its turn.
    pub(crate) fn watched(&self, slot: SlotId) -> Option<&Watch> {
        self.slots.get(usize::from(slot.0))?.as_ref()?.watch.as_ref()
    }

    /// Notes why a command has waited for its turn.
    pub(crate) fn waited(&mut self, now: Nanos, slot: SlotId, waited: Waited) {
        if let Some(stamp) = self.find(slot) {
            stamp.waited(now, waited);
        }
    }

    /// Takes the stamps of a command that is answered now.
    pub(crate) fn take(&mut self, now: Nanos, slot: SlotId) -> Option<Box<Stamp>> {
        let mut stamp = self.slots.get_mut(usize::from(slot.0))?.take()?;
        self.live = self.live.saturating_sub(1);
        stamp.enter(now, Part::Reply);
        Some(stamp)
    }
}
