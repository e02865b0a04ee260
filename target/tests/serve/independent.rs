//! Hosts that behave otherwise than Linux.

use std::io::Write;
use std::time::Duration;

use fabric::host::commands::{
    CC_ENABLE, event_request, honour_retry_delays, property_get, property_set,
};
use fabric::nvme::property::offset;
use fabric::nvme::{SglDescriptor, Sqe, Status};
use hostile::commands::numbered;
use hostile::{Raw, commands};
use sluice_config::{QosConfig, TargetConfig};
use sluiced::serve::engine::Engine;
use zerocopy::little_endian::U16;

use super::client::{NQN, connect_data, connect_raw, h2c_data};
use super::{memory, serve, settings, target};

/// Sends a command without data.
fn send(host: &mut Raw, sqe: Sqe, cid: u16) {
    host.send(&Sqe { cid: U16::new(cid), ..sqe }, SglDescriptor::default(), &[]).unwrap();
}

/// Sends Property Get of CC, and returns the value.
fn get_cc(host: &mut Raw, cid: u16) -> u32 {
    send(host, property_get(offset::CC, false), cid);
    let response = host.receive().unwrap();
    assert_eq!((response.kind, response.status(), response.word(12)), (5, 0, cid));
    u32::from(response.word(0)) | u32::from(response.word(2)) << 16
}

/// Enables the controller of an admin queue.
fn enabled(mut host: Raw) -> Raw {
    send(&mut host, commands::enable(), 9);
    assert_eq!(host.receive().unwrap().status(), 0);
    host
}

#[test]
fn a_host_that_reuses_its_event_requests_identifiers_shuts_down_in_order() {
    let (_runtime, address) = target(vec![memory()], 1);
    let mut host = enabled(connect_raw(address, 0, 0xffff));
    for cid in 0..4 {
        send(&mut host, event_request(), cid);
    }
    // The host has forgotten its requests, and uses their identifiers.
    let cc = get_cc(&mut host, 2);
    assert_eq!(cc, CC_ENABLE);
    // A normal shutdown leaves the other requests outstanding.
    send(&mut host, property_set(offset::CC, cc | 1 << 14), 1);
    let response = host.receive().unwrap();
    assert_eq!((response.word(12), response.status()), (1, 0));
    // A reset, with which the host may begin anew on the same queue, completes each of them once.
    send(&mut host, property_set(offset::CC, cc & !1), 1);
    let mut answers = [(); 3].map(|()| {
        let response = host.receive().unwrap();
        (response.word(12), response.status() & 0x7ff)
    });
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
    for _ in 0..100 {
        send(&mut host, event_request(), 5);
        get_cc(&mut host, 5);
    }
}

#[test]
fn an_admin_queue_as_long_as_the_configuration_says_holds_data_of_129_commands() {
    const ENTRIES: u16 = 256;
    let settings = TargetConfig { admin_queue_depth: ENTRIES, ..settings() };
    let (_runtime, address) = serve(settings, QosConfig::default(), vec![memory()]);
    let connect = |entries: u16| {
        let command = fabric::host::commands::connect(0, entries - 1, 30_000, None);
        Raw::connect_with(address, &command, &connect_data(0xffff)).unwrap()
    };
    let invalid = connect(ENTRIES + 1).err().map(|status| status & 0x7ff);
    assert_eq!(invalid, Some(Status::CONNECT_INVALID_PARAMETERS.bits()));
    let mut host = enabled(connect(ENTRIES).unwrap().0);
    // 512 bytes each, which the target asks for.
    let (set, data) = honour_retry_delays();
    for cid in 0..200 {
        host.send(&numbered(set, cid, 0), SglDescriptor::transport(512), &[]).unwrap();
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
        host.0.write_all(&h2c_data(cid, tag, &data)).unwrap();
        assert_eq!(host.receive().unwrap().status(), 0);
    }
    get_cc(&mut host, 1);
}

#[test]
fn a_host_without_a_name_is_served_where_any_host_is() {
    let (runtime, address) = target(vec![memory()], 1);
    let mut data = connect_data(0xffff);
    data[512..768].fill(0);
    let connect = || Raw::connect_with(address, &commands::connect(0), &data).unwrap();
    drop(connect().unwrap());
    runtime.set_allow_any_host(NQN, false).unwrap();
    let refused = connect().err().map(|status| status & 0x7ff);
    assert_eq!(refused, Some(Status::CONNECT_INVALID_HOST.bits()));
}
