//! Tests of discovery: entries for each host, the generation counter, events.

use super::*;
use crate::fabrics::{DiscoveryEntry, DiscoveryHeader};
use zerocopy::FromBytes;

/// Returns the page as read in parts of `part` bytes: the header and the entries.
pub(super) fn read(
    bench: &mut Bench,
    admin: ConnectionId,
    part: u32,
) -> (u64, Vec<DiscoveryEntry>) {
    let mut page = Vec::new();
    let mut total = 1024;
    while page.len() < total {
        let offset = page.len() as u64;
        let rest = u32::try_from(total - page.len()).unwrap();
        bench.ok(admin, &log(0x70, part.min(rest), offset, true));
        page.extend_from_slice(&bench.out);
        if page.len() >= 24 && total == 1024 {
            let entries = u64::from_le_bytes(page[8..16].try_into().unwrap());
            total += 1024 * usize::try_from(entries).unwrap();
        }
    }
    let header = DiscoveryHeader::read_from_bytes(&page[..1024]).unwrap();
    assert_eq!(header.tdlpl.get() as usize, total);
    let entries = page[1024..].chunks(1024).map(|e| DiscoveryEntry::read_from_bytes(e).unwrap());
    (header.genctr.get(), entries.collect())
}

pub(super) fn text(field: &[u8]) -> &str {
    let end = field.iter().position(|&b| b == 0).unwrap();
    std::str::from_utf8(&field[..end]).unwrap()
}

fn nqns(entries: &[DiscoveryEntry]) -> Vec<&str> {
    entries.iter().filter(|e| e.subtype == 2).map(|e| text(&e.subnqn)).collect()
}

#[test]
fn each_host_is_shown_what_it_may_use_whatever_the_size_of_its_reads() {
    let mut bench = Bench::new();
    let known = bench.discovery(0, HOST);
    let stranger = bench.discovery(0, STRANGER);
    let (_, whole) = read(&mut bench, known, 1 << 20);
    assert_eq!(nqns(&whole), [SUBSYSTEM, OTHER]);
    for part in [4, 20, 1000, 1024, 1028, 4096] {
        let (_, parts) = read(&mut bench, known, part);
        let bytes = |e: &[DiscoveryEntry]| zerocopy::IntoBytes::as_bytes(e).to_vec();
        assert!(bytes(&whole) == bytes(&parts), "parts of {part}");
    }
    let entry = &whole[1];
    assert_eq!(entry.portid.get(), 1, "the listener's number");
    assert_eq!((entry.trtype, entry.adrfam, entry.treq & 4), (3, 1, 4));
    assert_eq!((text(&entry.traddr), text(&entry.trsvcid)), ("192.0.2.1", "4420"));
    assert_eq!((entry.cntlid.get(), entry.asqsz.get()), (0xffff, 128));
    assert_eq!((whole[0].subtype, text(&whole[0].subnqn)), (3, DISCOVERY_NQN));
    let (_, other) = read(&mut bench, stranger, 4096);
    assert_eq!(nqns(&other), [OTHER]);
    let beyond = bench.admin(known, &log(0x70, 4, 1024 * 5, true));
    assert_eq!(code(beyond), status_code(Status::INVALID_FIELD));
}

/// Returns the addresses that a host is shown of a listener's number.
fn addresses(bench: &mut Bench, admin: ConnectionId, port: u16) -> Vec<String> {
    let (_, entries) = read(bench, admin, 4096);
    let of = entries[1..].iter().filter(|entry| entry.portid.get() == port);
    of.map(|entry| format!("{} {}", text(&entry.traddr), text(&entry.trsvcid))).collect()
}

