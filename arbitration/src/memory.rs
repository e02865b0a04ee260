//! The gate to a reactor's I/O memory. Large writes wait here until there is memory for their data,
//! and only then does the target ask the host for it (docs/research/sources.md, D2: credits bound what
//! runs). Reads wait here for memory for their data, and hold it until the host has taken the data.
//!
//! Classes share the memory by weight, sessions of a class by theirs, and hosts of a session in
//! turn, as at a device. Hosts that do not give memory back cannot keep it from others:
//!
//! - No host holds more than a quarter, however many sessions it has, unless a single command needs
//!   more.
//! - An eighth is a reserve for hosts that hold little: a 1,024th of all memory, at most the rest
//!   of the reserve. A host that holds nothing may take one command of at most a quarter of the
//!   rest. Such hosts take from the reserve out of turn, and their turns pay for it later.
//! - Memory [set aside](Session::set_aside) for a tenant is left alone by all others. The tenant
//!   takes it out of turn, however much it holds besides (docs/research/sources.md, F4: buffers count in
//!   admission).
//!
//! The gate belongs to one reactor and knows no time: a command that waits goes on when pages come
//! back, and only then.

mod aside;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use slab::Slab;
use units::Class;

use aside::Asides;

use crate::Sharing;
use crate::index::{Index, Name, names};
use crate::order::{ClassBurst, ClassClock, DeviceTags, Ends, Hierarchy, NodeId, Pace, bit};
use crate::session::{HostId, Session, SessionId};
use crate::settings::OrderSettings;

/// Bytes of a page, the unit in which memory is counted.
pub const PAGE: u32 = 4096;

/// Divisor of all memory: the most that one host holds.
const HOST_PART: u32 = 4;
/// Divisor of all memory: the reserve for hosts that hold little.
const RESERVE_PART: u32 = 8;
/// Divisor of all memory: the most that a host holds which takes from the reserve.
const LITTLE_PART: u32 = 1024;
/// Divisor of the memory that is left: the largest command for which a host that holds nothing
/// takes from the reserve.
const ONE_PART: u32 = 4;

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
    part: Part,
}

/// The part of the memory that a grant was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The memory that hosts have in turn.
    Shared,
    /// The reserve for hosts that hold little.
    Reserve,
    /// The memory that is set aside for the tenant.
    Aside,
}

impl MemoryGrant {
    /// Returns the memory that the command holds, in pages of 4 KiB.
    #[must_use]
    pub const fn pages(&self) -> u32 {
        self.pages
    }

    /// Returns whether both are memory of one host's commands on one session, of the same part.
    #[inline]
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.flow == other.flow && self.part == other.part
    }

    /// Adds the memory of a grant [like](Self::is_like) this one, to be given back together.
    #[inline]
    pub fn join(&mut self, other: Self) {
        debug_assert!(self.is_like(&other), "grants of two parts are given back apart");
        self.pages += other.pages;
    }

    /// Returns whether the memory belongs to the part that is [set aside](Session::set_aside) for
    /// the tenant.
    #[must_use]
    pub fn is_aside(&self) -> bool {
        self.part == Part::Aside
    }
}

/// Returns whether a host that holds `held` of `all` memory may have `more` of a reserve of which
/// `room` is left: as much as a 1,024th of all memory, or, if it holds nothing, a quarter of the
/// rest. All are in the same unit.
#[inline]
#[must_use]
pub const fn fits_reserve(all: u32, room: u32, held: u32, more: u32) -> bool {
    let sum = held.saturating_add(more);
    (sum <= all / LITTLE_PART && sum <= room) || (held == 0 && more <= room / ONE_PART)
}

/// A host, on all its sessions together.
#[derive(Debug, Default)]
struct Holder {
    /// Pages that its commands hold.
    pages: u32,
    flows: Vec<MemoryFlowId>,
}

