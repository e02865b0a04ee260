use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/predict").join(name)
}

fn options(json: bool) -> Options {
    let socket = Some("/nowhere/control.sock".into());
    Options { socket, timeout: Duration::from_secs(5), json }
}

/// Predicts, and returns the results as JSON.
fn json(args: &Args) -> Value {
    serde_json::from_str(&run(args, &options(true)).unwrap().text).unwrap()
}

/// Makes the arguments of a short prediction on the configuration and the drive that ship.
fn args(load: PathBuf) -> Args {
    Args {
        load,
        config: Some(shipped("sluicegate.toml")),
        devices: vec![shipped("drive.toml")],
        beside: None,
        time: Duration::from_millis(40),
        warmup: Duration::from_millis(20),
        seed: 1,
        write: None,
        html: None,
    }
}

/// Makes the arguments of a short prediction of one host's load on a configuration, and their files.
fn written(config: &str, load: &str) -> (TempDir, Args) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("config.toml"), config).unwrap();
    std::fs::write(path("load.toml"), load).unwrap();
    let (config, devices) = (Some(path("config.toml")), Vec::new());
    let args = Args { config, devices, ..args(path("load.toml")) };
    (folder, args)
}

/// Writes a load of a host on a namespace of the disk, with these lines more.
fn load_table((host, nsid, more): &(&str, u32, &str)) -> String {
    format!("[[load]]\nhost = 'nqn.x:{host}'\nnamespace = 'nqn.x:disk/{nsid}'\n{more}\n")
}

#[test]
fn what_ships_is_predicted_by_host_class_and_session() {
    let text = run(&args(shipped("load.toml")), &options(false)).unwrap().text;
    assert_eq!(text, run(&args(shipped("load.toml")), &options(false)).unwrap().text);
    for row in ["database  high", "files     medium", "backup    low"] {
        assert!(text.contains(&format!("nqn.2026-01.com.example:{row}")), "{row}: {text}");
    }
    let json = json(&args(shipped("tenants.toml")));
    let host = &json["hosts"][0];
    assert_eq!((host["hosts"].as_u64(), host["session"].as_str()), (Some(20), Some("tenants")));
    assert_eq!(json["sessions"][0]["session"], "tenants");
    let iops = host["predicted"]["iops"].as_f64().unwrap();
    assert!((75_000.0..85_000.0).contains(&iops), "{iops}");
    assert!(host.get("measured").is_none(), "no daemon was watched");
}

#[test]
fn the_scenario_that_is_written_is_the_one_that_was_run() {
    let folder = tempfile::tempdir().unwrap();
    let (scenario, page) = (folder.path().join("s.toml"), folder.path().join("p.html"));
    let (write, html) = (Some(scenario.clone()), Some(page.clone()));
    let all = Args { write, html, ..args(shipped("load.toml")) };
    let predicted = run(&all, &options(false)).unwrap().text;
    let text = std::fs::read_to_string(&scenario).unwrap();
    let scenario = Scenario::parse(&text).unwrap();
    let outcome = simulate(&scenario, scenario.plan(1, Path::new(".")).unwrap()).unwrap();
    let row = &outcome.rows[0];
    let rate = format!("{:.0}", row.commands as f64 / outcome.seconds);
    assert!(predicted.contains(&rate), "{rate}: {predicted}");
    assert!(std::fs::read_to_string(page).unwrap().contains("nqn.2026-01.com.example:backup"));
}

const CONFIG: &str = "
[target]
queue_depth = 64
max_transfer = '128 KiB'
[qos]
credits = 65536
payload = '64 MiB'
[[session]]
name = 'gold'
parent = 'house'
iops = 5000
reserve = { commands = 100, namespace = 'nqn.x:disk/2' }
[[session]]
name = 'house'
bandwidth = '1 GB'
[[policy]]
host = 'nqn.x:web'
session = 'gold'
[[subsystem]]
nqn = 'nqn.x:disk'
[[subsystem.namespace]]
nsid = 1
backend = 'file'
path = '/x'
[[subsystem.namespace]]
nsid = 2
backend = 'null'
size = '32 KiB'
service_time = '1 ms'
bandwidth = '100 MB'
channels = 4
";

