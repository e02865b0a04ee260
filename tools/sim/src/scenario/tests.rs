use arbitration::limit::{Rate, Rates};

use super::*;
use crate::model::{HostPlan, Model, NamespacePlan, Transport};
use crate::network::{Control, RateControl, Sender};
use crate::report::Table;

/// A scenario that is whole, with a place for more at its end.
const WHOLE: &str = "\
duration = '100 ms'
[topology]
kind = 'rack'
rate = '25 Gbit/s'
[[namespace]]
device = 'memory'
[[host]]
name = 'web'
count = 3
class = 'high'
[[host.load]]
process = 'poisson'
rate = 20000
";

/// Makes the scenario with all hosts over RDMA.
fn over_rdma(more: &str) -> String {
    format!("{}{more}", WHOLE.replace("count", "transport = 'rdma'\ncount"))
}

fn planned(text: &str) -> Result<Planned, String> {
    let scenario = Scenario::parse(text).map_err(|error| error.to_string())?;
    scenario.plan(1, Path::new("/nowhere")).map_err(|error| error.to_string())
}

#[test]
fn hosts_of_an_entry_are_alike_but_for_their_names_and_seeds() {
    let Planned { mut plan, .. } = planned(WHOLE).unwrap();
    let names: Vec<&str> = plan.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["web-1", "web-2", "web-3"]);
    assert!(plan.hosts.iter().all(|host| host.dscp == 34 && host.loads.len() == 1));
    let [first, second] = [0, 1].map(|host| plan.hosts[host].loads[0].source.next(units::Nanos(0)));
    assert_ne!(first, second);
    assert_eq!(plan.warmup, Duration::from_millis(20), "a fifth of what is measured");
}

#[test]
fn tables_of_the_daemon_are_spelled_as_there() {
    let text = format!(
        "{WHOLE}[qos]\nweights = [8, 4, 1]\nunit = 'bytes'\nburst = 'unlimited'\nwindow = 'adaptive'\n\
         urgent_share = '30 %'\n[network]\ncapacity = '10 Gbit/s'\n\
         classes = {{ high = {{ share = 5 }}, low = {{ latency = '2 ms' }}, medium = 'free' }}\n\
         [[session]]\nname = 'gold'\ncredit_share = '50 %'\niops = 5000\nweight = 300\n\
         read_iops = '2k'\nwrite_bandwidth = '1 MiB/s'\nburst = '10 s'\n\
         reserve = {{ operations = 1000, period = '1 s' }}\n"
    );
    let Planned { plan, .. } = planned(&text).unwrap();
    assert_eq!(plan.qos.order.weights.high, 8);
    assert_eq!((plan.qos.order.burst, plan.qos.order.urgent_share), (u16::MAX, 30));
    assert_eq!(plan.stage.link.capacity, Some(10_000_000_000));
    assert_eq!(plan.stage.link.goals.high, qtcp::link::ClassGoal::Share(5.0));
    assert_eq!(plan.stage.link.goals.medium, qtcp::link::ClassGoal::Free);
    let [gold] = &plan.qos.sessions[..] else { panic!("one session") };
    assert_eq!((gold.spec.operations, gold.reserve.unwrap().namespace), (Some(50), 0));
    assert_eq!(gold.spec.weight, Some(300));
    let (iops, bandwidth) = (Rate::per_second(2000), Rate::per_second(1 << 20));
    assert_eq!(gold.spec.reads, Rates { iops, bandwidth: None });
    assert_eq!(gold.spec.writes, Rates { iops: None, bandwidth });
    assert_eq!(gold.spec.burst, units::Nanos(10_000_000_000));
}

