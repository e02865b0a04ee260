//! Tests of replaced disks, for hosts that come back: commands for identified disks are executed,
//! and commands meant for an earlier disk are refused.

use super::users::{self, LIMIT, go, save};
use super::*;

/// The event that namespaces have changed.
const CHANGED: u64 = 0x04_0002;

/// A connected controller with an I/O queue.
struct Here {
    id: ControllerId,
    admin: ConnectionId,
    io: ConnectionId,
    shared: std::sync::Arc<ControllerShared>,
}

/// Returns a service whose subsystem `OTHER` has a disk with UUID 1 under NSID 1.
fn bench() -> Bench {
    let mut bench = users::bench();
    bench.service.add_namespace(bench.now, OTHER, Namespace { nsid: 1, ..namespace(1) }).unwrap();
    bench
}

fn come(bench: &mut Bench) -> Here {
    let (admin, connected) = Connect::admin(OTHER).enabled(bench);
    let id = connected.controller;
    let (io, _) = Connect::new(OTHER, 1, id.0).accepted(bench);
    Here { id, admin, io, shared: connected.shared }
}

/// Ends a host's connections without a shutdown.
fn lose(bench: &mut Bench, here: &Here) {
    go(bench, [here.admin, here.io]);
}

/// Returns how the namespace is shown to a host that connects now.
fn shown_to_newcomer(bench: &mut Bench) -> Readiness {
    let here = come(bench);
    shown(bench, &here)
}

/// Puts another disk under NSID 1.
fn put(bench: &mut Bench, uuid: u8) {
    bench.service.remove_namespace(bench.now, OTHER, 1).unwrap();
    let replacing = Namespace { nsid: 1, replaces: true, ..namespace(uuid) };
    bench.service.add_namespace(bench.now, OTHER, replacing).unwrap();
}

/// Changes the disk under NSID 1.
fn becomes(bench: &mut Bench, uuid: u8, readiness: Readiness) {
    let namespace = Namespace { nsid: 1, readiness, replaces: true, ..namespace(uuid) };
    bench.service.replace_namespace(bench.now, OTHER, namespace).unwrap();
}

/// Asks for Identify Namespace, as a host does that has found the identifiers to be right.
fn identify_disk(bench: &mut Bench, here: &Here) {
    bench.ok(here.admin, &identify(0x00, 1));
}

/// Returns how the namespace is shown to a controller's I/O queues.
fn shown(bench: &Bench, here: &Here) -> Readiness {
    let table = bench.service.namespaces(here.id);
    let namespace = table.get(1).unwrap();
    assert_eq!(namespace.backend == BackendId::NONE, namespace.readiness != Readiness::Ready);
    namespace.readiness
}

/// Returns the status of a controller's I/O commands.
fn answer(bench: &Bench, here: &Here) -> Status {
    let table = bench.service.namespaces(here.id);
    here.shared.unavailable(table.get(1).unwrap(), bench.now)
}

/// Returns a service with the same namespaces, and the stored state of the hosts of `before`.
fn restart(before: &mut Bench, uuid: u8) -> Bench {
    save(before);
    let kept = before.service.users.saved.clone();
    let mut bench = bench();
    put(&mut bench, uuid);
    bench.service.restore_hosts(bench.now, kept.into_iter().collect());
    bench
}

#[test]
fn reconnecting_host_keeps_identified_disk() {
    let mut bench = bench();
    let first = come(&mut bench);
    put(&mut bench, 2);
    assert_eq!(shown(&bench, &first), Readiness::Unidentified);
    identify_disk(&mut bench, &first);
    assert_eq!(shown(&bench, &first), Readiness::Ready);
    lose(&mut bench, &first);
    let second = come(&mut bench);
    assert_eq!(shown(&bench, &second), Readiness::Ready);
    // Nor after another interruption, in which it has identified nothing.
    lose(&mut bench, &second);
    let third = come(&mut bench);
    assert_eq!(shown(&bench, &third), Readiness::Ready);
    // The target may still take the broken connection for a live one.
    let fourth = come(&mut bench);
    assert_eq!(shown(&bench, &fourth), Readiness::Ready);
    lose(&mut bench, &third);
    bench.set_cc(fourth.admin, SHUT_DOWN);
    lose(&mut bench, &fourth);
    assert_eq!(shown_to_newcomer(&mut bench), Readiness::Unidentified, "it was shut down");
}

