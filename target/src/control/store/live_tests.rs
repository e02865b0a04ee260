//! Tests of live changes against the configuration file.

use arbitration::limit::Rate;
use ipnet::IpNet;
use proptest::prelude::*;
use sluice_config::testing::{configs, parse};
use sluice_config::{
    AllowedHost, Backend, Goal, HostRights, LinkConfig, ListenAddress, Listener, Namespace, Policy,
    RegionConfig, Session, Subsystem, derived_nguid, derived_serial, derived_uuid,
};

use super::*;
use crate::control::api::test_engine::sorted;
use crate::control::store::MemoryStore;

/// A live change of small numbers, so that changes meet often.
#[derive(Clone, Debug)]
enum Op {
    Listener(u16, bool, Option<u8>),
    Network(u32),
    Link(u8, Option<u32>),
    Region(u8, Option<u64>),
    Subsystem(u8, bool),
    AnyHost(u8, bool),
    Host(u8, u8, Option<u8>),
    Namespace(u8, u32, Option<u64>),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        (1u16..4, any::<bool>(), proptest::option::of(0u8..4))
            .prop_map(|(port, add, link)| Op::Listener(port, add, link)),
        (1u32..4).prop_map(Op::Network),
        (0u8..4, proptest::option::of(1u32..4)).prop_map(|(n, share)| Op::Link(n, share)),
        (0u8..4, proptest::option::of(1u64..4)).prop_map(|(n, pages)| Op::Region(n, pages)),
        (0u8..4, any::<bool>()).prop_map(|(s, add)| Op::Subsystem(s, add)),
        (0u8..4, any::<bool>()).prop_map(|(s, any)| Op::AnyHost(s, any)),
        (0u8..4, 0u8..3, proptest::option::of(0u8..3)).prop_map(|(s, h, add)| Op::Host(s, h, add)),
        (0u8..4, 1u32..5, proptest::option::of(1u64..4))
            .prop_map(|(s, nsid, blocks)| Op::Namespace(s, nsid, blocks)),
    ];
    proptest::collection::vec(op, 0..25)
}

fn nqn(index: u8) -> String {
    format!("nqn.2026-01.io.x:s{index}")
}

fn subsystem(nqn: String) -> Subsystem {
    let text = format!("nqn = \"{nqn}\"");
    sluice_config::entry::read_text(&text, "subsystem", sluice_config::entry::subsystem).unwrap()
}

fn namespace(nqn: &str, nsid: u32, blocks: u64) -> Namespace {
    let backend = Backend::Memory { size: blocks * 4096, block_size: 4096 };
    let uuid = Some(derived_uuid(nqn, nsid));
    Namespace { nsid: Some(nsid), uuid, ..Namespace::new(backend) }
}

