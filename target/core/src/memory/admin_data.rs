//! Memory for the data that admin commands bring, of which all admin queues of an address have one
//! part: anybody may have many queues, and leave the data of many commands owing.

use std::cell::Cell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::rc::{Rc, Weak};

/// Commands of one address whose data may be on its way at one time, beside one of each of its admin
/// queues. Each brings 4 KiB at most: 512 KiB.
pub(crate) const OWING_MAX: u32 = 128;

/// Number of addresses at which stale ones are first removed.
const ADDRESSES: usize = 64;

/// The memory of all addresses, in one reactor.
#[derive(Debug, Default)]
pub(crate) struct AdminData {
    by_address: HashMap<IpAddr, Weak<Cell<u32>>>,
    /// Number of addresses at which stale ones are removed next.
    sift_at: usize,
}

impl AdminData {
    /// Finds the part of an address.
    pub(crate) fn of(&mut self, address: IpAddr) -> AddressData {
        if self.by_address.len() >= self.sift_at.max(ADDRESSES) {
            self.by_address.retain(|_, data| data.strong_count() > 0);
            self.sift_at = 2 * self.by_address.len();
        }
        let known = self.by_address.entry(address.to_canonical()).or_default();
        let data = known.upgrade().unwrap_or_default();
        *known = Rc::downgrade(&data);
        AddressData(data)
    }
}

/// The part of one address: the number of its commands whose data is on its way.
#[derive(Debug)]
pub(crate) struct AddressData(Rc<Cell<u32>>);

impl AddressData {
    /// Returns the part for another user of it.
    pub(crate) fn share(&self) -> Self {
        Self(Rc::clone(&self.0))
    }

    /// Takes memory for the data of a command. `None` where the address has its part.
    pub(crate) fn take(&self, bytes: u32) -> Option<AdminBuffer> {
        let owing = self.0.get();
        if owing >= OWING_MAX {
            return None;
        }
        self.0.set(owing + 1);
        let counted = Counted(Rc::clone(&self.0));
        Some(AdminBuffer { counted: Some(counted), ..AdminBuffer::uncounted(bytes) })
    }
}

/// A command that counts for its address, until it is dropped.
#[derive(Debug)]
struct Counted(Rc<Cell<u32>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// Memory for the data of one command.
#[derive(Debug)]
pub(crate) struct AdminBuffer {
    bytes: Vec<u8>,
    #[expect(dead_code, reason = "the count ends with the memory")]
    counted: Option<Counted>,
}

impl AdminBuffer {
    /// Takes memory for the only command of a queue, which counts for no address.
    pub(crate) fn uncounted(bytes: u32) -> Self {
        Self { bytes: vec![0; bytes as usize], counted: None }
    }
}

impl Deref for AdminBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for AdminBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(n: u32) -> IpAddr {
        Ipv4Addr::from(n).into()
    }

    #[test]
    fn the_queues_of_an_address_have_one_part_and_another_address_has_its_own() {
        let mut all = AdminData::default();
        let mapped = Ipv4Addr::from(1).to_ipv6_mapped().into();
        let (one, same, other) = (all.of(address(1)), all.of(mapped), all.of(address(2)));
        let mut taken: Vec<_> = (0..OWING_MAX / 2).filter_map(|_| one.take(4096)).collect();
        taken.extend((0..OWING_MAX).filter_map(|_| same.take(4096)));
        assert_eq!(taken.len(), OWING_MAX as usize);
        assert!(one.take(1).is_none());
        assert_eq!(other.take(4096).map(|data| data.len()), Some(4096));
        drop((one, same));
        assert!(all.of(address(1)).take(1).is_none(), "queues that come later do not begin again");
        taken.pop();
        assert!(all.of(address(1)).take(1).is_some());
    }

    #[test]
    fn addresses_that_have_gone_are_forgotten() {
        let mut all = AdminData::default();
        let stays = all.of(address(0));
        let taken: Vec<_> = (0..OWING_MAX).filter_map(|_| stays.take(1)).collect();
        for n in 1..10_000 {
            all.of(address(n));
            assert!(all.by_address.len() <= ADDRESSES);
        }
        assert!(all.of(address(0)).take(1).is_none(), "{} are on their way", taken.len());
    }
}
