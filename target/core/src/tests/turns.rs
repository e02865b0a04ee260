//! The work and the receives of connections in a turn: connections with more to do than others take no turn, no
//! memory to receive into and no room for answers from them.

use std::net::{IpAddr, Ipv4Addr};

use arbitration::Class;
use fabric::host::commands::{deallocate, identify, keep_alive};
use fabric::nvme::{Sqe, opcode};

use super::rig::{DRIVE, MEMORY, MS, Plan, Rig, io, of_class, read};

/// Number of commands that a host has for an admin queue at once.
const MANY: usize = 30;
/// The same for an I/O queue.
const MANY_IO: usize = 60;

/// Forgets the answers of a host, which has `count` commands for the target then.
fn submit_many(rig: &mut Rig, peer: usize, count: usize, command: &(Sqe, Option<Vec<u8>>, u32)) {
    rig.peers[peer].order.clear();
    let (sqe, data, reads) = command;
    (0..count).for_each(|_| _ = rig.queue(peer, *sqe, data.clone(), *reads));
}

/// Counts the answers that a host has.
fn answers(rig: &Rig, peer: usize) -> usize {
    rig.peers[peer].order.len()
}

/// Returns how many of the commands of an I/O queue are answered in each turn.
fn answers_by_turn(rig: &mut Rig, peer: usize) -> Vec<usize> {
    let mut by_turns = Vec::new();
    while by_turns.iter().sum::<usize>() < MANY_IO {
        let before = answers(rig, peer);
        assert!(rig.turn(), "nothing happens any more: {by_turns:?}");
        by_turns.push(answers(rig, peer) - before);
    }
    by_turns
}

#[test]
fn hosts_that_send_many_admin_commands_at_once_take_turns() {
    let mut rig = Rig::new(&Plan::default());
    (0..5).for_each(|_| _ = rig.add_host());
    // The admin queues of the six hosts.
    let admin = [0, 2, 4, 6, 8, 10];
    for peer in admin {
        submit_many(&mut rig, peer, MANY, &(identify(1, 0), None, 4096));
    }
    let (mut most, mut done) = (0, [0; 6]);
    while done != [MANY; 6] {
        assert!(rig.turn(), "nothing happens any more: {done:?}");
        let now = admin.map(|peer| answers(&rig, peer));
        most = most.max(now.iter().sum::<usize>() - done.iter().sum::<usize>());
        // Answers are on their way for a turn.
        let waiting = now.iter().filter(|&&had| had < MANY);
        let (least, largest) = (waiting.clone().min(), waiting.max());
        if let (Some(least), Some(largest)) = (least, largest) {
            assert!(largest - least <= 16, "{now:?}");
        }
        done = now;
    }
    assert!((8..=24).contains(&most), "{most} commands in one turn");
}

#[test]
fn an_address_in_either_form_has_one_part_of_each_turn() {
    let mut rig = Rig::new(&Plan::default());
    let (crowd, other) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let forms = [IpAddr::from(crowd), crowd.to_ipv6_mapped().into(), other.into()];
    let peers: Vec<usize> = (0..9).map(|n| rig.discover(forms[n % 3])).collect();
    for &peer in &peers {
        submit_many(&mut rig, peer, MANY, &(keep_alive(), None, 0));
    }
    let had = |rig: &Rig, form: usize| -> usize {
        peers.iter().skip(form).step_by(3).map(|peer| answers(rig, *peer)).sum()
    };
    while had(&rig, 2) < 3 * MANY {
        assert!(rig.turn(), "nothing happens any more");
    }
    let crowd = had(&rig, 0) + had(&rig, 1);
    assert!((60..130).contains(&crowd), "{crowd} answers to one address, 90 to the other");
}

