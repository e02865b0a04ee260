//! Tests of changes of regions of persistent memory while clients use them.

use serde_json::{Value, json};
use sluice_config::RegionConfig;

use super::force_tests::check_force;
use super::tests::{NQN, Rig, has};
use crate::control::store::Store;
use crate::serve::engine::Loss;

const HOST: &str = "nqn.2026-01.io.x:h0";

#[test]
fn regions_change_while_clients_work_and_survive_a_restart() {
    let rig = Rig::new();
    let add = json!({"name": "log", "path": "/dev/dax0.0", "hosts": [HOST], "reserve": 100_000,
                     "limit": 200_000});
    let answer = rig.call("region.add", add);
    assert_eq!(
        answer,
        json!({"name": "log", "path": "/dev/dax0.0", "create": false, "read_only": false,
               "size": null, "hosts": [HOST], "reserve": 100_000, "limit": 200_000,
               "durable": true})
    );
    // The values of an answer are valid parameters.
    let mut again = answer.clone();
    again.as_object_mut().unwrap().remove("durable");
    assert_eq!(rig.call("region.set", again), answer);
    rig.call("region.add", json!({"name": "scratch", "size": "1 MiB"}));
    let set = json!({"name": "log", "hosts": [], "size": "1 GiB", "limit": null});
    let answer = rig.call("region.set", set);
    has(&answer, json!({"hosts": [], "limit": null, "size": 1 << 30, "reserve": 100_000}));
    let config = rig.check_agreement();
    let log = RegionConfig {
        name: "log".into(),
        path: Some("/dev/dax0.0".into()),
        size: Some(1 << 30),
        reserve: 100_000,
        ..RegionConfig::default()
    };
    assert_eq!(config.pmem.regions[0], log);
    rig.call("region.remove", json!({"name": "log"}));
    rig.call("region.remove", json!({"name": "scratch"}));
    assert!(rig.check_agreement().pmem.regions.is_empty());
    assert!(rig.store.objects().unwrap().is_empty(), "nothing is left behind");
}

#[test]
fn what_is_shown_is_what_runs() {
    let rig = Rig::new();
    let second = "nqn.2026-01.io.x:h1";
    rig.call(
        "region.add",
        json!({"name": "log", "size": "1 MiB", "hosts": [HOST, second],
                                  "reserve": 5000}),
    );
    rig.call("region.add", json!({"name": "old", "path": "/missing"}));
    let shown = rig.ask("pmem.show");
    let [log, old] = &shown["regions"].as_array().unwrap()[..] else { panic!("{shown}") };
    has(
        &shown,
        json!({"capacity": 1_000_000, "capacity_now": 1_005_000, "period": "1 s", "period_now": 7,
                       "open": true, "reason": null, "reserved": 100_000, "batch": 1000}),
    );
    rig.call("pmem.profile", json!({"periods": 5}));
    let profile =
        json!({"state": "measured", "capacity": 1_500_000, "deviation": 900, "reason": null});
    has(&shown, json!({"profile": profile, "evicted": []}));
    has(log, json!({"open": true, "kind": "memory", "bytes": 1 << 20, "size": 1 << 20}));
    assert_eq!(
        log["clients"],
        json!([
            {"grant": 1, "host": HOST, "address": "192.0.2.7", "rights": "read-write",
             "reservation": 5000, "limit": null, "connected": true, "completed": 1_000_000,
             "last_period": 99_000, "missed": 2},
            {"grant": 2, "host": second, "address": "192.0.2.7", "rights": "read-write",
             "reservation": 5000, "limit": null, "connected": false, "completed": 1_000_000,
             "last_period": 99_000, "missed": 2},
        ])
    );
    let reason = "/missing: there is no such file";
    has(old, json!({"open": false, "bytes": null, "kind": null, "reason": reason}));
    *rig.engine.closed.lock().unwrap() = Some("no RDMA device has 127.0.0.1".into());
    let shown = rig.ask("pmem.show");
    has(&shown, json!({"open": false, "reason": "no RDMA device has 127.0.0.1"}));
}

#[test]
fn the_status_names_what_keeps_clients_from_regions() {
    let rig = Rig::new();
    rig.call("region.add", json!({"name": "log", "size": "1 MiB"}));
    assert_eq!(rig.ask("status")["problems"], json!([]));
    rig.call("region.add", json!({"name": "old", "path": "/missing"}));
    *rig.engine.closed.lock().unwrap() = Some("no RDMA device has it".into());
    assert_eq!(
        rig.ask("status")["problems"],
        json!([
            "regions: clients cannot connect to 127.0.0.1:4430: no RDMA device has it",
            "region old: not open: /missing: there is no such file",
        ])
    );
    // Without an address nothing was to be open.
    rig.engine.config.lock().unwrap().pmem.general.address = None;
    let problems = rig.ask("status")["problems"].clone();
    assert_eq!(problems.as_array().unwrap().len(), 1, "{problems}");
}