#[test]
fn what_is_wrong_names_its_key_and_what_would_be_right() {
    let with = |more: &str| format!("{WHOLE}{more}");
    let host = |keys: &str| with(&format!("[[host]]\nname = 'b'\n{keys}"));
    let load = |keys: &str| host(&format!("[[host.load]]\n{keys}"));
    let device =
        |kind: &str, keys: &str| with(&format!("[[namespace]]\ndevice = '{kind}'\n{keys}"));
    let empty = "profile = { parallelism = 1, read = {} }";
    let rack = |text: &str, keys: &str| text.replace("'rack'", &format!("'rack'\n{keys}"));
    let shares = |high: &str| with(&format!("[network]\nclasses = {{ high = {high} }}"));
    let capsules = |size: &str| over_rdma(&format!("[target]\nrdma_in_capsule_data = '{size}'"));
    for (text, key, says) in [
        (with("[qos]\nwieghts = [1, 1, 1]"), "wieghts", "expected one of"),
        (with("[qos]\nweights = [0, 1, 1]"), "qos.weights", "1 to 256"),
        (with("[qos]\nburst = 3"), "qos.burst", "unlimited"),
        (with("[qos]\nurgent_share = '95 %'"), "qos.urgent_share", "90 %"),
        (with("[qos]\nwindow = 'wide'"), "qos.window", "adaptive"),
        (with("[[session]]\nname = 's'\nweight = 1001"), "session s.weight", "1 to 1000"),
        (with("[network]\ncapacity = 'much'"), "network.capacity", "10 Gbit/s"),
        (shares("{ share = 0 }"), "network.classes.high", "share = 3"),
        (shares("7"), "high", "{ share = 3 }"),
        (host("goal = { p90 = '1 ms' }"), "p90", "`p99_9`"),
        (host("goal = { p99 = 1 }"), "p99", "\"1 ms\""),
        (host("goal = { share = '110 %' }"), "share", "100 %"),
        (host("goal = {}"), "host b.goal", "`bandwidth`"),
        (with("[[session]]\nname = 's'\niops = 0"), "session s.iops", "2^40"),
        (with("[[session]]\nname = 's'\nwrite_iops = 0"), "session s.write_iops", "2^40"),
        (with("[[session]]\nname = 's'\nreserve = {}"), "session s.reserve", "one of"),
        (load("process = 'poisson'"), "host b.load 1.rate", "20000"),
        (load("process = 'often'"), "often", "on-off"),
        (load("process = 'closed'\nrate = 5"), "host b.load 1.rate", "leave `rate` out"),
        (load("process = 'closed'\ndepth = 0"), "host b.load 1.depth", "1 to 65536"),
        (load("process = 'burst'\nrate = 5"), "host b.load 1.count", "at once"),
        (load("process = 'on-off'\nrate = 5\non = '1 ms'"), "host b.load 1.off", "2 ms"),
        (load("process = 'closed'\nsize = '4 MiB'"), "host b.load 1.size", "target.max_transfer"),
        (load("process = 'closed'\nsize = '1000 B'"), "host b.load 1", "multiple of 512"),
        (load("process = 'closed'\nsize = { most = '4 KiB' }"), "host b.load 1.size", "`mean`"),
        (load("process = 'closed'\nnamespace = 2"), "host b.load 1.namespace", "[[namespace]]"),
        (load("process = 'trace'\nformat = 'msr'"), "host b.load 1.file", "path"),
        (load("process = 'trace'\nfile = 'x'"), "host b.load 1.format", "snia"),
        (load("process = 'trace'\nfile = 'x'\nformat = 'msr'"), "host b.load 1", "/nowhere/x"),
        (device("profile", ""), "namespace 2.profile", "parallelism = 8"),
        (device("profile", empty), "namespace 2.profile.read", "100 us"),
        (device("pm", empty), "namespace 2.profile", "leave it out"),
        (device("disk", "disk = { rpm = 7 }"), "namespace 2.disk.rpm", "such as 7200"),
        (device("disk", "size = '1 TB'"), "namespace 2.size", "or `cylinders` more"),
        (device("ssd", "disk = { rpm = 5400 }"), "namespace 2.disk", "leave it out"),
        (device("pm", "window = 0"), "namespace 2.window", "adaptive"),
        (WHOLE.replace("'rack'", "'ring'"), "kind", "fat-tree"),
        (WHOLE.replace("25 Gbit/s", "7 bit/s"), "rate", "1 kbit/s"),
        (WHOLE.replace("'rack'", "'fat-tree'").replace("= 3", "= 99"), "host.count", "pods"),
        (rack(WHOLE, "pods = 4"), "topology.pods", "leave it out"),
        (WHOLE.replace("100 ms", "0 ms"), "duration", "1 h"),
        (WHOLE.replace("[[namespace]]\ndevice = 'memory'\n", ""), "namespace", "[[namespace]]"),
        (WHOLE.replace("count = 3", "count = 0"), "host", "[[host]]"),
        (WHOLE.replace("count = 3", "count = 65537"), "host.count", "at most 65536"),
        (
            host("count = 4294967295").replace("= 3", "= 4294967295"),
            "host.count",
            "8589934590 in all",
        ),
        ("duration = '1 s'".to_owned(), "topology", "missing field"),
        (WHOLE.replace("count", "transport = 'quic'\ncount"), "quic", "`tcp` or `rdma`"),
        (with("[rdma]\ncontrol = 'line'"), "`rdma`", "transport = \"rdma\""),
        (over_rdma("[tcp]\ncontrol = 'cubic'"), "`tcp`", "transport = \"tcp\""),
        (over_rdma("[rdma]\ncontrol = 'dctcp'"), "dctcp", "`dcqcn` or `line`"),
        (rack(&over_rdma(""), "threshold = 0"), "rdma.control", "write \"line\", or a threshold"),
        (rack(WHOLE, "resume = '10 kB'"), "topology.resume", "give `pause`, too"),
        (rack(WHOLE, "pause = '10 kB'\nresume = '20 kB'"), "`resume`", "at most 10000"),
        (rack(WHOLE, "pause = '100 kB'\nbuffer = '200 kB'"), "`buffer`", "`pause` lower"),
        (capsules("16 KiB"), "target.rdma_in_capsule_data", "at most 8192"),
        (capsules("4 EiB"), "target.rdma_in_capsule_data", "at most 8192"),
    ] {
        let error = planned(&text).unwrap_err();
        assert!(error.contains(key) && error.contains(says), "{key}, {says}: {error}");
    }
}

