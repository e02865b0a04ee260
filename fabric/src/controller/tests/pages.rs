//! Tests of data structures field by field, at the offsets of the specifications (NVMe base 2.0 and
//! NVM command set 1.0), since hosts act on each field.

use core::time::Duration;

use super::*;
use crate::controller::{PreferredSizes, UsedBlocks};

/// Reads a field of a structure, which is little-endian.
fn field(page: &[u8], bytes: core::ops::RangeInclusive<usize>) -> u64 {
    page[bytes].iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// Sends a command, and checks fields of its data: first and last byte, value, name.
pub(super) fn shows(
    bench: &mut Bench,
    admin: ConnectionId,
    sqe: &Sqe,
    fields: &[(usize, usize, u64, &str)],
) {
    bench.ok(admin, sqe);
    for &(first, last, value, name) in fields {
        assert_eq!(field(&bench.out, first..=last), value, "{name}, bytes {last}:{first}");
    }
}

#[test]
fn identify_controller_reports_capabilities() {
    let config = ServiceConfig {
        max_transfer: 1 << 18,
        in_capsule_data: 8192,
        queue_entries: 100,
        max_namespaces: 77,
        arbitration: 0x0102_0303,
        keep_alive_granularity: Duration::from_millis(1500),
        retry_delays: [3, 5, 9],
        ..ServiceConfig::default()
    };
    let mut bench = Bench::with(config);
    let (admin, connected) = bench.admin_queue(0);
    let fields = [
        (72, 72, 3, "RAB: 2^3 commands"),
        (76, 76, 0b1011, "CMIC: ports, controllers, ANA"),
        (77, 77, 6, "MDTS: 2^6 pages"),
        (78, 79, u64::from(connected.controller.0), "CNTLID"),
        (92, 95, 1 << 8 | 1 << 11, "OAES: namespaces, ANA"),
        (96, 99, 1 | 1 << 6, "CTRATT: host identifiers of 128 bits, keep-alive by traffic"),
        (128, 129, 3, "CRDT1"),
        (130, 131, 5, "CRDT2"),
        (132, 133, 9, "CRDT3"),
        (258, 258, 3, "ACL"),
        (259, 259, 3, "AERL"),
        (260, 260, 0b11, "FRMW"),
        (262, 262, 63, "ELPE"),
        (266, 267, 343, "WCTEMP"),
        (268, 269, 353, "CCTEMP"),
        (320, 321, 15, "KAS: 1.5 s"),
        (342, 342, 10, "ANATT"),
        (343, 343, 0b000_0101, "ANACAP: optimized, inaccessible; namespaces change groups"),
        (344, 347, 2, "ANAGRPMAX"),
        (348, 351, 2, "NANAGRPID"),
        (512, 512, 0x66, "SQES"),
        (513, 513, 0x44, "CQES"),
        (514, 515, 100, "MAXCMD"),
        (516, 519, 77, "NN"),
        (525, 525, 0b101, "VWC"),
        (526, 527, 0, "AWUN: one block"),
        (528, 529, 0, "AWUPF: one block"),
        (536, 539, 1 | 1 << 20 | 1 << 21, "SGLS: supported, offsets, transport"),
        (540, 543, 77, "MNAN"),
        (1792, 1795, (64 + 8192) / 16, "IOCCSZ"),
        (1796, 1799, 1, "IORCSZ"),
        (1800, 1802, 0, "ICDOFF, FCATT: dynamic controllers"),
        (1803, 1803, 1, "MSDBD"),
        (1804, 1805, 1, "OFCS: Disconnect"),
        (2048, 2049, 2500, "MP of power state 0"),
    ];
    shows(&mut bench, admin, &identify(1, 0), &fields);
    let mut bench = Bench::with(ServiceConfig { arbitration: 7, ..ServiceConfig::default() });
    let (admin, _) = bench.admin_queue(0);
    shows(&mut bench, admin, &identify(1, 0), &[(72, 72, 6, "RAB of no limit")]);
    let without_data = [
        (0, 0, 8, "VSL: 1 MiB"),
        (1, 1, 8, "WZSL: 1 MiB"),
        (3, 3, 0, "DMRL"),
        (4, 7, 1 << 14, "DMRSL"),
    ];
    shows(&mut bench, admin, &identify(6, 0), &without_data);
}

#[test]
fn a_namespace_tells_its_features() {
    let (mut bench, admin) = Bench::enabled();
    let flags = [
        NamespaceFeatures::VOLATILE_CACHE,
        NamespaceFeatures::READ_ONLY,
        NamespaceFeatures::ZEROES_AFTER_DEALLOCATE,
        NamespaceFeatures::WRITE_ZEROES_DEALLOCATES,
    ];
    for set in 0..16_u64 {
        let [cache, protected, zeroes, write_zeroes] = [0, 1, 2, 3].map(|flag| set >> flag & 1);
        let with = flags.into_iter().enumerate().filter(|(flag, _)| set >> flag & 1 == 1);
        let features = with.map(|(_, feature)| feature).collect();
        bench.replace_namespace(Namespace { nsid: 1, features, ..namespace(1) });
        let of_command_set = [
            (0, 7, 1000, "NSZE"),
            (8, 15, 1000, "NCAP"),
            (16, 23, 1000, "NUSE"),
            (30, 30, 1, "NMIC"),
            (33, 33, zeroes | write_zeroes << 3, "DLFEAT"),
            (92, 95, 1, "ANAGRPID"),
            (99, 99, protected, "NSATTR"),
        ];
        shows(&mut bench, admin, &identify(0, 1), &of_command_set);
        let independent = [
            (0, 0, (1 - cache) << 5, "NSFEAT: no cache"),
            (1, 1, 1, "NMIC"),
            (4, 7, 1, "ANAGRPID"),
            (8, 8, protected, "NSATTR"),
            (14, 14, 1, "NSTAT"),
        ];
        shows(&mut bench, admin, &identify(8, 1), &independent);
    }
}

#[test]
fn namespace_reports_preferred_sizes_and_used_blocks() {
    let (mut bench, admin) = Bench::enabled();
    let used = UsedBlocks::default();
    let sizes = |write, deallocate, optimal| Some(PreferredSizes { write, deallocate, optimal });
    // NSFEAT, then NPWG and NPWA, NPDG and NPDA, NOWS: 0's based.
    for (preferred, is_thin, nsfeat, fields) in [
        (None, false, 0, [0, 0, 0]),
        (None, true, 1, [0, 0, 0]),
        (sizes(8, 16, Some(128)), false, 0b1_0000, [7, 15, 127]),
        (sizes(8, 8, None), true, 0b1_0001, [7, 7, 7]),
        (sizes(65536, 65536, Some(65536)), false, 0b1_0000, [65535; 3]),
    ] {
        for (in_use, nuse) in [(0, 0), (7, 7), (5000, 1000)] {
            used.set(in_use);
            let used = is_thin.then(|| used.clone());
            bench.replace_namespace(Namespace { nsid: 1, preferred, used, ..namespace(1) });
            let [write, deallocate, optimal] = fields;
            let fields = [
                (16, 23, if is_thin { nuse } else { 1000 }, "NUSE"),
                (24, 24, nsfeat, "NSFEAT"),
                (64, 65, write, "NPWG"),
                (66, 67, write, "NPWA"),
                (68, 69, deallocate, "NPDG"),
                (70, 71, deallocate, "NPDA"),
                (72, 73, optimal, "NOWS"),
            ];
            shows(&mut bench, admin, &identify(0, 1), &fields);
        }
    }
}

#[test]
fn write_protection_is_reported() {
    let (mut bench, admin) = Bench::enabled();
    for (device, target) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut page = Box::new([0; 4096]);
        // NSFEAT has thin provisioning, optimal sizes, and bits that the target does not pass on.
        (page[24], page[99]) = (0xff, u8::from(device));
        let features = if target { NamespaceFeatures::READ_ONLY } else { Default::default() };
        let protected = Namespace { nsid: 1, features, identify: Some(page), ..namespace(1) };
        bench.replace_namespace(protected);
        let fields =
            [(24, 24, 0b1_0001, "NSFEAT"), (99, 99, u64::from(device || target), "NSATTR")];
        shows(&mut bench, admin, &identify(0, 1), &fields);
    }
    let plain = Namespace { nsid: 1, identify: Some(Box::new([0; 4096])), ..namespace(1) };
    bench.replace_namespace(plain);
    shows(&mut bench, admin, &identify(0, 1), &[(24, 24, 0, "NSFEAT of a device without any")]);
}

