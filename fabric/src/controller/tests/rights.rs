//! Tests of what hosts may do: which namespaces they see, and whether they may write to them, while
//! this changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use core::sync::atomic::Ordering;
use proptest::prelude::*;
use units::Class;

use super::*;
use crate::controller::{AllowedHost, HostRights, NamespaceTable};

/// The most namespaces of a subsystem here.
const MOST: u32 = 6;

fn allowed(host: &str, rights: &HostRights) -> AllowedHost {
    AllowedHost { rights: rights.clone(), ..host.into() }
}

/// Makes a service whose second subsystem any host may use, and lists none.
fn bench() -> Bench {
    let mut bench = Bench::with(ServiceConfig { max_namespaces: MOST, ..ServiceConfig::default() });
    bench.service.remove_host(bench.now, OTHER, HOST).unwrap();
    bench
}

/// A change of a subsystem that any host may use.
#[derive(Clone, Debug)]
enum Change {
    /// Adds a namespace for the hosts at these bits, for all if 0. An existing one is shown to
    /// these hosts instead, and removed if it is for them.
    Namespace { nsid: u32, hosts: u8 },
    /// Resizes a namespace.
    Resize { nsid: u32, blocks: u64 },
    /// Sets a host's entry with these rights; `None` removes the entry.
    Rights { host: usize, rights: Option<HostRights> },
}

fn rights() -> impl Strategy<Value = HostRights> {
    let nsids = prop::collection::btree_set(1..=MOST, 0..4);
    let class = prop::option::of(prop::sample::select(Class::ALL.to_vec()));
    (prop::option::of(nsids), any::<bool>(), class).prop_map(
        |(namespaces, read_only, max_class)| HostRights { namespaces, read_only, max_class },
    )
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => (1..=MOST, prop_oneof![2 => Just(0), 1 => 1..4u8])
            .prop_map(|(nsid, hosts)| Change::Namespace { nsid, hosts }),
        1 => (1..=MOST, 1..9u64).prop_map(|(nsid, blocks)| Change::Resize { nsid, blocks }),
        3 => (0..2usize, prop::option::weighted(0.8, rights()))
            .prop_map(|(host, rights)| Change::Rights { host, rights }),
    ]
}

const HOSTS: [&str; 2] = [HOST, STRANGER];

/// The state in its simplest form: each namespace's hosts and blocks, and each host's entry.
#[derive(Default)]
struct Model {
    namespaces: BTreeMap<u32, (u8, u64)>,
    rights: [Option<HostRights>; 2],
}

impl Model {
    /// Returns a host's view: for each namespace whether it is protected, and its blocks.
    fn seen(&self, host: usize) -> BTreeMap<u32, (bool, u64)> {
        let rights = self.rights[host].clone().unwrap_or_default();
        let named = |hosts: u8| hosts == 0 || hosts >> host & 1 == 1;
        let all = self.namespaces.iter();
        let seen = all.filter(|(nsid, (hosts, _))| named(*hosts) && rights.show(**nsid));
        seen.map(|(&nsid, &(_, blocks))| (nsid, (rights.read_only, blocks))).collect()
    }

