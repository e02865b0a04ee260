//! Hosts that hold all memory that they can get, and never give it back: others go on.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use fabric::nvme::{SglDescriptor, Sqe, opcode};
use hostile::commands::numbered;
use hostile::{Identity, Raw};
use sluice_config::{QosConfig, TargetConfig};
use sluiced::start::runtime::Runtime;
use tempfile::TempDir;

use crate::client::{NQN, connected, io, pattern};
use crate::{Running, buffers_in_use, disk, eventually, file, memory, serve, settings};

/// Number of hosts that hold memory: more than four, each of which may have a quarter.
const HOSTS: u32 = 6;

/// A host with a controller of its own.
struct Holder {
    identity: Identity,
    _admin: Raw,
    controller: u16,
}

impl Holder {
    fn new(address: SocketAddr, n: u32) -> Self {
        let identity = Identity::numbered(NQN, n);
        let (admin, controller) = Raw::controller(address, &identity).unwrap();
        Self { identity, _admin: admin, controller }
    }

    fn queue(&self, address: SocketAddr, qid: u16) -> Raw {
        Raw::connect(address, &self.identity, qid, self.controller).unwrap().0
    }
}

fn holders(address: SocketAddr) -> Vec<Holder> {
    (0..HOSTS).map(|n| Holder::new(address, n)).collect()
}

fn start(io_memory: u64) -> (TempDir, Running, SocketAddr) {
    let (folder, path) = disk();
    let settings = TargetConfig { io_memory, ..settings() };
    let (runtime, address) = serve(settings, QosConfig::default(), vec![file(&path), memory()]);
    (folder, runtime, address)
}

/// Waits until the memory in use, `least` bytes at least, changes no more, and checks that another host reads and
/// writes, in the capsule and not.
fn goes_on(runtime: &Runtime, address: SocketAddr, least: u64) {
    let mut before = 0;
    eventually("the memory is held", || {
        std::thread::sleep(Duration::from_millis(100));
        let used = buffers_in_use(runtime);
        std::mem::replace(&mut before, used) == used && used >= least
    });
    let (_admin, [mut queue]) = connected(address);
    for blocks in [1, 2, 16, 32] {
        for _ in 0..4 {
            let data = pattern(0, blocks, 3);
            queue.write(1, 0, data.clone());
            assert!(queue.read(1, 0, blocks) == data);
        }
    }
    let reads: Vec<u16> = (0..32).map(|lba| queue.submit_read(lba, 1)).collect();
    queue.complete(reads);
}

/// Sends 63 commands of `bytes` bytes from each host by one queue.
fn flood(
    address: SocketAddr,
    holders: &[Holder],
    bytes: u32,
    command: impl Fn(u16) -> Sqe,
) -> Vec<Raw> {
    let flooded = |holder: &Holder| {
        let mut queue = holder.queue(address, 1);
        for cid in 0..63 {
            queue.send(&command(cid), SglDescriptor::transport(bytes), &[]).unwrap();
        }
        queue
    };
    holders.iter().map(flooded).collect()
}

/// Hosts ask for 63 MiB each and never read an answer.
#[test]
fn who_does_not_read_its_answers_stops_nobody_elses_reads() {
    for nsid in [1, 2] {
        let (_folder, runtime, address) = start(16 << 20);
        let holders = holders(address);
        let queues = flood(address, &holders, 1 << 20, |cid| {
            numbered(io(opcode::io::READ, u32::from(cid) * 256, 256), cid, nsid)
        });
        goes_on(&runtime, address, 12 << 20);
        drop(queues);
    }
}

/// Hosts announce writes and never send the data that they are asked for.
#[test]
fn who_owes_data_stops_nobody_elses_writes() {
    let (_folder, runtime, address) = start(16 << 20);
    let holders = holders(address);
    let queues = flood(address, &holders, 128 << 10, |cid| {
        let nsid = u32::from(cid % 2) + 1;
        numbered(io(opcode::io::WRITE, u32::from(cid) * 32, 32), cid, nsid)
    });
    goes_on(&runtime, address, 10 << 20);
    drop(queues);
}

/// Hosts begin to send a capsule with data on each of many connections, and stop after one byte.
#[test]
fn who_sends_a_byte_of_a_capsule_stops_nobody_else() {
    let (_folder, runtime, address) = start(4 << 20);
    let holders = holders(address);
    let mut queues = Vec::new();
    for holder in &holders {
        for qid in 1..=20 {
            let mut queue = holder.queue(address, qid);
            let write = numbered(io(opcode::io::WRITE, 0, 2), 1, 2);
            let pdu = Raw::capsule(&write, SglDescriptor::in_capsule(8192), &[0; 8192]);
            // These bytes are the capsule's header, its command and a byte of its data.
            queue.0.write_all(&pdu[..73]).unwrap();
            queues.push(queue);
        }
    }
    goes_on(&runtime, address, 300 << 10);
    drop(queues);
}
