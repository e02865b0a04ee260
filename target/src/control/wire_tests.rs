//! The wire format: each method's request and answer as programs know them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sluice_schema::Method;

use super::tests::{NQN, Rig};

/// Requests and answers, a line for each.
const EXPECTED: &str = include_str!("wire.txt");
/// A configuration file for `reload`, with another host and another namespace than the target runs.
const CHANGED: &str = r#"
[target]
queue_depth = 512
[pmem]
address = "127.0.0.1:4430"
capacity = 1000000
client_capacity = 400000
clients = 5
[[listener]]
address = "127.0.0.1:4420"
[[subsystem]]
nqn = "nqn.2026-01.io.x:s0"
hosts = ["nqn.2026-01.io.x:h0", "nqn.2026-01.io.x:h9"]
[[subsystem.namespace]]
nsid = 1
backend = "memory"
size = "1 MiB"
[[subsystem.namespace]]
nsid = 7
backend = "null"
size = "8 KiB"
"#;

/// Returns a request of each method, and requests with wrong parameters.
fn requests() -> Vec<(&'static str, Value)> {
    let host = "nqn.2026-01.io.x:h1";
    vec![
        ("status", Value::Null),
        ("status", json!({"buckets": true})),
        ("status", json!([])),
        ("connections", json!({})),
        ("statistics", json!({})),
        ("statistics", json!({"buckets": true})),
        ("statistics", json!({"buckets": "yes"})),
        ("config.show", json!({})),
        ("config.show", json!({"text": true})),
        ("subsystem.list", json!({})),
        ("subsystem.add", json!({"nqn": "nqn.2026-01.io.x:s1", "hosts": [host]})),
        ("subsystem.add", json!({"nqn": "x", "host": 1, "hosts": "h"})),
        ("subsystem.add", json!({})),
        ("subsystem.remove", json!({"nqn": "nqn.2026-01.io.x:s1", "force": true})),
        ("subsystem.remove", json!({"nqn": 5, "forced": true})),
        ("namespace.list", json!({})),
        ("namespace.list", json!({"subsystem": NQN})),
        ("namespace.list", json!({"subsystem": 1})),
        ("namespace.add", json!({"subsystem": NQN, "backend": "null", "size": "8 KiB"})),
        ("namespace.add", json!({"subsystem": NQN, "backend": "memory", "size": 1.5})),
        ("namespace.add", json!({"backend": "nul", "sise": 1})),
        ("namespace.resize", json!({"subsystem": NQN, "nsid": 1, "size": "2 MiB"})),
        ("namespace.resize", json!({"subsystem": NQN, "nsid": 1, "size": 4_194_304})),
        ("namespace.resize", json!({"subsystem": NQN, "nsid": 0, "size": "4k", "force": 1})),
        ("namespace.resize", json!({})),
        ("namespace.retry", json!({})),
        ("namespace.retry", json!({"subsystem": NQN, "nsid": 1})),
        ("namespace.retry", json!({"nsid": 1})),
        ("namespace.remove", json!({"subsystem": NQN, "nsid": 2})),
        ("namespace.remove", json!({"subsystem": NQN, "nsid": "2", "size": 1})),
        ("listener.list", json!({})),
        ("listener.add", json!({"address": "127.0.0.1:4421", "class": "high"})),
        ("listener.add", json!({"address": "127.0.0.1", "class": "top"})),
        ("listener.remove", json!({"address": "127.0.0.1:4421"})),
        ("listener.remove", json!({"addres": "127.0.0.1:4421"})),
        ("host.list", json!({})),
        ("host.list", json!({"subsystem": NQN})),
        ("host.add", json!({"subsystem": NQN, "host": host})),
        ("host.add", json!({"subsystem": NQN})),
        (
            "host.set",
            json!({"subsystem": NQN, "host": host, "addresses": ["192.0.2.7", "2001:db8::/32"]}),
        ),
        ("host.set", json!({"subsystem": NQN, "host": host, "addresses": ["192.0.2.7/24"]})),
        ("host.set", json!({"subsystem": NQN, "host": host, "addresses": []})),
        ("host.set", json!({"subsystem": NQN, "host": "nqn.2026-01.io.x:h2", "addresses": null})),
        ("host.set", json!({"subsystem": NQN, "host": host, "addresses": "192.0.2.7"})),
        (
            "host.set",
            json!({"subsystem": NQN, "host": host, "namespaces": [1], "read_only": true,
                   "max_class": "medium"}),
        ),
        (
            "host.set",
            json!({"subsystem": NQN, "host": host, "namespaces": ["1"], "max_class": "top"}),
        ),
        ("host.list", json!({"subsystem": NQN})),
        ("host.remove", json!({"subsystem": NQN, "host": host})),
        ("host.remove", json!({"subsystem": NQN, "host": "nqn.2026-01.io.x:h2"})),
        ("host.any", json!({"subsystem": NQN, "allow": true})),
        ("host.any", json!({"subsystem": NQN, "allow": "yes"})),
        ("host.any", json!({"subsystem": NQN})),
        ("host.keys", json!({})),
        ("host.keys", json!({"host": host})),
        ("host.keys", json!({"hosts": [host]})),
        ("qos.show", json!({})),
        ("qos.show", json!({"buckets": true})),
        (
            "qos.set",
            json!({"enabled": true, "weights": [5, 3, 1], "unit": "time", "burst": "unlimited",
                   "urgent_share": "30 %", "window": "adaptive", "latency_target": "1 ms",
                   "window_max": 64, "credits": 1000, "payload": "1 GiB", "queue": 2000,
                   "wrr": false, "mark": false, "dscp": {"low": 0}}),
        ),
        ("qos.set", json!({"weights": [5, 3], "unit": 1, "burst": 3, "urgent_share": "99 %"})),
        ("qos.set", json!({"window": "large", "credits": 0, "payload": "1", "wrr": "on"})),
        ("qos.set", json!({"dscp": {"low": 64, "top": 1}, "enabeld": true})),
        ("qos.listener", json!({"address": "127.0.0.1:4420", "class": "urgent"})),
        ("qos.listener", json!({"address": "127.0.0.1:4420", "class": null})),
        ("qos.listener", json!({"address": "127.0.0.1:4420"})),
        ("qos.namespace", json!({"subsystem": NQN, "nsid": 1, "class": "low"})),
        ("qos.namespace", json!({"subsystem": NQN, "nsid": 1, "class": "lowest"})),
        ("session.list", json!({})),
        (
            "session.add",
            json!({"name": "gold", "credit_share": "50 %", "bandwidth": "200 MiB", "iops": 9000}),
        ),
        ("session.add", json!({"name": "a b", "credit_share": 0, "iops": 0, "band": 1})),
        ("session.set", json!({"name": "gold", "iops": null, "queue": 5, "parent": NQN})),
        ("session.set", json!({"iops": null})),
        ("session.set", json!({"name": "lead"})),
        (
            "session.reserve",
            json!({"session": "gold", "commands": 5, "namespace": format!("{NQN}/1")}),
        ),
        ("session.reserve", json!({"session": "gold", "commands": 5, "bytes": 512})),
        (
            "session.reserve",
            json!({"session": "gold", "commands": 5, "latency": "20 ms", "burst": 8,
                   "namespace": format!("{NQN}/1")}),
        ),
        (
            "session.reserve",
            json!({"session": "gold", "bytes": "1 MiB", "writes": "100 %", "buffers": 4,
                   "namespace": format!("{NQN}/1")}),
        ),
        (
            "session.reserve",
            json!({"session": "gold", "commands": 5, "latency": "1 us", "burst": 0}),
        ),
        ("session.release", json!({"session": "gold"})),
        ("session.release", json!({})),
        ("qos.policy", json!({"subsystem": NQN, "nsid": 1, "max_class": "high"})),
        ("qos.policy", json!({"host": "nqn.2026-01.io.x:h0", "session": "gold", "class": "low"})),
        ("qos.policy", json!({"nsid": 1, "class": "low"})),
        ("qos.policy", json!({"addresses": ["198.51.100.0/24"], "class": "low"})),
        ("qos.policy", json!({"addresses": ["198.51.100.0/24", "192.0.2.7"], "class": "high"})),
        ("qos.policy", json!({"addresses": ["198.51.100.1/24"], "class": "high"})),
        ("session.list", json!({})),
        ("qos.show", json!({})),
        ("qos.policy", json!({"host": "nqn.2026-01.io.x:h0"})),
        ("session.remove", json!({"name": "gold"})),
        ("session.remove", json!({"name": "root"})),
        ("profile.add", json!({"name": "fast", "read_iops": 9000, "burst": "10 s"})),
        ("profile.add", json!({"name": "slow", "iops": 0, "burst": "1 h"})),
        ("session.add", json!({"name": "silver", "profile": "fast", "weight": 300})),
        ("session.add", json!({"name": "lead", "profile": "none", "weight": 0})),
        ("profile.set", json!({"name": "fast", "write_bandwidth": "100 MiB"})),
        ("profile.list", json!({})),
        ("profile.remove", json!({"name": "fast"})),
        ("session.remove", json!({"name": "silver"})),
        ("profile.remove", json!({"name": "fast"})),
        ("network.show", json!({})),
        (
            "network.set",
            json!({"enabled": true, "writes": false, "base": "dctcp", "capacity": "10 Gbit/s",
                   "classes": {"high": {"share": 5}, "low": {"rate": "1 Gbit/s"},
                               "medium": {"latency": "2 ms"}}}),
        ),
        ("network.set", json!({"capacity": 10, "classes": {"high": 3}, "base": "a b"})),
        ("link.add", json!({"name": "east"})),
        ("link.add", json!({"name": "default", "kapacity": 1})),
        ("link.set", json!({"name": "east", "capacity": "25 Gbit/s"})),
        ("link.set", json!({"capacity": "25 Gbit/s"})),
        ("link.set", json!({"name": "west"})),
        ("network.listener", json!({"address": "127.0.0.1:4420", "link": "east"})),
        ("network.listener", json!({"address": "127.0.0.1:4420", "link": null})),
        ("network.listener", json!({"address": "127.0.0.1:4420", "link": 1})),
        ("network.show", json!({})),
        ("link.remove", json!({"name": "east"})),
        ("link.remove", json!({"name": "east", "force": true})),
        ("pmem.show", json!({})),
        (
            "region.add",
            json!({"name": "log", "size": "1 MiB", "hosts": [host], "reserve": 5000,
                   "limit": 9000}),
        ),
        ("region.add", json!({"name": "old", "path": "/missing", "read_only": true})),
        ("region.add", json!({"name": "a b", "hosts": "h", "create": true, "limit": 0})),
        ("region.set", json!({"name": "log", "limit": null, "size": 8192})),
        ("region.set", json!({"name": "log", "path": "/r"})),
        ("region.set", json!({"name": "new", "size": 8192})),
        ("pmem.show", json!({})),
        ("status", json!({})),
        ("region.remove", json!({"name": "old"})),
        ("region.remove", json!({"name": "log", "force": true})),
        ("region.remove", json!({"forced": true})),
        ("reload", json!({"check": true})),
        ("reload", json!({"check": "no", "forced": 1})),
        ("config.diff", json!({})),
        ("config.merge", json!({})),
        ("reload", json!({})),
        ("namespace.remove", json!({"subsystem": NQN, "nsid": 7})),
        ("config.diff", json!({})),
        ("config.diff", json!({"object": "qos"})),
        ("config.merge", json!({})),
        ("config.revert", json!({"object": 1, "forced": true})),
        ("config.revert", json!({"object": format!("namespace {NQN} 9")})),
        ("config.revert", json!({"object": format!("namespace {NQN} 7")})),
        ("config.revert", json!({"force": true})),
        ("config.diff", json!({})),
        ("shutdown", json!({"now": true})),
        ("shutdown", json!({"now": 1})),
        ("sesion.list", json!({})),
        ("", json!({})),
    ]
}

