//! Tests of plans: that a plan leads to its goal, in an order that can be undone.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use arbitration::Class;
use arbitration::limit::Rate;
use ipnet::IpNet;
use proptest::prelude::*;
use sluice_config::{
    AllowedHost, Backend, Config, DeviceQos, Goal, HostRights, LinkConfig, Listener, Namespace,
    Order, Policy, RegionConfig, SecureChannel, Session, Sources, Subsystem, Transport, clash,
    plain_path,
};
use uuid::Uuid;

use super::change::Why;
use super::*;
use crate::control::api::test_engine::{TestEngine, sorted};

fn class() -> impl Strategy<Value = Option<Class>> {
    proptest::option::of(prop_oneof![Just(Class::High), Just(Class::Urgent)])
}

fn backend() -> impl Strategy<Value = Backend> {
    let size = || proptest::option::of((1u64..4).prop_map(|n| n << 20));
    prop_oneof![
        (1u64..4).prop_map(|n| Backend::Memory { size: n << 20, block_size: 4096 }),
        (1u64..4).prop_map(|n| Backend::Null { size: n << 20, block_size: 512, model: None }),
        (0u8..3, size()).prop_map(|(n, size)| Backend::File {
            path: format!("/srv/{n}").into(),
            size,
            block_size: None,
            direct: true,
            create: size.is_some(),
        }),
        (0u8..3, size()).prop_map(|(n, size)| Backend::Pmem {
            path: format!("/srv/pmem{n}").into(),
            size,
            block_size: None,
            create: size.is_some(),
        }),
        (1u8..3).prop_map(|n| Backend::Nvme {
            device: format!("/dev/ng0n{n}").into(),
            forward_class: false,
        }),
    ]
}

fn namespace() -> impl Strategy<Value = Namespace> {
    let hosts = proptest::option::of(Just(vec!["nqn.2026-01.io.x:h0".to_owned()]));
    (1u32..4, backend(), 1u128..6, any::<bool>(), hosts, class(), any::<bool>()).prop_map(
        |(nsid, backend, id, read_only, hosts, class, containers)| Namespace {
            nsid: Some(nsid),
            backend,
            uuid: Some(Uuid::from_u128(id)),
            nguid: Some(id.to_be_bytes()),
            read_only,
            force: containers,
            hosts,
            class,
            device: DeviceQos {
                order: if containers { Order::Containers } else { Order::Fair },
                ..DeviceQos::default()
            },
        },
    )
}

fn subsystem() -> impl Strategy<Value = Subsystem> {
    let sources = prop_oneof![
        Just(Sources::default()),
        (8u8..10).prop_map(|length| {
            let network = IpNet::new([10, 0, 0, 0].into(), length).unwrap();
            [network].into_iter().collect::<Sources>()
        }),
    ];
    let names = proptest::sample::subsequence(vec!["h0", "h1", "h2"], 0..3);
    let hosts = names.prop_flat_map(move |names| {
        let entries = proptest::collection::vec((sources.clone(), rights()), names.len());
        entries.prop_map(move |entries| {
            let host = |(name, (sources, rights)): (&&str, _)| AllowedHost {
                nqn: format!("nqn.2026-01.io.x:{name}"),
                sources,
                rights,
            };
            names.iter().zip(entries).map(host).collect::<Vec<_>>()
        })
    });
    let namespaces = proptest::collection::vec(namespace(), 0..4);
    // Mostly a number of its own, else a number that another subsystem may have.
    let serial = prop_oneof![4 => Just(None), 1 => (0u8..3).prop_map(Some)];
    (0u8..3, serial, any::<(bool, bool)>(), hosts, namespaces).prop_map(
        |(n, serial, (allow_any_host, require_authentication), hosts, namespaces)| Subsystem {
            nqn: format!("nqn.2026-01.io.x:s{n}"),
            serial: Some(format!("S{}", serial.unwrap_or(n))),
            model: None,
            allow_any_host,
            require_authentication,
            hosts,
            namespaces,
        },
    )
}

fn rights() -> impl Strategy<Value = HostRights> {
    let namespaces = proptest::option::of(proptest::collection::btree_set(1u32..4, 0..3));
    (namespaces, any::<bool>(), class()).prop_map(|(namespaces, read_only, max_class)| HostRights {
        namespaces,
        read_only,
        max_class,
    })
}

