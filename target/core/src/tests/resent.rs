//! Commands that hosts resend after a reconnect, with limits of their session.

use arbitration::session::SessionSpec;
use fabric::host::commands::{self, CC_ENABLE, CC_SHUTDOWN};
use fabric::nvme::{Status, opcode};

use super::rig::{DRIVE, MEMORY, MS, Plan, Rig};
use super::rig::{bandwidth, io as io_command, iops, kind, read, retry_delay, write};

/// A rig whose commands are charged to a session below one with one command a second, in which this
/// many may wait; and the queues of its host, which honours Command Retry Delays.
fn limited(queue: u32) -> (Rig, (usize, usize)) {
    let mut rig = Rig::new(&Plan::default());
    lose(&mut rig, (0, 1));
    let (admin, io) = rig.reconnect(true);
    assert!(rig.call(admin, commands::identify(1, 0), None, 4096).0.is_success());
    let top = SessionSpec { name: "top".to_owned(), queue: Some(queue), ..iops(1) };
    rig.sessions.put(rig.now, &top).unwrap();
    rig.limit(SessionSpec { queue: Some(queue), ..below_top(iops(1000)) });
    (rig, (admin, io))
}

fn below_top(spec: SessionSpec) -> SessionSpec {
    SessionSpec { parent: Some("top".to_owned()), ..spec }
}

/// Ends the connections of a host, as a failed network does.
fn lose(rig: &mut Rig, (admin, io): (usize, usize)) {
    for peer in [admin, io] {
        rig.cut(peer, "lost");
        while rig.end_oldest() {}
        assert!(rig.ended(peer).is_some());
    }
}

/// Ends the connections of a host, which connects again.
fn reconnect(rig: &mut Rig, here: (usize, usize)) -> (usize, usize) {
    lose(rig, here);
    rig.reconnect(true)
}

/// Sends reads and writes of both namespaces, and returns how many succeed at once.
fn at_once(rig: &mut Rig, peer: usize, count: usize) -> usize {
    let mut cids = Vec::new();
    for n in 0..count {
        let nsid = if n % 2 == 0 { DRIVE } else { MEMORY };
        let lba = u64::try_from(n).unwrap();
        cids.push(match n % 3 {
            0 => rig.queue(peer, write(nsid, lba, 16), Some(vec![1; 16 * 512]), 0),
            1 => rig.queue(peer, write(nsid, lba, 1), Some(vec![1; 512]), 0),
            _ => rig.queue(peer, read(nsid, lba, 1), None, 512),
        });
    }
    rig.run();
    while rig.end_oldest() {}
    cids.iter().filter(|cid| rig.answer(peer, **cid) == Some(Status::SUCCESS)).count()
}

#[test]
fn d1_resent_commands_bypass_the_limit_and_later_ones_wait_for_the_debt() {
    let (mut rig, here) = limited(1000);
    assert!(at_once(&mut rig, here.1, 8) <= 2, "the limit holds");
    lose(&mut rig, here);
    rig.pass(1000 * MS);
    let (admin, io) = rig.reconnect(true);
    assert_eq!(at_once(&mut rig, io, 20), 20);
    assert!(rig.call(admin, commands::identify(1, 0), None, 4096).0.is_success());
    let late = rig.submit(io, read(DRIVE, 0, 1), None, 512);
    rig.pass(9_000 * MS);
    assert!(!rig.end_oldest() && rig.answer(io, late).is_none(), "the debt is of 20 s");
    rig.pass(1_500 * MS);
    let status = rig.answer(io, late).unwrap();
    assert_eq!(kind(status), Status::COMMAND_INTERRUPTED);
    assert_ne!(retry_delay(status), 0, "it is told to wait");
    rig.pass(10_000 * MS);
    let paid = rig.submit(io, read(DRIVE, 0, 1), None, 512);
    assert!(rig.end_oldest() && rig.answer(io, paid) == Some(Status::SUCCESS), "it is repaid");
}

#[test]
fn d1_resent_write_zeroes_leave_no_debt_for_their_length() {
    let (mut rig, here) = limited(1000);
    rig.limit(below_top(bandwidth(4096)));
    let (admin, io) = reconnect(&mut rig, here);
    let zeroes = io_command(opcode::io::WRITE_ZEROES, DRIVE, 0, 256);
    let again = rig.submit(io, zeroes, None, 0);
    while rig.end_oldest() {}
    assert_eq!(rig.answer(io, again), Some(Status::SUCCESS));
    assert!(rig.call(admin, commands::identify(1, 0), None, 4096).0.is_success());
    rig.pass(2_000 * MS);
    let late = rig.submit(io, read(DRIVE, 0, 1), None, 512);
    while rig.end_oldest() {}
    assert_eq!(rig.answer(io, late), Some(Status::SUCCESS), "128 KiB would take 32 s");
}

#[test]
fn d1_resent_commands_bypass_the_full_queue_of_their_session() {
    let (mut rig, here) = limited(4);
    let host = rig.host;
    lose(&mut rig, here);
    let other = rig.add_host();
    assert!(at_once(&mut rig, other, 10) <= 2);
    rig.host = host;
    let (_, io) = rig.reconnect(true);
    assert_eq!(at_once(&mut rig, io, 20), 20);
    rig.pass(2_000 * MS);
    assert!(!rig.end_oldest(), "the others wait for the debt");
}

#[test]
fn d1_resent_commands_are_bounded_by_queue_size_and_time() {
    let (mut rig, here) = limited(1000);
    let (admin, io) = reconnect(&mut rig, here);
    assert_eq!(at_once(&mut rig, io, 100), 100);
    assert_eq!(at_once(&mut rig, io, 40), 28, "the queue has 128 entries");
    lose(&mut rig, (admin, io));

    let (mut rig, here) = limited(1000);
    lose(&mut rig, here);
    let (_, io) = rig.reconnect(true);
    rig.pass(29_000 * MS);
    assert_eq!(at_once(&mut rig, io, 5), 5);
    rig.pass(2_000 * MS);
    assert_eq!(at_once(&mut rig, io, 5), 0, "Linux has failed the reconnect by then");
}

#[test]
fn d1_hosts_that_shut_down_or_lack_acre_resend_nothing() {
    let (mut rig, here) = limited(1000);
    let off = commands::property_set(0x14, CC_ENABLE | CC_SHUTDOWN);
    assert!(rig.call(here.0, off, None, 0).0.is_success());
    let here = reconnect(&mut rig, here);
    assert!(at_once(&mut rig, here.1, 20) <= 2, "it was shut down");
    let here = reconnect(&mut rig, here);
    assert_eq!(at_once(&mut rig, here.1, 20), 20);
    lose(&mut rig, here);
    rig.pass(30_000 * MS);
    let here = rig.reconnect(false);
    assert!(at_once(&mut rig, here.1, 20) <= 2, "it could not be told to wait");
}

#[test]
fn d1_reconnects_in_a_loop_stay_within_the_limit() {
    let (mut rig, mut here) = limited(1000);
    let mut passed = Vec::new();
    for _ in 0..30 {
        lose(&mut rig, here);
        rig.pass(10_000 * MS);
        here = rig.reconnect(true);
        passed.push(at_once(&mut rig, here.1, 60));
    }
    assert_eq!(passed.first_chunk::<2>(), Some(&[60, 60]), "two outages in short order");
    let sum: usize = passed.iter().sum();
    // 300 s, and the debt of the last two reconnects.
    assert!((240..=300 + 120 + 2).contains(&sum), "{passed:?}");
}
