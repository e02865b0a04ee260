use std::collections::VecDeque;

use proptest::prelude::*;
use units::{Calendar, Nanos};

use super::{MS, SECOND};
use crate::reservation::{
    Admitted, Broker, Budget, Charge, Occupancy, Overrides, Profile, Profiler, Reserved, Terms,
};

const CHANNELS: usize = 8;
/// Mean time of 4 KiB in a channel, in ns.
const MEAN: u64 = 80_000;
const WORST: u64 = MS;
/// Time of each further KiB, in ns.
const KIB: u64 = 2000;

/// A command on its way.
struct Command {
    tenant: Option<(usize, Charge)>,
    bytes: u32,
    dispatched: Nanos,
    /// Commands in the device when it came.
    met: u32,
}

/// A device with channels and one queue, behind a window. Reserved commands go first while they are
/// due, earliest deadline first, and a flood takes the rest.
struct Device {
    now: Nanos,
    window: u32,
    queue: VecDeque<Command>,
    /// Commands in channels, by the time they are done.
    busy: Calendar<Command>,
    random: fastrand::Rng,
}

impl Device {
    /// Returns the time of a command: one in 50 takes up to the worst time, and the others less, so
    /// that the mean is as promised.
    fn takes(&mut self, bytes: u32) -> u64 {
        let base = match self.random.u64(..50) {
            0 => WORST,
            _ => MEAN / 2 + self.random.u64(..MEAN / 2),
        };
        base + KIB * (u64::from(bytes >> 10) - 4)
    }

    fn in_device(&self) -> u32 {
        u32::try_from(self.queue.len() + self.busy.len()).unwrap()
    }

    fn dispatch(&mut self, tenants: &[(Terms, Reserved)], flood: u32) {
        while self.in_device() < self.window {
            let due = tenants.iter().enumerate().filter_map(|(at, (terms, reserved))| {
                reserved.note_demand(self.now, 0);
                Some((reserved.due(self.now)?, at, terms.request_bytes))
            });
            let (tenant, bytes) = match due.min() {
                Some((_, at, bytes)) => {
                    (Some((at, tenants[at].1.charge(self.now, false, bytes))), bytes)
                }
                None => (None, flood),
            };
            let met = self.in_device() + 1;
            self.queue.push_back(Command { tenant, bytes, dispatched: self.now, met });
        }
        while self.busy.len() < CHANNELS && !self.queue.is_empty() {
            let command = self.queue.pop_front().unwrap();
            let takes = self.takes(command.bytes);
            self.busy.insert(self.now.after(takes), command);
        }
    }

    fn complete(&mut self, tenants: &[(Terms, Reserved)], profiler: &Profiler) {
        let at_end = self.in_device();
        let (done, command) = self.busy.pop_due(Nanos::MAX).expect("always full");
        self.now = done;
        let Command { tenant, bytes, dispatched, met } = command;
        let in_device = Occupancy { at_begin: met, at_end };
        let share = profiler.record(done, false, bytes, dispatched, in_device);
        if let Some((at, charge)) = tenant {
            tenants[at].1.settle(done, charge, share);
        }
    }
}

/// Runs tenants that always have commands beside a flood of commands of `flood` bytes.
fn run(admitted: &[Admitted], window: u32, flood: u32, seed: u64) -> Vec<(u64, u64)> {
    let of = |admitted: &Admitted| (admitted.terms, Reserved::new(Nanos(0), admitted));
    let tenants: Vec<(Terms, Reserved)> = admitted.iter().map(of).collect();
    let known = Overrides { parallelism: Some(8), ..Overrides::default() };
    let profiler = Profiler::new(&known);
    let mut device = Device {
        now: Nanos(0),
        window,
        queue: VecDeque::new(),
        busy: Calendar::new(),
        random: fastrand::Rng::with_seed(seed),
    };
    while device.now < Nanos(3 * SECOND) {
        device.dispatch(&tenants, flood);
        device.complete(&tenants, &profiler);
    }
    tenants.iter().map(|(_, reserved)| reserved.kept()).collect()
}

/// Commands are in the device for 5 ms each behind the flood's: some must be there together.
#[test]
fn f3_a_small_reservation_is_kept_behind_large_commands() {
    let profile = Profile::of_device(Nanos(MEAN), Nanos(WORST), KIB, 8);
    let terms = super::terms(Budget::Operations(38), 100 * MS);
    let got = run(&[super::admit(&profile, &terms)], 128, 131_072, 7_655_217_394_666_200);
    assert!(got.iter().all(|(periods, kept)| *periods >= 29 && kept == periods), "{got:?}");
}

fn terms() -> impl Strategy<Value = Terms> {
    let size = prop::sample::select(vec![4096, 16_384, 131_072_u32]);
    let period = prop::sample::select(vec![100 * MS, 250 * MS, SECOND]);
    (1..40_000_u64, period, size, any::<bool>()).prop_map(|(rate, period, size, bytes)| {
        let operations = (rate * 4096 / u64::from(size) * period / SECOND).max(1);
        let budget = match bytes {
            true => Budget::Bytes(operations * u64::from(size)),
            false => Budget::Operations(operations),
        };
        Terms { request_bytes: size, ..Terms::of(budget, Nanos(period)) }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Reservations on a device that serves many commands at once are kept in every period, beside
    /// a flood of small or of large commands that always fills the window.
    #[test]
    fn f3_reservations_on_flash_are_kept_beside_a_flood(
        asked in prop::collection::vec(terms(), 1..6),
        window in prop::sample::select(vec![8, 32, 128_u32]),
        flood in prop::sample::select(vec![4096, 131_072_u32]),
        seed: u64,
    ) {
        let profile = Profile::of_device(Nanos(MEAN), Nanos(WORST), KIB, 8);
        let mut admitted = Vec::new();
        for terms in &asked {
            admitted.extend(Broker::admit(&profile, &admitted, 20, terms));
        }
        for (got, admitted) in run(&admitted, window, flood, seed).iter().zip(&admitted) {
            prop_assert!(got.0 >= 2);
            prop_assert_eq!(got.0, got.1, "{}", admitted.terms);
        }
    }
}
