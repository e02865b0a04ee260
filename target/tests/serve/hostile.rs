//! Hosts that break rules or are cut off, and that the target must withstand.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use fabric::host::commands::identify;
use fabric::nvme::identify::cns;
use fabric::nvme::{SglDescriptor, Status, opcode};
use hostile::Raw;
use hostile::commands::{enable, numbered};
use sluice_config::{Endpoint, QosConfig, TargetConfig};
use sluiced::serve::engine::Engine;

use super::client::{Queue, connect_raw, connected, h2c_data, io};
use super::{config, disk, eventually, file, memory, serve, settings, target};

/// Returns the memory of this process in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn compares_that_take_all_the_memory_end() {
    let (_folder, path) = disk();
    let (_runtime, address) = target(vec![file(&path)], 1);
    let (_admin, [mut queue]) = connected(address);
    let compares = [0, 1, 2, 3, 4, 5].map(|i| io(opcode::io::COMPARE, i * 256, 256));
    let compares = compares.map(|compare| queue.submit(compare, Some(vec![0; 1 << 20]), 0));
    queue.complete(compares);
}

#[test]
fn verify_needs_no_more_memory_than_there_is() {
    let (_folder, path) = disk();
    let settings = TargetConfig { max_transfer: 128 << 10, ..settings() };
    let (_runtime, address) = serve(settings, QosConfig::default(), vec![file(&path)]);
    let (_admin, [mut queue]) = connected(address);
    let verify = io(opcode::io::VERIFY, 0, 1024);
    assert_eq!(queue.call(verify, None, 0).0, Status::SUCCESS);
}

#[test]
fn a_capsule_with_too_much_data_writes_its_commands_blocks_only() {
    let (_runtime, address) = target(vec![memory()], 1);
    let (_admin, id) = Queue::controller(address);
    let (mut queue, _) = Queue::connect(address, 1, id);
    let mut raw = connect_raw(address, 2, id);
    let write = numbered(io(opcode::io::WRITE, 10, 1), 1, 1);
    raw.send(&write, SglDescriptor::in_capsule(4096), &[9; 8192]).unwrap();
    raw.receive().unwrap();
    let next = queue.read(1, 11, 1);
    assert!(next.iter().all(|&byte| byte == 0), "the next block was overwritten");
}

#[test]
fn draining_settles_a_write_whose_data_is_still_to_come() {
    let (runtime, address) = target(vec![memory()], 1);
    let (_admin, id) = Queue::controller(address);
    let mut raw = connect_raw(address, 1, id);
    let write = numbered(io(opcode::io::WRITE, 10, 4), 1, 1);
    raw.send(&write, SglDescriptor::transport(16384), &[]).unwrap();
    let r2t = raw.receive().unwrap();
    assert_eq!(r2t.kind, 9, "an R2T");
    runtime.shutdown(false);
    std::thread::sleep(Duration::from_millis(300));
    raw.0.write_all(&h2c_data(1, r2t.word(2), &[3; 16384])).unwrap();
    let response = raw.receive().expect("the write is answered, not cut off");
    assert_eq!((response.kind, response.status()), (5, 0));
    runtime.wait();
}

#[test]
fn a_host_that_does_not_read_its_answers_takes_no_memory() {
    let (runtime, address) = target(vec![memory()], 1);
    let mut raw = connect_raw(address, 0, 0xffff);
    raw.send(&enable(), SglDescriptor::default(), &[]).unwrap();
    raw.receive().unwrap();
    let before = resident();
    let one = Raw::capsule(&identify(cns::CONTROLLER, 0), SglDescriptor::transport(4096), &[]);
    let many: Vec<u8> = one.repeat(1000);
    raw.0.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let start = Instant::now();
    // The loop ends when the target has stopped reading and the sockets are full.
    while raw.0.write_all(&many).is_ok() && start.elapsed() < Duration::from_secs(8) {}
    let grown = resident().saturating_sub(before) >> 20;
    assert!(grown < 64, "{grown} MiB for one host that does not read");
    drop(raw);
    eventually("its connection ends", || runtime.connections().is_empty());
}

#[test]
fn half_capsules_in_all_buffers_stop_nobody() {
    let (_runtime, address) = target(vec![memory()], 1);
    let (_admin, id) = Queue::controller(address);
    let (mut queue, _) = Queue::connect(address, 1, id);
    // There are as many capsules as buffers for in-capsule data.
    let mut hosts: Vec<_> = (0..32u16)
        .map(|n| {
            let mut raw = connect_raw(address, 2 + n, id);
            let write = numbered(io(opcode::io::WRITE, u32::from(n) * 2, 2), 1, 1);
            let pdu = Raw::capsule(&write, SglDescriptor::in_capsule(8192), &[9; 8192]);
            raw.0.write_all(&pdu[..4000]).unwrap();
            (raw, pdu)
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    for (raw, pdu) in &mut hosts {
        raw.0.write_all(&pdu[4000..]).unwrap();
    }
    for (raw, _) in &mut hosts {
        assert_eq!(raw.receive().expect("every write is answered").kind, 5);
    }
    queue.read(1, 0, 1);
}

#[test]
fn a_listener_can_be_removed_and_added_again() {
    let (runtime, address) = target(vec![memory()], 2);
    for _ in 0..20 {
        runtime.remove_listener(Endpoint::tcp(address)).unwrap();
        assert!(TcpStream::connect(address).is_err(), "nobody listens");
        runtime.add_listener(&config(address).listeners[0]).unwrap();
    }
    let (_admin, [mut queue]) = connected(address);
    queue.read(1, 0, 1);
}
