//! Spreads of hosts over reactors: in how many reactors a host has commands waiting for a device.
//!
//! A host whose connections are on several reactors has a leaf in each of their trees, and would
//! have a turn for each. So a leaf is charged by the number of the leaves that wait, and all of them
//! together have one host's part. See docs/research/sources.md, D4: hosts share by deficit.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;
use units::{Class, PerClass};

use crate::session::{HostId, Session, SessionId};
use crate::sync::{AtomicU32, Ordering::Relaxed};

/// Number of the reactors in which commands of one host on one session's account wait, by class.
///
/// The count is no promise: a reactor that reads it a moment before another changes it charges one
/// command by the count before. Nobody waits for it, so that it needs no order of memory.
#[derive(Debug, Default)]
pub(crate) struct Spread(PerClass<AtomicU32>);

impl Spread {
    /// Counts one more reactor. Returns how many there are.
    #[inline]
    pub(crate) fn begins(&self, class: Class) -> u32 {
        self.0[class].fetch_add(1, Relaxed).saturating_add(1)
    }

    /// Counts one reactor less.
    #[inline]
    pub(crate) fn ends(&self, class: Class) {
        let before = self.0[class].fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "each end follows a begin");
    }

    #[inline]
    pub(crate) fn reactors(&self, class: Class) -> u32 {
        self.0[class].load(Relaxed)
    }
}

/// The name of a host on a session's account, which all reactors have in common. The session's
/// serial number keeps those apart that have the same number one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SpreadKey {
    session: SessionId,
    serial: u32,
    host: HostId,
}

impl SpreadKey {
    /// Names a host on a session's account.
    pub(crate) fn new(session: &Session, host: HostId) -> Self {
        Self { session: session.id(), serial: session.serial(), host }
    }
}

/// A spread, and the number of reactors that use it.
#[derive(Debug, Default)]
struct Used {
    spread: Arc<Spread>,
    reactors: u32,
}

/// The spreads of the hosts that have flows to a device in any reactor.
#[derive(Debug, Default)]
pub(crate) struct Spreads {
    known: Mutex<Known>,
    /// Number of sessions that have such hosts.
    sessions: AtomicU32,
}

#[derive(Debug, Default)]
struct Known {
    spreads: FxHashMap<SpreadKey, Used>,
    /// Number of hosts of each session, by its number and serial number.
    sessions: FxHashMap<(SessionId, u32), u32>,
}

impl Spreads {
    fn locked(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether hosts of several sessions have flows to the device.
    #[inline]
    pub(crate) fn have_several_sessions(&self) -> bool {
        self.sessions.load(Relaxed) > 1
    }

    fn note_sessions(&self, known: &Known) {
        let sessions = u32::try_from(known.sessions.len()).unwrap_or(u32::MAX);
        self.sessions.store(sessions, Relaxed);
    }

    /// Finds a host's spread, or makes it, for a reactor in which the host begins to have a flow.
    /// Each call is met by a [`Self::leave`].
    pub(crate) fn join(&self, key: SpreadKey) -> Arc<Spread> {
        let mut known = self.locked();
        let used = known.spreads.entry(key).or_default();
        used.reactors = used.reactors.saturating_add(1);
        let (spread, is_new) = (Arc::clone(&used.spread), used.reactors == 1);
        if is_new {
            *known.sessions.entry((key.session, key.serial)).or_default() += 1;
            self.note_sessions(&known);
        }
        spread
    }

    /// Forgets one reactor that used a host's spread, and the spread with the last.
    pub(crate) fn leave(&self, key: SpreadKey) {
        let mut known = self.locked();
        let Some(used) = known.spreads.get_mut(&key) else { return };
        used.reactors = used.reactors.saturating_sub(1);
        if used.reactors > 0 {
            return;
        }
        known.spreads.remove(&key);
        let session = (key.session, key.serial);
        if let Some(hosts) = known.sessions.get_mut(&session) {
            *hosts = hosts.saturating_sub(1);
            if *hosts == 0 {
                known.sessions.remove(&session);
            }
        }
        self.note_sessions(&known);
    }

    /// Counts the spreads.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.locked().spreads.len()
    }
}