fn listener() -> impl Strategy<Value = Listener> {
    let subsystems = proptest::option::of(Just(vec!["nqn.2026-01.io.x:s0".to_owned()]));
    let link = proptest::option::of(0u8..3);
    (1u16..4, any::<bool>(), any::<(bool, bool)>(), subsystems, class(), link).prop_map(
        |(port, all, (discovery_only, require_authentication), subsystems, class, link)| Listener {
            transport: Transport::Tcp,
            address: SocketAddr::from((if all { [0; 4] } else { [127, 0, 0, 1] }, port)).into(),
            advertise: None,
            discovery_only,
            tls: if all { SecureChannel::Off } else { SecureChannel::Allowed },
            require_authentication,
            subsystems,
            class,
            link: link.map(|n| format!("l{n}")),
        },
    )
}

fn region() -> impl Strategy<Value = RegionConfig> {
    let path = proptest::option::of(prop_oneof![
        (0u8..3).prop_map(|n| format!("/srv/{n}")),
        (0u8..3).prop_map(|n| format!("/srv//pmem{n}")),
    ]);
    let hosts = proptest::sample::subsequence(vec!["h0", "h1"], 0..=2);
    let flags = (any::<bool>(), any::<bool>());
    (0u8..3, path, 1u64..4, flags, hosts, 0u64..3).prop_map(
        |(n, path, pages, (create, read_only), hosts, reserve)| RegionConfig {
            name: format!("r{n}"),
            create: create && path.is_some(),
            path: path.map(Into::into),
            read_only,
            size: Some(pages * 4096),
            hosts: hosts.iter().map(|host| format!("nqn.2026-01.io.x:{host}")).collect(),
            reserve,
            limit: None,
        },
    )
}

/// Adds an object, unless it clashes with an earlier one. Returns whether it was added.
fn add(config: &mut Config, change: impl FnOnce(&mut Config)) -> bool {
    let mut next = config.clone();
    change(&mut next);
    let fits = clash(&next).is_none();
    if fits {
        *config = next;
    }
    fits
}

/// Makes a configuration of few names, addresses and paths, so that two of them clash often.
fn config() -> impl Strategy<Value = Config> {
    let links = proptest::sample::subsequence(vec![0u8, 1, 2], 0..=3);
    let qos = (proptest::option::of(1u64..4), any::<bool>(), 1u32..4, 1u32..3);
    let listeners = proptest::collection::vec(listener(), 0..4);
    let subsystems = proptest::collection::vec(subsystem(), 0..4);
    let regions = (proptest::collection::vec(region(), 0..4), any::<bool>());
    let all = (links, qos, listeners, subsystems, regions);
    all.prop_map(|(links, qos, listeners, subsystems, (regions, regions_first))| {
        let mut config = Config::default();
        let (iops, policy, share, other) = qos;
        config.network.link.goals.low = Goal::Share(other);
        for n in links {
            let mut link = LinkConfig { name: format!("l{n}"), ..LinkConfig::default() };
            link.goals.high = Goal::Share(share);
            config.network.links.push(link);
        }
        let mut gold = Session { name: "gold".into(), ..Session::default() };
        gold.limits.total.iops = iops.and_then(Rate::per_second);
        config.qos.sessions.extend(iops.map(|_| gold));
        config.qos.sessions.push(Session { name: "silver".into(), ..Session::default() });
        let session = iops.map(|_| "gold".to_owned());
        let policy =
            policy.then(|| Policy { session, class: Some(Class::High), ..Policy::default() });
        config.qos.policies.extend(policy);
        let add_regions = |config: &mut Config| {
            for region in &regions {
                add(config, |next| next.pmem.regions.push(region.clone()));
            }
        };
        if regions_first {
            add_regions(&mut config);
        }
        for mut subsystem in subsystems {
            let namespaces = std::mem::take(&mut subsystem.namespaces);
            let is_new = config.subsystems.iter().all(|known| known.nqn != subsystem.nqn);
            if !is_new || !add(&mut config, |next| next.subsystems.push(subsystem)) {
                continue;
            }
            for namespace in namespaces {
                let known = &config.subsystems.last().unwrap().namespaces;
                if known.iter().all(|known| known.nsid != namespace.nsid) {
                    add(&mut config, |next| {
                        next.subsystems.last_mut().unwrap().namespaces.push(namespace);
                    });
                }
            }
        }
        for mut listener in listeners {
            let known = |nqn: &String| config.subsystems.iter().any(|s| s.nqn == *nqn);
            listener.subsystems = listener.subsystems.filter(|names| names.iter().all(known));
            add(&mut config, |next| next.listeners.push(listener));
        }
        // Regions that are there already do not fit again.
        add_regions(&mut config);
        config
    })
}

