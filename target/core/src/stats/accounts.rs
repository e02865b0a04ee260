//! The statistics of the sessions that a reactor's commands are charged to, found by number.

use super::counters::{IoStats, PerReactor};
use crate::machine::policies::Tenant;
use std::sync::Arc;

/// Number of sessions for which there is room from the start.
const PLACES: usize = 1 << 14;

/// A session as a command names it. The name stands for nothing any more once another session has
/// its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    place: u32,
    serial: u32,
}

/// Accounts by the places of their sessions.
#[derive(Debug)]
pub(crate) struct Accounts(Vec<Option<(u32, Arc<PerReactor>)>>);

impl Default for Accounts {
    fn default() -> Self {
        Self(Vec::with_capacity(PLACES))
    }
}

impl Accounts {
    /// Opens the account of a session, which counts from now on.
    pub(crate) fn open(&mut self, tenant: &Tenant) -> Account {
        let (place, serial) = (tenant.session.id().0, tenant.session.serial());
        let index = place as usize;
        if index >= self.0.len() {
            self.0.resize(index + 1, None);
        }
        if let Some(at) = self.0.get_mut(index)
            && at.as_ref().is_none_or(|(of, _)| *of != serial)
        {
            *at = Some((serial, Arc::clone(&tenant.stats)));
        }
        Account { place, serial }
    }

    /// Returns a session's statistics in this reactor.
    #[inline]
    pub(crate) fn stats(&self, account: Account, reactor: usize) -> Option<&IoStats> {
        let (serial, stats) = self.0.get(account.place as usize)?.as_ref()?;
        if *serial == account.serial { stats.get(reactor) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use arbitration::Nanos;
    use arbitration::credit::Caps;
    use arbitration::session::{RootSpec, SessionSpec, Sessions};

    use super::*;

    #[test]
    fn nothing_is_counted_for_the_session_that_had_the_place_before() {
        let root = RootSpec { caps: Caps::NONE, bounded: false, queue: 1 };
        let mut sessions = Sessions::new(&root);
        let mut accounts = Accounts::default();
        let mut tenant = |name: &str| {
            let spec = SessionSpec { name: name.to_owned(), ..SessionSpec::default() };
            sessions.apply(Nanos(0), &root, &[spec]).unwrap();
            drop(sessions.take_touched());
            let session = Arc::clone(sessions.named(name).unwrap());
            Tenant { session, stats: Arc::new(PerReactor::new(1)) }
        };
        let first = tenant("a");
        let (place, old) = (first.session.id(), accounts.open(&first));
        assert!(accounts.stats(old, 0).is_some());
        drop(first);
        let next = (0..10).map(|n| tenant(&format!("b{n}"))).find(|t| t.session.id() == place);
        let new = accounts.open(&next.unwrap());
        assert!(accounts.stats(new, 0).is_some());
        assert!(accounts.stats(old, 0).is_none());
    }
}
