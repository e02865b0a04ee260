//! Tests of changes of quality of service while hosts are at work.

use arbitration::limit::Rate;
use serde_json::{Value, json};
use sluice_config::Limits;
use sluice_config::testing::{rates, total};

use super::tests::{NQN, Rig, has};

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
    let answer = rig.call("qos.set", set);
    assert_eq!(answer["weights"], json!({"high": 8, "medium": 4, "low": 1}));
    assert_eq!(answer["dscp"], json!({"urgent": 44, "high": 34, "medium": 18, "low": 8}));
    // A setting that is not given stays.
    let answer = rig.call("qos.set", json!({"latency_target": "1 ms", "enabled": true}));
    has(
        &answer,
        json!({"window": "adaptive", "latency_target": "1 ms", "window_max": 1024, "durable": true}),
    );
    rig.call("session.add", json!({"name": "tenants"}));
    // The parent's name comes later in the alphabet.
    rig.call("session.add", json!({"name": "gold", "parent": "tenants", "iops": 1000}));
    rig.call("session.set", json!({"name": "gold", "bandwidth": "1 MiB/s", "iops": null}));
    rig.call("session.set", json!({"name": "gold", "weight": 300}));
    rig.attempt("session.set", json!({"name": "gold", "weight": 1001})).unwrap_err();
    rig.call("session.set", json!({"name": "tenants", "weight": 1}));
    rig.call("session.set", json!({"name": "tenants", "weight": null}));
    rig.call("session.set", json!({"name": namespace(), "parent": "gold"}));
    let reserve = json!({"session": "gold", "commands": 5000, "namespace": namespace()});
    let answer = rig.call("session.reserve", reserve);
    let terms = answer["reserve"]["terms"].as_str().unwrap();
    assert!(terms.starts_with("5000 commands of 4 KiB"), "{terms}");
    rig.call("qos.policy", json!({"host": HOST, "class": "high", "session": "gold"}));
    rig.call("qos.policy", json!({"subsystem": NQN, "nsid": 1, "max_class": "medium"}));
    rig.call("qos.listener", json!({"address": "127.0.0.1:4420", "class": "urgent"}));
    rig.call("qos.namespace", json!({"subsystem": NQN, "nsid": 1, "class": "low"}));
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
fn what_is_shown_is_what_runs() {
    let rig = Rig::new();
    rig.call("session.add", json!({"name": "gold", "credit_share": "50 %"}));
    let reserve = json!({"session": "gold", "bytes": "1 MiB", "namespace": namespace()});
    rig.call("session.reserve", reserve);
    rig.call("qos.policy", json!({"host": HOST, "class": "high"}));
    let shown = rig.ask("qos.show");
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
    assert_eq!(rig.ask("session.list"), shown["sessions"]);
}

#[test]
fn requests_may_have_former_names_of_keys() {
    let rig = Rig::new();
    let answer = rig.call("qos.set", json!({"operations": 1000}));
    assert_eq!(answer["credits"], 1000);
    let former = json!({"name": "gold", "operations": "50 %", "payload": "20 %"});
    rig.call("session.add", former);
    let reserve = json!({"session": "gold", "operations": 5, "namespace": namespace()});
    let answer = rig.call("session.reserve", reserve);
    assert_eq!((&answer["credit_share"], &answer["payload_share"]), (&json!(50), &json!(20)));
    let both = json!({"name": "gold", "operations": "5 %", "credit_share": "5 %"});
    let (_, message) = rig.refused("session.set", both);
    assert!(message.contains("`operations` is the former name of `credit_share`"), "{message}");
    rig.check_agreement();
}

#[test]
fn refusals_name_the_thing_and_what_would_be_right() {
    let rig = Rig::new();
    rig.call("session.add", json!({"name": "gold", "operations": "60 %"}));
    rig.call("session.add", json!({"name": "silver", "parent": "gold"}));
    rig.call("qos.policy", json!({"host": HOST, "session": "silver"}));
    rig.refuses_all(
        r#"
        qos.set {"weights": [1]} => invalid: has 1 entries instead of three
        qos.set {"window_max": 5} => invalid: belongs to window = "adaptive"
        qos.set {"wieghts": [1, 1, 1]} => invalid: did you mean `weights`?
        qos.listener {"address": "127.0.0.1:4420"} => invalid: null for none
        qos.listener {"address": "127.0.0.1:1", "class": "low"} => not_found: there are: 127.0.0.1:4420
        qos.namespace {"subsystem": "nqn.2026-01.io.x:s0", "nsid": 3, "class": "low"}
            => not_found: there are: 1
        qos.policy {"nsid": 1, "class": "low"} => invalid: needs `subsystem`
        qos.policy {"class": "top"} => invalid: "urgent"
        qos.policy {"session": "bronze"} => not_found: there are: gold, silver
        qos.policy {"subsystem": "nqn.2026-01.io.x:z", "class": "low"}
            => not_found: there is no subsystem
        qos.policy {} => not_found: there are policies for: nqn.2026-01.io.x:h0
        session.add {"name": "gold"} => exists: session gold exists already
        session.add {"name": "nqn.2026-01.io.x:s0"} => exists: change it with session.set
        session.add {"name": "root"} => invalid: above all others
        session.add {"name": "x", "parent": "y"} => not_found: there is no session y
        session.add {"name": "x", "credit_share": "50 %"} => invalid: write at most 40 % here
        session.set {"name": "gold", "parent": "silver"} => invalid: above itself
        session.set {"name": "bronze"} => not_found: there is no session bronze
        session.set {"iops": 5} => invalid: no `name`
        session.remove {"name": "gold"} => invalid: parent of silver; move them
        session.remove {"name": "silver"} => invalid: named by the policies for
        session.remove {"name": "nqn.2026-01.io.x:s0"} => invalid: has no settings of its own
        session.release {"session": "gold"} => not_found: has no reservation
        session.reserve {"session": "gold"} => invalid: write one of commands
        session.reserve {"session": "gold", "commands": 1} => invalid: add namespace
        session.reserve {"session": "gold", "commands": 1, "namespace": "nqn.2026-01.io.x:s0/9"}
            => not_found: there is no namespace
        "#,
    );
}

