use std::sync::Arc;

use arbitration::limit::{Rate, Rates};
use arbitration::reservation::{Budget, Occupancy, Overrides, Terms};
use arbitration::settings::{WindowRule, default_dscps};
use arbitration::{Class, Nanos};
use fabric::controller::{BackendId, ListenerId, Node, NodeCredits as _};
use fabric::nvme::node::{Amount, NamespaceBacklog};
use sluice_config::testing::{rates, total};
use sluice_config::{
    Backend, DeviceModel, DeviceQos, Limits, LowestRates, Policy, Profile, QosConfig, Reserve,
    Session, Sources,
};

use super::*;
use crate::disks::backend::testing;
use crate::disks::devices::{Devices, OpenDevice};
use arbitration::device::DeviceRules;

const NQN: &str = "nqn.2026-01.io.x:s";
const HOST: &str = "nqn.2026-01.io.x:h";

const GIB: u64 = 1 << 30;

/// Opens a device of so many bytes, whose times are configured.
fn device(size: u64) -> (BackendId, Arc<OpenDevice>) {
    let time = Some(Nanos(1_000_000));
    device_with(size, Overrides { mean: time, worst: time, parallelism: Some(4), seeks: false })
}

fn device_with(size: u64, profile: Overrides) -> (BackendId, Arc<OpenDevice>) {
    let service_time = std::time::Duration::from_millis(1);
    let model = DeviceModel { service_time, bandwidth: None, channels: 4, errors: None };
    let null = Backend::Null { size, block_size: 4096, model: Some(model) };
    let rules = DeviceRules { window: WindowRule::Fixed(8), profile, ..DeviceRules::default() };
    let stats = sluice_core::stats::PerReactor::new(2);
    Devices::default().add(testing::open(&null), rules, Arc::new(stats))
}

fn with_sessions(sessions: Vec<Session>) -> QosConfig {
    QosConfig { sessions, ..QosConfig::default() }
}

fn shared(config: &QosConfig) -> QosShared {
    shared_on(config).0
}

/// Makes the stages with a namespace, and returns its device.
fn shared_on(config: &QosConfig) -> (QosShared, Arc<OpenDevice>) {
    let qos = QosShared::new((config, LowestRates::default()), 2, 64 << 20);
    let (id, device) = device(GIB);
    qos.add_subsystem(Nanos(1), NQN);
    let settings = DeviceQos::default();
    qos.add_namespace(Nanos(1), (NQN, 1), id, &device, (Some(Class::Medium), &settings));
    (qos, device)
}

/// Adds a namespace on a new device without a class.
fn add(qos: &QosShared, now: u64, nsid: u32, size: u64) -> Arc<OpenDevice> {
    let (id, device) = device(size);
    qos.add_namespace(Nanos(now), (NQN, nsid), id, &device, (None, &DeviceQos::default()));
    device
}

/// Resolves the settings of one host's commands, as a reactor does.
fn resolve(qos: &QosShared, host: &str, nqn: &str, nsid: u32) -> sluice_core::Tenancy {
    resolve_from(qos, Asker { host, address: None }, nqn, nsid)
}

fn resolve_from(qos: &QosShared, asker: Asker<'_>, nqn: &str, nsid: u32) -> sluice_core::Tenancy {
    qos.snapshot().resolve(&asker, nqn, Some(nsid), qos.namespace(nqn, nsid))
}

fn session(name: &str) -> Session {
    Session { name: name.to_owned(), ..Session::default() }
}

/// Makes a policy that has commands of all hosts charged to a session.
fn to_session(name: &str) -> Policy {
    Policy { session: Some(name.to_owned()), ..Policy::default() }
}

/// Makes a session that reserves so many operations a second of namespace 1.
fn reserving(name: &str, operations: u64) -> Session {
    let terms = Terms::of(Budget::Operations(operations), Nanos(1_000_000_000));
    let reserve = Some(Reserve { terms, namespace: Some(format!("{NQN}/1")) });
    Session { reserve, ..session(name) }
}

/// Checks that settings are refused with these words.
#[track_caller]
fn assert_refused(result: Result<(), String>, words: &[&str]) {
    let refusal = result.unwrap_err();
    assert!(words.iter().all(|words| refusal.contains(words)), "{refusal}");
}

