//! The admin queue: the data of commands by each way of sending it, and the service's answers.

use fabric::controller::SmartCounters;
use fabric::host::commands;
use fabric::nvme::{Sqe, Status, opcode};
use fabric::queue::HostTransport as _;
use fabric::tcp::HostParams;
use zerocopy::little_endian::U32;

use super::rig::{DRIVE, MEMORY, MS, NQN, Plan, Rig, kind, read, write};
use crate::memory::admin_data::OWING_MAX;
use crate::testing::SERIAL;

/// Security Send, which no controller here carries out.
fn unknown() -> Sqe {
    Sqe { opcode: 0x81, ..Sqe::default() }
}

/// Returns whether the controller knows that its host supports retry delays.
fn knows(rig: &mut Rig) -> bool {
    // Get Features, Host Behavior Support.
    let get = Sqe { opcode: opcode::admin::GET_FEATURES, ..commands::set_feature(0x16, 0) };
    let cid = rig.submit(0, get, None, 512);
    assert_eq!(rig.answer(0, cid), Some(Status::SUCCESS));
    rig.data(0, cid)[0] == 1
}

#[test]
fn data_of_an_admin_command_comes_in_its_capsule_or_is_asked_for() {
    for in_capsule in [8192, 0] {
        let mut rig = Rig::new(&Plan::default());
        rig.peers[0].host.set_in_capsule_data(in_capsule);
        assert!(!knows(&mut rig));
        let (sqe, data) = commands::honour_retry_delays();
        for _ in 0..200 {
            let (status, _) = rig.call(0, sqe, Some(data.clone()), 0);
            assert!(status.is_success(), "{status}");
        }
        assert!(knows(&mut rig));
        assert_eq!(rig.states(), []);
    }
}

/// Sends a command of the admin queue in pieces of so many bytes. Returns its status.
fn call_in_pieces(rig: &mut Rig, sqe: Sqe, data: Vec<u8>, bytes: usize) -> Status {
    let cid = rig.queue(0, sqe, Some(data), 0);
    for piece in rig.bytes_of(0).chunks(bytes) {
        assert_eq!(rig.answer(0, cid), None);
        rig.peers[0].up().extend(piece);
        rig.run();
    }
    rig.answer(0, cid).expect("an answer")
}

#[test]
fn data_of_an_admin_command_may_come_piece_by_piece() {
    let mut rig = Rig::new(&Plan::default());
    let (sqe, data) = commands::honour_retry_delays();
    assert_eq!(call_in_pieces(&mut rig, sqe, data, 100), Status::SUCCESS);
    assert!(knows(&mut rig));
}

#[test]
fn an_admin_command_brings_4_kib_at_the_most() {
    let (taken, refused) = (Status::INVALID_OPCODE, Status::INVALID_FIELD);
    for (bytes, status) in [(4096, taken), (4097, refused), (8192, refused)] {
        for in_capsule in [8192, 0] {
            let mut rig = Rig::new(&Plan::default());
            rig.peers[0].host.set_in_capsule_data(in_capsule);
            let (told, _) = rig.call(0, unknown(), Some(vec![0; bytes]), 0);
            assert_eq!(kind(told), status, "{bytes} bytes, {in_capsule} in a capsule");
        }
        // The capsule is not here as a whole when the command is looked at.
        let told = call_in_pieces(&mut Rig::new(&Plan::default()), unknown(), vec![0; bytes], 1000);
        assert_eq!(kind(told), status, "{bytes} bytes, in pieces");
    }
}

#[test]
fn data_that_admin_queues_of_an_address_owe_takes_one_part_of_memory() {
    const HOSTS: usize = 8;
    let mut rig = Rig::new(&Plan::default());
    (1..HOSTS).for_each(|_| _ = rig.add_host());
    let owe = |rig: &mut Rig, peer: usize, count: usize| {
        rig.peers[peer].host.set_in_capsule_data(0);
        (0..count).for_each(|_| _ = rig.queue(peer, unknown(), Some(vec![0; 4096]), 0));
        rig.run_until_asked(peer);
    };
    // Each host has an admin queue and an I/O queue.
    let admin = (0..2 * HOSTS).step_by(2);
    admin.clone().for_each(|peer| owe(&mut rig, peer, 30));
    let most = OWING_MAX as usize + HOSTS;
    let collecting = |commands: usize| [("collecting", commands as u64)];
    assert_eq!(rig.states(), collecting(most), "one for each queue, and what all may owe");
    let count = |rig: &Rig, peer: usize, status| {
        rig.peers[peer].answers.values().filter(|(told, _)| kind(*told) == status).count()
    };
    let refused = admin.map(|peer| count(&rig, peer, Status::COMMAND_INTERRUPTED));
    assert_eq!(refused.sum::<usize>(), HOSTS * 30 - most);
    // A host that sends its owed data frees memory, and a queue without a command needs none.
    rig.peers[0].sends = true;
    rig.run();
    assert_eq!(count(&rig, 0, Status::INVALID_OPCODE), 30);
    assert_eq!(rig.states(), collecting(most - 30));
    rig.add_host();
    owe(&mut rig, 2 * HOSTS, 31);
    assert_eq!(rig.states(), collecting(most));
}

#[test]
fn an_admin_commands_answer_is_no_longer_than_its_host_has_room_for() {
    let mut rig = Rig::new(&Plan::default());
    let identify = commands::identify(1, 0);
    let cid = rig.submit(0, identify, None, 4096);
    assert_eq!(rig.answer(0, cid), Some(Status::SUCCESS));
    let all = rig.data(0, cid).to_vec();
    assert_eq!(&all[4..4 + SERIAL.len()], SERIAL.as_bytes(), "the serial number");
    // A host that has too little room for it.
    let cid = rig.submit(0, identify, None, 512);
    if rig.answer(0, cid) == Some(Status::SUCCESS) {
        assert_eq!(rig.data(0, cid), &all[..512]);
    }
    assert!(rig.ended(0).is_none());
}

