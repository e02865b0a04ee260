//! The initiator against a small target in the same process.

mod regions;
mod target;
mod tenants;

use fabric::tcp::TargetParams;

use super::args::{Args, Load};
use super::report::Outcome;
use super::run::{once, whole};
use super::versus::compare;
use crate::testing::parse;
use target::{Behaviour, NQN, start, start_seen};

fn load(address: &str, line: &str) -> Load {
    let time = if line.contains("--time") { "" } else { "--time 60ms" };
    let fixed = format!("bench -a {address} -n {NQN} --warmup 10ms {time} {line}");
    parse::<Args>(&fixed).unwrap().load
}

/// Runs a load for longer and longer until its outcome has enough: a busy machine may leave it no time.
fn run_until(
    address: &str,
    line: &str,
    is_enough: impl Fn(&Outcome) -> bool,
) -> anyhow::Result<Outcome> {
    for time in ["60ms", "600ms", "6s"] {
        match whole(&load(address, &format!("{line} --time {time}")), false) {
            Ok(outcome) if !is_enough(&outcome) => {}
            Err(error) if error.to_string().contains("use a longer --time") => {}
            ended => return ended,
        }
    }
    whole(&load(address, &format!("{line} --time 60s")), false)
}

/// Says whether each job, and each alone, has done something in the measurement.
fn all_did_something(outcome: &Outcome) -> bool {
    outcome.jobs.iter().all(|(_, stats)| stats.count() > 0)
        && outcome.alone.iter().all(|figures| figures.commands > 0)
}

fn run(behaviour: Behaviour, line: &str) -> anyhow::Result<Outcome> {
    let address = start(behaviour);
    if line.contains("--time") {
        return once(&load(&address, line), false);
    }
    run_until(&address, line, all_did_something)
}

#[test]
fn every_pattern_size_and_digest_reads_back_what_it_wrote() {
    let small = TargetParams {
        cpda: 7,
        max_h2c_data: 4096,
        max_r2t_data: 6000,
        max_c2h_data: 5000,
        ..TargetParams::default()
    };
    for (params, in_capsule, line) in [
        (TargetParams::default(), 4096, "--rw randrw --bs 4k --depth 16"),
        (TargetParams::default(), 0, "--rw randwrite --bs 4k --depth 16 --ddgst"),
        (small, 1024, "--rw rw --bs 16k --depth 4 --hdgst --ddgst --connections 2 --threads 2"),
        (small, 8192, "--rw write --bs 512B --depth 64 --hdgst"),
        (TargetParams::default(), 0, "--rw randrw --bs 64k --depth 2 --read-share 30"),
        (TargetParams::default(), 4096, "--rw randrw --bs 4k --depth 4 --connections 3"),
    ] {
        let behaviour = Behaviour { params, in_capsule, ..Behaviour::default() };
        let outcome = run(behaviour, &format!("--verify --span 512k {line}"))
            .unwrap_or_else(|error| panic!("{line}: {error:#}"));
        let connections = u64::from(outcome.jobs[0].0.connections);
        assert_eq!(outcome.verified_bytes, connections * 512 * 1024, "{line}");
        outcome.ensure_no_errors().unwrap();
    }
}

#[test]
fn one_wrong_bit_is_found_and_its_place_named() {
    let behaviour = Behaviour { damage: Some(40_000), ..Behaviour::default() };
    let error = run(behaviour, "--verify --span 512k --rw randrw").unwrap_err();
    let text = format!("{error:#}");
    // Byte 40,000 is in the 4 KiB block from LBA 72, 3,136 bytes into it.
    assert!(text.contains("LBA 72") && text.contains("offset 3136"), "{text}");
}

