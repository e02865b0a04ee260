//! Hosts that behave otherwise than Linux.

use std::io::Write;
use std::time::Duration;

use fabric::nvme::{SglDescriptor, Sqe, Status, opcode};
use hostile::{Raw, commands};
use zerocopy::little_endian::{U16, U32};

use sluiced::config::{Poll, QosConfig, TargetConfig};
use sluiced::engine::Engine;

use super::client::{NQN, connect_data, connect_raw};
use super::{end, memory, namespace, serve, target};

/// Makes Property Get or Set of CC.
fn property(fctype: u8, value: u32, cid: u16) -> Sqe {
    Sqe {
        nsid: U32::new(fctype.into()),
        cdw12: U32::new(value),
        cid: U16::new(cid),
        ..commands::enable()
    }
}

#[test]
fn a_host_that_reuses_its_event_requests_identifiers_shuts_down_in_order() {
    let (runtime, address) = target(vec![memory()], 1);
    let mut host = connect_raw(address, 0, 0xffff);
    let nothing = SglDescriptor::default();
    host.send(&property(opcode::fabrics::PROPERTY_SET, 0x46_0001, 9), nothing, &[]).unwrap();
    assert_eq!(host.receive().unwrap().status(), 0);
    for cid in 0..4 {
        let request = Sqe { opcode: opcode::admin::ASYNC_EVENT_REQUEST, ..property(0, 0, cid) };
        host.send(&Sqe { nsid: U32::new(0), ..request }, nothing, &[]).unwrap();
    }
    // The host has forgotten its requests, and uses their identifiers.
    host.send(&property(opcode::fabrics::PROPERTY_GET, 0, 2), nothing, &[]).unwrap();
    let response = host.receive().unwrap();
    assert_eq!((response.kind, response.status(), response.word(12)), (5, 0, 2));
    let cc = u32::from(response.word(0)) | u32::from(response.word(2)) << 16;
    assert_eq!(cc, 0x46_0001);
    // A normal shutdown leaves the other requests outstanding.
    host.send(&property(opcode::fabrics::PROPERTY_SET, cc | 1 << 14, 1), nothing, &[]).unwrap();
    let response = host.receive().unwrap();
    assert_eq!((response.word(12), response.status()), (1, 0));
    // A reset, with which the host may begin anew on the same queue, completes each of them once.
    host.send(&property(opcode::fabrics::PROPERTY_SET, cc & !1, 1), nothing, &[]).unwrap();
    let mut answers = Vec::new();
    for _ in 0..3 {
        let response = host.receive().unwrap();
        answers.push((response.word(12), response.status() & 0x7ff));
    }
    answers.sort_unstable();
    let gone = Status::ABORTED_SQ_DELETION.bits();
    assert_eq!(answers, [(0, gone), (1, 0), (3, gone)]);
    host.0.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(host.receive().is_err(), "nothing is completed twice");
    end(&runtime);
}

#[test]
fn event_requests_whose_identifiers_are_reused_take_no_room_in_the_queue() {
    let (runtime, address) = target(vec![memory()], 1);
    let mut host = connect_raw(address, 0, 0xffff);
    let nothing = SglDescriptor::default();
    host.send(&property(opcode::fabrics::PROPERTY_SET, 0x46_0001, 9), nothing, &[]).unwrap();
    assert_eq!(host.receive().unwrap().status(), 0);
    // The queue has 32 entries.
    for round in 0..100 {
        let request = Sqe { opcode: opcode::admin::ASYNC_EVENT_REQUEST, ..property(0, 0, 5) };
        host.send(&Sqe { nsid: U32::new(0), ..request }, nothing, &[]).unwrap();
        host.send(&property(opcode::fabrics::PROPERTY_GET, 0, 5), nothing, &[]).unwrap();
        let response = host.receive().unwrap();
        let seen = (response.kind, response.status(), response.word(12));
        assert_eq!(seen, (5, 0, 5), "round {round}");
    }
    end(&runtime);
}

#[test]
fn an_admin_queue_as_long_as_the_configuration_says_holds_data_of_129_commands() {
    const ENTRIES: u16 = 256;
    let settings = TargetConfig {
        cores: vec![0],
        poll: Poll::Never,
        io_memory: 2 << 20,
        admin_queue_depth: ENTRIES,
        ..TargetConfig::default()
    };
    let (runtime, address) = serve(settings, QosConfig::default(), vec![namespace(memory())]);
    let connect = |entries: u16| {
        let cdw11 = U32::new(u32::from(entries - 1) | 1 << 18);
        let command = Sqe { cdw11, ..commands::connect(0) };
        Raw::connect_with(address, &command, &connect_data(0xffff)).unwrap()
    };
    let invalid = connect(ENTRIES + 1).err().map(|status| status & 0x7ff);
    assert_eq!(invalid, Some(Status::CONNECT_INVALID_PARAMETERS.bits()));
    let (mut host, _) = connect(ENTRIES).unwrap();
    let nothing = SglDescriptor::default();
    host.send(&property(opcode::fabrics::PROPERTY_SET, 0x46_0001, 0), nothing, &[]).unwrap();
    host.receive().unwrap();
    // Host Behavior Support: 512 bytes, which the target asks for.
    for cid in 0..200 {
        let sqe = Sqe { nsid: U32::new(0), cdw10: U32::new(0x16), ..property(0, 0, cid) };
        let sqe = Sqe { opcode: opcode::admin::SET_FEATURES, cdw11: U32::new(0), ..sqe };
        host.send(&sqe, SglDescriptor::transport(512), &[]).unwrap();
    }
    let (mut asked, mut later) = (Vec::new(), 0);
    for _ in 0..200 {
        let reply = host.receive().unwrap();
        match reply.kind {
            9 => asked.push((reply.word(0), reply.word(2))),
            5 => {
                assert_eq!(reply.status(), Status::COMMAND_INTERRUPTED.bits());
                later += 1;
            }
            _ => panic!("{reply:?}"),
        }
    }
    // 128 for all queues of the address, and one for this queue.
    assert_eq!((asked.len(), later), (129, 71));
    // The host sends the data that it was asked for, and then there is room again.
    for (cid, tag) in asked {
        let mut data = vec![6, 4, 24, 24];
        data.extend(u32::to_le_bytes(24 + 512));
        data.extend([cid, tag].map(u16::to_le_bytes).concat());
        data.extend([0; 4]);
        data.extend(512u32.to_le_bytes());
        data.extend([0; 4]);
        data.extend([0; 512]);
        host.0.write_all(&data).unwrap();
        assert_eq!(host.receive().unwrap().status(), 0);
    }
    host.send(&property(opcode::fabrics::PROPERTY_GET, 0, 1), nothing, &[]).unwrap();
    assert_eq!(host.receive().unwrap().status(), 0);
    end(&runtime);
}

#[test]
fn a_host_without_a_name_is_served_where_any_host_is() {
    let (runtime, address) = target(vec![memory()], 1);
    let mut data = connect_data(0xffff);
    data[512..768].fill(0);
    let (admin, _) = Raw::connect_with(address, &commands::connect(0), &data).unwrap().unwrap();
    drop(admin);
    runtime.set_allow_any_host(NQN, false).unwrap();
    let refused = Raw::connect_with(address, &commands::connect(0), &data).unwrap().err();
    let refused = refused.map(|status| status & 0x7ff);
    assert_eq!(refused, Some(Status::CONNECT_INVALID_HOST.bits()));
    end(&runtime);
}