#[test]
fn a_namespace_has_its_own_window_and_a_profile_tells_what_can_be_reserved() {
    let text = format!(
        "{WHOLE}[qos]\nwindow = 64\n[[namespace]]\ndevice = 'profile'\nwindow = 'off'\n\
         profile = {{ parallelism = 4, read = {{ mean = '1 ms' }}, write = {{ mean = '2 ms' }} }}\n"
    );
    let Planned { plan, .. } = planned(&text).unwrap();
    let [memory, device] = &plan.namespaces[..] else { panic!("two namespaces") };
    assert_eq!(memory.rules.window, arbitration::settings::WindowRule::Fixed(64));
    assert_eq!(device.rules.window, arbitration::settings::WindowRule::Off);
    let (mean, worst) = (device.rules.profile.mean.unwrap(), device.rules.profile.worst.unwrap());
    assert_eq!((mean.0, worst.0), (2_000_000, 2_250_000));
    assert_eq!(device.rules.profile.parallelism, Some(4));
}

#[test]
fn adapters_have_the_rates_of_their_own_cables_and_sockets_stay_as_they_are() {
    let line = |host: &HostPlan| {
        let of = |sender: Sender| match sender {
            Sender::Rate { control: RateControl::Dcqcn(settings) } => settings.line.bits(),
            other => panic!("{other:?} is not DCQCN"),
        };
        (of(host.sender), of(host.answers.unwrap()))
    };
    let tcp = "[[host]]\nname = 'tcp'\n[[host.load]]\nprocess = 'closed'\n";
    let rate = |rate: &str| over_rdma(tcp).replace("'25 Gbit/s'", rate);
    let Planned { plan, .. } = planned(&rate("'25 Gbit/s'\ntarget_rate = '40 Gbit/s'")).unwrap();
    assert!(plan.hosts[..3].iter().all(|host| host.transport == Transport::Rdma));
    assert_eq!(line(&plan.hosts[0]), (25e9, 40e9));
    let socket = (plan.hosts[3].transport, plan.hosts[3].sender, plan.hosts[3].answers);
    assert_eq!(socket, (Transport::Tcp, Sender::Window { control: Control::Dctcp }, None));
    // All cables of a fat tree are alike.
    let tree = rate("'25 Gbit/s'").replace("rack", "fat-tree");
    assert_eq!(line(&planned(&tree).unwrap().plan.hosts[0]), (25e9, 25e9));
    let tree = rate("'25 Gbit/s'\ntarget_rate = '40 Gbit/s'").replace("rack", "fat-tree");
    let error = planned(&tree).unwrap_err();
    assert!(error.contains("`topology.target_rate`") && error.contains("leave it out"), "{error}");
    // If nothing reacts to marks, there need be none.
    let text = format!("{}\n[rdma]\ncontrol = 'line'", rate("'25 Gbit/s'\nthreshold = 0"));
    let line = Sender::Rate { control: RateControl::Line };
    assert_eq!(planned(&text).unwrap().plan.hosts[0].sender, line);
    // The target takes no more data in capsules over RDMA than over TCP.
    let text = over_rdma("[target]\nin_capsule_data = '1 KiB'");
    assert_eq!(planned(&text).unwrap().plan.target.rdma_in_capsule_data, 1024);
}

