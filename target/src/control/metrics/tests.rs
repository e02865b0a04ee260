//! Tests that the text is OpenMetrics, that the documentation has every family, and that the dashboard and the alert
//! rules use families that exist.

mod dashboard;
mod query;
mod rules;
mod schema;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_config::testing::parse;

use super::*;
use crate::control::api::test_engine::TestEngine;
use crate::serve::engine::FileSystem;

fn text() -> String {
    let config = "[[listener]]\naddress = \"127.0.0.1:4420\"\n[[subsystem]]\nnqn = \"nqn.2026-01.io.x:s0\"\n[[subsystem.namespace]]\n\
                  backend = \"memory\"\nsize = \"1 MiB\"\n[[session]]\nname = \"gold\"\n\
                  reserve = { commands = 5, namespace = \"nqn.2026-01.io.x:s0/1\" }\n\
                  [network]\ncapacity = \"10 Gbit/s\"\n[[link]]\nname = \"east\"\n\
                  [pmem]\naddress = \"127.0.0.1:4430\"\ncapacity = 1000000\n\
                  [[region]]\nname = \"log\"\nsize = \"1 MiB\"\nreserve = 5000\n\
                  hosts = [\"nqn.2026-01.io.x:h0\", \"nqn.2026-01.io.x:h1\"]\n\
                  [[region]]\nname = \"old\"\npath = \"/missing\"\n";
    text_of(config)
}

fn text_of(config: &str) -> String {
    let engine = TestEngine::new(parse(config).unwrap());
    let (mount, files, may_take, free, overcommit) = ("/srv".to_owned(), 1, 3, 2, 1);
    let file_system = FileSystem { mount, files, may_take, free, overcommit };
    engine.file_systems.lock().unwrap().push(file_system);
    Metrics::new(EngineHandle(Arc::new(engine))).text().unwrap()
}

/// Returns each family's name and type.
fn families(text: &str) -> BTreeMap<&str, &str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .map(|line| line.split_once(' ').unwrap())
        .collect()
}

#[test]
fn the_text_is_openmetrics() {
    let text = text();
    let families = families(&text);
    let mut current = "";
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            current = rest.split(' ').next().unwrap();
            continue;
        }
        if let Some(rest) = line.strip_prefix("# UNIT ") {
            let (name, unit) = rest.split_once(' ').unwrap();
            assert!(name.ends_with(&format!("_{unit}")), "{line}");
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().unwrap() >= 0.0, "{line}");
        assert!(seen.insert(series), "twice: {series}");
        let name = series.split('{').next().unwrap();
        let suffix = name.strip_prefix(current).unwrap_or_else(|| panic!("{line} in {current}"));
        let allowed: &[&str] = match families[current] {
            "counter" => &["_total"],
            "gauge" => &[""],
            "info" => &["_info"],
            "histogram" => &["_sum", "_count", "_bucket"],
            other => panic!("{other}"),
        };
        assert!(allowed.contains(&suffix), "{line}");
    }
    assert!(text.ends_with("# EOF\n"));
    assert!(text.contains("host=\"nqn.2026-01.io.x:h\\\"0\""), "quotes are escaped");
}

#[test]
fn operations_that_never_happened_have_no_series_but_errors() {
    let text = text();
    // The engine of the tests has reads and writes, and no other operations.
    let series = |family: &str, operation: &str| {
        let label = format!("operation=\"{operation}\"");
        let name = format!("sluicegate_{family}{{");
        text.lines().any(|line| line.starts_with(&name) && line.contains(&label))
    };
    for object in ["namespace", "host", "class", "session", "queue", "workload"] {
        let always = !["queue", "workload"].contains(&object);
        assert_eq!(series(&format!("{object}_errors_total"), "other"), always, "{object}");
        for family in ["operations_total", "transferred_bytes_total"] {
            let name = format!("{object}_{family}");
            assert!(series(&name, "read") && !series(&name, "other"), "{name}");
        }
    }
    let bucket = "namespace_latency_seconds_bucket";
    assert!(series(bucket, "read") && !series(bucket, "other"));
}

#[test]
fn only_counters_for_alerts_have_series_at_zero() {
    let alerts = "_errors_total _connects_refused_total _reservation_ _region_ _busy_ _turns_";
    for line in text().lines().filter(|line| line.contains("_total{") && line.ends_with(" 0")) {
        assert!(alerts.split(' ').any(|part| line.contains(part)), "{line}");
    }
}

