//! Tests of the methods and of the control socket.

use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};
use sluice_config::testing::parse;
use sluice_config::{Backend, Config, derived_serial};

use super::test_engine::{TestEngine, sorted};
use super::*;
use crate::control::events::EventRing;
use crate::control::store::Store;
use crate::control::store::full_store::FullStore;
use crate::serve::engine::Availability;
use crate::sys::access;

pub(super) const NQN: &str = "nqn.2026-01.io.x:s0";
pub(super) const FILE: &str = r#"
[pmem]
address = "127.0.0.1:4430"
capacity = 1000000
client_capacity = 400000
[[listener]]
address = "127.0.0.1:4420"
[[subsystem]]
nqn = "nqn.2026-01.io.x:s0"
hosts = ["nqn.2026-01.io.x:h0"]
[[subsystem.namespace]]
nsid = 1
backend = "memory"
size = "1 MiB"
"#;

/// A target with a configuration file, whose engine keeps everything in memory.
pub(super) struct Rig {
    pub(super) folder: tempfile::TempDir,
    pub(super) engine: Arc<TestEngine>,
    pub(super) store: Arc<FullStore>,
    pub(super) control: Arc<Control>,
    pub(super) events: Arc<EventRing>,
}

impl Rig {
    pub(super) fn new() -> Self {
        Self::of(FILE)
    }

    pub(super) fn of(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.toml");
        std::fs::write(&file, text).unwrap();
        let store: Arc<FullStore> = Arc::default();
        let (live, _) =
            Live::open(Config::load(&file, access::explain).unwrap(), store.clone()).unwrap();
        let engine = Arc::new(TestEngine::new(live.current().clone()));
        let log = Log::default();
        let events = Arc::clone(&log.events);
        let control = Control::of_file(engine.clone(), live, Some(file), log);
        Self { folder, engine, store, control, events }
    }

    pub(super) fn file(&self) -> PathBuf {
        self.folder.path().join("a.toml")
    }

    /// Writes the configuration file anew.
    pub(super) fn edit(&self, text: &str) {
        std::fs::write(self.file(), text).unwrap();
    }

    pub(super) fn attempt(&self, method: &str, params: Value) -> Result<Value, Value> {
        let line = json!({ "id": 7, "method": method, "params": params }).to_string();
        let answer: Value = serde_json::from_str(&self.control.handle(line.as_bytes())).unwrap();
        assert_eq!(answer["id"], 7);
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].clone()),
        }
    }

    pub(super) fn call(&self, method: &str, params: Value) -> Value {
        let answer = self.attempt(method, params);
        answer.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Calls the method of each row with its parameters.
    pub(super) fn call_all(&self, rows: &str) {
        for (method, params) in rows.lines().filter_map(|row| row.trim().split_once(' ')) {
            self.call(method, serde_json::from_str(params).unwrap());
        }
    }

    /// Calls a method without parameters.
    pub(super) fn ask(&self, method: &str) -> Value {
        self.call(method, json!({}))
    }

    /// Adds a namespace without a number.
    pub(super) fn add_disk(&self) -> Value {
        self.call("namespace.add", json!({"subsystem": NQN, "backend": "null", "size": "8 KiB"}))
    }

    /// Returns the kind and the message of the error.
    pub(super) fn refused(&self, method: &str, params: Value) -> (String, String) {
        let error = self.attempt(method, params).unwrap_err();
        (error["kind"].as_str().unwrap().into(), error["message"].as_str().unwrap().into())
    }

    /// Checks the kind and a part of the message with which a request is refused. Returns the message.
    pub(super) fn refuses(&self, method: &str, params: Value, kind: &str, words: &str) -> String {
        let (seen, message) = self.refused(method, params.clone());
        assert_eq!(seen, kind, "{method} {params}: {message}");
        assert!(message.contains(words), "{method} {params}: {message}");
        message
    }

    /// Checks the same of each request, and that it changes nothing. A row of the table is
    /// `method parameters => kind: words`, where the rest from the arrow on may have a line of its own.
    pub(super) fn refuses_all(&self, table: &str) {
        let before = self.check_agreement();
        let lines: Vec<&str> = table.trim().lines().map(str::trim).collect();
        for row in lines.join("\n").replace("\n=>", " =>").lines() {
            let (request, refusal) = row.split_once(" => ").unwrap();
            let (method, params) = request.split_once(' ').unwrap();
            let (kind, words) = refusal.split_once(": ").unwrap();
            self.refuses(method, serde_json::from_str(params).unwrap(), kind, words);
            assert_eq!(self.check_agreement(), before, "{row}");
        }
    }

    /// Returns the keys and values of the stored objects.
    pub(super) fn stored(&self) -> Vec<(String, String)> {
        let objects = self.store.objects().unwrap().into_iter();
        objects.map(|object| (object.key.to_string(), object.value)).collect()
    }

    /// Checks that the engine runs the control plane's configuration. Returns it in an order that does not depend
    /// on its history.
    pub(super) fn running(&self) -> Config {
        let current = sorted(self.control.live().current());
        assert_eq!(sorted(&self.engine.config.lock().unwrap()), current);
        current
    }

    /// Checks the same, and that a restart with the file would run it too.
    pub(super) fn check_agreement(&self) -> Config {
        let (again, warnings) =
            Live::open(Config::load(&self.file(), access::explain).unwrap(), self.store.clone())
                .unwrap();
        let current = self.running();
        assert_eq!((sorted(again.current()), warnings), (current.clone(), Vec::new()));
        current
    }
}