#[test]
fn a_disk_seeks_and_its_times_follow_from_its_properties() {
    let text = format!(
        "{WHOLE}[[namespace]]\ndevice = 'disk'\n[[namespace]]\ndevice = 'disk'\n\
         disk = {{ rpm = 15000, seek_mean = '4 ms', seek_max = '9 ms' }}\nworst_time = '20 ms'\n"
    );
    let Planned { plan, .. } = planned(&text).unwrap();
    let [_, plain, fast] = &plan.namespaces[..] else { panic!("three namespaces") };
    let of = |namespace: &NamespacePlan| {
        let profile = &namespace.rules.profile;
        (profile.mean.unwrap().0, profile.worst.unwrap().0, profile.parallelism, profile.seeks)
    };
    // A mean seek, half the spread of settling, half a turn, and the overhead.
    assert_eq!(of(plain), (12_866_666, 26_133_333, Some(1), true));
    assert_eq!(of(fast), (6_200_000, 20_000_000, Some(1), true));
    assert!(plain.blocks > 970_000_000, "500 GB: {} blocks", plain.blocks);
}

/// Runs a scenario.
fn outcome(text: &str) -> (Scenario, Outcome) {
    let scenario = Scenario::parse(text).unwrap();
    let mut model = Model::new(planned(text).unwrap().plan).unwrap();
    let end = model.end();
    model.run(end, &mut |_| {});
    let outcome = Outcome::of(&scenario, &model.report());
    (scenario, outcome)
}

/// Returns the table of this name in a report.
fn table(scenario: &Scenario, outcome: &Outcome, file: &str) -> Table {
    let mut tables = outcome.report(scenario, 1).tables.into_iter();
    tables.find(|table| table.file == file).unwrap()
}

/// Runs a scenario, and returns what became of packets and whether hosts were served.
fn switches(text: &str) -> (Switches, u64) {
    let (_, outcome) = outcome(text);
    (outcome.switches, outcome.rows.iter().map(|row| row.bytes).sum())
}

#[test]
fn a_switch_that_pauses_loses_nothing_where_another_does() {
    // Eight hosts write at once over cables as fast as the target's, into a small buffer that marks late.
    let text = |keys: &str| {
        format!(
            "duration = '20 ms'\n[topology]\nkind = 'rack'\nrate = '25 Gbit/s'\nbuffer = '600 kB'\n\
             threshold = 0\n{keys}\n[tcp]\ncontrol = 'reno'\n[[namespace]]\ndevice = 'memory'\n\
             [[host]]\nname = 'writer'\ncount = 8\n[[host.load]]\nprocess = 'closed'\ndepth = 16\n\
             size = '128 KiB'\nreads = '0 %'\n"
        )
    };
    let (without, _) = switches(&text(""));
    let (with, bytes) = switches(&text("pause = '30 kB'"));
    assert!(without.dropped > 0 && without.pauses == 0, "{without:?}");
    assert!(with.dropped == 0 && with.pauses > 0, "{with:?}");
    assert!(bytes > 10_000_000, "the target is served all the same: {bytes} bytes");
}

/// A drive that serves one command of 4 KiB in 1 ms, give or take an eighth, and two hosts that want 250 commands per
/// second each, beside an idle one.
const HALF_BUSY: &str = "\
duration = '400 ms'
topology = { kind = 'rack', rate = '100 Mbit/s' }
[[namespace]]
device = 'profile'
profile = { parallelism = 1, read = { mean = '1 ms' } }
[[host]]
name = 'idle'
goal = { p99 = '1 h' }
[[host]]
name = 'web'
count = 2
goal = { p99 = '20 ms', p99_9 = '900 us', iops = 200, bandwidth = '1 MB/s', share = '40 %' }
load = [{ process = 'constant', rate = 250 }]
";

