//! The elevator of a device that orders commands by LBA and deadline.

use slab::Slab;
use units::{Class, Nanos};

use super::ids::EntryId;
use crate::container::{DiskSet, SetRequest};
use crate::device::ContainerRules;
use crate::order::NodeId;
use crate::settings::OrderSettings;

/// Number of hosts with separate containers at one device. The commands of all other hosts are one
/// stream without containers, and keep their deadlines.
const STREAMS: u32 = 1024;

/// Returns the stream of a host, and whether its containers are separate.
fn stream(leaf: NodeId) -> (u32, bool) {
    (leaf.number().min(STREAMS), leaf.number() < STREAMS)
}

/// The commands that a device's order by LBA and deadline chooses from.
#[derive(Debug)]
pub(super) struct Elevator {
    set: DiskSet,
    /// The entry of each request in the set, by the request's number.
    entries: Slab<EntryId>,
    capacity: usize,
    /// The deadline of a High command, in ns after its arrival.
    deadline_ns: u64,
}

impl Elevator {
    pub(super) fn new(rules: &ContainerRules) -> Self {
        Self {
            set: DiskSet::new(rules.scheduler, rules.capacity, STREAMS as usize + 1),
            entries: Slab::with_capacity(rules.capacity),
            capacity: rules.capacity,
            deadline_ns: rules.deadline_ns,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= self.capacity
    }

    /// Adds a command of a host: its entry, first block, number of blocks and deadline. Returns its
    /// number in the set; `None` where the set is full.
    pub(super) fn insert(
        &mut self,
        now: Nanos,
        (entry, leaf): (EntryId, NodeId),
        (lba, blocks): (u64, u32),
        deadline: Nanos,
    ) -> Option<u32> {
        debug_assert!(!self.is_full(), "commands enter while there is room");
        let id = u32::try_from(self.entries.vacant_key()).ok().filter(|_| !self.is_full())?;
        self.entries.insert(entry);
        let (stream, _) = stream(leaf);
        let taken = self.set.insert(now, SetRequest { id, stream, lba, blocks, deadline });
        debug_assert!(taken, "the set knows all streams, and no other request has the number");
        Some(id)
    }

    /// Notes that the user of a host has seen an output: the host's container ends here.
    pub(super) fn output(&mut self, now: Nanos, leaf: NodeId) {
        if let (stream, true) = stream(leaf) {
            self.set.output(now, stream);
        }
    }

    /// Notes that a command is done, after this many ns in the device.
    pub(super) fn completed(&mut self, service_ns: u64) {
        self.set.completed(service_ns);
    }

    /// Takes out the next entry; `reserved`: of a device with reservations in force.
    pub(super) fn pick(&mut self, now: Nanos, reserved: bool) -> Option<EntryId> {
        self.set.set_by_deadline(reserved);
        let number = self.set.pick(now)?;
        self.take_entry(number)
    }

    fn take_entry(&mut self, number: u32) -> Option<EntryId> {
        let entry = self.entries.try_remove(number as usize);
        debug_assert!(entry.is_some(), "each request in the set has its entry");
        entry
    }

    /// Finds any entry in the elevator.
    pub(super) fn any(&self) -> Option<EntryId> {
        self.entries.iter().next().map(|(_, entry)| *entry)
    }

    /// Removes the request of this number.
    pub(super) fn remove(&mut self, number: u32) {
        let removed = self.set.remove(number);
        debug_assert!(removed, "a command in the elevator is in its set");
        self.take_entry(number);
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
