//! Devices that order commands by place and deadline: the set that they choose from.

use units::{Class, Nanos};

use super::dispatch::Head;
use super::grant::Work;
use super::queue::Next;
use super::{Arbiter, Dispatched, Entry, Held};
use crate::container::{DiskSet, SetRequest};
use crate::device::ContainerRules;
use crate::order::NONE;
use crate::reservation::Charge;
use crate::settings::OrderSettings;

/// Hosts whose containers are told apart at one device; the commands of others keep their
/// deadlines.
const STREAMS: usize = 1024;

/// The commands that a device's order by place chooses from.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) set: DiskSet,
    /// The entry of each request in the set.
    entries: Vec<u32>,
    free: Vec<u32>,
}

impl Chosen {
    pub(super) fn new(rules: &ContainerRules) -> Self {
        let capacity = u32::try_from(rules.capacity).unwrap_or(u32::MAX);
        Self {
            set: DiskSet::new(rules.scheduler, rules.capacity, STREAMS),
            entries: vec![NONE; rules.capacity],
            free: (0..capacity).rev().collect(),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Takes an entry in; its name in the set.
    pub(super) fn insert(&mut self, now: Nanos, entry: u32, request: SetRequest) -> Option<u32> {
        let id = self.free.pop()?;
        if let Some(place) = self.entries.get_mut(id as usize) {
            *place = entry;
        }
        self.set.insert(now, SetRequest { id, ..request });
        Some(id)
    }

    /// The entry that is next.
    pub(super) fn pick(&mut self, now: Nanos) -> Option<u32> {
        let id = self.set.pick(now)?;
        self.free.push(id);
        self.entries.get_mut(id as usize).map(|entry| std::mem::replace(entry, NONE))
    }

    /// Any entry in it.
    pub(super) fn any(&self) -> Option<u32> {
        self.entries.iter().copied().find(|entry| *entry != NONE)
    }

    pub(super) fn remove(&mut self, id: u32) {
        if self.set.remove(id) {
            self.free.push(id);
            if let Some(entry) = self.entries.get_mut(id as usize) {
                *entry = NONE;
            }
        }
    }
}

impl<T: Copy> Arbiter<T> {
    /// Fills the set that is ordered by place and deadline: with what S2 to S4 let go on.
    pub(super) fn choose(&mut self, now: Nanos, device: u32) {
        loop {
            let Self { devices, pace, .. } = self;
            let Some(Some(queue)) = devices.get_mut(device as usize) else { return };
            let Some(rules) = queue.device.rules.containers else { return };
            if queue.chosen.as_ref().is_none_or(Chosen::is_full) {
                return;
            }
            let Some(next) = queue.next(now, pace) else { return };
            let Some(head) = self.head_of(device, &next) else { return };
            if head.mark {
                self.leave(now, device, &next, &head);
                self.entries.remove(head.id);
                self.waiting = self.waiting.saturating_sub(1);
                if let Some(chosen) = self.queue_mut(device).and_then(|q| q.chosen.as_mut()) {
                    chosen.set.output(now, next.leaf);
                }
                self.forget_flow(head.flow);
                continue;
            }
            let set = match self.open(now, &head) {
                Ok(set) => set,
                Err(gate) => {
                    self.block_at(now, device, &next, &gate);
                    continue;
                }
            };
            let charge = self.charge(now, device, &head);
            self.leave(now, device, &next, &head);
            self.enter_set(now, device, &next, head.id, rules.deadline_ns, (set, charge));
        }
    }

    /// Takes a command that has left its flow's queue into the set.
    fn enter_set(
        &mut self,
        now: Nanos,
        device: u32,
        next: &Next,
        id: u32,
        deadline_ns: u64,
        (set, charge): (u32, Option<Charge>),
    ) {
        let Self { devices, entries, located, order, .. } = self;
        let Some(entry) = entries.get_mut(id) else { return };
        let Some(place) = located.get_mut(id as usize) else { return };
        let due = entry.entered.after(deadline(order, next.class, deadline_ns));
        let (lba, blocks) = (place.lba, place.blocks);
        let request = SetRequest { id: 0, stream: next.leaf, lba, blocks, deadline: due };
        let queue = devices.get_mut(device as usize).and_then(Option::as_mut);
        let chosen = queue.and_then(|queue| queue.chosen.as_mut());
        if let Some(name) = chosen.and_then(|chosen| chosen.insert(now, id, request)) {
            place.held = Some(Held { id: name, set, charge });
            entry.chosen = true;
        }
    }

    /// The next of the set, if the window has room.
    pub(super) fn dispatch_chosen(&mut self, now: Nanos, device: u32) -> Option<Dispatched<T>> {
        let queue = self.queue_mut(device)?;
        if !queue.device.window.has_room() {
            return None;
        }
        let id = queue.chosen.as_mut()?.pick(now)?;
        let Held { set, charge, .. } = self.take_held(id)?;
        let entry = *self.entries.get(id)?;
        let flow = *self.flows.get(entry.flow)?;
        let queue = self.queue_mut(device)?;
        let price = queue.device.window.price(entry.write, entry.bytes);
        // There is room; by how much it is exceeded matters less than the order by place.
        queue.device.window.put_in(price);
        self.gone(&flow, entry.flow, entry.class);
        if let Some(queue) = self.queue_mut(device)
            && queue.has_reservations()
        {
            queue.note_gone(now, flow.session);
        }
        let Entry { flow: id_of_flow, bytes, operations, write, .. } = entry;
        let work = Work { session: flow.session, write, bytes, operations };
        let head = Head { id, flow: id_of_flow, work, mark: false, free: false };
        self.granted(now, device, &head, (price, set, charge))
    }
}

/// How long after its arrival a command of a class is due, in ns.
fn deadline(order: &OrderSettings, class: Class, high: u64) -> u64 {
    let weight = |weight: u16| u64::from(weight.max(1));
    let times = weight(order.weights.high);
    match class {
        Class::Urgent => high / 2,
        Class::High => high,
        Class::Medium => high.saturating_mul(times) / weight(order.weights.medium),
        Class::Low => high.saturating_mul(times) / weight(order.weights.low),
    }
}
