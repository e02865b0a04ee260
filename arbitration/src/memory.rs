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
use crate::index::{Index, Name, names};
use crate::order::{ClassBurst, ClassClock, Ends, Hierarchy, NodeId, Pace, bit};
use crate::session::{HostId, Session, SessionId};
use crate::settings::OrderSettings;

/// Bytes of a page, the unit in which memory is counted.
pub const PAGE: u32 = 4096;

/// A host's commands on one session's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryFlowId(Index);

/// A command that waits for memory. Another command may have the same name once this one has
/// been pulled or cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryEntryId(Index);

names!(MemoryFlowId, MemoryEntryId);

/// The memory that a command holds. Give it back with [`MemoryGate::give_back`].
#[derive(Debug)]
#[must_use = "the memory is lost unless the grant is given back"]
pub struct MemoryGrant {
    flow: MemoryFlowId,
    pages: u32,
}

impl MemoryGrant {
    /// Returns how much it is, in pages of 4 KiB.
    #[must_use]
    pub const fn pages(&self) -> u32 {
        self.pages
    }
}

/// A host on a session.
#[derive(Debug)]
struct MemoryFlow {
    /// Keeps its number from being given to another session.
    session: Arc<Session>,
    host: HostId,
    /// The host's node in the trees.
    node: NodeId,
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
    flow: MemoryFlowId,
    bytes: u32,
    /// Neighbours in its flow's queue.
    prev: Option<MemoryEntryId>,
    next: Option<MemoryEntryId>,
}

/// The gate of one reactor. See the module's documentation.
#[derive(Debug)]
pub struct MemoryGate<T> {
    /// All pages, and those that nobody holds.
    pages: u32,
    free: u32,
    pace: Pace,
    clock: ClassClock,
    burst: ClassBurst,
    /// Classes of which something may go on, one [`bit`] each.
    working: u8,
    order: Hierarchy<(), MemoryEntryId>,
    flows: Slab<MemoryFlow>,
    by_host: FxHashMap<(SessionId, HostId), MemoryFlowId>,
    entries: Slab<Entry<T>>,
}

/// Computes the pages that this many bytes need.
const fn pages_of(bytes: u32) -> u32 {
    match bytes.div_ceil(PAGE) {
        0 => 1,
        pages => pages,
    }
}