/// Returns the floors of the first reservation in words.
fn floors(qos: &QosShared, now: u64) -> String {
    let sessions = qos.state(Nanos(now)).sessions;
    sessions.into_iter().find_map(|session| session.reserve).unwrap().floors
}

#[test]
fn the_closest_policy_wins_setting_by_setting() {
    let policy = |host: bool, subsystem: bool, nsid: bool| Policy {
        host: host.then(|| HOST.to_owned()),
        subsystem: subsystem.then(|| NQN.to_owned()),
        nsid: nsid.then_some(1),
        ..Policy::default()
    };
    let config = QosConfig {
        policies: vec![
            Policy { class: Some(Class::Low), max_class: Some(Class::High), ..Policy::default() },
            Policy { class: Some(Class::High), ..policy(true, false, false) },
            Policy { class: Some(Class::Urgent), ..policy(false, true, false) },
            Policy { urgent_iops: Some(5), ..policy(false, true, true) },
        ],
        ..QosConfig::default()
    };
    let qos = shared(&config);
    let of = |host: &str, nsid: u32| resolve(&qos, host, NQN, nsid).class;
    // The host's policy comes before the subsystem's; settings that it leaves out come from
    // policies that name less.
    assert_eq!(of(HOST, 1).class, Some(Class::High));
    assert_eq!(of(HOST, 1).max_class, Some(Class::High));
    assert!(of(HOST, 1).urgent.is_some() && of(HOST, 2).urgent.is_none());
    assert_eq!(of("nqn.2026-01.io.x:other", 1).class, Some(Class::Urgent));
    let elsewhere = resolve(&qos, "nqn.2026-01.io.x:other", "nqn.2026-01.io.x:t", 1);
    assert_eq!(elsewhere.class.class, Some(Class::Low));
}

#[test]
fn of_two_policies_for_the_same_the_one_for_fewer_addresses_wins_setting_by_setting() {
    let from = |networks: &[&str]| -> Sources {
        networks.iter().map(|text| text.parse::<ipnet::IpNet>().unwrap()).collect()
    };
    let policy = |networks: &[&str], class| {
        let (host, addresses) = (Some(HOST.to_owned()), from(networks));
        Policy { host, addresses, class: Some(class), ..Policy::default() }
    };
    let (max_class, urgent_iops) = (Some(Class::High), Some(5));
    let general = Policy { max_class, urgent_iops, ..policy(&[], Class::Low) };
    let wide = policy(&["10.0.0.0/8"], Class::Medium);
    let narrow = policy(&["10.1.0.0/16", "2001:db8::/32"], Class::High);
    // A policy that names the host goes before a policy that names addresses alone.
    let max_class = Some(Class::Urgent);
    let no_host = Policy { host: None, max_class, ..policy(&["10.1.2.3/32"], Class::Urgent) };
    let policies = vec![general, wide, narrow, no_host];
    let qos = shared(&QosConfig { policies, ..QosConfig::default() });
    let of = |host: &str, address: Option<&str>| {
        let address = address.map(|text| text.parse().unwrap());
        resolve_from(&qos, Asker { host, address }, NQN, 2).class
    };
    for (address, class) in [
        (None, Class::Low),
        (Some("192.0.2.1"), Class::Low),
        (Some("10.9.0.1"), Class::Medium),
        (Some("::ffff:10.9.0.1"), Class::Medium),
        (Some("10.1.2.3"), Class::High),
        (Some("2001:db8::7"), Class::High),
        (Some("2001:db9::7"), Class::Low),
    ] {
        let seen = of(HOST, address);
        assert_eq!((seen.class, seen.max_class), (Some(class), Some(Class::High)), "{address:?}");
        assert!(seen.urgent.is_some());
    }
    let other = "nqn.2026-01.io.x:other";
    assert_eq!(of(other, Some("10.1.2.3")).class, Some(Class::Urgent));
    assert_eq!(of(other, Some("10.1.2.4")).class, None);
}

