//! Tests of the settings of quality of service: their meaning, their defaults and their errors.

use arbitration::limit::Rate;
use arbitration::reservation::Budget;
use arbitration::settings::{Unit, Weights, WindowRule};
use arbitration::{Class, Nanos, PerClass};

use super::super::testing::{parse, total};
use super::super::tests::check_errors;
use super::{LimitedSize, LowestRates, QosConfig, Session};

const A: &str = "nqn.2026-01.io.x:a";
const DISK: &str = r#"
[[listener]]
address = "127.0.0.1:4420"
class = "high"
[[subsystem]]
nqn = "nqn.2026-01.io.x:a"
allow_any_host = true
[[subsystem.namespace]]
nsid = 1
backend = "null"
size = "1 GiB"
"#;

/// Makes a file that is right but for `text`.
fn with(text: &str) -> String {
    format!("{text}\n{DISK}")
}

#[test]
fn the_settings_mean_what_they_say() {
    let text = r#"
[qos]
weights = [5, 3, 2]
unit = "time"
burst = "unlimited"
urgent_share = "30 %"
window = "adaptive"
latency_target = "5 ms"
payload = "64 MiB"
dscp = { urgent = 44, low = 0 }
[[session]]
name = "tenants"
[[session]]
name = "gold"
parent = "tenants"
credit_share = "50 %"
bandwidth = "200 MiB/s"
weight = 300
reserve = { bytes = "100 MiB", period = "500 ms", writes = "50 %", latency = "40 ms", burst = 8, namespace = "nqn.2026-01.io.x:a/1" }
[[session]]
name = "nqn.2026-01.io.x:a/1"
parent = "gold"
reserve = { commands = 5000 }
[[policy]]
host = "nqn.2026-01.io.x:h"
max_class = "medium"
session = "nqn.2026-01.io.x:a"
"#;
    let config = parse(&with(text)).unwrap_or_else(|errors| panic!("{errors}"));
    let general = &config.qos.general;
    assert_eq!(general.order.weights, Weights { high: 5, medium: 3, low: 2 });
    assert_eq!((general.order.unit, general.order.burst), (Unit::Time, u16::MAX));
    assert_eq!(general.order.urgent_share, 30);
    assert_eq!(general.window, WindowRule::Adaptive { target: Nanos(5_000_000), max: 1024 });
    assert_eq!(general.payload, 64 << 20);
    assert_eq!(general.dscp, PerClass { urgent: 44, high: 34, medium: 18, low: 0 });
    let [tenants, gold, disk] = &config.qos.sessions[..] else { panic!() };
    assert_eq!(tenants, &Session { name: "tenants".into(), ..Session::default() });
    assert_eq!((gold.operations, gold.limits), (Some(50), total(None, Some(200 << 20))));
    assert_eq!((gold.weight, tenants.weight), (Some(300), None));
    let terms = gold.reserve.as_ref().unwrap().terms;
    assert_eq!(terms.budget, Budget::Bytes(100 << 20));
    assert_eq!((terms.period, terms.write_percent), (Nanos(500_000_000), 50));
    assert_eq!((terms.latency, terms.burst, terms.buffers), (Some(Nanos(40_000_000)), 8, 1));
    let own = disk.reserve.as_ref().unwrap();
    assert_eq!((own.namespace.as_ref(), own.terms.period), (None, Nanos(1_000_000_000)));
    assert_eq!(config.qos.policies[0].max_class, Some(Class::Medium));
    assert_eq!(config.listeners[0].class, Some(Class::High));
    assert_eq!(parse(DISK).unwrap().qos, QosConfig::default());
}

#[test]
fn limits_per_gib_are_for_sessions_of_namespaces_and_subsystems() {
    let text = format!(
        "[[session]]\nname = \"{A}\"\nprofile = \"p\"\n\
         [[session]]\nname = \"{A}/1\"\nprofile = \"p\"\niops_per_gib = 30\niops = 70\n\
         [[profile]]\nname = \"p\"\niops_per_gib = 10\nbandwidth_per_gib = \"1 MiB/s\"\n"
    );
    let config = parse(&with(&text)).unwrap_or_else(|errors| panic!("{errors}"));
    let limits = |index: usize, size: Option<u64>| {
        let limits = config.qos.sessions[index].limits_with(&config.qos.profiles);
        let lowest = LowestRates { commands: 2, bytes: 1000 };
        let total = limits.total(size.map(|bytes| LimitedSize { bytes, lowest }));
        (total.iops.map(Rate::get), total.bandwidth.map(Rate::get))
    };
    assert_eq!(limits(0, Some(5 << 29)), (Some(25), Some(5 << 19)));
    assert_eq!(limits(0, Some((1 << 30) + 512)), (Some(11), Some((1 << 20) + 1)), "rounded up");
    assert_eq!(limits(0, Some(0)), (Some(2), Some(1000)), "as low as a Linux host can wait for");
    assert_eq!(limits(0, Some(u64::MAX)).1, Some(1 << 40), "the highest limit");
    assert_eq!(limits(0, None), (None, None));
    // A session's own value per GiB counts before its profile's; beside `iops` the lower one counts.
    assert_eq!(limits(1, Some(2 << 30)), (Some(60), Some(2 << 20)));
    assert_eq!(limits(1, Some(3 << 30)).0, Some(70));
}

