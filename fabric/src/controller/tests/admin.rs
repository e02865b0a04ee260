//! Tests of single admin commands: features, log pages, Identify of namespaces, errors.

use units::Class;

use super::*;
use crate::nvme::identify::{IdentifyNamespace, zeroed};

#[test]
fn features_have_current_default_and_capabilities() {
    let mut bench = Bench::new();
    let (admin, _) = bench.admin_queue(5000);
    // Columns: identifier, value to set, default, capabilities.
    let table = [
        (0x02, 0x20, 0, 4),
        (0x04, 0x150, 343, 4),
        (0x05, 0x10, 0, 6),
        (0x0a, 1, 0, 4),
        (0x0b, 0x900, 0, 4),
        (0x0f, 7000, 0, 4),
    ];
    for (fid, value, default, capabilities) in table {
        bench.ok(admin, &set_feature(fid, value));
        assert_eq!(bench.ok(admin, &get_feature(fid, 0, 0)), u64::from(value), "{fid:#x}");
        assert_eq!(bench.ok(admin, &get_feature(fid, 1, 0)), default, "{fid:#x}");
        assert_eq!(bench.ok(admin, &get_feature(fid, 2, 0)), default, "{fid:#x}");
        assert_eq!(bench.ok(admin, &get_feature(fid, 3, 0)), capabilities, "{fid:#x}");
    }
    // Without weighted round robin the Arbitration feature shows the values that hold for all
    // hosts, and no host can change them.
    bench.service.set_arbitration(0x0302_0103);
    let (later, _) = bench.admin_queue(0);
    for (admin, select) in [(admin, 0), (admin, 1), (admin, 2), (later, 0)] {
        assert_eq!(bench.ok(admin, &get_feature(0x01, select, 0)), 0x0302_0103);
    }
    assert_eq!(bench.ok(admin, &get_feature(0x01, 3, 0)), 0, "not changeable");
    bench.ok(admin, &set_feature(0x01, 0x0302_0103));
    for (value, refused) in
        [(0x0302_0104, Status::FEATURE_NOT_CHANGEABLE), (0x0302_010b, Status::INVALID_FIELD)]
    {
        bench.fails(admin, &set_feature(0x01, value), refused);
    }
    assert_eq!(bench.ok(admin, &get_feature(0x01, 0, 0)), 0x0302_0103);
    bench.ok(admin, &set_feature(0x06, 1));
    assert_eq!(bench.ok(admin, &get_feature(0x06, 0, 0)), 1);
    assert_eq!(bench.ok(admin, &get_feature(0x06, 3, 0)), 0);
}

