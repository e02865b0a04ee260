//! The rights of one client on a data node.
//!
//! Each client has a protection domain of its own, with four registrations in it: the region's
//! data, its grant word (it reads), its report word (it writes) and the pool (atomics alone). A key
//! works only on queue pairs of its domain, so another client's key is useless. No client writes
//! another's words, nor the pool other than by atomics. Dropping a [`Grant`] ends its rights at
//! once, in any state of the connection.

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use fabric::queue::Remote;
use fabric::rdma::placement::Placement;
use fabric_verbs::{Access, Device, Domain, Error, Memory, Region, Regions, SharedMemory};
use pmem::one_sided::Address;
use pmem::token::Tokens;
use pmem::word::GrantWord;

use crate::private_data::{Accept, Keyed, Rights};

/// Bytes of a word.
const WORD: usize = 8;

/// The words that a data node shares with its clients: the pool, and a grant and a report for each.
#[derive(Clone, Debug)]
pub struct ControlWords {
    memory: SharedMemory,
    clients: u32,
}

impl ControlWords {
    /// Makes the words of up to `clients` clients, numbered from 0 on; all are 0 at first.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub fn new(clients: u32) -> Result<Self, Error> {
        let memory = SharedMemory::new(Self::place(clients, 0).end)?;
        Ok(Self { memory, clients })
    }

    /// Returns the pool's word. Words that clients change by atomics are changed through the device
    /// alone: see [`Grant::monitor`].
    #[must_use]
    pub fn pool(&self) -> u64 {
        self.memory.load(0).unwrap_or(0)
    }

    /// Returns a client's last report; 0 for a client without words.
    #[must_use]
    pub fn report(&self, client: u32) -> u64 {
        self.memory.load(Self::place(client, 1).start).unwrap_or(0)
    }

    /// Writes a client's grant. Returns false for a client without words.
    pub fn set_grant(&self, client: u32, grant: GrantWord) -> bool {
        client < self.clients && self.memory.store(Self::place(client, 0).start, grant.pack())
    }

    /// Clears the words of a client, before another one gets its number.
    pub fn clear(&self, client: u32) {
        if client < self.clients {
            for word in [0, 1] {
                self.memory.store(Self::place(client, word).start, 0);
            }
        }
    }

    /// Returns the place of a client's grant (0) or report (1), behind the pool.
    fn place(client: u32, word: usize) -> Range<usize> {
        let client = usize::try_from(client).unwrap_or(usize::MAX / 4);
        let start = client.saturating_mul(2).saturating_add(word + 1).saturating_mul(WORD);
        start..start.saturating_add(WORD)
    }
}

/// How the engines of a data node work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// T: length of a period.
    pub period: Duration,
    /// Time between two reports.
    pub interval: Duration,
    /// B: tokens of a batch.
    pub batch: Tokens,
    /// L_i: the most I/Os in a period.
    pub limit: Option<Tokens>,
    /// The most bytes of an I/O.
    pub io_bytes: NonZeroU32,
}

/// The rights of one client, until it is dropped.
#[derive(Debug)]
pub struct Grant {
    // The keys are dropped before the domain.
    data: Region,
    pool: Region,
    grant: Region,
    report: Region,
    regions: Regions,
    client: u32,
    rights: Rights,
    flushes: Option<Placement>,
}

impl Grant {
    /// Grants a client a part of a memory, and its words. A client that may write may also request
    /// placement by FLUSHes, if the device supports them for this memory.
    ///
    /// # Errors
    ///
    /// The part is not all inside the memory, the client has no words, or the device has no room.
    pub fn new(
        device: &Device,
        words: &ControlWords,
        client: u32,
        (data, part): (Arc<dyn Memory>, Range<usize>),
        (rights, flushes): (Rights, Option<Placement>),
    ) -> Result<Self, Error> {
        let may = (rights, flushes);
        Self::with_pool(device, words, client, (data, part), may, Access::REMOTE_ATOMIC)
    }