#[test]
fn a_namespace_has_its_class_and_its_session() {
    let qos = shared(&QosConfig::default());
    let resolved = resolve(&qos, HOST, NQN, 1);
    assert_eq!(resolved.class.class, Some(Class::Medium));
    let session = resolved.tenant.session;
    assert_eq!(session.name(), format!("{NQN}/1"));
    assert_eq!(session.parent().unwrap().name(), NQN);
    assert!(qos.set_namespace(Nanos(2), NQN, 1, None));
    assert_eq!(resolve(&qos, HOST, NQN, 1).class.class, None);
    assert!(!qos.set_namespace(Nanos(2), NQN, 9, None), "there is no such namespace");
    let before = qos.version();
    qos.set_listener(Nanos(2), ListenerId(4), Some(Class::Urgent));
    assert!(qos.version() > before);
    assert_eq!(qos.snapshot().listener_class(ListenerId(4)), Some(Class::Urgent));
    assert_eq!(qos.snapshot().dscp_class(Some(default_dscps().high << 2)), Some(Class::High));
}

#[test]
fn f2_what_does_not_fit_changes_nothing_and_says_what_would() {
    let (qos, device) = shared_on(&QosConfig::default());
    let config = |operations| with_sessions(vec![reserving("gold", operations)]);
    let version = qos.version();
    assert_refused(qos.set(Nanos(2), &config(10_000)), &["left", "would fit"]);
    assert_eq!((qos.version(), qos.config()), (version, QosConfig::default()));
    qos.set(Nanos(2), &config(1000)).unwrap();
    assert_eq!(device.qos.reservations().len(), 1);
    assert_eq!(qos.take_touched().unwrap().devices.len(), 1, "reactors are told");
    // A session's own reservation does not stand in the way of a change.
    qos.set(Nanos(3), &config(2000)).unwrap();
    let devices = qos.state(Nanos(3)).devices;
    assert!(devices[0].reserved > 0.5 && devices[0].reserved < 0.65, "{}", devices[0].reserved);
    let mut off = config(2000);
    off.general.enabled = false;
    qos.set(Nanos(4), &off).unwrap();
    assert!(device.qos.reservations().is_empty(), "nothing is reserved while nothing waits");
    qos.set(Nanos(4), &config(2000)).unwrap();
    assert_eq!(device.qos.reservations().len(), 1);
    qos.set(Nanos(4), &QosConfig::default()).unwrap();
    assert!(device.qos.reservations().is_empty());
}

#[test]
fn f2_a_fixed_window_that_makes_a_reservation_impossible_is_refused() {
    let (qos, device) = shared_on(&QosConfig::default());
    let set = |now: u64, window: WindowRule| {
        let mut config = with_sessions(vec![reserving("gold", 1000)]);
        config.general.window = window;
        qos.set(Nanos(now), &config)
    };
    let one_at_a_time = |now| {
        let said = floors(&qos, now);
        let (rate, depth) = said.split_once(" commands a second ").unwrap();
        assert!(depth.starts_with("one at a time"), "{depth}");
        rate.parse::<u32>().unwrap()
    };
    // Each command takes 250 us of the device: 5,000 of them take longer than a second.
    assert_refused(set(2, WindowRule::Fixed(5000)), &["a window of 5000 holds", "at most"]);
    set(3, WindowRule::default()).unwrap();
    assert!(device.qos.follows_reservations() && device.qos.queue_bound().is_some());
    assert_eq!(one_at_a_time(3), 500);
    let both = vec![reserving("gold", 1000), reserving("silver", 1000)];
    qos.set(Nanos(3), &with_sessions(both)).unwrap();
    assert_eq!(one_at_a_time(3), 359);
    set(4, WindowRule::Fixed(64)).unwrap();
    assert!(!device.qos.follows_reservations() && device.qos.queue_bound().is_none());
    assert_eq!(one_at_a_time(4), 58);
    assert!(!qos.take_touched().unwrap().devices.is_empty(), "reactors are told");
    assert_refused(set(5, WindowRule::Fixed(5000)), &["cannot keep its reservation"]);
}

