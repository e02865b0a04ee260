//! Regions and their grants, without RDMA.

use std::path::PathBuf;
use std::time::Instant;

use fabric::controller::{ControllerId, RegionGrants as _, RegionRefusal, RegionRequest};
use fabric::nvme::region::{RegionGrant, RegionName, RegionRights, Survives};
use pmem::token::Tokens;
use sluice_config::{Config, Pmem, RegionConfig};

use super::grants::GrantId;
use super::shared::{EVICTED, Order, PmemShared};
use crate::control::store::{Identities, SeenNamespaces};
use crate::disks::backings::Backings;
use crate::serve::engine::ProfileState;

const HOST: &str = "nqn.2026-01.io.example:host";
const OTHER: &str = "nqn.2026-01.io.example:other";

fn data_node() -> PmemShared {
    let settings = Pmem {
        address: Some("10.0.0.1:4430".parse().unwrap()),
        capacity: Some(1000),
        clients: 8,
        ..Pmem::default()
    };
    let node = PmemShared::new(&settings).unwrap();
    node.set_open(Ok(()));
    node
}

/// A data node with the files of its regions.
struct Rig {
    node: PmemShared,
    backings: Backings,
}

impl Rig {
    fn new(regions: &[RegionConfig]) -> Self {
        let target = Config::embedded().unwrap().target;
        let backings = Backings::new(&target, SeenNamespaces::default(), Identities::default());
        let rig = Self { node: data_node(), backings };
        rig.node.set(&rig.backings, regions).unwrap();
        rig
    }

    /// Sets the regions, and returns the orders, which are carried out while it waits for them.
    fn set(&self, regions: &[RegionConfig]) -> Vec<Order> {
        std::thread::scope(|scope| {
            let set = scope.spawn(|| self.node.set(&self.backings, regions).unwrap());
            let mut all = Vec::new();
            loop {
                let is_over = set.is_finished();
                let orders = self.node.take_orders();
                assert!(!is_over || orders.is_empty(), "it waits until rights have ended");
                self.node.has_carried_out(orders.len());
                all.extend(orders);
                if is_over {
                    return all;
                }
                std::thread::yield_now();
            }
        })
    }

    fn ask(&self, host: &str, controller: u16) -> Result<RegionGrant, RegionRefusal> {
        self.ask_for("log", host, (controller, RegionRights::ReadWrite, 100))
    }

    fn ask_for(
        &self,
        region: &str,
        host: &str,
        (controller, rights, reservation): (u16, RegionRights, u32),
    ) -> Result<RegionGrant, RegionRefusal> {
        let name = RegionName::from_text(region).unwrap();
        let (controller, address) = (ControllerId(controller), None);
        self.node.grant(&RegionRequest { host, address, controller, name, rights, reservation })
    }

    fn id_of(&self, grant: &RegionGrant) -> Option<GrantId> {
        let log = RegionName::from_text("log").unwrap().id();
        Some(self.node.find(log, |secret| secret == grant.secret)?.grant.id)
    }

    /// Has a region granted to the first controller of the host.
    fn granted(&self) -> GrantId {
        self.id_of(&self.ask(HOST, 1).unwrap()).unwrap()
    }
}

fn region(name: &str) -> RegionConfig {
    RegionConfig {
        name: name.to_owned(),
        size: Some(1 << 20),
        hosts: vec![HOST.to_owned()],
        reserve: 600,
        ..RegionConfig::default()
    }
}

