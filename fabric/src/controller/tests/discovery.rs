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
fn hosts_see_allowed_subsystems_at_any_read_size() {
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
    let end = 1024 * (whole.len() as u64 + 1);
    bench.ok(known, &log(0x70, 2048, end - 1024, true));
    assert!(bench.out[1024..].iter().all(|&byte| byte == 0));
    bench.ok(known, &log(0x70, 4, end, true));
    assert_eq!(bench.out, [0; 4]);
    bench.fails(known, &log(0x70, 4, end + 4, true), Status::INVALID_FIELD);
}

/// Removes all actions, which notify hosts of changes. Returns their admin queues.
fn told_of_changes(bench: &mut Bench) -> Vec<ConnectionId> {
    let told = bench.actions().into_iter().map(|action| match action {
        Action::Complete { connection, cid: 7, result: DISCOVERY_CHANGED, .. } => connection,
        other => panic!("{other:?}"),
    });
    told.collect()
}

/// Returns the addresses that a host is shown of a listener's number.
fn addresses(bench: &mut Bench, admin: ConnectionId, port: u16) -> Vec<String> {
    let (_, entries) = read(bench, admin, 4096);
    let of = entries[1..].iter().filter(|entry| entry.portid.get() == port);
    of.map(|entry| format!("{} {}", text(&entry.traddr), text(&entry.trsvcid))).collect()
}

#[test]
fn hosts_are_notified_of_address_changes() {
    let mut bench = Bench::new();
    let any =
        ListenerSpec { address: "0.0.0.0:4421".parse().unwrap(), ..listener(ListenerId(3), false) };
    bench.service.add_listener(bench.now, any).unwrap();
    let [remote, here] = ["10.0.0.1:8009", "127.0.0.1:8009"].map(|reached| {
        let admin = bench.discovery(60_000, STRANGER);
        bench.service.local_address(admin, reached.parse().unwrap());
        bench.ok(admin, &set_feature(0x0b, DISCOVERY_EVENTS));
        admin
    });
    assert_eq!(addresses(&mut bench, remote, 3), ["10.0.0.1 4421"]);
    assert_eq!(addresses(&mut bench, here, 3), ["127.0.0.1 4421"]);
    let one = &["10.0.0.1", "127.0.0.1"][..];
    let two = &["127.0.0.1", "10.0.0.2", "::1", "10.0.0.1"][..];
    let three = &["10.0.0.2", "127.0.0.1", "10.0.0.1", "127.0.0.7", "::1"][..];
    // The machine's addresses, the addresses that a host on it sees, and the notified hosts.
    let rows: [(&[&str], &[&str], &[ConnectionId]); 5] = [
        (one, &["127.0.0.1", "10.0.0.1"], &[here]),
        (two, &["127.0.0.1", "10.0.0.1", "10.0.0.2"], &[remote, here]),
        (three, &["127.0.0.1", "10.0.0.1", "10.0.0.2", "127.0.0.7"], &[here]),
        (one, &["127.0.0.1", "10.0.0.1"], &[remote, here]),
        (one, &["127.0.0.1", "10.0.0.1"], &[]),
    ];
    for (machine, shown_here, told) in rows {
        for admin in [remote, here] {
            bench.admin(admin, &command(op::ASYNC_EVENT_REQUEST, 7));
        }
        bench.actions();
        let before = bench.service.generation();
        let of = |ip: &&str| MachineAddress {
            address: ip.parse().unwrap(),
            interface: 0,
            has_rdma: true,
        };
        bench.service.set_addresses(machine.iter().map(of).collect());
        assert_eq!(bench.service.generation() > before, !told.is_empty(), "{machine:?}");
        assert_eq!(told_of_changes(&mut bench), told, "{machine:?}");
        for admin in [remote, here] {
            let is_shown = |ip: &&&str| admin == here || !ip.starts_with("127.");
            let shown = shown_here.iter().filter(is_shown).map(|ip| format!("{ip} 4421"));
            let shown: Vec<String> = shown.collect();
            assert_eq!(addresses(&mut bench, admin, 3), shown, "{machine:?}");
            assert_eq!(addresses(&mut bench, admin, 1), ["192.0.2.1 4420"], "it names its own");
            bench.ok(admin, &log(0x70, 1024, 0, false));
        }
    }
}

#[test]
fn changes_increment_generation_and_notify_hosts() {
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
        bench.ok(admin, &set_feature(0x0b, DISCOVERY_EVENTS));
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
        let host = |admin| if admin == known { HOST } else { STRANGER };
        let completed: Vec<&str> = told_of_changes(&mut bench).into_iter().map(host).collect();
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
    assert_eq!(&bench.out[4..13], b"discovery", "SN");
    assert_eq!(&bench.out[24..44], b"Sluicegate Discovery", "MN");
    assert_eq!(u32_at(&bench.out, 92), 1 << 31, "OAES");
    assert_eq!(bench.out[514..516], [128, 0], "MAXCMD: entries of its admin queue");
    for sqe in [identify(0, 1), identify(2, 0), set_feature(7, 0), log(2, 512, 0, false)] {
        assert_ne!(code(bench.admin(admin, &sqe)), 0, "{sqe:?}");
    }
}

#[test]
fn listener_serves_only_listed_subsystems() {
    let mut bench = Bench::new();
    let some = ListenerSpec {
        address: "192.0.2.1:4421".parse().unwrap(),
        subsystems: Some(vec![OTHER.to_owned()]),
        ..listener(ListenerId(7), false)
    };
    bench.service.add_listener(bench.now, some).unwrap();
    for (nqn, served) in [(OTHER, true), (SUBSYSTEM, false)] {
        let connect = Connect { listener: ListenerId(7), ..Connect::admin(nqn) };
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
fn record_describes_listener_and_discovery_is_first() {
    let mut bench = Bench::new();
    let v6 = ListenerSpec {
        transport: TransportType::Rdma,
        address: "[2001:db8::1]:4422".parse().unwrap(),
        ..listener(ListenerId(7), false)
    };
    bench.service.add_listener(bench.now, v6).unwrap();
    for asked in [DISCOVERY_LISTENER, ListenerId(7)] {
        let connect = Connect { listener: asked, ..Connect::admin(DISCOVERY_NQN) };
        let (admin, _) = connect.enabled(&mut bench);
        let (_, entries) = read(&mut bench, admin, 4096);
        // The record of the discovery subsystem says: the same information everywhere, connections
        // may last.
        assert_eq!(entries[0].eflags.get(), 0b11, "EFLAGS");
        assert!(entries[1..].iter().all(|entry| entry.eflags.get() == 0));
        let of = |port| entries[1..].iter().filter(move |entry| entry.portid.get() == port);
        assert_eq!((of(1).count(), of(7).count()), (2, 2), "two subsystems over each transport");
        // TSAS of RDMA: the queue pair's type (1, reliable connected), the provider (1, none named) and
        // the connection manager (1, RDMA_IP_CM).
        assert!(of(1).all(|tcp| (tcp.trtype, &tcp.tsas[..3]) == (3, &[0; 3][..])));
        assert!(of(7).all(|rdma| (rdma.trtype, &rdma.tsas[..3]) == (1, &[1; 3][..])));
        let rdma = of(7).next().unwrap();
        assert_eq!(rdma.adrfam, 2, "IPv6");
        assert_eq!((text(&rdma.traddr), text(&rdma.trsvcid)), ("2001:db8::1", "4422"));
    }
}

#[test]
fn host_may_request_only_reached_listener() {
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
