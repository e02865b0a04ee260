//! Tests of ANA states: the log is read as Linux reads it, and refused for the same reasons.

use core::sync::atomic::Ordering;

use super::*;
use crate::nvme::log::GetLogPage;

const ANA: u8 = 0x0c;
/// Groups and ANAGRPMAX as Identify Controller tells them.
const GROUPS: u32 = 2;
const OPTIMIZED: u8 = 1;
const INACCESSIBLE: u8 = 3;
/// The events of namespaces and of ANA states, as Linux enables both: bits of the configuration, and results.
const EVENTS: u32 = 0x900;
const NAMESPACE_EVENT: u64 = 0x04_0002;
const ANA_EVENT: u64 = 0x0c_0302;

/// A group of the log.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    id: u32,
    state: u8,
    nsids: Vec<u32>,
}

/// Parses the log by the rules of `nvme_parse_ana_log` and `nvme_update_ana_state` in
/// drivers/nvme/host/multipath.c: warnings of the kernel are assertions here.
fn parse(page: &[u8]) -> Vec<Group> {
    let count = u16::from_le_bytes(page[8..10].try_into().unwrap());
    let mut at = 16;
    let groups = (0..count).map(|_| {
        assert!(at + 32 <= page.len(), "a descriptor behind the end");
        let (id, listed, state) = (u32_at(page, at), u32_at(page, at + 4), page[at + 16]);
        assert!(id != 0 && id <= GROUPS, "ANAGRPID {id}");
        assert!(state != 0 && state <= 0xf, "ANA State {state}");
        at += 32;
        let end = at + 4 * listed as usize;
        assert!(end <= page.len(), "NSIDs behind the end");
        let nsids: Vec<u32> = page[at..end].chunks(4).map(|nsid| u32_at(nsid, 0)).collect();
        assert!(nsids.is_sorted(), "Linux passes once over its namespaces and the list");
        at = end;
        Group { id, state, nsids }
    });
    groups.collect()
}

/// Checks that the log of a controller has each namespace of its host once, in the group of its readiness, and fits
/// the buffer of a Linux host.
pub(super) fn check_log(service: &Service, id: ControllerId) {
    let Some(controller) = service.controllers.get(&id) else { return };
    let room = 16 + 32 * GROUPS + 4 * service.config.max_namespaces;
    let page = service.ana_page(controller, &GetLogPage::parse(&log(ANA, room, 0, true)));
    assert_eq!(page.len(), room as usize);
    let listed = parse(&page).into_iter().flat_map(|group| {
        let away = group.id == 2;
        group.nsids.into_iter().map(move |nsid| (nsid, away))
    });
    let mut listed: Vec<(u32, bool)> = listed.collect();
    listed.sort_unstable();
    let seen = controller.table.iter().map(|n| (n.nsid, !n.is_ready()));
    assert_eq!(listed, seen.collect::<Vec<_>>());
}

impl Bench {
    /// Reads the log in one transfer, as Linux does.
    fn groups(&mut self, admin: ConnectionId) -> Vec<Group> {
        self.ok(admin, &log(ANA, 16 + 32 * GROUPS + 4 * 16_384, 0, false));
        parse(&self.out)
    }

    /// Returns ANAGRPID of Identify Namespace (bytes 95:92), after a check of the one independent of the command set.
    fn group_of(&mut self, admin: ConnectionId, nsid: u32) -> u32 {
        self.ok(admin, &identify(0x08, nsid));
        let independent = u32_at(&self.out, 4);
        self.ok(admin, &identify(0x00, nsid));
        assert_eq!(u32_at(&self.out, 92), independent);
        independent
    }
}

fn group(id: u32, state: u8, nsids: &[u32]) -> Group {
    Group { id, state, nsids: nsids.to_vec() }
}

#[test]
fn absent_namespace_is_in_inaccessible_group() {
    let mut bench = Bench::new();
    for tag in 2..=4 {
        bench.add_namespace(namespace(tag));
    }
    let (admin, _) = bench.admin_queue(0);
    let all = [group(1, OPTIMIZED, &[1, 2, 3, 4]), group(2, INACCESSIBLE, &[])];
    assert_eq!(bench.groups(admin), all);
    for nsid in [1, 3] {
        bench.set_readiness(nsid, AWAY);
    }
    let some = [group(1, OPTIMIZED, &[2, 4]), group(2, INACCESSIBLE, &[1, 3])];
    assert_eq!(bench.groups(admin), some);
    assert_eq!([1, 2, 3, 4].map(|nsid| bench.group_of(admin, nsid)), [2, 1, 2, 1]);
    // Groups without their namespaces (LSP bit 0).
    let mut groups_only = log(ANA, 80, 0, true);
    groups_only.cdw10 |= U32::new(1 << 8);
    bench.ok(admin, &groups_only);
    assert_eq!(parse(&bench.out), [group(1, OPTIMIZED, &[]), group(2, INACCESSIBLE, &[])]);
    for nsid in [1, 3] {
        bench.set_readiness(nsid, Readiness::Ready);
    }
    assert_eq!(bench.groups(admin), all);
    assert_eq!(bench.group_of(admin, 3), 1);
}