/// Blanks the values that differ between two runs of one program.
fn masked(mut answer: Value) -> Value {
    if let Some(status) = answer.get_mut("result").filter(|result| result.get("pid").is_some()) {
        for key in ["pid", "uptime_seconds", "version", "commit"] {
            status[key] = json!(key);
        }
    }
    answer
}

fn transcript() -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sluicegate.toml");
    std::fs::write(&file, CHANGED).unwrap();
    let rig = Rig::of_file(&file);
    let mut text = String::new();
    for (method, params) in requests() {
        let request = json!({"id": 1, "method": method, "params": params}).to_string();
        let answer = rig.control.handle(request.as_bytes());
        let answer = answer.replace(&folder.path().display().to_string(), "/folder");
        let answer = masked(serde_json::from_str(&answer).unwrap());
        write!(text, "> {request}\n< {answer}\n").unwrap();
    }
    text
}

/// Returns the path of `wire.txt`.
fn place() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/control/wire.txt")
}

/// Says whether an answer still has all fields that programs know. Fields may be added, and keys to
/// a message's list of keys.
fn covers(now: &Value, known: &Value) -> bool {
    match (now, known) {
        (Value::Object(now), Value::Object(known)) => {
            known.iter().all(|(key, value)| now.get(key).is_some_and(|now| covers(now, value)))
        }
        (Value::Array(now), Value::Array(known)) => {
            now.len() == known.len() && now.iter().zip(known).all(|(now, known)| covers(now, known))
        }
        (Value::String(now), Value::String(known)) => {
            let list = |text: &str| text.find("known here: ").map_or(text.len(), |at| at + 12);
            now[..list(now)] == known[..list(known)]
        }
        _ => now == known,
    }
}