#[test]
fn what_goes_away_does_not_stop_later_changes() {
    let rig = Rig::new();
    rig.call("session.set", json!({"name": NQN, "iops": 5}));
    rig.call("session.reserve", json!({"session": namespace(), "commands": 5}));
    rig.call("qos.policy", json!({"subsystem": NQN, "nsid": 1, "session": NQN}));
    rig.call("subsystem.remove", json!({"nqn": NQN}));
    rig.call("session.add", json!({"name": "gold"}));
    rig.call("qos.set", json!({"burst": "unlimited"}));
    rig.check_agreement();
    // The settings are there again when the namespace is.
    let again = json!({"nqn": NQN, "namespace": [{"backend": "null", "size": 4096}]});
    rig.call("subsystem.add", again);
    let kept = rig.check_agreement().qos.sessions;
    let own = kept.iter().find(|session| session.name == NQN).unwrap();
    assert_eq!(own.limits, total(Some(5), None));
    rig.call("qos.policy", json!({"subsystem": NQN, "nsid": 1}));
    rig.call("session.remove", json!({"name": NQN}));
    rig.call("session.release", json!({"session": namespace()}));
    assert_eq!(rig.check_agreement().qos.sessions.len(), 1);
}

/// Makes one change of small numbers.
pub(super) fn change(kind: u8, a: u8, b: u8) -> (&'static str, Value) {
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

#[test]
fn a_profile_changes_its_sessions_and_stays_while_they_name_it() {
    let rig = Rig::new();
    let gold = json!({"name": "gold", "iops": 5000, "write_iops": 1000, "burst": "10 s"});
    rig.call("profile.add", gold);
    rig.call("session.add", json!({"name": "a", "profile": "gold", "iops": 700}));
    let limits = || {
        let qos = rig.check_agreement().qos;
        let a = qos.sessions.iter().find(|session| session.name == "a").unwrap();
        let Limits { total, writes, burst, .. } = a.limits_with(&qos.profiles);
        (total.iops.map(Rate::get), writes.iops.map(Rate::get), burst)
    };
    let ten = Some(std::time::Duration::from_secs(10));
    assert_eq!(limits(), (Some(700), Some(1000), ten), "a session's own limit counts");
    rig.call("profile.set", json!({"name": "gold", "write_iops": 2000, "burst": null}));
    assert_eq!(limits(), (Some(700), Some(2000), None));
    rig.refuses("profile.remove", json!({"name": "gold"}), "invalid", "named by the sessions a");
    let missing = json!({"name": "b", "profile": "silver"});
    let (_, message) = rig.refused("session.add", missing);
    assert!(message.contains("profile silver, which does not exist"), "{message}");
    let listed = rig.ask("profile.list");
    assert_eq!((&listed[0]["name"], &listed[0]["live"]), (&json!("gold"), &json!(true)));
    rig.call("session.set", json!({"name": "a", "profile": null}));
    rig.call("profile.remove", json!({"name": "gold"}));
    assert_eq!(limits(), (Some(700), None, None));
}

#[test]
fn limits_per_gib_are_refused_where_the_session_has_no_size() {
    let rig = Rig::new();
    rig.call("session.add", json!({"name": "a"}));
    let set = json!({"name": "a", "iops_per_gib": 10});
    let message =
        rig.refuses("session.set", set, "invalid", "session a: `iops_per_gib` needs a size");
    assert!(message.contains("namespace (NQN/NSID) or subsystem (NQN)"), "{message}");
    rig.call("profile.add", json!({"name": "gold", "iops": 500}));
    for name in ["a".to_owned(), namespace(), NQN.to_owned()] {
        rig.call("session.set", json!({"name": name, "profile": "gold"}));
    }
    let sized = json!({"name": "gold", "bandwidth_per_gib": "1 MiB/s"});
    let words = "session a: `bandwidth_per_gib` of profile gold";
    assert!(rig.refused("profile.set", sized.clone()).1.contains(words));
    rig.call("session.set", json!({"name": "a", "profile": null}));
    rig.call("profile.set", sized);
    let set = json!({"name": "a", "profile": "gold"});
    assert!(rig.refused("session.set", set).1.contains("choose a profile without limits per GiB"));
    let answer = rig.call("session.set", json!({"name": namespace(), "iops_per_gib": "2k"}));
    assert_eq!(answer["iops_per_gib"], 2000);
    let qos = rig.check_agreement().qos;
    let own = qos.sessions.iter().find(|session| session.name == namespace()).unwrap();
    assert_eq!(own.limits_with(&qos.profiles).per_gib, rates(Some(2000), Some(1 << 20)));
}
