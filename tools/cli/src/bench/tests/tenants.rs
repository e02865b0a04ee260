//! Jobs as tenants of their own, and the report of several jobs.

use super::target::{Behaviour, start, start_seen};
use super::{all_did_something, load, run, run_until};
use crate::bench::report::Outcome;
use crate::bench::run::once;

fn json(line: &str) -> serde_json::Value {
    let outcome = run(Behaviour::default(), line).unwrap();
    outcome.table().unwrap();
    serde_json::to_value(outcome.report().unwrap()).unwrap()
}

#[test]
fn e6_a_class_is_named_in_each_command() {
    let (address, seen) = start_seen(Behaviour::default());
    let line = "--job name=u,class=urgent --job name=h,class=high --job name=m,class=medium \
                --job name=l,class=low --job name=n,class=none,cdw13=0x5";
    let outcome = run_until(&address, line, all_did_something).unwrap();
    let dwords: Vec<u32> = seen.lock().unwrap().dwords.keys().copied().collect();
    assert_eq!(dwords, [0, 0x5, 0x100, 0x200, 0x300]);
    let report = serde_json::to_value(outcome.report().unwrap()).unwrap();
    let classes: Vec<_> =
        report["classes"].as_array().unwrap().iter().map(|row| row["class"].clone()).collect();
    assert_eq!(classes, ["urgent", "high", "medium", "low", "none"]);
}

#[test]
fn jobs_of_several_hosts_have_controllers_of_their_own() {
    let (address, seen) = start_seen(Behaviour::default());
    let line = "--job name=a,hostnqn=nqn.a,prioclass=high,connections=2 \
                --job name=b,hostnqn=nqn.b --job name=c,hostnqn=nqn.b,tos=0xb8 \
                --job name=d,hostnqn=nqn.a,prioclass=low";
    once(&load(&address, line), false).unwrap();
    let seen = seen.lock().unwrap();
    let of = |host: &str| {
        let mut connects: Vec<_> =
            seen.connects.iter().filter(|c| c.2 == host).map(|c| (c.0, c.1)).collect();
        connects.sort_unstable();
        connects
    };
    // CATTR bit 2: no submission queue flow control; bits 1:0: 1 High, 3 Low.
    assert_eq!(of("nqn.a"), [(0, 4), (1, 5), (2, 5), (3, 7)]);
    assert_eq!(of("nqn.b"), [(0, 4), (0, 4), (1, 4), (1, 4)], "another ToS, another controller");
    assert_eq!(seen.host_ids.len(), 2, "a host identifier for each host");
    let wrr = |cc: &u32| cc >> 11 & 7 == 1;
    let (with, without): (Vec<_>, Vec<_>) =
        seen.configurations.iter().copied().filter(|cc| cc & 1 == 1).partition(wrr);
    // Enabled and shut down, each.
    assert_eq!((with.len(), without.len()), (2, 2), "{:x?}", seen.configurations);
}

#[test]
fn a_priority_class_needs_a_controller_that_knows_it() {
    let behaviour = Behaviour { wrr: false, ..Behaviour::default() };
    let text = format!("{:#}", run(behaviour, "--prioclass high").unwrap_err());
    assert!(text.contains("CAP.AMS") && text.contains("--prioclass"), "{text}");
}

#[test]
fn shares_are_compared_with_the_configured_ones() {
    // A job's commands do not wait for another's: connections share by their depths.
    let report = json("--job name=a,weight=1,depth=4 --job name=b,share=50%,weight=1,depth=4");
    let shares = &report["shares"];
    assert_eq!(shares["jobs"][0]["configured"], 0.5);
    let sum: f64 =
        [0, 1].map(|at| shares["jobs"][at]["commands"]["share"].as_f64().unwrap()).iter().sum();
    assert!((sum - 1.0).abs() < 1e-9);
    let jain = shares["jain_commands"].as_f64().unwrap();
    assert!((0.5..=1.0).contains(&jain), "{jain}");
}

#[test]
fn a_job_is_compared_with_itself_alone() {
    let report = json("--alone --job name=a,depth=2 --job name=b,depth=2");
    let alone = report["alone"].as_array().unwrap();
    assert_eq!(alone.len(), 2);
    for row in alone {
        let slowdown = row["slowdown"].as_f64().unwrap();
        let f_util = row["f_util"].as_f64().unwrap();
        assert!(slowdown > 0.0 && (f_util * slowdown - 2.0).abs() < 1e-9, "{row}");
    }
}

#[test]
fn windows_hold_all_commands_and_reservations_are_counted_by_them() {
    let line = "--time 200ms --window 50ms --threads 2 --rate 2k --connections 2 \
                --job name=kept,reserve=1k --job name=broken,reserve=500k,rate=600k,depth=1";
    let report = json(line);
    let windows = &report["windows"];
    let kept = &windows["jobs"][0];
    let iops = kept["iops"].as_array().unwrap();
    assert_eq!(iops.len(), 4);
    let commands: f64 = iops.iter().map(|iops| iops.as_f64().unwrap() * 0.05).sum();
    let counted = report["jobs"][0]["reads"]["commands"].as_f64().unwrap();
    assert!((commands - counted).abs() < 0.5, "{commands} in windows, {counted} in all");
    // A busy machine may leave a window without what is reserved.
    let met = iops.iter().filter(|iops| iops.as_f64().unwrap() >= 990.0).count();
    assert_eq!(kept["reservation"]["kept"], met, "{kept}");
    let broken = &windows["jobs"][1]["reservation"];
    assert_eq!((broken["windows"].as_u64(), broken["kept"].as_u64()), (Some(4), Some(0)));
    assert!(report["jobs"][1]["held_back"].as_u64().unwrap() > 1000, "{}", report["jobs"][1]);
}

#[test]
fn latency_in_an_open_loop_counts_the_wait_for_a_slot() {
    // 1 ms at least for each command and 2 commands per ms: the hundredth is about 50 ms late, or later.
    let behaviour =
        Behaviour { delay: std::time::Duration::from_millis(1), ..Behaviour::default() };
    let line = "--rate 2k --arrivals poisson --depth 1";
    let has_hundred = |outcome: &Outcome| outcome.jobs[0].1.count() >= 100;
    let outcome = run_until(&start(behaviour), line, has_hundred).unwrap();
    let latency = &outcome.jobs[0].1.reads;
    assert!(latency.quantile(0.9) > 20_000_000, "p90 {} ns", latency.quantile(0.9));
}
