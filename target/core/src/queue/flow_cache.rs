//! The flow cache of a connection: the class of its host's commands to each namespace, and the
//! queues in which those commands wait (stage S1).

use arbitration::arbiter::HostFlowId;
use arbitration::classify::Classifier;
use arbitration::memory::MemoryFlowId;
use arbitration::overload::Backlog;
use arbitration::session::HostId;
use arbitration::{Class, PerClass};
use fabric::Nanos;
use fabric::controller::BackendId;
use fabric::nvme::{Sqe, opcode};

use crate::reactor::stages::Stages;
use crate::stats::accounts::Account;
use crate::stats::charge::Charge;
use crate::stats::workloads::WorkloadId;

/// Number of places that a connection has at first.
const PLACES_FIRST: usize = 8;
/// Largest number of places of a connection.
const PLACES_MAX: usize = 256;

/// One namespace, as this connection's host uses it.
#[derive(Clone, Debug)]
pub(crate) struct NamespaceFlow {
    pub(crate) nsid: u32,
    pub(crate) host: HostId,
    pub(crate) backend: BackendId,
    pub(crate) classifier: Classifier,
    pub(crate) account: Account,
    /// The queue at the device.
    pub(crate) flow: Option<HostFlowId>,
    /// The queue for memory for data that the host is asked for.
    pub(crate) fetch: MemoryFlowId,
    /// The queue for memory for read data.
    pub(crate) read: MemoryFlowId,
    pub(crate) flush_is_output: bool,
    /// The workloads of the host's commands to the namespace, as far as there were any.
    pub(crate) workloads: PerClass<Option<WorkloadId>>,
}

impl NamespaceFlow {
    fn release(self, stages: &mut Stages) {
        if let Some(flow) = self.flow {
            stages.arbiter.release(flow);
        }
        stages.gate.release(self.fetch);
        stages.reads.gate().release(self.read);
    }
}

/// The namespaces that one connection's host uses.
#[derive(Debug, Default)]
pub(crate) struct FlowCache {
    /// Version of the settings that the entries were made from.
    version: u64,
    /// Number of entries that were given up: a command that was charged by an older entry is
    /// charged again.
    generation: u64,
    /// A namespace's entry is at the place of its NSID's last bits. There are as many places as a
    /// power of two, or none.
    places: Vec<Option<NamespaceFlow>>,
}

impl FlowCache {
    /// Removes all entries if they were made from other settings.
    #[inline]
    pub(crate) fn refresh(&mut self, stages: &mut Stages, version: u64) {
        if self.version != version {
            self.clear(stages);
            self.version = version;
        }
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self, stages: &mut Stages) {
        self.generation += 1;
        for entry in self.places.drain(..).flatten() {
            entry.release(stages);
        }
    }

    /// Finds a namespace's place.
    #[inline]
    pub(crate) fn find(&self, nsid: u32, backend: BackendId) -> Option<usize> {
        let place = self.place(nsid);
        let entry = self.at(place)?;
        (entry.nsid == nsid && entry.backend == backend).then_some(place)
    }

    /// Returns the entry at a place.
    #[inline]
    pub(crate) fn at(&self, place: usize) -> Option<&NamespaceFlow> {
        self.places.get(place)?.as_ref()
    }

    /// Returns the charge of a command of the entry at a place.
    #[inline]
    pub(crate) fn charge(&self, now: Nanos, place: usize, sqe: &Sqe) -> Charge {
        let Some(entry) = self.at(place) else { return Charge::default() };
        let class = entry.classifier.class(now, named_class(sqe));
        Charge {
            class,
            host: entry.host,
            workload: entry.workloads[class],
            account: entry.account,
            flow: entry.flow,
            fetch: Some(entry.fetch),
            read: Some(entry.read),
            backend: Some(entry.backend),
            generation: self.generation,
        }
    }

    /// Returns the class that a command of the entry at a place asks for, where it may not have it.
    #[inline]
    pub(crate) fn lowered(&self, place: usize, sqe: &Sqe) -> Option<Class> {
        self.at(place)?.classifier.lowered(named_class(sqe))
    }

    /// Notes the workload of the commands of a class at a place.
    pub(crate) fn set_workload(&mut self, place: usize, class: Class, workload: WorkloadId) {
        if let Some(entry) = self.places.get_mut(place).and_then(Option::as_mut) {
            entry.workloads[class] = Some(workload);
        }
    }

    /// Returns whether a command's charge still holds.
    #[inline]
    pub(crate) fn is_current(&self, charge: &Charge) -> bool {
        charge.generation == self.generation
    }

    /// Inserts an entry, and returns its place. Releases the namespace's old entry or, at the maximum number of
    /// places, the entry of another namespace there.
    pub(crate) fn put(&mut self, stages: &mut Stages, entry: NamespaceFlow) -> usize {
        let nsid = entry.nsid;
        while self.places.is_empty()
            || self.places.len() < PLACES_MAX
                && self.at(self.place(nsid)).is_some_and(|other| other.nsid != nsid)
        {
            self.grow();
        }
        let place = self.place(nsid);
        if let Some(at) = self.places.get_mut(place)
            && let Some(old) = at.replace(entry)
        {
            self.generation += 1;
            old.release(stages);
        }
        place
    }

    /// Doubles the number of places. Entries are known by their places, so commands are charged
    /// again.
    fn grow(&mut self) {
        self.generation += 1;
        let entries = std::mem::take(&mut self.places);
        self.places.resize_with((entries.len() * 2).max(PLACES_FIRST), || None);
        for entry in entries.into_iter().flatten() {
            let place = self.place(entry.nsid);
            if let Some(at) = self.places.get_mut(place) {
                *at = Some(entry);
            }
        }
    }

    fn place(&self, nsid: u32) -> usize {
        nsid as usize & self.places.len().saturating_sub(1)
    }

    /// Returns whether the backlog of any session of the host's commands is full.
    pub(crate) fn is_full(&self, stages: &Stages) -> bool {
        self.any_backlog(stages, Backlog::is_full)
    }

    /// Returns whether the backlog of any session of the host's commands is twice its limit.
    pub(crate) fn is_over(&self, stages: &Stages) -> bool {
        self.any_backlog(stages, Backlog::is_over)
    }

    fn any_backlog(&self, stages: &Stages, is: impl Fn(&Backlog) -> bool) -> bool {
        let flows = self.places.iter().flatten().filter_map(|entry| entry.flow);
        let mut sessions = flows.filter_map(|flow| stages.arbiter.session_of(flow));
        sessions.any(|session| is(&session.backlog))
    }
}

/// Returns the class that a command names itself. Only some commands have the bits
/// (docs/research/sources.md, E6: every command and packet names its class).
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
