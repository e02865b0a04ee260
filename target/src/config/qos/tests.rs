//! Tests of the settings of quality of service: their meaning, their defaults and their errors.

use std::time::Duration;

use arbitration::limit::{Rate, Rates};
use arbitration::reservation::{Budget, Locality, Terms};
use arbitration::settings::{OrderSettings, Unit, Weights, WindowRule};
use arbitration::{Class, Nanos, PerClass};
use proptest::prelude::*;

use super::super::backend::DeviceModel;
use super::super::subsystem::Subsystem;
use super::super::tests::parse;
use super::device::{DeviceQos, Order};
use super::{LimitedSize, Limits, LowestRates, Policy, Profile, Qos, QosConfig, Reserve, Session};

const A: &str = "nqn.2026-01.io.x:a";
const DISK: &str = r#"
[[listener]]
address = "127.0.0.1:4420"
class = "high"
[[subsystem]]
nqn = "nqn.2026-01.io.x:a"
allow_any_host = true
[[subsystem.namespace]]
nsid = 1
backend = "null"
size = "1 GiB"
"#;

/// Makes a file that is right but for `text`.
fn with(text: &str) -> String {
    format!("{text}\n{DISK}")
}

#[test]
fn the_settings_mean_what_they_say() {
    let text = r#"
[qos]
weights = [5, 3, 2]
unit = "time"
burst = "unlimited"
urgent_share = "30 %"
window = "adaptive"
latency_target = "5 ms"
payload = "64 MiB"
dscp = { urgent = 44, low = 0 }
[[session]]
name = "tenants"
[[session]]
name = "gold"
parent = "tenants"
credit_share = "50 %"
bandwidth = "200 MiB/s"
weight = 300
reserve = { bytes = "100 MiB", period = "500 ms", writes = "50 %", latency = "40 ms", burst = 8, namespace = "nqn.2026-01.io.x:a/1" }
[[session]]
name = "nqn.2026-01.io.x:a/1"
parent = "gold"
reserve = { commands = 5000 }
[[policy]]
host = "nqn.2026-01.io.x:h"
max_class = "medium"
session = "nqn.2026-01.io.x:a"
"#;
    let config = parse(&with(text)).unwrap_or_else(|errors| panic!("{errors}"));
    let general = &config.qos.general;
    assert_eq!(general.order.weights, Weights { high: 5, medium: 3, low: 2 });
    assert_eq!((general.order.unit, general.order.burst), (Unit::Time, u16::MAX));
    assert_eq!(general.order.urgent_share, 30);
    assert_eq!(general.window, WindowRule::Adaptive { target: Nanos(5_000_000), max: 1024 });
    assert_eq!(general.payload, 64 << 20);
    assert_eq!(general.dscp, PerClass { urgent: 44, high: 34, medium: 18, low: 0 });
    let [tenants, gold, disk] = &config.qos.sessions[..] else { panic!() };
    assert_eq!(tenants, &Session { name: "tenants".into(), ..Session::default() });
    assert_eq!((gold.operations, gold.limits), (Some(50), total(None, Some(200 << 20))));
    assert_eq!((gold.weight, tenants.weight), (Some(300), None));
    let terms = gold.reserve.as_ref().unwrap().terms;
    assert_eq!(terms.budget, Budget::Bytes(100 << 20));
    assert_eq!((terms.period, terms.write_percent), (Nanos(500_000_000), 50));
    assert_eq!((terms.latency, terms.burst, terms.buffers), (Some(Nanos(40_000_000)), 8, 1));
    let own = disk.reserve.as_ref().unwrap();
    assert_eq!((own.namespace.as_ref(), own.terms.period), (None, Nanos(1_000_000_000)));
    assert_eq!(config.qos.policies[0].max_class, Some(Class::Medium));
    assert_eq!(config.listeners[0].class, Some(Class::High));
    assert_eq!(parse(DISK).unwrap().qos, QosConfig::default());
}