/// The size that the engine for tests says a file has.
const FILE_SIZE: u64 = 77 * 4096;

/// Sorts a configuration, without the settings that count only when a file is opened.
fn plain(config: &Config) -> Config {
    let mut config = sorted(config);
    config.pmem.regions.iter_mut().for_each(|region| region.create = false);
    for namespace in config.subsystems.iter_mut().flat_map(|s| &mut s.namespaces) {
        namespace.force = false;
        namespace.backend.set_create(false);
    }
    config
}

/// Returns the same with the sizes of files.
fn measured(config: &Config) -> Config {
    let mut config = plain(config);
    for namespace in config.subsystems.iter_mut().flat_map(|s| &mut s.namespaces) {
        if let Backend::File { size, .. } | Backend::Pmem { size, .. } = &mut namespace.backend {
            size.get_or_insert(FILE_SIZE);
        }
    }
    config
}

/// Checks that a plan makes one configuration of another.
fn leads(from: &Config, to: &Config) {
    let engine = TestEngine::new(from.clone());
    let changes = plan(from, to);
    let said: Vec<String> = changes.iter().map(Change::to_string).collect();
    run(&engine, &changes).unwrap_or_else(|error| panic!("{error:?} in {said:#?}"));
    assert_eq!(plain(&engine.config.lock().unwrap()), plain(to));
}

fn reversed(config: &Config) -> Config {
    let mut config = config.clone();
    config.listeners.reverse();
    config.network.links.reverse();
    config.pmem.regions.reverse();
    config.qos.sessions.reverse();
    config.subsystems.reverse();
    for subsystem in &mut config.subsystems {
        subsystem.hosts.reverse();
        subsystem.namespaces.reverse();
    }
    config
}

/// Returns whether a change loses data in memory.
fn loses_memory(change: &Change) -> bool {
    let memory = |n: &Namespace| matches!(n.backend, Backend::Memory { .. });
    match change {
        Change::RemoveSubsystem(subsystem, _) => subsystem.namespaces.iter().any(memory),
        Change::RemoveNamespace(_, namespace, _) => memory(namespace),
        Change::Resize { from: Some(from), to: Some(to), .. } => to < from,
        Change::Regions { from, to } => from
            .iter()
            .any(|region| regions::loses_memory(region, regions::named(to, &region.name))),
        _ => false,
    }
}

/// Returns whether regions use a file or device of a namespace that one of these changes removes.
fn take_place(removals: &[Change], regions: &[RegionConfig]) -> bool {
    let paths: Vec<_> = regions.iter().filter_map(|r| r.path.as_deref()).map(plain_path).collect();
    let taken = |n: &Namespace| n.backend.path().is_some_and(|p| paths.contains(&plain_path(p)));
    removals.iter().any(|change| match change {
        Change::RemoveSubsystem(subsystem, _) => subsystem.namespaces.iter().any(taken),
        Change::RemoveNamespace(_, namespace, _) => taken(namespace),
        _ => false,
    })
}

/// Returns whether an addition needs an identifier or path that a removal frees.
fn waits(changes: &[Change], addition: &Change) -> bool {
    let ids = |change: &Change| -> Vec<String> {
        let (serial, namespaces) = match change {
            Change::AddSubsystem(s, _) | Change::RemoveSubsystem(s, _) => {
                (s.serial.clone(), s.namespaces.clone())
            }
            Change::AddNamespace(_, n, _) | Change::RemoveNamespace(_, n, _) => {
                (None, vec![n.clone()])
            }
            _ => (None, Vec::new()),
        };
        let ids = namespaces.iter().flat_map(|n| {
            let path = n.backend.path().map(|path| path.display().to_string());
            let path = path.unwrap_or_default();
            [n.uuid.unwrap().to_string(), path]
        });
        serial.into_iter().chain(ids).filter(|id| !id.is_empty()).collect()
    };
    let wanted = ids(addition);
    let removals = changes.iter().filter(|change| change.is_removal());
    removals.flat_map(ids).any(|id| wanted.contains(&id))
}

/// The access of a host to a subsystem: the NSIDs that it may see, and its rights there.
#[derive(Debug, PartialEq)]
struct Seen {
    nsids: BTreeSet<u32>,
    writes: bool,
    highest: Class,
    without_proof: bool,
}

