//! The resources that a reactor's queue pairs on a device share: registered memory and completion queues.

use std::sync::Arc;

use fabric_verbs::{Access, CompletionQueue, Device, Domain, Error, Memory, Regions, StaticBytes};
use sluice_core::{ZEROES, zeroes};

use crate::sys::mapping::Mapping;

/// Completions that a completion queue has room for, if the device allows as many.
const COMPLETIONS: u32 = 16 << 10;

/// A completion queue, and how much of it is promised.
#[derive(Debug)]
struct Completions {
    number: usize,
    queue: CompletionQueue,
    promised: u32,
    /// Whether the reactor has it.
    is_known: bool,
}

/// A reactor's part of a device.
#[derive(Debug)]
pub(super) struct ReactorDevice {
    device: Device,
    regions: Regions,
    completions: Vec<Completions>,
    /// Whether the device is gone or has failed, so that nothing more is made on it.
    is_gone: bool,
    /// Whether the memory of namespaces can be registered.
    sends_blocks: bool,
}

impl ReactorDevice {
    /// Registers the memory of a reactor on a device.
    pub(super) fn new(device: &Device, memory: Vec<Arc<Mapping>>) -> Result<Self, Error> {
        let regions = Regions::new(&Domain::new(device)?);
        for mapping in memory {
            regions.add(mapping, Access::LOCAL_WRITE)?;
        }
        regions.add(Arc::new(StaticBytes(zeroes(ZEROES))), Access::empty())?;
        let (device, completions) = (device.clone(), Vec::new());
        let sends_blocks = device.limits().writes_on_demand;
        Ok(Self { device, regions, completions, is_gone: false, sends_blocks })
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Returns whether it belongs to this device and may be used.
    pub(super) fn serves(&self, device: &Device) -> bool {
        self.device == *device && !self.is_gone
    }

    /// Returns whether it has the completion queue with this number.
    pub(super) fn has(&self, number: usize) -> bool {
        self.completions.iter().any(|one| one.number == number)
    }

    /// Takes note that a device is gone or has failed.
    pub(super) fn lose(&mut self, device: &Device) {
        self.is_gone |= self.device == *device;
    }

    /// Returns whether it can be dropped: its device is gone, and nobody uses it any more.
    pub(super) fn is_over(&self) -> bool {
        self.is_gone && self.completions.iter().all(|one| one.promised == 0)
    }

    /// Returns the numbers of the completion queues that the reactor has.
    pub(super) fn known(&self) -> impl Iterator<Item = usize> {
        self.completions.iter().filter(|one| one.is_known).map(|one| one.number)
    }

    /// Returns the registered memory.
    pub(super) fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Registers the memory of namespaces, so that answers are sent from there; memory that is not among
    /// these any more is registered no longer.
    pub(super) fn set_blocks(&mut self, memories: &[Arc<dyn Memory>]) {
        if self.is_gone || !self.sends_blocks {
            return;
        }
        if let Err(error) = self.regions.set_on_demand(memories) {
            self.sends_blocks = false;
            let device = self.device.name();
            tracing::warn!(device, %error, "reads of memory namespaces are answered from buffers");
        }
    }

    /// Promises room for completions. Returns the number of a completion queue, and the queue; `next` is the number
    /// for a new one.
    pub(super) fn promise(
        &mut self,
        wanted: u32,
        next: usize,
    ) -> Result<(usize, CompletionQueue), Error> {
        let room = |one: &&mut Completions| one.queue.capacity() - one.promised >= wanted;
        if let Some(found) = self.completions.iter_mut().find(room) {
            found.promised += wanted;
            return Ok((found.number, found.queue.share()));
        }
        let most = self.device.limits().completions;
        let queue = CompletionQueue::new(&self.device, COMPLETIONS.max(wanted).min(most))?;
        if queue.capacity() < wanted {
            let (has, wanted) = (queue.capacity().into(), wanted.into());
            return Err(Error::Limit { what: "completions of a queue", has, wanted });
        }
        let shared = queue.share();
        let new = Completions { number: next, queue, promised: wanted, is_known: false };
        self.completions.push(new);
        Ok((next, shared))
    }

    /// Returns a completion queue that the reactor does not have yet: from now on it has it.
    pub(super) fn hand_over(&mut self, number: usize) -> Option<CompletionQueue> {
        let one = self.completions.iter_mut().find(|one| one.number == number)?;
        (!std::mem::replace(&mut one.is_known, true)).then(|| one.queue.share())
    }

    /// Takes a promise back.
    pub(super) fn give_back(&mut self, number: usize, promised: u32) {
        let found = self.completions.iter_mut().find(|one| one.number == number);
        if let Some(found) = found {
            found.promised = found.promised.saturating_sub(promised);
        }
    }
}