#[test]
fn refusals_name_the_thing_and_what_would_be_right() {
    let rig = Rig::new();
    rig.call("region.add", json!({"name": "log", "path": "/r", "size": 8192, "create": true}));
    rig.call("region.add", json!({"name": "mem", "size": 8192, "reserve": 10}));
    rig.call("namespace.add", json!({"subsystem": NQN, "backend": "pmem", "path": "/disk"}));
    rig.refuses_all(
        r#"
        region.add {"name": "log", "size": 4096} => exists: log exists already
        region.add {"size": 4096} => invalid: no `name`; give it: "log"
        region.add {"name": "x"} => invalid: neither a `path` nor a `size`
        region.add {"name": "x y", "size": 4096} => invalid: 1 to 16 letters
        region.add {"name": "x", "sise": 4096} => invalid: did you mean `size`?
        region.add {"name": "x", "size": 4096, "force": true} => invalid: `force`
        region.add {"name": "x", "size": 4096, "reserve": 400001}
            => invalid: one client can do 400000 I/Os per second; write at most 400000
        region.add {"name": "x", "path": "//r"}
            => invalid: region log and region x would have /r, and one would write to it
        region.add {"name": "x", "path": "/disk", "read_only": true}
            => invalid: region x and namespace 2 of nqn.2026-01.io.x:s0 would have /disk
        namespace.add {"subsystem": "nqn.2026-01.io.x:s0", "backend": "pmem", "path": "/a/../r"}
            => exists: region log and namespace 3 of
        subsystem.add {"nqn": "nqn.2026-01.io.x:s1", "namespace": [{"backend": "file", "path": "/r"}]}
            => exists: region log and namespace 1 of nqn.2026-01.io.x:s1 would have /r
        listener.add {"address": "0.0.0.0:4430", "transport": "rdma"}
            => exists: listener rdma:0.0.0.0:4430 collides with `address` of [pmem]
        region.set {"name": "log", "path": "/s", "read_only": true, "create": false}
            => invalid: `path`, `create`, `read_only` of a region cannot change while it exists: remove it and add it again
        region.set {"name": "mem", "path": "/s"} => invalid: `path` of a region cannot
        region.set {"name": "mem", "size": null} => invalid: neither a `path`
        region.set {"name": "mem", "limit": 9} => invalid: a host may reserve 10
        region.set {"name": "mem", "reserve": null} => invalid: not a number
        region.set {"name": "m"} => not_found: there are: log, mem
        region.remove {"name": "m"} => not_found: there is no region m
        region.remove {"name": "mem", "force": 1} => invalid: true or false
        "#,
    );
}

#[test]
fn what_connected_clients_would_lose_is_refused_by_name_unless_forced() {
    let rig = Rig::new();
    let log = RegionConfig { name: "log".into(), size: Some(8192), ..RegionConfig::default() };
    rig.call("region.add", json!({"name": "log", "size": 8192}));
    let smaller = RegionConfig { size: Some(4096), ..log.clone() };
    let other = RegionConfig { hosts: vec![HOST.into()], ..smaller.clone() };
    let beyond = "they could no longer reach data beyond its new end";
    let hosts = json!({"name": "log", "hosts": [HOST]});
    for (from, to, method, params, words) in [
        (&log, Some(&smaller), "region.set", json!({"name": "log", "size": 4096}), beyond),
        (&smaller, Some(&other), "region.set", hosts, "they would lose it"),
        (&other, None, "region.remove", json!({"name": "log"}), "they would lose it"),
    ] {
        let message = check_force(&rig, &Loss::Region(from, to), method, params);
        assert!(message.contains("region log is in use") && message.contains(words), "{message}");
    }
}

/// Makes one change of small numbers.
pub(super) fn change(kind: u8, a: u8, b: u8) -> (&'static str, Value) {
    let (name, path) = (format!("r{}", a % 3), format!("/r{b}"));
    match kind {
        0 => ("region.add", json!({"name": name, "size": 4096 * (u32::from(b) + 1)})),
        1 => ("region.add", json!({"name": name, "path": path, "read_only": a.is_multiple_of(2)})),
        2 => ("region.set", json!({"name": name, "size": 4096 * (u32::from(b) + 1)})),
        3 => ("region.set", json!({"name": name, "reserve": a, "limit": b})),
        4 => ("region.remove", json!({"name": name})),
        5 => {
            let params = json!({"subsystem": NQN, "nsid": a + 1, "backend": "file", "path": path,
                                "read_only": a.is_multiple_of(2)});
            ("namespace.add", params)
        }
        _ => ("namespace.remove", json!({"subsystem": NQN, "nsid": a + 1})),
    }
}