#[test]
fn f1_reservations_follow_a_device_that_becomes_known() {
    const SECOND: u64 = 1_000_000_000;
    let qos = QosShared::new((&QosConfig::default(), LowestRates::default()), 2, 64 << 20);
    let (id, device) = device_with(GIB, Overrides::default());
    qos.add_subsystem(Nanos(1), NQN);
    qos.add_namespace(Nanos(1), (NQN, 1), id, &device, (None, &DeviceQos::default()));
    // It serves eight commands at once, 2 ms each.
    let load = |depth: u32| {
        let time = 2_000_000 * u64::from(depth.div_ceil(8));
        for at in 1..=2000 {
            let now = Nanos(at * 1000 + time);
            let begin = Nanos(at * 1000);
            device.qos.profiler.record(now, false, 4096, begin, Occupancy::steady(depth));
        }
    };
    let known = || {
        let all = device.qos.reservations();
        let [one] = &all[..] else { panic!("one reservation") };
        (one.reserved.queue_bound().at_once, one.reserved.kept())
    };
    load(1);
    qos.set(Nanos(SECOND), &with_sessions(vec![reserving("gold", 100)])).unwrap();
    assert_eq!(known().0, 1, "nothing shows yet that it serves more at once");
    assert!(qos.take_touched().is_some());
    let first = device.qos.reservations();
    first[0].reserved.note_demand(Nanos(SECOND), 0);
    let _ = first[0].reserved.next_period(Nanos(4 * SECOND));
    let counted = first[0].reserved.kept();
    assert!(counted.0 > 0);
    load(16);
    assert!(!qos.retry(Nanos(3 * SECOND - 1)), "a reservation stays for two of its periods");
    assert!(qos.retry(Nanos(4 * SECOND)));
    assert_eq!(known(), (8, counted), "the counts go on");
    assert_eq!(qos.take_touched().unwrap().devices.len(), 1, "reactors are told");
    assert_eq!(floors(&qos, 4 * SECOND), "100 commands a second at any depth");
    assert!(!qos.retry(Nanos(20 * SECOND)), "the device is the same");
    // Ten times as slow, it would not keep the reservation: that stays, and its periods are judged.
    for at in 1..=4000 {
        let begin = Nanos(SECOND + at * 1000);
        let end = Nanos(begin.0 + 400_000_000);
        device.qos.profiler.record(end, false, 4096, begin, Occupancy::steady(8));
    }
    assert!(!qos.retry(Nanos(40 * SECOND)));
    assert_eq!(known().0, 8);
}

#[test]
fn f2_limits_above_leave_room_for_reservations() {
    let of = |name: &str, operations: u64| Session {
        parent: Some("tenants".to_owned()),
        ..reserving(name, operations)
    };
    let tenants = |iops: u64| Session { limits: total(Some(iops), None), ..session("tenants") };
    let qos = shared(&QosConfig::default());
    let set = |iops: u64, gold: u64, silver: u64| {
        let sessions = vec![tenants(iops), of("gold", gold), of("silver", silver)];
        qos.set(Nanos(2), &with_sessions(sessions))
    };
    let words = ["session silver cannot reserve this", "1100 would be"];
    assert_refused(set(1000, 800, 300), &words);
    set(1000, 700, 300).unwrap();
    assert_refused(set(999, 700, 300), &["cannot keep its reservation"]);
    set(500, 200, 300).unwrap();
    let own = Session { limits: total(Some(199), None), ..of("gold", 200) };
    let result = qos.set(Nanos(3), &with_sessions(vec![tenants(500), own]));
    assert_refused(result, &["it is limited to 199 commands a second"]);
}

/// Makes a session that reserves `operations` writes of 64 KiB a second, with buffers for two seconds.
fn buffered(name: &str, operations: u64) -> Session {
    let mut session = reserving(name, operations);
    let terms = &mut session.reserve.as_mut().unwrap().terms;
    (terms.request_bytes, terms.write_percent, terms.buffers) = (64 << 10, 100, 2);
    session
}

