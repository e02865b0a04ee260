//! The gate to a reactor's I/O memory: large writes wait here until there is memory for their data,
//! and only then is the host asked for it (docs/sources.md, D2: credits bound what runs).
//!
//! Classes share the memory by weight, sessions of a class in turn, and hosts of a session in
//! turn, as at a device. No host holds more than a quarter of it, unless a single command needs
//! more. The gate belongs to one reactor and knows no time: a command that waits goes on when
//! pages come back, and only then.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use rustc_hash::FxHashMap;
use slab::Slab;
use units::Class;

use crate::Sharing;
use crate::order::{Burst, ClassClock, Hierarchy, NONE, Pace, ROOT, bit};
use crate::session::Session;
use crate::settings::OrderSettings;

/// Bytes of a page, the unit in which memory is counted.
pub const PAGE: u32 = 4096;

/// A host's commands on one session's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryFlow(u32);

/// A command that waits for memory. Another command may have the same name once this one has
/// been pulled or cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryEntry(u32);

/// The memory that a command holds. Give it back with [`MemoryGate::give_back`].
#[derive(Debug)]
#[must_use = "the memory is lost unless the grant is given back"]
pub struct MemoryGrant {
    flow: u32,
    pages: u32,
}

impl MemoryGrant {
    /// How much it is, in pages of 4 KiB.
    #[must_use]
    pub const fn pages(&self) -> u32 {
        self.pages
    }
}

/// A host on a session.
#[derive(Debug)]
struct Flow {
    /// Keeps its number from being given to another session.
    session: Arc<Session>,
    host: u64,
    /// The host's node in the trees.
    node: u32,
    /// Calls of [`MemoryGate::flow`] that no [`MemoryGate::release`] has met.
    references: u32,
    /// Commands that wait.
    waiting: u32,
    /// Pages that its commands hold.
    pages: u32,
    /// It has its quarter: its commands wait until some of it comes back.
    blocked: bool,
}

/// A command that waits.
#[derive(Debug)]
struct Entry<T> {
    item: T,
    class: Class,
    flow: u32,
    bytes: u32,
    /// Neighbours in its flow's queue.
    prev: u32,
    next: u32,
}

/// The gate of one reactor. See the module's documentation.
#[derive(Debug)]
pub struct MemoryGate<T> {
    /// All pages, and those that nobody holds.
    pages: u32,
    free: u32,
    pace: Pace,
    clock: ClassClock,
    burst: Burst,
    /// Classes of which something may go on, one [`bit`] each.
    working: u8,
    order: Hierarchy<()>,
    flows: Slab<Flow>,
    by_host: FxHashMap<(u32, u64), u32>,
    entries: Slab<Entry<T>>,
}

/// An index of a table as the trees keep it.
fn name(index: usize) -> u32 {
    debug_assert!(index < NONE as usize, "a table has fewer places than names");
    u32::try_from(index).unwrap_or(NONE)
}

/// The pages that this many bytes need.
const fn pages_of(bytes: u32) -> u32 {
    match bytes.div_ceil(PAGE) {
        0 => 1,
        pages => pages,
    }
}

impl<T> MemoryGate<T> {
    /// A gate to `bytes` of memory (at least one page).
    #[must_use]
    pub fn new(order: &OrderSettings, bytes: usize) -> Self {
        let pages = u32::try_from(bytes / PAGE as usize).unwrap_or(u32::MAX).max(1);
        Self {
            pages,
            free: pages,
            pace: Pace::new(order),
            clock: ClassClock::new(Sharing::One),
            burst: Burst::default(),
            working: 0,
            order: Hierarchy::new(()),
            flows: Slab::new(),
            by_host: FxHashMap::default(),
            entries: Slab::new(),
        }
    }

    /// Takes new settings of the order between the classes.
    pub fn set_order(&mut self, order: &OrderSettings) {
        self.pace = Pace::new(order);
    }

