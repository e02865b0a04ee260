//! Blocks in memory that hosts of several reactors write and read at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use proptest::test_runner::Config as ProptestConfig;

use super::client::Queue;
use super::*;

/// The first two CPUs that may be used; one of them twice where there is no other.
fn two_cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let cpus = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap());
    let mut cpus: Vec<usize> = cpus.take(2).collect();
    cpus.resize(2, cpus[0]);
    cpus
}

#[test]
fn a_block_in_memory_is_of_one_write_whichever_reactors_serve_its_hosts() {
    let settings = TargetConfig { cores: two_cpus(), io_memory: 8 << 20, ..settings() };
    let (_runtime, address) = serve(settings, QosConfig::default(), vec![memory()]);
    check_whole_blocks(address, 8, 16 * ProptestConfig::default().cases);
}

/// Checks that blocks are of one write while hosts of two reactors write and read them.
pub(crate) fn check_whole_blocks(address: SocketAddr, blocks: u32, rounds: u32) {
    let writing = AtomicUsize::new(2);
    let writes = |host: u8, qid: u16| {
        let (_admin, id) = Queue::controller(address);
        let (mut queue, _) = Queue::connect(address, qid, id);
        for round in 0..rounds {
            let bytes = vec![host << 7 | (round % 128) as u8; blocks as usize * 4096];
            let zero = round % 16 == 15;
            let opcode = if zero { opcode::io::WRITE_ZEROES } else { opcode::io::WRITE };
            let data = (!zero).then_some(bytes);
            assert!(queue.call(io(opcode, 0, blocks), data, 0).0.is_success());
        }
        writing.fetch_sub(1, Ordering::Relaxed);
    };
    let reads = |qid: u16| {
        let (_admin, id) = Queue::controller(address);
        let (mut queue, _) = Queue::connect(address, qid, id);
        while writing.load(Ordering::Relaxed) > 0 {
            for block in queue.read(1, 0, blocks).chunks(4096) {
                assert!(block.iter().all(|byte| *byte == block[0]), "bytes of two writes");
            }
        }
    };
    // Queues 1 and 2 of a controller are at different reactors, wherever the first one is.
    std::thread::scope(|scope| {
        for qid in [1, 2] {
            let (writes, reads) = (&writes, &reads);
            scope.spawn(move || writes(u8::try_from(qid - 1).unwrap(), qid));
            scope.spawn(move || reads(qid));
        }
    });
}
