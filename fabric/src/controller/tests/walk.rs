//! The commands that a Linux host sends from Connect to its first I/O, in its order.

use super::*;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn enable(bench: &mut Bench, admin: ConnectionId) {
    let cap = bench.ok(admin, &property_get(0, 1));
    assert_eq!(cap & 0xffff, 127, "MQES");
    assert_eq!(cap >> 48 & 0xf, 0, "MPSMIN: 4 KiB pages");
    assert_ne!(cap >> 37 & 0x40, 0, "CSS: CC.CSS may be 110b");
    assert_ne!(cap >> 59 & 1, 0, "CRMS");
    bench.set_cc(admin, ENABLE & !1);
    assert_eq!(bench.ok(admin, &property_get(0x14, 0)), u64::from(ENABLE & !1));
    assert!(bench.ok(admin, &property_get(0x68, 0)) > 0);
    assert_eq!(bench.csts(admin), 0);
    bench.set_cc(admin, ENABLE);
    assert_eq!(bench.csts(admin), 1);
    assert_eq!(bench.ok(admin, &property_get(8, 0)), 0x2_0000);
}

/// Checks all reasons for which drivers/nvme/host refuses a controller.
fn check_controller(bench: &Bench, id: u16) {
    let page = &bench.out;
    assert_eq!(page.len(), 4096);
    assert_eq!(u16_at(page, 78), id, "cntlid as in Connect");
    assert_eq!(page[111], 1, "cntrltype");
    assert!(u16_at(page, 320) > 0, "kas is mandatory over fabrics");
    assert!(u32_at(page, 1792) >= 4, "ioccsz");
    assert!(u32_at(page, 1796) >= 1, "iorcsz");
    assert_eq!(u16_at(page, 1800), 0, "icdoff");
    assert!(u16_at(page, 514) > 0, "maxcmd");
    assert_ne!(u32_at(page, 536) & 0b11, 0, "sgls");
    assert_eq!(page[77], 8, "mdts: 1 MiB");
    assert_eq!(&page[768..768 + SUBSYSTEM.len()], SUBSYSTEM.as_bytes());
    assert_eq!(&page[4..24], SUBSYSTEM.as_bytes(), "the serial number");
    let (groups, most) = (u32_at(page, 348), u32_at(page, 344));
    assert!(groups > 0 && groups <= most, "ANA groups");
    let size = 16 + 32 * groups + 4 * u32_at(page, 540);
    assert!(size <= 4096 << page[77], "the ANA log fits a transfer, or Linux does without");
    assert!(page[342] > 0, "anatt");
    assert_eq!(page[525] & 1, 1, "volatile write cache");
    assert_eq!(u16_at(page, 520), 0b1001_1101, "oncs");
}

fn scan(bench: &mut Bench, admin: ConnectionId) {
    bench.ok(admin, &identify(0x02, 0));
    assert_eq!(nsids(&bench.out), [1]);
    bench.ok(admin, &identify(0x03, 1));
    let mut uuid = vec![3, 16, 0, 0];
    uuid.extend([1; 16]);
    let mut nguid = vec![2, 16, 0, 0];
    nguid.extend([1; 16]);
    assert_eq!(bench.out[..20], uuid);
    assert_eq!(bench.out[20..40], nguid);
    assert_eq!(bench.out[40..46], [4, 1, 0, 0, 0, 0], "the command set, then the end");
    bench.ok(admin, &identify(0x08, 1));
    assert_eq!(bench.out[14] & 1, 1, "ready");
    assert_eq!((bench.out[1], u32_at(&bench.out, 4)), (1, 1), "shared, ANA group 1");
    bench.ok(admin, &identify(0x00, 1));
    assert_eq!(u32_at(&bench.out, 0), 1000, "nsze");
    assert_eq!(bench.out[26], 0, "flbas");
    assert_eq!(bench.out[130], 12, "lbads");
    assert_eq!(u32_at(&bench.out, 92), 1, "anagrpid");
    let mut nvm = identify(0x05, 1);
    nvm.cdw11 = U32::ZERO;
    bench.ok(admin, &nvm);
    assert!(bench.out.iter().all(|&b| b == 0));
}

