//! Tests of changes of quality of service while hosts are at work.

use std::sync::atomic::Ordering::Relaxed;

use arbitration::limit::Rate;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::tests::{NQN, Rig};
use crate::config::Limits;
use crate::config::qos::tests::{rates, total};
use crate::store::Store;

const HOST: &str = "nqn.2026-01.io.x:h0";

fn namespace() -> String {
    format!("{NQN}/1")
}

#[test]
fn changes_take_effect_as_a_whole_and_survive_a_restart() {
    let rig = Rig::new();
    let set = json!({
        "weights": [8, 4, 1], "window": "adaptive", "latency_target": "5 ms",
        "dscp": {"urgent": 44},
    });
    let answer = rig.call("qos.set", set).unwrap();
    assert_eq!(answer["weights"], json!({"high": 8, "medium": 4, "low": 1}));
    assert_eq!(answer["dscp"], json!({"urgent": 44, "high": 34, "medium": 18, "low": 8}));
    // A setting that is not given stays.
    let answer = rig.call("qos.set", json!({"latency_target": "1 ms", "enabled": true})).unwrap();
    assert_eq!(
        (&answer["window"], &answer["latency_target"]),
        (&json!("adaptive"), &json!("1 ms"))
    );
    assert_eq!((&answer["window_max"], &answer["durable"]), (&json!(1024), &json!(true)));
    rig.call("session.add", json!({"name": "tenants"})).unwrap();
    // The parent's name comes later in the alphabet.
    rig.call("session.add", json!({"name": "gold", "parent": "tenants", "iops": 1000})).unwrap();
    rig.call("session.set", json!({"name": "gold", "bandwidth": "1 MiB/s", "iops": null})).unwrap();
    rig.call("session.set", json!({"name": "gold", "weight": 300})).unwrap();
    rig.call("session.set", json!({"name": "gold", "weight": 1001})).unwrap_err();
    rig.call("session.set", json!({"name": "tenants", "weight": 1})).unwrap();
    rig.call("session.set", json!({"name": "tenants", "weight": null})).unwrap();
    rig.call("session.set", json!({"name": namespace(), "parent": "gold"})).unwrap();
    let reserve = json!({"session": "gold", "commands": 5000, "namespace": namespace()});
    let answer = rig.call("session.reserve", reserve).unwrap();
    let terms = answer["reserve"]["terms"].as_str().unwrap();
    assert!(terms.starts_with("5000 commands of 4 KiB"), "{terms}");
    rig.call("qos.policy", json!({"host": HOST, "class": "high", "session": "gold"})).unwrap();
    rig.call("qos.policy", json!({"subsystem": NQN, "nsid": 1, "max_class": "medium"})).unwrap();
    rig.call("qos.listener", json!({"address": "127.0.0.1:4420", "class": "urgent"})).unwrap();
    rig.call("qos.namespace", json!({"subsystem": NQN, "nsid": 1, "class": "low"})).unwrap();
    let config = rig.check_agreement();
    let gold = config.qos.sessions.iter().find(|session| session.name == "gold").unwrap();
    assert_eq!((gold.limits, gold.weight), (total(None, Some(1 << 20)), Some(300)));
    let tenants = config.qos.sessions.iter().find(|session| session.name == "tenants").unwrap();
    assert_eq!(tenants.weight, None);
    assert!(gold.reserve.is_some());
    assert_eq!(config.qos.policies.len(), 2);
    assert_eq!(config.listeners[0].class, Some(arbitration::Class::Urgent));
    assert_eq!(config.subsystems[0].namespaces[0].class, Some(arbitration::Class::Low));
}

#[test]
fn taking_everything_back_leaves_nothing_behind() {
    let rig = Rig::new();
    let before = rig.check_agreement();
    rig.call("qos.set", json!({"weights": [9, 9, 9]})).unwrap();
    rig.call("session.add", json!({"name": "gold"})).unwrap();
    let reserve = json!({"session": namespace(), "time": "100 ms"});
    rig.call("session.reserve", reserve).unwrap();
    rig.call("session.set", json!({"name": NQN, "iops": 5})).unwrap();
    rig.call("qos.policy", json!({"host": HOST, "session": "gold"})).unwrap();
    rig.call("qos.listener", json!({"address": "127.0.0.1:4420", "class": "low"})).unwrap();
    assert_ne!(rig.check_agreement(), before);
    rig.call("qos.set", json!({"weights": [3, 2, 1]})).unwrap();
    assert_eq!(rig.call("qos.policy", json!({"host": HOST})).unwrap()["removed"], true);
    rig.call("session.remove", json!({"name": "gold"})).unwrap();
    rig.call("session.release", json!({"session": namespace()})).unwrap();
    rig.call("session.remove", json!({"name": NQN})).unwrap();
    rig.call("qos.listener", json!({"address": "127.0.0.1:4420", "class": null})).unwrap();
    assert_eq!(rig.check_agreement(), before);
    assert!(rig.store.objects().unwrap().is_empty());
}