/// Makes the change in the plainest way; `None` where it is refused.
fn model(config: &Config, op: &Op) -> Option<(ObjectId, Config)> {
    let mut next = config.clone();
    let find = |next: &mut Config, s: u8| next.subsystems.iter().position(|x| x.nqn == nqn(s));
    let object = match op {
        Op::Listener(port, add, link) => {
            let address: ListenAddress = format!("127.0.0.1:{port}").parse().unwrap();
            next.listeners.retain(|l| l.address != address);
            if *add {
                let text = format!("[[listener]]\naddress = \"{address}\"\n");
                let mut listener = parse(&text).unwrap().listeners.remove(0);
                listener.link = link.map(|n| format!("l{n}"));
                next.listeners.push(listener);
            }
            ObjectId::of::<Listener>(address.to_string())
        }
        Op::Network(share) => {
            next.network.link.goals.high = Goal::Share(*share);
            ObjectId::Network
        }
        Op::Link(n, share) => {
            let name = format!("l{n}");
            next.network.links.retain(|l| l.name != name);
            next.network.links.extend(share.map(|share| {
                let mut link = LinkConfig { name: name.clone(), ..LinkConfig::default() };
                link.goals.low = Goal::Share(share);
                link
            }));
            ObjectId::of::<LinkConfig>(name)
        }
        Op::Region(n, pages) => {
            let name = format!("r{n}");
            next.pmem.regions.retain(|region| region.name != name);
            next.pmem.regions.extend(pages.map(|pages| RegionConfig {
                name: name.clone(),
                size: Some(pages * 4096),
                ..RegionConfig::default()
            }));
            ObjectId::of::<RegionConfig>(name)
        }
        Op::Subsystem(s, add) => {
            match (find(&mut next, *s), add) {
                (None, true) => next.subsystems.push(subsystem(nqn(*s))),
                (Some(at), false) => drop(next.subsystems.remove(at)),
                _ => return None,
            }
            ObjectId::Subsystem(nqn(*s))
        }
        Op::AnyHost(s, any) => {
            let at = find(&mut next, *s)?;
            next.subsystems[at].allow_any_host = *any;
            ObjectId::AnyHost(nqn(*s))
        }
        Op::Host(s, h, add) => {
            let (at, host) = (find(&mut next, *s)?, format!("nqn.2026-01.io.x:h{h}"));
            next.subsystems[at].hosts.retain(|known| known.nqn != host);
            next.subsystems[at].hosts.extend(add.map(|length| {
                // 0: from any address.
                let network = (length > 0).then(|| IpNet::new([0; 4].into(), length).unwrap());
                let read_only = length % 3 == 1;
                let rights = HostRights { read_only, ..HostRights::default() };
                AllowedHost { nqn: host.clone(), sources: network.into_iter().collect(), rights }
            }));
            ObjectId::Host(nqn(*s), host)
        }
        Op::Namespace(s, nsid, blocks) => {
            let at = find(&mut next, *s)?;
            let namespaces = &mut next.subsystems[at].namespaces;
            namespaces.retain(|n| n.nsid != Some(*nsid));
            namespaces.extend(blocks.map(|blocks| namespace(&nqn(*s), *nsid, blocks)));
            ObjectId::Namespace(nqn(*s), *nsid)
        }
    };
    clash(&next).is_none().then_some((object, next))
}

/// Stores the change that makes `object` as in `next`.
fn set(live: &mut Live, object: &ObjectId, next: Config) -> Stored {
    let edit = |config: &mut Config| {
        *config = next;
        Ok::<_, Refused>(())
    };
    live.store(object, edit).unwrap()
}