#[test]
fn a_linux_host_connects_scans_and_disconnects() {
    let mut bench = Bench::new();
    let (admin, connected) = Connect::admin(SUBSYSTEM).kato(5000).accepted(&mut bench);
    let id = connected.controller.0;
    enable(&mut bench, admin);
    assert!(connected.shared.is_ready());
    bench.ok(admin, &identify(0x01, 0));
    check_controller(&bench, id);
    bench.ok(admin, &log(0x05, 4096, 0, false));
    assert_eq!(u32_at(&bench.out, 4 * 0x06) & 1, 1, "identify is supported");
    assert_eq!(u32_at(&bench.out, 1024 + 4), 3, "write changes blocks, and Linux sees no more");
    bench.ok(admin, &log(0x02, 512, 0, false));
    assert_eq!(bench.out[32], 2, "units of 512000 bytes, rounded up");
    bench.ok(admin, &identify(0x06, 0));
    assert_eq!(bench.out[1], 8, "wzsl: 1 MiB");
    bench.ok(admin, &log(0x0c, 16 + 2 * 32 + 4 * 16_384, 0, false));
    assert_eq!(u16_at(&bench.out, 8), 2, "groups");
    assert_eq!((u32_at(&bench.out, 20), bench.out[32], u32_at(&bench.out, 48)), (1, 1, 1));
    let behavior = set_feature(0x16, 0);
    assert_eq!(bench.service.data_length(admin, &behavior).host_to_controller, 512);
    bench.set_acre(admin);
    assert!(connected.shared.acre.load(core::sync::atomic::Ordering::Relaxed));
    assert_eq!(bench.ok(admin, &set_feature(7, 1 | 1 << 16)), 1 | 1 << 16);
    let queues = [bench.io_queue(1, id), bench.io_queue(2, id)];
    bench.ok(admin, &set_feature(0x0b, 0x900));
    bench.request_event(admin, 31);
    scan(&mut bench, admin);
    bench.ok(admin, &command(op::KEEP_ALIVE, 1));
    // nvme disconnect: the I/O connections go, then CC.SHN, then the admin connection.
    for queue in queues {
        bench.disconnect(queue);
    }
    bench.set_cc(admin, SHUT_DOWN);
    assert_eq!(bench.csts(admin) >> 2 & 0b11, 0b10, "shutdown complete");
    assert!(!connected.shared.is_ready());
    bench.disconnect(admin);
    assert_eq!(bench.service.controllers().count(), 0);
    assert!(bench.service.connections.is_empty());
}

#[test]
fn a_live_add_resize_and_remove_reach_the_host() {
    let (mut bench, admin, connected) = Bench::connected();
    bench.ok(admin, &set_feature(0x0b, 0x100));
    let told = complete(admin, 31, 0x04_0002, Status::SUCCESS);
    let table = Action::TableChanged { controller: connected.controller };
    let version = || connected.shared.table_version.load(core::sync::atomic::Ordering::Acquire);
    type Change = fn(&mut Bench);
    let changes: [(u32, Change); 7] = [
        (2, |b| assert_eq!(b.service.add_namespace(b.now, SUBSYSTEM, namespace(2)), Ok(2))),
        (2, |b| b.service.resize_namespace(b.now, SUBSYSTEM, 2, 5).unwrap()),
        (2, |b| {
            let removed = b.service.remove_namespace(b.now, SUBSYSTEM, 2).unwrap();
            assert_eq!(removed.geometry.blocks, 5);
        }),
        (1, |b| b.set_readiness(1, AWAY)),
        (1, |b| b.set_readiness(1, Readiness::Ready)),
        (1, |b| b.set_readiness(1, UNSEEN)),
        (1, |b| b.set_readiness(1, Readiness::Ready)),
    ];
    for (nsid, change) in changes {
        let before = version();
        bench.request_event(admin, 31);
        change(&mut bench);
        assert_eq!(bench.actions(), [told, table]);
        assert_eq!(version(), before + 1);
        for changed in [&[nsid][..], &[][..]] {
            bench.ok(admin, &log(0x04, 4096, 0, false));
            assert_eq!(nsids(&bench.out), changed, "reading the list clears it");
        }
    }
    assert_eq!(bench.service.namespaces(connected.controller).len(), 1);
}