    /// Grants the pool to the data node's own monitor. The monitor changes it by a connection to
    /// itself, so that the device orders its operations with the clients' operations. `client` is a
    /// number of its own.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn monitor(device: &Device, words: &ControlWords, client: u32) -> Result<Self, Error> {
        let access = Access::REMOTE_ATOMIC | Access::REMOTE_READ | Access::REMOTE_WRITE;
        let own: Arc<dyn Memory> = Arc::new(words.memory.clone());
        let part = ControlWords::place(client, 0);
        Self::with_pool(device, words, client, (own, part), (Rights::Read, None), access)
    }

    fn with_pool(
        device: &Device,
        words: &ControlWords,
        client: u32,
        (data, part): (Arc<dyn Memory>, Range<usize>),
        (rights, flushes): (Rights, Option<Placement>),
        pool: Access,
    ) -> Result<Self, Error> {
        let domain = Domain::new(device)?;
        let access = match rights {
            Rights::Read => Access::REMOTE_READ,
            Rights::ReadWrite => Access::REMOTE_READ | Access::REMOTE_WRITE,
        };
        let has = device.limits().flushes;
        let flushes = flushes.filter(|wanted| rights == Rights::ReadWrite && has >= Some(*wanted));
        let (data, flushes) = register(&domain, (data, part), access, flushes)?;
        let word = |place: Range<usize>, access| words.memory.share(&domain, place, access);
        Ok(Self {
            data,
            pool: word(0..WORD, pool)?,
            grant: word(ControlWords::place(client, 0), Access::REMOTE_READ)?,
            report: word(ControlWords::place(client, 1), Access::REMOTE_WRITE)?,
            regions: Regions::new(&domain),
            client,
            rights,
            flushes,
        })
    }

    /// Returns the client's rights on the data.
    #[must_use]
    pub const fn rights(&self) -> Rights {
        self.rights
    }

    /// Returns the domain that the client's queue pair must be of.
    #[must_use]
    pub const fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Returns the terms for the client.
    #[must_use]
    pub fn accept(&self, terms: Terms) -> Accept {
        let keyed = |region: &Region| {
            let Remote { address, key } = region.remote();
            Keyed { at: Address(address), key }
        };
        Accept {
            client: self.client,
            rights: self.rights,
            data: keyed(&self.data),
            length: self.data.length() as u64,
            pool: keyed(&self.pool),
            grant: keyed(&self.grant),
            report: keyed(&self.report),
            period: terms.period,
            interval: terms.interval,
            batch: terms.batch,
            limit: terms.limit,
            io_bytes: Some(terms.io_bytes),
            flushes: self.flushes,
        }
    }
}

/// Registers a client's data, for FLUSHes too where the device takes this memory for them.
fn register(
    domain: &Domain,
    (data, part): (Arc<dyn Memory>, Range<usize>),
    access: Access,
    flushes: Option<Placement>,
) -> Result<(Region, Option<Placement>), Error> {
    let with = match flushes {
        None => access,
        Some(Placement::Global) => access | Access::FLUSH_GLOBAL,
        Some(Placement::Persistent) => access | Access::FLUSH_GLOBAL | Access::FLUSH_PERSISTENT,
    };
    match Region::part(domain, Arc::clone(&data), part.clone(), with) {
        Ok(region) => Ok((region, flushes)),
        Err(_) if flushes.is_some() => Ok((Region::part(domain, data, part, access)?, None)),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use pmem::period::Period;

    use super::*;

    #[test]
    fn each_client_has_words_of_its_own() {
        let words = ControlWords::new(3).unwrap();
        let grant = |reservation| GrantWord { period: Period(1), reservation: Tokens(reservation) };
        assert!((0..3).all(|client| words.set_grant(client, grant(u64::from(client) + 5))));
        assert!(!words.set_grant(3, grant(9)), "there is no such client");
        let places: Vec<usize> = (0..3)
            .flat_map(|client| [0, 1].map(|word| ControlWords::place(client, word).start))
            .collect();
        assert_eq!(places, [8, 16, 24, 32, 40, 48]);
        assert_eq!(words.memory.load(24), Some(grant(6).pack()));
        assert_eq!((words.pool(), words.report(1), words.report(u32::MAX)), (0, 0, 0));
        words.clear(1);
        assert_eq!(words.memory.load(24), Some(0));
        assert_eq!(words.memory.load(40), Some(grant(7).pack()));
    }
}
