//! Traces of commands: the reason of each wait is named, and the parts of a command's time are its whole time.

use std::collections::HashMap;
use std::sync::Arc;

use arbitration::Class;
use arbitration::limit::{Rate, Rates};
use arbitration::session::SessionSpec;

use super::rig::{DRIVE, MEMORY, MS, Plan, Rig, bandwidth, io, iops, of_class, read};
use crate::testing::wire::Carrier;
use crate::trace::{Part, TraceFilter, TracedCommand};

/// A rig that traces all commands.
fn traced(plan: &Plan) -> Rig {
    let mut rig = Rig::new(plan);
    trace(&mut rig, TraceFilter::default());
    rig
}

fn trace(rig: &mut Rig, filter: TraceFilter) {
    rig.core.set_time(rig.now);
    rig.core.trace(Some(Arc::new(filter)));
}

/// Lets `ms` ms pass in steps of 1 ms. In each, the drive ends the commands that `ends` says, at most, and each command
/// that is answered took as long as its trace says.
fn run(rig: &mut Rig, ms: u64, ends: usize) -> Vec<TracedCommand> {
    let mut times = HashMap::new();
    let begun = rig.now;
    for _ in 0..ms {
        rig.pass(MS);
        let _ = (0..ends).take_while(|_| rig.end_oldest()).count();
        for peer in 1..rig.peers.len() {
            for cid in &rig.peers[peer].order {
                times.entry((rig.peers[peer].key.id(0), *cid)).or_insert(rig.now);
            }
        }
    }
    let commands = std::mem::take(&mut rig.core.driver().traced);
    for command in &commands {
        if let Some(answered) = times.get(&(command.connection, command.cid))
            && *answered > begun
        {
            let whole = answered.ns_since(command.received);
            assert_eq!(command.times.total(), whole, "the parts are the whole: {command:?}");
        }
    }
    commands
}

/// Returns the part that most of a command's time is, and its share of the time in per cent.
fn main_part(command: &TracedCommand) -> (Part, u64) {
    let part = Part::ALL.into_iter().max_by_key(|part| command.times.time(*part)).unwrap();
    (part, command.times.time(part) * 100 / command.times.total().max(1))
}

/// Asserts that a part is most of the time of the last command.
fn assert_main(commands: &[TracedCommand], part: Part) {
    let last = commands.last().expect("a command is traced");
    let (main, share) = main_part(last);
    assert!(main == part && share >= 90, "{main:?} has {share} %: {last:?}");
}

#[test]
fn limits_of_session_are_named_with_the_session() {
    let reads = Rates { iops: None, bandwidth: Rate::per_second(512_000) };
    let specs = [
        (iops(1000), Part::Iops),
        (bandwidth(512_000), Part::Bandwidth),
        (SessionSpec { reads, ..SessionSpec::default() }, Part::Bandwidth),
    ];
    for carrier in [Carrier::Tcp, Carrier::Rdma] {
        for nsid in [MEMORY, DRIVE] {
            for (spec, part) in specs.clone() {
                let mut rig = traced(&Plan { carrier, ..Plan::default() });
                rig.limit(spec);
                rig.queue_reads(1, nsid, 0..60);
                let commands = run(&mut rig, 70, usize::MAX);
                assert_eq!(commands.len(), 60, "{carrier:?} {nsid} {part:?}");
                assert_main(&commands, part);
                let session = commands.last().unwrap().session.as_ref().map(|of| of.name());
                assert_eq!(session, Some("own"));
            }
        }
    }
}

#[test]
fn credits_are_named() {
    let mut rig = traced(&Plan::default());
    // One per cent of 1000: ten commands at a time.
    rig.limit(SessionSpec { operations: Some(1), ..SessionSpec::default() });
    rig.queue_reads(1, DRIVE, 0..30);
    rig.run();
    run(&mut rig, 50, 0);
    let commands = run(&mut rig, 30, 10);
    assert_eq!(commands.len(), 30);
    assert_main(&commands, Part::Credits);
}