#[test]
fn changes_are_reported_until_log_is_read() {
    let (mut bench, admin) = Bench::enabled();
    bench.listen(admin, EVENTS);
    bench.set_readiness(1, AWAY);
    assert_eq!(bench.take_completions(), [(admin, NAMESPACE_EVENT), (admin, ANA_EVENT)]);
    // Nothing is reported twice, nor after the log was read with Retain Asynchronous Event.
    bench.set_readiness(1, Readiness::Ready);
    bench.ok(admin, &log(ANA, 4096, 0, true));
    bench.set_readiness(1, AWAY);
    assert_eq!(bench.take_completions(), []);
    let before = bench.out[..8].to_vec();
    bench.ok(admin, &log(ANA, 4096, 0, false));
    assert_ne!(bench.out[..8], before, "the change count");
    bench.ok(admin, &log(0x04, 4096, 0, false));
    bench.set_readiness(1, Readiness::Ready);
    assert_eq!(bench.take_completions(), [(admin, NAMESPACE_EVENT), (admin, ANA_EVENT)]);
    bench.ok(admin, &log(ANA, 4096, 0, false));
    bench.ok(admin, &log(0x04, 4096, 0, false));
    for cid in 200..204 {
        bench.admin(admin, &command(op::ASYNC_EVENT_REQUEST, cid));
    }
    // A namespace that changes otherwise stays in its group. Adding or removing one raises an event
    // of its own.
    bench.service.resize_namespace(bench.now, SUBSYSTEM, 1, 5).unwrap();
    bench.add_namespace(namespace(2));
    bench.remove_namespace(2);
    assert_eq!(bench.take_completions(), [(admin, NAMESPACE_EVENT)]);
}

#[test]
fn event_waits_for_request_unless_disabled() {
    let (mut bench, admin) = Bench::enabled();
    bench.ok(admin, &set_feature(0x0b, 0x100));
    bench.set_readiness(1, AWAY);
    assert_eq!(bench.take_completions(), []);
    for told in [&[(admin, NAMESPACE_EVENT)][..], &[][..]] {
        bench.request_event(admin, 9);
        assert_eq!(bench.take_completions(), told, "not of the ANA state");
    }
}

#[test]
fn change_before_event_choice_is_reported_at_once() {
    let (mut bench, admin) = Bench::enabled();
    bench.set_readiness(1, AWAY);
    assert_eq!(bench.groups(admin)[1].nsids, [1]);
    bench.set_readiness(1, Readiness::Ready);
    bench.listen(admin, EVENTS);
    // Otherwise Linux would hold its I/O back for ever.
    assert_eq!(bench.take_completions(), [(admin, ANA_EVENT)]);
    let (other, _) = bench.admin_queue(0);
    bench.groups(other);
    bench.listen(other, EVENTS);
    assert_eq!(bench.take_completions(), [], "nothing has changed");
}

#[test]
fn only_multipath_hosts_get_inaccessible_status() {
    let mut bench = Bench::new();
    let not_ready = Status::NAMESPACE_NOT_READY;
    let mut connect = |reads_before: bool, reads_after: bool| {
        let (admin, connected) = bench.admin_queue(0);
        assert_eq!(connected.shared.namespace_not_ready(), not_ready, "without ACRE");
        bench.set_acre(admin);
        if reads_before {
            bench.groups(admin);
        }
        bench.io_queue(1, connected.controller.0);
        // Linux enables the event without multipath, too.
        bench.listen(admin, EVENTS);
        if reads_after {
            bench.groups(admin);
        }
        (admin, connected)
    };
    let (admin, multipath) = connect(true, false);
    let (_, single) = connect(false, false);
    let (_, operator) = connect(false, true);
    let answer = |bench: &Bench, host: &Connected, seconds: u64| {
        let table = bench.service.namespaces(host.controller);
        host.shared.unavailable(table.get(1).unwrap(), Nanos(seconds * 1_000_000_000))
    };
    // A command finds its device gone before the log says so: retries without a delay would be over too soon.
    assert_eq!(multipath.shared.namespace_not_ready(), not_ready.with_retry_delay(1));
    assert_eq!(single.shared.namespace_not_ready(), not_ready.with_retry_delay(2));
    bench.set_readiness(1, AWAY);
    for (seconds, delay) in [(0, 2), (19, 2), (20, 3), (1000, 3)] {
        let inaccessible = Status::ANA_INACCESSIBLE.with_retry_delay(delay);
        assert_eq!(answer(&bench, &multipath, seconds), inaccessible);
        for host in [&single, &operator] {
            assert_eq!(answer(&bench, host, seconds), not_ready.with_retry_delay(delay));
        }
    }
    bench.ok(admin, &identify(1, 0));
    assert_ne!(bench.out[130..134], [0; 4], "CRDT2 and CRDT3 are times");
    // Another host, or another kernel, may use the controller after a reset.
    bench.set_cc(admin, ENABLE & !1);
    assert!(!multipath.shared.knows_ana.load(Ordering::Relaxed));
}