#[test]
fn limits_below_lowest_are_refused() {
    // (keys of [target], lowest commands and bytes per second, the bytes as they are shown)
    for (keys, commands, bytes, shown) in [
        ("", 1, 165_701, "162 KiB"),
        ("max_transfer = \"64 KiB\"", 1, 10_357, "11 KiB"),
        ("queue_depth = 8", 1, 10_357, "11 KiB"),
        ("retry_delays = [\"1 s\", \"1 s\", \"1 s\"]", 2, 2_064_889, "2017 KiB"),
        (
            "retry_delays = [\"1 s\", \"1 s\", \"1 s\"]\nqueue_depth = 1024",
            2,
            2_064_889,
            "2017 KiB",
        ),
    ] {
        let of = |key: &str, value: &str| {
            let text = format!("[target]\n{keys}\n[[session]]\nname = \"s\"\n{key} = {value}\n");
            parse(&text).map(|config| LowestRates::of(&config.target))
        };
        let lowest = LowestRates { commands, bytes };
        for direction in ["", "read_", "write_"] {
            let bandwidth =
                |bytes: u64| of(&format!("{direction}bandwidth"), &format!("\"{bytes} B\""));
            assert_eq!(bandwidth(bytes).map_err(|error| error.to_string()), Ok(lowest), "{keys}");
            let refusal = bandwidth(bytes - 1).unwrap_err().to_string();
            assert!(
                refusal.contains(&format!("set {direction}bandwidth to {shown} or more")),
                "{refusal}"
            );
            let iops = |rate: u64| of(&format!("{direction}iops"), &rate.to_string());
            assert_eq!(iops(commands).map_err(|error| error.to_string()), Ok(lowest), "{keys}");
            assert!(iops(commands - 1).is_err(), "{keys}");
        }
    }
}

#[test]
fn former_names_of_keys_mean_the_same() {
    let namespace = format!("namespace = \"{A}/1\"");
    let former = with(&format!(
        "[qos]\noperations = 64\n[[session]]\nname = \"s\"\noperations = \"50 %\"\npayload = \"20 %\"\n\
         reserve = {{ operations = 5, {namespace} }}"
    ));
    let present = with(&format!(
        "[qos]\ncredits = 64\n[[session]]\nname = \"s\"\ncredit_share = \"50 %\"\n\
         payload_share = \"20 %\"\nreserve = {{ commands = 5, {namespace} }}"
    ));
    assert_eq!(parse(&former).unwrap(), parse(&present).unwrap());
    let notices = |text: &str| {
        let machine = crate::Machine::any();
        let parsed = crate::Config::parse_with_notices(text, std::path::Path::new("f"), &machine);
        parsed.unwrap().1
    };
    assert_eq!(
        notices(&former),
        [
            ("2", "operations", "[qos]", "credits"),
            ("5", "operations", "[[session]]", "credit_share"),
            ("6", "payload", "[[session]]", "payload_share"),
            ("7", "operations", "`reserve`", "commands"),
        ]
        .map(|(line, was, table, name)| format!(
            "f:{line}: `{was}` of {table} is called `{name}` now; the former name still works"
        ))
    );
    assert!(notices(&present).is_empty());
}

