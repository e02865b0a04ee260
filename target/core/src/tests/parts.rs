//! Single parts of a reactor, by their contracts with the others.

use std::sync::Arc;

use arbitration::arbiter::Waiters;
use arbitration::classify::{Classifier, ConnectionClass, PolicyClass};
use arbitration::memory::MemoryFlowId;
use arbitration::session::{HostId, Session};
use arbitration::settings::OrderSettings;
use arbitration::{Class, PerClass};
use fabric::Nanos;
use fabric::controller::BackendId;
use fabric::nvme::Sqe;
use fabric::queue::SlotId;
use qtcp::pacing::Pacing;

use super::rig::{Machine, session_rules};
use crate::machine::key::Key;
use crate::memory::admin_data::AdminBuffer;
use crate::memory::buffers::{Buffers, Sizes};
use crate::memory::lease::LeaseGate;
use crate::network::pacer::{Next, R2tPacer, Turn};
use crate::queue::commands::{Commands, State};
use crate::queue::flow_cache::{FlowCache, NamespaceFlow};
use crate::queue::progress::Owed;
use crate::reactor::changes::{Changes, Touched};
use crate::reactor::context::waiting_max;
use crate::reactor::stages::Stages;
use crate::stats::accounts::Account;
use crate::testing::{HeapArena, Rules};

const KIB: usize = 1 << 10;

#[test]
fn data_leaves_two_reserves_and_hosts_that_hold_little_leave_one() {
    let buffers = Buffers::new(HeapArena::new(1 << 20, 128 * KIB), HeapArena::new(64 * KIB, 8192));
    // Reads have three quarters; a first buffer for data is always given.
    let _reads: Vec<_> = (0..12).map(|_| buffers.for_read(64 * KIB).unwrap()).collect();
    let _first = buffers.for_data(64 * KIB).unwrap();
    assert!(buffers.for_data(4 * KIB).is_none(), "no more is free than the reserves");
    // Of 192 KiB that are free, 128 KiB stay for reads, less what reads have of these.
    let reserved = |kib| buffers.for_reserved(kib * KIB, 0);
    assert!(reserved(64).is_none(), "more than a quarter of the reserve");
    let of_tenant = buffers.for_tenant(64 * KIB);
    assert!(of_tenant.is_some(), "a tenant that memory is set aside for takes any that is left");
    drop(of_tenant);
    let _more = [reserved(32).unwrap(), reserved(16).unwrap(), reserved(16).unwrap()];
    assert!(reserved(4).is_none(), "an eighth stays for reads");
    assert!(buffers.for_tenant(4 * KIB).is_none(), "an eighth stays for reads");
    assert!(buffers.for_reserved(4 * KIB, 4 * KIB).is_some(), "reads have that much of theirs");
}

#[test]
fn an_arena_has_no_part_of_a_largest_buffer() {
    assert_eq!(crate::memory::buddies::arena_bytes(100 * KIB, 64 * KIB), 64 * KIB);
    assert_eq!(crate::memory::buddies::arena_bytes(100 * KIB, 1), 100 * KIB);
    assert_eq!(crate::memory::buddies::arena_bytes(6 * KIB, 1), 4 * KIB);
}

#[test]
fn what_a_host_owes_is_what_it_was_asked_for() {
    let mut commands = Commands::<Machine>::default();
    assert_eq!(commands.owed(), Owed::default());
    for (slot, bytes) in [(0, 100), (1, 200), (2, 400)] {
        commands.occupy(SlotId(slot), State::Collecting(AdminBuffer::uncounted(bytes)));
    }
    assert_eq!(commands.owed(), Owed::default(), "it was asked for nothing");
    assert_eq!(commands.awaiting_data(), 3);
    commands.expect_data(Nanos(70), SlotId(1), true);
    commands.expect_data(Nanos(50), SlotId(2), true);
    assert_eq!(commands.owed(), Owed { bytes: 600, since: Some(Nanos(50)) });
    commands.expect_data(Nanos(70), SlotId(2), false);
    assert_eq!(commands.owed(), Owed { bytes: 200, since: Some(Nanos(70)) });
    commands.fill(SlotId(1), 196, &[7; 100]);
    let (state, _) = commands.release(SlotId(1));
    let State::Collecting(data) = state else { panic!("{state:?}") };
    assert_eq!((&data[..196], &data[196..]), (&[0; 196][..], &[7; 4][..]), "no more than its own");
    assert_eq!((commands.active(), commands.at_work()), (2, 2));
}