#[test]
fn stale_commands_are_refused_until_identify() {
    let mut bench = bench();
    let first = come(&mut bench);
    lose(&mut bench, &first);
    put(&mut bench, 2);
    let second = come(&mut bench);
    assert_eq!(shown(&bench, &second), Readiness::KnownAsOther);
    assert_eq!(answer(&bench, &second), Status::INVALID_NAMESPACE.dnr());
    // All else shows a disk that is there.
    bench.ok(second.admin, &identify(0x02, 0));
    assert_eq!(bench.out[..4], [1, 0, 0, 0], "it is active");
    bench.ok(second.admin, &identify(0x08, 1));
    assert_eq!(bench.out[14], 1, "NSTAT.NRDY");
    bench.ok(second.admin, &identify(0x03, 1));
    assert_eq!(bench.out[4..20], [2; 16], "its UUID");
    assert_eq!(shown(&bench, &second), Readiness::KnownAsOther, "the host compares it now");
    identify_disk(&mut bench, &second);
    assert_eq!(shown(&bench, &second), Readiness::Ready);
    // A third disk is not the second.
    lose(&mut bench, &second);
    put(&mut bench, 3);
    let third = come(&mut bench);
    assert_eq!(shown(&bench, &third), Readiness::KnownAsOther);
    // An outage of the present disk does not change that.
    for readiness in [AWAY, Readiness::Ready] {
        becomes(&mut bench, 3, readiness);
    }
    assert_eq!(shown(&bench, &third), Readiness::KnownAsOther);
}

#[test]
fn unknown_host_gets_shortest_retry_delay() {
    let mut bench = bench();
    put(&mut bench, 2);
    let fresh = come(&mut bench);
    assert_eq!(shown(&bench, &fresh), Readiness::Unidentified);
    assert_eq!(answer(&bench, &fresh), Status::NAMESPACE_NOT_READY, "without ACRE");
    bench.set_acre(fresh.admin);
    assert_eq!(answer(&bench, &fresh), Status::NAMESPACE_NOT_READY.with_retry_delay(1));
}

/// Reads the list of changed namespaces and the identifiers of NSID 1, as Linux does when it is
/// notified of changed namespaces.
fn look(bench: &mut Bench, here: &Here) {
    bench.ok(here.admin, &log(0x04, 4096, 0, false));
    assert_eq!(nsids(&bench.out), [1], "the changed namespaces");
    bench.ok(here.admin, &identify(0x03, 1));
}

#[test]
fn host_dropping_replaced_disk_is_notified_again() {
    let mut bench = bench();
    let host = come(&mut bench);
    bench.listen(host.admin, 0x100);
    put(&mut bench, 2);
    assert_eq!(bench.take_completions(), [(host.admin, CHANGED)], "for the change");
    look(&mut bench, &host);
    // It has dropped the disk that it knew.
    assert_eq!(bench.take_completions(), [(host.admin, CHANGED)]);
    look(&mut bench, &host);
    assert_eq!(bench.take_completions(), [], "it does not look for ever");
    identify_disk(&mut bench, &host);
    bench.ok(host.admin, &identify(0x03, 1));
    assert_eq!(bench.take_completions(), [], "it has the new one");
    // The next disk is another one.
    put(&mut bench, 3);
    assert_eq!(bench.take_completions(), [(host.admin, CHANGED)]);
    look(&mut bench, &host);
    assert_eq!(bench.take_completions(), [(host.admin, CHANGED)]);
    // A host that comes back is not told of the change, but compares the identifiers.
    lose(&mut bench, &host);
    let back = come(&mut bench);
    bench.listen(back.admin, 0x100);
    bench.ok(back.admin, &identify(0x03, 1));
    assert_eq!(bench.take_completions(), [(back.admin, CHANGED)]);
}

#[test]
fn host_is_not_notified_of_absent_replacement() {
    let mut bench = bench();
    let host = come(&mut bench);
    bench.listen(host.admin, 0x100);
    becomes(&mut bench, 2, AWAY);
    assert_eq!(bench.take_completions(), [(host.admin, CHANGED)]);
    look(&mut bench, &host);
    assert_eq!(bench.take_completions(), [], "Linux compares nothing while it is not ready");
    becomes(&mut bench, 2, Readiness::Ready);
    assert_eq!(bench.take_completions(), [(host.admin, CHANGED)]);
    look(&mut bench, &host);
    // It has dropped the disk that it knew.
    assert_eq!(bench.take_completions(), [(host.admin, CHANGED)]);
}

#[test]
fn host_with_two_controllers_rescans_by_first() {
    let mut bench = bench();
    let (one, two) = (come(&mut bench), come(&mut bench));
    let (stranger, _) = Connect::admin(OTHER).host(STRANGER).enabled(&mut bench);
    for here in [&one, &two] {
        bench.listen(here.admin, 0x100);
    }
    put(&mut bench, 2);
    bench.actions();
    // Linux drops the disk by the first controller, and cannot take the new one: the second has the old one.
    for _ in 0..2 {
        look(&mut bench, &one);
    }
    assert_eq!(bench.take_completions(), [(one.admin, CHANGED)]);
    for _ in 0..2 {
        look(&mut bench, &two);
    }
    assert_eq!(bench.take_completions(), [(two.admin, CHANGED)]);
    bench.ok(one.admin, &log(0x04, 4096, 0, false));
    bench.ok(stranger, &identify(0x03, 1));
    identify_disk(&mut bench, &two);
    assert_eq!(bench.take_completions(), [(one.admin, CHANGED)]);
    bench.ok(one.admin, &identify(0x03, 1));
    identify_disk(&mut bench, &one);
    assert_eq!(bench.take_completions(), []);
    assert_eq!([shown(&bench, &one), shown(&bench, &two)], [Readiness::Ready; 2]);
}