#[test]
fn each_host_is_judged_by_its_goals_and_the_worst_of_them_counts() {
    let (scenario, outcome) = outcome(HALF_BUSY);
    let table = table(&scenario, &outcome, "goals");
    let rows: Vec<[&str; 5]> =
        table.rows.iter().map(|row| [0, 1, 2, 6, 7].map(|cell| row[cell].as_str())).collect();
    assert_eq!(
        rows,
        [
            // A host without a command has shown no latency.
            ["idle", "p99 <=", "missed", "0", "1"],
            ["web", "p99 <=", "met", "2", "2"],
            ["web", "p99_9 <=", "missed", "0", "2"],
            ["web", "iops >=", "met", "2", "2"],
            ["web", "bandwidth >=", "met", "2", "2"],
            ["web", "share >=", "met", "2", "2"],
        ]
    );
    // 250 commands of 4 KiB per second.
    let bandwidth: f64 = table.rows[4][4].parse().unwrap();
    assert!((1.0..1.1).contains(&bandwidth), "{bandwidth} MB/s");
    // A share counts all hosts, and one host of several may miss its goal.
    let busy = "name = 'idle'\nload = [{ process = 'constant', rate = 250 }]";
    let (_, uneven) = self::outcome(&HALF_BUSY.replacen("name = 'idle'", busy, 1));
    let missed = uneven.goals.iter().filter(|goal| !goal.is_met()).map(GoalVerdict::text);
    let missed: Vec<String> = missed.collect();
    let [_, share] = &missed[..] else { panic!("p99_9 and share: {missed:?}") };
    assert!(share.starts_with("web: share 33.") && share.ends_with("at least 40 %"), "{share}");
}

#[test]
fn worst_of_several_runs_is_the_one_farthest_from_the_goal() {
    let runs: Vec<Outcome> = ["1 ms", "4 ms"]
        .map(|mean| outcome(&HALF_BUSY.replace("'1 ms' }", &format!("'{mean}' }}"))).1)
        .into();
    let worst = worst_of(runs.iter().map(|run| run.goals.as_slice()));
    let reversed = worst_of(runs.iter().rev().map(|run| run.goals.as_slice()));
    assert_eq!(worst, reversed);
    assert!(runs[0].goals[1].is_met() && !worst[1].is_met(), "{worst:?}");
    // 500 commands of 4 ms per second do not fit.
    assert_eq!(worst[1].text(), runs[1].goals[1].text());
}

#[test]
fn use_of_cable_and_device_is_the_part_of_the_time_they_were_busy() {
    let (scenario, outcome) = outcome(HALF_BUSY);
    let table = table(&scenario, &outcome, "use");
    let names: Vec<&str> = table.rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(names, ["cable to the target", "cable from the target", "device of namespace 1"]);
    let busy: Vec<f64> = table.rows.iter().map(|row| row[1].parse().unwrap()).collect();
    // 500 commands of 1 ms per second, and as many of 4 KiB of data with headers on 100 Mbit/s.
    assert!((47.0..53.0).contains(&busy[2]) && (16.0..19.0).contains(&busy[1]), "{busy:?}");
    assert!(busy[0] > 0.0 && busy[0] < 5.0, "{busy:?}");
    // Each kind of device with servers tells how busy it is.
    // A disk takes some 13 ms for each of 60 commands per second, a die 30 us and the way over its channel.
    for (device, properties, expected) in [
        ("disk", "", 50.0..=100.0),
        ("ssd", "ssd = { channels = 1, chips = 1, dies = 1 }", 0.1..=0.5),
    ] {
        let profile = "'profile'\nprofile = { parallelism = 1, read = { mean = '1 ms' } }";
        let text = HALF_BUSY.replace(profile, &format!("'{device}'\n{properties}"));
        let (scenario, outcome) = self::outcome(&text.replace("rate = 250", "rate = 30"));
        let table = self::table(&scenario, &outcome, "use");
        let busy: f64 = table.rows[2][1].parse().unwrap();
        assert!(expected.contains(&busy), "{device}: {busy} %");
    }
}
