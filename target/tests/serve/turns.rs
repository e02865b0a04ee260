//! Hosts that flood a reactor with commands that anybody may send: others have their turns.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use fabric::host::commands::identify;
use fabric::nvme::identify::cns;
use fabric::nvme::{SglDescriptor, opcode};
use hostile::{Identity, Raw};
use sluice_config::{QosConfig, TargetConfig};

use crate::client::{NQN, Queue, connected, io, pattern};
use crate::{Running, eventually, memory, serve, settings};

/// Bytes of an answer without data, and of one with 4 KiB at least.
const RESPONSE: u64 = 24;
const ANSWER: u64 = 24 + 4096;
/// Rounds of the host that has to go on.
const ROUNDS: u32 = 100;
/// Admin commands of other hosts that may be answered while a host has a write and a read: as many as in some
/// turns.
const MEANWHILE: u64 = 1000;

fn start() -> (Running, SocketAddr) {
    let io_memory = TargetConfig::default().io_memory;
    let settings = TargetConfig { max_discovery: 1024, io_memory, ..settings() };
    serve(settings, QosConfig::default(), vec![memory()])
}

/// Connections that send commands without end, and read their answers.
struct Flood {
    /// Bytes of answers.
    answered: Arc<AtomicU64>,
    /// Bytes of one answer.
    answer: u64,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Flood {
    fn new(queues: Vec<Raw>, command: &[u8], answer: u64) -> Self {
        let (answered, stop) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let mut groups: [Vec<(TcpStream, usize)>; 2] = Default::default();
        for (n, queue) in queues.into_iter().enumerate() {
            queue.0.set_nonblocking(true).unwrap();
            groups[n % 2].push((queue.0, 0));
        }
        let commands = command.repeat(900);
        let flood = |mut group: Vec<(TcpStream, usize)>| {
            let (answered, stop) = (Arc::clone(&answered), Arc::clone(&stop));
            let commands = commands.clone();
            std::thread::spawn(move || {
                let mut answers = vec![0; 1 << 20];
                while !stop.load(Ordering::Relaxed) {
                    for (stream, at) in &mut group {
                        match stream.read(&mut answers) {
                            Ok(bytes) => {
                                answered.fetch_add(bytes as u64, Ordering::Relaxed);
                            }
                            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                        }
                        if let Ok(bytes) = stream.write(&commands[*at..]) {
                            *at = (*at + bytes) % commands.len();
                        }
                    }
                }
            })
        };
        let threads = groups.into_iter().map(flood).collect();
        let flood = Self { answered, answer, stop, threads };
        eventually("the flood's commands are answered", || flood.answered() > 10_000);
        flood
    }

    fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed) / self.answer
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}

/// Runs verified rounds of a write and a read. Returns how many commands of the flood were answered
/// during one, at the median. A machine that is busy with other work lets the flood go on during
/// some of the rounds, and not during most.
fn rounds(queue: &mut Queue, flood: &Flood) -> u64 {
    let mut meanwhile = Vec::new();
    for lba in 0..ROUNDS {
        let before = flood.answered();
        let data = pattern(lba, 1, 3);
        queue.write(1, lba, data.clone());
        assert!(queue.read(1, lba, 1) == data);
        meanwhile.push(flood.answered() - before);
    }
    meanwhile.sort_unstable();
    meanwhile[meanwhile.len() / 2]
}

/// Any peer may have discovery controllers, and send commands to them without end.
#[test]
fn who_floods_admin_queues_keeps_no_turn_from_others() {
    let (_runtime, address) = start();
    let (_admin, [mut queue]) = connected(address);
    let discovery = |n| Raw::controller(address, &Identity::discovery(n)).unwrap().0;
    let identify = Raw::capsule(&identify(cns::CONTROLLER, 0), SglDescriptor::transport(4096), &[]);
    let flood = Flood::new((0..100).map(discovery).collect(), &identify, ANSWER);
    let meanwhile = rounds(&mut queue, &flood);
    assert!(meanwhile < MEANWHILE, "{meanwhile} admin commands during a write and a read");
    let connects = (0..5).map(|_| {
        let before = flood.answered();
        Queue::controller(address);
        flood.answered() - before
    });
    let meanwhile = connects.min().unwrap();
    assert!(meanwhile < 5 * MEANWHILE, "{meanwhile} admin commands while a host connects");
    flood.end();
}

/// Commands to memory are carried out as they arrive, and more connections send than there are
/// buffers to receive into.
#[test]
fn who_floods_io_queues_keeps_no_turn_from_others() {
    let (_runtime, address) = start();
    let (_admin, [mut queue]) = connected(address);
    let others = [1, 2, 3].map(|n| Identity::numbered(NQN, n));
    let controllers = others.each_ref().map(|host| Raw::controller(address, host).unwrap());
    let of = |(host, &(_, id)): (_, &(Raw, u16))| {
        (1..=20).map(move |qid| Raw::connect(address, host, qid, id).unwrap().0)
    };
    let queues = others.iter().zip(&controllers).flat_map(of).collect();
    let flush = io(opcode::io::FLUSH, 0, 1);
    let flood = Flood::new(queues, &Raw::capsule(&flush, SglDescriptor::default(), &[]), RESPONSE);
    let meanwhile = rounds(&mut queue, &flood);
    assert!(meanwhile < 64 * MEANWHILE, "{meanwhile} commands during a write and a read");
    flood.end();
}