fn session() -> Arc<Session> {
    session_rules(10).tenant.session
}

/// Makes a gate to `bytes` bytes of memory, and a flow to it.
fn gate(bytes: usize) -> (LeaseGate<u32>, MemoryFlowId) {
    let mut gate = LeaseGate::new(&OrderSettings::default(), bytes);
    let flow = gate.gate().flow(&session(), HostId(1));
    (gate, flow)
}

#[test]
fn memory_that_is_lent_comes_back_with_its_lease_and_that_is_told_once() {
    let (mut gate, flow) = gate(16 * KIB);
    assert!(!gate.came_back());
    let lease = gate.lease_now(flow, Class::Low, 8000);
    assert!(lease.is_some());
    assert!(!gate.came_back(), "nothing has come back yet");
    drop(lease);
    gate.take_back();
    gate.take_back();
    assert!(gate.came_back(), "it is known for as long as nobody has asked");
    assert!(!gate.came_back());
}

#[test]
fn what_may_be_lent_is_lent_in_powers_of_two() {
    for (bytes, block) in [(4096, 4096), (5000, 8192), (8193, 16_384), (u32::MAX, u32::MAX)] {
        let (mut gate, flow) = gate(64 * KIB);
        let mut leases = Vec::new();
        loop {
            let may = gate.may_lease(flow, bytes);
            let lease = gate.lease_now(flow, Class::Low, bytes);
            assert_eq!(may, lease.is_some(), "{bytes} bytes beside {}", leases.len());
            let Some(lease) = lease else { break };
            leases.push(lease);
        }
        // One command may always go on.
        let most = (64 * KIB / block as usize).max(1);
        assert!((1..=most).contains(&leases.len()), "{} of {bytes} bytes", leases.len());
    }
}

/// Stages without commands.
fn stages() -> Stages {
    let sizes = Sizes { window: 1 << 20, memory: 1 << 20, capsules: 1 << 20 };
    Stages::new(0, &OrderSettings::default(), Arc::new(Waiters::new(1)), sizes)
}

/// Puts a new entry for a namespace of a device into a flow cache.
fn put(cache: &mut FlowCache, stages: &mut Stages, nsid: u32, backend: u64) -> usize {
    let session = session();
    let connection = ConnectionClass { priority: 0, weighted: false, dscp: None, listener: None };
    let new = NamespaceFlow {
        nsid,
        host: HostId(1),
        backend: BackendId(backend),
        classifier: Classifier::new(&connection, PolicyClass::default()),
        account: Account::default(),
        flow: None,
        fetch: stages.gate.flow(&session, HostId(1)),
        read: stages.reads.gate().flow(&session, HostId(1)),
        flush_is_output: false,
        workloads: PerClass::default(),
    };
    cache.put(stages, new)
}

#[test]
fn f4_memory_for_hosts_data_is_left_to_the_tenant_that_it_is_set_aside_for() {
    let (mut stages, session) = (stages(), session());
    session.set_aside(64 << 10);
    assert_eq!(stages.gate.left_aside(), 0, "none of the tenant's flows is here");
    let flow = stages.gate.flow(&session, HostId(1));
    assert_eq!(stages.gate.left_aside(), 64 << 10);
    stages.gate.release(flow);
    assert_eq!(stages.gate.left_aside(), 0);
}

