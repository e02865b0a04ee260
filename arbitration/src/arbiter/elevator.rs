//! The elevator of a device that orders commands by LBA and deadline.

use slab::Slab;
use units::{Class, Nanos};

use super::ids::EntryId;
use crate::container::{DiskSet, SetRequest};
use crate::device::ContainerRules;
use crate::settings::OrderSettings;

/// Hosts whose containers are told apart at one device; the commands of others keep their
/// deadlines.
const STREAMS: usize = 1024;

/// The commands that a device's order by LBA and deadline chooses from.
#[derive(Debug)]
pub(super) struct Elevator {
    pub(super) set: DiskSet,
    /// The entry of each request in the set, by the request's number.
    entries: Slab<EntryId>,
    capacity: usize,
    /// The deadline of a High command, in ns after its arrival.
    deadline_ns: u64,
}

impl Elevator {
    pub(super) fn new(rules: &ContainerRules) -> Self {
        Self {
            set: DiskSet::new(rules.scheduler, rules.capacity, STREAMS),
            entries: Slab::with_capacity(rules.capacity),
            capacity: rules.capacity,
            deadline_ns: rules.deadline_ns,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= self.capacity
    }

    /// Takes an entry in. Returns its number in the set; `None` where the set is full.
    pub(super) fn insert(
        &mut self,
        now: Nanos,
        entry: EntryId,
        request: SetRequest,
    ) -> Option<u32> {
        debug_assert!(!self.is_full(), "commands enter while there is room");
        let id = u32::try_from(self.entries.vacant_key()).ok().filter(|_| !self.is_full())?;
        self.entries.insert(entry);
        self.set.insert(now, SetRequest { id, ..request });
        Some(id)
    }

    /// Takes the entry out that is next.
    pub(super) fn pick(&mut self, now: Nanos) -> Option<EntryId> {
        let number = self.set.pick(now)?;
        self.entries.try_remove(number as usize)
    }

    /// Finds any entry in the elevator.
    pub(super) fn any(&self) -> Option<EntryId> {
        self.entries.iter().next().map(|(_, entry)| *entry)
    }

    /// Takes the request of this number out.
    pub(super) fn remove(&mut self, number: u32) {
        if self.set.remove(number) {
            self.entries.try_remove(number as usize);
        }
    }

    /// Computes when a command of a class is due, from when it entered.
    pub(super) fn deadline(&self, order: &OrderSettings, class: Class, entered: Nanos) -> Nanos {
        entered.after(latency_ns(order, class, self.deadline_ns))
    }
}

/// Computes how long after its arrival a command of a class is due, in ns.
fn latency_ns(order: &OrderSettings, class: Class, high: u64) -> u64 {
    let weight = |weight: u16| u64::from(weight.max(1));
    let times = weight(order.weights.high);
    match class {
        Class::Urgent => high / 2,
        Class::High => high,
        Class::Medium => high.saturating_mul(times) / weight(order.weights.medium),
        Class::Low => high.saturating_mul(times) / weight(order.weights.low),
    }
}
