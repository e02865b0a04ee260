//! Scenarios with hosts over both transports.
#![expect(clippy::panic, reason = "tests fail where something is not there")]

use crate::common::*;
use sluice_sim::model::Measured;
use sluice_sim::scenario::Outcome;

/// One host over RDMA, two over TCP: High, Medium and Low, which write.
const MIXED: &str = include_str!("../../../scenarios/transports.toml");

/// Returns the scenario with these times in place of its own.
fn with_times(warmup: &str, duration: &str) -> String {
    let set = |text: String, key: &str, value: &str| {
        let parts = text.split_once(&format!("\n{key} = \""));
        let parts = parts.and_then(|(before, rest)| Some((before, rest.split_once('"')?.1)));
        let Some((before, after)) = parts else { panic!("the scenario has no {key}") };
        format!("{before}\n{key} = \"{value}\"{after}")
    };
    set(set(MIXED.to_owned(), "warmup", warmup), "duration", duration)
}

/// Runs a scenario with a seed. Returns its measurements and its report.
fn measure(text: &str, seed: u64) -> (Measured, String) {
    let (scenario, plan) = planned(text, seed);
    let measured = run(plan);
    let report = Outcome::of(&scenario, &measured).report(&scenario, seed).text();
    (measured, report)
}

#[test]
fn e11_classes_share_a_link_over_both_transports() {
    for reads in ["\"0 %\"", "\"100 %\""] {
        let (measured, _) = measure(&MIXED.replace("\"0 %\"", reads), 1);
        assert_parts(&bytes(&measured), &[3.0, 2.0, 1.0], 0.12);
    }
}

#[test]
fn e11_without_the_stage_the_host_over_rdma_has_next_to_nothing() {
    let text = with_times("100 ms", "300 ms").replace("[network]", "[network]\nenabled = false");
    let of = parts(&bytes(&measure(&text, 1).0));
    // DCTCP displaces DCQCN almost completely, independent of the class.
    assert!(of[0] < 0.1, "{of:.3?}");
}

#[test]
fn a_run_over_both_transports_is_the_same_each_time() {
    let short = with_times("50 ms", "20 ms");
    let (_, first) = measure(&short, 7);
    assert_eq!(measure(&short, 7).1, first);
    assert_ne!(measure(&short.replace("\"rdma\"", "\"tcp\""), 7).1, first, "the transport counts");
}