#[test]
fn weighted_round_robin_host_has_own_weights() {
    let (target, own) = (0x0201_0005, 0xff10_0003);
    let mut bench = Bench::with(ServiceConfig {
        weighted_round_robin: true,
        arbitration: target,
        ..ServiceConfig::default()
    });
    let enabled = |bench: &mut Bench, cc| {
        let (admin, connected) = Connect::admin(SUBSYSTEM).send(bench);
        bench.set_cc(admin, cc);
        (admin, connected.unwrap().shared)
    };
    let (admin, shared) = enabled(&mut bench, ENABLE | 0x800);
    let (plain, _) = enabled(&mut bench, ENABLE);
    let shown = |bench: &mut Bench, admin| {
        [0, 1, 2, 3].map(|select| bench.ok(admin, &get_feature(0x01, select, 0)))
    };
    let weights = |shared: &ControllerShared| {
        (shared.weights.weight(Class::High), shared.weights.weight(Class::Low))
    };
    let of = u64::from;
    assert_eq!(shown(&mut bench, admin), [of(target), of(target), of(target), 4]);
    bench.ok(admin, &set_feature(0x01, own));
    assert_eq!(shown(&mut bench, admin), [of(own), of(target), of(target), 4]);
    assert_eq!((weights(&shared), shared.weights.burst()), ((256, 1), Some(8)));
    // The host's weights are no other host's, whom they are refused without weighted round robin.
    assert_eq!(shown(&mut bench, plain), [of(target), of(target), of(target), 0]);
    bench.fails(plain, &set_feature(0x01, own), Status::FEATURE_NOT_CHANGEABLE);
    // Reserved bits and values to be saved change nothing.
    let saved = Sqe { cdw10: U32::new(0x8000_0001), ..set_feature(0x01, 0) };
    for (sqe, status) in [
        (set_feature(0x01, 0x0403_020b), Status::INVALID_FIELD),
        (saved, Status::FEATURE_NOT_SAVEABLE),
    ] {
        bench.fails(admin, &sqe, status);
    }
    // The operator's change is the default, and holds for hosts that have set nothing.
    let (third, unset) = enabled(&mut bench, ENABLE | 0x800);
    bench.service.set_arbitration(0x0400_0005);
    assert_eq!(shown(&mut bench, admin), [of(own), 0x0400_0005, 0x0400_0005, 4]);
    assert_eq!(shown(&mut bench, third), [0x0400_0005, 0x0400_0005, 0x0400_0005, 4]);
    assert_eq!((weights(&shared), weights(&unset)), ((256, 1), (5, 1)));
    // A reset brings the default back.
    bench.set_cc(admin, 0);
    assert_eq!(weights(&shared), (5, 1));
    bench.set_cc(admin, ENABLE | 0x800);
    assert_eq!(shown(&mut bench, admin), [0x0400_0005, 0x0400_0005, 0x0400_0005, 4]);
}

#[test]
fn impossible_features_are_refused() {
    let (mut bench, admin, connected) = Bench::connected();
    let saved = Sqe { cdw10: U32::new(0x8000_0001), ..set_feature(0x01, 0) };
    let queues = set_feature(0x07, 0);
    bench.ok(admin, &queues);
    bench.io_queue(1, connected.controller.0);
    let table = [
        (saved, Status::FEATURE_NOT_SAVEABLE),
        (set_feature(0x01, 0x08), Status::INVALID_FIELD),
        (set_feature(0x02, 1), Status::INVALID_FIELD),
        (set_feature(0x04, 1 << 16), Status::INVALID_FIELD),
        (set_feature(0x05, 1 << 16), Status::INVALID_FIELD),
        (set_feature(0x06, 0), Status::FEATURE_NOT_CHANGEABLE),
        (set_feature(0x06, 2), Status::INVALID_FIELD),
        (set_feature(0x07, 0xffff), Status::INVALID_FIELD),
        (queues, Status::COMMAND_SEQUENCE_ERROR),
        (set_feature(0x0a, 2), Status::INVALID_FIELD),
        (set_feature(0x0b, 1 << 31), Status::INVALID_FIELD),
        (set_feature(0x0c, 0), Status::INVALID_FIELD),
        (get_feature(0x01, 4, 0), Status::INVALID_FIELD),
        (get_feature(0x81, 0, 0), Status::INVALID_FIELD),
        (get_feature(0xc0, 0, 0), Status::INVALID_FIELD),
    ];
    for (sqe, status) in table {
        bench.fails(admin, &sqe, status);
    }
    let host = set_feature(0x81, 1);
    assert_eq!(bench.service.data_length(admin, &host).host_to_controller, 16);
    let reply = bench.admin_with(admin, &host, &[1; 16]);
    assert_eq!(code(reply), status_code(Status::COMMAND_SEQUENCE_ERROR));
    bench.ok(admin, &get_feature(0x81, 0, 1));
    assert_eq!(bench.out, [7; 16]);
}

