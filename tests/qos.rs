//! Quality of service of the real daemon, measured by the real benchmark, on a device that is slower than the load:
//! `null` with a service time. Throughput of one reactor is measured on virtual time.

use std::fmt::Write as _;
use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use e2e::daemon;
use serde_json::Value;

const NQN: &str = "nqn.2026-01.io.sluicegate:qos";
const CLASSES: [&str; 3] = ["high", "medium", "low"];
const WEIGHTS: [f64; 3] = [3.0, 2.0, 1.0];

/// A daemon with a listener for each class.
struct Daemon {
    daemon: daemon::Daemon,
    listeners: [SocketAddr; CLASSES.len()],
}

impl Daemon {
    /// Starts a target: `qos` is what `[qos]` holds, `device` the settings of the namespace, `rest`
    /// more tables.
    fn start(cores: &str, qos: &str, device: &str, rest: &str) -> Result<Self> {
        let mut text = format!("[qos]\n{qos}\n");
        let listeners: [_; CLASSES.len()] = daemon::free_addresses()?;
        for (address, class) in listeners.iter().zip(CLASSES) {
            write!(text, "[[listener]]\naddress = \"{address}\"\nclass = \"{class}\"\n")?;
        }
        write!(
            text,
            "[[subsystem]]\nnqn = \"{NQN}\"\nallow_any_host = true\n[[subsystem.namespace]]\n\
             nsid = 1\nbackend = \"null\"\nsize = \"1 TiB\"\n{device}\n{rest}\n"
        )?;
        let daemon = daemon::Daemon::start(&format!("cores = {cores}"), &text)?;
        Ok(Self { daemon, listeners })
    }

    /// Runs jobs (as `--job` takes them) side by side, and returns the report.
    fn bench(&self, time: &str, jobs: &[String]) -> Result<Value> {
        Ok(serde_json::from_str(&e2e::output(&mut self.daemon.bench(NQN, time, jobs))?)?)
    }

    /// Returns the answer to a command of `sluice`.
    fn sluice(&self, arguments: &[&str]) -> Result<Value> {
        self.daemon.sluice(arguments)
    }
}

fn number(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or(f64::NAN)
}

fn iops(report: &Value, job: usize) -> f64 {
    number(report, &format!("/jobs/{job}/reads/iops"))
}

/// Checks that each job's share of the commands or bytes is the weight's, within `tolerance`, a part of it.
fn assert_shares(what: &str, report: &Value, unit: &str, tolerance: f64) {
    for (job, class) in CLASSES.iter().enumerate() {
        let at = |leaf: &str| number(report, &format!("/shares/jobs/{job}/{leaf}"));
        let (share, error) = (at(&format!("{unit}/share")), at(&format!("{unit}/error")));
        let configured = at("configured");
        println!("{what}: {class} {share:.4}, configured {configured:.4}");
        assert!(error.abs() <= tolerance, "{what}: {class} is off by {error:+.4}");
    }
}

/// Returns the periods of a session's reservation with demand, and the number of those kept.
fn reserved_periods(daemon: &Daemon, session: &str) -> Result<(f64, f64)> {
    let state = daemon.sluice(&["qos", "show"])?;
    let sessions = state.get("sessions").and_then(Value::as_array).context("there are sessions")?;
    let named = |one: &&Value| one.get("name").is_some_and(|name| name == session);
    let one = sessions.iter().find(named).context("the session is shown")?;
    Ok((number(one, "/reserve/periods"), number(one, "/reserve/kept")))
}

/// Returns whether a number is within `tolerance` of another, as a part of that.
fn is_near(number: f64, expected: f64, tolerance: f64) -> bool {
    (number / expected - 1.0).abs() <= tolerance
}

/// The device's rate is 4,000 commands per second in all: far less than a busy machine can do.
const SLOW: &str = "service_time = \"1 ms\"\nchannels = 4\n";

/// Returns a job for each class with its weight, on a listener, with more keys.
fn weighted_jobs(
    listeners: [SocketAddr; CLASSES.len()],
    weights: [f64; CLASSES.len()],
    more: [&str; CLASSES.len()],
) -> Vec<String> {
    let classes = CLASSES.iter().zip(weights).zip(listeners).zip(more);
    let job = |(((name, weight), address), more)| {
        format!("name={name},address={address},weight={weight},depth=64{more}")
    };
    classes.map(job).collect()
}

