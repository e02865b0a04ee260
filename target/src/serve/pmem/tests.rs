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

fn backings() -> Backings {
    Backings::new(
        &Config::embedded().unwrap().target,
        SeenNamespaces::default(),
        Identities::default(),
    )
}

fn node() -> PmemShared {
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

fn region(name: &str) -> RegionConfig {
    RegionConfig {
        name: name.to_owned(),
        size: Some(1 << 20),
        hosts: vec![HOST.to_owned()],
        reserve: 600,
        ..RegionConfig::default()
    }
}

fn ask(node: &PmemShared, host: &str, controller: u16) -> Result<RegionGrant, RegionRefusal> {
    ask_for(node, host, controller, RegionRights::ReadWrite, 100)
}

fn ask_for(
    node: &PmemShared,
    host: &str,
    controller: u16,
    rights: RegionRights,
    reservation: u32,
) -> Result<RegionGrant, RegionRefusal> {
    let name = RegionName::from_text("log").unwrap();
    let (controller, address) = (ControllerId(controller), None);
    node.grant(&RegionRequest { host, address, controller, name, rights, reservation })
}

fn id_of(node: &PmemShared, grant: &RegionGrant) -> Option<GrantId> {
    let log = RegionName::from_text("log").unwrap().id();
    Some(node.find(log, |secret| secret == grant.secret)?.grant.id)
}

#[test]
fn a_host_gets_what_it_may_have_and_learns_nothing_of_the_rest() {
    let (node, backings) = (node(), backings());
    assert_eq!(ask(&node, HOST, 1), Err(RegionRefusal::NotGranted), "there is no region");
    let read_only = RegionConfig { read_only: true, ..region("other") };
    node.set(&backings, &[region("log"), read_only]).unwrap();
    assert_eq!(ask(&node, OTHER, 1), Err(RegionRefusal::NotGranted));
    let grant = ask(&node, HOST, 1).unwrap();
    assert_eq!((grant.length, grant.reservation, grant.limit), (1 << 20, 100, 0));
    assert_eq!((grant.address.port(), grant.survives), (4430, Survives::Nothing));
    let more = ask_for(&node, HOST, 1, RegionRights::Read, 501);
    assert_eq!(more, Err(RegionRefusal::Reservation { fits: 500 }));
    let name = RegionName::from_text("other").unwrap();
    let asked = |rights| RegionRequest {
        host: HOST,
        address: None,
        controller: ControllerId(1),
        name,
        rights,
        reservation: 0,
    };
    assert_eq!(node.grant(&asked(RegionRights::ReadWrite)), Err(RegionRefusal::NotGranted));
    let other = node.grant(&asked(RegionRights::Read)).unwrap();
    assert_ne!(other.secret, grant.secret);
    assert_eq!(id_of(&node, &other), None, "a secret is of one region");
    assert!(id_of(&node, &grant).is_some());
    let state = node.state();
    assert_eq!((state.reserved, state.capacity), (100, 1000));
    let clients: Vec<_> = state.regions.iter().map(|region| region.clients.len()).collect();
    assert_eq!(clients, [1, 1]);
}

#[test]
fn while_the_data_node_does_not_listen_hosts_are_told_to_come_again() {
    let (node, backings) = (node(), backings());
    node.set(&backings, &[region("log")]).unwrap();
    node.set_open(Err("its device is gone".to_owned()));
    assert_eq!(ask(&node, HOST, 1), Err(RegionRefusal::NoRoom));
    assert_eq!(ask(&node, OTHER, 1), Err(RegionRefusal::NotGranted), "but no others");
    node.set_open(Ok(()));
    ask(&node, HOST, 1).unwrap();
}

#[test]
fn grants_end_with_their_controller() {
    let (node, backings) = (node(), backings());
    node.set(&backings, &[region("log")]).unwrap();
    let (first, second) = (ask(&node, HOST, 1).unwrap(), ask(&node, HOST, 2).unwrap());
    let ids = [&first, &second].map(|grant| id_of(&node, grant).unwrap());
    node.controller_ended(ControllerId(1));
    assert_eq!(node.take_orders(), [Order::Revoke(ids[0])]);
    assert_eq!((id_of(&node, &first), id_of(&node, &second)), (None, Some(ids[1])));
    assert_eq!(node.state().reserved, 100);
    node.controller_ended(ControllerId(1));
    assert!(node.take_orders().is_empty());
}

/// Sets the regions, and returns the orders, which are carried out while it waits for them.
fn set(node: &PmemShared, backings: &Backings, regions: &[RegionConfig]) -> Vec<Order> {
    std::thread::scope(|scope| {
        let set = scope.spawn(|| node.set(backings, regions).unwrap());
        let mut all = Vec::new();
        loop {
            let is_over = set.is_finished();
            let orders = node.take_orders();
            assert!(!is_over || orders.is_empty(), "it waits until rights have ended");
            node.has_carried_out(orders.len());
            all.extend(orders);
            if is_over {
                return all;
            }
            std::thread::yield_now();
        }
    })
}

#[test]
fn a_change_of_regions_ends_the_grants_that_it_concerns_and_no_others() {
    let (node, backings) = (node(), backings());
    let log = region("log");
    let set = |regions: &[RegionConfig]| set(&node, &backings, regions);
    let granted = || id_of(&node, &ask(&node, HOST, 1).unwrap()).unwrap();
    set(std::slice::from_ref(&log));
    let id = granted();
    let more = RegionConfig { size: Some(2 << 20), limit: Some(5), ..log.clone() };
    assert_eq!(set(&[more.clone(), region("more")]), [], "larger, and one more: nobody loses");
    assert_eq!(ask(&node, HOST, 2).map(|grant| (grant.length, grant.limit)), Ok((2 << 20, 5)));
    node.controller_ended(ControllerId(2));
    node.has_carried_out(node.take_orders().len());
    let other_host = RegionConfig { hosts: vec![OTHER.to_owned()], ..more.clone() };
    let gone = set(&[other_host, region("more")]);
    assert_eq!(gone, [Order::Revoke(id)], "the host may no longer use it");
    set(std::slice::from_ref(&more));
    let id = granted();
    let smaller = RegionConfig { size: Some(4096), ..more.clone() };
    assert_eq!(set(&[smaller]), [Order::Revoke(id)], "it has become smaller");
    assert_eq!(ask(&node, HOST, 3).map(|grant| grant.length), Ok(4096));
    assert_eq!(set(&[]).len(), 1);
    assert_eq!(node.state().reserved, 0);
    assert_eq!(ask(&node, HOST, 1), Err(RegionRefusal::NotGranted));
}

#[test]
fn a_region_that_is_for_reading_from_now_on_keeps_its_data_and_no_grant() {
    let (node, backings) = (node(), backings());
    let folder = tempfile::tempdir().unwrap();
    let path = Some(folder.path().join("region"));
    let log = RegionConfig { path, create: true, ..region("log") };
    set(&node, &backings, std::slice::from_ref(&log));
    let id = id_of(&node, &ask(&node, HOST, 1).unwrap()).unwrap();
    let before = node.region_of(id).unwrap().region.memory;
    let read_only = RegionConfig { read_only: true, ..log };
    assert_eq!(set(&node, &backings, &[read_only]), [Order::Revoke(id)]);
    let grant = ask_for(&node, HOST, 1, RegionRights::Read, 0).unwrap();
    let after = node.region_of(id_of(&node, &grant).unwrap()).unwrap().region.memory;
    assert_eq!(after.address(), before.address());
}

#[test]
fn a_region_that_cannot_be_opened_changes_nothing_live_and_is_tried_again_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let (node, backings) = (node(), backings());
    let path = folder.path().join("region");
    let file = RegionConfig { path: Some(path.clone()), size: None, ..region("log") };
    node.set(&backings, &[region("log")]).unwrap();
    let id = id_of(&node, &ask(&node, HOST, 1).unwrap());
    let refused = node.set(&backings, std::slice::from_ref(&file)).unwrap_err();
    assert!(refused.to_string().contains("region"), "{refused}");
    assert_eq!(node.take_orders().len(), 0);
    assert!(id.is_some() && node.config().regions == [region("log")]);

    node.begin(&backings, std::slice::from_ref(&file));
    assert!(node.state().regions[0].open.is_err());
    assert_eq!(ask(&node, HOST, 2), Err(RegionRefusal::NoRoom));
    std::fs::write(&path, vec![7; 1 << 16]).unwrap();
    node.retry(&backings);
    let facts = node.state().regions[0].open.clone().unwrap();
    assert_eq!(facts.bytes, 1 << 16);
    let found = ask(&node, HOST, 2).unwrap();
    assert_eq!((found.length, found.survives != Survives::Nothing), (1 << 16, true));
    let gone = RegionConfig { path: Some(PathBuf::from("/nowhere/region")), ..file };
    node.set(&backings, &[gone]).unwrap_err();
}