/// A host on a session.
#[derive(Debug)]
struct MemoryFlow {
    /// The session. As long as it is held here, no other session gets its number.
    session: Arc<Session>,
    host: HostId,
    /// The host's place among the holders.
    holder: usize,
    /// The host's node in the trees.
    node: NodeId,
    /// Calls of [`MemoryGate::flow`] that no [`MemoryGate::release`] has met.
    references: u32,
    /// Commands that wait.
    waiting: u32,
    /// Pages that its commands hold.
    pages: u32,
    /// Whether the flow's commands wait because their host holds its quarter of the memory.
    blocked: bool,
    /// Whether the host waits for the reserve.
    needy: bool,
    /// The tenant that memory is set aside for, if any.
    aside: Option<usize>,
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
    pages: u32,
    /// Pages that no command of the gate holds.
    free: u32,
    /// Pages in use outside the gate's commands.
    others: u32,
    /// Pages that are kept for others.
    kept: u32,
    /// Pages that commands hold of the reserve.
    reserved: u32,
    pace: Pace,
    clock: ClassClock,
    burst: ClassBurst,
    /// Classes of which something may go on, one [`bit`] each.
    working: u8,
    order: Hierarchy<(), MemoryEntryId>,
    /// Tags for the order by weight.
    tags: Arc<DeviceTags>,
    flows: Slab<MemoryFlow>,
    by_host: FxHashMap<(SessionId, HostId), MemoryFlowId>,
    holders: Slab<Holder>,
    holder_of: FxHashMap<HostId, usize>,
    /// Flows with waiting commands whose hosts held little, longest wait first.
    needy: VecDeque<MemoryFlowId>,
    /// Number of flows that are blocked.
    blocked: usize,
    /// Memory that is set aside for tenants.
    asides: Asides<MemoryFlowId>,
    entries: Slab<Entry<T>>,
}

/// Computes the pages that this many bytes need.
const fn pages_of(bytes: u32) -> u32 {
    match bytes.div_ceil(PAGE) {
        0 => 1,
        pages => pages,
    }
}

/// Returns whether a host that holds `held` of `all` pages may have `more`.
#[inline]
const fn fits_host(all: u32, held: u32, more: u32) -> bool {
    held == 0 || (held as u64 + more as u64) * HOST_PART as u64 <= all as u64
}

impl<T> MemoryGate<T> {
    /// Makes a gate to `bytes` of memory (at least one page).
    #[must_use]
    pub fn new(order: &OrderSettings, bytes: usize) -> Self {
        let pages = u32::try_from(bytes / PAGE as usize).unwrap_or(u32::MAX).max(1);
        Self {
            pages,
            free: pages,
            others: 0,
            kept: 0,
            reserved: 0,
            pace: Pace::new(order),
            clock: ClassClock::new(Sharing::One),
            burst: ClassBurst::default(),
            working: 0,
            order: Hierarchy::new(()),
            tags: Arc::new(DeviceTags::new(1, Sharing::One)),
            flows: Slab::new(),
            by_host: FxHashMap::default(),
            holders: Slab::new(),
            holder_of: FxHashMap::default(),
            needy: VecDeque::new(),
            blocked: 0,
            asides: Asides::new(false),
            entries: Slab::new(),
        }
    }

    /// Makes the gate reserve for tenants the memory set aside for them.
    #[must_use]
    pub fn setting_aside(mut self) -> Self {
        self.asides = Asides::new(true);
        self
    }