#[test]
#[ignore = "make test-long: kernel hosts do it in the scenario qos-classes"]
fn e5_three_classes_share_a_device_by_weight() -> Result<()> {
    e2e::on_virtual_time("e5_three_classes_share_a_device_by_weight", || {
        let daemon = Daemon::start("[0]", "window = 4", SLOW, "")?;
        let report = daemon.bench("2s", &weighted_jobs(daemon.listeners, WEIGHTS, [""; 3]))?;
        assert_shares("listeners", &report, "commands", 0.01);
        Ok(())
    })
}

#[test]
fn trace_names_the_bandwidth_limit_of_a_session() -> Result<()> {
    e2e::on_virtual_time("trace_names_the_bandwidth_limit_of_a_session", || {
        let limited = format!(
            "[[session]]\nname = \"backup\"\nbandwidth = \"8 MiB/s\"\n\
             [[policy]]\nsubsystem = \"{NQN}\"\nsession = \"backup\"\n"
        );
        let device = "service_time = \"100 us\"\nchannels = 4\n";
        let daemon = Daemon::start("[0]", "window = 32", device, &limited)?;
        let address = daemon.listeners[0];
        let namespace = format!("{NQN}/1");
        let job = [format!("name=a,address={address},depth=32")];
        let report = std::thread::scope(|scope| {
            let load = scope.spawn(|| daemon.bench("4s", &job));
            std::thread::sleep(std::time::Duration::from_secs(2));
            let arguments = ["trace", "--time", "1s", "--class", "high", "--namespace", &namespace];
            let report = daemon.sluice(&arguments);
            load.join().map_err(|_| anyhow::anyhow!("the load failed"))??;
            report
        })?;
        // 2,048 commands of 4 KiB in each second, each of which waits for 31 others.
        let commands = number(&report, "/commands");
        assert!(is_near(commands, 2048.0, 0.05), "{report:#}");
        let parts = report.get("parts").and_then(Value::as_array).context("there are parts")?;
        let longest = parts.first().context("there is a part")?;
        assert_eq!(
            (&longest["part"], &longest["session"]),
            (&"bandwidth".into(), &"backup".into())
        );
        let (limit, all) = (number(longest, "/ns"), number(&report, "/total_ns"));
        assert!(limit > 0.95 * all, "{report:#}");
        let sum: f64 = parts.iter().map(|part| number(part, "/ns")).sum();
        assert!(is_near(sum, all, 1e-9), "the parts are the whole: {report:#}");
        Ok(())
    })
}

#[test]
fn e6_classes_in_the_commands_share_by_bytes() -> Result<()> {
    e2e::on_virtual_time("e6_classes_in_the_commands_share_by_bytes", || {
        let device = "service_time = \"500 us\"\nbandwidth = \"20 MB\"\nchannels = 2\n";
        let daemon = Daemon::start("[0]", "window = 4\nunit = \"bytes\"", device, "")?;
        // All connections are on the low listener; the classes are in the commands, of three sizes.
        let more = [",class=high,bs=4k", ",class=medium,bs=64k", ",class=none,bs=16k"];
        let jobs = weighted_jobs([daemon.listeners[2]; 3], WEIGHTS, more);
        let report = daemon.bench("3s", &jobs)?;
        assert_shares("bytes", &report, "bytes", 0.01);
        // The commands were counted by class.
        let state = daemon.sluice(&["qos", "show"])?;
        for (index, class) in CLASSES.iter().enumerate() {
            let classes = state["classes"].as_array().context("there are classes")?;
            let counted = classes.iter().find(|entry| entry["class"] == *class);
            let counted = counted.map_or(0.0, |entry| number(entry, "/io/read/operations"));
            let done = number(&report, &format!("/jobs/{index}/reads/commands"));
            assert!(counted >= done, "{class}");
        }
        Ok(())
    })
}

#[test]
fn e5_the_priority_class_of_connect_counts_under_weighted_round_robin() -> Result<()> {
    e2e::on_virtual_time(
        "e5_the_priority_class_of_connect_counts_under_weighted_round_robin",
        || {
            let daemon = Daemon::start("[0]", "window = 4", SLOW, "")?;
            // All connections are on the high listener, with CC.AMS set: CATTR decides.
            let more = [",prioclass=high", ",prioclass=medium", ",prioclass=low"];
            let jobs = weighted_jobs([daemon.listeners[0]; 3], WEIGHTS, more);
            assert_shares("priority class", &daemon.bench("2s", &jobs)?, "commands", 0.01);
            Ok(())
        },
    )
}