#[test]
fn what_is_shown_is_what_runs() {
    let rig = Rig::new();
    rig.call("session.add", json!({"name": "gold", "credit_share": "50 %"})).unwrap();
    let reserve = json!({"session": "gold", "bytes": "1 MiB", "namespace": namespace()});
    rig.call("session.reserve", reserve).unwrap();
    rig.call("qos.policy", json!({"host": HOST, "class": "high"})).unwrap();
    let shown = rig.call("qos.show", json!({})).unwrap();
    assert_eq!((&shown["enabled"], &shown["window"]), (&json!(true), &json!(128)));
    let classes: Vec<&Value> = shown["classes"].as_array().unwrap().iter().collect();
    assert_eq!(classes.len(), 4);
    assert_eq!((&classes[0]["class"], &classes[0]["waiting"]), (&json!("urgent"), &json!(4)));
    assert!(classes[0]["io"]["queueing"]["p99"].as_u64() > Some(0));
    let sessions = shown["sessions"].as_array().unwrap();
    let names: Vec<&str> = sessions.iter().filter_map(|s| s["name"].as_str()).collect();
    assert_eq!(names, ["root", NQN, &namespace(), "gold"]);
    let gold = &sessions[3];
    assert_eq!(gold["commands"], json!({"used": 7, "credits": 65_536, "share": 50}));
    assert_eq!((&gold["automatic"], &gold["reserve"]["kept"]), (&json!(false), &json!(11)));
    assert_eq!(shown["devices"][0]["waiting"]["high"], 3);
    assert_eq!(shown["policies"][0]["class"], "high");
    assert_eq!(rig.call("session.list", json!({})).unwrap(), shown["sessions"]);
}

#[test]
fn requests_may_have_former_names_of_keys() {
    let rig = Rig::new();
    let answer = rig.call("qos.set", json!({"operations": 1000})).unwrap();
    assert_eq!(answer["credits"], 1000);
    let former = json!({"name": "gold", "operations": "50 %", "payload": "20 %"});
    rig.call("session.add", former).unwrap();
    let reserve = json!({"session": "gold", "operations": 5, "namespace": namespace()});
    let answer = rig.call("session.reserve", reserve).unwrap();
    assert_eq!((&answer["credit_share"], &answer["payload_share"]), (&json!(50), &json!(20)));
    let both = json!({"name": "gold", "operations": "5 %", "credit_share": "5 %"});
    let (_, message) = rig.refused("session.set", both);
    assert!(message.contains("`operations` is the former name of `credit_share`"), "{message}");
    rig.check_agreement();
}

#[test]
fn refusals_name_the_thing_and_what_would_be_right() {
    let rig = Rig::new();
    rig.call("session.add", json!({"name": "gold", "operations": "60 %"})).unwrap();
    rig.call("session.add", json!({"name": "silver", "parent": "gold"})).unwrap();
    rig.call("qos.policy", json!({"host": HOST, "session": "silver"})).unwrap();
    for (method, params, kind, words) in [
        ("qos.set", json!({"weights": [1]}), "invalid", "has 1 entries instead of three"),
        ("qos.set", json!({"window_max": 5}), "invalid", "belongs to window = \"adaptive\""),
        ("qos.set", json!({"wieghts": [1, 1, 1]}), "invalid", "did you mean `weights`?"),
        ("qos.listener", json!({"address": "127.0.0.1:4420"}), "invalid", "null for none"),
        (
            "qos.listener",
            json!({"address": "127.0.0.1:1", "class": "low"}),
            "not_found",
            "there are: 127.0.0.1:4420",
        ),
        (
            "qos.namespace",
            json!({"subsystem": NQN, "nsid": 3, "class": "low"}),
            "not_found",
            "there are: 1",
        ),
        ("qos.policy", json!({"nsid": 1, "class": "low"}), "invalid", "needs `subsystem`"),
        ("qos.policy", json!({"class": "top"}), "invalid", "\"urgent\""),
        ("qos.policy", json!({"session": "bronze"}), "not_found", "there are: gold, silver"),
        (
            "qos.policy",
            json!({"subsystem": "nqn.2026-01.io.x:z", "class": "low"}),
            "not_found",
            "there is no subsystem",
        ),
        ("qos.policy", json!({}), "not_found", "there are policies for: nqn.2026-01.io.x:h0"),
        ("session.add", json!({"name": "gold"}), "exists", "session gold exists already"),
        ("session.add", json!({"name": NQN}), "exists", "change it with session.set"),
        ("session.add", json!({"name": "root"}), "invalid", "above all others"),
        ("session.add", json!({"name": "x", "parent": "y"}), "not_found", "there is no session y"),
        (
            "session.add",
            json!({"name": "x", "credit_share": "50 %"}),
            "invalid",
            "write at most 40 % here",
        ),
        ("session.set", json!({"name": "gold", "parent": "silver"}), "invalid", "above itself"),
        ("session.set", json!({"name": "bronze"}), "not_found", "there is no session bronze"),
        ("session.set", json!({"iops": 5}), "invalid", "no `name`"),
        ("session.remove", json!({"name": "gold"}), "invalid", "parent of silver; move them"),
        ("session.remove", json!({"name": "silver"}), "invalid", "named by the policies for"),
        ("session.remove", json!({"name": NQN}), "invalid", "has no settings of its own"),
        ("session.release", json!({"session": "gold"}), "not_found", "has no reservation"),
        ("session.reserve", json!({"session": "gold"}), "invalid", "write one of commands"),
        ("session.reserve", json!({"session": "gold", "commands": 1}), "invalid", "add namespace"),
        (
            "session.reserve",
            json!({"session": "gold", "commands": 1, "namespace": format!("{NQN}/9")}),
            "not_found",
            "there is no namespace",
        ),
    ] {
        let (seen, message) = rig.refused(method, params.clone());
        assert_eq!(seen, kind, "{method} {params}: {message}");
        assert!(message.contains(words), "{method} {params}: {message}");
        rig.check_agreement();
    }
}