/// Checks some fields of an object.
pub(super) fn has(object: &Value, fields: Value) {
    assert_eq!(*object, with(object.clone(), fields));
}

/// Sets more keys of an object.
pub(super) fn with(mut object: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("{more}") };
    object.as_object_mut().unwrap().extend(more);
    object
}

#[test]
fn changes_take_effect_and_survive_a_restart() {
    let rig = Rig::new();
    let other = "nqn.2026-01.io.x:s1";
    let added = rig.add_disk();
    assert_eq!((&added["nsid"], &added["durable"]), (&json!(2), &json!(true)));
    let resized =
        rig.call("namespace.resize", json!({"subsystem": NQN, "nsid": 1, "size": "2 MiB"}));
    assert_eq!(resized["size"], 2 << 20);
    let h1 = "nqn.2026-01.io.x:h1";
    let from = |networks: Value| json!({"subsystem": NQN, "host": h1, "addresses": networks});
    rig.call("host.add", from(json!(["192.0.2.7"])));
    rig.call("host.set", from(Value::Null));
    assert_eq!(rig.ask("host.list")[0].get("addresses"), None);
    rig.call("host.set", from(json!(["192.0.2.0/24", "::ffff:192.0.2.0/120"])));
    let listed = rig.ask("host.list");
    assert_eq!(listed[0]["addresses"], json!({h1: ["192.0.2.0/24"]}));
    rig.call("host.remove", json!({"subsystem": NQN, "host": "nqn.2026-01.io.x:h0"}));
    rig.call("host.any", json!({"subsystem": NQN, "allow": true}));
    rig.call("listener.add", json!({"address": "127.0.0.1:4421", "subsystems": [NQN]}));
    rig.call("listener.remove", json!({"address": "127.0.0.1:4420"}));
    let added = json!({"nqn": other, "namespace": [{"backend": "memory", "size": "4 KiB"}]});
    rig.call("subsystem.add", added);
    rig.call("namespace.remove", json!({"subsystem": other, "nsid": 1}));
    let config = rig.check_agreement();
    assert_eq!(config.subsystems.len(), 2);
    assert!(config.subsystems[1].namespaces.is_empty());
    let bound = &config.subsystems[0].hosts[0];
    assert_eq!((bound.nqn.as_str(), bound.sources.to_string().as_str()), (h1, "192.0.2.0/24"));
    rig.call("subsystem.remove", json!({"nqn": NQN}));
    rig.call("subsystem.remove", json!({"nqn": other}));
    assert!(rig.check_agreement().subsystems.is_empty());
    assert_eq!(rig.ask("subsystem.list"), json!([]));
}

#[test]
fn a_change_that_the_target_refuses_or_that_cannot_be_stored_is_not_made() {
    let rig = Rig::new();
    rig.call("session.add", json!({"name": "gold"}));
    let (before, stored) = (rig.check_agreement(), rig.stored());
    let reserve = json!({"session": "gold", "commands": 5000, "namespace": format!("{NQN}/1")});
    for (method, params) in [
        ("namespace.add", json!({"subsystem": NQN, "backend": "null", "size": 4096})),
        ("namespace.resize", json!({"subsystem": NQN, "nsid": 1, "size": 4096})),
        ("listener.add", json!({"address": "127.0.0.1:9"})),
        ("listener.remove", json!({"address": "127.0.0.1:4420"})),
        ("subsystem.remove", json!({"nqn": NQN})),
        ("host.any", json!({"subsystem": NQN, "allow": true})),
        ("session.reserve", reserve),
        ("network.set", json!({"classes": {"high": {"share": 9}}})),
        ("region.add", json!({"name": "log", "size": 4096})),
    ] {
        *rig.engine.refuse_after.lock().unwrap() = Some(0);
        rig.refuses(method, params.clone(), "system", "the test requested a failure");
        assert_eq!(rig.check_agreement(), before, "{method}");
        rig.store.set_full(true);
        rig.refuses(method, params, "store", "nothing was changed: no space left");
        assert_eq!(rig.check_agreement(), before, "{method}");
        rig.store.set_full(false);
        assert_eq!(rig.stored(), stored, "{method}");
    }
    rig.call("host.any", json!({"subsystem": NQN, "allow": true}));
    rig.check_agreement();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Checks that after any sequence of changes, the engine, the control plane and a restart have the same
    /// configuration, and that no file that is written has two users.
    #[test]
    fn any_history_is_what_a_restart_runs(
        history in proptest::collection::vec((0u8..29, 0u8..6, 0u8..8), 0..100),
    ) {
        let rig = Rig::new();
        for (kind, a, b) in history {
            let (method, params) = match kind {
                0..12 => super::qos_tests::change(kind, a, b),
                12..22 => super::network_tests::change(kind - 12, a % 4, b % 4),
                _ => super::pmem_tests::change(kind - 22, a % 4, b % 3),
            };
            let _ = rig.attempt(method, params);
            prop_assert_eq!(sluice_config::clash(&rig.check_agreement()), None);
        }
    }
}

