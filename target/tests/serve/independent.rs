//! What hosts do that are not Linux.

use std::time::Duration;

use fabric::nvme::{SglDescriptor, Sqe, Status, opcode};
use zerocopy::little_endian::{U16, U32};

use super::client::enable_command;
use super::hostile::{Raw, status};
use super::{end, memory, target};

/// Property Get or Set of CC.
fn property(fctype: u8, value: u32, cid: u16) -> Sqe {
    Sqe {
        nsid: U32::new(fctype.into()),
        cdw12: U32::new(value),
        cid: U16::new(cid),
        ..enable_command()
    }
}

#[test]
fn a_host_that_reuses_its_event_requests_identifiers_shuts_down_in_order() {
    let (runtime, address) = target(vec![memory()], 1);
    let (mut host, _) = Raw::connect(address, 0, 0xffff);
    let nothing = SglDescriptor::default();
    host.send(&property(opcode::fabrics::PROPERTY_SET, 0x46_0001, 9), nothing, &[]);
    assert_eq!(status(&host.receive().unwrap().1), 0);
    for cid in 0..4 {
        let request = Sqe { opcode: opcode::admin::ASYNC_EVENT_REQUEST, ..property(0, 0, cid) };
        host.send(&Sqe { nsid: U32::new(0), ..request }, nothing, &[]);
    }
    // It has forgotten them, and uses their identifiers.
    host.send(&property(opcode::fabrics::PROPERTY_GET, 0, 2), nothing, &[]);
    let (kind, response) = host.receive().unwrap();
    assert_eq!((kind, status(&response), response[12]), (5, 0, 2));
    let cc = u32::from_le_bytes([response[0], response[1], response[2], response[3]]);
    assert_eq!(cc, 0x46_0001);
    // Normal shutdown: the requests that are left are completed, each once.
    host.send(&property(opcode::fabrics::PROPERTY_SET, cc | 1 << 14, 1), nothing, &[]);
    let mut answers = Vec::new();
    for _ in 0..3 {
        let (_, response) = host.receive().unwrap();
        answers.push((response[12], status(&response) & 0x7ff));
    }
    answers.sort_unstable();
    let gone = Status::ABORTED_SQ_DELETION.bits();
    assert_eq!(answers, [(0, gone), (1, 0), (3, gone)]);
    host.0.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(host.receive().is_err(), "nothing is completed twice");
    end(&runtime);
}
