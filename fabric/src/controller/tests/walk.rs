//! The commands that a Linux host sends from Connect to its first I/O, in its order.

use super::*;

#[test]
fn a_linux_host_connects_scans_and_disconnects() {
    let mut bench = Bench::new();
    let (admin, connected) = Connect::admin(SUBSYSTEM).kato(5000).accepted(&mut bench);
    let id = connected.controller.0;
    let cap = bench.ok(admin, &property_get(0, 1));
    assert_eq!(cap >> 48 & 0xf, 0, "MPSMIN: 4 KiB pages");
    assert_ne!(cap >> 37 & 0x40, 0, "CSS: CC.CSS may be 110b");
    for (cc, ready) in [(ENABLE & !1, 0), (ENABLE, 1)] {
        bench.set_cc(admin, cc);
        assert_eq!(bench.ok(admin, &property_get(0x14, 0)), u64::from(cc));
        assert_eq!(bench.csts(admin), ready);
    }
    assert_eq!(bench.ok(admin, &property_get(8, 0)), 0x2_0000, "VS");
    assert!(connected.shared.is_ready());
    bench.ok(admin, &identify(0x01, 0));
    for (page, length) in [(5, 4096), (2, 512), (0x0c, 16 + 2 * 32 + 4 * 16_384)] {
        bench.ok(admin, &log(page, length, 0, false));
    }
    bench.ok(admin, &identify(0x06, 0));
    assert_eq!(bench.service.data_length(admin, &set_feature(0x16, 0)).host_to_controller, 512);
    bench.set_acre(admin);
    assert!(connected.shared.acre.load(core::sync::atomic::Ordering::Relaxed));
    assert_eq!(bench.ok(admin, &set_feature(7, 1 | 1 << 16)), 1 | 1 << 16);
    let queues = [bench.io_queue(1, id), bench.io_queue(2, id)];
    bench.ok(admin, &set_feature(0x0b, 0x900));
    bench.request_event(admin, 31);
    // The scan of namespaces.
    bench.ok(admin, &identify(0x02, 0));
    assert_eq!(nsids(&bench.out), [1]);
    bench.ok(admin, &identify(0x03, 1));
    let identifier = |kind| [&[kind, 16, 0, 0][..], &[1; 16]].concat();
    assert_eq!(bench.out[..20], identifier(3), "UUID");
    assert_eq!(bench.out[20..40], identifier(2), "NGUID");
    assert_eq!(bench.out[40..46], [4, 1, 0, 0, 0, 0], "the command set, then the end");
    bench.ok(admin, &identify(0x08, 1));
    assert_eq!(bench.out[14] & 1, 1, "ready");
    bench.ok(admin, &identify(0x00, 1));
    assert_eq!((bench.out[26], bench.out[130]), (0, 12), "FLBAS, LBADS");
    bench.ok(admin, &identify(0x05, 1));
    assert!(bench.out.iter().all(|&b| b == 0));
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
            assert_eq!(b.service.remove_namespace(b.now, SUBSYSTEM, 2).unwrap().geometry.blocks, 5);
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