#[test]
fn a_host_gets_what_it_may_have_and_learns_nothing_of_the_rest() {
    let rig = Rig::new(&[]);
    assert_eq!(rig.ask(HOST, 1), Err(RegionRefusal::NotGranted), "there is no region");
    rig.set(&[region("log"), RegionConfig { read_only: true, ..region("other") }]);
    assert_eq!(rig.ask(OTHER, 1), Err(RegionRefusal::NotGranted));
    let grant = rig.ask(HOST, 1).unwrap();
    assert_eq!((grant.length, grant.reservation, grant.limit), (1 << 20, 100, 0));
    assert_eq!((grant.address.port(), grant.survives), (4430, Survives::Nothing));
    let more = rig.ask_for("log", HOST, (1, RegionRights::Read, 501));
    assert_eq!(more, Err(RegionRefusal::Reservation { fits: 500 }));
    let ask = |rights| rig.ask_for("other", HOST, (1, rights, 0));
    assert_eq!(ask(RegionRights::ReadWrite), Err(RegionRefusal::NotGranted));
    let other = ask(RegionRights::Read).unwrap();
    assert_ne!(other.secret, grant.secret);
    assert_eq!(rig.id_of(&other), None, "a secret is of one region");
    assert!(rig.id_of(&grant).is_some());
    let state = rig.node.state();
    assert_eq!((state.reserved, state.capacity), (100, 1000));
    let clients: Vec<_> = state.regions.iter().map(|region| region.clients.len()).collect();
    assert_eq!(clients, [1, 1]);
}

#[test]
fn while_the_data_node_does_not_listen_hosts_are_told_to_come_again() {
    let rig = Rig::new(&[region("log")]);
    rig.node.set_open(Err("its device is gone".to_owned()));
    assert_eq!(rig.ask(HOST, 1), Err(RegionRefusal::NoRoom));
    assert_eq!(rig.ask(OTHER, 1), Err(RegionRefusal::NotGranted), "but no others");
    rig.node.set_open(Ok(()));
    rig.ask(HOST, 1).unwrap();
}

#[test]
fn grants_end_with_their_controller() {
    let rig = Rig::new(&[region("log")]);
    let grants = [1, 2].map(|controller| rig.ask(HOST, controller).unwrap());
    let ids = grants.each_ref().map(|grant| rig.id_of(grant));
    rig.node.controller_ended(ControllerId(1));
    assert_eq!(rig.node.take_orders(), [Order::Revoke(ids[0].unwrap())]);
    assert_eq!(grants.each_ref().map(|grant| rig.id_of(grant)), [None, ids[1]]);
    assert_eq!(rig.node.state().reserved, 100);
    rig.node.controller_ended(ControllerId(1));
    assert!(rig.node.take_orders().is_empty());
}

#[test]
fn a_change_of_regions_ends_the_grants_that_it_concerns_and_no_others() {
    let rig = Rig::new(&[region("log")]);
    let id = rig.granted();
    let more = RegionConfig { size: Some(2 << 20), limit: Some(5), ..region("log") };
    assert_eq!(rig.set(&[more.clone(), region("more")]), [], "larger, and one more: nobody loses");
    assert_eq!(rig.ask(HOST, 2).map(|grant| (grant.length, grant.limit)), Ok((2 << 20, 5)));
    rig.node.controller_ended(ControllerId(2));
    rig.node.has_carried_out(rig.node.take_orders().len());
    let other_host = RegionConfig { hosts: vec![OTHER.to_owned()], ..more.clone() };
    let gone = rig.set(&[other_host, region("more")]);
    assert_eq!(gone, [Order::Revoke(id)], "the host may no longer use it");
    rig.set(std::slice::from_ref(&more));
    let id = rig.granted();
    let smaller = RegionConfig { size: Some(4096), ..more };
    assert_eq!(rig.set(&[smaller]), [Order::Revoke(id)], "it has become smaller");
    assert_eq!(rig.ask(HOST, 3).map(|grant| grant.length), Ok(4096));
    assert_eq!(rig.set(&[]).len(), 1);
    assert_eq!(rig.node.state().reserved, 0);
    assert_eq!(rig.ask(HOST, 1), Err(RegionRefusal::NotGranted));
}

#[test]
fn a_region_that_is_for_reading_from_now_on_keeps_its_data_and_no_grant() {
    let folder = tempfile::tempdir().unwrap();
    let path = Some(folder.path().join("region"));
    let log = RegionConfig { path, create: true, ..region("log") };
    let rig = Rig::new(std::slice::from_ref(&log));
    let id = rig.granted();
    let before = rig.node.region_of(id).unwrap().region.memory;
    let read_only = RegionConfig { read_only: true, ..log };
    assert_eq!(rig.set(&[read_only]), [Order::Revoke(id)]);
    let grant = rig.ask_for("log", HOST, (1, RegionRights::Read, 0)).unwrap();
    let after = rig.node.region_of(rig.id_of(&grant).unwrap()).unwrap().region.memory;
    assert_eq!(after.address(), before.address());
}