#[test]
#[ignore = "make test-long: `qos-live` changes weights under real hosts"]
fn e5_work_is_conserved_and_weights_change_live() -> Result<()> {
    e2e::on_virtual_time("e5_work_is_conserved_and_weights_change_live", || {
        let daemon = Daemon::start("[0]", "window = 4", SLOW, "")?;
        let job = |n: usize, more: &str| {
            format!("name={},address={},depth=64{more}", CLASSES[n], daemon.listeners[n])
        };
        // The host of High asks for a hundredth of the device.
        let report = daemon.bench("1s", &[job(2, ""), job(0, ",rate=40")])?;
        let (low, high) = (iops(&report, 0), iops(&report, 1));
        println!("Low beside an idle High: {low:.0} IOPS of 3960, High {high:.0} of 40");
        ensure!(is_near(low, 3960.0, 0.01), "Low gets {low:.0} of 3960 IOPS while High is idle");
        daemon.sluice(&["qos", "set", "--weights", "1,1,6"])?;
        let jobs = weighted_jobs(daemon.listeners, [1.0, 1.0, 6.0], [""; 3]);
        assert_shares("1:1:6", &daemon.bench("2s", &jobs)?, "commands", 0.01);
        Ok(())
    })
}

#[test]
fn d1_limits_and_reservations_hold_on_sockets() -> Result<()> {
    e2e::on_virtual_time("d1_limits_and_reservations_hold_on_sockets", || {
        let sessions = format!(
            "[[session]]\nname = \"capped\"\niops = 250\n\
             [[session]]\nname = \"promised\"\n\
             reserve = {{ commands = 750, period = \"500 ms\", namespace = \"{NQN}/1\" }}\n\
             [[policy]]\nhost = \"nqn.2026-01.io.x:capped\"\nsession = \"capped\"\n\
             [[policy]]\nhost = \"nqn.2026-01.io.x:promised\"\nsession = \"promised\"\n"
        );
        let daemon = Daemon::start("[0]", "window = 4", SLOW, &sessions)?;
        let low = daemon.listeners[2];
        let high = daemon.listeners[0];
        let jobs = [
            format!("name=flood,address={high},depth=128,connections=4"),
            format!("name=capped,address={high},hostnqn=nqn.2026-01.io.x:capped,depth=32"),
            format!("name=promised,address={low},hostnqn=nqn.2026-01.io.x:promised,depth=32"),
        ];
        let before = reserved_periods(&daemon, "promised")?;
        let report = daemon.bench("3s", &jobs)?;
        let (flood, capped, promised) = (iops(&report, 0), iops(&report, 1), iops(&report, 2));
        let all = flood + capped + promised;
        println!(
            "flood {flood:.0}, capped {capped:.0} of 250, promised {promised:.0} of 1500; in all {all:.0}"
        );
        // Reserved commands go first at times: a turn that comes later than by a command's time at the limit is lost.
        ensure!(
            (0.97 * 250.0..=1.01 * 250.0).contains(&capped),
            "{capped:.0} IOPS at a limit of 250"
        );
        // The host of the lowest class has a quarter of the device beside one of the highest.
        ensure!(promised >= 0.99 * 1500.0, "{promised:.0} IOPS of 1500 that are reserved");
        ensure!(is_near(all, 4000.0, 0.01), "{all:.0} IOPS of 4000 while hosts want more");
        let after = reserved_periods(&daemon, "promised")?;
        let (periods, kept) = (after.0 - before.0, after.1 - before.1);
        println!("{kept} of {periods} periods kept");
        // The first and the last period have demand for a part only.
        ensure!(periods >= 6.0 && kept >= periods - 2.0, "{kept} of {periods} periods kept");
        // A reservation of more than there is is refused, with the rest that is free.
        let reserve = format!("qos reserve capped --commands 4000 --period 1s --namespace {NQN}/1");
        let refused = daemon.sluice(&reserve.split(' ').collect::<Vec<_>>());
        let message = refused.err().map(|error| error.to_string()).unwrap_or_default();
        println!("{message}");
        assert!(message.contains("left") || message.contains("fit"), "{message}");
        Ok(())
    })
}

