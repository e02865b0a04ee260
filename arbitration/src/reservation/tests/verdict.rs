use super::{MS, SECOND};
use crate::reservation::Cause;
use crate::reservation::demand::Wanted;
use crate::reservation::verdict::{PeriodObservation, Usual, Verdict, Verdicts};

/// Forty commands a second of a device that carries out one at a time, in 8 ms.
const USUAL: Usual = Usual {
    period: SECOND,
    reserved: 40,
    allowance: 0,
    amount: 1,
    in_device: 8 * MS,
    longest: 9 * MS,
    share: 8 * MS,
};

/// The observation of commands that are outstanding for `latency` ms each, of these `in_device`,
/// with `think` ms between them, one at a time, over `ms` of a period.
fn seen(ms: u64, (latency, in_device, think): (u64, u64, u64)) -> PeriodObservation {
    let done = ms / (latency + think);
    PeriodObservation {
        wanted: Wanted {
            outstanding: (ms - done * think) * MS,
            thought: done * think * MS,
            gaps: if think > 0 { done } else { 0 },
        },
        done,
        commands: done,
        latency: done * latency * MS,
        before: 0,
        in_device: done * in_device * MS,
        took: done * 8 * MS,
        assumed: done * 9 * MS,
        foreign: 8 * MS,
        standstill: None,
    }
}

fn judge(ms: u64, times: (u64, u64, u64)) -> Verdict {
    seen(ms, times).judge(&USUAL, None)
}

#[test]
fn f3_continuous_demand_needs_whole_reservation() {
    assert_eq!(judge(1000, (25, 8, 0)), Verdict::Kept);
    for latency in 26..1000 {
        assert_eq!(judge(1000, (latency, 8, 0)), Verdict::Missed(Cause::Order), "{latency} ms");
        let behind = Verdict::Missed(Cause::Window);
        assert_eq!(judge(1000, (latency, latency, 0)), behind, "{latency} ms");
    }
}

#[test]
fn f3_thinking_tenant_is_due_achievable_part() {
    assert_eq!(judge(1000, (16, 8, 8)), Verdict::Kept);
    assert_eq!(judge(1000, (16, 8, 24)), Verdict::Kept, "one each 40 ms, and no more is wanted");
    assert_eq!(judge(1000, (24, 8, 8)), Verdict::Missed(Cause::Order), "31 of 40");
    assert_eq!(judge(1000, (1000, 1000, 0)), Verdict::Missed(Cause::Window));
}

#[test]
fn f3_a_part_of_a_period_is_due_its_part() {
    assert_eq!(judge(500, (24, 8, 0)), Verdict::Kept, "20 less two commands' time");
    assert_eq!(judge(500, (100, 8, 0)), Verdict::Missed(Cause::Order));
    assert_eq!(judge(20, (20, 8, 0)), Verdict::Kept);
    assert_eq!(PeriodObservation::default().judge(&USUAL, None), Verdict::Idle);
    // One at a time does not achieve 100 a second, with or without a pause.
    let many = Usual { reserved: 100, ..USUAL };
    for ms in [100, 500, 950, 999, 1000] {
        let verdict = seen(ms, (16, 8, 0)).judge(&many, None);
        assert_eq!(verdict, Verdict::Missed(Cause::Depth), "{ms} ms");
    }
    assert_eq!(seen(16, (16, 8, 0)).judge(&many, None), Verdict::Kept, "one command was wanted");
}

#[test]
fn f3_a_period_is_missed_with_its_cause_in_words() {
    let verdicts = Verdicts::default();
    let text = |usual: &Usual, seen: &PeriodObservation| {
        verdicts.count(usual, seen, None);
        verdicts.last().unwrap().to_string()
    };
    let behind = seen(1000, (250, 250, 0));
    assert_eq!(
        text(&USUAL, &behind),
        "one command at a time, 8ms each, behind 30 others in the device"
    );
    let first = seen(1000, (50, 8, 0));
    assert_eq!(text(&USUAL, &first), "each command waited 42ms for others to go first");
    let slow = PeriodObservation { took: 40 * 20 * MS, ..seen(1000, (40, 20, 0)) };
    let device = "the device took 20ms for a command, and 8ms when it was measured";
    assert_eq!(text(&USUAL, &slow), device);
    let many = Usual { reserved: 100, ..USUAL };
    assert_eq!(text(&many, &seen(1000, (16, 8, 0))), "one command at a time, 16ms each");
    let nothing = PeriodObservation { wanted: behind.wanted, ..PeriodObservation::default() };
    assert_eq!(text(&USUAL, &nothing), "no command was let into the device");
    let stands = |cause| PeriodObservation { standstill: Some(cause), ..nothing };
    assert_eq!(text(&USUAL, &stands(Cause::Device)), "the device completed no command");
    assert_eq!(text(&USUAL, &stands(Cause::Data)), "no command had its memory and data");
    // Two at a time, 75 ms each, of these 60 ms before the arbiter.
    let late =
        PeriodObservation { latency: 2 * SECOND, before: 1600 * MS, ..seen(1000, (38, 8, 0)) };
    assert_eq!(text(&USUAL, &late), "each command waited 61.538ms for memory or its host's data");
    let missed = verdicts.missed();
    assert_eq!(Cause::ALL.map(|cause| missed.by(cause)), [2, 1, 1, 2, 2]);
    assert_eq!((missed.total(), verdicts.kept()), (8, 0));
}

#[test]
fn f1_with_an_allowed_latency_its_promise_decides() {
    let few = seen(1000, (100, 8, 0));
    assert_eq!(few.judge(&USUAL, Some(true)), Verdict::Kept);
    assert!(matches!(few.judge(&USUAL, Some(false)), Verdict::Missed(_)));
    let none = PeriodObservation { wanted: few.wanted, ..PeriodObservation::default() };
    assert!(matches!(none.judge(&USUAL, Some(true)), Verdict::Missed(_)), "nothing was complete");
}
