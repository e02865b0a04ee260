//! A connection's lanes: for each namespace that its host uses, the class of its commands and the
//! queue they wait in (stage S1).

use std::hash::{DefaultHasher, Hash, Hasher};

use arbitration::Class;
use arbitration::arbiter::FlowId;
use arbitration::classify::{Classifier, ConnectionClass};
use arbitration::overload::Backlog;
use fabric::controller::{BackendId, ListenerId};
use fabric::nvme::{Sqe, opcode};

use super::Io;
use super::accounts::Account;
use super::io_queue::IoQueue;
use crate::qos::{MEMORY, Snapshot, device_id};

/// Output Mark: a vendor-specific I/O command without data, by which a host says that what it has
/// sent so far to a namespace ends a container (seed row I1). It completes at once.
pub(super) const OUTPUT_MARK: u8 = 0xc0;

/// Places for lanes that a connection has at first, and at the most.
const LANES_FIRST: usize = 8;
const LANES_MAX: usize = 256;

/// One namespace, as this connection's host uses it.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    nsid: u32,
    pub(super) backend: BackendId,
    pub(super) classifier: Classifier,
    pub(super) account: Account,
    /// The queue at the device.
    pub(super) flow: Option<FlowId>,
    /// The queue for memory for data that the host is asked for.
    pub(super) fetch: Option<FlowId>,
    pub(super) flush_is_output: bool,
}

impl Lane {
    fn release(self, io: &mut Io) {
        for flow in [self.flow, self.fetch].into_iter().flatten() {
            io.arbiter.release(flow);
        }
    }
}

/// The lanes of one connection.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// The version of the settings that they were made from.
    version: u64,
    /// How often lanes were given up: what was charged to one before is to be charged again.
    pub(super) generation: u64,
    /// A namespace's lane is at the place of its NSID's last bits.
    lanes: Vec<Option<Lane>>,
}

impl Lanes {
    /// Gives all lanes up.
    pub(super) fn clear(&mut self, io: &mut Io) {
        self.generation += 1;
        for lane in self.lanes.drain(..).flatten() {
            lane.release(io);
        }
    }

    fn place(&self, nsid: u32) -> usize {
        // As many as a power of two, or none.
        nsid as usize & self.lanes.len().saturating_sub(1)
    }

    #[inline]
    fn find(&self, nsid: u32, backend: BackendId) -> Option<usize> {
        let place = self.place(nsid);
        let lane = self.lanes.get(place)?.as_ref()?;
        (lane.nsid == nsid && lane.backend == backend).then_some(place)
    }

    /// Puts a lane in its place: that of the same namespace is given up, and another's where there
    /// are as many as may be.
    fn put(&mut self, io: &mut Io, lane: Lane) -> usize {
        let nsid = lane.nsid;
        let other = |lane: &&Lane| lane.nsid != nsid;
        while self.lanes.is_empty()
            || self.lanes.len() < LANES_MAX
                && self
                    .lanes
                    .get(self.place(nsid))
                    .and_then(Option::as_ref)
                    .is_some_and(|l| other(&l))
        {
            let lanes = std::mem::take(&mut self.lanes);
            self.lanes.resize_with((lanes.len() * 2).max(LANES_FIRST), || None);
            // Lanes are called by their places.
            self.generation += 1;
            for lane in lanes.into_iter().flatten() {
                let place = self.place(lane.nsid);
                if let Some(at) = self.lanes.get_mut(place) {
                    *at = Some(lane);
                }
            }
        }
        let place = self.place(nsid);
        if let Some(at) = self.lanes.get_mut(place)
            && let Some(old) = at.replace(lane)
        {
            self.generation += 1;
            old.release(io);
        }
        place
    }

    /// Whether any session that the host's commands are charged to has as many waiting as it may.
    pub(super) fn is_full(&self, io: &Io) -> bool {
        self.any_backlog(io, Backlog::is_full)
    }

    /// Whether any of those has twice as many waiting.
    pub(super) fn is_over(&self, io: &Io) -> bool {
        self.any_backlog(io, Backlog::is_over)
    }

    fn any_backlog(&self, io: &Io, is: impl Fn(&Backlog) -> bool) -> bool {
        let flows = self.lanes.iter().flatten().filter_map(|lane| lane.flow);
        let mut sessions = flows.filter_map(|flow| io.arbiter.session_of(flow));
        sessions.any(|session| is(&session.backlog))
    }
}

/// The class that a command names itself. Only some commands have the bits (seed row E6).
#[inline]
pub(super) fn named_class(sqe: &Sqe) -> Option<Class> {
    let cdw13 = sqe.cdw13.get();
    if cdw13 & 0x300 == 0 {
        return None;
    }
    match sqe.opcode {
        opcode::io::READ
        | opcode::io::WRITE
        | opcode::io::COMPARE
        | opcode::io::WRITE_ZEROES
        | opcode::io::VERIFY
        | opcode::io::DATASET_MANAGEMENT => Class::of_command(sqe.cdw12.get(), cdw13),
        _ => None,
    }
}

impl IoQueue {
    /// The lane of a namespace: made where there is none, or where settings have changed.
    #[inline]
    pub(super) fn lane(
        &mut self,
        io: &mut Io,
        origin: &Origin,
        nsid: u32,
        backend: BackendId,
    ) -> usize {
        if self.lanes.version != io.lanes_version {
            self.lanes.clear(io);
            self.lanes.version = io.lanes_version;
        }
        match self.lanes.find(nsid, backend) {
            Some(place) => place,
            None => self.make_lane(io, origin, nsid, backend),
        }
    }

    /// A lane by its index.
    #[inline]
    pub(super) fn lane_at(&self, index: usize) -> Option<&Lane> {
        self.lanes.lanes.get(index)?.as_ref()
    }

    #[cold]
    fn make_lane(&mut self, io: &mut Io, origin: &Origin, nsid: u32, backend: BackendId) -> usize {
        let (host, subsystem) = (&self.shared.host_nqn, &self.shared.subsystem_nqn);
        let own = io.shared.qos.namespace(subsystem, nsid);
        let resolved = io.qos.resolve(host, subsystem, Some(nsid), own);
        let mut hasher = DefaultHasher::new();
        host.hash(&mut hasher);
        let host = hasher.finish();
        let enabled = io.qos.general.enabled;
        let device = device_id(backend);
        let mut flow_at = |device| {
            let session = &resolved.tenant.session;
            if enabled { io.arbiter.flow(device, session, host) } else { None }
        };
        let (flow, fetch) = (flow_at(device), flow_at(MEMORY));
        let account = io.accounts.open(&resolved.tenant);
        let lane = Lane {
            nsid,
            backend,
            classifier: Classifier::new(&origin.class(&io.qos), resolved.class),
            account,
            flow,
            fetch,
            flush_is_output: resolved.flush_is_output,
        };
        self.lanes.put(io, lane)
    }
}

/// Where a connection comes from: what its class is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) listener: ListenerId,
    /// CATTR 1:0 of its Connect command.
    pub(super) priority: u8,
    /// Its controller runs with weighted round robin: `priority` counts.
    pub(super) weighted: bool,
    /// The ToS or traffic class byte that the host connected with.
    pub(super) tos: Option<u8>,
}

impl Origin {
    /// What the connection says of its class, by the present settings.
    pub(super) fn class(&self, qos: &Snapshot) -> ConnectionClass {
        ConnectionClass {
            priority: self.priority,
            weighted: self.weighted,
            mark: qos.marked_class(self.tos),
            listener: qos.listener_class(self.listener),
        }
    }
}
