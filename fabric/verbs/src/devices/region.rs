//! Memory that devices may reach.

use std::collections::HashSet;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, PoisonError, RwLock};

use fabric::queue::Remote;
use rdma_sys::{ibv_dereg_mr, ibv_mr, ibv_reg_mr};

use super::device::Domain;
use crate::error::{Error, has_ended};
use crate::memory::{Access, Memory};

/// A registration: memory that the device may reach until this is dropped.
#[derive(Debug)]
pub struct Region {
    raw: NonNull<ibv_mr>,
    start: usize,
    length: usize,
    lkey: u32,
    rkey: u32,
    /// Whether it was registered by [`Regions::set_on_demand`].
    on_demand: bool,
    _domain: Domain,
    /// The memory is dropped after its registration.
    _memory: Option<Arc<dyn Memory>>,
}

// SAFETY: a registration may be used and ended by any thread.
unsafe impl Send for Region {}
// SAFETY: as for `Send`; nothing of it changes.
unsafe impl Sync for Region {}

impl Region {
    /// Registers memory.
    ///
    /// # Errors
    /// The kernel does not allow it (RLIMIT_MEMLOCK), the device has no room, or `access` lets others at
    /// the memory, which is not writable.
    pub fn new(domain: &Domain, memory: Arc<dyn Memory>, access: Access) -> Result<Self, Error> {
        let all = 0..memory.length();
        Self::register(domain, memory, all, access)
    }

    /// Registers a part of memory, with rights of its own: peers reach these bytes and no others by the
    /// region's key, from queue pairs of the same domain, until it is dropped. Memory can be in several
    /// regions at once.
    ///
    /// # Errors
    /// As [`Self::new`]; or the part is not all inside the memory, or empty.
    pub fn part(
        domain: &Domain,
        memory: Arc<dyn Memory>,
        part: Range<usize>,
        access: Access,
    ) -> Result<Self, Error> {
        if part.is_empty() || part.end > memory.length() {
            let source = std::io::Error::from_raw_os_error(libc::EINVAL);
            let call = "the registration of a part that the memory does not have";
            return Err(Error::Call { call, source });
        }
        Self::register(domain, memory, part, access)
    }

    /// Registers bytes of a memory that has all of them.
    fn register(
        domain: &Domain,
        memory: Arc<dyn Memory>,
        bytes: Range<usize>,
        mut access: Access,
    ) -> Result<Self, Error> {
        if !Access::ON_DEMAND.contains(access) && !memory.is_writable() {
            let source = std::io::Error::from_raw_os_error(libc::EACCES);
            return Err(Error::Call { call: "the registration of read-only memory", source });
        }
        if access.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC) {
            // Remote write access requires local write access.
            access |= Access::LOCAL_WRITE;
        }
        // SAFETY: the bytes begin inside the memory.
        let address = unsafe { memory.address().add(bytes.start) };
        // SAFETY: the memory is mapped until the region has dropped it, after its registration.
        let mut region = unsafe { Self::of_bytes(domain, address, bytes.len(), access) }?;
        region._memory = Some(memory);
        Ok(region)
    }

    /// Registers bytes.
    ///
    /// # Safety
    /// The bytes stay mapped until the region is dropped, and `access` fits how they are used.
    pub(super) unsafe fn of_bytes(
        domain: &Domain,
        address: *mut u8,
        length: usize,
        access: Access,
    ) -> Result<Self, Error> {
        let flags = i32::from(access.bits());
        // SAFETY: the caller vouches for the bytes; the domain lives as long as the region.
        let raw = unsafe { ibv_reg_mr(domain.raw(), address.cast(), length, flags) };
        let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_reg_mr"))?;
        // SAFETY: the call has made the region.
        let (lkey, rkey) = unsafe { ((*raw.as_ptr()).lkey, (*raw.as_ptr()).rkey) };
        let (start, domain) = (address as usize, domain.clone());
        let on_demand = access.contains(Access::ON_DEMAND);
        Ok(Self { raw, start, length, lkey, rkey, on_demand, _domain: domain, _memory: None })
    }

    /// Returns the memory's place as peers name it.
    #[must_use]
    pub fn remote(&self) -> Remote {
        Remote { address: self.start as u64, key: self.rkey }
    }

    /// Returns the length of the memory in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    pub(super) fn lkey(&self) -> u32 {
        self.lkey
    }

    /// Returns whether all of these bytes are in the region.
    fn holds(&self, start: usize, length: usize) -> bool {
        start
            .checked_sub(self.start)
            .and_then(|offset| offset.checked_add(length))
            .is_some_and(|end| end <= self.length)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the registration was made by `of_bytes` and is ended once.
        let answer = unsafe { ibv_dereg_mr(self.raw.as_ptr()) };
        debug_assert!(has_ended(answer), "a registration ends");
    }
}