#[test]
fn taking_everything_back_leaves_nothing_behind() {
    let rig = Rig::new();
    let before = rig.check_agreement();
    rig.call_all(
        r#"
        qos.set {"weights": [9, 9, 9]}
        session.add {"name": "gold"}
        session.reserve {"session": "nqn.2026-01.io.x:s0/1", "time": "100 ms"}
        session.set {"name": "nqn.2026-01.io.x:s0", "iops": 5}
        qos.policy {"host": "nqn.2026-01.io.x:h0", "session": "gold"}
        qos.listener {"address": "127.0.0.1:4420", "class": "low"}
        network.set {"classes": {"low": "free"}, "base": "dctcp"}
        link.add {"name": "east"}
        network.listener {"address": "127.0.0.1:4420", "link": "east"}
        "#,
    );
    assert_ne!(rig.check_agreement(), before);
    let removed = rig.call("qos.policy", json!({"host": "nqn.2026-01.io.x:h0"}));
    assert_eq!(removed["removed"], true);
    rig.call_all(
        r#"
        qos.set {"weights": [3, 2, 1]}
        session.remove {"name": "gold"}
        session.release {"session": "nqn.2026-01.io.x:s0/1"}
        session.remove {"name": "nqn.2026-01.io.x:s0"}
        qos.listener {"address": "127.0.0.1:4420", "class": null}
        network.set {"classes": {"low": {"share": 1}}, "base": "auto"}
        network.listener {"address": "127.0.0.1:4420", "link": null}
        link.remove {"name": "east"}
        "#,
    );
    assert_eq!(rig.check_agreement(), before);
    assert!(rig.store.objects().unwrap().is_empty());
}

#[test]
fn refusals_say_what_is_there() {
    let table = r#"
        status {"x": 1} => invalid: unknown key `x`
        namespace.ad {} => unknown_method: did you mean "namespace.add"?
        namespace.add {"subsystem": "nqn.2026-01.io.x:s0", "backend": "memory"}
            => invalid: no `size`; give it: "4 GiB"
        namespace.add {"subsystem": "nqn.2026-01.io.x:z", "backend": "null", "size": 4096}
            => not_found: there are: nqn.2026-01.io.x:s0
        namespace.add {"subsystem": "nqn.2026-01.io.x:s0", "nsid": 1, "backend": "null", "size": 4096}
            => exists: namespace 1
        namespace.remove {"subsystem": "nqn.2026-01.io.x:s0", "nsid": 9} => not_found: there are: 1
        namespace.resize {"subsystem": "nqn.2026-01.io.x:s0", "nsid": 1} => invalid: give `size`
        namespace.resize {"subsystem": "nqn.2026-01.io.x:s0", "nsid": 1, "size": 5000}
            => invalid: whole blocks
        listener.add {"address": "0.0.0.0:4420"} => exists: collides
        listener.add {"address": "127.0.0.1:4420"} => exists: exists already
        listener.remove {"address": "127.0.0.1:1"} => not_found: 127.0.0.1:4420
        subsystem.add {"nqn": "nqn.2026-01.io.x:s0"} => exists: already
        subsystem.add {"nqn": "disk"} => invalid: nqn.
        subsystem.add {"nqn": "nqn.2026-01.io.x:s9", "serial": "SERIAL"}
            => exists: subsystems nqn.2026-01.io.x:s0 and nqn.2026-01.io.x:s9 would have the same serial
        listener.add {"address": "[fe80::1]:4421"} => invalid: [fe80::1%eth0]:4421
        host.remove {"subsystem": "nqn.2026-01.io.x:s0", "host": "nqn.2026-01.io.x:q"} => not_found: :h0
        host.add {"subsystem": "nqn.2026-01.io.x:s0", "host": "nqn.2026-01.io.x:h0"} => exists: already
        host.add {"subsystem": "nqn.2026-01.io.x:s0", "host": "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec"}
            => invalid: 36 characters
        "#;
    Rig::new().refuses_all(&table.replace("SERIAL", &derived_serial(NQN)));
}