#[test]
fn limits_per_gib_are_for_sessions_of_namespaces_and_subsystems() {
    let text = format!(
        "[[session]]\nname = \"{A}\"\nprofile = \"p\"\n\
         [[session]]\nname = \"{A}/1\"\nprofile = \"p\"\niops_per_gib = 30\niops = 70\n\
         [[profile]]\nname = \"p\"\niops_per_gib = 10\nbandwidth_per_gib = \"1 MiB/s\"\n"
    );
    let config = parse(&with(&text)).unwrap_or_else(|errors| panic!("{errors}"));
    let limits = |index: usize, size: Option<u64>| {
        let limits = config.qos.sessions[index].limits_with(&config.qos.profiles);
        let lowest = LowestRates { commands: 2, bytes: 1000 };
        let total = limits.total(size.map(|bytes| LimitedSize { bytes, lowest }));
        (total.iops.map(Rate::get), total.bandwidth.map(Rate::get))
    };
    assert_eq!(limits(0, Some(5 << 29)), (Some(25), Some(5 << 19)));
    assert_eq!(limits(0, Some((1 << 30) + 512)), (Some(11), Some((1 << 20) + 1)), "rounded up");
    assert_eq!(limits(0, Some(0)), (Some(2), Some(1000)), "as low as a Linux host can wait for");
    assert_eq!(limits(0, Some(u64::MAX)).1, Some(1 << 40), "the highest limit");
    assert_eq!(limits(0, None), (None, None));
    // A session's own value per GiB counts before that of its profile; beside `iops` the lower does.
    assert_eq!(limits(1, Some(2 << 30)), (Some(60), Some(2 << 20)));
    assert_eq!(limits(1, Some(3 << 30)).0, Some(70));
}

#[test]
fn former_names_of_keys_mean_the_same() {
    let namespace = format!("namespace = \"{A}/1\"");
    let former = with(&format!(
        "[qos]\noperations = 64\n[[session]]\nname = \"s\"\noperations = \"50 %\"\npayload = \"20 %\"\n\
         reserve = {{ operations = 5, {namespace} }}"
    ));
    let present = with(&format!(
        "[qos]\ncredits = 64\n[[session]]\nname = \"s\"\ncredit_share = \"50 %\"\n\
         payload_share = \"20 %\"\nreserve = {{ commands = 5, {namespace} }}"
    ));
    assert_eq!(parse(&former).unwrap(), parse(&present).unwrap());
    let notices = |text: &str| {
        let machine = crate::config::Machine::any();
        let parsed =
            crate::config::Config::parse_with_notices(text, std::path::Path::new("f"), &machine);
        parsed.unwrap().1
    };
    assert_eq!(
        notices(&former),
        [
            ("2", "operations", "[qos]", "credits"),
            ("5", "operations", "[[session]]", "credit_share"),
            ("6", "payload", "[[session]]", "payload_share"),
            ("7", "operations", "`reserve`", "commands"),
        ]
        .map(|(line, was, table, name)| format!(
            "f:{line}: `{was}` of {table} is called `{name}` now; the former name still works"
        ))
    );
    assert!(notices(&present).is_empty());
}

