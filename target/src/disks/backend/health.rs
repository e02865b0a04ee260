//! The health of an open backend: its size, its errors, and whether its device is gone.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use arbitration::session::HostId;
use fabric::nvm::{BlockFormat, IoLimits};
use fabric::nvme::Status;

use super::errors::{DeviceError, WakeUp};
use crate::sys::sync::lock;

/// The properties of an open backend that change; any thread may read them.
#[derive(Debug, Default)]
pub struct Health {
    blocks: AtomicU64,
    failed: AtomicBool,
    fault: Mutex<Option<String>>,
    errors: AtomicU64,
    last: Mutex<Option<DeviceError>>,
    wake_up: OnceLock<Arc<WakeUp>>,
    /// Whether acknowledged writes are lost: they were cached when a synchronization failed.
    lost: AtomicBool,
    cached: Arc<CachedWrites>,
    /// Whether errors were seen that may concern the whole file system, at which the keeper has not looked yet.
    suspect: AtomicBool,
}

/// The writes of an open backend that were acknowledged and may be in a volatile cache of the machine alone.
#[derive(Debug, Default)]
pub struct CachedWrites {
    /// Counts synchronizations as they start.
    started: AtomicU64,
    /// One more than `started` when the last write was acknowledged.
    written: AtomicU64,
    /// The greatest value of `written` that a synchronization has covered.
    covered: AtomicU64,
    /// Whether a host was not told of a loss: `untold` is not empty.
    has_untold: AtomicBool,
    untold: Mutex<Untold>,
}

/// The hosts that must still get an error for lost writes, which were cached when the namespace's earlier device
/// went away.
#[derive(Clone, Debug, Default)]
pub(crate) struct Untold {
    hosts: HashSet<HostId>,
    /// Whether the next host, any host, gets the error: the writers are not known.
    next: bool,
}

impl Untold {
    fn add(&mut self, other: Self) {
        self.hosts.extend(other.hosts);
        self.next |= other.next;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.hosts.is_empty() && !self.next
    }

    /// Returns whether a host must get the error, and notes that it does.
    fn take(&mut self, host: HostId) -> bool {
        self.hosts.remove(&host) || std::mem::take(&mut self.next)
    }
}

impl CachedWrites {
    /// Notes that a write is acknowledged.
    pub(crate) fn note_write(&self) {
        let now = self.started.load(Ordering::Acquire).saturating_add(1);
        if self.written.load(Ordering::Relaxed) < now {
            self.written.fetch_max(now, Ordering::AcqRel);
        }
    }

    /// Notes that a synchronization starts. Returns its number, for [`Self::end_sync`].
    pub(super) fn begin_sync(&self) -> u64 {
        self.started.fetch_add(1, Ordering::AcqRel).saturating_add(1)
    }

    /// Notes that a synchronization has succeeded: the writes before its start are on the medium.
    pub(super) fn end_sync(&self, number: u64) {
        self.covered.fetch_max(number, Ordering::AcqRel);
    }

    /// Returns whether a write is not on the medium, as far as is known.
    #[must_use]
    pub fn are_pending(&self) -> bool {
        self.written.load(Ordering::Acquire) > self.covered.load(Ordering::Acquire)
    }

    /// Returns the hosts that must get an error for lost writes once the device is gone for good. `users` are the
    /// hosts that used it when it went away.
    pub(crate) fn untold(&self, users: HashSet<HostId>) -> Untold {
        let mut untold = lock(&self.untold).clone();
        if self.are_pending() {
            untold.add(Untold { next: users.is_empty(), hosts: users });
        }
        untold
    }

    fn add_untold(&self, untold: Untold) {
        let mut all = lock(&self.untold);
        all.add(untold);
        self.has_untold.store(!all.is_empty(), Ordering::Release);
    }

    /// Returns whether a host must get an error for lost writes, and notes that it does.
    fn take_untold(&self, host: HostId) -> bool {
        if !self.has_untold.load(Ordering::Acquire) {
            return false;
        }
        let mut all = lock(&self.untold);
        let is_untold = all.take(host);
        self.has_untold.store(!all.is_empty(), Ordering::Release);
        is_untold
    }
}

impl Health {
    pub(super) fn new(blocks: u64) -> Self {
        Self { blocks: AtomicU64::new(blocks), ..Self::default() }
    }

    /// Returns the limits that the ranges of a Dataset Management command are checked against.
    pub(super) fn limits(&self, format: BlockFormat) -> IoLimits {
        let blocks = self.blocks();
        IoLimits { format, blocks, read_only: false, max_transfer: u32::MAX }
    }

