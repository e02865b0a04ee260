//! The flows of an arbiter.

use rustc_hash::FxHashMap;

use super::ids::{DeviceId, HostFlowId, HostFlowIndex, OwnQueueId};
use super::table::Table;
use crate::order::NodeId;
use crate::session::{HostId, SessionId};

/// A host's commands on one session's account at one device, or the commands of one weighted queue
/// of the host.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostFlow {
    pub(super) device: DeviceId,
    pub(super) session: SessionId,
    pub(super) host: HostId,
    /// The host's leaf in the trees of the device.
    pub(super) node: NodeId,
    /// The queue's place in the host's own order; `None`: the flow is of all queues without weights.
    pub(super) own_queue: Option<OwnQueueId>,
    /// Calls that asked for the flow and have not released it.
    pub(super) references: u32,
    /// Commands that wait, output marks among them.
    pub(super) waiting: u32,
    /// Whether neither limits, bounded credits, a reservation nor an order by LBA concern the flow:
    /// with nothing waiting, its commands need only room in the window.
    pub(super) plain: bool,
    /// Commands that a reservation counts: announced ones, and those in the device that were charged to it.
    pub(super) charged: u32,
    /// Neighbours among the flows at the device.
    at_device: Neighbours,
    /// Neighbours among the flows of the session.
    of_session: Neighbours,
}

/// Neighbours in a list.
#[derive(Clone, Copy, Debug)]
struct Neighbours {
    prev: Option<HostFlowIndex>,
    next: Option<HostFlowIndex>,
}

impl Neighbours {
    const NONE: Self = Self { prev: None, next: None };
}

impl HostFlow {
    /// Makes a flow that is in no list yet, and that nobody uses.
    const fn new((device, session, host): (DeviceId, SessionId, HostId), node: NodeId) -> Self {
        Self {
            device,
            session,
            host,
            node,
            own_queue: None,
            references: 0,
            waiting: 0,
            plain: false,
            charged: 0,
            at_device: Neighbours::NONE,
            of_session: Neighbours::NONE,
        }
    }

    /// Returns whether nobody uses the flow and nothing of it is here.
    pub(super) fn is_unused(&self) -> bool {
        self.references == 0 && self.waiting == 0 && self.charged == 0
    }

    /// Counts one command less that a reservation counts.
    #[inline]
    pub(super) fn uncount_charged(&mut self) {
        debug_assert!(self.charged > 0, "no command is settled twice");
        self.charged = self.charged.saturating_sub(1);
    }

    /// Counts one command that waits less.
    #[inline]
    pub(super) fn uncount(&mut self) {
        debug_assert!(self.waiting > 0, "a command that waits is counted once");
        self.waiting = self.waiting.saturating_sub(1);
    }
}

/// Heads of the two lists that contain a flow: its device's list and its session's list.
pub(super) struct Lists<'a> {
    pub(super) at_device: &'a mut Option<HostFlowIndex>,
    pub(super) of_session: &'a mut Option<HostFlowIndex>,
}

/// All flows, by name and by device, session and host.
#[derive(Debug)]
pub(super) struct Flows {
    table: Table<HostFlowIndex, HostFlow>,
    by_host: FxHashMap<(DeviceId, SessionId, HostId), HostFlowIndex>,
}

impl Flows {
    pub(super) fn with_capacity(flows: usize) -> Self {
        let unused = HostFlow::new((DeviceId(0), SessionId::ROOT, HostId(0)), NodeId::ROOT);
        Self {
            table: Table::with_capacity(flows, unused),
            by_host: FxHashMap::with_capacity_and_hasher(flows, rustc_hash::FxBuildHasher),
        }
    }

    /// Finds a flow that is certain to be there: a queue, a list or an entry names it.
    #[inline]
    pub(super) fn at(&self, flow: HostFlowIndex) -> &HostFlow {
        self.table.at(flow)
    }

    /// Finds a flow that is certain to be there: a queue, a list or an entry names it.
    #[inline]
    pub(super) fn at_mut(&mut self, flow: HostFlowIndex) -> &mut HostFlow {
        self.table.at_mut(flow)
    }

    /// Finds a flow that a caller outside names, if it is still there.
    #[inline]
    pub(super) fn find(&self, flow: HostFlowId) -> Option<&HostFlow> {
        self.table.find(flow.0)
    }

    /// Finds a flow that a caller outside names, if it is still there.
    #[inline]
    pub(super) fn find_mut(&mut self, flow: HostFlowId) -> Option<&mut HostFlow> {
        self.table.find_mut(flow.0)
    }

    /// Names a flow for callers outside.
    #[inline]
    pub(super) fn id(&self, flow: HostFlowIndex) -> HostFlowId {
        HostFlowId(self.table.tagged(flow))
    }

    /// Finds the flow of a host on a session at a device.
    pub(super) fn of_host(
        &self,
        device: DeviceId,
        session: SessionId,
        host: HostId,
    ) -> Option<HostFlowIndex> {
        self.by_host.get(&(device, session, host)).copied()
    }

    /// Adds a flow, which somebody uses, at the front of its lists.
    pub(super) fn insert(
        &mut self,
        (device, session, host): (DeviceId, SessionId, HostId),
        (node, own_queue): (NodeId, Option<OwnQueueId>),
        lists: Lists<'_>,
    ) -> HostFlowIndex {
        let behind = |next: &Option<HostFlowIndex>| Neighbours { prev: None, next: *next };
        let flow = self.table.insert(HostFlow {
            references: 1,
            own_queue,
            at_device: behind(lists.at_device),
            of_session: behind(lists.of_session),
            ..HostFlow::new((device, session, host), node)
        });
        if let Some(next) = lists.at_device.replace(flow) {
            self.at_mut(next).at_device.prev = Some(flow);
        }
        if let Some(next) = lists.of_session.replace(flow) {
            self.at_mut(next).of_session.prev = Some(flow);
        }
        if own_queue.is_none() {
            self.by_host.insert((device, session, host), flow);
        }
        flow
    }

    /// Removes a flow from the table and from its lists.
    pub(super) fn remove(&mut self, flow: HostFlowIndex, lists: Lists<'_>) {
        let HostFlow { device, session, host, own_queue, at_device, of_session, .. } =
            self.table.remove(flow);
        if own_queue.is_none() {
            self.by_host.remove(&(device, session, host));
        }
        if let Some(next) = at_device.next {
            self.at_mut(next).at_device.prev = at_device.prev;
        }
        if let Some(next) = of_session.next {
            self.at_mut(next).of_session.prev = of_session.prev;
        }
        match at_device.prev {
            Some(prev) => self.at_mut(prev).at_device.next = at_device.next,
            None => *lists.at_device = at_device.next,
        }
        match of_session.prev {
            Some(prev) => self.at_mut(prev).of_session.next = of_session.next,
            None => *lists.of_session = of_session.next,
        }
    }

    /// Finds the flow behind another in the list of their device.
    pub(super) fn next_at_device(&self, flow: HostFlowIndex) -> Option<HostFlowIndex> {
        self.at(flow).at_device.next
    }

    /// Finds the flow behind another in the list of their session.
    pub(super) fn next_of_session(&self, flow: HostFlowIndex) -> Option<HostFlowIndex> {
        self.at(flow).of_session.next
    }

    /// Lists the flows.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &HostFlow> {
        self.table.iter()
    }

    /// Counts the flows, and the places.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize) {
        assert_eq!(self.by_host.len(), self.iter().filter(|flow| flow.own_queue.is_none()).count());
        self.table.sizes()
    }
}