#[test]
fn a_reservation_that_does_not_fit_changes_nothing() {
    let rig = Rig::new();
    rig.call("session.add", json!({"name": "gold"})).unwrap();
    let before = rig.check_agreement();
    let stored = rig.store.objects().unwrap();
    *rig.engine.refuse.lock().unwrap() = Some("10 % are left; 4000 would fit".into());
    let reserve = json!({"session": "gold", "commands": 5000, "namespace": namespace()});
    let (_, message) = rig.refused("session.reserve", reserve.clone());
    assert_eq!(message, "10 % are left; 4000 would fit");
    assert_eq!(rig.check_agreement(), before);
    assert_eq!(rig.store.objects().unwrap().len(), stored.len());
    rig.store.full.store(true, Relaxed);
    assert_eq!(rig.refused("session.reserve", reserve).0, "store");
    assert_eq!(rig.check_agreement(), before);
}

#[test]
fn what_goes_away_does_not_stop_later_changes() {
    let rig = Rig::new();
    rig.call("session.set", json!({"name": NQN, "iops": 5})).unwrap();
    let reserve = json!({"session": namespace(), "commands": 5});
    rig.call("session.reserve", reserve).unwrap();
    rig.call("qos.policy", json!({"subsystem": NQN, "nsid": 1, "session": NQN})).unwrap();
    rig.call("subsystem.remove", json!({"nqn": NQN})).unwrap();
    rig.call("session.add", json!({"name": "gold"})).unwrap();
    rig.call("qos.set", json!({"burst": "unlimited"})).unwrap();
    rig.check_agreement();
    // The settings are there again when the namespace is.
    let again = json!({"nqn": NQN, "namespace": [{"backend": "null", "size": 4096}]});
    rig.call("subsystem.add", again).unwrap();
    let kept = rig.check_agreement().qos.sessions;
    let own = kept.iter().find(|session| session.name == NQN).unwrap();
    assert_eq!(own.limits, total(Some(5), None));
    rig.call("qos.policy", json!({"subsystem": NQN, "nsid": 1})).unwrap();
    rig.call("session.remove", json!({"name": NQN})).unwrap();
    rig.call("session.release", json!({"session": namespace()})).unwrap();
    assert_eq!(rig.check_agreement().qos.sessions.len(), 1);
}