#[test]
fn hosts_see_the_machines_addresses_and_are_told_of_those_that_come_and_go() {
    let mut bench = Bench::new();
    let any =
        ListenerSpec { address: "0.0.0.0:4421".parse().unwrap(), ..listener(ListenerId(3), false) };
    bench.service.add_listener(bench.now, any).unwrap();
    let [remote, here] = ["10.0.0.1:8009", "127.0.0.1:8009"].map(|reached| {
        let admin = bench.discovery(60_000, STRANGER);
        bench.service.local_address(admin, reached.parse().unwrap());
        bench.ok(admin, &set_feature(0x0b, 1 << 31));
        admin
    });
    assert_eq!(addresses(&mut bench, remote, 3), ["10.0.0.1 4421"]);
    assert_eq!(addresses(&mut bench, here, 3), ["127.0.0.1 4421"]);
    type Row<'a> = (&'a [&'a str], &'a [&'a str], &'a [&'a str], &'a [ConnectionId]);
    let one = &["10.0.0.1", "127.0.0.1"][..];
    let two = &["127.0.0.1", "10.0.0.2", "::1", "10.0.0.1"][..];
    let rows: [Row<'_>; 5] = [
        (one, &["10.0.0.1"], &["127.0.0.1", "10.0.0.1"], &[here]),
        (two, &["10.0.0.1", "10.0.0.2"], &["127.0.0.1", "10.0.0.1", "10.0.0.2"], &[remote, here]),
        (
            &["10.0.0.2", "127.0.0.1", "10.0.0.1", "127.0.0.7", "::1"],
            &["10.0.0.1", "10.0.0.2"],
            &["127.0.0.1", "10.0.0.1", "10.0.0.2", "127.0.0.7"],
            &[here],
        ),
        (one, &["10.0.0.1"], &["127.0.0.1", "10.0.0.1"], &[remote, here]),
        (one, &["10.0.0.1"], &["127.0.0.1", "10.0.0.1"], &[]),
    ];
    for (machine, shown_remote, shown_here, told) in rows {
        for admin in [remote, here] {
            bench.admin(admin, &command(op::ASYNC_EVENT_REQUEST, 7));
        }
        bench.actions();
        let before = bench.service.generation();
        let of = |ip: &&str| MachineAddress { address: ip.parse().unwrap(), interface: 0 };
        bench.service.set_addresses(machine.iter().map(of).collect());
        assert_eq!(bench.service.generation() > before, !told.is_empty(), "{machine:?}");
        let completed: Vec<ConnectionId> = bench
            .actions()
            .iter()
            .map(|action| match action {
                Action::Complete { connection, cid: 7, result: 0x70_f002, .. } => *connection,
                other => panic!("{machine:?}: {other:?}"),
            })
            .collect();
        assert_eq!(completed, told, "{machine:?}");
        for (admin, shown) in [(remote, shown_remote), (here, shown_here)] {
            let shown: Vec<String> = shown.iter().map(|ip| format!("{ip} 4421")).collect();
            assert_eq!(addresses(&mut bench, admin, 3), shown, "{machine:?}");
            assert_eq!(addresses(&mut bench, admin, 1), ["192.0.2.1 4420"], "it names its own");
            bench.ok(admin, &log(0x70, 1024, 0, false));
        }
    }
}

#[test]
fn changes_move_the_generation_and_are_told_to_hosts_concerned() {
    let mut bench = Bench::new();
    let known = bench.discovery(60_000, HOST);
    let stranger = bench.discovery(60_000, STRANGER);
    type Change = fn(&mut Service, Nanos);
    let both: &[&str] = &[HOST, STRANGER];
    let table: [(&str, Change, &[&str]); 7] = [
        ("listener", |s, t| s.add_listener(t, listener(ListenerId(5), false)).unwrap(), both),
        ("gone", |s, t| drop(s.remove_listener(t, ListenerId(5)).unwrap()), both),
        ("private", |s, t| s.add_subsystem(t, subsystem("nqn.p", false)).unwrap(), &[HOST]),
        ("host", |s, t| s.add_host(t, "nqn.p", STRANGER).unwrap(), &[STRANGER]),
        ("no host", |s, t| s.remove_host(t, "nqn.p", STRANGER).unwrap(), &[STRANGER]),
        ("open", |s, t| s.set_allow_any_host(t, "nqn.p", true).unwrap(), &[STRANGER]),
        ("removed", |s, t| drop(s.remove_subsystem(t, "nqn.p").unwrap()), both),
    ];
    for admin in [known, stranger] {
        bench.ok(admin, &set_feature(0x0b, 1 << 31));
    }
    for (what, change, told) in table {
        for admin in [known, stranger] {
            bench.admin(admin, &command(op::ASYNC_EVENT_REQUEST, 7));
        }
        bench.actions();
        let (before, _) = read(&mut bench, known, 4096);
        change(&mut bench.service, bench.now);
        let (after, _) = read(&mut bench, known, 4096);
        assert!(after > before, "{what}");
        let completed: Vec<&str> = bench
            .actions()
            .iter()
            .map(|action| match action {
                Action::Complete { connection, cid: 7, result: 0x70_f002, .. } => {
                    if *connection == known { HOST } else { STRANGER }
                }
                other => panic!("{what}: {other:?}"),
            })
            .collect();
        assert_eq!(completed, told, "{what}");
        for admin in [known, stranger] {
            bench.ok(admin, &log(0x70, 1024, 0, false));
        }
    }
}

#[test]
fn a_discovery_controller_has_nothing_of_an_io_controller() {
    let mut bench = Bench::new();
    let admin = bench.discovery(0, HOST);
    bench.ok(admin, &identify(1, 0));
    assert_eq!(bench.out[111], 2);
    assert_eq!(&bench.out[768..768 + DISCOVERY_NQN.len()], DISCOVERY_NQN.as_bytes());
    assert_eq!(bench.out[92..96], (1u32 << 31).to_le_bytes());
    for sqe in [
        identify(0, 1),
        identify(2, 0),
        set_feature(7, 0),
        set_feature(0x0b, 0x100),
        log(2, 512, 0, false),
        command(op::ABORT, 1),
    ] {
        assert_ne!(code(bench.admin(admin, &sqe)), 0, "{sqe:?}");
    }
}

#[test]
fn a_listener_serves_and_shows_the_subsystems_of_its_list_alone() {
    let mut bench = Bench::new();
    let some = ListenerSpec {
        address: "192.0.2.1:4421".parse().unwrap(),
        subsystems: Some(vec![OTHER.to_owned()]),
        ..listener(ListenerId(7), false)
    };
    bench.service.add_listener(bench.now, some).unwrap();
    for (nqn, served) in [(OTHER, true), (SUBSYSTEM, false)] {
        let connect = Connect { listener: ListenerId(7), ..Connect::new(nqn, 0, 0xffff) };
        let refusal = connect.send(&mut bench).1.err().map(|rejected| rejected.reason);
        assert_eq!(refusal, (!served).then_some(Refusal::NotServedHere), "{nqn}");
    }
    let admin = bench.discovery(0, HOST);
    let (_, entries) = read(&mut bench, admin, 8192);
    let at = |port: u16| entries[1..].iter().filter(move |e| e.portid.get() == port);
    assert_eq!(at(7).map(|e| text(&e.subnqn)).collect::<Vec<_>>(), [OTHER]);
    assert_eq!(at(1).count(), 2);
}

#[test]
fn a_record_tells_its_listener_and_the_subsystem_itself_comes_first() {
    let mut bench = Bench::new();
    let v6 = ListenerSpec {
        transport: TransportType::Rdma,
        address: "[2001:db8::1]:4422".parse().unwrap(),
        ..listener(ListenerId(7), false)
    };
    bench.service.add_listener(bench.now, v6).unwrap();
    let admin = bench.discovery(0, HOST);
    let (_, entries) = read(&mut bench, admin, 4096);
    // The record of the discovery subsystem says: the same information everywhere, connections may
    // last.
    assert_eq!(entries[0].eflags.get(), 0b11, "EFLAGS");
    assert!(entries[1..].iter().all(|entry| entry.eflags.get() == 0));
    let of = |port: u16| entries[1..].iter().find(|e| e.portid.get() == port).unwrap();
    assert_eq!((of(7).trtype, of(7).adrfam), (1, 2));
    assert_eq!((text(&of(7).traddr), text(&of(7).trsvcid)), ("2001:db8::1", "4422"));
}

#[test]
fn a_host_may_ask_for_the_listener_alone_that_it_has_reached() {
    let mut bench = Bench::new();
    bench.service.add_listener(bench.now, listener(ListenerId(7), false)).unwrap();
    let admin = bench.discovery(0, HOST);
    for (local, records) in [(false, 5), (true, 3)] {
        let mut sqe = log(0x70, 1024, 0, true);
        // Bit 1 of LSP (14:8) asks for Port Local Entries Only.
        sqe.cdw10 = U32::new(sqe.cdw10.get() | u32::from(local) << 9);
        bench.ok(admin, &sqe);
        let count = u64::from_le_bytes(bench.out[8..16].try_into().unwrap());
        assert_eq!(count, records, "local: {local}");
    }
}

#[test]
fn the_page_ends_behind_its_last_record() {
    let mut bench = Bench::new();
    let admin = bench.discovery(0, HOST);
    let (_, entries) = read(&mut bench, admin, 4096);
    let end = 1024 * (entries.len() as u64 + 1);
    bench.ok(admin, &log(0x70, 4, end, true));
    assert_eq!(bench.out, [0; 4]);
    let beyond = bench.admin(admin, &log(0x70, 4, end + 4, true));
    assert_eq!(code(beyond), status_code(Status::INVALID_FIELD));
    bench.ok(admin, &log(0x70, 2048, end - 1024, true));
    assert!(bench.out[1024..].iter().all(|&byte| byte == 0));
}