#[test]
fn a_link_local_listener_keeps_the_name_of_its_interface() {
    let rig = Rig::new();
    let address = "[fe80::1%eth0]:4421";
    rig.call("listener.add", json!({ "address": address }));
    rig.check_agreement();
    assert_eq!(rig.ask("listener.list")[1]["address"], address);
    rig.call("listener.remove", json!({ "address": address }));
    assert_eq!(rig.check_agreement().listeners.len(), 1);
}

#[test]
fn a_file_that_is_added_with_a_size_is_made_unless_it_is_only_read() {
    let rig = Rig::new();
    for (nsid, file, made) in [
        (2, json!({"path": "/x", "size": "1 MiB"}), true),
        (3, json!({"path": "/y"}), false),
        (4, json!({"path": "/z", "size": "1 MiB", "read_only": true}), false),
    ] {
        let add = json!({"subsystem": NQN, "nsid": nsid, "backend": "file"});
        rig.call("namespace.add", with(add, file));
        let config = rig.check_agreement();
        let backend = &config.subsystems[0].namespaces[nsid - 1].backend;
        assert!(matches!(backend, Backend::File { create, .. } if *create == made), "{backend:?}");
    }
    let whole = json!({"nqn": "nqn.2026-01.io.x:s9", "namespace": [
        {"backend": "file", "path": "/s9", "size": "1 MiB", "force": true}]});
    rig.call("subsystem.add", whole);
    let config = rig.check_agreement();
    let namespace = &config.subsystems[1].namespaces[0];
    assert!(namespace.force && matches!(namespace.backend, Backend::File { create: true, .. }));
}

#[test]
fn the_rights_of_a_host_change_one_by_one_and_survive_a_restart() {
    let rig = Rig::new();
    let host = "nqn.2026-01.io.x:h0";
    let set = |more: Value| {
        rig.call("host.set", with(json!({"subsystem": NQN, "host": host}), more));
        rig.check_agreement();
        let listed = rig.ask("host.list");
        listed[0].get("rights").map_or(Value::Null, |rights| rights[host].clone())
    };
    let shown = json!({"namespaces": null, "read_only": true, "max_class": null});
    assert_eq!(set(json!({"read_only": true})), shown);
    let shown = with(shown, json!({"namespaces": [1, 3]}));
    assert_eq!(set(json!({"namespaces": [3, 1]})), shown);
    let shown = with(shown, json!({"max_class": "medium"}));
    assert_eq!(set(json!({"max_class": "medium"})), shown);
    assert_eq!(set(json!({"addresses": ["192.0.2.7"]})), shown, "rights stay");
    let fewer = json!({"namespaces": [], "read_only": false});
    assert_eq!(set(fewer.clone()), with(shown, fewer));
    assert_eq!(set(json!({"max_class": null, "namespaces": null})), Value::Null);
    for (wrong, said) in [
        (json!({"namespaces": [1, 1]}), "twice"),
        (json!({"namespaces": [0]}), "0"),
        (json!({"max_class": "top"}), "top"),
        (json!({"read_only": null}), "read_only"),
        (json!({"nqn": host}), "nqn"),
    ] {
        let params = with(json!({"subsystem": NQN, "host": host}), wrong);
        rig.refuses("host.set", params, "invalid", said);
    }
}

#[test]
fn a_file_takes_the_size_that_it_has() {
    let rig = Rig::new();
    let add = json!({"subsystem": NQN, "backend": "file", "path": "/x", "size": "1 MiB"});
    rig.call("namespace.add", add);
    let resized = rig.call("namespace.resize", json!({"subsystem": NQN, "nsid": 2}));
    assert_eq!(resized["size"], 77 * 4096);
    let config = rig.check_agreement();
    let backend = &config.subsystems[0].namespaces[1].backend;
    assert!(matches!(backend, Backend::File { size: None, .. }));
}