/// Makes the scenario of loads, each with these lines more than its host and namespace.
fn made(config: &str, known: &Known, loads: &[(&str, u32, &str)]) -> Result<toml::Table, String> {
    let loads = load::parse(&loads.iter().map(load_table).collect::<String>()).unwrap();
    let times = Times { warmup: Duration::ZERO, duration: Duration::from_millis(1) };
    let config = config::parse(config).unwrap();
    let made = scenario::make(&config, &loads, known, times).map_err(|e| format!("{e:#}"))?;
    let scenario = Scenario::parse(&made.text).map_err(|error| error.to_string())?;
    scenario.plan(1, Path::new(".")).map_err(|error| error.to_string())?;
    Ok(toml::from_str(&made.text).unwrap())
}

#[test]
fn a_scenario_has_what_the_configuration_says() {
    let loads =
        [("web", 2, "depth = 8"), ("db", 2, "depth = 8"), ("web", 2, "rate = 50\ndepth = 8")];
    let scenario = made(CONFIG, &Known::default(), &loads).unwrap();
    let tables = |key: &str| scenario[key].as_array().unwrap();
    // Parents go before their children, and a reservation names its namespace by its number.
    let names: Vec<&str> =
        tables("session").iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["house", "gold", "nqn.x:disk", "nqn.x:disk/2"]);
    assert_eq!(tables("session")[1]["reserve"]["namespace"].as_integer(), Some(1));
    assert_eq!(tables("session")[3]["parent"].as_str(), Some("nqn.x:disk"));
    // Credits are counted only where the daemon counts them.
    assert!(scenario["qos"].get("credits").is_none() && scenario["qos"].get("payload").is_some());
    // Loads of a host that the target does not tell apart are one host's.
    let hosts = tables("host");
    assert_eq!((hosts.len(), hosts[0]["load"].as_array().unwrap().len()), (2, 2));
    assert_eq!(hosts[0]["queues"].as_integer(), Some(2));
    // The model that the configuration describes: 4 KiB take 41 us on its way.
    let profile = &tables("namespace")[0]["profile"];
    assert_eq!(profile["parallelism"].as_integer(), Some(4));
    assert_eq!(profile["read"]["least"].as_str(), Some("915960 ns"));
    assert_eq!(profile["read"]["per_kib"].as_str(), Some("10240 ns"));
    let off = made(&CONFIG.replace("[qos]", "[qos]\nenabled = false"), &Known::default(), &loads);
    let off = off.unwrap();
    assert_eq!(off["qos"]["window"].as_str(), Some("off"));
    assert!(off["session"].as_array().unwrap().iter().all(|one| one.get("iops").is_none()));
}

#[test]
fn limits_of_reads_and_writes_and_of_profiles_are_predicted() {
    let profile = "[[profile]]\nname = 'p'\niops = 4000\nread_iops = 1000\niops_per_gib = 5\n";
    let session = "iops = 5000\nwrite_bandwidth = '1 MiB/s'\nburst = '2 s'\nprofile = 'p'";
    let config = CONFIG.replace("iops = 5000", session) + profile;
    let load = ("web", 2, "depth = 8");
    let scenario = made(&config, &Known::default(), &[load]).unwrap();
    let gold = &scenario["session"][1];
    let numbers = ["iops", "read_iops"].map(|key| gold[key].as_integer());
    assert_eq!(numbers, [Some(5000), Some(1000)], "a session's own limit counts");
    let texts = ["name", "write_bandwidth", "burst"].map(|key| gold[key].as_str());
    assert_eq!(texts, [Some("gold"), Some("1 MiB/s"), Some("2 s")]);

    let (_files, args) = written(&config.replace("burst = '2 s'", ""), &load_table(&load));
    let json = json(&args);
    // Without the limit, a thousand reads on each of four channels.
    let iops = json["hosts"][0]["predicted"]["iops"].as_f64().unwrap();
    assert!((900.0..1100.0).contains(&iops), "{iops}");
    assert!(json["notes"].to_string().contains("per GiB of session gold"), "{json}");
}

