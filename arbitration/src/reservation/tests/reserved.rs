use proptest::prelude::*;
use units::Nanos;

use super::{MS, SECOND, admit, disk, terms};
use crate::reservation::{Budget, Charge, Profile, Reserved, Terms};
use crate::testing::per_second;

/// Makes the profile of a flash device: 10 us for a command, 125 us at the worst.
fn flash() -> Profile {
    Profile::of_device(Nanos(80_000), Nanos(MS), 1000, 8)
}

fn reserved(budget: Budget) -> Reserved {
    Reserved::new(Nanos(7), &admit(&flash(), &terms(budget, SECOND)))
}

/// Charges and settles while budget is left, each command taking `actual` ns.
fn use_up(reserved: &Reserved, now: Nanos, actual: u64) -> u64 {
    let mut commands = 0;
    while reserved.has_budget(now) {
        let charge = reserved.charge(now, false, 4096);
        reserved.settle(now, charge, actual);
        commands += 1;
    }
    commands
}

#[test]
fn f3_budget_is_exact_each_period() {
    for (budget, commands) in [(Budget::Operations(500), 500), (Budget::Bytes(100 * 4096), 100)] {
        let reserved = reserved(budget);
        // The unused budget of periods is not carried over.
        for period in [0, 1, 2, 10] {
            let [now, end] = [period, period + 1].map(|n| Nanos(7 + n * SECOND));
            assert_eq!(reserved.due(now), Some(end), "deadline");
            assert_eq!(use_up(&reserved, now, 10_000), commands);
            assert_eq!(reserved.next_period(now), end);
        }
    }
}

/// Makes a reservation of eleven commands a second on a disk: 140 ms of it.
fn on_disk() -> Reserved {
    Reserved::new(Nanos(0), &admit(&disk(), &terms(Budget::Operations(11), SECOND)))
}

#[test]
fn f3_slack_concerns_only_commands_that_are_not_outstanding_yet() {
    let (reserved, foreign) = (on_disk(), 20 * MS);
    reserved.note_demand(Nanos(0), 0);
    // Twelve rounds, each of 8 ms and behind another command of 20 ms.
    let one_at_a_time = Some(SECOND - 12 * 28 * MS);
    for (outstanding, slack) in [(0, one_at_a_time), (11, one_at_a_time), (12, None)] {
        let found = reserved.slack(Nanos(0), outstanding, foreign);
        assert_eq!(found, slack, "{outstanding} commands are there");
    }
}

fn charge_all(reserved: &Reserved, now: Nanos) -> Vec<Charge> {
    std::iter::from_fn(|| reserved.has_budget(now).then(|| reserved.charge(now, false, 4096)))
        .collect()
}

#[test]
fn f3_commands_are_charged_their_worst_time_until_they_complete() {
    let reserved = on_disk();
    let mut charges = charge_all(&reserved, Nanos(0));
    assert_eq!(charges.len(), 7, "of 20 ms");
    reserved.settle(Nanos(8), charges.pop().unwrap(), 19 * MS);
    assert!(!reserved.has_budget(Nanos(8)), "1 ms back is not enough for another");
    reserved.settle(Nanos(8), charges.pop().unwrap(), MS);
    assert!(reserved.has_budget(Nanos(8)));
}

#[test]
fn f3_retry_time_depends_on_remaining_budget() {
    let reserved = on_disk();
    let charges = charge_all(&reserved, Nanos(0));
    assert_eq!(reserved.again(Nanos(9)), Nanos(9 + 8 * MS), "7 of 11 are in the device");
    charges.into_iter().for_each(|charge| reserved.settle(Nanos(9), charge, 8 * MS));
    assert_eq!(charge_all(&reserved, Nanos(9)).len(), 4);
    assert_eq!(reserved.again(Nanos(9)), Nanos(SECOND));
}

#[test]
fn f3_flash_may_hold_whole_budget_at_once() {
    let reserved = reserved(Budget::Operations(500));
    assert_eq!(charge_all(&reserved, Nanos(7)).len(), 500);
}