#[test]
fn the_status_names_each_namespace_and_reservation_that_is_not_as_it_should_be() {
    let rig = Rig::new();
    rig.add_disk();
    let status = rig.ask("status");
    assert_eq!(status["problems"], json!([]));
    assert_eq!(status["namespaces_unavailable"], 0);
    *rig.engine.wrong.lock().unwrap() = vec![
        (NQN.into(), 1, Availability::Unavailable, "/dev/x: gone".into()),
        (NQN.into(), 2, Availability::Errors, "3 errors".into()),
    ];
    rig.engine.not_in_force.lock().unwrap().insert("db".into(), "not measured yet".into());
    rig.engine.unstored.lock().unwrap().push("hosts are not stored".into());
    let status = rig.ask("status");
    assert_eq!(status["namespaces"], 2);
    assert_eq!(status["namespaces_unavailable"], 1);
    assert_eq!(status["namespaces_with_errors"], 1);
    let problems = [
        format!("namespace 1 of {NQN}: unavailable: /dev/x: gone"),
        format!("namespace 2 of {NQN}: errors: 3 errors"),
        "session db: its reservation is not in force: not measured yet".to_owned(),
        "hosts are not stored".to_owned(),
    ];
    assert_eq!(status["problems"], json!(problems));
    let rows = rig.ask("namespace.list");
    assert_eq!(rows[0]["state"], "unavailable");
    assert_eq!(rows[0]["reason"], "/dev/x: gone");
}

#[test]
fn namespaces_that_are_not_available_are_tried_again_on_request() {
    let rig = Rig::new();
    rig.add_disk();
    let lose = || {
        let gone = |nsid| (NQN.to_owned(), nsid, Availability::Unavailable, "gone".to_owned());
        *rig.engine.wrong.lock().unwrap() = vec![gone(1), gone(2)];
    };
    lose();
    let rows = rig.call("namespace.retry", json!({"subsystem": NQN, "nsid": 2}));
    assert_eq!((rows.as_array().unwrap().len(), &rows[0]["nsid"]), (1, &json!(2)));
    assert_eq!((&rows[0]["state"], &rows[0]["subsystem"]), (&json!("ready"), &json!(NQN)));
    let left = rig.ask("status");
    assert_eq!(left["namespaces_unavailable"], 1, "the other was not tried");
    lose();
    let rows = rig.ask("namespace.retry");
    assert_eq!(rows.as_array().unwrap().len(), 2);
    let rows = rig.call("namespace.retry", json!({"subsystem": NQN}));
    assert_eq!(rows, json!([]), "all are available");
    for (params, kind) in [
        (json!({"subsystem": NQN, "nsid": 9}), "not_found"),
        (json!({"subsystem": "nqn.2026-01.io.x:none"}), "not_found"),
        (json!({"nsid": 1}), "invalid"),
    ] {
        assert_eq!(rig.refused("namespace.retry", params).0, kind);
    }
}

#[test]
fn lines_that_are_no_requests_are_answered() {
    let rig = Rig::new();
    for line in ["", "x", "[]", "{\"method\":1}", "{\"method\":\"status\",\"extra\":1}", "\u{ff}"] {
        let answer: Value = serde_json::from_str(&rig.control.handle(line.as_bytes())).unwrap();
        assert_eq!(answer["error"]["kind"], "bad_request", "{line}");
    }
    for method in sluice_config::Method::ALL.iter().map(|method| method.name()) {
        for params in [json!(null), json!(1), json!([{}]), json!({"nqn": {"a": [null, 1.5]}})] {
            let line = json!({ "method": method, "params": params }).to_string();
            let answer: Value = serde_json::from_str(&rig.control.handle(line.as_bytes())).unwrap();
            assert_ne!(answer["error"]["kind"], "unknown_method", "{line}");
        }
    }
}

struct Served {
    path: PathBuf,
    rig: Rig,
    server: Server,
}

fn serve() -> Served {
    let rig = Rig::new();
    let path = rig.folder.path().join("run/control.sock");
    let any = "127.0.0.1:0".parse().unwrap();
    let server = Server::spawn(rig.control.clone(), &path, Some(any)).unwrap();
    Served { path, rig, server }
}

fn ask(path: &Path, lines: &[u8]) -> Vec<Value> {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(lines).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    // A connection that is ended with some of its input unread may end with a reset.
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.map(|line| serde_json::from_str(&line).unwrap()).collect()
}