#[test]
fn f4_half_of_a_reactors_buffers_may_be_set_aside_for_all_tenants_together() {
    // Each of two reactors has 32 MiB of the 64: 16 MiB are 256 writes.
    let qos = shared(&QosConfig::default());
    let set = |sessions: Vec<Session>| qos.set(Nanos(2), &with_sessions(sessions));
    set(vec![buffered("gold", 128)]).unwrap();
    assert_refused(set(vec![buffered("gold", 129)]), &["buffer"]);
    set(vec![buffered("gold", 64), buffered("silver", 64)]).unwrap();
    assert!(set(vec![buffered("gold", 64), buffered("silver", 65)]).is_err());
    // A reservation without buffers set aside needs its buffers in all reactors together.
    let mut plain = buffered("plain", 64);
    plain.reserve.as_mut().unwrap().terms.buffers = 1;
    set(vec![buffered("gold", 128), plain]).unwrap();
}

#[test]
fn f4_buffers_are_set_aside_while_their_reservation_is_in_force() {
    let qos = shared(&QosConfig::default());
    for (session, enabled, writes) in [
        // Two seconds of writes.
        (buffered("gold", 100), true, 200),
        (buffered("gold", 50), true, 100),
        // Commands do not wait.
        (buffered("gold", 50), false, 0),
        (buffered("gold", 50), true, 100),
        (session("gold"), true, 0),
    ] {
        let mut config = with_sessions(vec![session]);
        config.general.enabled = enabled;
        config.policies.push(to_session("gold"));
        qos.set(Nanos(2), &config).unwrap();
        // A session says of an amount whether it is another than before.
        let session = resolve(&qos, HOST, NQN, 1).tenant.session;
        assert!(!session.set_aside(writes * (64 << 10)), "{config:?}");
    }
}

#[test]
fn f2_a_reservation_waits_for_its_namespace_and_comes_back_with_it() {
    let config = with_sessions(vec![reserving("gold", 1000)]);
    let (qos, device) = shared_on(&config);
    assert_eq!(device.qos.reservations().len(), 1, "asked for before the namespace came");
    qos.remove_namespace(Nanos(2), NQN, 1);
    assert!(qos.state(Nanos(9)).sessions.iter().all(|session| session.reserve.is_none()));
    // Other changes go on meanwhile.
    let mut other = config.clone();
    other.general.queue = 77;
    qos.set(Nanos(3), &other).unwrap();
    let device = add(&qos, 4, 1, GIB);
    assert_eq!(device.qos.reservations().len(), 1);
}

#[test]
fn d1_sessions_are_below_what_the_configuration_says_whenever_that_comes() {
    let of = |name: &str, parent: Option<&str>| Session {
        parent: parent.map(str::to_owned),
        operations: Some(50),
        limits: total(Some(500), None),
        ..session(name)
    };
    let name = format!("{NQN}/1");
    let sessions = vec![of("gold", None), of(&name, Some("gold")), of("inner", Some(&name))];
    let config = QosConfig { policies: vec![to_session("inner")], ..with_sessions(sessions) };
    let line = |qos: &QosShared| -> Vec<String> {
        let session = resolve(qos, HOST, NQN, 1).tenant.session;
        let line = std::iter::successors(Some(&session), |session| session.parent());
        line.map(|session| session.name().to_owned()).collect()
    };
    let qos = shared(&config);
    assert_eq!(line(&qos), ["inner", &name, "gold", "root"]);
    let flows_version = qos.snapshot().flows_version;
    qos.remove_namespace(Nanos(2), NQN, 1);
    assert_eq!(line(&qos), ["inner", "root"], "what it was below is gone");
    assert_eq!(limits(&qos, "gold").0, Some(500), "other sessions stay");
    assert!(qos.snapshot().flows_version > flows_version, "connections are to find it again");
    add(&qos, 3, 1, GIB);
    assert_eq!(line(&qos), ["inner", &name, "gold", "root"]);
    qos.set(Nanos(4), &QosConfig::default()).unwrap();
    assert_eq!(line(&qos), [&name, NQN, "root"]);
}