#[test]
fn identified_disks_outlive_the_target() {
    let mut before = bench();
    let host = come(&mut before);
    put(&mut before, 2);
    let mut after = restart(&mut before, 2);
    assert_eq!(shown_to_newcomer(&mut after), Readiness::KnownAsOther, "it has not identified it");
    identify_disk(&mut before, &host);
    assert!(before.service.has_unsaved_hosts(), "it is stored at once");
    let mut same = restart(&mut before, 2);
    assert_eq!(shown_to_newcomer(&mut same), Readiness::Ready);
    // It is known without being identified again, and stays so.
    let mut again = restart(&mut same, 2);
    assert_eq!(shown_to_newcomer(&mut again), Readiness::Ready);
    let mut other = restart(&mut again, 3);
    assert_eq!(shown_to_newcomer(&mut other), Readiness::KnownAsOther);
    // The record of an earlier version does not contain the identified disks.
    let mut earlier = bench();
    put(&mut earlier, 2);
    let path = before.service.users.saved.keys().next().unwrap().clone();
    earlier.service.restore_hosts(earlier.now, vec![(path, KeptHost::default())]);
    assert_eq!(shown_to_newcomer(&mut earlier), Readiness::Unidentified);
}

#[test]
fn identifiers_that_become_known_after_connect_change_nothing() {
    let mut before = bench();
    let host = come(&mut before);
    put(&mut before, 2);
    identify_disk(&mut before, &host);
    for (uuid, wanted) in [(2, Readiness::Ready), (3, Readiness::KnownAsOther)] {
        let mut after = restart(&mut before, uuid);
        becomes(&mut after, 0, UNSEEN);
        let back = come(&mut after);
        becomes(&mut after, uuid, Readiness::Ready);
        assert_eq!(shown(&after, &back), wanted, "{uuid}");
    }
}

#[test]
fn ambiguous_successor_is_told_to_retry() {
    let mut bench = bench();
    let (one, two) = (come(&mut bench), come(&mut bench));
    lose(&mut bench, &two);
    put(&mut bench, 2);
    identify_disk(&mut bench, &one);
    // Its commands may be for the first disk, or for the second.
    let back = come(&mut bench);
    assert_eq!(shown(&bench, &back), Readiness::Unidentified);
    let mut after = restart(&mut bench, 2);
    assert_eq!(shown_to_newcomer(&mut after), Readiness::Unidentified, "after a restart, too");
    identify_disk(&mut bench, &back);
    for here in [&one, &back] {
        lose(&mut bench, here);
    }
    assert_eq!(shown_to_newcomer(&mut bench), Readiness::Ready, "both have identified it");
}

#[test]
fn lost_controller_counts_for_reconnect_time() {
    let mut bench = bench();
    let (one, two) = (come(&mut bench), come(&mut bench));
    lose(&mut bench, &two);
    put(&mut bench, 2);
    identify_disk(&mut bench, &one);
    bench.pass(LIMIT);
    bench.tick();
    lose(&mut bench, &one);
    assert_eq!(shown_to_newcomer(&mut bench), Readiness::Ready);
}

#[test]
fn excess_controllers_of_host_are_unknown() {
    let mut bench = bench();
    let all: Vec<Here> = (0..=KEPT_CONTROLLERS_MAX).map(|_| come(&mut bench)).collect();
    let of = |bench: &Bench| bench.service.users.saved.values().next().unwrap().clone();
    restart(&mut bench, 2);
    assert_eq!(of(&bench).identified, None);
    all.iter().for_each(|here| lose(&mut bench, here));
    put(&mut bench, 2);
    assert_eq!(shown_to_newcomer(&mut bench), Readiness::Unidentified);
    bench.pass(LIMIT);
    bench.tick();
    restart(&mut bench, 2);
    assert_eq!(of(&bench).identified, Some(vec![Identified::new()]));
}

#[test]
fn disk_stays_identified_while_host_may_return() {
    let mut bench = bench();
    let is_identified = |bench: &Bench, uuid: u8| bench.service.is_identified(OTHER, 1, [uuid; 16]);
    let here = come(&mut bench);
    put(&mut bench, 2);
    assert!(!is_identified(&bench, 2), "it is withheld from the host");
    identify_disk(&mut bench, &here);
    assert!(is_identified(&bench, 2) && !is_identified(&bench, 3));
    assert!(!bench.service.is_identified(SUBSYSTEM, 1, [2; 16]), "another subsystem");
    lose(&mut bench, &here);
    assert!(is_identified(&bench, 2), "the host may come back");
    let here = come(&mut bench);
    bench.set_cc(here.admin, SHUT_DOWN);
    lose(&mut bench, &here);
    assert!(!is_identified(&bench, 2));
}