#[test]
fn a_field_that_is_gone_or_says_something_else_is_noticed() {
    let known = json!({"a": [{"b": 1}], "c": "known here: x"});
    assert!(covers(&json!({"a": [{"b": 1, "z": 2}], "c": "known here: x, y"}), &known));
    for now in [
        json!({"a": [{"b": 2}], "c": "known here: x"}),
        json!({"a": [{}], "c": "known here: x"}),
        json!({"a": [{"b": 1}, {"b": 1}], "c": "known here: x"}),
        json!({"a": [{"b": 1}], "c": "unknown here: x"}),
        json!({"a": [{"b": 1}]}),
    ] {
        assert!(!covers(&now, &known), "{now}");
    }
}

/// Compares, or with `SLUICE_REWRITE=1` writes the file: look at the differences before you keep
/// it.
#[test]
fn requests_and_answers_are_what_programs_know() {
    let text = transcript();
    if std::env::var_os("SLUICE_REWRITE").is_some() {
        std::fs::write(place(), text).unwrap();
        return;
    }
    for (line, (now, known)) in text.lines().zip(EXPECTED.lines()).enumerate() {
        let read = |line: &str| serde_json::from_str::<Value>(&line[2..]).unwrap();
        assert_eq!(now[..2], known[..2]);
        assert!(covers(&read(now), &read(known)), "line {} of wire.txt:\n{now}\n{known}", line + 1);
    }
    assert_eq!(text.lines().count(), EXPECTED.lines().count());
}

#[test]
fn each_method_is_in_the_transcript() {
    let asked = requests();
    let asked: Vec<Method> = asked.iter().filter_map(|(name, _)| Method::from_name(name)).collect();
    let verb = |method: &Method| method.object().map(|(_, verb)| verb);
    for method in Method::ALL {
        // A generic method does the same with all kinds of objects.
        let same = |other: &Method| verb(method).is_some() && verb(other) == verb(method);
        let covered = asked.iter().any(|other| other == method || same(other));
        assert!(covered, "{}", method.name());
    }
}