#[test]
fn a_refused_connect_says_why_and_what_to_try() {
    let address = start(Behaviour::default());
    let load = Load { nqn: "nqn.wrong".to_owned(), ..load(&address, "") };
    let text = format!("{:#}", once(&load, false).unwrap_err());
    for part in ["connect: invalid parameters", "(SCT 1h, SC 82h)", "-n", "nqn.wrong"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_load_that_does_not_fit_the_target_is_refused_with_a_remedy() {
    let address = start(Behaviour::default());
    for (line, part) in [
        ("--nsid 7", "--nsid"),
        ("--bs 1000B", "multiple"),
        ("--bs 2m", "MDTS"),
        ("--connections 65", "at most --connections 64, or set max_queues = 65 in [target]"),
        ("--depth 1024 --connections 2", "CAP.MQES"),
        ("--verify --span 64k --depth 128", "--span"),
        ("--core 999", "999"),
        ("-t rdma --hdgst", "leave out --hdgst"),
    ] {
        let error = once(&load(&address, line), false).unwrap_err();
        assert!(format!("{error:#}").contains(part), "{line}: {error:#}");
    }
}

#[test]
fn failed_commands_are_counted_by_status() {
    let address = start(Behaviour { bad_block: Some(8), ..Behaviour::default() });
    let outcome = run_until(&address, "--rw read --bs 4k --depth 8", |outcome| {
        let stats = &outcome.jobs[0].1;
        !stats.errors.is_empty() && stats.reads.count() > 0
    });
    let outcome = outcome.unwrap();
    assert!(outcome.jobs[0].1.errors.keys().all(|status| *status == 0x281));
    assert!(outcome.table().unwrap().contains("unrecovered read error"));
    assert!(outcome.ensure_no_errors().is_err());
}

/// Each write of the first units is sent back once; what is read back shows that all were carried out.
#[test]
fn interrupted_commands_are_retried_and_verified() {
    let behaviour = Behaviour { interrupts: (1, 3), ..Behaviour::default() };
    let (address, seen) = start_seen(behaviour);
    let line = "--rw randrw --verify --span 512k --depth 8";
    let outcome = run_until(&address, line, all_did_something).unwrap();
    assert!(seen.lock().unwrap().acre, "the target knows that the host retries");
    assert!(outcome.jobs[0].1.errors.is_empty(), "{:?}", outcome.jobs[0].1.errors);
}

/// A target without CRDT1 has no delay to retry after, as one whose status is final.
#[test]
fn interrupted_commands_without_retry_delays_fail() {
    let behaviour = Behaviour { interrupts: (0, 3), ..Behaviour::default() };
    let (address, seen) = start_seen(behaviour);
    let error = whole(&load(&address, "--rw randrw --verify --destroy --span 512k"), false);
    let error = format!("{:#}", error.unwrap_err());
    assert!(error.contains("command interrupted"), "{error}");
    assert!(!seen.lock().unwrap().acre);
}

#[test]
fn d6_credits_need_a_target_with_their_page() {
    let error = run(Behaviour::default(), "--credits /nowhere").unwrap_err();
    assert!(format!("{error:#}").contains("log page of node credits"), "{error:#}");
}

#[test]
fn a_rate_is_kept() {
    let line = "--rate 2k --depth 8 --connections 2 --time 500ms";
    let outcome = run(Behaviour::default(), line).unwrap();
    let stats = &outcome.jobs[0].1;
    let (count, due) = (stats.count(), stats.count() + stats.held_back);
    assert!(count <= 1100 && due >= 900, "{count} commands of {due} due in half a second");
}

#[test]
fn several_jobs_run_at_once_and_report_as_json() {
    let line = "--job name=log,rw=write,bs=512B,depth=2 --job name=db,rw=randread,cdw13=0x200";
    let outcome = run(Behaviour::default(), line).unwrap();
    let json = serde_json::to_value(outcome.report().unwrap()).unwrap();
    assert_eq!(json["jobs"][0]["name"], "log");
    assert!(json["jobs"][0]["reads"].is_null());
    assert!(json["jobs"][0]["writes"]["iops"].as_f64().unwrap() > 0.0);
    assert!(json["jobs"][1]["reads"]["p99_ns"].as_u64().unwrap() > 0);
    assert_eq!(json["jobs"][1]["cdw13"], 0x200);
}

#[test]
fn a_target_that_is_not_there_is_an_error_that_says_so() {
    let address = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let text = format!("{:#}", once(&load(&address, ""), false).unwrap_err());
    assert!(text.contains("is the target running"), "{text}");
}

#[test]
fn a_target_that_goes_away_in_the_middle_is_an_error_that_says_so() {
    let behaviour = Behaviour { close_after: Some(1000), ..Behaviour::default() };
    let text = format!("{:#}", run(behaviour, "--depth 4 --time 20s").unwrap_err());
    assert!(text.contains("closed the connection") || text.contains("reset"), "{text}");
}

#[test]
fn two_targets_are_compared_pair_by_pair() {
    let (a, b) = (start(Behaviour::default()), start(Behaviour::default()));
    let measured = ["60ms", "600ms", "6s", "60s"].into_iter().find_map(|time| {
        let load = load(&a, &format!("--vs {b} --pairs 3 --time {time}"));
        let json = serde_json::to_value(&compare(&load, |_, _| Ok(())).ok()?).unwrap();
        json["min_ratio"].as_f64().is_some_and(|ratio| ratio > 0.0).then_some(json)
    });
    let json = measured.unwrap();
    let ratios = json["pairs"].as_array().unwrap().iter().map(|pair| {
        let ratio = pair["ratio"].as_f64().unwrap();
        let iops = |side: &str| pair[side]["iops"].as_f64().unwrap();
        assert!((iops("a") / iops("b") - ratio).abs() < 1e-9);
        ratio
    });
    let mut ratios: Vec<f64> = ratios.collect();
    ratios.sort_by(f64::total_cmp);
    assert_eq!(json["median_ratio"].as_f64().unwrap(), ratios[1]);
    assert_eq!(json["min_ratio"].as_f64().unwrap(), ratios[0]);
    assert_eq!(json["max_ratio"].as_f64().unwrap(), ratios[2]);
}

#[test]
fn the_documentations_examples_are_command_lines() {
    let text = include_str!("../../../../../docs/use/bench.md").replace("\\\n", " ");
    let lines = text.lines().filter_map(|line| line.strip_prefix("$ sluice "));
    let parsed = lines.map(|line| parse::<Args>(line).unwrap().load.jobs());
    let jobs: Vec<usize> = parsed.map(|jobs| jobs.unwrap().len()).collect();
    assert_eq!(jobs, [1, 1, 4, 2, 1, 1]);
}

#[test]
fn loads_that_write_spare_used_disks_without_destroy() {
    let file_system = Behaviour { file_system: true, ..Behaviour::default() };
    let used = Behaviour { others: Some(2), ..Behaviour::default() };
    for (behaviour, found) in [
        (file_system, "holds a file system (ext4)"),
        (used, "is in use by 2 other controllers, and this load overwrites up to "),
    ] {
        let address = start(behaviour);
        let refused = |line: &str| whole(&load(&address, line), false).unwrap_err().to_string();
        for line in
            ["--rw randwrite --span 64k", "--verify --span 512k", "--rw rw --alone --span 64k"]
        {
            let error = refused(line);
            assert!(error.contains(found) && error.contains("--destroy"), "{error}");
            assert_eq!(error.contains("512 KiB"), line.contains("512k"), "{error}");
        }
        let vs = load(&address, &format!("--rw randwrite --pairs 1 --vs {address}"));
        let error = compare(&vs, |_, _| Ok(())).unwrap_err().to_string();
        assert!(error.contains(found), "{error}");
        // Reads go on, and nothing was written by then.
        run_until(&address, "--rw randread", all_did_something).unwrap();
        assert!(refused("--rw randwrite").contains(found), "it is still there");
        run_until(&address, "--rw randwrite --destroy", all_did_something).unwrap();
    }
    let alone = start(Behaviour { others: Some(0), ..Behaviour::default() });
    run_until(&alone, "--rw randwrite", all_did_something).unwrap();
}