    /// Notes how many bytes of the memory are in use outside the gate's commands, and how many are
    /// kept for others. A command that runs alone may use the kept bytes.
    pub fn set_others(&mut self, used: usize, kept: usize) {
        let pages = |bytes: usize| u32::try_from(bytes.div_ceil(PAGE as usize)).unwrap_or(u32::MAX);
        (self.others, self.kept) = (pages(used), pages(kept));
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

    /// Counts the bytes that commands hold of the reserve.
    #[inline]
    #[must_use]
    pub const fn reserve_held(&self) -> usize {
        self.reserved as usize * PAGE as usize
    }

    /// Counts the flows: of each host on a session, while somebody uses it, a command of it waits, or
    /// it holds memory.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.flows.len()
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
        let node = self.order.add_flow(session, host, &mut |_, _| ());
        self.follow_weights();
        let holders = &mut self.holders;
        let holder =
            *self.holder_of.entry(host).or_insert_with(|| holders.insert(Holder::default()));
        let flow = MemoryFlow {
            session: Arc::clone(session),
            host,
            holder,
            node,
            references: 1,
            waiting: 0,
            pages: 0,
            blocked: false,
            needy: false,
            aside: None,
        };
        let id = MemoryFlowId::from_index(Index::nth(self.flows.insert(flow)));
        let aside = self.asides.join(session, id);
        if let Some(flow) = self.used(id) {
            flow.aside = aside;
        }
        self.by_host.insert(key, id);
        if let Some(holder) = self.holders.get_mut(holder) {
            holder.flows.push(id);
        }
        id
    }

    /// Counts the pages that a flow's host holds.
    #[inline]
    fn held_by_host(&self, flow: MemoryFlowId) -> u32 {
        let holder = self.flows.get(flow.0.at()).and_then(|flow| self.holders.get(flow.holder));
        debug_assert!(holder.is_some(), "a flow has a holder");
        holder.map_or(0, |holder| holder.pages)
    }

    /// Counts the pages that are neither in use nor kept for others, and not set aside for tenants
    /// but for one.
    #[inline]
    fn room(&self, but: Option<usize>) -> u32 {
        let room = self.free.saturating_sub(self.others).saturating_sub(self.kept);
        room.saturating_sub(self.asides.left_to_others(but))
    }

    /// Finds the tenant of a flow that memory is set aside for.
    #[inline]
    fn tenant(&self, flow: MemoryFlowId) -> Option<usize> {
        self.flows.get(flow.0.at()).and_then(|flow| flow.aside)
    }

    /// Returns whether `pages` pages are left of the memory set aside for a tenant.
    #[inline]
    fn fits_aside(&self, tenant: Option<usize>, pages: u32) -> bool {
        tenant.is_some()
            && pages <= self.asides.left(tenant)
            && pages <= self.free.saturating_sub(self.others)
    }

    /// Counts the bytes that are set aside for tenants and that they do not hold.
    #[must_use]
    pub fn left_aside(&self) -> usize {
        self.asides.left_to_others(None) as usize * PAGE as usize
    }

    /// Returns whether a host that holds `held` pages may have `pages` more.
    #[inline]
    fn fits_host(&self, held: u32, pages: u32) -> bool {
        fits_host(self.pages, held, pages)
    }

    /// Returns whether there is memory for a command whose turn it is. A command that is larger
    /// than the memory beside the reserve goes alone.
    #[inline]
    fn fits_in_turn(&self, tenant: Option<usize>, pages: u32) -> bool {
        let alone = || {
            self.free == self.pages
                && pages.min(self.pages) <= self.free.saturating_sub(self.others)
        };
        pages <= self.room(tenant).saturating_sub(self.pages / RESERVE_PART) || alone()
    }

    /// Returns whether a host that holds `held` pages may have `pages` more out of turn.
    #[inline]
    fn fits_reserve(&self, held: u32, pages: u32) -> bool {
        fits_reserve(self.pages, self.room(None), held, pages)
    }

    /// Takes memory for a command at once: in turn where no command of any flow may go on, or from
    /// the reserve. `None` where a command of the flow waits, or there is no memory for this one.
    #[inline]
    pub fn pass(&mut self, flow: MemoryFlowId, class: Class, bytes: u32) -> Option<MemoryGrant> {
        let pages = pages_of(bytes);
        // As a rule no command waits, nothing is set aside and there is room.
        if self.working == 0
            && self.asides.is_empty()
            && pages <= self.room(None).saturating_sub(self.pages / RESERVE_PART)
            && let Some(of) = self.flows.get_mut(flow.0.at())
            && of.waiting == 0
            && let Some(holder) = self.holders.get_mut(of.holder)
            && fits_host(self.pages, holder.pages, pages)
        {
            of.pages += pages;
            holder.pages += pages;
            self.free -= pages;
            return Some(MemoryGrant { flow, pages, part: Part::Shared });
        }
        self.pass_if_allowed(flow, class, bytes)
    }

