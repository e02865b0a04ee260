//! Tests of the requirements on every controller (docs/reference/conformance.md): NVM Express base 2.2,
//! figures 28, 31 and 32, and the NVM command set 1.1.

use super::*;
use crate::nvme::Status;

/// Returns an admin queue of either kind of controller.
fn queues(bench: &mut Bench) -> [(&'static str, ConnectionId); 2] {
    let (io, _) = bench.admin_queue(0);
    [("I/O", io), ("discovery", bench.discovery(0, HOST))]
}

fn entry(page: &[u8], index: u8) -> u32 {
    u32_at(page, usize::from(index) * 4)
}

fn succeeds(bench: &mut Bench, admin: ConnectionId, sqe: &Sqe) -> bool {
    !matches!(bench.admin(admin, sqe), Reply::Done { status, .. } if !status.is_success())
}

#[test]
fn mandatory_log_pages_exist_and_are_listed() {
    let mut bench = Bench::new();
    let [(_, io), (_, discovery)] = queues(&mut bench);
    for (admin, mandatory) in [
        (io, &[0x00, 0x01, 0x02, 0x03, 0x05, 0x12][..]),
        (discovery, &[0x00, 0x05, 0x12, 0x70][..]),
    ] {
        bench.ok(admin, &log(0, 1024, 0, true));
        let list = bench.out.clone();
        for page in 0..=u8::MAX {
            let there = succeeds(&mut bench, admin, &log(page, 512, 0, true));
            assert_eq!(entry(&list, page) & 1 == 1, there, "{page:#x}");
            assert!(there || !mandatory.contains(&page), "{page:#x} is mandatory");
        }
    }
}

#[test]
fn mandatory_features_exist_and_are_listed() {
    let mut bench = Bench::new();
    let [(_, io), (_, discovery)] = queues(&mut bench);
    let of_io = [0x01, 0x02, 0x04, 0x05, 0x06, 0x07, 0x0a, 0x16, 0x81];
    for (admin, mandatory, prohibited) in [
        (io, &[0x01, 0x02, 0x04, 0x05, 0x07, 0x0a, 0x0b, 0x0f, 0x16][..], &[0x08, 0x09][..]),
        (discovery, &[0x0b, 0x0f][..], &of_io[..]),
    ] {
        bench.ok(admin, &log(0x12, 1024, 0, true));
        let list = bench.out.clone();
        for feature in 0..=u8::MAX {
            // EXHID selects the Host Identifier.
            for select in 0..=3 {
                let get = get_feature(feature, select, 1);
                let get = if feature == 4 { get_feature(4, select, 0) } else { get };
                let there = succeeds(&mut bench, admin, &get);
                assert_eq!(entry(&list, feature) & 1 == 1, there, "{feature:#x} {select}");
                assert!(there || !mandatory.contains(&feature), "{feature:#x} is mandatory");
                assert!(!there || !prohibited.contains(&feature), "{feature:#x} is prohibited");
            }
            let scopes = (entry(&list, feature) >> 20).count_ones();
            assert_eq!(scopes, entry(&list, feature) & 1, "{feature:#x} has one scope");
        }
    }
}

#[test]
fn mandatory_commands_exist_and_are_listed() {
    check_commands(&mut Bench::new());
}

#[test]
fn command_list_has_get_region_with_regions() {
    let mut bench = Bench::new();
    let _regions = bench.regions();
    check_commands(&mut bench);
    let [(_, io), (_, discovery)] = queues(&mut bench);
    for (admin, listed) in [(io, 1 | 1 << 21), (discovery, 0)] {
        bench.ok(admin, &log(5, 4096, 0, true));
        assert_eq!(entry(&bench.out, op::GET_REGION), listed, "supported, of the controller");
        bench.ok(admin, &identify(1, 0));
        assert_eq!(bench.out[264], 0, "AVSCC: CDW10 and CDW11 tell no length of data");
    }
}

/// Compares Commands Supported and Effects with what both kinds of controllers do.
fn check_commands(bench: &mut Bench) {
    let [(_, io), (_, discovery)] = queues(bench);
    let absent = Reply::failed(Status::INVALID_OPCODE.dnr().more());
    for (admin, mandatory) in [
        (io, &[0x02, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x18][..]),
        (discovery, &[0x02, 0x06, 0x09, 0x0a, 0x0c, 0x18][..]),
    ] {
        bench.ok(admin, &log(5, 4096, 0, true));
        let list = bench.out.clone();
        for opcode in (0..=u8::MAX).filter(|opcode| *opcode != FABRICS) {
            let there = bench.admin(admin, &command(opcode, 200)) != absent;
            assert_eq!(entry(&list, opcode) & 1 == 1, there, "{opcode:#x}");
            assert!(there || !mandatory.contains(&opcode), "{opcode:#x} is mandatory");
        }
        // I/O controllers alone have Flush, Write and Read.
        assert_eq!([0, 1, 2].map(|opcode| entry(&list[1024..], opcode) & 1 == 1), [admin == io; 3]);
    }
}

#[test]
fn mandatory_data_structures_are_there() {
    let (mut bench, admin) = Bench::enabled();
    for cns in [0x00, 0x01, 0x02, 0x03, 0x05, 0x06, 0x07, 0x08, 0x1c] {
        let mut sqe = identify(cns, u32::from(!matches!(cns, 0x02 | 0x07)));
        if cns == 0x1c {
            sqe.cdw10 = U32::new(0xffff_001c);
        }
        assert!(succeeds(&mut bench, admin, &sqe), "{cns:#x}");
    }
}

#[test]
fn identify_is_true_for_both_kinds() {
    let mut bench = Bench::new();
    for (kind, admin) in queues(&mut bench) {
        bench.ok(admin, &identify(1, 0));
        let page = bench.out.clone();
        // No vendor is claimed in VID, SSVID and IEEE OUI.
        assert_eq!((&page[..4], &page[73..76]), (&[0; 4][..], &[0; 3][..]), "{kind}");
        let version = bench.ok(admin, &property_get(8, 0));
        assert_eq!(page[80..84], version.to_le_bytes()[..4], "VER is VS: {kind}");
        let (cntrltype, dctype) = if kind == "I/O" { (1, 0) } else { (2, 1) };
        assert_eq!((page[111], page[1806]), (cntrltype, dctype), "CNTRLTYPE, DCTYPE: {kind}");
        assert_eq!(page[261], 0b10_0110, "LPA: {kind}");
        assert_ne!(page[320..322], [0, 0], "KAS: {kind}");
        let nqn = if kind == "I/O" { SUBSYSTEM } else { DISCOVERY_NQN };
        assert_eq!(&page[768..768 + nqn.len()], nqn.as_bytes(), "SUBNQN: {kind}");
    }
}
