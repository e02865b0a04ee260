//! A check of a reservation: a host with more to do than it has reserved gets its reservation in each period, with
//! any load of others.

use arbitration::Class;
use arbitration::reservation::{Budget, Terms};
use arbitration::session::{SessionId, SessionSpec};
use fabric::Nanos;
use fabric::nvme::opcode;
use sluice_core::device::BlockDevice as _;

use super::sessions::{half_writes, own};
use super::{Event, Known, World};
use crate::host::{Purpose, io};
use sluice_core::testing::BLOCK;

/// Longest time that a command and its answer are on their way, in ns.
const NETWORK_NS: u64 = 2_000_000;
/// Commands that the host with a latency has under way at the most, where the latency is kept.
const UNDER_WAY: u64 = 40;
/// Largest number of blocks of that host's commands.
const SMALL: u64 = 8;

impl World {
    /// Reserves as many operations of the first device for the first host as it may have, up to `most`. Returns
    /// their number.
    fn reserve_most(&mut self, most: u64, terms: impl Fn(u64) -> Terms) -> u64 {
        let Some(backend) = self.namespaces.first().map(|known| known.backend) else { return 0 };
        self.put_session(&SessionSpec { name: own(0), ..SessionSpec::default() });
        let mut operations = most;
        while operations > 0 && !self.reserve(&own(0), backend, &terms(operations)) {
            operations = operations * 9 / 10;
        }
        operations
    }

    /// Reserves as much as one queue can send for the first host, with a latency.
    pub(super) fn promise_first(&mut self) {
        let (latency, burst) = (self.rng.u64(50..150) * 1_000_000, self.rng.u32(2..6));
        let most = (UNDER_WAY - u64::from(burst)) * 1_000_000_000 / latency;
        let reserved = self.reserve_most(most, |operations| Terms {
            latency: Some(Nanos(latency)),
            burst,
            ..Terms::of(Budget::Operations(operations), Nanos(1_000_000_000))
        });
        if reserved == 0 {
            self.breaks("no latency can be kept");
        }
        // The share of its class would not be enough.
        let mut rules = self.rules();
        let classes = std::iter::once(Class::Low).chain(std::iter::repeat(Class::High));
        let hosts = self.hosts.iter().map(|host| host.nqn.clone());
        rules.classes = hosts.zip(classes).collect();
        self.publish(rules, &[]);
        self.assign(0);
    }

    /// Sends a burst of the first host, as large as it reserved, and plans the next one by the rate.
    pub(super) fn burst(&mut self) {
        let Some(granted) = self.granted.first() else { return };
        let Terms { budget, period, burst, .. } = granted.admitted.terms;
        let Some(Known { nsid, blocks, .. }) = self.namespaces.first().copied() else { return };
        let live = self.hosts.first_mut().and_then(|host| host.queue(1));
        if live.is_some_and(|queue| queue.live) && self.is_open() {
            for _ in 0..burst {
                let lba = self.rng.u64(0..=blocks - SMALL);
                let length = u32::try_from(self.rng.u64(1..=SMALL)).unwrap_or(1);
                let sqe = io(opcode::io::READ, nsid, lba, length, 0);
                let bytes = length * u32::try_from(BLOCK).unwrap_or(512);
                self.outcome.submitted += 1;
                self.submit(0, 1, sqe, None, bytes, Purpose::Read { nsid, lba });
            }
        }
        let wait = period.0 * u64::from(burst) / budget.amount().max(1) + 1;
        self.after(wait, Event::Burst);
    }

    /// Checks that a command of the first host was answered within the latency that it reserved.
    pub(super) fn check_latency(&mut self, host: usize, asked: Nanos) {
        let promised = self.granted.first().filter(|_| self.scenario.latency && host == 0);
        let Some(latency) = promised.and_then(|granted| granted.admitted.terms.latency) else {
            return;
        };
        let took = self.now.ns_since(asked);
        if took > latency.0 + NETWORK_NS {
            self.breaks(format!("a command took {took} ns where {latency:?} was promised"));
        }
    }

    /// Reserves as much of the first device for the first host as it may have.
    pub(super) fn reserve_first(&mut self) {
        let period = match (self.scenario.seeks, self.scenario.disks.first()) {
            (true, Some((_, _, service, _))) => Nanos(service * self.rng.u64(60..300)),
            _ => Nanos(self.rng.u64(5_000_000..20_000_000)),
        };
        // The search starts far above the device's capacity.
        self.reserve_most(1 << 16, |operations| half_writes(operations, period));
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
        self.had[period] += 1;
    }

    /// Returns whether a device with a reservation has commands in it.
    pub(super) fn is_reserved_and_busy(&self) -> bool {
        let disks = self.shared.disks.borrow();
        let mut reserved = self.granted.iter().filter_map(|granted| disks.get(&granted.backend));
        reserved.any(|disk| disk.qos().window.held() > 0)
    }

    /// Checks that the first host got its reservation in each period. The first two periods, in which hosts
    /// connect, and the last, which has not ended, do not count.
    pub(super) fn check_reserved(&mut self) {
        let budgets = self.scenario.reserved && !self.scenario.latency;
        let Some(granted) = self.granted.first().filter(|_| budgets) else { return };
        let Budget::Operations(reserved) = granted.admitted.terms.budget else { return };
        let whole = self.had.get(2..self.had.len().saturating_sub(1)).unwrap_or_default();
        if whole.iter().min().is_none_or(|least| *least < reserved) {
            let had = &self.had;
            self.breaks(format!("{reserved} commands were reserved for each period: {had:?}"));
        }
    }
}