#[test]
fn f3_expensive_commands_exhaust_device_time() {
    let reserved = reserved(Budget::Operations(500));
    let mut commands = 0;
    while reserved.has_budget(Nanos(7)) {
        let charge = reserved.charge(Nanos(7), false, 131_072);
        reserved.settle(Nanos(8), charge, 500_000);
        commands += 1;
    }
    // 124 KiB more at 0.125 us, and an eighth: 28.7 us each, of 5.7 ms.
    assert_eq!(commands, 200);
}

#[test]
fn f3_stream_of_disk_pays_for_all_its_time() {
    let reserved = on_disk();
    let charge = reserved.charge(Nanos(0), false, 4096);
    reserved.settle(Nanos(8), charge, 121 * MS);
    assert!(!reserved.has_budget(Nanos(9)), "19 of 140 ms are less than the worst time");
    assert!(reserved.has_budget(Nanos(SECOND)), "forgotten with its period");
}

#[test]
fn f3_late_completion_refunds_nothing() {
    let reserved = reserved(Budget::Operations(500));
    let charges = [(); 2].map(|()| reserved.charge(Nanos(7), false, 4096));
    let later = Nanos(7 + SECOND);
    reserved.settle(later.after(1), charges[0], 0);
    reserved.cancel(later.after(1), charges[1]);
    assert_eq!(use_up(&reserved, later, 10_000), 500);
}

#[test]
fn f3_stale_charge_changes_nothing() {
    let admitted = admit(&flash(), &terms(Budget::Operations(500), SECOND));
    // Both begin at the same time, like reservations of one configuration.
    let [old, new] = [(); 2].map(|()| Reserved::new(Nanos(7), &admitted));
    let theirs = [(); 2].map(|()| old.charge(Nanos(7), false, 4096));
    let own = new.charge(Nanos(7), false, 4096);
    new.settle(Nanos(8), theirs[0], 10_000);
    new.cancel(Nanos(8), theirs[1]);
    // Its own command is outstanding still: one of 500 is used, and nothing is complete.
    assert_eq!(use_up(&new, Nanos(9), 10_000), 499);
    let _ = new.due(Nanos(7 + 3 * SECOND));
    assert_eq!(new.kept(), (3, 0));
    assert_eq!(new.last_miss().map(|miss| miss.done), Some(499));
    new.settle(Nanos(8 + 3 * SECOND), own, 10_000);
    let _ = new.due(Nanos(7 + 6 * SECOND));
    assert_eq!(new.kept().0, 4, "nothing is outstanding any more");
}

#[test]
fn f3_a_cancelled_command_is_given_back_whole() {
    let reserved = reserved(Budget::Operations(500));
    let charge = reserved.charge(Nanos(7), true, 1 << 20);
    reserved.cancel(Nanos(7), charge);
    assert_eq!(use_up(&reserved, Nanos(7), 10_000), 500);
}

#[test]
fn f3_clock_step_back_stays_in_current_period() {
    let reserved = reserved(Budget::Operations(500));
    let second = Nanos(7 + SECOND);
    assert_eq!(use_up(&reserved, second, 10_000), 500);
    assert!(!reserved.has_budget(Nanos(second.0 - 1)), "not the first period's budget again");
    assert!(!reserved.has_budget(Nanos(0)));
}

#[test]
fn f3_periods_are_kept_when_the_budget_was_served() {
    // The commands served to a tenant that always waits, in each of four periods.
    for (served, kept) in [(500, 4), (490, 0)] {
        let reserved = reserved(Budget::Operations(500));
        for period in 0..4 {
            for command in 0..served {
                let now = Nanos(7 + period * SECOND + command * SECOND / served);
                reserved.note_demand(now, 0);
                let charge = reserved.charge(now.after(SECOND / served - 1), false, 4096);
                reserved.settle(now.after(SECOND / served), charge, 10_000);
            }
        }
        reserved.note_demand(Nanos(7 + 4 * SECOND), 0);
        assert_eq!(reserved.kept(), (4, kept), "{served} served");
    }
}

#[test]
fn f3_a_period_without_demand_does_not_count() {
    let reserved = reserved(Budget::Operations(500));
    assert!(reserved.has_budget(Nanos(7 + 5 * SECOND)));
    assert_eq!(reserved.kept(), (0, 0));
}