    /// Takes memory for a command as [`Self::pass`] does.
    fn pass_if_allowed(
        &mut self,
        flow: MemoryFlowId,
        class: Class,
        bytes: u32,
    ) -> Option<MemoryGrant> {
        let &MemoryFlow { waiting, node, holder, aside: tenant, .. } =
            self.flows.get(flow.0.at())?;
        if waiting > 0 {
            return None;
        }
        let (held, pages) = (self.holders.get(holder)?.pages, pages_of(bytes));
        if self.passes_in_turn(tenant, held, pages) {
            return Some(self.hold(flow, pages, Part::Shared));
        }
        (self.fits_aside(tenant, pages) || self.fits_reserve(held, pages)).then(|| {
            self.charge(class, node, bytes);
            self.hold(flow, pages, Part::Reserve)
        })
    }

    /// Returns whether [`Self::pass`] would give memory now.
    #[inline]
    #[must_use]
    pub fn may_pass(&self, flow: MemoryFlowId, bytes: u32) -> bool {
        let pages = pages_of(bytes);
        if self.entries.is_empty() && self.others == 0 && self.fits_host(self.held(), pages) {
            // All hosts together hold no more than one may.
            return self.fits_in_turn(self.tenant(flow), pages);
        }
        let Some(MemoryFlow { waiting: 0, .. }) = self.flows.get(flow.0.at()) else { return false };
        let held = self.held_by_host(flow);
        let tenant = self.tenant(flow);
        self.passes_in_turn(tenant, held, pages)
            || self.fits_aside(tenant, pages)
            || self.fits_reserve(held, pages)
    }

    #[inline]
    fn passes_in_turn(&self, tenant: Option<usize>, held: u32, pages: u32) -> bool {
        self.working == 0 && self.fits_host(held, pages) && self.fits_in_turn(tenant, pages)
    }

    /// Charges a host's node for a command out of turn, and its class if it takes turns now.
    fn charge(&mut self, class: Class, node: NodeId, bytes: u32) {
        let cost = self.pace.cost(bytes);
        self.order.trees[class].charge_out_of_turn(node, cost);
        if self.working & bit(class) != 0 {
            self.clock.charge(&self.pace, class, cost);
        }
    }

    /// Allocates pages to a flow: from the memory set aside for its tenant if that suffices, else
    /// from `part`.
    #[inline]
    fn hold(&mut self, id: MemoryFlowId, pages: u32, mut part: Part) -> MemoryGrant {
        let pages = pages.min(self.free);
        self.free -= pages;
        if let Some(flow) = self.used(id) {
            flow.pages += pages;
            let (holder, tenant) = (flow.holder, flow.aside);
            if let Some(holder) = self.holders.get_mut(holder) {
                holder.pages += pages;
            }
            if tenant.is_some() {
                if pages <= self.asides.left(tenant) {
                    part = Part::Aside;
                }
                self.asides.take(tenant, pages);
            }
        }
        if part == Part::Reserve {
            self.reserved += pages;
        }
        MemoryGrant { flow: id, pages, part }
    }

    /// Lets a flow wait for the reserve, if its host holds little.
    fn may_need(&mut self, id: MemoryFlowId) {
        let little = self.held_by_host(id) < (self.pages / LITTLE_PART).max(1);
        if !little && self.asides.left(self.tenant(id)) == 0 {
            return;
        }
        if let Some(flow) = self.used(id)
            && flow.waiting > 0
            && !std::mem::replace(&mut flow.needy, true)
        {
            self.needy.push_back(id);
        }
    }