#[test]
fn a_region_that_cannot_be_opened_changes_nothing_live_and_is_tried_again_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("region");
    let file = RegionConfig { path: Some(path.clone()), size: None, ..region("log") };
    let rig = Rig::new(&[region("log")]);
    rig.granted();
    let refused = rig.node.set(&rig.backings, std::slice::from_ref(&file)).unwrap_err();
    assert!(refused.to_string().contains("region"), "{refused}");
    assert_eq!(rig.node.take_orders().len(), 0);
    assert!(rig.node.config().regions == [region("log")]);

    rig.node.begin(&rig.backings, std::slice::from_ref(&file));
    assert!(rig.node.state().regions[0].open.is_err());
    assert_eq!(rig.ask(HOST, 2), Err(RegionRefusal::NoRoom));
    std::fs::write(&path, vec![7; 1 << 16]).unwrap();
    rig.node.retry(&rig.backings);
    let facts = rig.node.state().regions[0].open.clone().unwrap();
    assert_eq!(facts.bytes, 1 << 16);
    let found = rig.ask(HOST, 2).unwrap();
    assert_eq!((found.length, found.survives != Survives::Nothing), (1 << 16, true));
    let gone = RegionConfig { path: Some(PathBuf::from("/nowhere/region")), ..file };
    rig.node.set(&rig.backings, &[gone]).unwrap_err();
}

#[test]
fn a_file_that_was_served_and_has_gone_is_not_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("region");
    let log = [RegionConfig { path: Some(path.clone()), create: true, ..region("log") }];
    let mut rig = Rig::new(&[]);
    rig.node.begin(&rig.backings, &log);
    assert!(path.exists() && rig.node.state().regions[0].open.is_ok());
    rig.node = data_node();
    std::fs::remove_file(&path).unwrap();
    rig.node.begin(&rig.backings, &log);
    let why = rig.node.state().regions[0].open.clone().unwrap_err();
    assert!(why.contains("there is no such file any more") && !path.exists(), "{why}");
    rig.set(&[]);
    rig.set(&log);
    assert!(path.exists(), "one that was removed and is added is another one");
}

#[test]
fn h2_host_of_evicted_client_is_banned_for_ten_minutes() {
    let hosts = vec![HOST.to_owned(), OTHER.to_owned()];
    let regions = [RegionConfig { hosts, ..region("log") }];
    let rig = Rig::new(&regions);
    let long_ago = Instant::now().checked_sub(EVICTED).unwrap();
    assert!(rig.node.evict(rig.granted(), long_ago).is_some());
    let grant = rig.ask(HOST, 1).unwrap();
    assert!(rig.node.evict(rig.id_of(&grant).unwrap(), Instant::now()).is_some());
    assert_eq!(rig.id_of(&grant), None, "its grant is over");
    assert_eq!(rig.ask(HOST, 2), Err(RegionRefusal::NotGranted));
    rig.ask(OTHER, 3).unwrap();
    let evicted: Vec<String> = rig.node.state().evicted.into_iter().map(|gone| gone.host).collect();
    assert_eq!(evicted, [HOST]);
    rig.node.set(&rig.backings, &regions).unwrap();
    assert!(rig.ask(HOST, 2).is_ok(), "the operator has changed the regions");
}

#[test]
fn h4_profile_needs_connected_clients() {
    let rig = Rig::new(&[region("log")]);
    let node = &rig.node;
    assert!(node.begin_profile(3).is_err(), "nobody is connected");
    node.note(rig.granted(), |grant| grant.connected = true);
    node.begin_profile(3).unwrap();
    assert_eq!(node.take_orders(), [Order::Profile(3)]);
    assert!(node.begin_profile(3).is_err(), "it is under way");
    node.note_profile(Ok((Tokens(990), Tokens(7))));
    let measured = ProfileState::Measured { capacity: 990, deviation: 7 };
    assert_eq!(node.state().profile, Some(measured));
    node.begin_profile(3).unwrap();
    node.end_profile();
    let failed = ProfileState::Failed("the data node has ended".to_owned());
    assert_eq!(node.state().profile, Some(failed));
}