/// Makes one change of small numbers.
fn change(kind: u8, a: u8, b: u8) -> (&'static str, Value) {
    let name = |n: u8| match n % 6 {
        4 => NQN.to_owned(),
        5 => namespace(),
        n => format!("s{n}"),
    };
    let above = if b == 7 { json!(null) } else { json!(name(b)) };
    match kind {
        0 | 1 => ("session.add", json!({"name": name(a), "parent": above})),
        2 => ("session.set", json!({"name": name(a), "parent": above})),
        3 => ("session.set", json!({"name": name(a), "credit_share": format!("{} %", b * 14)})),
        4 => ("session.remove", json!({"name": name(a)})),
        5 => ("qos.policy", json!({"subsystem": NQN, "session": name(a)})),
        6 => ("qos.policy", json!({"subsystem": NQN})),
        7 => ("qos.set", json!({"urgent_share": b + 1})),
        8 => {
            let reserve = json!({"session": name(a), "commands": 1 + u32::from(b),
                                 "namespace": namespace()});
            ("session.reserve", reserve)
        }
        9 => ("session.release", json!({"session": name(a)})),
        10 => ("subsystem.remove", json!({"nqn": NQN})),
        _ => {
            ("subsystem.add", json!({"nqn": NQN, "namespace": [{"backend": "null", "size": 4096}]}))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Checks that whatever is changed in whatever order, the running settings, those that the
    /// control plane keeps, and those that a restart would run are the same.
    #[test]
    fn any_history_is_what_a_restart_runs(
        history in proptest::collection::vec((0u8..12, 0u8..6, 0u8..8), 0..40),
    ) {
        let rig = Rig::new();
        for (kind, a, b) in history {
            let (method, params) = change(kind, a, b);
            let _ = rig.call(method, params);
            rig.check_agreement();
        }
    }
}

#[test]
fn a_profile_changes_its_sessions_and_stays_while_they_name_it() {
    let rig = Rig::new();
    let gold = json!({"name": "gold", "iops": 5000, "write_iops": 1000, "burst": "10 s"});
    rig.call("profile.add", gold).unwrap();
    rig.call("session.add", json!({"name": "a", "profile": "gold", "iops": 700})).unwrap();
    let limits = || {
        let qos = rig.check_agreement().qos;
        let a = qos.sessions.iter().find(|session| session.name == "a").unwrap();
        let Limits { total, writes, burst, .. } = a.limits_with(&qos.profiles);
        (total.iops.map(Rate::get), writes.iops.map(Rate::get), burst)
    };
    let ten = Some(std::time::Duration::from_secs(10));
    assert_eq!(limits(), (Some(700), Some(1000), ten), "a session's own limit counts");
    rig.call("profile.set", json!({"name": "gold", "write_iops": 2000, "burst": null})).unwrap();
    assert_eq!(limits(), (Some(700), Some(2000), None));
    let (_, message) = rig.refused("profile.remove", json!({"name": "gold"}));
    assert!(message.contains("named by the sessions a"), "{message}");
    let (_, message) = rig.refused("session.add", json!({"name": "b", "profile": "silver"}));
    assert!(message.contains("profile silver, which does not exist"), "{message}");
    let listed = rig.call("profile.list", json!({})).unwrap();
    assert_eq!((&listed[0]["name"], &listed[0]["live"]), (&json!("gold"), &json!(true)));
    rig.call("session.set", json!({"name": "a", "profile": null})).unwrap();
    rig.call("profile.remove", json!({"name": "gold"})).unwrap();
    assert_eq!(limits(), (Some(700), None, None));
}

#[test]
fn limits_per_gib_are_refused_where_the_session_has_no_size() {
    let rig = Rig::new();
    rig.call("session.add", json!({"name": "a"})).unwrap();
    let (kind, message) = rig.refused("session.set", json!({"name": "a", "iops_per_gib": 10}));
    assert_eq!(kind, "invalid");
    assert!(message.contains("session a: `iops_per_gib` needs a size"), "{message}");
    assert!(message.contains("namespace (NQN/NSID) or subsystem (NQN)"), "{message}");
    rig.call("profile.add", json!({"name": "gold", "iops": 500})).unwrap();
    for name in ["a".to_owned(), namespace(), NQN.to_owned()] {
        rig.call("session.set", json!({"name": name, "profile": "gold"})).unwrap();
    }
    let sized = json!({"name": "gold", "bandwidth_per_gib": "1 MiB/s"});
    let (_, message) = rig.refused("profile.set", sized.clone());
    assert!(message.contains("session a: `bandwidth_per_gib` of profile gold"), "{message}");
    rig.call("session.set", json!({"name": "a", "profile": null})).unwrap();
    rig.call("profile.set", sized).unwrap();
    let (_, message) = rig.refused("session.set", json!({"name": "a", "profile": "gold"}));
    assert!(message.contains("choose a profile without limits per GiB"), "{message}");
    let answer =
        rig.call("session.set", json!({"name": namespace(), "iops_per_gib": "2k"})).unwrap();
    assert_eq!(answer["iops_per_gib"], 2000);
    let qos = rig.check_agreement().qos;
    let own = qos.sessions.iter().find(|session| session.name == namespace()).unwrap();
    assert_eq!(own.limits_with(&qos.profiles).per_gib, rates(Some(2000), Some(1 << 20)));
}