    /// Returns whether the host of a grant holds so little besides that it could have the grant's
    /// memory from the reserve.
    #[must_use]
    pub fn is_for_reserve(&self, grant: &MemoryGrant) -> bool {
        let besides = self.held_by_host(grant.flow).saturating_sub(grant.pages);
        let room = self.room(None).saturating_add(grant.pages);
        grant.is_aside() || fits_reserve(self.pages, room, besides, grant.pages)
    }

    /// Takes out the next command that may have memory of the reserve. Flows go in the order in
    /// which they began to wait for it.
    pub fn pull_needy(&mut self) -> Option<(T, MemoryGrant)> {
        for _ in 0..self.needy.len() {
            let id = self.needy.pop_front()?;
            let held = self.held_by_host(id);
            let flow = self.used(id)?;
            flow.needy = false;
            let node = flow.node;
            let trees = &self.order.trees;
            let mut queues =
                Class::ALL.into_iter().filter_map(|class| Some((class, trees[class].queue(node)?)));
            let Some((class, Ends { first, .. })) = queues.next() else { continue };
            let bytes = self.entry(first)?.bytes;
            let pages = pages_of(bytes);
            if self.fits_aside(self.tenant(id), pages) || self.fits_reserve(held, pages) {
                self.charge(class, node, bytes);
                let grant = self.hold(id, pages, Part::Reserve);
                let entry = self.remove(first)?;
                self.may_need(id);
                return Some((entry.item, grant));
            }
            // A host that holds too much joins the list again when it has given some back.
            if held == 0
                || held.saturating_add(pages) <= self.pages / LITTLE_PART
                || self.asides.left(self.tenant(id)) > 0
            {
                self.may_need(id);
            }
        }
        None
    }

