use proptest::prelude::*;
use units::Nanos;

use super::{MS, SECOND, admit, disk, terms};
use crate::reservation::{
    Admitted, Broker, Budget, Locality, Profile, Refusal, ServiceTime, Terms, Utilisation,
};
use crate::testing::per_second;

fn shortage(refused: Result<Admitted, Refusal>) -> Box<crate::reservation::Shortage> {
    match refused {
        Err(Refusal::Utilisation(shortage)) => shortage,
        other => panic!("{other:?}"),
    }
}

#[test]
fn f1_equation_1_as_printed_for_a_disk() {
    // u'' = (2*20 + max(20, (11-1)*8 + 20)) / 1000 = 140/1000
    let eleven = Broker::translate(&disk(), &per_second(11)).unwrap();
    assert_eq!(eleven.utilisation, Utilisation::ratio(140, 1000));
    assert_eq!(eleven.device_time, Nanos(140 * MS));
    // One command: (2*20 + max(20, 0 + 20)) / 1000.
    let one = Broker::translate(&disk(), &per_second(1)).unwrap();
    assert_eq!(one.utilisation, Utilisation::ratio(60, 1000));
}

#[test]
fn f1_bytes_and_time_become_commands() {
    let of = |budget| {
        let found = Broker::translate(&disk(), &terms(budget, SECOND)).unwrap();
        (found.operations, found.device_time, found.buffer_bytes)
    };
    assert_eq!(of(Budget::Bytes(11 * 4096 - 1)), of(Budget::Operations(11)));
    assert_eq!(of(Budget::DeviceTime(Nanos(88 * MS))), of(Budget::Operations(11)));
}

#[test]
fn f1_a_stream_in_sequence_costs_less_of_a_disk() {
    let random = Terms { request_bytes: 65_536, ..terms(Budget::Bytes(16 << 20), SECOND) };
    let sequential = Terms { locality: Locality::Sequential, ..random };
    let utilisation = |terms| Broker::translate(&disk(), terms).unwrap().utilisation;
    assert!(utilisation(&sequential) < Utilisation::percent(25), "16 MiB of over 90 MiB a second");
    assert!(utilisation(&random) > Utilisation::WHOLE);
}

#[test]
fn f1_flash_pays_no_seeks_and_uses_its_parallelism() {
    let profile = Profile::of_device(Nanos(80_000), Nanos(MS), 0, 8);
    // 5,000 commands of 10 us, an eighth more, and the worst of the five that overlap.
    let found = Broker::translate(&profile, &per_second(5000)).unwrap();
    let expected = 5000 * 11_250 + 5 * (125_000 - 11_250);
    assert_eq!(found.device_time, Nanos(expected));
    assert_eq!(found.utilisation, Utilisation::ratio(expected, SECOND));
}

#[test]
fn f2_invalid_terms_are_refused_with_remedy() {
    let good = per_second(1);
    let refusal = |terms: &Terms| Broker::translate(&disk(), terms).unwrap_err().to_string();
    for budget in [Budget::Operations(0), Budget::Bytes(0), Budget::DeviceTime(Nanos(0))] {
        let refused = refusal(&Terms { budget, ..good });
        assert_eq!(refused, "a reservation of nothing: give a budget of at least 1");
    }
    for period in [0, MS - 1, 3601 * SECOND, u64::MAX] {
        let refused = refusal(&Terms { period: Nanos(period), ..good });
        assert!(refused.ends_with("it must be from 1 ms to 1 hour"), "{refused}");
    }
    let writes = Terms { buffers: 2, write_percent: 100, ..good };
    assert!(Broker::translate(&disk(), &writes).is_ok());
    for (terms, text) in [
        (Terms { request_bytes: 0, ..good }, "request_size"),
        (Terms { write_percent: 101, ..good }, "at most 100 %"),
        (Terms { burst: 0, ..good }, "at least 1"),
        (Terms { latency: Some(Nanos(2 * MS - 1)), ..good }, "from 2 ms"),
        (Terms { buffers: 0, ..writes }, "for writes"),
        (Terms { write_percent: 99, ..writes }, "for writes"),
        (Terms { latency: Some(Nanos(SECOND)), ..writes }, "one of the two"),
        (Terms { buffers: 3601, ..writes }, "1 hour"),
    ] {
        let refused = refusal(&terms);
        assert!(refused.contains(text), "{terms:?}: {refused}");
    }
}

#[test]
fn f2_refusal_states_remainder_and_fitting_terms() {
    let first = admit(&disk(), &per_second(50));
    let refused = Broker::admit(&disk(), &[first], 20, &per_second(50));
    assert_eq!(
        refused.unwrap_err().to_string(),
        "50 commands of 4 KiB every 1s need 45.20 % of the device, and 32.80 % is \
         left (45.20 % is reserved by 1 reservation, 20.00 % is kept for urgent commands, 2.00 % \
         for the longest command): at most 34 commands of 4 KiB every 1s would fit"
    );
}