/// Cases: a wrong text, the line of the error, and words of the message and the remedy.
#[test]
fn mistakes_are_explained() {
    let session = |lines: &str| with(&format!("[[session]]\nname = \"s\"\n{lines}"));
    let reserve = |keys: &str| {
        let namespace = "namespace = \"nqn.2026-01.io.x:a/1\"";
        session(&format!("reserve = {{ commands = 5, {keys}, {namespace} }}"))
    };
    let policy = |lines: &str| with(&format!("[[policy]]\n{lines}"));
    let namespace = |lines: &str| format!("{DISK}{lines}");
    let cases: Vec<(String, usize, &str)> = vec![
        (with("[qos]\nweights = [3, 2]"), 2, "has 2 entries instead of three"),
        (with("[qos]\nweights = [3, 2, 0]"), 2, "1 to 256 each: [3, 2, 1]"),
        (with("[qos]\nburst = 3"), 2, "write 1, 2, 4, 8, 16, 32, 64 or \"unlimited\""),
        (with("[qos]\nurgent_share = \"95 %\""), 2, "from \"1 %\" to \"90 %\""),
        (with("[qos]\nwindow = 0"), 2, "from 1 to 65536"),
        (with("[qos]\nwindow = \"on\""), 2, "\"off\" or \"adaptive\""),
        (with("[qos]\nlatency_target = \"2 ms\""), 2, "add window = \"adaptive\""),
        (with("[qos]\nwindow = 3\nwindow_max = 4"), 3, "belongs to window = \"adaptive\""),
        (with("[qos]\ndscp = { urgent = 64 }"), 2, "from 0 to 63"),
        (with("[qos]\ndscp = { urgnt = 4 }"), 2, "did you mean `urgent`?"),
        (with("[[session]]"), 1, "add name = \"gold\""),
        (with("[[session]]\nname = \"root\""), 2, "above all others"),
        (with("[[session]]\nname = \"a b\""), 2, "1 to 64 letters"),
        (with("[[session]]\nname = \"nqn.2026-01.io.x:b\""), 2, "did you mean nqn.2026-01.io.x:a?"),
        (
            with("[[session]]\nname = \"nqn.2026-01.io.x:a/2\""),
            2,
            "names a namespace that does not",
        ),
        (session("[[session]]\nname = \"s\""), 4, "session s occurs twice"),
        (session("parent = \"t\""), 3, "parent of session s, t, does not exist"),
        (session("parent = \"s\""), 3, "session s is above itself"),
        (session("iops = 0"), 3, "from 1 to"),
        (session("bandwidth = \"0 B\""), 3, "from \"1 B/s\""),
        (session("bandwidth_per_gib = 100"), 3, "write \"100 MiB/s\" or \"100 B/s\""),
        (session("iops_per_gib = 10"), 2, "`iops_per_gib` needs a size"),
        (
            session("profile = \"p\"\n[[profile]]\nname = \"p\"\nbandwidth_per_gib = \"1 MiB/s\""),
            2,
            "`bandwidth_per_gib` of profile p needs a size",
        ),
        (session("bandwidth = 100"), 3, "write \"100 MiB/s\" or \"100 B/s\""),
        (session("credit_share = 50"), 3, "write \"50 %\""),
        (session("iops = \"5 x\""), 3, "50k"),
        (session("operations = \"5 %\"\ncredit_share = \"5 %\""), 3, "remove `operations`"),
        (session("iops = \"0k\""), 3, "from 1 to"),
        (session("credit_share = \"120 %\""), 3, "from \"1 %\" to \"100 %\""),
        (session("reserve = { period = \"1 s\" }"), 3, "write one of commands"),
        (session("reserve = { commands = 5, bytes = \"4 KiB\" }"), 3, "more than one budget"),
        (reserve("latency = \"1 ms\""), 3, "from \"2 ms\" to \"1 min\""),
        (reserve("burst = 0"), 3, "from 1 to 65536"),
        (reserve("buffers = 2"), 3, "add writes = \"100 %\""),
        (
            reserve("buffers = 2, writes = \"100 %\", latency = \"1 s\""),
            3,
            "leave `latency` or `buffers` out",
        ),
        (session("reserve = { commands = 5 }"), 3, "add namespace = \"NQN/NSID\""),
        (
            session("reserve = { time = \"2 s\", namespace = \"nqn.2026-01.io.x:a/1\" }"),
            3,
            "longer than its period",
        ),
        (
            session("reserve = { commands = 5, namespace = \"nqn.2026-01.io.x:a/7\" }"),
            3,
            "did you mean nqn.2026-01.io.x:a/1?",
        ),
        (session("reserve = { commands = 5, namespace = \"x\" }"), 3, "a subsystem's NQN and"),
        (
            session("credit_share = \"60 %\"\n[[session]]\nname = \"t\"\ncredit_share = \"50 %\""),
            6,
            "write at most 40 % here",
        ),
        (policy("nsid = 1\nclass = \"low\""), 2, "`nsid` needs `subsystem`"),
        (policy("host = \"nqn.2026-01.io.x:h\""), 1, "add class, max_class"),
        (policy("class = \"top\""), 2, "\"urgent\", \"high\", \"medium\", \"low\""),
        (policy("class = \"high\"\nmax_class = \"low\""), 1, "`class` is high, above"),
        (policy("session = \"gold\""), 2, "session gold does not exist"),
        (policy("class = \"low\"\n[[policy]]\nclass = \"high\""), 3, "occurs twice"),
        (
            policy("class = \"low\"\nsubsystem = \"nqn.2026-01.io.x:b\""),
            3,
            "names a subsystem that does not exist",
        ),
        (
            policy("class = \"low\"\nsubsystem = \"nqn.2026-01.io.x:a\"\nnsid = 2"),
            4,
            "has no namespace 2",
        ),
        (namespace("flush_is_output = true"), 12, "add order = \"containers\""),
        (namespace("latency_target = \"1 s\""), 12, "add one of them"),
        (namespace("mean_time = \"2 ms\"\nworst_time = \"1 ms\""), 13, "at least \"2 ms\""),
        (namespace("forward_class = true"), 12, "belongs to the backend \"nvme\""),
        (
            namespace(
                "[[subsystem.namespace]]\nbackend = \"memory\"\nsize = \"4 KiB\"\nchannels = 2",
            ),
            15,
            "belongs to the backend \"null\"",
        ),
    ];
    for (text, line, words) in cases {
        let errors = parse(&text).expect_err(&text);
        assert!(errors.to_string().contains(words), "{text}\n{errors}");
        assert_eq!(errors.errors[0].line, line, "{text}\n{errors}");
        assert_eq!(errors.errors.len(), 1, "{text}\n{errors}");
    }
}