/// Registered memory by addresses, so that what lies in it is moved without a registration of its own.
/// A clone is the same table.
#[derive(Clone, Debug)]
pub struct Regions {
    domain: Domain,
    /// The registrations, by their addresses; they do not overlap.
    table: Arc<RwLock<Vec<Arc<Region>>>>,
}

/// The registration that a work request uses.
#[derive(Debug)]
pub(super) enum Key {
    Known(Arc<Region>),
    Own(Region),
}

impl Key {
    pub(super) fn lkey(&self) -> u32 {
        match self {
            Self::Known(region) => region.lkey(),
            Self::Own(region) => region.lkey(),
        }
    }
}

impl Regions {
    /// Makes an empty table.
    #[must_use]
    pub fn new(domain: &Domain) -> Self {
        Self { domain: domain.clone(), table: Arc::default() }
    }

    /// Returns the protection domain.
    #[must_use]
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// Registers memory, and keeps the registration.
    ///
    /// # Errors
    /// As [`Region::new`].
    pub fn add(&self, memory: Arc<dyn Memory>, access: Access) -> Result<Arc<Region>, Error> {
        let region = Arc::new(Region::new(&self.domain, memory, access)?);
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let place = table.partition_point(|other| other.start < region.start);
        table.insert(place, Arc::clone(&region));
        Ok(region)
    }

    /// Registers these memories on demand, to be sent from. Ends the registrations on demand of all others;
    /// work requests that are under way keep theirs.
    ///
    /// # Errors
    /// As [`Region::new`]; the device may also know no registration on demand.
    pub fn set_on_demand(&self, memories: &[Arc<dyn Memory>]) -> Result<(), Error> {
        let place = |memory: &Arc<dyn Memory>| (memory.address() as usize, memory.length());
        let wanted: HashSet<_> = memories.iter().map(place).collect();
        let is_over = |one: &Region| one.on_demand && !wanted.contains(&(one.start, one.length));
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let any_over = table.iter().any(|one| is_over(one));
        drop(table);
        if any_over {
            let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
            let over: Vec<_> = table.extract_if(.., |one| is_over(one)).collect();
            drop(table);
            // A registration takes long to end, and others look for theirs meanwhile.
            drop(over);
        }
        for memory in memories {
            let (start, length) = place(memory);
            if self.find(start, length).is_none() {
                self.add(Arc::clone(memory), Access::ON_DEMAND)?;
            }
        }
        Ok(())
    }

    /// Returns whether bytes are registered.
    #[must_use]
    pub fn has(&self, bytes: &[u8]) -> bool {
        self.find(bytes.as_ptr() as usize, bytes.len()).is_some()
    }

    /// Finds the registration of bytes.
    fn find(&self, start: usize, length: usize) -> Option<Arc<Region>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        let place = table.partition_point(|region| region.start <= start).checked_sub(1)?;
        table.get(place).filter(|region| region.holds(start, length)).map(Arc::clone)
    }

    /// Finds the registration of bytes, or registers them until the key is dropped.
    ///
    /// # Safety
    /// The bytes stay mapped until the key is dropped, and `access` fits how they are used.
    ///
    /// # Errors
    /// As [`Region::new`].
    pub(super) unsafe fn key(
        &self,
        address: *mut u8,
        length: usize,
        access: Access,
    ) -> Result<Key, Error> {
        if let Some(region) = self.find(address as usize, length) {
            return Ok(Key::Known(region));
        }
        // SAFETY: the caller vouches for the bytes.
        unsafe { Region::of_bytes(&self.domain, address, length, access) }.map(Key::Own)
    }
}