#[test]
fn f2_refusal_offers_longer_period() {
    let refused = Broker::admit(&disk(), &[], 0, &terms(Budget::Operations(7), 100 * MS));
    let shortage = shortage(refused);
    let longer = shortage.fits_longer.expect("56 of 100 ms without the fixed cost");
    assert_eq!(longer, terms(Budget::Operations(7), 100 * MS).lengthened(2));
    assert!(Broker::admit(&disk(), &[], 0, &longer).is_ok());
}

#[test]
fn f2_periods_shorter_than_the_longest_command_are_refused() {
    let profile = Profile::of_device(Nanos(100_000), Nanos(10 * MS), 0, 8);
    let refused = Broker::admit(&profile, &[], 20, &terms(Budget::Operations(1), 10 * MS));
    let Err(Refusal::TooShort { shortest, .. }) = refused else { panic!("{refused:?}") };
    assert!(Broker::admit(&profile, &[], 20, &terms(Budget::Operations(1), shortest.0)).is_ok());
}

#[test]
fn f2_infeasible_latency_is_refused_with_feasible_one() {
    let profile = Profile::of_device(Nanos(100_000), Nanos(10 * MS), 0, 8);
    let latency = |ms: u64| Terms { latency: Some(Nanos(ms * MS)), burst: 4, ..per_second(30) };
    let refused = Broker::admit(&profile, &[], 20, &latency(20));
    let Err(Refusal::TooSlow { shortest, .. }) = refused else { panic!("{refused:?}") };
    assert!(refused.unwrap_err().to_string().contains("give a latency of at least 50ms"));
    let longer = Terms { latency: Some(shortest), ..latency(20) };
    let admitted = Broker::admit(&profile, &[], 20, &longer).unwrap();
    assert!(admitted.translation.period.0 <= 25 * MS, "half of it");
    // On a disk the seeks of short periods are too much before a single command is.
    let refused = Broker::admit(&disk(), &[], 20, &latency(150));
    let longer = shortage(refused).fits_longer.expect("a longer latency");
    assert!(longer.latency >= Some(Nanos(300 * MS)) && longer.period == Nanos(SECOND));
    assert!(longer.to_string().ends_with("each within 450ms, 4 at once"), "{longer}");
    assert!(Broker::admit(&disk(), &[], 20, &longer).is_ok());
}

#[test]
fn f1_latency_uses_cheapest_period() {
    let plain = per_second(1000);
    let terms = Terms { latency: Some(Nanos(100 * MS)), burst: 640, ..plain };
    let profile = Profile::of_device(Nanos(100_000), Nanos(400_000), 0, 8);
    let found = admit(&profile, &terms).translation;
    // One period for the whole burst would take 50 ms and 640 + 50 commands: 13,800 a second.
    let rate = found.operations * SECOND / found.period.0;
    assert!((7500..11_000).contains(&rate), "{found:?}");
    assert!(found.utilisation > Broker::translate(&profile, &plain).unwrap().utilisation);
    assert_eq!(found.buffer_bytes, 640 * 4096, "buffers for what comes at once");
}

#[test]
fn f2_window_longer_than_period_is_refused() {
    let profile = Profile::of_device(Nanos(8 * MS), Nanos(9 * MS), 0, 1);
    let admitted = admit(&profile, &per_second(40));
    assert_eq!(Broker::check_window(&admitted, 124), Ok(()));
    assert_eq!(
        Broker::check_window(&admitted, 128).unwrap_err().to_string(),
        "a window of 128 holds commands in the device for 1.032s, longer than 1s, in which 40 \
         commands of 4 KiB every 1s are reserved: give a window of at most 124 (with 1, \
         one command at a time is complete in time), or none: it then follows the reservation"
    );
    // Commands carried out at once are no queue.
    let short = admit(&profile, &terms(Budget::Operations(1), 20 * MS));
    assert_eq!(Broker::check_window(&short, 1), Ok(()));
}

#[test]
fn f2_admission_knows_what_each_depth_achieves() {
    let beside = |reserved, (ms, channels, operations): (u64, u32, u64), window| {
        let profile = Profile::of_device(Nanos(ms * MS), Nanos(ms * MS), 0, channels);
        admit(&profile, &terms(Budget::Operations(operations), SECOND)).floors(window, reserved)
    };
    let floors = |device, window| beside(Utilisation::NONE, device, window);
    assert_eq!(floors((8, 1, 40), None), "40 commands a second at any depth");
    let two = "250 commands a second one at a time, 400 from 2 at a time";
    assert_eq!(floors((2, 4, 400), None), two);
    let fixed = "15 commands a second one at a time, 400 from 32 at a time";
    assert_eq!(floors((2, 4, 400), Some(128)), fixed);
    let half = "125 commands a second one at a time, 400 from 4 at a time";
    assert_eq!(beside(Utilisation::percent(50), (2, 4, 400), None), half);
}