impl<T> MemoryGate<T> {
    /// Makes a gate to `bytes` of memory (at least one page).
    #[must_use]
    pub fn new(order: &OrderSettings, bytes: usize) -> Self {
        let pages = u32::try_from(bytes / PAGE as usize).unwrap_or(u32::MAX).max(1);
        Self {
            pages,
            free: pages,
            pace: Pace::new(order),
            clock: ClassClock::new(Sharing::One),
            burst: ClassBurst::default(),
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

    /// Counts the commands that wait.
    #[inline]
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.entries.len()
    }

    /// Counts the pages that commands hold.
    #[must_use]
    pub const fn held(&self) -> u32 {
        self.pages.saturating_sub(self.free)
    }

    /// Finds the flow of a host on a session, or makes it. Each call is met by a
    /// [`Self::release`]. A flow ends when nobody uses it, nothing of it waits and it holds no
    /// memory.
    pub fn flow(&mut self, session: &Arc<Session>, host: HostId) -> MemoryFlowId {
        let key = (session.id(), host);
        if let Some(&id) = self.by_host.get(&key)
            && let Some(flow) = self.used(id)
        {
            flow.references += 1;
            return id;
        }
        let node = self.order.add_flow(session, &mut |_, _| ());
        self.sync();
        let session = Arc::clone(session);
        let flow =
            MemoryFlow { session, host, node, references: 1, waiting: 0, pages: 0, blocked: false };
        let id = MemoryFlowId::of(Index::nth(self.flows.insert(flow)));
        self.by_host.insert(key, id);
        id
    }

    /// Finds a flow that somebody uses, that has commands waiting or holds memory.
    fn used(&mut self, flow: MemoryFlowId) -> Option<&mut MemoryFlow> {
        let found = self.flows.get_mut(flow.0.at());
        debug_assert!(found.is_some(), "a flow is there while it is used, waits or holds memory");
        found
    }

    /// Finds a command that waits.
    fn entry(&mut self, entry: MemoryEntryId) -> Option<&mut Entry<T>> {
        let found = self.entries.get_mut(entry.0.at());
        debug_assert!(found.is_some(), "a queue names commands that wait");
        found
    }

    /// Gives up one use of a flow.
    pub fn release(&mut self, flow: MemoryFlowId) {
        if let Some(used) = self.used(flow) {
            debug_assert!(used.references > 0, "a flow is released once for each use");
            used.references = used.references.saturating_sub(1);
            self.forget_unused(flow);
        }
    }

    /// Lets a command wait for memory for `bytes` of its host's data.
    pub fn enqueue(
        &mut self,
        flow: MemoryFlowId,
        class: Class,
        bytes: u32,
        item: T,
    ) -> MemoryEntryId {
        let id = MemoryEntryId::of(Index::nth(self.entries.vacant_key()));
        let Some(of) = self.used(flow) else { return id };
        of.waiting += 1;
        let node = of.node;
        let tree = &mut self.order.trees[class];
        let queue = tree.queue(node);
        let first = queue.map_or(id, |queue| queue.first);
        tree.set_queue(node, Some(Ends { first, last: id }));
        let prev = queue.map(|queue| queue.last);
        match prev {
            None => tree.activate(node),
            Some(last) => {
                if let Some(last) = self.entry(last) {
                    last.next = Some(id);
                }
            }
        }
        self.entries.insert(Entry { item, class, flow, bytes, prev, next: None });
        self.sync();
        id
    }

    /// Takes a command back that waits. Answers `None` where none of this name does.
    pub fn cancel(&mut self, entry: MemoryEntryId) -> Option<T> {
        let removed = self.remove(entry)?;
        self.forget_unused(removed.flow);
        Some(removed.item)
    }

    /// Takes the next command out for which there is memory.
    pub fn pull(&mut self) -> Option<(T, MemoryGrant)> {
        while let Some((class, urgent)) = self.next_class() {
            let tree = &mut self.order.trees[class];
            let leaf = tree.select(NodeId::ROOT, self.pace.quantum)?;
            let id = tree.queue(leaf)?.first;
            let entry = self.entry(id)?;
            let (bytes, pages, flow_id) = (entry.bytes, pages_of(entry.bytes), entry.flow);
            let (all, free) = (self.pages, self.free);
            let flow = self.used(flow_id)?;
            let quarter = u64::from(flow.pages) + u64::from(pages);
            if flow.pages > 0 && quarter * 4 > u64::from(all) {
                flow.blocked = true;
                self.order.block_node(leaf);
                self.sync();
                continue;
            }
            // What is larger than all of the memory goes alone.
            if pages > free && free < all {
                return None;
            }
            let taken = pages.min(free);
            flow.pages += taken;
            self.free -= taken;
            let cost = self.pace.cost(bytes);
            self.order.trees[class].charge(leaf, NodeId::ROOT, cost);
            if urgent {
                self.clock.charge_urgent(cost, false);
            } else {
                self.burst.took();
                self.clock.charge(&self.pace, class, cost);
            }
            let entry = self.remove(id);
            debug_assert!(entry.is_some(), "what is first in a queue waits");
            let entry = entry?;
            return Some((entry.item, MemoryGrant { flow: flow_id, pages: taken }));
        }
        None
    }

    /// Takes memory back; a command that waits for it goes on with the next [`Self::pull`].
    pub fn give_back(&mut self, grant: MemoryGrant) {
        let MemoryGrant { flow: id, pages } = grant;
        self.free += pages;
        debug_assert!(self.free <= self.pages, "no page comes back twice");
        let Some(flow) = self.used(id) else { return };
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
    fn remove(&mut self, id: MemoryEntryId) -> Option<Entry<T>> {
        let entry = self.entries.try_remove(id.0.at())?;
        if let Some(prev) = entry.prev.and_then(|prev| self.entry(prev)) {
            prev.next = entry.next;
        }
        if let Some(next) = entry.next.and_then(|next| self.entry(next)) {
            next.prev = entry.prev;
        }
        if let Some(flow) = self.used(entry.flow) {
            flow.waiting -= 1;
            let node = flow.node;
            let tree = &mut self.order.trees[entry.class];
            let queue = tree.queue(node).and_then(|Ends { first, last }| {
                let first = if first == id { entry.next? } else { first };
                let last = if last == id { entry.prev? } else { last };
                Some(Ends { first, last })
            });
            tree.set_queue(node, queue);
        }
        self.sync();
        Some(entry)
    }

    /// Takes a flow away that nobody uses, that has nothing waiting and holds nothing.
    fn forget_unused(&mut self, id: MemoryFlowId) {
        let Some(flow) = self.used(id) else { return };
        if flow.references > 0 || flow.waiting > 0 || flow.pages > 0 {
            return;
        }
        let MemoryFlow { session, host, node, .. } = self.flows.remove(id.0.at());
        self.by_host.remove(&(session.id(), host));
        self.order.remove_flow(session.id(), node, &mut |_, ()| ());
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
    fn held_by(&self, flow: MemoryFlowId) -> u32 {
        self.flows[flow.0.at()].pages
    }
}
