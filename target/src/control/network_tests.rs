//! Tests of changes of the network's settings while hosts are at work.

use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::tests::Rig;
use crate::config::Goal;
use crate::store::Store;

const ADDRESS: &str = "127.0.0.1:4420";

#[test]
fn e8_classes_change_while_hosts_work_and_survive_a_restart() {
    let rig = Rig::new();
    let set = json!({
        "capacity": "10 Gbit/s", "writes": false,
        "classes": {"high": {"share": 5}, "low": {"rate": "500 Mbit/s"}},
    });
    let answer = rig.call("network.set", set).unwrap();
    assert_eq!((&answer["capacity"], &answer["durable"]), (&json!("10 Gbit/s"), &json!(true)));
    assert_eq!(
        answer["classes"],
        json!({"urgent": "free", "high": {"share": 5}, "medium": {"share": 2},
               "low": {"rate": "500 Mbit/s"}}),
        "what is not given stays"
    );
    let answer = rig.call("network.set", json!({"enabled": false})).unwrap();
    assert_eq!((&answer["enabled"], &answer["writes"]), (&json!(false), &json!(false)));
    assert_eq!(answer["capacity"], "10 Gbit/s");
    // The values of an answer are valid parameters.
    let mut again = answer.clone();
    again.as_object_mut().unwrap().remove("durable");
    assert_eq!(rig.call("network.set", again).unwrap(), answer);
    let link = rig.call("link.add", json!({"name": "east", "capacity": "25 Gbit/s"})).unwrap();
    assert_eq!(link["classes"], answer["classes"], "as in [network] now");
    let latency = json!({"name": "east", "classes": {"high": {"latency": "500 us"}}});
    let link = rig.call("link.set", latency).unwrap();
    assert_eq!((&link["capacity"], &link["durable"]), (&json!("25 Gbit/s"), &json!(true)));
    rig.call("network.listener", json!({"address": ADDRESS, "link": "east"})).unwrap();
    rig.call("listener.add", json!({"address": "127.0.0.1:4421", "link": "east"})).unwrap();
    let config = rig.check_agreement();
    assert_eq!(
        config.network.links[0].goals.high,
        Goal::Latency(std::time::Duration::from_micros(500))
    );
    let links: Vec<_> = config.listeners.iter().map(|l| l.link.as_deref()).collect();
    assert_eq!(links, [Some("east"), Some("east")]);
}

#[test]
fn what_is_shown_is_what_runs() {
    let rig = Rig::new();
    rig.call("link.add", json!({"name": "east", "capacity": "25 Gbit/s"})).unwrap();
    rig.call("network.listener", json!({"address": ADDRESS, "link": "east"})).unwrap();
    let shown = rig.call("network.show", json!({})).unwrap();
    assert_eq!((&shown["base"], &shown["base_used"]), (&json!("auto"), &json!("cubic")));
    assert!(shown["advice"][0].as_str().unwrap().contains("tcp_ecn"));
    let [default, east] = &shown["links"].as_array().unwrap()[..] else { panic!("{shown}") };
    assert_eq!((&default["name"], &default["listeners"]), (&json!("default"), &json!([])));
    assert_eq!((&default["capacity"], &east["capacity"]), (&json!("auto"), &json!("25 Gbit/s")));
    assert_eq!((&east["name"], &east["listeners"]), (&json!("east"), &json!([ADDRESS])));
    assert_eq!((&east["out"]["estimate"], &east["in"]["estimate"]), (&json!(9.4e9), &json!(0.0)));
    assert_eq!(
        east["out"]["classes"][1],
        json!({"class": "high", "flows": 2, "rate": 4.5e9, "target": 5e9, "limit": 4.75e9,
               "alpha": 0.125, "quality": 0.96, "delivered": 1000, "marked": 125})
    );
    assert_eq!(east["in"]["classes"][0]["limit"], json!(null), "urgent is not held back");
    assert_eq!(rig.call("listener.list", json!({})).unwrap()[0]["link"], "east");
    let network = &rig.call("connections", json!({})).unwrap()[0]["network"];
    assert_eq!((&network["class"], &network["rtt_us"]), (&json!("high"), &json!(450)));
    assert_eq!((&network["out"]["limit"], &network["in"]["limit"]), (&json!(4.75e9), &json!(null)));
}

#[test]
fn taking_everything_back_leaves_nothing_behind() {
    let rig = Rig::new();
    let before = rig.check_agreement();
    rig.call("network.set", json!({"classes": {"low": "free"}, "base": "dctcp"})).unwrap();
    rig.call("link.add", json!({"name": "east"})).unwrap();
    rig.call("network.listener", json!({"address": ADDRESS, "link": "east"})).unwrap();
    assert_ne!(rig.check_agreement(), before);
    rig.call("network.set", json!({"classes": {"low": {"share": 1}}, "base": "auto"})).unwrap();
    rig.call("network.listener", json!({"address": ADDRESS, "link": null})).unwrap();
    rig.call("link.remove", json!({"name": "east"})).unwrap();
    assert_eq!(rig.check_agreement(), before);
    assert!(rig.store.objects().unwrap().is_empty());
}