#[test]
fn mistakes_are_explained() {
    let table = r#"
        [qos]; weights = [3, 2] => 2:11: has 2 entries instead of three
        [qos]; weights = [3, 2, 0] => 2:11: 1 to 256 each: [3, 2, 1]
        [qos]; burst = 3 => 2:9: write 1, 2, 4, 8, 16, 32, 64 or "unlimited"
        [qos]; urgent_share = "95 %" => 2:16: from "1 %" to "90 %"
        [qos]; window = 0 => 2:10: from 1 to 65536
        [qos]; window = "on" => 2:10: "off" or "adaptive"
        [qos]; latency_target = "2 ms" => 2:18: add window = "adaptive"
        [qos]; window = 3; window_max = 4 => 3:14: belongs to window = "adaptive"
        [qos]; dscp = { urgent = 64 } => 2:19: from 0 to 63
        [qos]; dscp = { urgnt = 4 } => 2:10: did you mean `urgent`?
        [[session]] => 1:1: add name = "gold"
        [[session]]; name = "root" => 2:8: above all others
        [[session]]; name = "a b" => 2:8: 1 to 64 letters
        [[session]]; name = "nqn.2026-01.io.x:b" => 2:8: did you mean nqn.2026-01.io.x:a?
        [[session]]; name = "nqn.2026-01.io.x:a/2" => 2:8: names a namespace that does not
        $session; $session => 4:8: session s occurs twice
        $session; parent = "t" => 3:10: parent of session s, t, does not exist
        $session; parent = "s" => 3:10: session s is above itself
        $session; iops = 0 => 3:8: from 1 to
        $session; bandwidth = "0 B" => 3:13: from "1 B/s"
        $session; bandwidth_per_gib = 100 => 3:21: write "100 MiB/s" or "100 B/s"
        $session; iops_per_gib = 10 => 2:8: `iops_per_gib` needs a size
        $session; profile = "p"; [[profile]]; name = "p"; bandwidth_per_gib = "1 MiB/s"
            => 2:8: `bandwidth_per_gib` of profile p needs a size
        $session; bandwidth = 100 => 3:13: write "100 MiB/s" or "100 B/s"
        $session; credit_share = 50 => 3:16: write "50 %"
        $session; iops = "5 x" => 3:8: 50k
        $session; operations = "5 %"; credit_share = "5 %" => 3:1: remove `operations`
        $session; iops = "0k" => 3:8: from 1 to
        $session; credit_share = "120 %" => 3:16: from "1 %" to "100 %"
        $session; reserve = { period = "1 s" } => 3:11: write one of commands
        $session; reserve = { commands = 5, bytes = "4 KiB" } => 3:11: more than one budget
        $session; $reserve, latency = "1 ms" } => 3:73: from "2 ms" to "1 min"
        $session; reserve = { commands = 5, burst = 0, namespace = "nqn.2026-01.io.x:a/1" } => 3:35: from 1 to 65536
        $session; $reserve, buffers = 2 } => 3:73: add writes = "100 %"
        $session; $reserve, buffers = 2, writes = "100 %", latency = "1 s" } => 3:73: leave `latency` or `buffers` out
        $session; reserve = { commands = 5 } => 3:11: add namespace = "NQN/NSID"
        $session; reserve = { time = "2 s", namespace = "nqn.2026-01.io.x:a/1" } => 3:20: longer than its period
        $session; reserve = { commands = 5, namespace = "nqn.2026-01.io.x:a/7" }
            => 3:11: did you mean nqn.2026-01.io.x:a/1?
        $session; reserve = { commands = 5, namespace = "x" } => 3:39: a subsystem's NQN and
        $session; credit_share = "60 %"; [[session]]; name = "t"; credit_share = "50 %" => 6:16: write at most 40 % here
        [[policy]]; nsid = 1; class = "low" => 2:8: `nsid` needs `subsystem`
        [[policy]]; host = "nqn.2026-01.io.x:h" => 1:1: add class, max_class
        [[policy]]; class = "top" => 2:9: "urgent", "high", "medium", "low"
        [[policy]]; class = "high"; max_class = "low" => 1:1: `class` is high, above
        [[policy]]; session = "gold" => 2:11: session gold does not exist
        [[policy]]; class = "low"; [[policy]]; class = "high" => 3:1: occurs twice
        [[policy]]; class = "low"; subsystem = "nqn.2026-01.io.x:b" => 3:13: names a subsystem that does not exist
        [[policy]]; class = "low"; subsystem = "nqn.2026-01.io.x:a"; nsid = 2 => 4:8: has no namespace 2
        "#;
    let reserve = "reserve = { commands = 5, namespace = \"nqn.2026-01.io.x:a/1\"";
    let parts = [("$session", "[[session]]; name = \"s\""), ("$reserve", reserve)];
    check_errors(table, &parts, DISK);
    let of_disks = r#"
        $disk; flush_is_output = true => 11:19: add order = "containers"
        $disk; latency_target = "1 s" => 11:18: add one of them
        $disk; mean_time = "2 ms"; worst_time = "1 ms" => 12:14: at least "2 ms"
        $disk; forward_class = true => 11:1: belongs to the backend "nvme"
        $disk; [[subsystem.namespace]]; backend = "memory"; size = "4 KiB"; channels = 2
            => 14:1: belongs to the backend "null"
        "#;
    check_errors(of_disks, &[("$disk", DISK.trim())], "");
}

#[test]
fn a_circle_through_a_namespace_is_found() {
    let text = format!(
        "[[session]]\nname = \"gold\"\nparent = \"{A}/1\"\n[[session]]\nname = \"{A}\"\nparent = \"gold\"\n"
    );
    let errors = parse(&with(&text)).unwrap_err();
    assert!(errors.to_string().contains("is above itself"), "{errors}");
}

#[test]
fn sessions_nest_up_to_a_bound() {
    let chain = |n: usize| {
        (0..n).fold(String::new(), |text, i| {
            let parent = i.checked_sub(1).map(|p| format!("parent = \"s{p}\"\n"));
            text + &format!("[[session]]\nname = \"s{i}\"\n{}", parent.unwrap_or_default())
        })
    };
    parse(&with(&chain(15))).unwrap_or_else(|errors| panic!("{errors}"));
    let errors = parse(&with(&chain(16))).unwrap_err();
    assert!(errors.to_string().contains("more than 16 levels deep"), "{errors}");
}
