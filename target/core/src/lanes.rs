//! A connection's lanes: for each namespace that its host uses, the class of its commands and the
//! queue they wait in (stage S1).

use std::hash::{DefaultHasher, Hash, Hasher};

use arbitration::Class;
use arbitration::arbiter::FlowId;
use arbitration::classify::Classifier;
use arbitration::memory::MemoryFlow;
use arbitration::overload::Backlog;
use fabric::controller::{BackendId, ListenerId};
use fabric::nvme::{Sqe, opcode};

use crate::accounts::Account;
use crate::context::Context;
use crate::device::device_id;
use crate::driver::Driver;
use crate::io_queue::IoQueue;
use crate::policies::Policies;

/// Output Mark: a vendor-specific I/O command without data, by which a host says that what it has
/// sent so far to a namespace ends a container (docs/sources.md, I1: outputs end containers). It
/// completes at once.
pub(crate) const OUTPUT_MARK: u8 = 0xc0;

/// Places for lanes that a connection has at first, and at the most.
const LANES_FIRST: usize = 8;
const LANES_MAX: usize = 256;

/// One namespace, as this connection's host uses it.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    nsid: u32,
    pub(crate) backend: BackendId,
    pub(crate) classifier: Classifier,
    pub(crate) account: Account,
    /// The queue at the device.
    pub(crate) flow: Option<FlowId>,
    /// The queue for memory for data that the host is asked for.
    pub(crate) fetch: Option<MemoryFlow>,
    pub(crate) flush_is_output: bool,
}

impl Lane {
    fn release<D: Driver>(self, io: &mut Context<D>) {
        if let Some(flow) = self.flow {
            io.arbiter.release(flow);
        }
        if let Some(flow) = self.fetch {
            io.memory.release(flow);
        }
    }
}

/// The lanes of one connection.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// The version of the settings that they were made from.
    version: u64,
    /// How often lanes were given up: what was charged to one before is to be charged again.
    pub(crate) generation: u64,
    /// A namespace's lane is at the place of its NSID's last bits.
    lanes: Vec<Option<Lane>>,
}

impl Lanes {
    /// Gives all lanes up.
    pub(crate) fn clear<D: Driver>(&mut self, io: &mut Context<D>) {
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
    fn put<D: Driver>(&mut self, io: &mut Context<D>, lane: Lane) -> usize {
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
    pub(crate) fn is_full<D: Driver>(&self, io: &Context<D>) -> bool {
        self.any_backlog(io, Backlog::is_full)
    }

    /// Whether any of those has twice as many waiting.
    pub(crate) fn is_over<D: Driver>(&self, io: &Context<D>) -> bool {
        self.any_backlog(io, Backlog::is_over)
    }

    fn any_backlog<D: Driver>(&self, io: &Context<D>, is: impl Fn(&Backlog) -> bool) -> bool {
        let flows = self.lanes.iter().flatten().filter_map(|lane| lane.flow);
        let mut sessions = flows.filter_map(|flow| io.arbiter.session_of(flow));
        sessions.any(|session| is(&session.backlog))
    }
}

/// The class that a command names itself. Only some commands have the bits (docs/sources.md, E6:
/// every command and packet names its class).
#[inline]
pub(crate) fn named_class(sqe: &Sqe) -> Option<Class> {
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
    pub(crate) fn lane<D: Driver>(
        &mut self,
        io: &mut Context<D>,
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
    pub(crate) fn lane_at(&self, index: usize) -> Option<&Lane> {
        self.lanes.lanes.get(index)?.as_ref()
    }

    #[cold]
    fn make_lane<D: Driver>(
        &mut self,
        io: &mut Context<D>,
        origin: &Origin,
        nsid: u32,
        backend: BackendId,
    ) -> usize {
        let (host, subsystem) = (&self.shared.host_nqn, &self.shared.subsystem_nqn);
        let resolved = io.driver.resolve(&io.qos, host, subsystem, Some(nsid));
        let mut hasher = DefaultHasher::new();
        host.hash(&mut hasher);
        let host = hasher.finish();
        let enabled = io.qos.enabled();
        let device = device_id(backend);
        let session = &resolved.tenant.session;
        let flow = if enabled { io.arbiter.flow(device, session, host) } else { None };
        let fetch = enabled.then(|| io.memory.flow(session, host));
        let account = io.accounts.open(&resolved.tenant);
        let lane = Lane {
            nsid,
            backend,
            classifier: Classifier::new(&io.qos.connection_class(origin), resolved.class),
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
pub struct Origin {
    /// The listener that accepted it.
    pub listener: ListenerId,
    /// CATTR 1:0 of its Connect command.
    pub priority: u8,
    /// Its controller runs with weighted round robin: `priority` counts.
    pub weighted: bool,
    /// The ToS or traffic class byte that the host connected with.
    pub tos: Option<u8>,
}