#[test]
fn the_health_log_tells_amounts_in_their_units() {
    let (mut bench, admin) = Bench::enabled();
    bench.smart = SmartCounters {
        bytes_read: 512_001,
        bytes_written: 512_000,
        reads: 5,
        writes: 6,
        busy: Duration::from_secs(125),
        uptime: Duration::from_secs(7300),
        media_errors: 9,
    };
    let of_namespace = |nsid| Sqe { nsid: U32::new(nsid), ..log(2, 512, 0, false) };
    let fields = [
        (3, 3, 100, "Available Spare"),
        (4, 4, 10, "its threshold"),
        (32, 47, 2, "Data Units Read: thousands of 512 bytes, rounded up"),
        (48, 63, 1, "Data Units Written"),
        (64, 79, 5, "Host Read Commands"),
        (80, 95, 6, "Host Write Commands"),
        (96, 111, 2, "Controller Busy Time in minutes"),
        (112, 127, 1, "Power Cycles"),
        (128, 143, 2, "Power On Hours"),
        (160, 175, 9, "Media and Data Integrity Errors"),
    ];
    for nsid in [0, u32::MAX] {
        shows(&mut bench, admin, &of_namespace(nsid), &fields);
    }
    // There is none of one namespace.
    bench.fails(admin, &of_namespace(1), Status::INVALID_FIELD);
}