    fn make(&mut self, bench: &mut Bench, change: Change) {
        let (now, service) = (bench.now, &mut bench.service);
        match change {
            Change::Namespace { nsid, hosts } => {
                let listed = (0..HOSTS.len()).filter(|at| hosts >> at & 1 == 1);
                let listed = listed.map(|at| HOSTS[at].to_owned()).collect();
                let hosts_of = (hosts != 0).then_some(listed);
                let tag = u8::try_from(nsid).unwrap();
                let new = Namespace { nsid, hosts: hosts_of, ..namespace(tag) };
                let done = match self.namespaces.insert(nsid, (hosts, 1000)) {
                    None => service.add_namespace(now, OTHER, new).map(drop),
                    Some((before, _)) if before != hosts => {
                        service.replace_namespace(now, OTHER, new).map(drop)
                    }
                    Some(_) => {
                        self.namespaces.remove(&nsid);
                        service.remove_namespace(now, OTHER, nsid).map(drop)
                    }
                };
                done.unwrap();
            }
            Change::Resize { nsid, blocks } => {
                let known = self.namespaces.get_mut(&nsid).map(|known| known.1 = blocks);
                let done = service.resize_namespace(now, OTHER, nsid, blocks);
                assert_eq!(done.is_ok(), known.is_some());
            }
            Change::Rights { host, rights } => {
                let name = HOSTS[host];
                let before = std::mem::replace(&mut self.rights[host], rights.clone());
                let done = match (&rights, before) {
                    (Some(rights), None) => service.add_host(now, OTHER, allowed(name, rights)),
                    (Some(rights), Some(_)) => service.set_host(now, OTHER, allowed(name, rights)),
                    (None, Some(_)) => service.remove_host(now, OTHER, name),
                    (None, None) => Ok(()),
                };
                done.unwrap();
            }
        }
    }
}

/// A connected host with its admin queue.
struct Connection {
    host: usize,
    admin: ConnectionId,
    connected: Connected,
    version: u64,
}

fn connect(bench: &mut Bench, host: usize) -> Connection {
    let (admin, connected) = Connect::admin(OTHER).host(HOSTS[host]).enabled(bench);
    // Namespace Attribute Notices.
    bench.ok(admin, &set_feature(0x0b, 0x100));
    Connection { host, admin, connected, version: 0 }
}

fn table(bench: &Bench, of: &Connection) -> Arc<NamespaceTable> {
    bench.service.namespaces(of.connected.controller)
}

/// Checks that a host is shown its permitted view, in each way, and nothing else.
fn check(bench: &mut Bench, of: &Connection, model: &Model) {
    let seen = model.seen(of.host);
    let table = table(bench, of);
    let shown = table
        .iter()
        .map(|n| (n.nsid, (n.features.contains(NamespaceFeatures::READ_ONLY), n.geometry.blocks)));
    assert_eq!(shown.collect::<BTreeMap<_, _>>(), seen);
    // The health log sums up these devices.
    let backends: BTreeSet<_> = table.iter().map(|n| n.backend.0).collect();
    let devices: BTreeSet<_> = bench.service.devices_seen(of.admin).iter().map(|id| id.0).collect();
    assert_eq!(devices, backends);
    for list in [0x02, 0x10] {
        bench.ok(of.admin, &identify(list, 0));
        assert!(nsids(&bench.out).iter().eq(seen.keys()));
    }
    for nsid in 1..=MOST {
        let visible = seen.get(&nsid);
        for (cns, nsattr) in [(0x00, 99), (0x11, 99), (0x08, 8)] {
            bench.ok(of.admin, &identify(cns, nsid));
            match visible {
                Some((protected, _)) => assert_eq!(bench.out[nsattr], u8::from(*protected)),
                None => assert!(bench.out.iter().all(|byte| *byte == 0), "nothing of {nsid}"),
            }
        }
        let known = visible.map_or(Status::INVALID_NAMESPACE, |_| Status::SUCCESS);
        assert_eq!(code(bench.admin(of.admin, &identify(0x03, nsid))), status_code(known));
        bench.ok(of.admin, &identify(0x12, nsid));
        let count = u16::from_le_bytes([bench.out[0], bench.out[1]]);
        let others = HOSTS.iter().enumerate().filter(|(at, _)| model.seen(*at).contains_key(&nsid));
        let known = if visible.is_some() { others.count() } else { 0 };
        assert_eq!(usize::from(count), known, "controllers with {nsid}");
    }
    let most = model.rights[of.host].as_ref().and_then(|rights| rights.max_class);
    assert_eq!(of.connected.shared.max_class(), most.unwrap_or(Class::Urgent));
}

