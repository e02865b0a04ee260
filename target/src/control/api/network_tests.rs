//! Tests of changes of the network's settings while hosts are at work.

use serde_json::{Value, json};
use sluice_config::Goal;

use super::tests::{Rig, has};

const ADDRESS: &str = "127.0.0.1:4420";

#[test]
fn e8_classes_change_while_hosts_work_and_survive_a_restart() {
    let rig = Rig::new();
    let set = json!({
        "capacity": "10 Gbit/s", "writes": false,
        "classes": {"high": {"share": 5}, "low": {"rate": "500 Mbit/s"}},
    });
    let answer = rig.call("network.set", set);
    has(&answer, json!({"capacity": "10 Gbit/s", "durable": true}));
    // Omitted settings stay.
    has(
        &answer["classes"],
        json!({"urgent": "free", "high": {"share": 5}, "medium": {"share": 2},
                                   "low": {"rate": "500 Mbit/s"}}),
    );
    let answer = rig.call("network.set", json!({"enabled": false}));
    has(&answer, json!({"enabled": false, "writes": false, "capacity": "10 Gbit/s"}));
    // The values of an answer are valid parameters.
    let mut again = answer.clone();
    again.as_object_mut().unwrap().remove("durable");
    assert_eq!(rig.call("network.set", again), answer);
    let link = rig.call("link.add", json!({"name": "east", "capacity": "25 Gbit/s"}));
    assert_eq!(link["classes"], answer["classes"], "as in [network] now");
    let latency = json!({"name": "east", "classes": {"high": {"latency": "500 us"}}});
    let link = rig.call("link.set", latency);
    has(&link, json!({"capacity": "25 Gbit/s", "durable": true}));
    rig.call("network.listener", json!({"address": ADDRESS, "link": "east"}));
    rig.call("listener.add", json!({"address": "127.0.0.1:4421", "link": "east"}));
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
    rig.call("link.add", json!({"name": "east", "capacity": "25 Gbit/s"}));
    rig.call("network.listener", json!({"address": ADDRESS, "link": "east"}));
    let shown = rig.ask("network.show");
    has(&shown, json!({"base": "auto", "base_used": "cubic"}));
    assert!(shown["advice"][0].as_str().unwrap().contains("tcp_ecn"));
    let [default, east] = &shown["links"].as_array().unwrap()[..] else { panic!("{shown}") };
    has(default, json!({"name": "default", "listeners": [], "capacity": "auto"}));
    has(east, json!({"name": "east", "listeners": [ADDRESS], "capacity": "25 Gbit/s"}));
    assert_eq!(
        east["out"]["classes"][1],
        json!({"class": "high", "flows": 2, "backlogged": true, "held_for": "medium", "rate": 4.5e9, "target": 5e9, "limit": 4.75e9,
               "alpha": 0.125, "quality": 0.96, "delivered": 1000, "marked": 125})
    );
    assert_eq!(east["in"]["classes"][0]["limit"], json!(null), "urgent is not held back");
    assert_eq!(rig.ask("listener.list")[0]["link"], "east");
    let network = &rig.ask("connections")[0]["network"];
    assert_eq!((&network["class"], &network["rtt_us"]), (&json!("high"), &json!(450)));
    assert_eq!((&network["out"]["limit"], &network["in"]["limit"]), (&json!(4.75e9), &json!(null)));
}

#[test]
fn refusals_name_the_thing_and_what_would_be_right() {
    let rig = Rig::new();
    rig.call("link.add", json!({"name": "east", "capacity": "10 Gbit/s"}));
    rig.call("network.listener", json!({"address": ADDRESS, "link": "east"}));
    rig.refuses_all(
        r#"
        network.set {"capacity": "10 GB/s"} => invalid: "80 Gbit/s"
        network.set {"capacity": 10} => invalid: "10 Gbit/s"
        network.set {"capcity": "auto"} => invalid: did you mean `capacity`?
        network.set {"classes": {"hihg": "free"}} => invalid: did you mean `high`?
        network.set {"classes": {"high": 3}} => invalid: { share = 3 }
        network.set {"capacity": "1 Gbit/s", "classes": {"high": {"rate": "2 Gbit/s"}}}
            => invalid: 2 Gbit/s together, more than 1 Gbit/s
        network.listener {"address": "127.0.0.1:4420"} => invalid: or null for the default one
        network.listener {"address": "127.0.0.1:1", "link": null}
            => not_found: there are: 127.0.0.1:4420
        network.listener {"address": "127.0.0.1:4420", "link": "west"}
            => not_found: there is no link west; there are: default, east
        listener.add {"address": "127.0.0.1:1", "link": "west"} => not_found: there are: default, east
        link.add {"name": "east"} => exists: link east exists already
        link.add {"name": "default"} => invalid: set that one with [network]
        link.set {"name": "west"} => not_found: there are: default, east
        link.set {"capacity": "auto"} => invalid: no `name`
        link.set {"name": "east", "classes": {"low": {"rate": "11 Gbit/s"}}}
            => invalid: lower them by 1 Gbit/s
        link.remove {"name": "west"} => not_found: there is no link west
        link.remove {"name": "east"} => invalid: named by the listeners 127.0.0.1
        "#,
    );
}

/// Makes one change of small numbers.
pub(super) fn change(kind: u8, a: u8, b: u8) -> (&'static str, Value) {
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