#[test]
fn the_error_log_tells_where_an_error_was() {
    let (mut bench, admin) = Bench::enabled();
    bench.admin(admin, &Sqe { cid: U16::new(0x1234), ..identify(0xff, 3) });
    // Property Get names no property. A Fabrics command has its type where others have a namespace.
    bench.admin(admin, &property_get(0x1000, 0));
    bench.ok(admin, &log(1, 4096, 0, false));
    for (entry, cid, nsid, opcode) in [(0, 1, 0, FABRICS), (64, 0x1234, 3, op::IDENTIFY)] {
        let page = &bench.out[entry..entry + 64];
        assert_eq!(field(page, 8..=9), 0, "Submission Queue ID");
        assert_eq!(field(page, 10..=11), cid, "Command ID");
        assert_eq!(field(page, 14..=15), 0xffff, "Parameter Error Location: not known");
        assert_eq!(field(page, 24..=27), nsid, "Namespace");
        assert_eq!(page[31], opcode);
    }
}

#[test]
fn ana_log_reports_changes_and_is_announced() {
    let (mut bench, admin) = Bench::enabled();
    let discovery = bench.discovery(0, HOST);
    bench.ok(admin, &set_feature(0x0b, 1 << 11));
    bench.ok(admin, &log(0x0c, 84, 0, false));
    let changes = field(&bench.out, 0..=7) + 1;
    for (queue, cid) in [(admin, 5), (admin, 6), (discovery, 7)] {
        bench.request_event(queue, cid);
    }
    bench.service.begin_shutdown(bench.now);
    // The event is a notice: Asymmetric Namespace Access Change, log page 0Ch.
    let told = complete(admin, 5, 2 | 3 << 8 | 0x0c << 16, Status::SUCCESS);
    assert_eq!(bench.actions(), [told], "once, and no discovery controller");
    let fields = [
        (0, 7, changes, "Change Count"),
        (8, 9, 2, "groups"),
        (16, 19, 1, "ANAGRPID"),
        (20, 23, 1, "namespaces"),
        (24, 31, changes, "Change Count of the group"),
        (32, 32, 3, "ANA State"),
        (48, 51, 1, "NSID"),
        (52, 55, 2, "ANAGRPID"),
        (56, 59, 0, "namespaces"),
        (60, 67, changes, "Change Count of the group"),
        (68, 68, 3, "ANA State"),
    ];
    shows(&mut bench, admin, &log(0x0c, 84, 0, false), &fields);
}