#[test]
fn the_socket_answers_line_by_line_and_goes_away_with_its_owner() {
    let served = serve();
    let mode = std::fs::metadata(&served.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let lines = br#"{"id":1,"method":"status"}

{"id":"b","method":"shutdown","params":{"now":true}}
"#;
    let answers = ask(&served.path, lines);
    assert_eq!((&answers[0]["id"], &answers[1]["id"]), (&json!(1), &json!("b")));
    assert_eq!(answers[0]["result"]["namespaces"], 1);
    assert_eq!(*served.rig.engine.ended.lock().unwrap(), Some(true));
    // Clients that stay connected do not delay the end.
    let _idle: Vec<UnixStream> =
        (0..5).map(|_| UnixStream::connect(&served.path).unwrap()).collect();
    let began = Instant::now();
    served.server.stop();
    assert!(began.elapsed() < Duration::from_secs(60));
    assert!(!served.path.exists());
}

#[test]
fn endless_lines_are_turned_away_and_silent_clients_make_room() {
    let served = serve();
    let mut stream = UnixStream::connect(&served.path).unwrap();
    let wrote = stream.write_all(&vec![b'x'; LINE_MAX + (1 << 20)]);
    let mut answer = String::new();
    let _ = BufReader::new(&stream).read_line(&mut answer);
    assert!(wrote.is_err() || answer.contains("bad_request"), "{answer}");
    let silent: Vec<UnixStream> =
        (0..CLIENTS_MAX).map(|_| UnixStream::connect(&served.path).unwrap()).collect();
    let asked = ask(&served.path, b"{\"method\":\"status\"}\n");
    assert!(asked[0]["result"].is_object(), "{asked:?}");
    silent[0].set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert_eq!((&silent[0]).read(&mut [0]).unwrap(), 0, "it is closed");
    drop(silent);
}

#[test]
fn silent_clients_do_not_keep_the_metrics_reader_away() {
    let served = serve();
    let address = served.server.metrics_address().unwrap();
    let silent: Vec<TcpStream> =
        (0..3 * CLIENTS_MAX).map(|_| TcpStream::connect(address).unwrap()).collect();
    let answer = http(address, "GET /metrics HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    drop(silent);
}

#[test]
fn a_slow_request_does_not_hold_up_others() {
    let served = serve();
    let path = served.path.clone();
    // The engine waits as long as this is held.
    let held = served.rig.engine.slow.lock().unwrap();
    let slow = std::thread::spawn(move || ask(&path, b"{\"method\":\"statistics\"}\n"));
    std::thread::sleep(Duration::from_millis(50));
    ask(&served.path, b"{\"method\":\"subsystem.list\"}\n");
    assert!(!slow.is_finished());
    drop(held);
    assert!(slow.join().unwrap()[0]["result"].is_object());
}

#[test]
fn a_long_change_gives_signs_of_life_and_a_long_look_does_not() {
    let served = serve();
    // Sends a request while the engine waits, until `is_enough` returns. Returns the whole answer.
    let line = |request: Value, is_enough: &dyn Fn(&mut UnixStream) -> String| {
        let held = served.rig.engine.slow.lock().unwrap();
        let mut stream = UnixStream::connect(&served.path).unwrap();
        stream.write_all(format!("{request}\n").as_bytes()).unwrap();
        let mut line = is_enough(&mut stream);
        drop(held);
        BufReader::new(stream).read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert!(answer["result"].is_object(), "{line}");
        line
    };
    let change = json!({"method": "host.any", "params": {"subsystem": NQN, "allow": true}});
    let changed = line(change, &|stream| {
        let mut sign = [0];
        stream.read_exact(&mut sign).unwrap();
        char::from(sign[0]).to_string()
    });
    assert!(changed.starts_with(" {") || changed.starts_with("  "), "{changed}");
    let looked = line(json!({"method": "statistics"}), &|_| {
        std::thread::sleep(Duration::from_millis(1500));
        String::new()
    });
    assert!(looked.starts_with('{'), "{looked}");
}

#[test]
fn histograms_are_told_bucket_by_bucket_where_they_are_wanted() {
    let rig = Rig::new();
    let p99 = "/classes/1/io/queueing";
    let plain = rig.ask("qos.show");
    assert_eq!(plain.pointer(p99).unwrap().get("buckets"), None);
    for method in ["qos.show", "statistics"] {
        let text = rig.call(method, json!({"buckets": true})).to_string();
        assert!(text.contains("\"buckets\":["), "{method}: {text}");
        assert_eq!(rig.refused(method, json!({"buckets": 1})).0, "invalid");
    }
    let answer = rig.call("qos.show", json!({"buckets": true}));
    let times = answer.pointer(p99).unwrap();
    let pairs: Vec<u64> =
        times["buckets"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    assert_eq!(pairs.len() % 2, 0);
    let counted: u64 = pairs.chunks(2).map(|pair| pair[1]).sum();
    let highest = pairs.chunks(2).next_back().map_or(0, |pair| pair[0]);
    assert_eq!(times["p999"].as_u64(), Some(highest), "{times}");
    assert!(counted > 0, "{times}");
}

#[test]
fn a_dead_process_is_replaced_and_a_living_one_is_not() {
    let rig = Rig::new();
    let path = rig.folder.path().join("control.sock");
    drop(UnixListener::bind(&path).unwrap());
    let server = Server::spawn(rig.control.clone(), &path, None).unwrap();
    let second = Server::spawn(rig.control.clone(), &path, None).unwrap_err();
    assert!(matches!(second, ControlError::Running { .. }), "{second}");
    assert!(ask(&path, b"{\"method\":\"status\"}\n")[0]["result"].is_object());
    drop(server);
    std::fs::write(&path, "precious").unwrap();
    let error = Server::spawn(rig.control.clone(), &path, None).unwrap_err();
    assert!(error.to_string().contains("no socket"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[test]
fn a_program_that_is_no_daemon_of_ours_is_not_called_one() {
    let rig = Rig::new();
    let path = rig.folder.path().join("control.sock");
    let foreign = UnixListener::bind(&path).unwrap();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = foreign.accept().unwrap();
        stream.write_all(b"220 mail.example ESMTP\r\n").unwrap();
    });
    let error = Server::spawn(rig.control.clone(), &path, None).unwrap_err();
    answering.join().unwrap();
    assert!(matches!(error, ControlError::Foreign { .. }), "{error}");
    assert!(path.exists(), "its socket is left alone");
}

/// Sends an HTTP request, and returns the whole answer.
fn http(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn probes_report_closed_listener_and_drain() {
    let served = serve();
    let address = served.server.metrics_address().unwrap();
    let get = |path: &str| {
        let answer = http(address, &format!("GET {path} HTTP/1.1\r\n\r\n"));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].to_owned(), body.to_owned())
    };
    let answer = |status: &str, body: &str| (status.to_owned(), body.to_owned());
    assert_eq!(get("/healthz"), answer("200", "ok\n"));
    assert_eq!(get("/readyz"), answer("200", "ready\n"));
    let engine = &served.rig.engine;
    let endpoint = engine.config.lock().unwrap().listeners[0].endpoint();
    engine.closed_listeners.lock().unwrap().insert(endpoint, "no RDMA device".into());
    let closed = "listener 127.0.0.1:4420: closed: no RDMA device\n";
    assert_eq!(get("/readyz"), answer("503", closed));
    assert_eq!(get("/healthz"), answer("200", "ok\n"), "the daemon itself works");
    engine.closed_listeners.lock().unwrap().clear();
    assert_eq!(get("/readyz"), answer("200", "ready\n"));
    served.rig.ask("shutdown");
    let ending = "the daemon is ending: it accepts no new commands\n";
    assert_eq!(get("/readyz"), answer("503", ending));
    assert_eq!(get("/healthz"), answer("200", "ok\n"));
}

#[test]
fn metrics_are_served_over_http() {
    let served = serve();
    let address = served.server.metrics_address().unwrap();
    let get = |request: &str| http(address, request);
    let plain = get("GET /metrics HTTP/1.1\r\nAccept: text/plain\r\n\r\n");
    let (head, body) = plain.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    assert!(body.contains("# TYPE sluicegate_connections_accepted_total counter\n"), "{body}");
    assert!(!body.contains("# EOF"), "{body}");
    let accept = "Accept: application/openmetrics-text;version=1.0.0";
    let answer = get(&format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{accept}\r\n\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(head.contains("application/openmetrics-text"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    assert!(body.contains("sluicegate_connections_accepted_total 5"), "{body}");
    assert!(body.ends_with("# EOF\n"));
    assert!(get("GET /x HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    let other = served.path.with_file_name("other.sock");
    let error = Server::spawn(served.rig.control.clone(), &other, Some(address));
    assert!(matches!(error.unwrap_err(), ControlError::Metrics { .. }));
}

#[test]
fn the_configuration_that_runs_is_a_file_that_makes_the_same_target() {
    let rig = Rig::new();
    rig.call("session.add", json!({"name": "gold", "iops": 9000}));
    let shown = rig.ask("config.show");
    let text = shown["text"].as_str().unwrap();
    assert!(text.contains("iops = 9000"), "live changes are in it: {text}");
    let again = parse(text).unwrap();
    assert_eq!(sluice_config::render(&again), text);
}

#[test]
fn a_full_disk_does_not_stop_a_start_that_drops_live_changes() {
    let rig = Rig::new();
    rig.call("subsystem.add", json!({"nqn": "nqn.2026-01.io.x:live"}));
    rig.call("subsystem.remove", json!({"nqn": NQN}));
    rig.store.set_full(true);
    // The entry that was removed live has changed in the file, and counts again.
    let edited = parse(&FILE.replace("1 MiB", "2 MiB")).unwrap();
    assert_ne!(edited, parse(FILE).unwrap());
    let (live, warnings) = Live::open(edited.clone(), rig.store.clone()).unwrap();
    assert_eq!(live.current().subsystems.len(), edited.subsystems.len() + 1);
    assert!(warnings.iter().any(|w| w.contains("stay in the state file")), "{warnings:?}");
    drop(live);
    assert_eq!(rig.store.objects().unwrap().len(), 2);
    rig.store.set_full(false);
    let _ = Live::open(edited, rig.store.clone()).unwrap();
    assert_eq!(rig.store.objects().unwrap().len(), 1);
}

/// A secret that must not be logged.
const SECRET: &str = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";

/// Returns the lines that `act` logs.
pub(super) fn logged(act: impl FnOnce()) -> String {
    let mut file = tempfile::tempfile().unwrap();
    let writer = Arc::new(file.try_clone().unwrap());
    let log = tracing_subscriber::fmt().with_ansi(false).with_writer(writer);
    tracing::subscriber::with_default(log.finish(), act);
    file.rewind().unwrap();
    std::io::read_to_string(file).unwrap()
}

#[test]
fn who_may_look_changes_nothing_and_each_change_has_a_line_with_its_maker() {
    let rig = Rig::new();
    let before = rig.check_agreement();
    let ask = |method: &str, params: Value, caller: &Caller| -> Value {
        let line = json!({ "id": 7, "method": method, "params": params }).to_string();
        serde_json::from_str(&rig.control.handle_of(line.as_bytes(), caller)).unwrap()
    };
    let added = json!({"subsystem": NQN, "backend": "null", "size": "8 KiB"});
    let text = logged(|| {
        for method in Method::ALL.iter().filter(|method| method.changes()) {
            let answer = ask(method.name(), json!({}), &Caller::looker());
            assert_eq!(answer["error"]["kind"], "denied", "{}: {answer}", method.name());
        }
        let answer = ask("namespace.add", added.clone(), &Caller::looker());
        assert_eq!(answer["error"]["kind"], "denied");
        for method in ["status", "host.list", "qos.show", "statistics", "connections"] {
            assert!(ask(method, json!({}), &Caller::looker()).get("error").is_none(), "{method}");
        }
        assert_eq!(rig.check_agreement(), before);
        assert!(ask("namespace.add", added.clone(), &Caller::own()).get("error").is_none());
        assert!(ask("namespace.add", json!({}), &Caller::own()).get("error").is_some());
        let mut other = Caller::own();
        other.uid = 4321;
        let slip = json!({"subsystem": NQN, "host": SECRET});
        assert!(ask("host.add", slip, &other).get("error").is_some());
    });
    assert!(
        text.contains("host.add") && !text.contains(&SECRET[..20]),
        "a secret is logged: {text}"
    );
    let of = |part: &str| text.lines().filter(|line| line.contains(part)).collect::<Vec<_>>();
    let [made] = of("changed by the control socket")[..] else { panic!("{text}") };
    let own = format!("uid={}", nix::unistd::geteuid());
    for part in [own.as_str(), "namespace.add", "8 KiB"] {
        assert!(made.contains(part), "{part}: {made}");
    }
    let refused = of("a change was refused");
    let changing = Method::ALL.iter().filter(|method| method.changes()).count();
    let left_out = usize::try_from(rig.control.audit.left_out()).unwrap();
    assert!(left_out > 0, "a user that goes on asking has no line for each try");
    assert_eq!(refused.len() + left_out, changing + 3, "each is counted: {text}");
    let of_own = refused.iter().filter(|line| line.contains(&own)).count();
    assert_eq!(of_own, 1, "another user has lines of its own: {text}");
    assert!(of("status").is_empty(), "who looks has no line: {text}");
}

#[test]
fn the_socket_is_of_the_group_that_is_named() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.sock");
    // A group that this process is in may own its files, root or not.
    let group = nix::unistd::getegid();
    let (_socket, _file) = super::socket::listen(&path, Some(group)).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().gid(), group.as_raw());
    if nix::unistd::geteuid().is_root() {
        let other = nix::unistd::Gid::from_raw(12_345);
        let path = folder.path().join("other.sock");
        let (_socket, _file) = super::socket::listen(&path, Some(other)).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().gid(), 12_345);
    }
}

#[test]
fn a_removed_namespace_leaves_neither_its_identity_nor_its_number_to_another() {
    let rig = Rig::new();
    let add = || rig.add_disk()["nsid"].as_u64().unwrap();
    let remove = |nsid: u64| rig.call("namespace.remove", json!({"subsystem": NQN, "nsid": nsid}));
    assert_eq!((add(), add()), (2, 3));
    remove(2);
    assert_eq!(*rig.engine.removed.lock().unwrap(), [(NQN.to_owned(), 2)].into());
    assert_eq!(add(), 4);
    let again = json!({"subsystem": NQN, "nsid": 2, "backend": "null", "size": "8 KiB"});
    rig.call("namespace.add", again);
    // With no other left, a number is used again.
    let all = (1..=u32::from(u16::MAX)).map(|nsid| (NQN.to_owned(), nsid));
    rig.engine.removed.lock().unwrap().extend(all);
    assert_eq!(add(), 5);
    rig.call("subsystem.remove", json!({"nqn": NQN}));
    assert!(rig.engine.removed.lock().unwrap().is_empty());
}