    /// Commands that wait.
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.entries.len()
    }

    /// Pages that commands hold.
    #[must_use]
    pub const fn held(&self) -> u32 {
        self.pages.saturating_sub(self.free)
    }

    /// Finds the flow of a host on a session, or makes it. Each call is met by a
    /// [`Self::release`]. A flow ends when nobody uses it, nothing of it waits and it holds no
    /// memory.
    pub fn flow(&mut self, session: &Arc<Session>, host: u64) -> MemoryFlow {
        let key = (session.id().0, host);
        if let Some(&id) = self.by_host.get(&key)
            && let Some(flow) = self.flows.get_mut(id as usize)
        {
            flow.references += 1;
            return MemoryFlow(id);
        }
        let line: Vec<u32> = session.line().map(|session| session.id().0).collect();
        // A line has its session at least.
        let node = self.order.add_flow(&line, &mut |_, _| ()).unwrap_or(ROOT);
        self.sync();
        let session = Arc::clone(session);
        let flow =
            Flow { session, host, node, references: 1, waiting: 0, pages: 0, blocked: false };
        let id = name(self.flows.insert(flow));
        self.by_host.insert(key, id);
        MemoryFlow(id)
    }

    /// Gives up one use of a flow.
    pub fn release(&mut self, flow: MemoryFlow) {
        if let Some(entry) = self.flows.get_mut(flow.0 as usize) {
            debug_assert!(entry.references > 0, "a flow is released once for each use");
            entry.references = entry.references.saturating_sub(1);
            self.forget_unused(flow.0);
        }
    }

    /// Lets a command wait for memory for `bytes` of its host's data.
    pub fn enqueue(&mut self, flow: MemoryFlow, class: Class, bytes: u32, item: T) -> MemoryEntry {
        let id = name(self.entries.vacant_key());
        let Some(of) = self.flows.get_mut(flow.0 as usize) else {
            debug_assert!(false, "a flow is there while somebody uses it");
            return MemoryEntry(NONE);
        };
        of.waiting += 1;
        let tree = &mut self.order.trees[class];
        let (head, tail) = tree.queue(of.node);
        if tail == NONE {
            tree.set_queue(of.node, id, id);
            tree.activate(of.node);
        } else {
            tree.set_queue(of.node, head, id);
        }
        if let Some(last) = self.entries.get_mut(tail as usize) {
            last.next = id;
        }
        self.entries.insert(Entry { item, class, flow: flow.0, bytes, prev: tail, next: NONE });
        self.sync();
        MemoryEntry(id)
    }

    /// Takes a command back that waits.
    pub fn cancel(&mut self, entry: MemoryEntry) -> Option<T> {
        let removed = self.remove(entry.0)?;
        self.forget_unused(removed.flow);
        Some(removed.item)
    }

    /// Takes the next command out for which there is memory.
    pub fn pull(&mut self) -> Option<(T, MemoryGrant)> {
        while let Some((class, urgent)) = self.next_class() {
            let tree = &mut self.order.trees[class];
            let leaf = tree.select(ROOT, self.pace.quantum)?;
            let (id, _) = tree.queue(leaf);
            let entry = self.entries.get(id as usize)?;
            let (bytes, pages, flow_id) = (entry.bytes, pages_of(entry.bytes), entry.flow);
            let flow = self.flows.get_mut(flow_id as usize)?;
            let quarter = u64::from(flow.pages) + u64::from(pages);
            if flow.pages > 0 && quarter * 4 > u64::from(self.pages) {
                flow.blocked = true;
                self.order.block_node(leaf);
                self.sync();
                continue;
            }
            // What is larger than all of the memory goes alone.
            if pages > self.free && self.free < self.pages {
                return None;
            }
            let taken = pages.min(self.free);
            self.free -= taken;
            flow.pages += taken;
            let cost = self.pace.cost(bytes);
            self.order.trees[class].charge(leaf, ROOT, cost);
            if urgent {
                self.clock.charge_urgent(cost);
            } else {
                self.burst.took();
                self.clock.charge(&self.pace, class, cost);
            }
            let entry = self.remove(id)?;
            return Some((entry.item, MemoryGrant { flow: flow_id, pages: taken }));
        }
        None
    }

    /// Takes memory back; whoever waits for it goes on with the next [`Self::pull`].
    pub fn give_back(&mut self, grant: MemoryGrant) {
        let MemoryGrant { flow: id, pages } = grant;
        self.free += pages;
        debug_assert!(self.free <= self.pages, "no page comes back twice");
        let Some(flow) = self.flows.get_mut(id as usize) else {
            debug_assert!(false, "a flow is there while it holds memory");
            return;
        };
        debug_assert!(flow.pages >= pages, "a flow holds what its commands hold");
        flow.pages = flow.pages.saturating_sub(pages);
        if std::mem::take(&mut flow.blocked) {
            let node = flow.node;
            self.order.unblock_node(node);
            self.sync();
        }
        self.forget_unused(id);
    }

    /// Chooses the class that is next, and whether it goes strictly first as Urgent.
    fn next_class(&mut self) -> Option<(Class, bool)> {
        if self.working & bit(Class::Urgent) != 0 && self.clock.urgent_is_first() {
            return Some((Class::Urgent, true));
        }
        let class = self.burst.pick(&self.clock, &self.pace, self.working)?;
        Some((class, false))
    }

    /// Takes an entry out of its flow's queue, and away.
    fn remove(&mut self, id: u32) -> Option<Entry<T>> {
        let entry = self.entries.try_remove(id as usize)?;
        if let Some(prev) = self.entries.get_mut(entry.prev as usize) {
            prev.next = entry.next;
        }
        if let Some(next) = self.entries.get_mut(entry.next as usize) {
            next.prev = entry.prev;
        }
        if let Some(flow) = self.flows.get_mut(entry.flow as usize) {
            flow.waiting -= 1;
            let tree = &mut self.order.trees[entry.class];
            let (head, tail) = tree.queue(flow.node);
            let head = if head == id { entry.next } else { head };
            let tail = if tail == id { entry.prev } else { tail };
            tree.set_queue(flow.node, head, tail);
            if head == NONE {
                tree.deactivate(flow.node);
            }
        }
        self.sync();
        Some(entry)
    }

    /// Takes a flow away that nobody uses, that has nothing waiting and holds nothing.
    fn forget_unused(&mut self, id: u32) {
        let unused = |flow: &&Flow| flow.references == 0 && flow.waiting == 0 && flow.pages == 0;
        if self.flows.get(id as usize).filter(unused).is_none() {
            return;
        }
        let Flow { session, host, node, .. } = self.flows.remove(id as usize);
        self.by_host.remove(&(session.id().0, host));
        self.order.remove_flow(session.id().0, node, &mut |_, ()| ());
        self.sync();
    }

    /// Tells the clock which classes have something that may go on.
    fn sync(&mut self) {
        for (class, tree) in self.order.trees.iter() {
            let works = tree.has_work();
            if works != (self.working & bit(class) != 0) {
                self.working ^= bit(class);
                if works { self.clock.begins(class) } else { self.clock.ends(class) }
            }
        }
    }
}

impl<T> MemoryGate<T> {
    /// Pages that each host on a session holds.
    #[cfg(test)]
    fn held_by(&self, flow: MemoryFlow) -> u32 {
        self.flows[flow.0 as usize].pages
    }
}