#[test]
fn memory_that_is_zeroed_on_the_spot_is_zeroed_in_several_turns() {
    let zeroes = (io(opcode::io::WRITE_ZEROES, MEMORY, 0, 2 * 2048), None, 0);
    for stages in [true, false] {
        // With its ranges as data, a command goes another way.
        for (mib, command) in [(2, &zeroes), (4, &deallocation(4 * 2048))] {
            let mut rig = Rig::new(&Plan { stages, ..Plan::default() });
            submit_many(&mut rig, 1, MANY_IO, command);
            let by_turns = answers_by_turn(&mut rig, 1);
            // 8 MiB for a host that was not in line and 16 MiB for hosts in line, or 4 MiB for commands in their
            // turn at the device; and the last command.
            let most = if stages { 4 / mib } else { 24 / mib } + 1;
            assert!(by_turns.iter().all(|&had| had <= most), "stages {stages}: {by_turns:?}");
        }
    }
}

fn deallocation(blocks: u32) -> (Sqe, Option<Vec<u8>>, u32) {
    let (sqe, ranges) = deallocate(MEMORY, 0, blocks);
    (sqe, Some(ranges), 0)
}

#[test]
fn large_deallocations_have_a_few_slices_in_a_turn() {
    let mut rig = Rig::new(&Plan { stages: false, ..Plan::default() });
    // A slice of 4 MiB, and one of a block.
    submit_many(&mut rig, 1, MANY_IO, &deallocation(4 * 2048 + 1));
    // The last slice of one command, and the first of the next.
    let by_turns = answers_by_turn(&mut rig, 1);
    assert!(by_turns.iter().all(|&ended| ended <= 1), "{by_turns:?}");
}

#[test]
fn a_host_that_does_not_read_its_answers_to_admin_commands_is_not_read_from() {
    let mut rig = Rig::new(&Plan::default());
    rig.peers[0].reads = false;
    let cids: Vec<u16> = (0..30).map(|_| rig.queue(0, identify(1, 0), None, 4096)).collect();
    rig.run();
    let sqe = size_of::<Sqe>();
    let left = rig.core.inventory().unread_bytes / sqe;
    // 16 KiB of answers, without the answers in flight.
    assert!((12..28).contains(&left), "{left} of 30 were not looked at");
    rig.peers[0].reads = true;
    rig.run();
    assert!(rig.succeeded(0, &cids));
    assert_eq!(rig.core.inventory().unread_bytes, 0);
}

/// Requests 127 answers of 64 KiB that the host does not read, held back by the network or not. Returns the bytes
/// of answers that wait.
fn unread(held: bool) -> (Rig, Vec<u16>, usize) {
    let plan = Plan { memory: 64 << 20, network: true, stages: false, ..Plan::default() };
    let mut rig = Rig::new(&plan);
    rig.paced[0].set_held(held);
    rig.peers[1].reads = false;
    let mut cids = Vec::new();
    for n in 0..127 {
        cids.push(rig.queue(1, read(MEMORY, n * 128, 128), None, 64 << 10));
        if n == 20 {
            // These are being sent when the others arrive.
            rig.run();
        }
    }
    rig.run();
    let bytes = rig.core.buffers().0;
    (rig, cids, bytes)
}

#[test]
fn a_host_has_no_more_than_some_mib_of_answers_that_it_does_not_read() {
    for held in [false, true] {
        let (mut rig, cids, bytes) = unread(held);
        assert!(rig.core.inventory().unread_bytes > 0, "held: {held}, {bytes} bytes");
        // 4 MiB, and the batch that is being sent.
        assert!((4 << 20..7 << 20).contains(&bytes), "held: {held}, {bytes} bytes");
        rig.peers[1].reads = true;
        rig.run();
        assert!(rig.succeeded(1, &cids));
        assert_eq!((rig.core.buffers().0, rig.core.inventory().unread_bytes), (0, 0));
    }
}

