//! A check of a reservation: a host that has more to do than was reserved gets what was reserved,
//! in each period, whatever others do.

use arbitration::reservation::Budget;
use arbitration::session::{SessionId, SessionSpec};
use fabric::Nanos;
use sluice_core::device::BlockDevice as _;

use super::World;
use super::sessions::own;
use crate::oracle::Broken;

impl World {
    /// Reserves as much of the first device for the first host as it may have.
    pub(super) fn reserve_first(&mut self) {
        let Some(backend) = self.namespaces.first().map(|known| known.backend) else { return };
        let spec = SessionSpec { name: own(0), ..SessionSpec::default() };
        self.put_session(&spec);
        let period = match (self.scenario.seeks, self.scenario.disks.first()) {
            (true, Some((_, _, service, _))) => Nanos(service * self.rng.u64(60..300)),
            _ => Nanos(self.rng.u64(5_000_000..20_000_000)),
        };
        // The search begins far above what the device has.
        let mut operations = 1 << 16;
        while operations > 0 && !self.reserve(&own(0), backend, period, operations) {
            operations = operations * 9 / 10;
        }
        self.assign(0);
    }

    /// Takes note that a command of a session went to its device, or, where that has a head, came
    /// back from it.
    pub(super) fn note_reserved(&mut self, session: SessionId, at: Nanos) {
        let Some(granted) = self.granted.first().filter(|_| self.scenario.reserved) else { return };
        if self.sessions.named(&granted.session).is_none_or(|own| own.id() != session) {
            return;
        }
        let began = 1_000_000_000;
        let period = (at.0 - began) / granted.admitted.terms.period.0;
        let period = usize::try_from(period).unwrap_or(0);
        if self.had.len() <= period {
            self.had.resize(period + 1, 0);
        }
        if let Some(had) = self.had.get_mut(period) {
            *had += 1;
        }
    }

    /// Says whether a device of which a part is reserved has commands in it.
    pub(super) fn is_reserved_and_busy(&self) -> bool {
        let disks = self.shared.disks.borrow();
        let mut reserved = self.granted.iter().filter_map(|granted| disks.get(&granted.backend));
        reserved.any(|disk| disk.qos().window.held() > 0)
    }

    /// Checks that the first host had in each period what was reserved. The first two periods, in
    /// which hosts connect, and the last, which has not ended, do not count.
    pub(super) fn check_reserved(&self) -> Result<(), Broken> {
        let Some(granted) = self.granted.first().filter(|_| self.scenario.reserved) else {
            return Ok(());
        };
        let Budget::Operations(reserved) = granted.admitted.terms.budget else { return Ok(()) };
        let whole = self.had.get(2..self.had.len().saturating_sub(1)).unwrap_or_default();
        match whole.iter().min() {
            Some(had) if *had >= reserved => Ok(()),
            least => {
                let at = self.now;
                let what = format!(
                    "{reserved} commands were reserved for each period, and the least was \
                     {least:?}: {:?}",
                    self.had
                );
                Err(Broken { at, what })
            }
        }
    }
}
