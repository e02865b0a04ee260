//! Hosts that behave otherwise than Linux.

use std::io::Write;
use std::time::Duration;

use fabric::nvme::{SglDescriptor, Sqe, Status, opcode};
use hostile::{Raw, commands};
use sluice_config::{QosConfig, TargetConfig};
use zerocopy::little_endian::{U16, U32};

use sluiced::serve::engine::Engine;

use super::client::{NQN, connect_data, connect_raw, h2c_data};
use super::{memory, namespace, serve, settings, target};

/// Makes Property Get or Set of CC.
fn property(fctype: u8, value: u32, cid: u16) -> Sqe {
    Sqe {
        nsid: U32::new(fctype.into()),
        cdw12: U32::new(value),
        cid: U16::new(cid),
        ..commands::enable()
    }
}

fn event_request(cid: u16) -> Sqe {
    Sqe { opcode: opcode::admin::ASYNC_EVENT_REQUEST, cid: U16::new(cid), ..Sqe::default() }
}

/// Sends a command without data.
fn send(host: &mut Raw, sqe: &Sqe) {
    host.send(sqe, SglDescriptor::default(), &[]).unwrap();
}

/// Enables the controller of an admin queue.
fn enabled(mut host: Raw) -> Raw {
    send(&mut host, &property(opcode::fabrics::PROPERTY_SET, 0x46_0001, 9));
    assert_eq!(host.receive().unwrap().status(), 0);
    host
}

#[test]
fn a_host_that_reuses_its_event_requests_identifiers_shuts_down_in_order() {
    let (_runtime, address) = target(vec![memory()], 1);
    let mut host = enabled(connect_raw(address, 0, 0xffff));
    for cid in 0..4 {
        send(&mut host, &event_request(cid));
    }
    // The host has forgotten its requests, and uses their identifiers.
    send(&mut host, &property(opcode::fabrics::PROPERTY_GET, 0, 2));
    let response = host.receive().unwrap();
    assert_eq!((response.kind, response.status(), response.word(12)), (5, 0, 2));
    let cc = u32::from(response.word(0)) | u32::from(response.word(2)) << 16;
    assert_eq!(cc, 0x46_0001);
    // A normal shutdown leaves the other requests outstanding.
    send(&mut host, &property(opcode::fabrics::PROPERTY_SET, cc | 1 << 14, 1));
    let response = host.receive().unwrap();
    assert_eq!((response.word(12), response.status()), (1, 0));
    // A reset, with which the host may begin anew on the same queue, completes each of them once.
    send(&mut host, &property(opcode::fabrics::PROPERTY_SET, cc & !1, 1));
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
}

#[test]
fn event_requests_whose_identifiers_are_reused_take_no_room_in_the_queue() {
    let (_runtime, address) = target(vec![memory()], 1);
    let mut host = enabled(connect_raw(address, 0, 0xffff));
    // The queue has 32 entries.
    for round in 0..100 {
        send(&mut host, &event_request(5));
        send(&mut host, &property(opcode::fabrics::PROPERTY_GET, 0, 5));
        let response = host.receive().unwrap();
        let seen = (response.kind, response.status(), response.word(12));
        assert_eq!(seen, (5, 0, 5), "round {round}");
    }
}

#[test]
fn an_admin_queue_as_long_as_the_configuration_says_holds_data_of_129_commands() {
    const ENTRIES: u16 = 256;
    let settings = TargetConfig { admin_queue_depth: ENTRIES, ..settings() };
    let (_runtime, address) = serve(settings, QosConfig::default(), vec![namespace(memory())]);
    let connect = |entries: u16| {
        let cdw11 = U32::new(u32::from(entries - 1) | 1 << 18);
        let command = Sqe { cdw11, ..commands::connect(0) };
        Raw::connect_with(address, &command, &connect_data(0xffff)).unwrap()
    };
    let invalid = connect(ENTRIES + 1).err().map(|status| status & 0x7ff);
    assert_eq!(invalid, Some(Status::CONNECT_INVALID_PARAMETERS.bits()));
    let mut host = enabled(connect(ENTRIES).unwrap().0);
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
        host.0.write_all(&h2c_data(cid, tag, &[0; 512])).unwrap();
        assert_eq!(host.receive().unwrap().status(), 0);
    }
    send(&mut host, &property(opcode::fabrics::PROPERTY_GET, 0, 1));
    assert_eq!(host.receive().unwrap().status(), 0);
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
}