#[test]
fn a_load_over_rdma_is_a_host_over_rdma_and_is_predicted() {
    let listeners = "[[listener]]\naddress = '10.0.0.1:4420'\n\
                     [[listener]]\naddress = '10.0.0.1:4420'\ntransport = 'rdma'\n";
    let config = CONFIG.replace("[qos]", "rdma_in_capsule_data = '2 KiB'\n[qos]") + listeners;
    let (rdma, tcp) = ("depth = 8\ntransport = 'rdma'", "depth = 8\ntransport = 'tcp'");
    let loads = [("web", 2, rdma), ("db", 2, tcp)];
    let scenario = made(&config, &Known::default(), &loads).unwrap();
    let hosts = scenario["host"].as_array().unwrap();
    assert_eq!(hosts[0].get("transport").and_then(toml::Value::as_str), Some("rdma"));
    assert!(hosts[1].get("transport").is_none());
    assert_eq!(scenario["target"]["rdma_in_capsule_data"].as_str(), Some("2 KiB"));
    let error = made(&config, &Known::default(), &[("web", 2, rdma), ("web", 2, tcp)]).unwrap_err();
    assert!(error.contains("`load 2.transport`") && error.contains("for all of its"), "{error}");

    let load = load_table(&("db", 2, "depth = 4\ntransport = 'rdma'"));
    let (_files, args) = written(&config, &load);
    let json = json(&args);
    // Four channels, a millisecond each.
    let iops = json["hosts"][0]["predicted"]["iops"].as_f64().unwrap();
    assert!((3600.0..4100.0).contains(&iops), "{iops}");
    assert!(json["notes"].to_string().contains("have DCQCN"), "{json}");
}

#[test]
fn a_device_is_what_a_file_says_or_what_was_measured() {
    let profile = json!({ "parallelism": 7 });
    let row = json!({ "subsystem": "nqn.x:disk", "nsid": 1, "profile": profile });
    let row: DeviceRow = serde_json::from_value(row).unwrap();
    let file = |of: &str| {
        let text = format!("{of}\nparallelism = 9\nread = {{ mean = '50 us' }}");
        DeviceProfile::parse(&text).unwrap()
    };
    for (files, measured, parallelism) in [
        (vec![], vec![row.clone()], 7),
        (vec![file("namespace = 'nqn.x:disk/1'")], vec![row.clone()], 9),
        (vec![file("namespace = 'nqn.x:disk/2'")], vec![row], 7),
        (vec![file("")], vec![], 9),
    ] {
        let known = Known { files, measured, ..Known::default() };
        let scenario = made(CONFIG, &known, &[("db", 1, "depth = 8")]).unwrap();
        let profile = &scenario["namespace"][0]["profile"];
        assert_eq!(profile["parallelism"].as_integer(), Some(parallelism));
    }
}