/// Serves a command that waits for its turn for some ns, and is complete `took` ns after its arrival.
fn serve(reserved: &Reserved, arrived: Nanos, waits: u64, took: u64) {
    reserved.note_demand(arrived, 0);
    let sent = arrived.after(waits);
    let charge = reserved.charge_waited(sent, (arrived, arrived), false, 4096);
    reserved.note_idle(sent, 0);
    reserved.settle(arrived.after(took), charge, 10_000);
}

#[test]
fn f3_light_tenant_served_at_once_keeps_budget() {
    for commands in [1, 100] {
        let reserved = reserved(Budget::Operations(500));
        for command in 0..commands {
            serve(&reserved, Nanos(7 + command * 10 * MS), 1000, MS);
        }
        let _ = reserved.due(Nanos(7 + SECOND));
        assert_eq!(reserved.kept(), (1, 1), "{commands} commands");
    }
}

#[test]
fn f3_wait_for_memory_counts_as_demand() {
    let reserved = reserved(Budget::Operations(500));
    for n in 0..20 {
        // Each comes as the one before is complete, waits for memory, and is served at once.
        let arrived = Nanos(7 + n * SECOND / 20);
        let (begins, ends) = (arrived.after(SECOND / 20 - MS), arrived.after(SECOND / 20));
        reserved.note_demand_since(begins, arrived, 0);
        let charge = reserved.charge_waited(begins, (arrived, begins), false, 4096);
        reserved.note_idle(begins, 0);
        reserved.settle(ends, charge, 10_000);
    }
    let _ = reserved.due(Nanos(7 + SECOND));
    assert_eq!(reserved.kept(), (1, 0), "20 of 500, one always outstanding");
}

#[test]
fn f3_periods_with_stuck_command_are_missed() {
    let reserved = reserved(Budget::Operations(500));
    reserved.note_demand(Nanos(7), 0);
    reserved.note_demand(Nanos(7 + 3 * SECOND), 0);
    assert_eq!(reserved.kept(), (3, 0));
    reserved.note_idle(Nanos(7 + 3 * SECOND), 0);
    let _ = reserved.due(Nanos(7 + 9 * SECOND));
    assert_eq!(reserved.kept(), (3, 0), "withdrawn: nothing waits");
}

#[test]
fn f3_late_completion_counts_in_its_completion_period() {
    let reserved = reserved(Budget::Operations(500));
    let charges = charge_all(&reserved, Nanos(7));
    assert_eq!(charges.len(), 500);
    reserved.note_demand(Nanos(8), 0);
    for charge in charges {
        reserved.settle(Nanos(9 + SECOND), charge, 10_000);
    }
    let _ = reserved.due(Nanos(8 + 2 * SECOND));
    assert_eq!(reserved.kept(), (2, 1));
}

#[test]
fn f3_tenant_of_disk_forgoes_unrequested_time() {
    let late = on_disk();
    late.note_demand(Nanos(SECOND / 2), 0);
    assert_eq!(charge_all(&late, Nanos(SECOND / 2)).len(), 3, "of 20 ms, in half of 140");
    // One command at a time, the first of which was held up: the gap between them is next to
    // nothing.
    let alone = on_disk();
    alone.note_demand(Nanos(0), 0);
    let charge = alone.charge(Nanos(0), false, 4096);
    alone.note_idle(Nanos(0), 0);
    alone.settle(Nanos(SECOND / 2), charge, 8 * MS);
    alone.note_demand(Nanos(SECOND / 2 + 100_000), 0);
    assert_eq!(charge_all(&alone, Nanos(SECOND / 2 + 100_000)).len(), 6, "of 132 ms");
}

#[test]
fn f3_racing_threads_exceed_budget_by_one_command() {
    for round in 0..20_u64 {
        let reserved = reserved(Budget::Operations(500));
        let now = Nanos(7 + round);
        let served = std::thread::scope(|threads| {
            let both = [(); 2].map(|()| threads.spawn(|| use_up(&reserved, now, 10_000)));
            both.map(|thread| thread.join().unwrap()).iter().sum::<u64>()
        });
        assert!((500..=501).contains(&served), "{served}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Charge { write: bool, bytes: u32 },
    Settle { which: usize, actual: u64 },
    Cancel { which: usize },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..SECOND / 2).prop_map(Step::Pass),
        (any::<bool>(), 512..200_000_u32).prop_map(|(write, bytes)| Step::Charge { write, bytes }),
        (any::<usize>(), 0..MS).prop_map(|(which, actual)| Step::Settle { which, actual }),
        any::<usize>().prop_map(|which| Step::Cancel { which }),
    ]
}