proptest! {
    #[test]
    fn host_sees_allowed_namespaces_and_changes(
        before in prop::collection::vec(change(), 0..6),
        changes in prop::collection::vec(change(), 1..12),
    ) {
        let mut bench = bench();
        let mut model = Model::default();
        for change in before {
            model.make(&mut bench, change);
        }
        let mut hosts = [connect(&mut bench, 0), connect(&mut bench, 1)];
        bench.actions();
        for change in changes {
            let old = [model.seen(0), model.seen(1)];
            let highest = |hosts: &[Connection; 2]| {
                hosts.each_ref().map(|of| of.connected.shared.max_class())
            };
            let old_class = highest(&hosts);
            let of_namespace = match &change {
                Change::Namespace { nsid, .. } | Change::Resize { nsid, .. } => Some(*nsid),
                Change::Rights { .. } => None,
            };
            for of in &mut hosts {
                let request = command(op::ASYNC_EVENT_REQUEST, 31);
                prop_assert_eq!(bench.admin(of.admin, &request), Reply::Deferred);
                of.version = of.connected.shared.table_version.load(Ordering::Acquire);
            }
            model.make(&mut bench, change);
            let told = bench.actions();
            for (of, old) in hosts.iter().zip(old) {
                let new = model.seen(of.host);
                let all: BTreeSet<u32> = old.keys().chain(new.keys()).copied().collect();
                let differ = |nsid: &u32| {
                    old.get(nsid) != new.get(nsid) || of_namespace == Some(*nsid)
                };
                let differing: BTreeSet<u32> = all.into_iter().filter(differ).collect();
                let event = told.iter().any(|action| matches!(
                    action,
                    Action::Complete { connection, result: 0x04_0002, .. } if *connection == of.admin
                ));
                prop_assert_eq!(event, !differing.is_empty(), "an event for {:?}", differing);
                let changed_class = old_class[of.host] != of.connected.shared.max_class();
                let version = of.connected.shared.table_version.load(Ordering::Acquire);
                if event || changed_class {
                    prop_assert!(version > of.version, "queues look again");
                }
                bench.ok(of.admin, &log(0x04, 4096, 0, false));
                prop_assert!(nsids(&bench.out).iter().eq(&differing), "the Changed Namespace List");
                if !event {
                    // The request is taken back, so that the next one finds room.
                    bench.ok(of.admin, &abort(0, 31, 30));
                }
            }
            bench.actions();
            for of in &hosts {
                check(&mut bench, of, &model);
                // A host that connects now sees the same.
                let newcomer = connect(&mut bench, of.host);
                let shown = table(&bench, &newcomer);
                prop_assert!(shown.iter().map(|n| n.nsid).eq(model.seen(of.host).into_keys()));
                bench.disconnect(newcomer.admin);
            }
            bench.actions();
        }
    }

    #[test]
    fn hurt_hosts_are_known_in_advance(
        now in prop::collection::vec(change(), 0..10),
        next in prop::option::of(rights()),
        any in any::<bool>(),
    ) {
        let mut bench = bench();
        let mut model = Model::default();
        for change in now {
            model.make(&mut bench, change);
        }
        let of = connect(&mut bench, 0);
        let hosts: Vec<AllowedHost> = next.iter().map(|rights| allowed(HOST, rights)).collect();
        let hurt = bench.service.hurt_by(OTHER, any, &hosts);
        let old = model.seen(0);
        model.rights[0] = next.clone();
        let new = model.seen(0);
        let writes = |seen: Option<&(bool, u64)>| seen.is_some_and(|(protected, _)| !protected);
        let loses = old.keys().any(|nsid| {
            !new.contains_key(nsid) || writes(old.get(nsid)) && !writes(new.get(nsid))
        });
        let expected = loses || next.is_none() && !any;
        prop_assert_eq!(hurt == [of.connected.controller], expected, "{:?} to {:?}", old, new);
    }
}
