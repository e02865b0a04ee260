//! What the queue pairs of a reactor on a device share: registered memory and completion queues.

use std::sync::Arc;

use fabric::rdma::verbs::{Access, CompletionQueue, Device, Domain, Error, Regions, StaticBytes};
use sluice_core::{ZEROES, zeroes};

use crate::mapping::Mapping;

/// Completions that a completion queue has room for, if the device allows as many.
const COMPLETIONS: u32 = 16 << 10;

/// A completion queue, and how much of it is promised.
#[derive(Debug)]
struct Completions {
    number: usize,
    queue: CompletionQueue,
    promised: u32,
}

/// A reactor's part of a device.
#[derive(Debug)]
pub(super) struct ReactorDevice {
    device: Device,
    regions: Regions,
    completions: Vec<Completions>,
}

impl ReactorDevice {
    /// Registers the memory of a reactor on a device.
    pub(super) fn new(device: &Device, memory: Vec<Arc<Mapping>>) -> Result<Self, Error> {
        let regions = Regions::new(&Domain::new(device)?);
        for mapping in memory {
            regions.add(mapping, Access::LOCAL_WRITE)?;
        }
        regions.add(Arc::new(StaticBytes(zeroes(ZEROES))), Access::empty())?;
        Ok(Self { device: device.clone(), regions, completions: Vec::new() })
    }

    /// Says whether it is a part of that device.
    pub(super) fn is_of(&self, device: &Device) -> bool {
        self.device == *device
    }

    /// Returns the registered memory.
    pub(super) fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Promises room for completions. Returns the number of a completion queue, the queue, and
    /// whether the queue is new: `next` is its number then.
    pub(super) fn promise(
        &mut self,
        wanted: u32,
        next: usize,
    ) -> Result<(usize, CompletionQueue, bool), Error> {
        let room = |one: &&mut Completions| one.queue.capacity() - one.promised >= wanted;
        if let Some(found) = self.completions.iter_mut().find(room) {
            found.promised += wanted;
            return Ok((found.number, found.queue.share(), false));
        }
        let most = self.device.limits().completions;
        let queue = CompletionQueue::new(&self.device, COMPLETIONS.max(wanted).min(most))?;
        if queue.capacity() < wanted {
            let (has, wanted) = (queue.capacity().into(), wanted.into());
            return Err(Error::Limit { what: "completions of a queue", has, wanted });
        }
        let shared = queue.share();
        self.completions.push(Completions { number: next, queue, promised: wanted });
        Ok((next, shared, true))
    }

    /// Takes a promise back.
    pub(super) fn give_back(&mut self, number: usize, promised: u32) {
        let found = self.completions.iter_mut().find(|one| one.number == number);
        if let Some(found) = found {
            found.promised = found.promised.saturating_sub(promised);
        }
    }
}