#[test]
fn what_the_target_does_not_take_names_its_key_and_the_remedy() {
    for (load, key, says) in [
        ((1, "depth = 8"), "nqn.x:disk/1", "--device"),
        ((2, "depth = 64"), "`load 1.depth`", "at most 63"),
        ((2, "depth = 8\nbs = '256k'"), "`load 1.bs`", "max_transfer"),
        ((2, "depth = 8\nbs = '64k'"), "`load 1.bs`", "has 32768"),
        ((3, "depth = 8"), "`load 1.namespace`", "nqn.x:disk/1, nqn.x:disk/2"),
    ] {
        let error = made(CONFIG, &Known::default(), &[("web", load.0, load.1)]).unwrap_err();
        assert!(error.contains(key) && error.contains(says), "{key}, {says}: {error}");
    }
    let refused = |args: &Args| format!("{:#}", run(args, &options(false)).unwrap_err());
    let error = refused(&args("/nowhere/load.toml".into()));
    assert!(error.contains("/nowhere/load.toml"), "{error}");
    let devices = vec![shipped("load.toml")];
    let error = refused(&Args { devices, ..args(shipped("load.toml")) });
    assert!(error.contains("in the device") && error.contains("parallelism"), "{error}");
}

#[test]
fn times_are_as_exact_as_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("s.toml");
    let (time, warmup) = (Duration::from_nanos(20_000_500), Duration::from_micros(1500));
    let write = Some(written.clone());
    let short = Args { time, warmup, write, ..args(shipped("load.toml")) };
    run(&short, &options(false)).unwrap();
    let scenario: toml::Table = std::fs::read_to_string(written).unwrap().parse().unwrap();
    assert_eq!(scenario["duration"].as_str(), Some("20000500 ns"));
    assert_eq!(scenario["warmup"].as_str(), Some("1500 us"));
    let long = Args { time: Duration::from_secs(7200), ..short };
    let error = format!("{:#}", run(&long, &options(false)).unwrap_err());
    assert!(error.contains("--time"), "{error}");
}

/// The configuration of a file that the tests give with `--config`: a drive whose times it does not name.
const DRIVE: &str = "[[subsystem]]\nnqn = 'nqn.x:disk'\n[[subsystem.namespace]]\nbackend = 'block'\n\
                     path = '/dev/nvme0n1'\n";

/// Starts a daemon that answers one client: it has this configuration, and has measured its device.
fn daemon(socket: &Path, text: String) {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut writer = stream.try_clone().unwrap();
        let times = json!({ "mean_ns": 80_000, "per_kib_ns": 0 });
        let profile = json!({ "parallelism": 8, "read": times, "write": times });
        let row = json!({ "subsystem": "nqn.x:disk", "nsid": 1, "profile": profile });
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let request: Value = serde_json::from_str(&line).unwrap();
            let result = match request["method"].as_str().unwrap() {
                "config.show" => json!({ "text": text }),
                _ => json!({ "devices": [row] }),
            };
            writeln!(writer, "{}", json!({ "id": 1, "result": result })).unwrap();
        }
    });
}

#[test]
fn another_configuration_has_what_the_daemon_has_measured_of_the_same_device() {
    let load = load_table(&("web", 1, "depth = 32"));
    let (folder, next) = written(&format!("[qos]\nwindow = 4\n{DRIVE}"), &load);
    let path = |name: &str| folder.path().join(name);
    let predict = |socket: &str| {
        let options = Options { socket: Some(path(socket)), ..options(true) };
        run(&next, &options).map(|made| made.text).map_err(|error| format!("{error:#}"))
    };
    daemon(&path("same"), DRIVE.to_owned());
    let json: Value = serde_json::from_str(&predict("same").unwrap()).unwrap();
    // The window of the file on the device of the daemon: 4 commands in 80 us.
    let iops = json["hosts"][0]["predicted"]["iops"].as_f64().unwrap();
    assert!((45_000.0..55_000.0).contains(&iops), "{iops}");
    assert!(json["notes"][0].as_str().unwrap().contains("the running daemon"), "{json}");
    daemon(&path("other"), DRIVE.replace("nvme0n1", "nvme1n1"));
    let error = predict("other").unwrap_err();
    assert!(error.contains("nqn.x:disk/1") && error.contains("let hosts work on it"), "{error}");
    let error = predict("nobody").unwrap_err();
    assert!(error.contains("--config needs --device"), "{error}");
    assert!(!error.contains("let hosts work on it"), "{error}");
}