/// The time of a disk with a head is divided as reserved, for any order of its commands and any load of others.
#[test]
fn f3_reservations_of_a_disk_hold_on_sockets() -> Result<()> {
    e2e::on_virtual_time("f3_reservations_of_a_disk_hold_on_sockets", || {
        let sessions = format!(
            "[[session]]\nname = \"promised\"\n\
             reserve = {{ commands = 40, period = \"1 s\", namespace = \"{NQN}/1\" }}\n\
             [[policy]]\nhost = \"nqn.2026-01.io.x:promised\"\nsession = \"promised\"\n"
        );
        for order in ["fair", "containers"] {
            let device = format!(
                "service_time = \"8 ms\"\nworst_time = \"14 ms\"\nseeks = true\norder = \"{order}\"\n"
            );
            let daemon = Daemon::start("[0]", "window = 32", &device, &sessions)?;
            let (high, low) = (daemon.listeners[0], daemon.listeners[2]);
            let jobs = [
                format!("name=flood,address={high},depth=64,connections=4"),
                format!("name=promised,address={low},hostnqn=nqn.2026-01.io.x:promised,depth=4"),
            ];
            let before = reserved_periods(&daemon, "promised")?;
            let report = daemon.bench("4s", &jobs)?;
            let (flood, promised) = (iops(&report, 0), iops(&report, 1));
            let after = reserved_periods(&daemon, "promised")?;
            let (periods, kept) = (after.0 - before.0, after.1 - before.1);
            println!(
                "{order}: flood {flood:.0}, promised {promised:.1} of 40, {kept} of {periods}"
            );
            // The host has the lowest class, and all its periods but the first and last are kept.
            ensure!(promised >= 0.99 * 40.0, "{promised:.1} of 40 a second");
            ensure!(periods >= 4.0 && kept >= periods - 1.0, "{kept} of {periods} periods kept");
            let all = flood + promised;
            ensure!(is_near(all, 125.0, 0.01), "{all:.1} IOPS of 125 while hosts want more");
        }
        Ok(())
    })
}

/// Without a network that marks, the configured capacity tells when the link is full.
#[test]
fn e7_classes_share_a_link_of_given_capacity() -> Result<()> {
    e2e::on_virtual_time("e7_classes_share_a_link_of_given_capacity", || {
        let network = "[network]\ncapacity = \"800 Mbit/s\"\n";
        let daemon = Daemon::start("[0]", "", "", network)?;
        let shares = |way: &str, kind: &str| {
            let job = |(class, address): (&&str, &SocketAddr)| {
                format!("name={class},address={address},rw={way},bs=128k,depth=8")
            };
            let jobs: Vec<String> = CLASSES.iter().zip(&daemon.listeners).map(job).collect();
            let report = daemon.bench("2s", &jobs)?;
            let rate = |job: usize| number(&report, &format!("/jobs/{job}/{kind}/iops"));
            let total: f64 = (0..3).map(rate).sum();
            let mbits = total * 8.0 * 131_072.0 / 1e6;
            println!("{way}: {mbits:.0} Mbit/s, {:.0} : {:.0} : {:.0}", rate(0), rate(1), rate(2));
            ensure!((640.0..840.0).contains(&mbits), "{way}: {mbits} Mbit/s of payload");
            for (job, weight) in WEIGHTS.iter().enumerate() {
                let off = rate(job) / (total * weight / 6.0) - 1.0;
                ensure!(off.abs() < 0.1, "{way}: {} is {:.1} % off", CLASSES[job], off * 100.0);
            }
            Ok(())
        };
        shares("randread", "reads")?;
        shares("randwrite", "writes")
    })
}

/// Hosts whose data has no room at first are served when there is room, and reads return the
/// written data.
///
/// The test says nothing of promises: it holds whether or not hosts are asked for data ahead of
/// buffers. `a_host_is_asked_for_data_before_there_is_a_buffer_where_one_will_be_free_in_time` in
/// `target/core/src/tests/network.rs` shows that they are.
#[test]
fn f5_more_hosts_than_buffers_lose_nothing() -> Result<()> {
    let disk = "[[subsystem.namespace]]\nbackend = \"memory\"\nsize = \"32 MiB\"\n";
    let rest = disk.repeat(6);
    let target = "[0]\nio_memory = \"1 MiB\"\nmax_transfer = \"128 KiB\"";
    let daemon = Daemon::start(target, "", "", &rest)?;
    let mut hosts = Vec::new();
    for host in 0..6 {
        let nsid = (host + 2).to_string();
        let child = daemon
            .daemon
            .command(&["bench", "--nqn", NQN, "--rw", "randwrite", "--bs", "32k", "--depth", "64"])
            // The other hosts see its namespace too, and leave it alone.
            .arg("--destroy")
            .args(["--nsid", &nsid, "--span", "32m", "--time", "2s", "--verify"])
            .args(["--hostnqn", &format!("nqn.2026-01.io.sluicegate:host{host}")])
            .args(["--address", &daemon.listeners[0].to_string()])
            .stdout(std::process::Stdio::null())
            .spawn()?;
        hosts.push(child);
    }
    for mut host in hosts {
        ensure!(host.wait()?.success(), "a host found other data than it wrote");
    }
    Ok(())
}