#[test]
fn window_is_named_alone_and_order_beside_others() {
    let mut rig = traced(&Plan { window: 1, ..Plan::default() });
    rig.queue_reads(1, DRIVE, 0..20);
    let commands = run(&mut rig, 20, 1);
    assert_main(&commands, Part::Window);
    let other = rig.add_host();
    rig.queue(1, read(DRIVE, 0, 1), None, 512);
    rig.run();
    (0..100).for_each(|lba| {
        _ = rig.queue(other, of_class(Class::Urgent, read(DRIVE, lba, 1)), None, 512)
    });
    rig.queue(1, read(DRIVE, 1, 1), None, 512);
    let commands = run(&mut rig, 110, 1);
    let last = commands.iter().rfind(|command| command.class == Class::Low).unwrap();
    assert!(last.times.time(Part::Order) > last.times.time(Part::Window), "{last:?}");
}

#[test]
fn device_is_named() {
    let mut rig = traced(&Plan::default());
    rig.queue(1, read(DRIVE, 0, 8), None, 4096);
    run(&mut rig, 9, 0);
    let commands = run(&mut rig, 1, 1);
    assert_main(&commands, Part::Device);
    let command = &commands[0];
    assert_eq!(command.times.time(Part::Device), 9 * MS);
    let TracedCommand { qid, opcode, nsid, lba, bytes, skipped, .. } = *command;
    assert_eq!((qid, opcode, nsid, lba, bytes, skipped), (1, 2, DRIVE, 0, 4096, 0));
    assert_eq!(command.controller.host_nqn, "nqn.2026-01.io:host1");
}

#[test]
fn memory_and_buffers_are_named() {
    // Reads hold their memory until the host has taken its answers.
    let mut rig = traced(&Plan { memory: 128 << 10, ..Plan::default() });
    rig.peers[1].reads = false;
    rig.submit_reads(4);
    run(&mut rig, 10, 0);
    rig.peers[1].reads = true;
    let commands = run(&mut rig, 1, 0);
    assert_eq!(main_part(&commands[0]).0, Part::Socket);
    assert_main(&commands, Part::Memory);
    // A write whose data comes waits for what other hosts hold.
    let mut rig = traced(&Plan::default());
    let hosts = rig.add_hosts_that_hold_memory();
    run(&mut rig, 20, 0);
    hosts.iter().for_each(|host| rig.peers[*host].sends = true);
    let commands = run(&mut rig, 20, 4);
    let waited = commands.iter().any(|command| command.times.time(Part::Buffer) >= 20 * MS);
    assert!(waited, "{commands:#?}");
}

#[test]
fn host_that_sends_its_data_late_is_named() {
    let mut rig = traced(&Plan::default());
    rig.owe_data(1);
    run(&mut rig, 10, 0);
    rig.peers[1].sends = true;
    assert_main(&run(&mut rig, 2, 1), Part::Data);
}

#[test]
fn network_is_named_for_r2ts_and_replies() {
    let mut rig = traced(&Plan { network: true, ..Plan::default() });
    let pacing = Arc::clone(&rig.paced[0]);
    pacing.set_r2t_rate(Some(1_000_000));
    rig.submit_writes(4);
    let commands = run(&mut rig, 400, 0);
    assert_eq!(commands.len(), 4);
    assert_main(&commands, Part::R2t);
    pacing.set_r2t_rate(None);
    // Replies wait in the target while the connection is limited, and the first ones are in the socket.
    pacing.set_held(true);
    rig.peers[1].reads = false;
    rig.submit_reads(4);
    run(&mut rig, 20, 0);
    rig.peers[1].reads = true;
    let commands = run(&mut rig, 1, 0);
    assert_eq!(main_part(&commands[0]).0, Part::Socket);
    assert_main(&commands, Part::Reply);
}