#[test]
fn the_guides_examples_are_right() {
    let guide = include_str!("../../../../docs/qos.md");
    let examples = guide.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let disk = "[[subsystem.namespace]]\nbackend = \"null\"\nsize = \"1 GiB\"\n";
    let around = format!("[[subsystem]]\nnqn = \"nqn.2026-01.com.example:disk1\"\n{disk}{disk}");
    let mut count = 0;
    for example in examples {
        let alone = example.contains("[[subsystem]]");
        let text = format!("{example}\n{}", if alone { "" } else { &around });
        parse(&text).unwrap_or_else(|errors| panic!("{errors}"));
        count += 1;
    }
    assert!(count >= 6);
}

#[test]
fn a_circle_through_a_namespace_is_found() {
    let text = format!(
        "[[session]]\nname = \"gold\"\nparent = \"{A}/1\"\n[[session]]\nname = \"{A}\"\nparent = \"gold\"\n"
    );
    let errors = parse(&with(&text)).unwrap_err();
    assert!(errors.to_string().contains("is above itself"), "{errors}");
}

#[test]
fn sessions_nest_up_to_a_bound() {
    let chain = |n: usize| {
        (0..n).fold(String::new(), |text, i| {
            let parent = i.checked_sub(1).map(|p| format!("parent = \"s{p}\"\n"));
            text + &format!("[[session]]\nname = \"s{i}\"\n{}", parent.unwrap_or_default())
        })
    };
    parse(&with(&chain(15))).unwrap_or_else(|errors| panic!("{errors}"));
    let errors = parse(&with(&chain(16))).unwrap_err();
    assert!(errors.to_string().contains("more than 16 levels deep"), "{errors}");
}

pub(crate) fn class() -> impl Strategy<Value = Option<Class>> {
    proptest::option::of(proptest::sample::select(Class::ALL.to_vec()))
}