#[test]
fn answer_fits_exact_room() {
    let (mut bench, admin) = Bench::enabled();
    for (sqe, bytes) in [
        (identify(1, 0), 4096),
        (get_feature(0x16, 0, 0), 512),
        (get_feature(0x81, 0, 1), 16),
        (log(2, 512, 0, false), 512),
        (get_feature(0x01, 0, 0), 0),
    ] {
        let with_room = |bytes| Sqe { sgl: SglDescriptor::transport(bytes), ..sqe };
        let exact = with_room(bytes);
        assert_eq!(bench.service.data_length(admin, &exact).controller_to_host, bytes, "{sqe:?}");
        bench.ok(admin, &exact);
        assert_eq!(bench.out.len(), bytes as usize, "{sqe:?}");
        if bytes > 0 {
            bench.fails(admin, &with_room(bytes - 1), Status::DATA_SGL_LENGTH_INVALID);
            assert!(bench.out.is_empty());
        }
    }
    bench.fails(admin, &set_feature(0x16, 0), Status::DATA_SGL_LENGTH_INVALID);
}

#[test]
fn log_pages_support_partial_reads() {
    let (mut bench, admin) = Bench::enabled();
    // nvme-cli computes the length of the ANA log from NANAGRPID and MNAN.
    let ana = 16 + 2 * 32 + 4 * 16_384;
    for (page, length) in
        [(0x00, 1024), (0x01, 4096), (0x02, 512), (0x03, 512), (0x05, 4096), (0x0c, ana)]
    {
        bench.ok(admin, &log(page, length, 0, false));
        let whole = bench.out.clone();
        let mut parts = Vec::new();
        for offset in (0..length).step_by(128) {
            let part = 128.min(length - offset);
            bench.ok(admin, &log(page, part, u64::from(offset), false));
            parts.extend_from_slice(&bench.out);
        }
        assert_eq!(whole, parts, "page {page:#x}");
        bench.ok(admin, &log(page, length, u64::from(length), false));
        assert!(bench.out.iter().all(|&b| b == 0));
        bench.fails(admin, &log(page, 4, u64::from(length) + 4, false), Status::INVALID_FIELD);
    }
    for (sqe, status) in [
        (log(0x02, 512, 2, false), Status::INVALID_FIELD),
        (log(0x02, (1 << 20) + 4, 0, false), Status::INVALID_FIELD),
        (log(0x02, 512, u64::MAX - 3, false), Status::INVALID_FIELD),
        (log(0x70, 1024, 0, false), Status::INVALID_LOG_PAGE),
        (log(0x07, 1024, 0, false), Status::INVALID_LOG_PAGE),
    ] {
        bench.fails(admin, &sqe, status);
    }
}

#[test]
fn failed_commands_are_in_the_error_log_newest_first() {
    let (mut bench, admin, connected) = Bench::connected();
    let io = bench.io_queue(3, connected.controller.0);
    for cid in 0..70 {
        let bad = Sqe { cid: U16::new(cid), ..identify(0xff, 0) };
        let Reply::Done { status, .. } = bench.admin(admin, &bad) else { panic!() };
        assert_eq!(status, Status::INVALID_FIELD.dnr().more());
    }
    let failed = FailedCommand {
        qid: 3,
        cid: 9,
        opcode: 2,
        nsid: 1,
        lba: 77,
        status: Status::LBA_OUT_OF_RANGE.dnr(),
    };
    bench.service.log_error(io, failed);
    bench.ok(admin, &log(0x01, 4096, 0, false));
    assert_eq!(bench.out[..8], 71u64.to_le_bytes());
    assert_eq!(bench.out[8..12], [3, 0, 9, 0]);
    assert_eq!(bench.out[12..14], (0x4080u16 << 1).to_le_bytes());
    assert_eq!(bench.out[16..24], 77u64.to_le_bytes());
    assert_eq!((bench.out[24], bench.out[31]), (1, 2));
    assert_eq!(bench.out[64..72], 70u64.to_le_bytes());
    assert_eq!(bench.out[4032..4040], 8u64.to_le_bytes(), "64 entries, the oldest dropped");
    bench.ok(admin, &log(0x02, 512, 0, false));
    assert_eq!(bench.out[176..184], 71u64.to_le_bytes());
}