#[test]
fn a_connection_remembers_namespaces_whose_numbers_end_alike() {
    let (mut stages, mut cache) = (stages(), FlowCache::default());
    assert_eq!(cache.find(1, BackendId(1)), None);
    for nsid in [1, 9, 17, 5, 130, 2] {
        let place = put(&mut cache, &mut stages, nsid, 7);
        assert_eq!(cache.at(place).unwrap().nsid, nsid);
    }
    for nsid in [1, 9, 17, 5, 130, 2] {
        let place = cache.find(nsid, BackendId(7)).unwrap();
        assert_eq!(cache.at(place).unwrap().nsid, nsid);
        assert_eq!(cache.find(nsid, BackendId(8)), None, "another device");
        assert_eq!(cache.find(nsid + 1024, BackendId(7)), None, "another namespace");
    }
    // There are 256 places at the most: of these two one is forgotten.
    put(&mut cache, &mut stages, 1 + 256, 7);
    assert!(cache.find(257, BackendId(7)).is_some() && cache.find(1, BackendId(7)).is_none());
    assert!(cache.find(9, BackendId(7)).is_some());
}

#[test]
fn commands_are_charged_again_when_an_entry_was_given_up() {
    let (mut stages, mut cache) = (stages(), FlowCache::default());
    cache.refresh(&mut stages, 1);
    let place = put(&mut cache, &mut stages, 1, 7);
    let charge = cache.charge(Nanos(0), place, &Sqe::default());
    assert!(cache.is_current(&charge));
    put(&mut cache, &mut stages, 2, 7);
    assert!(cache.is_current(&charge), "another namespace had a place of its own");
    cache.refresh(&mut stages, 1);
    assert!(cache.is_current(&charge), "the settings are the same");
    put(&mut cache, &mut stages, 1, 8);
    assert!(!cache.is_current(&charge), "its namespace has another device");
    let charge = cache.charge(Nanos(0), place, &Sqe::default());
    put(&mut cache, &mut stages, 9, 8);
    assert!(!cache.is_current(&charge), "entries have moved");
    let charge = cache.charge(Nanos(0), place, &Sqe::default());
    cache.refresh(&mut stages, 2);
    assert!(!cache.is_current(&charge) && cache.find(9, BackendId(8)).is_none());
    let before = cache.charge(Nanos(0), place, &Sqe::default());
    cache.clear(&mut stages);
    cache.clear(&mut stages);
    assert!(before.fetch.is_none(), "there is no entry");
}

#[test]
fn reactors_have_like_parts_of_the_commands_that_may_wait_and_one_at_least() {
    for (all, reactors, each) in [(10, 1, 10), (10, 4, 2), (3, 4, 1), (10, 0, 10)] {
        let rules = Rules { queue: all, ..session_rules(1) };
        assert_eq!(waiting_max(&rules, reactors), each, "{all} of {reactors}");
    }
}

#[test]
fn changes_are_carried_out_until_none_is_left() {
    assert!(Touched::default().is_empty());
    let sessions = |count| (0..count).map(|_| session()).collect();
    let touched = [
        Touched { sessions: sessions(300), ..Touched::default() },
        Touched { devices: vec![BackendId(1)], ..Touched::default() },
        Touched { snapshot: true, ..Touched::default() },
        Touched { sessions: sessions(1), ..Touched::default() },
    ];
    let (mut stages, mut table) = (stages(), crate::reactor::device_table::DeviceTable::new());
    let mut changes = Changes::<()>::default();
    assert!(!changes.is_changing() && !changes.has_leaving());
    for one in touched {
        assert!(!one.is_empty());
        changes.touch(Arc::new(one));
    }
    let go_on = || {
        let goes_on = changes.is_changing();
        changes.go_on(Nanos(0), &mut stages, &mut table);
        goes_on.then_some(())
    };
    let turns = std::iter::from_fn(go_on).take(10).count();
    assert!((3..10).contains(&turns), "a bounded number in one turn: {turns}");
    assert!(!changes.has_leaving(), "no device is gone");
}

/// Takes all commands that wait in a pacer without a rate: their classes and slots, in order.
fn pull_all(pacer: &mut R2tPacer, pacing: &Pacing) -> Vec<(Class, u16)> {
    let pulled = std::iter::from_fn(|| match pacer.pull(Nanos(0), pacing, false) {
        Turn::R2t(class, Next::Begun(slot) | Next::Fresh(slot, _)) => Some((class, slot.0)),
        _ => None,
    });
    pulled.collect()
}