#[test]
fn log_read_is_bounded_by_longest_transfer() {
    let mut bench = Bench::with(ServiceConfig { max_transfer: 4096, ..ServiceConfig::default() });
    let (admin, _) = bench.admin_queue(0);
    bench.ok(admin, &log(1, 4096, 0, false));
    bench.fails(admin, &log(1, 4100, 0, false), Status::INVALID_FIELD);
}

#[test]
fn support_logs_report_scopes_and_effects() {
    let (mut bench, admin) = Bench::enabled();
    let (of_controller, of_namespace) = (1 | 1 << 21, 1 | 1 << 20);
    let features = [(4, 7, of_controller, "Arbitration"), (20, 23, of_namespace, "Error Recovery")];
    shows(&mut bench, admin, &log(0x12, 1024, 0, false), &features);
    let commands = [
        (24, 27, of_controller, "Identify"),
        (1024, 1027, 1, "Flush"),
        (1028, 1031, 3, "Write"),
        (1032, 1035, 1, "Read"),
        (1056, 1059, 3, "Write Zeroes"),
        (1060, 1063, 3, "Dataset Management"),
    ];
    shows(&mut bench, admin, &log(5, 4096, 0, false), &commands);
    // The log of management commands has 1,024 bytes.
    bench.ok(admin, &log(0x13, 1024, 1020, false));
    assert_eq!(bench.out.len(), 1024);
    bench.fails(admin, &log(0x13, 4, 1028, false), Status::INVALID_FIELD);
}

#[test]
fn feature_defaults_equal_values_after_reset() {
    let mut bench = Bench::with(ServiceConfig { max_queues: 9, ..ServiceConfig::default() });
    let (admin, _) = bench.admin_queue(0);
    let behavior = Sqe { sgl: SglDescriptor::transport(512), ..set_feature(0x16, 0) };
    bench.set_acre(admin);
    bench.ok(admin, &set_feature(0x07, 0x0002_0004));
    for (select, granted, acre) in [(0, 2, 1), (1, 8, 0), (2, 8, 0)] {
        let queues = bench.ok(admin, &get_feature(0x07, select, 0));
        assert_eq!(queues, granted | granted << 16, "Number of Queues, selection {select}");
        assert_eq!(bench.ok(admin, &get_feature(0x06, select, 0)), 1, "the cache is on");
        bench.ok(admin, &get_feature(0x16, select, 0));
        assert_eq!((bench.out.len(), bench.out[0]), (512, acre), "selection {select}");
        bench.ok(admin, &get_feature(0x81, select, 1));
        assert_eq!(bench.out, [7; 16], "the host's identifier, selection {select}");
    }
    // ACRE may be turned off, and other values are refused.
    assert_eq!(bench.admin_with(admin, &behavior, &[0; 512]), Reply::OK);
    bench.ok(admin, &get_feature(0x16, 0, 0));
    assert_eq!(bench.out[0], 0);
    let wrong = bench.admin_with(admin, &behavior, &[2; 512]);
    assert_eq!(code(wrong), status_code(Status::INVALID_FIELD));
}

#[test]
fn granted_queues_are_minimum_of_both_requests() {
    let mut bench = Bench::with(ServiceConfig { max_queues: 9, ..ServiceConfig::default() });
    let (admin, _) = bench.admin_queue(0);
    for (asked, granted) in [(0x0004_0002, 2), (0x0002_0004, 2), (0x0000_0009, 0), (0x00ff_00ff, 8)]
    {
        let result = bench.ok(admin, &set_feature(0x07, asked));
        assert_eq!(result, granted | granted << 16, "{asked:#x}");
    }
}