proptest! {
    /// After any sequence of steps, nothing is due beyond the budget, and a new period has all of
    /// it.
    #[test]
    fn f3_never_more_than_the_budget(steps in prop::collection::vec(step(), 1..300)) {
        let reserved = reserved(Budget::Operations(20));
        let (mut now, mut charges) = (Nanos(7), Vec::<Charge>::new());
        let (mut end, mut in_period) = (Nanos::ZERO, 0_u64);
        for step in steps {
            match step {
                Step::Pass(ns) => now = now.after(ns),
                Step::Charge { write, bytes } => {
                    let Some(deadline) = reserved.due(now) else { continue };
                    prop_assert!(deadline > now && deadline.ns_since(now) <= SECOND);
                    in_period = if deadline == end { in_period + 1 } else { 1 };
                    end = deadline;
                    prop_assert!(in_period <= 20);
                    charges.push(reserved.charge(now, write, bytes));
                }
                Step::Settle { which, actual } if !charges.is_empty() => {
                    let charge = charges.swap_remove(which % charges.len());
                    reserved.settle(now, charge, actual);
                }
                Step::Cancel { which } if !charges.is_empty() => {
                    let charge = charges.swap_remove(which % charges.len());
                    reserved.cancel(now, charge);
                    in_period = in_period.saturating_sub(1);
                }
                Step::Settle { .. } | Step::Cancel { .. } => {}
            }
        }
        let fresh = reserved.next_period(now);
        prop_assert_eq!(use_up(&reserved, fresh, 10_000), 20);
    }
}

/// Makes a reservation of a hundred commands a second, two at once, each within 40 ms.
fn within_40_ms() -> Reserved {
    let terms = Terms { latency: Some(Nanos(40 * MS)), burst: 2, ..per_second(100) };
    Reserved::new(Nanos(0), &admit(&flash(), &terms))
}

#[test]
fn f1_burst_is_due_at_once_with_latency() {
    let reserved = within_40_ms();
    let end = reserved.next_period(Nanos(0));
    assert!(end <= Nanos(20 * MS), "two periods pass within the latency");
    let mut charges = Vec::new();
    while reserved.has_budget(Nanos(0)) {
        assert_eq!(reserved.due(Nanos(0)), Some(end), "after {} commands", charges.len());
        charges.push(reserved.charge(Nanos(0), false, 4096));
    }
    assert!(charges.len() >= 2, "{} commands", charges.len());
}

#[test]
fn f1_completion_after_latency_is_late() {
    let reserved = within_40_ms();
    for (took, late) in [(40 * MS, 0), (40 * MS + 1, 1)] {
        let arrived = reserved.next_period(Nanos(SECOND * (1 + late)));
        serve(&reserved, arrived, 30 * MS, took);
        assert_eq!(reserved.late(), (1 + late, late));
    }
}

#[test]
fn f1_slow_answers_miss_reserved_rate() {
    // (ms from a command's arrival to its completion, one at a time; whether a second is missed)
    for (ms, missed) in [(9, false), (10, false), (20, true), (39, true)] {
        let reserved = within_40_ms();
        let mut now = Nanos(0);
        while now < Nanos(SECOND) {
            serve(&reserved, now, (ms - 1) * MS, ms * MS);
            now = now.after(ms * MS);
        }
        let _ = reserved.next_period(now.after(SECOND));
        let (wanted, kept) = reserved.kept();
        assert_eq!(reserved.late().1, 0, "{ms} ms");
        assert!(wanted > 10, "{ms} ms");
        assert_eq!(kept * 10 < wanted, missed, "{ms} ms: {kept} of {wanted} kept");
        assert_eq!(kept == wanted, !missed, "{ms} ms: {kept} of {wanted} kept");
    }
}
