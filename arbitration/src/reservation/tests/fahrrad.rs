use proptest::prelude::*;
use units::Nanos;

use super::{MS, SECOND, admit, disk, terms};
use crate::reservation::{Admitted, Broker, Budget, DiskRequest, Fahrrad};

const MET: u64 = 8 * MS;
const WCET: u64 = 20 * MS;

/// How a stream behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conduct {
    /// Always has requests, which take what it said.
    KeepsContract,
    /// Always has requests, which take the worst time each.
    AlwaysWorst,
    /// Comes with many requests of the worst time now and then.
    Bursts,
}

/// A stream, and what it got in each of its periods.
struct Tenant {
    admitted: Admitted,
    conduct: Conduct,
    start: Nanos,
    served: Vec<u64>,
}

impl Tenant {
    fn period(&self, now: Nanos) -> Option<usize> {
        let since = now.0.checked_sub(self.start.0)?;
        usize::try_from(since / self.admitted.terms.period.0).ok()
    }

    /// Returns the time that the stream's next request takes when dispatched in the present period:
    /// as long as may be.
    fn takes(&self, now: Nanos) -> u64 {
        if self.conduct != Conduct::KeepsContract {
            return WCET;
        }
        // Two worst times more than (n-1)*MET hold three requests of 20 instead of 8 ms.
        let nth = self.period(now).and_then(|at| self.served.get(at)).copied().unwrap_or(0);
        let last = nth + 1 == self.admitted.translation.operations;
        if nth < 3 || last { WCET } else { MET }
    }

    fn note(&mut self, done: Nanos) {
        // A request that is done at the very end of a period is done in it.
        let Some(at) = self.period(Nanos(done.0 - 1)) else { return };
        if self.served.len() <= at {
            self.served.resize(at + 1, 0);
        }
        self.served[at] += 1;
    }

    /// Counts the periods up to `now` in which the stream got less than it reserved.
    fn missed(&self, now: Nanos) -> usize {
        let ended = self.period(now).unwrap_or(0);
        let got = |at: usize| self.served.get(at).copied().unwrap_or(0);
        (0..ended).filter(|at| got(*at) < self.admitted.translation.operations).count()
    }
}

/// Runs tenants and one best effort stream that always has requests of the worst time. Returns the
/// time at the end and how long the device was idle.
fn run(tenants: &mut [Tenant], length: u64, mut random: impl FnMut(u64) -> u64) -> (Nanos, u64) {
    let mut device = Fahrrad::new();
    for tenant in tenants.iter() {
        device.add_reserved(tenant.start, &tenant.admitted);
    }
    let rest = device.add_best_effort(Nanos(WCET));
    let start = tenants.iter().map(|tenant| tenant.start).max().unwrap_or_default();
    let (mut now, mut idle) = (start, 0);
    tenants.iter_mut().for_each(|tenant| {
        let gone = (now.0 - tenant.start.0).div_ceil(tenant.admitted.terms.period.0);
        // Periods before the device starts are not judged.
        tenant.served = vec![u64::MAX / 2; usize::try_from(gone).unwrap()];
    });
    while now.ns_since(start) < length {
        for (number, tenant) in tenants.iter().enumerate() {
            let wanted = match tenant.conduct {
                Conduct::Bursts if random(40) == 0 => 64,
                Conduct::Bursts => 0,
                _ => 64_usize.saturating_sub(device.waiting(number)),
            };
            for _ in 0..wanted {
                device.arrive(now, number, DiskRequest { id: 0, position: random(1 << 20) });
            }
        }
        while device.waiting(rest) < 64 {
            device.arrive(now, rest, DiskRequest { id: 0, position: random(1 << 20) });
        }
        let Some((stream, _)) = device.pick(now) else {
            (now, idle) = (now.after(MS), idle + MS);
            continue;
        };
        let takes = tenants.get(stream).map_or(WCET, |tenant| tenant.takes(now));
        now = now.after(takes);
        device.completed(now, takes);
        if let Some(tenant) = tenants.get_mut(stream) {
            tenant.note(now);
        }
    }
    (now, idle)
}