#[test]
fn the_health_log_tells_of_the_targets_counters() {
    let mut rig = Rig::new(&Plan::default());
    rig.core.driver().smart = SmartCounters { reads: 77, ..SmartCounters::default() };
    let log = rig.log_page(2, 512);
    // Host Read Commands, 79:64. Host Write Commands, 95:80, stand for the number of queried devices: the devices
    // that the host sees.
    assert_eq!((log[64], log[80]), (77, 2));
}

/// A rig whose host has requested Namespace Attribute Notices, and the identifier of its request.
fn with_event_request() -> (Rig, u16) {
    let mut rig = Rig::new(&Plan::default());
    rig.call(0, commands::set_feature(0x0b, 1 << 8), None, 0);
    let request = rig.submit(0, commands::event_request(), None, 0);
    assert_eq!(rig.states(), [("deferred", 1)]);
    (rig, request)
}

#[test]
fn an_event_is_told_to_the_command_that_asked_for_it() {
    let (mut rig, request) = with_event_request();
    assert_eq!(rig.core.inventory().commands, 0, "it waits for an event");
    rig.serve(|now, service| service.remove_namespace(now, NQN, DRIVE).unwrap());
    let (status, result) = rig.peers[0].answers[&request];
    assert!(status.is_success(), "{status}");
    // Notice, Namespace Attribute Changed, in the log of changed namespaces.
    assert_eq!(result, 0x04_00_02);
    assert_eq!(rig.states(), []);
}

#[test]
fn an_event_request_whose_identifier_is_used_again_is_given_up() {
    let (mut rig, request) = with_event_request();
    // Keep Alive under the identifier of the request: bytes 3:2 of the entry, which follows the eight bytes of the
    // PDU's header.
    rig.queue(0, commands::keep_alive(), None, 0);
    let mut bytes = rig.bytes_of(0);
    bytes[10..12].copy_from_slice(&request.to_le_bytes());
    rig.peers[0].up().extend(bytes);
    rig.run();
    assert_eq!(rig.answer(0, request), Some(Status::SUCCESS));
    assert_eq!(rig.states(), [], "nothing waits for an event any more");
    // A second answer would panic.
    rig.serve(|now, service| service.remove_namespace(now, NQN, DRIVE).unwrap());
}

#[test]
fn a_host_may_end_a_queue_by_disconnect() {
    let mut rig = Rig::new(&Plan::default());
    let other = rig.connect_queue(2);
    // Fabrics command type 08h.
    let disconnect = Sqe { opcode: opcode::FABRICS, nsid: U32::new(8), ..Sqe::default() };
    let (status, _) = rig.call(other, disconnect, None, 0);
    assert!(status.is_success(), "{status}");
    rig.pass_often(30, 100 * MS);
    assert!(rig.ended(other).is_some());
    assert!(rig.ended(1).is_none());
    assert!(rig.call(1, read(MEMORY, 0, 1), None, 512).0.is_success());
}

/// Sends a host's output until a command is answered, and changes the end of data that is longer than this. Returns
/// the command's status.
fn send_changed(rig: &mut Rig, peer: usize, cid: u16, longer: usize) -> Status {
    for _ in 0..100 {
        if let Some(status) = rig.answer(peer, cid) {
            return status;
        }
        let mut sent = rig.bytes_of(peer);
        if sent.len() > longer {
            // Before the digest, which ends the data.
            let last = sent.len() - 5;
            sent[last] ^= 0xff;
        }
        rig.peers[peer].up().extend(sent);
        rig.run();
    }
    panic!("{:?}", rig.states());
}

#[test]
fn data_with_a_wrong_digest_reaches_no_device_and_its_command_fails() {
    let mut rig = Rig::new(&Plan::default());
    let params = HostParams { data_digest: true, ..HostParams::default() };
    let peer = rig.connect(2, params, None);
    let clean = rig.call(peer, write(MEMORY, 0, 8), Some(vec![1; 4096]), 0).0;
    assert!(clean.is_success(), "{clean}");
    rig.peers[peer].sends = false;
    // In the capsule, and asked for.
    for (nsid, blocks) in [(MEMORY, 8_u32), (MEMORY, 64), (DRIVE, 8), (DRIVE, 64)] {
        let data = vec![2; blocks as usize * 512];
        let cid = rig.queue(peer, write(nsid, 0, blocks), Some(data), 0);
        let told = send_changed(&mut rig, peer, cid, 1024);
        assert_eq!(told, Status::TRANSIENT_TRANSPORT_ERROR, "{blocks} blocks of {nsid}");
        assert_eq!(rig.core.buffers().0, 0);
        assert!(!rig.end_oldest(), "no device was given it");
    }
    rig.peers[peer].sends = true;
    assert_eq!(rig.content(peer, MEMORY, 0, 8), [1; 4096]);
}

#[test]
fn an_admin_command_whose_data_has_a_wrong_digest_fails() {
    let mut rig = Rig::new(&Plan::default());
    let params = HostParams { data_digest: true, ..HostParams::default() };
    let admin = rig.add_controller(commands::CC_ENABLE, params);
    rig.peers[admin].sends = false;
    // The last byte of the data means nothing.
    for (longer, told) in [(4096, Status::SUCCESS), (512, Status::TRANSIENT_TRANSPORT_ERROR)] {
        let (sqe, data) = commands::honour_retry_delays();
        let cid = rig.queue(admin, sqe, Some(data), 0);
        assert_eq!(send_changed(&mut rig, admin, cid, longer), told);
    }
}