#[test]
fn a_pacer_is_needed_where_there_is_a_rate_or_others_wait() {
    let (pacing, mut pacer) = (Pacing::default(), R2tPacer::new(Nanos(0)));
    assert!(!pacer.is_needed(&pacing));
    assert!(matches!(pacer.pull(Nanos(0), &pacing, false), Turn::Idle));
    pacing.set_r2t_rate(Some(1_000_000));
    assert!(pacer.is_needed(&pacing));
    assert!(!pacer.list(), "the agenda did not have it");
    assert!(pacer.list());
    pacer.push_fresh(Class::Low, SlotId(1), 4096);
    pacer.push_begun(Class::Low, SlotId(2));
    pacer.push_begun(Class::High, SlotId(3));
    assert_eq!(pacer.begun(), 2);
    assert_eq!((pacer.waiting_bytes(Class::Low), pacer.waiting_bytes(Class::High)), (4097, 1));
    pacing.set_r2t_rate(None);
    assert!(pacer.is_needed(&pacing), "they wait: no other command goes before them");
    let mut pulled = pull_all(&mut pacer, &pacing);
    pulled.sort_unstable_by_key(|(_, slot)| *slot);
    assert_eq!(pulled, [(Class::Low, 1), (Class::Low, 2), (Class::High, 3)]);
    assert!(!pacer.is_needed(&pacing) && !pacer.list(), "it is listed no more");
}

#[test]
fn a_debt_is_over_exactly_when_it_is_said_to_be() {
    let (pacing, mut pacer) = (Pacing::default(), R2tPacer::new(Nanos(0)));
    // No whole number of ns for a byte.
    pacing.set_r2t_rate(Some(999_983));
    (0..4).for_each(|slot| pacer.push_fresh(Class::Low, SlotId(slot), 10_000));
    let mut now = Nanos(0);
    // One look asks, and the next one says when the debt is over: each command costs 10 ms.
    for look in 0..7 {
        match pacer.pull(now, &pacing, true) {
            Turn::R2t(class, Next::Fresh(..)) if look % 2 == 0 => {
                assert!(now.0.abs_diff(look * 5_000_000) < 10_000, "{now:?} at look {look}");
                pacer.charge(&pacing, class, 1, 10_000);
            }
            Turn::Later(at) if look % 2 == 1 => {
                let early = pacer.pull(Nanos(at.0 - 2000), &pacing, true);
                assert!(at > now && matches!(early, Turn::Later(_)), "{early:?} before {at:?}");
                now = at;
            }
            other => panic!("{other:?} at look {look}"),
        }
    }
    assert!(matches!(pacer.pull(now, &pacing, true), Turn::Idle), "nothing waits");
}

#[test]
fn a_pacer_forgets_a_command_whether_or_not_its_data_has_begun_to_come() {
    for gone in 0..5 {
        let (pacing, mut pacer) = (Pacing::default(), R2tPacer::new(Nanos(0)));
        (0..3).for_each(|slot| pacer.push_fresh(Class::Low, SlotId(slot), 1000));
        (3..5).for_each(|slot| pacer.push_begun(Class::Low, SlotId(slot)));
        pacer.forget(SlotId(gone));
        assert_eq!(pacer.begun(), if gone < 3 { 2 } else { 1 });
        assert_eq!(pacer.waiting_bytes(Class::Low), if gone < 3 { 2001 } else { 3001 });
        let left = pull_all(&mut pacer, &pacing).into_iter().map(|(_, slot)| slot);
        let others = [3, 4, 0, 1, 2].into_iter().filter(|slot| *slot != gone);
        assert!(left.eq(others), "what has begun comes first");
        assert!(!pacer.is_needed(&pacing), "none is left");
    }
}

#[test]
fn stages_wait_while_a_command_waits_in_them() {
    let mut stages = stages();
    assert!(!stages.waits());
    let flow = stages.gate.flow(&session(), HostId(1));
    let item = (Key { index: 0, generation: 0 }, SlotId(1));
    let waiting = stages.gate.enqueue(flow, Class::Low, 4096, item);
    assert!(stages.waits(), "for memory");
    stages.gate.cancel(waiting);
    assert!(!stages.waits());
}