#[test]
fn a_namespace_that_comes_or_goes_disturbs_no_connection() {
    let qos = shared(&QosConfig::default());
    let _ = qos.take_touched();
    let (version, before) = (qos.version(), resolve(&qos, HOST, NQN, 1).tenant.session);
    let (id, device) = device(GIB);
    for nsid in 2..100 {
        let settings = DeviceQos::default();
        qos.add_namespace(Nanos(2), (NQN, nsid), id, &device, (Some(Class::High), &settings));
    }
    assert_eq!(resolve(&qos, HOST, NQN, 99).class.class, Some(Class::High));
    for nsid in 2..100 {
        qos.remove_namespace(Nanos(3), NQN, nsid);
    }
    qos.add_subsystem(Nanos(4), "nqn.2026-01.io.x:other");
    qos.remove_subsystem(Nanos(5), "nqn.2026-01.io.x:other");
    assert_eq!(qos.version(), version);
    assert!(qos.take_touched().is_none(), "no reactor is woken");
    let after = resolve(&qos, HOST, NQN, 1).tenant.session;
    assert!(Arc::ptr_eq(&before, &after));
    assert_eq!(resolve(&qos, HOST, NQN, 99).tenant.session.name(), "root");
}

#[test]
fn d1_changes_for_ever_do_not_run_out_of_places() {
    let qos = shared(&QosConfig::default());
    for round in 0..500u64 {
        let name = format!("s{round}");
        let session = Session { limits: total(Some(round + 1), None), ..session(&name) };
        let policies = vec![to_session(&name)];
        let config = QosConfig { policies, ..with_sessions(vec![session]) };
        qos.set(Nanos(round), &config).unwrap();
        let _ = qos.take_touched();
        let session = resolve(&qos, HOST, NQN, 1).tenant.session;
        assert!(session.name() == name && session.id().0 < 8, "{name}");
    }
    assert!(qos.kept_statistics() < 8, "statistics of what has gone");
}

/// Returns the limits on all commands that a session has now.
fn limits(qos: &QosShared, name: &str) -> (Option<u64>, Option<u64>) {
    let sessions = qos.state(Nanos(9)).sessions;
    let session = sessions.into_iter().find(|session| session.name == name).unwrap();
    let Rates { iops, bandwidth } = session.limits.total;
    (iops.map(Rate::get), bandwidth.map(Rate::get))
}

#[test]
fn a_limit_per_gib_follows_the_size_of_its_namespace() {
    let own = format!("{NQN}/1");
    let per_gib =
        |iops| Limits { per_gib: rates(Some(iops), Some(1 << 20)), ..total(Some(24), None) };
    let sized = Session { limits: per_gib(10), ..session(&own) };
    let config = |sized: Session| with_sessions(vec![sized]);
    let qos = shared(&config(sized.clone()));
    assert_eq!(limits(&qos, &own), (Some(10), Some(1 << 20)));
    assert_eq!(limits(&qos, NQN), (None, None));
    let _ = qos.take_touched();
    let version = qos.version();
    qos.resize_namespace(Nanos(2), NQN, 1, GIB * 9 / 4);
    assert_eq!(limits(&qos, &own), (Some(23), Some(9 << 18)), "rounded up");
    assert!(!qos.take_touched().unwrap().sessions.is_empty(), "reactors are told");
    assert_eq!(qos.version(), version, "connections are left alone");
    qos.resize_namespace(Nanos(3), NQN, 1, 8 * GIB);
    assert_eq!(limits(&qos, &own), (Some(24), Some(8 << 20)), "`iops` is lower");
    qos.resize_namespace(Nanos(4), NQN, 1, 4096);
    assert_eq!(limits(&qos, &own), (Some(1), Some(4)));
    qos.remove_namespace(Nanos(5), NQN, 1);
    add(&qos, 6, 1, 2 * GIB);
    assert_eq!(limits(&qos, &own), (Some(20), Some(2 << 20)), "it came back with another size");
    qos.set(Nanos(7), &config(Session { limits: per_gib(7), ..sized.clone() })).unwrap();
    assert_eq!(limits(&qos, &own).0, Some(14), "another value");
    let mut off = config(sized);
    off.general.enabled = false;
    qos.set(Nanos(8), &off).unwrap();
    qos.resize_namespace(Nanos(9), NQN, 1, GIB);
    assert_eq!(limits(&qos, &own), (None, None), "quality of service is off");
}