impl Seen {
    /// Returns the access of a host that comes from an address; `None` where it sees nothing.
    fn of(config: &Config, nqn: &str, host: &str, address: &str) -> Option<Self> {
        let subsystem = config.subsystems.iter().find(|subsystem| subsystem.nqn == nqn)?;
        let listed = subsystem.hosts.iter().find(|known| known.nqn == host);
        let rights = match listed {
            Some(known) if !known.sources.admit(address.parse().ok()) => return None,
            Some(known) => known.rights.clone(),
            None if subsystem.allow_any_host => HostRights::default(),
            None => return None,
        };
        let nsids: BTreeSet<u32> = (1..4).filter(|&nsid| rights.show(nsid)).collect();
        (!nsids.is_empty()).then_some(Self {
            nsids,
            writes: !rights.read_only,
            highest: rights.highest_class(),
            without_proof: !subsystem.require_authentication,
        })
    }

    fn is_within(&self, other: &Self) -> bool {
        self.nsids.is_subset(&other.nsids)
            && self.writes <= other.writes
            && self.highest <= other.highest
            && self.without_proof <= other.without_proof
    }
}

/// Checks the access of all hosts between two changes: `has_added` and `will_remove` say whether something that not both
/// configurations have is there.
fn has_access_of_both(
    (from, now, to): (&Config, &Config, &Config),
    (has_added, will_remove): (bool, bool),
) -> Result<(), TestCaseError> {
    let stays = |nqn: &str| {
        let serial = |config: &Config| {
            let found = config.subsystems.iter().find(|subsystem| subsystem.nqn == nqn);
            found.map(|subsystem| subsystem.serial.clone())
        };
        serial(from).is_some() && serial(from) == serial(to)
    };
    for nqn in now.subsystems.iter().map(|subsystem| &subsystem.nqn).filter(|nqn| stays(nqn)) {
        for host in ["h0", "h1", "h2", "h3"].map(|host| format!("nqn.2026-01.io.x:{host}")) {
            for address in ["10.0.0.1", "10.64.0.1", "10.160.0.1", "192.0.2.1"] {
                let seen = |config| Seen::of(config, nqn, &host, address);
                let (before, present, after) = (seen(from), seen(now), seen(to));
                let within = |of: &Option<Seen>| match (&present, of) {
                    (None, _) => true,
                    (Some(present), Some(of)) => present.is_within(of),
                    (Some(_), None) => false,
                };
                let shown = format!("{before:?} {present:?} {after:?}: {host} at {nqn}");
                prop_assert!(!has_added || within(&after), "sees what is added: {}", shown);
                prop_assert!(!will_remove || within(&before), "sees what is removed: {}", shown);
                // A host that may connect before and after the changes is never shut out.
                let admits = |config| Seen::of(&all_namespaces(config), nqn, &host, address);
                let shut_out = admits(from).is_some() && admits(to).is_some();
                prop_assert!(!shut_out || admits(now).is_some(), "is shut out: {}", shown);
            }
        }
    }
    Ok(())
}