#[test]
fn f2_extreme_amounts_are_refused_not_wrapped() {
    for profile in [disk(), Profile::default()] {
        for budget in [Budget::Operations(u64::MAX), Budget::Bytes(u64::MAX)] {
            shortage(Broker::admit(&profile, &[], 90, &terms(budget, SECOND)));
        }
    }
    let endless = ServiceTime { mean: Nanos::MAX, worst: Nanos::MAX };
    let profile = Profile { read: endless, write: endless, ..disk() };
    let budget = Budget::Operations(u64::MAX);
    assert!(Broker::admit(&profile, &[], 0, &terms(budget, 3600 * SECOND)).is_err());
}

#[test]
fn f4_buffers_lengthen_period_and_save_fixed_cost() {
    let one = Terms { write_percent: 100, ..terms(Budget::Operations(5), 200 * MS) };
    let utilisation = |terms| Broker::translate(&disk(), terms).unwrap().utilisation;
    let four = one.lengthened(4);
    assert_eq!((four.period, four.budget), (Nanos(800 * MS), Budget::Operations(20)));
    let buffers = Terms { buffers: 4, ..one };
    assert_eq!(utilisation(&buffers), utilisation(&four));
    let found = Broker::translate(&disk(), &buffers).unwrap();
    assert_eq!(found.buffer_bytes, 20 * 4096, "all that comes in four periods");
    // The fixed cost of a period is 2*WCET, and WCET - MET: 52 ms.
    let saved = Utilisation::ratio(52, 200).less(Utilisation::ratio(52, 800));
    assert_eq!(utilisation(&one).less(saved), utilisation(&four));
}

#[test]
fn f4_admission_counts_the_least_buffer_space() {
    let profile = Profile::of_device(Nanos(100_000), Nanos(10 * MS), 0, 8);
    let admitted = admit(&profile, &per_second(300));
    assert_eq!(admitted.translation.buffer_bytes, 3 * 4096, "300 times 10 ms in each second");
    assert_eq!(Broker::check_buffers(&admitted, 3 * 4096), Ok(()));
    let refused = Broker::check_buffers(&admitted, 4096).unwrap_err().to_string();
    assert!(refused.starts_with("12 KiB of buffers are needed"), "{refused}");
}

fn any_terms() -> impl Strategy<Value = Terms> {
    let budget = prop_oneof![
        (1..100_000_u64).prop_map(Budget::Operations),
        (1..1_u64 << 32).prop_map(Budget::Bytes),
        (1..10 * SECOND).prop_map(|ns| Budget::DeviceTime(Nanos(ns))),
    ];
    let locality = prop_oneof![Just(Locality::Random), Just(Locality::Sequential)];
    let latency = prop::option::weighted(0.4, (2 * MS..5 * SECOND).prop_map(Nanos));
    let rest = (latency, 1..50_u32, 1..5_u32);
    (budget, MS..10 * SECOND, 512..1_u32 << 20, 0..=120_u8, locality, rest).prop_map(
        |(budget, period, request_bytes, writes, locality, (latency, burst, buffers))| {
            let write_percent = writes.min(100);
            let longer = write_percent == 100 && latency.is_none();
            let buffers = if longer { buffers } else { 1 };
            let terms = Terms::of(budget, Nanos(period));
            Terms { request_bytes, write_percent, locality, latency, burst, buffers, ..terms }
        },
    )
}

proptest! {
    /// Terms offered by a refusal are admitted, and one more command of them is not.
    #[test]
    fn f2_offered_terms_are_admitted(
        seeks: bool,
        urgent in 0..=50_u8,
        asked in prop::collection::vec(any_terms(), 1..8),
    ) {
        let profile = if seeks { disk() } else { Profile::default() };
        let mut already = Vec::new();
        for terms in &asked {
            match Broker::admit(&profile, &already, urgent, terms) {
                Ok(admitted) => already.push(admitted),
                Err(Refusal::Utilisation(shortage)) => {
                    if let Some(fits) = shortage.fits {
                        prop_assert!(Broker::admit(&profile, &already, urgent, &fits).is_ok());
                        let step = match fits.budget {
                            Budget::Bytes(_) => u64::from(terms.request_bytes),
                            _ => 1,
                        };
                        let amount = fits.budget.amount() + step;
                        let more = Terms { budget: fits.budget.with_amount(amount), ..fits };
                        prop_assert!(Broker::admit(&profile, &already, urgent, &more).is_err());
                    }
                    if let Some(longer) = shortage.fits_longer {
                        prop_assert!(Broker::admit(&profile, &already, urgent, &longer).is_ok());
                    }
                }
                Err(_) => {}
            }
        }
        let all: Utilisation = already.iter().map(|a| a.translation.utilisation).sum();
        prop_assert!(all.plus(Utilisation::percent(urgent)) <= Utilisation::WHOLE);
    }
}