fn window() -> impl Strategy<Value = WindowRule> {
    prop_oneof![
        Just(WindowRule::Off),
        (1u32..=65_536).prop_map(WindowRule::Fixed),
        (1000u64..10_000_000_000, 1u32..=65_536)
            .prop_map(|(ns, max)| WindowRule::Adaptive { target: Nanos(ns), max }),
    ]
}

pub(crate) fn models() -> impl Strategy<Value = Option<DeviceModel>> {
    let bandwidth = proptest::option::of(1u64..1 << 40);
    let errors = proptest::option::of(1u8..=100);
    proptest::option::of((0u64..10_000_000_000, bandwidth, 1u32..=4096, errors).prop_map(
        |(ns, bandwidth, channels, errors)| DeviceModel {
            service_time: Duration::from_nanos(ns),
            bandwidth,
            channels,
            errors,
        },
    ))
}

pub(crate) fn device() -> impl Strategy<Value = DeviceQos> {
    let time = proptest::option::of((1000u64..5_000_000_000).prop_map(Duration::from_nanos));
    let parallelism = proptest::option::of(1u32..=4096);
    let seeks = proptest::option::of(any::<bool>());
    let order = (proptest::option::of(any::<bool>()), parallelism, seeks);
    (proptest::option::of(window()), order, time.clone(), time).prop_map(
        |(window, (flush, parallelism, seeks), target, mean)| DeviceQos {
            window,
            order: if flush.is_some() { Order::Containers } else { Order::Fair },
            latency_target: match window {
                Some(WindowRule::Adaptive { target, .. }) => Some(Duration::from_nanos(target.0)),
                _ => target.filter(|_| flush.is_some()),
            },
            seeks,
            flush_is_output: flush == Some(true),
            mean_time: mean,
            worst_time: mean.map(|mean| mean * 2),
            parallelism,
        },
    )
}

fn general() -> impl Strategy<Value = Qos> {
    let weight = || 1u16..=256;
    let unit = prop::sample::select(vec![Unit::Commands, Unit::Bytes, Unit::Time]);
    let order = (weight(), weight(), weight(), 0u32..8, 1u8..=90, unit);
    let limits = (1u32..1 << 24, 4096u64..1 << 40, 1u32..1 << 24);
    let marks = (0u8..64, 0u8..64, 0u8..64, 0u8..64);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>());
    (order, limits, marks, flags, window()).prop_map(|(order, limits, marks, flags, window)| {
        let (high, medium, low, burst, urgent_share, unit) = order;
        let some = Qos {
            enabled: flags.0,
            order: OrderSettings {
                weights: Weights { high, medium, low },
                unit,
                burst: if burst == 7 { u16::MAX } else { 1 << burst },
                urgent_share,
            },
            window,
            operations: limits.0,
            payload: limits.1,
            queue: limits.2,
            wrr: flags.1,
            dscp: PerClass { urgent: marks.0, high: marks.1, medium: marks.2, low: marks.3 },
            // Keys that are added later have their defaults here.
            ..Qos::default()
        };
        Qos { mark: flags.2, ..some }
    })
}

fn terms() -> impl Strategy<Value = Terms> {
    let period = 1_000_000u64..60_000_000_000;
    let rest = (512u32..1 << 24, 0u8..=120, any::<bool>());
    let latency = proptest::option::of((2_000_000u64..60_000_000_000).prop_map(Nanos));
    let bounds = (latency, 1u32..=65_536, 1u32..=60);
    let all = (0u8..3, 1000u64..1_000_000, period, rest, bounds);
    all.prop_map(|(kind, n, period, rest, (latency, burst, buffers))| Terms {
        budget: match kind {
            0 => Budget::Operations(n),
            1 => Budget::Bytes(n),
            _ => Budget::DeviceTime(Nanos(n)),
        },
        period: Nanos(period),
        request_bytes: rest.0,
        write_percent: rest.1.min(100),
        locality: if rest.2 { Locality::Random } else { Locality::Sequential },
        latency,
        burst,
        buffers: if rest.1 >= 100 && latency.is_none() { buffers } else { 1 },
    })
}