#[test]
fn a_file_that_was_served_and_has_gone_is_not_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let (first, backings) = (node(), backings());
    let path = folder.path().join("region");
    let log = RegionConfig { path: Some(path.clone()), create: true, ..region("log") };
    first.begin(&backings, std::slice::from_ref(&log));
    assert!(path.exists() && first.state().regions[0].open.is_ok());
    drop(first);
    std::fs::remove_file(&path).unwrap();
    let again = node();
    again.begin(&backings, std::slice::from_ref(&log));
    let why = again.state().regions[0].open.clone().unwrap_err();
    assert!(why.contains("there is no such file any more") && !path.exists(), "{why}");
    set(&again, &backings, &[]);
    set(&again, &backings, std::slice::from_ref(&log));
    assert!(path.exists(), "one that was removed and is added is another one");
}

#[test]
fn h2_host_of_evicted_client_is_banned_for_ten_minutes() {
    let (node, backings) = (node(), backings());
    let regions =
        [RegionConfig { hosts: vec![HOST.to_owned(), OTHER.to_owned()], ..region("log") }];
    node.set(&backings, &regions).unwrap();
    let grant = ask(&node, HOST, 1).unwrap();
    let id = id_of(&node, &grant).unwrap();
    let long_ago = Instant::now().checked_sub(EVICTED).unwrap();
    assert!(node.evict(id, long_ago).is_some());
    let grant = ask(&node, HOST, 1).unwrap();
    assert!(node.evict(id_of(&node, &grant).unwrap(), Instant::now()).is_some());
    assert_eq!(id_of(&node, &grant), None, "its grant is over");
    assert_eq!(ask(&node, HOST, 2), Err(RegionRefusal::NotGranted));
    ask(&node, OTHER, 3).unwrap();
    let evicted: Vec<String> = node.state().evicted.into_iter().map(|gone| gone.host).collect();
    assert_eq!(evicted, [HOST]);
    node.set(&backings, &regions).unwrap();
    assert!(ask(&node, HOST, 2).is_ok(), "the operator has changed the regions");
}

#[test]
fn h4_profile_needs_connected_clients() {
    let (node, backings) = (node(), backings());
    node.set(&backings, &[region("log")]).unwrap();
    assert!(node.begin_profile(3).is_err(), "nobody is connected");
    let id = id_of(&node, &ask(&node, HOST, 1).unwrap()).unwrap();
    node.note(id, |grant| grant.connected = true);
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