/// The reason for which a change was not made.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("{0}")]
    Clash(#[from] Clash),
    #[error("{0}")]
    Store(#[from] StoreError),
}

fn run(live: &mut Live, ops: &[Op]) {
    for op in ops {
        if let Some((object, next)) = model(live.current(), op) {
            let _ = set(live, &object, next);
            assert_eq!(live.taken, Taken::of(&live.current));
        }
    }
}

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

/// Starts with a file and a store. Nothing of either is ignored.
fn open(file: &Config, store: &Arc<dyn Store>) -> Live {
    let (live, warnings) = Live::open(file.clone(), Arc::clone(store)).unwrap();
    assert_eq!(warnings, [""; 0]);
    live
}

/// Checks that a restart with the file runs the same.
fn restart(file: &Config, live: &Live) -> Live {
    let again = open(file, &live.store);
    assert_eq!(sorted(again.current()), sorted(live.current()));
    again
}

proptest! {
    #[test]
    fn every_live_change_survives_a_restart(file in configs(), first in ops(), second in ops()) {
        let store = memory();
        let mut live = open(&file, &store);
        prop_assert_eq!(live.current(), &file);
        for ops in [&first, &second] {
            run(&mut live, ops);
            live = restart(&file, &live);
        }
    }

    #[test]
    fn a_change_taken_back_leaves_no_trace(file in configs(), before in ops(), one in ops()) {
        let store = memory();
        let mut live = open(&file, &store);
        run(&mut live, &before);
        let values = || -> Vec<(Key, String)> {
            store.objects().unwrap().into_iter().map(|o| (o.key, o.value)).collect()
        };
        let (current, stored) = (live.current().clone(), values());
        for op in &one {
            if let Some((object, next)) = model(live.current(), op) {
                let change = set(&mut live, &object, next);
                live.undo(change).unwrap();
                prop_assert_eq!(&live.taken, &Taken::of(&live.current));
            }
        }
        prop_assert_eq!(live.current(), &current);
        prop_assert_eq!(values(), stored);
    }

    #[test]
    fn an_entry_that_changes_in_the_file_wins_and_the_others_stay(
        file in configs(), edited in configs(), ops in ops()
    ) {
        let store = memory();
        let mut live = open(&file, &store);
        run(&mut live, &ops);
        let machine = store.machine();
        let records = live.records.clone();
        let (after, warnings) = Live::open(edited.clone(), store.clone()).unwrap();
        for (key, record) in &records {
            let object = ObjectId::parse(key, machine).unwrap();
            if record.file == object.text(&edited) {
                continue;
            }
            let parent = object.subsystem().map(|nqn| ObjectId::Subsystem(nqn.into()));
            let parent_changed = parent.is_some_and(|p| after.records.contains_key(&p.key(machine)));
            if !parent_changed && !matches!(object, ObjectId::Subsystem(_)) {
                prop_assert_eq!(object.text(after.current()), object.text(&edited));
            }
            prop_assert!(!after.records.contains_key(key));
            let warned = warnings.iter().any(|w| w.contains(&key.to_string()));
            prop_assert!(warned || is_in_file(&edited, key, record, machine));
        }
        // The decision is final: going back to the old file does not bring old changes back.
        restart(&edited, &after);
    }
}

#[test]
fn a_live_resize_wins_until_the_files_size_changes() {
    let text = |size: &str| {
        format!(
            "[[subsystem]]\nnqn = \"nqn.2026-01.io.x:s0\"\n[[subsystem.namespace]]\nnsid = 1\n\
             backend = \"memory\"\nsize = \"{size}\"\n"
        )
    };
    let size = |live: &Live| match live.current().subsystems[0].namespaces[0].backend {
        Backend::Memory { size, .. } => size,
        _ => 0,
    };
    let store = memory();
    let mut live = open(&parse(&text("1 MiB")).unwrap(), &store);
    run(&mut live, &[Op::Namespace(0, 1, Some(3))]);
    assert_eq!(size(&open(&parse(&text("1024 KiB")).unwrap(), &store)), 3 * 4096);
    let (live, warnings) = Live::open(parse(&text("2 MiB")).unwrap(), store).unwrap();
    assert_eq!(size(&live), 2 << 20);
    assert!(warnings[0].contains("has changed since"), "{warnings:?}");
}

/// Stores the sessions and policies of `text` as live changes.
fn set_live(live: &mut Live, text: &str) {
    let qos = parse(text).unwrap_or_else(|errors| panic!("{errors}")).qos;
    let mut next = live.current().clone();
    for session in qos.sessions {
        next.qos.sessions.retain(|known| known.name != session.name);
        next.qos.sessions.push(session.clone());
        let _ = set(live, &ObjectId::of::<Session>(session.name), next.clone());
    }
    for policy in qos.policies {
        next.qos.policies.push(policy.clone());
        let object = ObjectId::of::<Policy>(crate::control::objects::Object::id(&policy));
        let _ = set(live, &object, next.clone());
    }
}

#[test]
fn sessions_that_name_each_other_come_back_together() {
    let store = memory();
    // Most would be refused if they were taken one by one in the order of their names.
    let file = "[[session]]\nname = \"a\"\noperations = \"60 %\"\n\
                [[session]]\nname = \"b\"\noperations = \"40 %\"\n\
                [[session]]\nname = \"c\"\nparent = \"b\"\n";
    let changed = "[[session]]\nname = \"c\"\n\
                   [[session]]\nname = \"d\"\nparent = \"c\"\n\
                   [[session]]\nname = \"b\"\noperations = \"20 %\"\nparent = \"d\"\n\
                   [[session]]\nname = \"a\"\noperations = \"80 %\"\nparent = \"d\"\n\
                   [[policy]]\nhost = \"nqn.2026-01.io.x:h\"\nsession = \"d\"\n";
    let mut live = open(&parse(file).unwrap(), &store);
    set_live(&mut live, changed);
    let again = open(&parse(file).unwrap(), &store);
    let by_name = |mut sessions: Vec<sluice_config::Session>| {
        sessions.sort_by(|a, b| a.name.cmp(&b.name));
        sessions
    };
    let (now, wanted) = (&again.current().qos, parse(changed).unwrap().qos);
    assert_eq!(by_name(now.sessions.clone()), by_name(wanted.sessions));
    assert_eq!(now.policies, wanted.policies);
}

#[test]
fn too_low_stored_limit_is_raised() {
    let store = memory();
    let file = |transfer| parse(&format!("[target]\nmax_transfer = \"{transfer}\"\n")).unwrap();
    let (small, large) = (file("64 KiB"), file("1 MiB"));
    let rates = [&small, &large].map(|file| sluice_config::LowestRates::of(&file.target).bytes);
    let least = rates[0].next_multiple_of(1024);
    let mut live = open(&small, &store);
    set_live(
        &mut live,
        &format!(
            "[target]\nmax_transfer = \"64 KiB\"\n\
             [[session]]\nname = \"a\"\niops = 5000\nbandwidth = \"{least} B\"\n\
             [[session]]\nname = \"b\"\nparent = \"a\"\nwrite_bandwidth = \"{least} B\"\n"
        ),
    );
    assert_eq!(live.current().qos.sessions.len(), 2);
    let (after, warnings) = Live::open(large, Arc::clone(&store)).unwrap();
    assert_eq!(after.current().qos.sessions.len(), 2, "{warnings:?}");
    let limits = |live: &Live, name: &str| {
        let session = live.current().qos.sessions.iter().find(|session| session.name == name);
        let limits = session.unwrap().limits;
        [limits.total, limits.writes]
            .map(|of| [of.iops, of.bandwidth].map(|rate| rate.map(Rate::get)))
    };
    assert_eq!(limits(&after, "a"), [[Some(5000), Some(rates[1])], [None, None]], "{warnings:?}");
    assert_eq!(limits(&after, "b"), [[None, None], [None, Some(rates[1])]], "{warnings:?}");
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    for warning in warnings {
        assert!(warning.contains("is raised") && warning.contains("162 KiB"), "{warning}");
    }
    // With the former configuration, the stored limits are in force again.
    let (again, warnings) = Live::open(small, store).unwrap();
    assert_eq!(limits(&again, "a")[0], [Some(5000), Some(least)], "{warnings:?}");
}

#[test]
fn what_hangs_on_a_session_that_the_file_lost_goes_and_the_rest_stays() {
    let store = memory();
    let file = "[[session]]\nname = \"tenants\"\n";
    let changed = "[[session]]\nname = \"tenants\"\n[[session]]\nname = \"x\"\niops = 5\n\
                   [[session]]\nname = \"a\"\nparent = \"tenants\"\n\
                   [[session]]\nname = \"b\"\nparent = \"a\"\n\
                   [[policy]]\nhost = \"nqn.2026-01.io.x:h\"\nsession = \"b\"\n\
                   [[policy]]\nhost = \"nqn.2026-01.io.x:i\"\nsession = \"x\"\n";
    let mut live = open(&parse(file).unwrap(), &store);
    set_live(&mut live, changed);
    let (after, warnings) = Live::open(parse("").unwrap(), store).unwrap();
    let qos = &after.current().qos;
    assert_eq!((qos.sessions.len(), qos.policies.len()), (1, 1), "{qos:?}");
    assert_eq!(qos.sessions[0].name, "x");
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert!(warnings.iter().any(|w| w.contains("session b does not exist")), "{warnings:?}");
}

#[test]
fn listeners_and_the_links_that_they_name_come_back_together() {
    let store = memory();
    let listener = "[[listener]]\naddress = \"127.0.0.1:1\"\n";
    let file = format!("[[link]]\nname = \"a\"\n{listener}link = \"a\"\n");
    let mut live = open(&parse(&file).unwrap(), &store);
    // Link a can only be removed once the listener names b, and that change comes after it.
    run(&mut live, &[Op::Link(1, Some(2)), Op::Listener(1, true, Some(1))]);
    let mut next = live.current().clone();
    next.network.links.retain(|link| link.name != "a");
    let _ = set(&mut live, &ObjectId::of::<LinkConfig>("a"), next);
    restart(&parse(&file).unwrap(), &live);
    // If the file's listener changes, it wins, and the link that it names is there again.
    let (after, warnings) =
        Live::open(parse(&format!("{file}class = \"high\"\n")).unwrap(), store).unwrap();
    assert_eq!(after.current().listeners[0].link.as_deref(), Some("a"));
    let words = "names link a, which does not exist";
    assert!(warnings.iter().any(|w| w.contains(words)), "{warnings:?}");
}

#[test]
fn a_change_writes_what_it_changes_and_no_more_than_that() {
    let store = memory();
    let mut live = open(&Config::default(), &store);
    run(&mut live, &[Op::Subsystem(0, true)]);
    let versions = || -> BTreeMap<Key, (u64, usize)> {
        let all = store.objects().unwrap().into_iter();
        all.map(|object| (object.key, (object.version, object.value.len()))).collect()
    };
    for nsid in 1..=200 {
        let before = versions();
        run(&mut live, &[Op::Namespace(0, nsid, Some(8))]);
        let after = versions();
        let written: Vec<_> = after.iter().filter(|(k, v)| before.get(k) != Some(v)).collect();
        assert_eq!(written.len(), 1, "{written:?}");
        assert!(written[0].1.1 < 1000, "as long with many as with few: {written:?}");
    }
    run(&mut live, &[Op::Host(0, 1, Some(8)), Op::Namespace(0, 7, None), Op::AnyHost(0, true)]);
    assert_eq!(store.objects().unwrap().len(), 1 + 199);
    restart(&Config::default(), &live);
    // All records of a subsystem go with it.
    run(&mut live, &[Op::Subsystem(0, false)]);
    assert!(store.objects().unwrap().is_empty());
}

#[test]
fn a_subsystem_that_an_earlier_version_stored_as_one_record_is_read_and_changed() {
    let store = memory();
    let mut live = open(&Config::default(), &store);
    let namespaces = [1, 2, 3].map(|nsid| Op::Namespace(0, nsid, Some(8)));
    run(&mut live, &[Op::Subsystem(0, true)]);
    run(&mut live, &namespaces);
    // The record has the form of earlier versions.
    let machine = store.machine();
    let whole = ObjectId::Subsystem(live.current().subsystems[0].nqn.clone());
    let record = Record { file: None, value: whole.text(live.current()), given: true };
    let mut changes: Vec<Change> =
        store.objects().unwrap().into_iter().map(|object| Change::Delete(object.key)).collect();
    changes.push(change(&whole.key(machine), &Some(record)).unwrap());
    store.apply(&changes).unwrap();
    let mut old = restart(&Config::default(), &live);
    for op in [Op::Namespace(0, 2, None), Op::Namespace(0, 9, Some(4)), Op::Host(0, 2, Some(0))] {
        run(&mut old, &[op]);
        restart(&Config::default(), &old);
    }
}

#[test]
fn a_namespace_that_clashes_is_refused_and_leaves_no_trace() {
    let (first, second) = (namespace(&nqn(0), 1, 1), namespace(&nqn(1), 1, 1));
    let with = |s: u8, namespace: &Namespace| Subsystem {
        namespaces: vec![namespace.clone()],
        ..subsystem(nqn(s))
    };
    let subsystems = vec![with(0, &first), with(1, &second)];
    let file = Config { subsystems, ..Config::default() };
    let mut live = open(&file, &memory());
    let mut wrong = second;
    wrong.uuid = first.uuid;
    let put = |config: &mut Config| {
        config.subsystems[1].namespaces = vec![wrong.clone()];
        Ok::<_, Refused>(())
    };
    for object in [ObjectId::Namespace(nqn(1), 1), ObjectId::Subsystem(nqn(1))] {
        let refused = live.store(&object, put).unwrap_err().to_string();
        assert!(refused.contains("UUID") && refused.contains("nothing was changed"), "{refused}");
        assert_eq!((live.current(), &live.taken), (&file, &Taken::of(&file)));
    }
    // The change succeeds once the other object is gone.
    let mut without = file.clone();
    without.subsystems[0].namespaces.clear();
    let gone = set(&mut live, &ObjectId::Namespace(nqn(0), 1), without);
    let taken = live.store(&ObjectId::Namespace(nqn(1), 1), put).unwrap();
    assert_eq!(live.taken, Taken::of(&live.current));
    live.undo(taken).unwrap();
    live.undo(gone).unwrap();
    assert_eq!((live.current(), &live.taken), (&file, &Taken::of(&file)));
}

#[test]
fn a_region_and_a_namespace_that_change_places_come_back_after_a_restart() {
    let disk = |path: &str| {
        format!(
            "[[subsystem]]\nnqn = \"{}\"\n[[subsystem.namespace]]\nnsid = 1\nbackend = \"file\"\n\
             path = \"{path}\"\n",
            nqn(0)
        )
    };
    let region = |path: &str| format!("[[region]]\nname = \"log\"\npath = \"{path}\"\n");
    let file = parse(&(region("/a") + &disk("/b"))).unwrap();
    let store = memory();
    let mut live = open(&file, &store);
    let wanted = parse(&(region("/b") + &disk("/a"))).unwrap();
    // The region makes room, the namespace moves, and the region comes back in its place.
    let mut next = live.current().clone();
    next.pmem.regions.clear();
    let log = ObjectId::of::<RegionConfig>("log");
    let _ = set(&mut live, &log, next.clone());
    next.subsystems = wanted.subsystems.clone();
    let _ = set(&mut live, &ObjectId::Namespace(nqn(0), 1), next.clone());
    next.pmem = wanted.pmem.clone();
    let _ = set(&mut live, &log, next);
    assert_eq!(open(&file, &store).current(), &wanted);
    // The file's namespace counts again, and is in the way of the region.
    let edited = parse(&(region("/a") + &disk("/b") + "window = 8\n")).unwrap();
    let (again, warnings) = Live::open(edited.clone(), store).unwrap();
    assert_eq!(again.current(), &edited);
    assert!(warnings[0].contains("has changed since"), "{warnings:?}");
    assert!(warnings[1].contains("region log and namespace 1 of"), "{warnings:?}");
}

/// A file with a namespace that was changed live, and another that was removed live, by a daemon that
/// wrote the derived identifiers into its records. Both changes count, without the identifiers.
#[test]
fn records_with_derived_identifiers_count_as_records_without_them() {
    let file = |more: &str| {
        let namespace = |nsid: u32| {
            format!(
                "[[subsystem.namespace]]\nnsid = {nsid}\nbackend = \"memory\"\nsize = \"8 KiB\"\n"
            )
        };
        let head = format!("[[subsystem]]\nnqn = \"{}\"\n", nqn(0));
        parse(&format!("{head}{}{more}{}", namespace(1), namespace(2))).unwrap()
    };
    let earlier = |s: u8, nsid: u32, size: u64| {
        let mut namespace = namespace(&nqn(s), nsid, size / 4096);
        namespace.nguid = namespace.uuid.map(derived_nguid);
        Some(sluice_config::table::text(&namespace))
    };
    let store = memory();
    let put = |object: ObjectId, file: Option<String>, value: Option<String>| {
        // As it was written: without the mark.
        let text = serde_json::json!({"file": file, "value": value}).to_string();
        Change::Put(object.key(store.machine()), text)
    };
    let mut live = subsystem(nqn(1));
    live.serial = Some(derived_serial(&live.nqn));
    let changes = [
        put(ObjectId::Namespace(nqn(0), 1), earlier(0, 1, 8192), earlier(0, 1, 16384)),
        put(ObjectId::Namespace(nqn(0), 2), earlier(0, 2, 8192), None),
        put(ObjectId::Subsystem(nqn(1)), None, Some(render_subsystem(&live))),
        put(ObjectId::Namespace(nqn(1), 4), None, earlier(1, 4, 4096)),
    ];
    store.apply(&changes).unwrap();
    let mut live = open(&file(""), &store);
    let [first, second] = &live.current().subsystems[..] else { panic!("two subsystems") };
    assert_eq!((first.namespaces.len(), first.serial.as_ref()), (1, None));
    assert_eq!((second.namespaces[0].nsid, second.serial.as_ref()), (Some(4), None));
    assert_eq!(first.namespaces[0].uuid, None);
    assert_eq!(first.namespaces[0].backend, Backend::Memory { size: 16384, block_size: 4096 });
    // A file that gives the derived one is the same file.
    let given = format!("uuid = \"{}\"\n", derived_uuid(&nqn(0), 1));
    assert_eq!(open(&file(&given), &store).current().subsystems[0].namespaces.len(), 1);
    // A change back to the file's entry leaves nothing behind.
    let mut back = live.current().clone();
    back.subsystems[0].namespaces[0] = file("").subsystems[0].namespaces[0].clone();
    let _ = set(&mut live, &ObjectId::Namespace(nqn(0), 1), back);
    assert_eq!(store.objects().unwrap().len(), changes.len() - 1);
}