    /// Returns the number of logical blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed)
    }

    pub(super) fn set_blocks(&self, blocks: u64) {
        self.blocks.store(blocks, Ordering::Relaxed);
    }

    /// Returns why the device is gone, if it is.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        if !self.failed.load(Ordering::Acquire) {
            return None;
        }
        lock(&self.fault).clone()
    }

    /// Notes that the device is gone; the first reason stays.
    pub(crate) fn fail(&self, why: String) {
        let mut fault = lock(&self.fault);
        if fault.is_none() {
            *fault = Some(why);
            self.failed.store(true, Ordering::Release);
        }
        drop(fault);
        self.wake_keeper();
    }

    /// Notes that the device answered a command with an error.
    pub(crate) fn note(&self, error: DeviceError) {
        *lock(&self.last) = Some(error);
        self.errors.fetch_add(1, Ordering::Release);
        self.wake_keeper();
    }

    /// Notes that a synchronization of cached writes failed. The kernel reports the failure once, to one host, and drops
    /// the writes. Later synchronizations of all hosts have to fail too.
    pub(super) fn lose_cached(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// Notes that cached writes are lost with the namespace's earlier device. The next synchronization of each of these
    /// hosts fails, and only that one: those after it are of writes to this device.
    pub(crate) fn lose_cached_before(&self, hosts: Untold) {
        self.cached.add_untold(hosts);
    }

    /// Returns the cached writes, of which something can be learned after the backend is closed.
    pub(crate) fn cached(&self) -> &Arc<CachedWrites> {
        &self.cached
    }

    /// Checks that no cached write of a host is lost. A command that promises that earlier writes are on the medium calls
    /// this.
    ///
    /// # Errors
    /// The status of that command, with Do Not Retry.
    pub(super) fn check_cached(&self, host: HostId) -> Result<(), Status> {
        let lost = self.lost.load(Ordering::Acquire) || self.cached.take_untold(host);
        if lost { Err(Status::WRITE_FAULT.dnr()) } else { Ok(()) }
    }

    /// Makes the keeper look at the file or device soon: an error may concern the whole file system.
    pub(super) fn suspect(&self) {
        self.suspect.store(true, Ordering::Release);
        self.wake_keeper();
    }

    /// Returns whether the keeper was asked to look.
    pub(crate) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Acquire)
    }

    /// Returns whether the keeper was asked to look since the last call.
    pub(super) fn take_suspect(&self) -> bool {
        self.suspect.load(Ordering::Acquire) && self.suspect.swap(false, Ordering::AcqRel)
    }

    /// Returns the number of commands that the device answered with an error, and the last of these
    /// errors.
    #[must_use]
    pub fn errors(&self) -> (u64, Option<DeviceError>) {
        match self.errors.load(Ordering::Acquire) {
            0 => (0, None),
            count => (count, *lock(&self.last)),
        }
    }

    /// Takes the keeper's wake-up: from now on each error wakes the keeper.
    pub fn report_to(&self, wake_up: &Arc<WakeUp>) {
        // The namespace that opened the backend sets the wake-up once.
        let _ = self.wake_up.set(Arc::clone(wake_up));
    }

    fn wake_keeper(&self) {
        if let Some(wake_up) = self.wake_up.get() {
            wake_up.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_pending_until_a_synchronization_that_started_after_them_succeeds() {
        let cached = CachedWrites::default();
        assert!(!cached.are_pending());
        cached.note_write();
        let first = cached.begin_sync();
        assert!(cached.are_pending(), "it has not ended");
        cached.note_write();
        let second = cached.begin_sync();
        cached.end_sync(first);
        assert!(cached.are_pending(), "the second write came after it started");
        cached.end_sync(second);
        assert!(!cached.are_pending());
        // The first one ends late.
        cached.end_sync(first);
        assert!(!cached.are_pending());
        // A failing synchronization does not end.
        cached.note_write();
        cached.begin_sync();
        assert!(cached.are_pending());
    }

    #[test]
    fn one_synchronization_of_each_host_fails_after_a_loss_with_an_earlier_device() {
        let lost = Err(Status::WRITE_FAULT.dnr());
        let check = |health: &Health, host| [health.check_cached(host), health.check_cached(host)];
        let [a, b, c] = [1, 2, 3].map(HostId);
        let earlier = CachedWrites::default();
        assert!(earlier.untold([a, b].into()).is_empty(), "nothing was cached");
        earlier.note_write();
        let health = Health::default();
        health.lose_cached_before(earlier.untold([a, b].into()));
        assert_eq!(check(&health, c), [Ok(()); 2], "it came later");
        assert_eq!(check(&health, a), [lost, Ok(())]);
        // This device goes away too, after its writes were synchronized.
        let again = Health::default();
        again.lose_cached_before(health.cached().untold([a].into()));
        assert_eq!((check(&again, a), check(&again, b)), ([Ok(()); 2], [lost, Ok(())]));
        let unknown = Health::default();
        unknown.lose_cached_before(earlier.untold(HashSet::new()));
        assert_eq!([unknown.check_cached(c), unknown.check_cached(a)], [lost, Ok(())]);
        health.lose_cached();
        assert_eq!(check(&health, a), [lost; 2]);
    }
}