#[test]
fn a_class_without_a_target_has_no_series_of_one() {
    let text = text();
    let urgent = |name: &str| {
        let labels = "{link=\"default\",direction=\"out\",class=\"urgent\"}";
        text.contains(&format!("sluicegate_link_{name}{labels}"))
    };
    assert!(urgent("rate_bits_per_second") && urgent("marked_packets_total"), "{text}");
    assert!(!urgent("target_bits_per_second") && !urgent("limit_bits_per_second"), "{text}");
    assert!(
        text.contains("sluicegate_link_capacity_bits_per_second{link=\"default\"} 1"),
        "{text}"
    );
    assert!(!text.contains("sluicegate_link_capacity_bits_per_second{link=\"east\"}"), "auto");
}

#[test]
fn each_client_of_a_region_has_series_of_its_own() {
    let text = text();
    for line in [
        "sluicegate_pmem_up{} 1",
        "sluicegate_pmem_capacity_operations_per_second{} 1005000",
        "sluicegate_pmem_reserved_operations_per_second{} 100000",
        "sluicegate_region_up{region=\"log\"} 1",
        "sluicegate_region_up{region=\"old\"} 0",
        "sluicegate_region_size_bytes{region=\"log\"} 1048576",
        "sluicegate_region_clients{region=\"log\"} 2",
        "sluicegate_region_clients{region=\"old\"} 0",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}\n{text}");
    }
    for (family, values) in [
        ("connected", [1, 0]),
        ("reservation_operations_per_second", [5000, 5000]),
        ("operations_total", [1_000_000, 1_000_000]),
        ("missed_periods_total", [2, 2]),
    ] {
        for (client, value) in values.into_iter().enumerate() {
            let labels = format!(
                "{{region=\"log\",host=\"nqn.2026-01.io.x:h{client}\",grant=\"{}\"}}",
                client + 1
            );
            let line = format!("sluicegate_region_{family}{labels} {value}");
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
    }
    assert!(!text.contains("sluicegate_region_size_bytes{region=\"old\"}"), "it is not open");
    let without = text_of("");
    assert!(
        !without.contains("sluicegate_pmem_up{}") && !without.contains("{region="),
        "{without}"
    );
}

#[test]
fn every_metric_is_documented_with_its_type_and_labels() {
    let text = text();
    let documented: BTreeMap<&str, (&str, BTreeSet<&str>)> = table::families()
        .into_iter()
        .map(|family| (family.name, (family.kind, family.labels)))
        .collect();
    let seen: BTreeMap<&str, (&str, BTreeSet<&str>)> = families(&text)
        .into_iter()
        .map(|(name, kind)| {
            let short = name.strip_prefix("sluicegate_").unwrap();
            (short, (kind, labels(&text, name)))
        })
        .collect();
    assert_eq!(documented, seen);
}

/// Returns the labels of a family's first series, without `le`.
fn labels<'a>(text: &'a str, name: &str) -> BTreeSet<&'a str> {
    // One family's name may begin with another's.
    let is_it = |line: &&str| {
        let rest = line.strip_prefix(name).and_then(|rest| rest.split(['{', ' ']).next());
        rest.is_some_and(|end| ["", "_total", "_info", "_bucket"].contains(&end))
    };
    let line = text.lines().find(is_it).unwrap_or_else(|| panic!("{name} has no series"));
    let Some((_, rest)) = line.split_once('{') else { return BTreeSet::new() };
    let (inside, _) = rest.rsplit_once('}').unwrap();
    let names = inside.split(',').filter_map(|pair| pair.split_once('=')).map(|(name, _)| name);
    names.filter(|name| *name != "le").collect()
}

#[test]
fn histograms_count_each_event_below_its_bound() {
    let text = text();
    let bucket = |operation: &str, le: &str| -> u64 {
        let parts = [format!("operation=\"{operation}\""), format!("le=\"{le}\"")];
        let name = "sluicegate_namespace_latency_seconds_bucket";
        let mut all = text.lines().filter(|line| line.starts_with(name));
        let line = all.find(|line| parts.iter().all(|part| line.contains(part)));
        line.unwrap_or_else(|| panic!("{le}\n{text}")).rsplit(' ').next().unwrap().parse().unwrap()
    };
    // Two reads each of 1 us, 100 us and 3 ms.
    for (le, reads) in [
        ("0.000002048", 2),
        ("0.000065536", 2),
        ("0.000131072", 4),
        ("0.002097152", 4),
        ("0.004194304", 6),
        ("+Inf", 6),
    ] {
        assert_eq!(bucket("read", le), reads, "{le}");
    }
    assert_eq!(bucket("write", "8.589934592"), 0, "90 s is above the last bound");
}