    /// Finds a flow that is in use, has commands waiting or holds memory.
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
        let id = MemoryEntryId::from_index(Index::nth(self.entries.vacant_key()));
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
        self.may_need(flow);
        id
    }

    /// Withdraws a command. `None` where no command of this name waits.
    pub fn cancel(&mut self, entry: MemoryEntryId) -> Option<T> {
        let removed = self.remove(entry)?;
        self.forget_unused(removed.flow);
        Some(removed.item)
    }

    /// Takes out the next command for which there is memory.
    #[inline]
    pub fn pull(&mut self) -> Option<(T, MemoryGrant)> {
        // Reactors ask in each turn, and seldom does anything wait.
        if self.entries.is_empty() {
            return None;
        }
        self.pull_in_turn().or_else(|| self.pull_needy())
    }

    /// Takes out the next command in turn, if there is memory for it.
    fn pull_in_turn(&mut self) -> Option<(T, MemoryGrant)> {
        while let Some((class, urgent)) = self.next_class() {
            let tree = &mut self.order.trees[class];
            let leaf = tree.select(NodeId::ROOT, self.pace.quantum(false))?;
            let id = tree.queue(leaf)?.first;
            let entry = self.entry(id)?;
            let (bytes, pages, flow_id) = (entry.bytes, pages_of(entry.bytes), entry.flow);
            if !self.fits_host(self.held_by_host(flow_id), pages) {
                let was_blocked = std::mem::replace(&mut self.used(flow_id)?.blocked, true);
                self.blocked += usize::from(!was_blocked);
                self.order.block_node(leaf);
                self.sync();
                continue;
            }
            if !self.fits_in_turn(self.tenant(flow_id), pages) {
                return None;
            }
            let grant = self.hold(flow_id, pages, Part::Shared);
            let cost = self.pace.cost(bytes);
            self.order.trees[class].charge(leaf, NodeId::ROOT, cost);
            if urgent {
                self.clock.charge_urgent(cost, false);
            } else {
                self.burst.took(cost);
                self.clock.charge(&self.pace, class, cost);
            }
            let entry = self.remove(id);
            debug_assert!(entry.is_some(), "what is first in a queue waits");
            return Some((entry?.item, grant));
        }
        None
    }

    /// Takes memory back. A command that waits for it goes on with the next [`Self::pull`].
    pub fn give_back(&mut self, grant: MemoryGrant) {
        let MemoryGrant { flow: id, pages, part } = grant;
        self.free += pages;
        if part == Part::Reserve {
            self.reserved -= pages;
        }
        debug_assert!(self.free <= self.pages, "no page comes back twice");
        let Some(flow) = self.used(id) else { return };
        debug_assert!(flow.pages >= pages, "a flow holds the pages of its commands");
        flow.pages = flow.pages.saturating_sub(pages);
        let is_used = flow.references > 0 || flow.waiting > 0 || flow.pages > 0;
        let (holder, tenant) = (flow.holder, flow.aside);
        self.asides.give_back(tenant, pages);
        if let Some(holder) = self.holders.get_mut(holder) {
            holder.pages = holder.pages.saturating_sub(pages);
        }
        if !is_used {
            self.forget_unused(id);
        }
        if self.entries.is_empty() && self.blocked == 0 {
            // Nothing waits for memory.
            return;
        }
        let others = self.holders.get(holder).map_or(0, |holder| holder.flows.len());
        for at in 0..others {
            let Some(&id) = self.holders.get(holder).and_then(|holder| holder.flows.get(at)) else {
                break;
            };
            self.unblock(id);
            self.may_need(id);
        }
        for at in 0..self.asides.flows(tenant).len() {
            let Some(&id) = self.asides.flows(tenant).get(at) else { break };
            self.may_need(id);
        }
    }

    /// Unblocks a flow whose host has given memory back.
    fn unblock(&mut self, id: MemoryFlowId) {
        let Some(flow) = self.used(id) else { return };
        if std::mem::take(&mut flow.blocked) {
            let node = flow.node;
            self.blocked -= 1;
            self.order.unblock_node(node);
            self.sync();
        }
    }

    /// Chooses the class that is next, and whether it goes strictly first as Urgent.
    fn next_class(&mut self) -> Option<(Class, bool)> {
        if self.working & bit(Class::Urgent) != 0 && self.clock.urgent_is_first() {
            return Some((Class::Urgent, true));
        }
        let class = self.burst.pick(&self.clock, &self.pace, self.working)?;
        Some((class, false))
    }

    /// Removes an entry from its flow's queue and from the table.
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

    /// Removes a flow that nobody uses, that has nothing waiting and holds no memory.
    fn forget_unused(&mut self, id: MemoryFlowId) {
        let Some(flow) = self.used(id) else { return };
        if flow.references > 0 || flow.waiting > 0 || flow.pages > 0 {
            return;
        }
        let MemoryFlow { session, host, node, holder, needy, blocked, aside, .. } =
            self.flows.remove(id.0.at());
        self.blocked -= usize::from(blocked);
        self.asides.leave(aside, id);
        self.by_host.remove(&(session.id(), host));
        if needy {
            self.needy.retain(|flow| *flow != id);
        }
        if let Some(of) = self.holders.get_mut(holder) {
            of.flows.retain(|flow| *flow != id);
            if of.flows.is_empty() {
                self.holders.remove(holder);
                self.holder_of.remove(&host);
            }
        }
        self.order.remove_flow(session.id(), node, &mut |_, ()| ());
        self.follow_weights();
    }

    /// Notes that the settings of a session have changed, such as its weight.
    pub fn touch_session(&mut self, session: &Session) {
        self.order.note_weights(session.id());
        self.follow_weights();
    }

    /// Changes to the order by weight when a session with a weight of its own has come, and back when none is left.
    fn follow_weights(&mut self) {
        if self.order.has_weights() != self.order.is_by_weight() {
            if self.order.has_weights() {
                self.order.go_by_weight(0, Arc::clone(&self.tags));
            } else {
                self.order.go_in_turn();
            }
        }
        self.sync();
    }

    /// Tells the clock which classes have commands that may go on.
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
    /// Returns the pages that a flow holds.
    #[cfg(test)]
    fn held_by(&self, flow: MemoryFlowId) -> u32 {
        self.flows[flow.0.at()].pages
    }
}