#[test]
fn a_host_that_takes_its_answers_too_slowly_is_disconnected() {
    let mut rig = Rig::new(&Plan::default());
    let idle = rig.connect_queue(2);
    rig.peers[1].reads = false;
    rig.submit(1, read(MEMORY, 0, 128), None, 64 << 10);
    // 30 s, and a second for each 64 KiB.
    rig.pass(30_900 * MS);
    assert_eq!(rig.ended(1), None);
    rig.pass_often(4, 100 * MS);
    assert_eq!(rig.ended(1), Some("it takes its answers at less than 64 KiB a second"));
    assert_eq!(rig.core.buffers().0, 0);
    assert!(rig.ended(idle).is_none() && rig.ended(0).is_none());
}

#[test]
fn what_a_connection_is_told_at_its_end_waits_for_a_second() {
    let mut rig = Rig::new(&Plan::default());
    rig.peers[1].reads = false;
    // Bytes that no host may send.
    rig.peers[1].up().extend([0xff; 128]);
    rig.run();
    assert!(rig.core.idle_until().is_some_and(|at| at <= rig.now.after(1000 * MS)));
    rig.pass(990 * MS);
    assert_eq!((rig.peers[1].shut_down, rig.ended(1)), (false, None));
    assert_eq!(rig.core.idle_until(), Some(rig.now.after(10 * MS)), "it comes back for its end");
    rig.pass(10 * MS);
    assert!(rig.peers[1].shut_down);
    assert!(rig.ended(1).is_some_and(|why| why.starts_with("it broke the protocol")));
}

#[test]
fn while_memory_to_receive_into_is_short_connections_receive_chunk_by_chunk() {
    let mut rig = Rig::new(&Plan::default());
    (2..40).for_each(|qid| _ = rig.connect_queue(qid));
    assert!((1..40).all(|peer| !rig.receives_by_chunk(peer)));
    (1..40).for_each(|peer| rig.starve(peer));
    rig.turn();
    let armed = (1..40).filter(|&peer| rig.receives_by_chunk(peer)).count();
    assert_eq!(armed, 24, "three quarters of 32 pieces: some are left to those who send next");
    assert!(rig.core.idle_until().is_none(), "the others have their turn at once");
    rig.turn();
    assert!((1..40).all(|peer| rig.receives_by_chunk(peer)));
    // It is short no more once nobody found none for a while.
    (0..300).for_each(|_| _ = rig.turn());
    for peer in 1..40 {
        assert!(rig.call(peer, read(MEMORY, 0, 1), None, 512).0.is_success());
        assert!(!rig.receives_by_chunk(peer));
    }
}

#[test]
fn new_weights_hold_for_commands_that_wait_already() {
    let mut rig = Rig::new(&Plan { window: 1, ..Plan::default() });
    let other = rig.add_host();
    for lba in 0..100 {
        rig.queue(1, of_class(Class::High, read(DRIVE, lba, 1)), None, 512);
        rig.queue(other, read(DRIVE, lba, 1), None, 512);
    }
    rig.run();
    let weights = arbitration::settings::Weights { high: 1, medium: 1, low: 4 };
    rig.shared.change_rules(|rules| rules.order.weights = weights);
    (0..50).for_each(|_| _ = rig.end_oldest());
    let (high, low) = (rig.peers[1].order.len(), rig.peers[other].order.len());
    assert!(low >= 3 * high, "{high} of weight 1, {low} of weight 4");
}

#[test]
fn a_long_log_page_is_its_content_and_then_zeroes() {
    let mut rig = Rig::new(&Plan::default());
    for nsid in [77, 78] {
        assert!(!rig.call(1, read(nsid, 0, 1), None, 512).0.is_success());
    }
    // Error Information, with two entries; Firmware Slot Information, whose first bytes say something.
    for (page, length) in [(1, 192), (3, 512)] {
        let mut content = rig.log_page(page, length);
        assert!(content[..128].iter().any(|&byte| byte != 0), "page {page}");
        for bytes in [516, 4096, 4096 + 128, 8 << 10, 60 << 10, 64 << 10] {
            content.resize(bytes as usize, 0);
            assert!(rig.log_page(page, bytes) == content, "{bytes} bytes of page {page}");
        }
    }
}