#[test]
fn input_that_is_not_read_is_named() {
    let mut rig = traced(&Plan { queue: 4, window: 1, ..Plan::default() });
    rig.queue_reads(1, DRIVE, 0..20);
    let commands = run(&mut rig, 30, 1);
    assert_eq!(commands.len(), 20);
    let last = commands.last().unwrap();
    assert!(last.times.time(Part::Input) >= 10 * MS, "{last:?}");
    assert_eq!(last.times.total(), 19 * MS, "it counts from when it was received");
}

#[test]
fn sliced_command_is_traced_as_one() {
    let mut rig = traced(&Plan { slice: 4096, ..Plan::default() });
    rig.queue(1, io(fabric::nvme::opcode::io::WRITE_ZEROES, DRIVE, 0, 64), None, 0);
    let commands = run(&mut rig, 20, 1);
    assert_eq!(commands.len(), 1);
    assert_main(&commands, Part::Device);
}

#[test]
fn filter_selects_host_namespace_class_and_time() {
    let filter = TraceFilter::default;
    let host = Some("nqn.2026-01.io:host2".to_owned());
    for (filter, selected) in [
        (filter(), 8),
        (TraceFilter { host, ..filter() }, 4),
        (TraceFilter { subsystem: Some("nqn.2026-01.io:none".into()), ..filter() }, 0),
        (TraceFilter { nsid: Some(DRIVE), ..filter() }, 4),
        (TraceFilter { class: Some(Class::High), ..filter() }, 4),
        (TraceFilter { slower_than: 5 * MS, ..filter() }, 4),
        (TraceFilter { slower_than: 50 * MS, ..filter() }, 0),
    ] {
        let mut rig = Rig::new(&Plan::default());
        let other = rig.add_host();
        trace(&mut rig, filter.clone());
        for peer in [1, other] {
            for nsid in [MEMORY, DRIVE] {
                for class in [Class::Low, Class::High] {
                    rig.queue(peer, of_class(class, read(nsid, 0, 1)), None, 512);
                }
            }
        }
        let count = run(&mut rig, 10, 0).len() + run(&mut rig, 1, 4).len();
        assert_eq!(count, selected, "{filter:?}");
    }
}

#[test]
fn commands_beyond_the_rate_are_counted_and_not_traced() {
    let mut rig = traced(&Plan::default());
    for round in 0..100 {
        (0..100).for_each(|_| _ = rig.queue(1, read(MEMORY, round, 1), None, 512));
        rig.run();
        rig.peers[1].forget();
    }
    let burst = std::mem::take(&mut rig.core.driver().traced);
    assert!(burst.len() >= 4000 && burst.len() <= 4200, "{} at once", burst.len());
    rig.pass(100 * MS);
    rig.call(1, read(MEMORY, 0, 1), None, 512);
    let next = rig.core.driver().traced.pop().expect("one may be traced again");
    let skipped = burst.iter().chain([&next]).map(|command| command.skipped as usize);
    assert_eq!(skipped.sum::<usize>() + burst.len(), 10_000);
}

#[test]
fn nothing_is_traced_before_begin_and_after_end() {
    let mut rig = Rig::new(&Plan::default());
    rig.queue(1, read(DRIVE, 0, 1), None, 512);
    run(&mut rig, 1, 0);
    trace(&mut rig, TraceFilter::default());
    rig.queue(1, read(DRIVE, 1, 1), None, 512);
    let commands = run(&mut rig, 2, 2);
    assert_eq!(commands.iter().map(|command| command.lba).collect::<Vec<_>>(), [1]);
    rig.queue(1, read(DRIVE, 2, 1), None, 512);
    run(&mut rig, 1, 0);
    rig.core.trace(None);
    assert_eq!(run(&mut rig, 2, 2).len(), 0);
}

#[test]
fn commands_of_ended_connections_are_forgotten() {
    let mut rig = traced(&Plan { window: 1, ..Plan::default() });
    rig.queue_reads(1, DRIVE, 0..9);
    run(&mut rig, 1, 0);
    rig.cut(1, "lost");
    assert_eq!(run(&mut rig, 5, 9).len(), 0);
}