/// Makes rates per second.
pub(crate) fn rates(iops: Option<u64>, bandwidth: Option<u64>) -> Rates {
    let rate = |rate: u64| Rate::per_second(rate).unwrap();
    Rates { iops: iops.map(rate), bandwidth: bandwidth.map(rate) }
}

/// Makes limits on all commands.
pub(crate) fn total(iops: Option<u64>, bandwidth: Option<u64>) -> Limits {
    Limits { total: rates(iops, bandwidth), ..Limits::default() }
}

/// Settings whose sessions and policies are not yet fitted to subsystems.
#[derive(Debug)]
pub(crate) struct Loose {
    general: Qos,
    sessions: Vec<(Option<u8>, Option<u64>, Option<Terms>)>,
    policies: Vec<(Option<Class>, bool)>,
}

pub(crate) fn settings() -> impl Strategy<Value = Loose> {
    let limits = (
        proptest::option::of(1u8..=20),
        proptest::option::of(1u64..1 << 40),
        proptest::option::of(terms()),
    );
    let sessions = proptest::collection::vec(limits, 0..5);
    let policies = proptest::collection::vec((class(), any::<bool>()), 0..5);
    (general(), sessions, policies).prop_map(|(general, sessions, policies)| Loose {
        general,
        sessions,
        policies,
    })
}

impl Loose {
    /// Makes sessions and policies that are right for these subsystems.
    pub(crate) fn fit(self, subsystems: &[Subsystem]) -> QosConfig {
        let mut sessions: Vec<Session> = Vec::new();
        let namespace = subsystems
            .iter()
            .find_map(|s| Some(format!("{}/{}", s.nqn, s.namespaces.first()?.nsid?)));
        for (index, (share, rate, terms)) in self.sessions.into_iter().enumerate() {
            let automatic = namespace.clone().filter(|_| index == 3);
            let per_gib = automatic.as_ref().and(rate);
            sessions.push(Session {
                limits: Limits {
                    total: rates(rate, rate),
                    per_gib: rates(per_gib, per_gib),
                    reads: rates(rate, None),
                    writes: rates(None, rate),
                    burst: share.map(|share| Duration::from_millis(share.into())),
                },
                name: automatic.unwrap_or_else(|| format!("s{index}")),
                parent: sessions.first().map(|first| first.name.clone()),
                operations: share,
                payload: share,
                profile: share.map(|_| "p".to_owned()),
                queue: share.map(u32::from),
                weight: share.map(|share| u16::from(share) * 50),
                reserve: terms
                    .zip(namespace.clone())
                    .map(|(terms, name)| Reserve { terms, namespace: Some(name) }),
            });
        }
        let profile = |session: &Session| {
            let Limits { total, burst, .. } = session.limits;
            Profile { name: "p".to_owned(), limits: Limits { total, burst, ..Limits::default() } }
        };
        let named = sessions.iter().find(|session| session.profile.is_some());
        let profiles: Vec<Profile> = named.map(profile).into_iter().collect();
        let mut policies: Vec<Policy> = Vec::new();
        for (index, (class, capped)) in self.policies.into_iter().enumerate() {
            let policy = Policy {
                host: Some(format!("nqn.2026-01.io.x:h{index}")),
                subsystem: subsystems.first().map(|s| s.nqn.clone()),
                nsid: None,
                addresses: capped
                    .then(|| "2001:db8::/32".parse::<ipnet::IpNet>().unwrap())
                    .into_iter()
                    .collect(),
                class,
                max_class: capped.then_some(Class::Urgent),
                urgent_iops: capped.then_some(7),
                session: sessions.first().map(|s| s.name.clone()),
            };
            if !policy.says_nothing() {
                policies.push(policy);
            }
        }
        QosConfig { general: self.general, sessions, profiles, policies }
    }
}