/// Returns the same with hosts that see all namespaces.
fn all_namespaces(config: &Config) -> Config {
    let mut config = config.clone();
    for host in config.subsystems.iter_mut().flat_map(|subsystem| &mut subsystem.hosts) {
        host.rights.namespaces = None;
    }
    config
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    /// Checks it between all changes of a plan, and so for its undoing, which has the same states.
    #[test]
    fn access_narrows_before_anything_is_added_and_widens_after_all_is_removed(
        from in config(), to in config(),
    ) {
        let changes = plan(&from, &to);
        let adds = |change: &Change| matches!(
            change,
            Change::AddSubsystem(..) | Change::AddNamespace(..) | Change::AddListener(..)
        );
        let removes = |change: &Change| matches!(
            change,
            Change::RemoveSubsystem(..) | Change::RemoveNamespace(..) | Change::RemoveListener(..)
        );
        let engine = TestEngine::new(from.clone());
        for (at, change) in changes.iter().enumerate() {
            let there = (changes[..at].iter().any(adds), changes[at..].iter().any(removes));
            let now = engine.config.lock().unwrap().clone();
            has_access_of_both((&from, &now, &to), there)?;
            change.make(&engine).unwrap();
        }
        // Nor does anything come by a listener that goes.
        let first = changes.iter().position(adds).unwrap_or(changes.len());
        let is_listener = |change: &Change| matches!(change, Change::RemoveListener(..));
        prop_assert!(!changes[first..].iter().any(is_listener), "{:#?}", changes);
    }

    /// Checks that each step is possible at its place: at no time do two objects have one address
    /// or identifier or write to one file, and no listener names a link that does not exist.
    #[test]
    fn a_plan_makes_one_configuration_of_another(from in config(), to in config()) {
        leads(&from, &to);
    }

    #[test]
    fn between_equal_configurations_there_is_nothing_to_do(config in config()) {
        prop_assert_eq!(plan(&config, &config), []);
        prop_assert_eq!(plan(&config, &reversed(&config)), []);
    }

    #[test]
    fn where_any_step_fails_everything_is_as_it_was(
        from in config(), to in config(), at in any::<prop::sample::Index>(),
    ) {
        let changes = plan(&from, &to);
        prop_assume!(!changes.is_empty());
        let at = at.index(changes.len());
        let engine = TestEngine::new(from.clone());
        *engine.refuse_after.lock().unwrap() = Some(at);
        let error = run(&engine, &changes).unwrap_err().to_string();
        prop_assert!(error.contains(&changes[at].to_string()), "{}", error);
        prop_assert!(error.ends_with("; everything is as it was"), "{}", error);
        prop_assert_eq!(measured(&engine.config.lock().unwrap()), measured(&from));
    }

    /// Checks that changes which can fail come before the removal of memory, which nothing brings
    /// back. Permissions are never refused.
    #[test]
    fn what_is_in_memory_goes_after_everything_that_can_fail(from in config(), to in config()) {
        let changes = plan(&from, &to);
        let first = changes.iter().position(loses_memory).unwrap_or(changes.len());
        for later in &changes[first..] {
            // An object that takes the place of one in memory can be added only after that one is
            // gone.
            let harmless = match later {
                Change::AddListener(..) => false,
                Change::ListenerLink { .. } | Change::ListenerClass { .. } => false,
                Change::NamespaceClass { .. } => false,
                Change::Regions { to, .. } => {
                    loses_memory(later) || take_place(&changes[first..], to)
                }
                Change::AddSubsystem(_, why) | Change::AddNamespace(_, _, why) => {
                    *why != Why::Itself || waits(&changes, later)
                }
                _ => true,
            };
            prop_assert!(harmless, "{} in {:#?}", later, changes);
        }
    }
}

fn parse(text: &str) -> Config {
    sluice_config::testing::parse(text).unwrap()
}

const FILE: &str = "[[listener]]\naddress = \"127.0.0.1:4420\"\n\
    [[subsystem]]\nnqn = \"nqn.2026-01.io.x:a\"\n\
    [[subsystem.namespace]]\nnsid = 1\nbackend = \"memory\"\nsize = \"1 MiB\"\n";