#[test]
fn a_subsystems_limit_per_gib_counts_all_its_namespaces() {
    let per_gib = Limits { per_gib: rates(Some(10), None), ..Limits::default() };
    let qos = shared(&with_sessions(vec![Session { limits: per_gib, ..session(NQN) }]));
    assert_eq!(limits(&qos, NQN), (Some(10), None));
    add(&qos, 2, 2, GIB / 2);
    assert_eq!(limits(&qos, NQN), (Some(15), None));
    assert_eq!(limits(&qos, &format!("{NQN}/2")), (None, None));
    qos.resize_namespace(Nanos(3), NQN, 2, 2 * GIB);
    assert_eq!(limits(&qos, NQN).0, Some(30));
    add(&qos, 4, 2, GIB);
    assert_eq!(limits(&qos, NQN).0, Some(20), "another device in its place");
    qos.resize_namespace(Nanos(5), NQN, 7, GIB);
    assert_eq!(limits(&qos, NQN).0, Some(20), "there is no such namespace");
    qos.remove_namespace(Nanos(6), NQN, 1);
    qos.remove_namespace(Nanos(6), NQN, 1);
    assert_eq!(limits(&qos, NQN).0, Some(10));
    qos.remove_namespace(Nanos(7), NQN, 2);
    assert_eq!(limits(&qos, NQN).0, None, "nothing is left to limit");
    qos.remove_subsystem(Nanos(8), NQN);
    qos.add_subsystem(Nanos(8), NQN);
    add(&qos, 9, 1, 3 * GIB);
    assert_eq!(limits(&qos, NQN).0, Some(30), "of former namespaces nothing is counted");
}

#[test]
fn sessions_of_one_profile_have_limits_by_their_own_sizes() {
    let (one, two) = (format!("{NQN}/1"), format!("{NQN}/2"));
    let config = |iops: u64| {
        let of = |name| Session { profile: Some("gold".to_owned()), ..session(name) };
        let limits = Limits { per_gib: rates(Some(iops), Some(1 << 20)), ..Limits::default() };
        let gold = Profile { name: "gold".to_owned(), limits };
        let sessions = vec![of(&one), of(&two)];
        QosConfig { profiles: vec![gold], ..with_sessions(sessions) }
    };
    let qos = shared(&config(10));
    add(&qos, 2, 2, 4 * GIB);
    assert_eq!(limits(&qos, &one), (Some(10), Some(1 << 20)));
    assert_eq!(limits(&qos, &two), (Some(40), Some(4 << 20)));
    qos.set(Nanos(3), &config(3)).unwrap();
    assert_eq!((limits(&qos, &one).0, limits(&qos, &two).0), (Some(3), Some(12)));
}

#[test]
fn d6_nodes_share_limit_of_their_session() {
    let config = sluice_config::testing::parse(
        "[[session]]\nname = \"tenant\"\nbandwidth = \"100 MiB/s\"\n\
         [[policy]]\nhost = \"nqn.2026-01.io.x:h0\"\nsession = \"tenant\"\n\
         [[policy]]\nhost = \"nqn.2026-01.io.x:h1\"\nsession = \"tenant\"\n",
    )
    .unwrap();
    let nodes = Nodes::new(Arc::new(shared(&config.qos)));
    let now = Nanos(10_000_000_000);
    let node = |host| Node { host, subsystem: NQN, address: None };
    let busy = Amount { operations: 8, kib: 32 };
    let backlog =
        NamespaceBacklog { nsid: 1, in_flight: busy, waiting: busy, ..Default::default() };
    for host in ["nqn.2026-01.io.x:h0", "nqn.2026-01.io.x:h1"] {
        nodes.report(now, &node(host), &[backlog]);
    }
    for (host, session, bandwidth) in [
        ("nqn.2026-01.io.x:h0", "tenant".to_owned(), Some(50 << 20)),
        ("nqn.2026-01.io.x:h1", "tenant".to_owned(), Some(50 << 20)),
        ("nqn.2026-01.io.x:other", format!("{NQN}/1"), None),
    ] {
        let page = nodes.credits(now, &node(host), &mut [1].into_iter());
        let [one] = &page.namespaces[..] else { panic!("{page:?}") };
        assert_eq!((&one.session, one.rates[0].bandwidth), (&session, bandwidth));
    }
}