#[test]
fn refusals_name_the_thing_and_what_would_be_right() {
    let rig = Rig::new();
    rig.call("link.add", json!({"name": "east", "capacity": "10 Gbit/s"})).unwrap();
    rig.call("network.listener", json!({"address": ADDRESS, "link": "east"})).unwrap();
    for (method, params, kind, words) in [
        ("network.set", json!({"capacity": "10 GB/s"}), "invalid", "\"80 Gbit/s\""),
        ("network.set", json!({"capacity": 10}), "invalid", "\"10 Gbit/s\""),
        ("network.set", json!({"capcity": "auto"}), "invalid", "did you mean `capacity`?"),
        ("network.set", json!({"classes": {"hihg": "free"}}), "invalid", "did you mean `high`?"),
        ("network.set", json!({"classes": {"high": 3}}), "invalid", "{ share = 3 }"),
        (
            "network.set",
            json!({"capacity": "1 Gbit/s", "classes": {"high": {"rate": "2 Gbit/s"}}}),
            "invalid",
            "2 Gbit/s together, more than 1 Gbit/s",
        ),
        ("network.listener", json!({"address": ADDRESS}), "invalid", "or null for the default one"),
        (
            "network.listener",
            json!({"address": "127.0.0.1:1", "link": null}),
            "not_found",
            "there are: 127.0.0.1:4420",
        ),
        (
            "network.listener",
            json!({"address": ADDRESS, "link": "west"}),
            "not_found",
            "there is no link west; there are: default, east",
        ),
        (
            "listener.add",
            json!({"address": "127.0.0.1:1", "link": "west"}),
            "not_found",
            "there are: default, east",
        ),
        ("link.add", json!({"name": "east"}), "exists", "link east exists already"),
        ("link.add", json!({"name": "default"}), "invalid", "set that one with [network]"),
        ("link.set", json!({"name": "west"}), "not_found", "there are: default, east"),
        ("link.set", json!({"capacity": "auto"}), "invalid", "no `name`"),
        (
            "link.set",
            json!({"name": "east", "classes": {"low": {"rate": "11 Gbit/s"}}}),
            "invalid",
            "lower them by 1 Gbit/s",
        ),
        ("link.remove", json!({"name": "west"}), "not_found", "there is no link west"),
        ("link.remove", json!({"name": "east"}), "invalid", "named by the listeners 127.0.0.1"),
    ] {
        let before = rig.check_agreement();
        let (seen, message) = rig.refused(method, params.clone());
        assert_eq!(seen, kind, "{method} {params}: {message}");
        assert!(message.contains(words), "{method} {params}: {message}");
        assert_eq!(rig.check_agreement(), before, "{method} {params}");
    }
}

#[test]
fn a_change_that_is_refused_or_cannot_be_stored_changes_nothing() {
    let rig = Rig::new();
    let before = rig.check_agreement();
    let set = json!({"classes": {"high": {"share": 9}}});
    *rig.engine.refuse.lock().unwrap() = Some("no such congestion control".into());
    assert_eq!(rig.refused("network.set", set.clone()).1, "no such congestion control");
    assert_eq!(rig.check_agreement(), before);
    assert!(rig.store.objects().unwrap().is_empty());
    rig.store.full.store(true, Relaxed);
    assert_eq!(rig.refused("network.set", set).0, "store");
    assert_eq!(rig.check_agreement(), before);
}

/// Makes one change of small numbers.
fn change(kind: u8, a: u8, b: u8) -> (&'static str, Value) {
    let name = |n: u8| format!("l{n}");
    let address = |n: u8| format!("127.0.0.1:442{}", n % 3);
    let link = if b == 3 { json!(null) } else { json!(name(b)) };
    match kind {
        0 | 1 => ("link.add", json!({"name": name(a), "capacity": "5 Gbit/s"})),
        2 => ("link.set", json!({"name": name(a), "classes": {"low": {"share": b + 1}}})),
        3 => ("link.set", json!({"name": name(a), "classes": {"low": {"rate": "6 Gbit/s"}}})),
        4 => ("link.remove", json!({"name": name(a)})),
        5 | 6 => ("network.listener", json!({"address": address(a), "link": link})),
        7 => ("listener.add", json!({"address": address(a), "link": link})),
        8 => ("listener.remove", json!({"address": address(a)})),
        _ => ("network.set", json!({"classes": {"high": {"share": a + 1}}})),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is changed in whatever order: what runs, what the control plane believes, and
    /// what a restart would run stay the same.
    #[test]
    fn any_history_is_what_a_restart_runs(
        history in proptest::collection::vec((0u8..10, 0u8..4, 0u8..4), 0..40),
    ) {
        let rig = Rig::new();
        for (kind, a, b) in history {
            let (method, params) = change(kind, a, b);
            let _ = rig.call(method, params);
            rig.check_agreement();
        }
    }
}