fn said(from: &str, to: &str) -> String {
    let changes = plan(&parse(from), &parse(to));
    changes.iter().map(Change::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn changes_are_told_in_words() {
    let nqn = "nqn.2026-01.io.x:a";
    let required = FILE.replace("x:a\"\n", "x:a\"\nrequire_authentication = true\n");
    let listener = "listener 127.0.0.1:4420";
    for (edited, words) in [
        (FILE.replace("1 MiB", "2 MiB"), format!("namespace 1 of {nqn} goes from 1 MiB to 2 MiB")),
        (
            format!("{FILE}read_only = true\n"),
            format!(
                "namespace 1 of {nqn} (memory, 1 MiB) is removed, to be added again with another \
                 read_only; namespace 1 of {nqn} (memory, 1 MiB) is added again, with another \
                 read_only"
            ),
        ),
        (
            FILE.replace("127.0.0.1", "0.0.0.0"),
            format!("{listener} is removed; listener 0.0.0.0:4420 is added"),
        ),
        (
            FILE.replace("4420\"", "4420\"\nclass = \"high\""),
            format!("{listener} goes from no class to class high"),
        ),
        (format!("[qos]\nburst = 8\n{FILE}"), "quality of service changes: [qos]".to_owned()),
        (required.clone(), format!("hosts of {nqn} must authenticate")),
        (
            FILE.replace("4420\"", "4420\"\nrequire_authentication = true"),
            format!(
                "{listener} is removed, to be added again with another require_authentication; \
                 {listener} is added again, with another require_authentication"
            ),
        ),
    ] {
        assert_eq!(said(FILE, &edited), words);
    }
    assert_eq!(said(&required, FILE), format!("hosts of {nqn} need not authenticate any more"));
}

#[test]
fn changes_of_regions_are_told_in_words() {
    let region = |name: &str, rest: &str| format!("[[region]]\nname = \"{name}\"\n{rest}\n");
    let (a, b, c) = ("path = \"/a\"", "path = \"/b\"", "path = \"/c\"");
    let file = region("a", a) + &region("b", b);
    let larger = region("a", "path = \"/a\"\nsize = \"4 KiB\"\nreserve = 5") + &region("c", c);
    let moved = region("a", a) + &region("b", c);
    let (small, large) = (region("m", "size = \"4 KiB\""), region("m", "size = \"8 KiB\""));
    for (from, to, words) in [
        ("", &file, "a is added, b is added"),
        (&file, &larger, "b is removed, a gets another size, reserve, c is added"),
        (&file, &moved, "b is removed and added again with another path"),
        // A region in memory that becomes smaller goes last, alone.
        (
            &large,
            &(small.clone() + &file),
            "a is added, b is added; regions change: m gets another size",
        ),
        (&large, &region("m", a), "m is removed and added again with another path, size"),
    ] {
        let said = said(&format!("{FILE}{from}"), &format!("{FILE}{to}"));
        assert_eq!(said, format!("regions change: {words}"));
    }
    let grows = said(&format!("{FILE}{small}"), &format!("{FILE}{large}{file}"));
    assert!(!grows.contains("; "), "a region that grows loses nothing: {grows}");
}

#[test]
fn serial_numbers_change_hands() {
    let of = |a: &str, b: &str| {
        let subsystem = |name: &str, serial: &str| {
            format!("[[subsystem]]\nnqn = \"nqn.2026-01.io.x:{name}\"\nserial = \"{serial}\"\n")
        };
        parse(&(subsystem("a", a) + &subsystem("b", b)))
    };
    for (from, to) in [(("1", "2"), ("2", "1")), (("1", "2"), ("3", "1"))] {
        leads(&of(from.0, from.1), &of(to.0, to.1));
    }
}

#[test]
fn a_file_goes_from_a_region_to_a_namespace_and_back() {
    let region = "[[region]]\nname = \"a\"\npath = \"/srv/a\"\nsize = \"4 KiB\"\ncreate = true\n";
    let disk = "[[subsystem.namespace]]\nnsid = 2\nbackend = \"file\"\npath = \"/srv/a\"\n";
    let (of_region, of_disk) = (parse(&format!("{FILE}{region}")), parse(&format!("{FILE}{disk}")));
    for (from, to) in [(&of_region, &of_disk), (&of_disk, &of_region)] {
        leads(from, to);
    }
    let changes = plan(&of_region, &of_disk);
    let Change::Regions { to, .. } = changes[0].inverse() else { panic!("{changes:?}") };
    assert!(!to[0].create, "a file that has vanished meanwhile is not made");
    let mut same = of_region.clone();
    same.pmem.regions[0].create = false;
    assert_eq!(plan(&of_region, &same), [], "it means nothing to a file that is open");
}

#[test]
fn a_namespace_that_was_never_open_can_go() {
    let empty = "[[subsystem]]\nnqn = \"nqn.2026-01.io.x:a\"\n";
    let listener = "[[listener]]\naddress = \"127.0.0.1:4421\"\n";
    let engine = TestEngine::new(parse(empty));
    run(&engine, &plan(&parse(FILE), &parse(&format!("{listener}{empty}")))).unwrap();
    assert_eq!(engine.config.lock().unwrap().listeners.len(), 1);
}

/// Checks that a namespace is added again without force, and that a vanished file is not created.
#[test]
fn a_file_that_was_served_comes_again_as_it_is() {
    let file = FILE.replace(
        "backend = \"memory\"\n",
        "backend = \"file\"\npath = \"/srv/a\"\ncreate = true\n",
    );
    let (before, after) = (parse(&file), parse(&format!("{file}window = 8\n")));
    let changes = plan(&before, &after);
    let [removal, Change::AddNamespace(_, added, _)] = &changes[..] else { panic!("{changes:?}") };
    let Change::AddNamespace(_, back, _) = removal.inverse() else { panic!("{removal:?}") };
    for namespace in [added, &back] {
        assert!(!namespace.force, "it is compared with what was seen");
        assert!(matches!(namespace.backend, Backend::File { create: false, .. }));
    }
    let elsewhere = parse(&file.replace("/srv/a", "/srv/b"));
    let changes = plan(&before, &elsewhere);
    assert!(matches!(&changes[1], Change::AddNamespace(_, new, _) if !new.force), "{changes:?}");
    // Neither key means anything to a file that is open.
    assert_eq!(plan(&before, &parse(&file.replace("create = true", "force = true"))), []);
}