#[test]
fn identify_of_missing_namespace_is_empty_or_error() {
    let (mut bench, admin) = Bench::enabled();
    for cns in [0x00, 0x05, 0x08, 0x11] {
        bench.ok(admin, &identify(cns, 2));
        assert_eq!(bench.out, [0; 4096], "inactive");
        for nsid in [0, 16_385, u32::MAX] {
            bench.fails(admin, &identify(cns, nsid), Status::INVALID_NAMESPACE);
        }
    }
    for cns in [0x02, 0x07, 0x10] {
        bench.ok(admin, &identify(cns, u32::MAX - 2));
        bench.fails(admin, &identify(cns, u32::MAX - 1), Status::INVALID_NAMESPACE);
    }
}

#[test]
fn identify_lists_controllers_and_command_sets() {
    let (mut bench, admin, a) = Bench::connected();
    let (_, b) = bench.admin_queue(0);
    bench.discovery(0, HOST);
    let (a, b) = (a.controller.0, b.controller.0);
    let of_controller = |cns: u8, cntid: u16| {
        let cdw10 = U32::new(u32::from(cns) | u32::from(cntid) << 16);
        Sqe { cdw10, ..identify(cns, 1) }
    };
    for (cns, from, list) in
        [(0x12, 0, &[2, a, b, 0][..]), (0x13, 0, &[2, a, b, 0][..]), (0x13, b, &[1, b, 0][..])]
    {
        bench.ok(admin, &of_controller(cns, from));
        let list: Vec<u8> = list.iter().flat_map(|id| id.to_le_bytes()).collect();
        assert_eq!(bench.out[..list.len()], list, "{cns:#x} from {from}");
    }
    // The own controller, by its identifier or as FFFFh, has the NVM command set.
    for cntid in [a, 0xffff] {
        bench.ok(admin, &of_controller(0x1c, cntid));
        assert_eq!(bench.out[..16], [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    bench.fails(admin, &of_controller(0x1c, b), Status::INVALID_FIELD);
    let zoned = Sqe { cdw11: U32::new(2 << 24), ..identify(0x05, 1) };
    bench.fails(admin, &zoned, Status::INVALID_FIELD);
    assert!(bench.out.is_empty());
}

#[test]
fn passthrough_device_shows_its_own_identity() {
    let (mut bench, admin) = Bench::enabled();
    let mut device = zeroed::<IdentifyNamespace>();
    device.nsze = 5.into();
    device.nsfeat = 0xff;
    device.flbas = 0x11;
    device.nlbaf = 3;
    device.mc = 3;
    device.dps = 1;
    device.rescap = 0xff;
    device.dlfeat = 9;
    device.noiob = 256.into();
    device.preferred = [7.into(); 5];
    device.eui64 = [9; 8];
    device.nguid = [9; 16];
    device.lbaf[1].performance = 2;
    device.lbaf[1].metadata = 8.into();
    let identify_bytes: Box<[u8; 4096]> = Box::new(zerocopy::transmute!(*device));
    let passthrough =
        |nguid| Namespace { nguid, identify: Some(identify_bytes.clone()), ..namespace(4) };
    bench.service.add_namespace(bench.now, SUBSYSTEM, passthrough([4; 16])).unwrap();
    bench.ok(admin, &identify(0, 2));
    let page = bench.out.clone();
    assert_eq!(page[..8], 1000u64.to_le_bytes(), "the size is the target's");
    assert_eq!(page[24..30], [0b1_0001, 0, 0, 0, 0, 0], "one format, no metadata");
    assert_eq!(page[30..34], [1, 0, 0, 9], "shared, no reservations, DLFEAT shows through");
    assert_eq!(page[46..48], 256u16.to_le_bytes());
    assert_eq!((page[64], page[72]), (7, 7));
    assert_eq!(page[104..120], [4; 16]);
    assert_eq!(page[120..128], [0; 8]);
    assert_eq!(page[128..136], [0, 0, 12, 2, 0, 0, 0, 0]);
    bench.remove_namespace(2);
    bench.service.add_namespace(bench.now, SUBSYSTEM, passthrough([0; 16])).unwrap();
    bench.ok(admin, &identify(3, 2));
    assert_eq!((bench.out[20], bench.out[24]), (2, 9), "the device's NGUID");
    assert_eq!((bench.out[40], bench.out[44]), (1, 9), "the device's EUI64");
}

#[test]
fn optional_commands_are_union_of_namespaces() {
    let (mut bench, admin) = Bench::enabled();
    let oncs = |bench: &mut Bench| {
        bench.ok(admin, &identify(1, 0));
        assert_eq!(bench.out[521], 0);
        bench.out[520]
    };
    for (readiness, all) in [(AWAY, 0x9d), (UNSEEN, 0x9d), (Readiness::Ready, 0x10)] {
        let features = NamespaceFeatures::empty();
        bench.replace_namespace(Namespace { nsid: 1, features, readiness, ..namespace(1) });
        assert_eq!(oncs(&mut bench), all, "a missing disk rules nothing out: {readiness:?}");
    }
    bench.add_namespace(Namespace { features: NamespaceFeatures::COMPARE, ..namespace(2) });
    assert_eq!(oncs(&mut bench), 0x11);
    for nsid in [1, 2] {
        bench.remove_namespace(nsid);
    }
    assert_eq!(oncs(&mut bench), 0x9d, "nothing is ruled out before there is any");
}

#[test]
fn commands_before_connect_or_enable_are_refused() {
    let mut bench = Bench::new();
    let (admin, _) = Connect::admin(SUBSYSTEM).accepted(&mut bench);
    for queue in [admin, ConnectionId(99)] {
        bench.fails(queue, &identify(1, 0), Status::COMMAND_SEQUENCE_ERROR);
    }
    bench.set_cc(admin, ENABLE);
    let fused = Sqe { flags: 0x41, ..identify(1, 0) };
    bench.fails(admin, &fused, Status::INVALID_FIELD);
    bench.fails(admin, &command(0x80, 1), Status::INVALID_OPCODE);
    for (offset, attrib) in [(0, 0), (0, 2), (8, 1), (0x20, 0), (0x14, 1), (0x1000, 0)] {
        bench.fails(admin, &property_get(offset, attrib), Status::INVALID_FIELD);
    }
    for (offset, value) in [(0, 0), (0x1c, 0), (0x20, 0x4e56_4d65)] {
        bench.fails(admin, &property_set(offset, value), Status::INVALID_FIELD);
    }
}

#[test]
fn unsupported_settings_prevent_enable() {
    let mut bench = Bench::new();
    let (admin, connected) = Connect::admin(SUBSYSTEM).accepted(&mut bench);
    let shared = connected.shared;
    for (what, value) in [
        ("page size", ENABLE | 0x80),
        ("arbitration", ENABLE | 0x800),
        ("shutdown notification", ENABLE | 0xc000),
        ("reserved bit", ENABLE | 2),
        ("no entry sizes", 0x61),
        ("IOSQES 7", ENABLE & !0x000f_0000 | 0x0007_0000),
        ("IOCQES 5", ENABLE & !0x00f0_0000 | 0x0050_0000),
        ("IOSQES 7, IOCQES 5", ENABLE & !0x00ff_0000 | 0x0057_0000),
        ("command set", 0x0046_0011),
    ] {
        bench.fails(admin, &property_set(0x14, value), Status::INVALID_FIELD);
        assert!(!shared.is_ready(), "{what}");
    }
    bench.set_cc(admin, ENABLE);
    for value in [ENABLE | 0x80, ENABLE | 0xc000, ENABLE | 2] {
        bench.fails(admin, &property_set(0x14, value), Status::INVALID_FIELD);
    }
    let mut bench =
        Bench::with(ServiceConfig { weighted_round_robin: true, ..ServiceConfig::default() });
    let (admin, connected) = Connect::admin(SUBSYSTEM).accepted(&mut bench);
    let shared = connected.shared;
    assert_ne!(bench.ok(admin, &property_get(0, 1)) & 1 << 17, 0);
    bench.set_cc(admin, ENABLE | 0x800);
    assert!(shared.wrr.load(core::sync::atomic::Ordering::Relaxed));
}