#[test]
fn both_thresholds_of_temperature_can_be_set() {
    let (mut bench, admin) = Bench::enabled();
    let under = 1 << 20;
    bench.ok(admin, &set_feature(0x04, 300 | under));
    bench.ok(admin, &set_feature(0x04, 350));
    assert_eq!(bench.ok(admin, &get_feature(0x04, 0, under)), 300);
    assert_eq!(bench.ok(admin, &get_feature(0x04, 0, 0)), 350);
    bench.ok(admin, &set_feature(0x04, 310 | under | 0xf << 16));
    assert_eq!(bench.ok(admin, &get_feature(0x04, 0, under)), 310, "of all sensors");
    // There is no other sensor.
    bench.fails(admin, &get_feature(0x04, 0, 1 << 16), Status::INVALID_FIELD);
    assert_eq!(bench.ok(admin, &get_feature(0x04, 1, under)), 0, "by the default");
}

#[test]
fn admin_fabrics_commands_are_refused_on_io_queues() {
    let (mut bench, _, connected) = Bench::connected();
    let io = bench.io_queue(1, connected.controller.0);
    for (fctype, record_format, status) in [
        (fabrics::PROPERTY_GET, 0, Status::INVALID_FIELD),
        (fabrics::PROPERTY_SET, 0, Status::INVALID_FIELD),
        (fabrics::CONNECT, 0, Status::COMMAND_SEQUENCE_ERROR),
        (0x33, 0, Status::INVALID_OPCODE),
        (fabrics::DISCONNECT, 1, Status::CONNECT_INCOMPATIBLE_FORMAT),
        (fabrics::DISCONNECT, 0, Status::SUCCESS),
    ] {
        let sqe = Sqe { cdw10: U32::new(record_format), ..fabrics_command(fctype) };
        let reply = bench.io_fabrics(io, &sqe, &[]);
        assert_eq!(code(reply), status_code(status), "{fctype:#x} {record_format}");
    }
}

/// Returns the values of a setting with which there can be a service.
fn accepted<T: Copy>(values: &[T], set: impl Fn(&mut ServiceConfig, T)) -> Vec<T> {
    let is_accepted = |value: &T| {
        let mut config = ServiceConfig::default();
        set(&mut config, *value);
        Service::new(config).is_ok()
    };
    values.iter().copied().filter(is_accepted).collect()
}

#[test]
fn limits_fit_wire_formats() {
    assert_eq!(accepted(&[2048, 4096, 12_288], |c, bytes| c.max_transfer = bytes), [4096]);
    assert_eq!(accepted(&[0, 8, 16], |c, bytes| c.in_capsule_data = bytes), [0, 16]);
    assert_eq!(accepted(&[1, 2], |c, entries| c.queue_entries = entries), [2]);
    let entries = accepted(&[31, 32, 4096, 4097], |c, entries| c.admin_queue_entries = entries);
    assert_eq!(entries, [32, 4096]);
    assert_eq!(accepted(&[0, 1], |c, queues| c.max_queues = queues), [1]);
    let times = [0, 100, 150, 6_553_500, 6_553_600].map(Duration::from_millis);
    let times = accepted(&times, |c, time| c.keep_alive_granularity = time);
    assert_eq!(times, [100, 6_553_500].map(Duration::from_millis));
}

#[test]
fn host_may_enable_silent_warnings() {
    let (mut bench, admin) = Bench::enabled();
    let discovery = bench.discovery(0, HOST);
    let wrong = status_code(Status::INVALID_FIELD);
    for (queue, events, told) in [
        (admin, 0xff, 0),
        (admin, 1 << 8 | 1 << 11 | 0xff, 0),
        (admin, 1 << 31, wrong),
        (admin, 1 << 9, wrong),
        (discovery, 1 << 31, 0),
        (discovery, 0x01, wrong),
        (discovery, 1 << 8, wrong),
    ] {
        assert_eq!(code(bench.admin(queue, &set_feature(0x0b, events))), told, "{events:#x}");
    }
}

#[test]
fn reasons_have_words() {
    assert!(CloseReason::KeepAliveExpired.text().contains("keep alive"));
    assert!(CloseReason::Disconnected.text().contains("deleted by the host"));
    assert!(Refusal::QueueInUse.text().contains("connected already"));
    assert!(Refusal::NoHostId.text().contains("HOSTID"));
}