fn chance(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed | 1;
    move |bound| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % bound
    }
}

#[test]
fn f3_requests_of_the_set_are_served_in_one_sweep() {
    let mut device = Fahrrad::new();
    let stream =
        device.add_reserved(Nanos(0), &admit(&disk(), &terms(Budget::Operations(20), SECOND)));
    for position in [50, 10, 40, 20, 30] {
        device.arrive(Nanos(0), stream, DiskRequest { id: position, position });
    }
    let mut order = Vec::new();
    while let Some((_, request)) = device.pick(Nanos(0)) {
        order.push(request.position);
        device.completed(Nanos(0), MET);
    }
    assert_eq!(order, [10, 20, 30, 40, 50]);
}

#[test]
fn f3_the_set_is_never_larger_than_the_time_to_the_earliest_deadline() {
    let mut device = Fahrrad::new();
    let long =
        device.add_reserved(Nanos(0), &admit(&disk(), &terms(Budget::Operations(60), SECOND)));
    device.add_reserved(Nanos(0), &admit(&disk(), &terms(Budget::Operations(1), 200 * MS)));
    for position in 0..100 {
        device.arrive(Nanos(0), long, DiskRequest { id: position, position });
    }
    device.pick(Nanos(0));
    // 200 ms, of which 60 are the other stream's, in requests of 20 ms: one is in the device.
    assert_eq!(device.in_set() + 1, 7);
    // A stream alone, with budget for more: 100 ms are left until its own deadline.
    let mut device = Fahrrad::new();
    let alone =
        device.add_reserved(Nanos(0), &admit(&disk(), &terms(Budget::Operations(60), SECOND)));
    for position in 0..60 {
        device.arrive(Nanos(0), alone, DiskRequest { id: position, position });
    }
    device.pick(Nanos(900 * MS));
    assert_eq!(device.in_set() + 1, 5);
}

#[test]
fn f3_best_effort_has_the_whole_device_when_nothing_else_waits() {
    let mut device = Fahrrad::new();
    device.add_reserved(Nanos(0), &admit(&disk(), &terms(Budget::Operations(100), SECOND)));
    let rest = device.add_best_effort(Nanos(WCET));
    let mut now = Nanos(0);
    for position in 0..1000 {
        device.arrive(now, rest, DiskRequest { id: position, position });
        assert!(device.pick(now).is_some(), "idle at {now:?}");
        now = now.after(MET);
        device.completed(now, MET);
    }
}

fn conduct() -> impl Strategy<Value = Conduct> {
    prop_oneof![
        2 => Just(Conduct::KeepsContract),
        1 => Just(Conduct::AlwaysWorst),
        1 => Just(Conduct::Bursts),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever the broker has admitted is kept, for every stream that keeps its own contract,
    /// whatever the others do; and the device is never idle while anybody waits.
    #[test]
    fn f3_an_admitted_set_is_schedulable_and_streams_are_isolated(
        asked in prop::collection::vec((1..40_u64, 2..40_u64, 0..1000_u64, conduct()), 1..8),
        seed: u64,
    ) {
        let (mut already, mut tenants) = (Vec::new(), Vec::new());
        for (operations, tenths, phase, conduct) in asked {
            let terms = terms(Budget::Operations(operations), tenths * 100 * MS);
            let Ok(admitted) = Broker::admit(&disk(), &already, 0, &terms) else { continue };
            already.push(admitted);
            let start = Nanos(phase * MS);
            tenants.push(Tenant { admitted, conduct, start, served: Vec::new() });
        }
        let (end, idle) = run(&mut tenants, 30 * SECOND, chance(seed));
        prop_assert_eq!(idle, 0);
        for tenant in tenants.iter().filter(|tenant| tenant.conduct == Conduct::KeepsContract) {
            let missed = tenant.missed(end);
            prop_assert_eq!(missed, 0, "{:?} {:?}", tenant.admitted.terms, tenant.served);
        }
    }
}
