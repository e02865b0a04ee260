//! Hosts that try to exhaust a target's resources, each in a few lines.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fabric::host::commands::{identify, log_page};
use fabric::nvme::{SglDescriptor, Sqe, opcode};
use zerocopy::little_endian::U32;

use crate::commands::{io, numbered};
use crate::{Identity, Raw, Way};

/// The commands of a queue that is full.
const COMMANDS: u16 = 63;

/// Bytes of a large command, and its blocks.
const LARGE: u32 = 1 << 20;
const LARGE_BLOCKS: u32 = LARGE / 4096;

/// The first block that attacks concern.
const FIRST_BLOCK: u32 = 65_536;

/// The target of an attack.
#[derive(Debug, Clone)]
pub struct Target {
    /// The way to the target, from an address that innocent hosts do not have: connections from one
    /// address share its part.
    pub way: Way,
    /// NQN of a subsystem that any host may connect to. Namespaces 1 and 2 have 81,920 blocks at
    /// least, of which attacks leave the first 65,536 alone.
    pub subsystem: String,
}

/// The behaviour of a hostile host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attack {
    /// Six hosts fill queues with reads of 1 MiB and take no answer.
    KeepsAnswers,
    /// A host fills two queues with reads of 1 MiB and takes 64 KiB each millisecond.
    ReadsSlowly,
    /// Six hosts fill queues with writes and send no data.
    OwesData,
    /// Six hosts fill queues with writes and send four bytes each 50 ms of each queue's first.
    DripsData,
    /// Up to 100 discovery controllers send Identify as fast as they get answers.
    FloodsAdmin,
    /// 240 queues begin a capsule with data and stop after one byte of it.
    SendsHalfCapsules,
    /// Up to 200 discovery controllers ask for log pages and take none.
    KeepsLogPages,
    /// 1,200 connections come, with a discovery controller each and no keep-alive time.
    TakesConnections,
    /// A host fills a queue with the largest Write Zeroes that it may send, 32 MiB.
    WritesZeroes,
    /// Connections come that send nonsense, as many as one thread can make.
    SendsGarbage,
}

impl Attack {
    /// All attacks.
    pub const ALL: [Self; 10] = [
        Self::KeepsAnswers,
        Self::ReadsSlowly,
        Self::OwesData,
        Self::DripsData,
        Self::FloodsAdmin,
        Self::SendsHalfCapsules,
        Self::KeepsLogPages,
        Self::TakesConnections,
        Self::WritesZeroes,
        Self::SendsGarbage,
    ];

    /// Attacks until `over`: where the target ends a connection, the attack begins again. The
    /// attack runs at the lowest priority, so that others wait for the target and not for a CPU.
    pub fn run(self, target: &Target, over: &AtomicBool) {
        // At an ordinary priority the attack takes more of the machine, which is worse for the
        // target.
        let _ = rustix::process::setpriority_process(None, 19);
        while !over.load(Ordering::Relaxed) {
            // A target that refuses does right.
            let _ = self.attempt(target, over);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn attempt(self, target: &Target, over: &AtomicBool) -> Result<()> {
        match self {
            Self::KeepsAnswers => hold(&self.flood(target, large_read)?, over),
            Self::ReadsSlowly => self.read_slowly(target, over),
            Self::OwesData => hold(&self.flood(target, large_write)?, over),
            Self::DripsData => self.drip(target, over),
            Self::FloodsAdmin => self.flood_admin(target, over),
            Self::SendsHalfCapsules => self.send_half_capsules(target, over),
            Self::KeepsLogPages => self.keep_log_pages(target, over),
            Self::TakesConnections => self.take_connections(target, over),
            Self::WritesZeroes => self.write_zeroes(target, over),
            Self::SendsGarbage => send_garbage(target, over),
        }
    }

    /// Returns the `n`-th host of this attack.
    fn host(self, target: &Target, n: u32) -> Identity {
        Identity::numbered(&target.subsystem, 10_000 * (self as u32 + 1) + n)
    }

    /// Connects a host's controller and some queues, and keeps the admin queue with them.
    fn queues(self, target: &Target, n: u32, queues: u16) -> Result<Vec<Raw>> {
        let host = self.host(target, n);
        let (admin, cntlid) = Raw::controller(target.way, &host)?;
        let queue = |qid| Ok(Raw::connect(target.way, &host, qid, cntlid)?.0);
        let mut all = (1..=queues).map(queue).collect::<Result<Vec<_>>>()?;
        all.push(admin);
        Ok(all)
    }

    /// Fills one queue of each of six hosts with large commands: queues and admin queues in turn.
    fn flood(self, target: &Target, command: fn(u16) -> Sqe) -> Result<Vec<Raw>> {
        let mut all = Vec::new();
        for n in 0..6 {
            let mut queues = self.queues(target, n, 1)?;
            if let Some(queue) = queues.first_mut() {
                send_all(queue, command)?;
            }
            all.append(&mut queues);
        }
        Ok(all)
    }

    fn read_slowly(self, target: &Target, over: &AtomicBool) -> Result<()> {
        let mut queues = self.queues(target, 0, 2)?;
        queues.truncate(2);
        let mut bytes = vec![0; 64 << 10];
        while !over.load(Ordering::Relaxed) {
            for queue in &mut queues {
                send_all(queue, large_read)?;
            }
            let mut left = 2 * usize::from(COMMANDS) * LARGE as usize;
            while left > 0 && !over.load(Ordering::Relaxed) {
                for queue in &mut queues {
                    left = left.saturating_sub(some(queue.0.read(&mut bytes)?)?);
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        Ok(())
    }

    fn drip(self, target: &Target, over: &AtomicBool) -> Result<()> {
        let mut all = self.flood(target, large_write)?;
        for queue in all.iter_mut().step_by(2) {
            let asked = queue.receive()?;
            // H2CData for the command and the tag of the R2T, as long as it asks for.
            let mut head = vec![6, 0, 24, 24];
            head.extend((24 + LARGE).to_le_bytes());
            head.extend(asked.word(0).to_le_bytes());
            head.extend(asked.word(2).to_le_bytes());
            head.extend([0; 4]);
            head.extend(LARGE.to_le_bytes());
            head.extend([0; 4]);
            queue.0.write_all(&head)?;
        }
        while !over.load(Ordering::Relaxed) {
            for queue in all.iter_mut().step_by(2) {
                queue.0.write_all(&[0; 4])?;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn flood_admin(self, target: &Target, over: &AtomicBool) -> Result<()> {
        let controllers = discovery(self, target, 100)?;
        let identify = Raw::capsule(&identify(1, 0), SglDescriptor::transport(4096), &[]);
        let many = identify.repeat(30);
        let mut answers = vec![0; 256 << 10];
        controllers.iter().try_for_each(|Raw(stream)| stream.set_nonblocking(true))?;
        while !over.load(Ordering::Relaxed) {
            for Raw(stream) in &controllers {
                // Capsules that are cut in two would end the connection: only whole ones go out,
                // since they are far smaller than a socket's buffer.
                while may_take(&mut &*stream, &mut answers)? {}
                some_or_none((&mut &*stream).write(&many))?;
            }
        }
        Ok(())
    }

    fn send_half_capsules(self, target: &Target, over: &AtomicBool) -> Result<()> {
        let mut all = Vec::new();
        for n in 0..12 {
            let mut queues = self.queues(target, n, 20)?;
            for queue in queues.iter_mut().take(20) {
                let write = numbered(io(opcode::io::WRITE, FIRST_BLOCK, 2), 1, 2);
                let pdu = Raw::capsule(&write, SglDescriptor::in_capsule(8192), &[9; 8192]);
                queue.0.write_all(pdu.get(..73).unwrap_or_default())?;
            }
            all.append(&mut queues);
        }
        hold(&all, over)
    }

    fn keep_log_pages(self, target: &Target, over: &AtomicBool) -> Result<()> {
        /// Discovery log page.
        const DISCOVERY: u8 = 0x70;
        let controllers = discovery(self, target, 200)?;
        let log = log_page(DISCOVERY, 0, LARGE);
        let many = Raw::capsule(&log, SglDescriptor::transport(LARGE), &[]).repeat(30);
        controllers.iter().try_for_each(|Raw(stream)| (&mut &*stream).write_all(&many))?;
        hold(&controllers, over)
    }

    fn take_connections(self, target: &Target, over: &AtomicBool) -> Result<()> {
        let mut all = Vec::new();
        for n in 0..1200 {
            if over.load(Ordering::Relaxed) {
                return Ok(());
            }
            let host = Identity { host: self.host(target, n).host, ..Identity::discovery(n) };
            let connect = fabric::host::commands::connect(0, 31, 0, None);
            let data = host.connect_data(0xffff);
            match Raw::connect_with(target.way, &connect, &data) {
                Ok(Ok((raw, _))) => all.push(raw),
                Ok(Err(_)) | Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        hold(&all, over)
    }

    fn write_zeroes(self, target: &Target, over: &AtomicBool) -> Result<()> {
        let mut queues = self.queues(target, 0, 1)?;
        let Some(queue) = queues.first_mut() else { return Ok(()) };
        // FUA is bit 30 of CDW12.
        let zeroes = io(opcode::io::WRITE_ZEROES, FIRST_BLOCK, 8192);
        let fua = Sqe { cdw12: U32::new(zeroes.cdw12.get() | 1 << 30), ..zeroes };
        for (n, cid) in (0u32..).zip((0..COMMANDS).cycle()) {
            if over.load(Ordering::Relaxed) {
                break;
            }
            queue.send(&numbered(fua, cid, n % 2 + 1), SglDescriptor::default(), &[])?;
            if n >= u32::from(COMMANDS) - 1 {
                queue.receive()?;
            }
        }
        Ok(())
    }
}

/// Fills a queue with large commands.
fn send_all(queue: &mut Raw, command: fn(u16) -> Sqe) -> Result<()> {
    let sgl = SglDescriptor::transport(LARGE);
    (0..COMMANDS).try_for_each(|cid| queue.send(&command(cid), sgl, &[]))
}

fn large_read(cid: u16) -> Sqe {
    let lba = FIRST_BLOCK + u32::from(cid % 15) * LARGE_BLOCKS;
    numbered(io(opcode::io::READ, lba, LARGE_BLOCKS), cid, u32::from(cid % 2) + 1)
}

fn large_write(cid: u16) -> Sqe {
    Sqe { opcode: opcode::io::WRITE, ..large_read(cid) }
}

/// Returns as many discovery controllers as the target lets one address have, `count` at most.
fn discovery(attack: Attack, target: &Target, count: u32) -> Result<Vec<Raw>> {
    let controller = |n| {
        let host = Identity { host: attack.host(target, n).host, ..Identity::discovery(n) };
        Ok(Raw::controller(target.way, &host)?.0)
    };
    let all: Vec<Raw> = (0..count).map(controller).map_while(Result::ok).collect();
    if all.is_empty() { Err(ErrorKind::ConnectionRefused.into()) } else { Ok(all) }
}

fn send_garbage(target: &Target, over: &AtomicBool) -> Result<()> {
    while !over.load(Ordering::Relaxed) {
        let mut stream = target.way.connect()?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: nobody's\r\n\r\n")?;
    }
    Ok(())
}

/// Keeps connections until `over` or until the target has ended one of them.
fn hold(all: &[Raw], over: &AtomicBool) -> Result<()> {
    all.iter().try_for_each(|Raw(stream)| stream.set_nonblocking(true))?;
    while !over.load(Ordering::Relaxed) {
        for Raw(stream) in all {
            match stream.peek(&mut [0]) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

/// Returns a length that was read; an end is an error.
fn some(length: usize) -> Result<usize> {
    if length == 0 { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(length) }
}

/// Returns the length that a socket that does not wait has read or written, 0 where it would have
/// to wait.
fn some_or_none(outcome: Result<usize>) -> Result<usize> {
    match outcome {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        other => other.and_then(some),
    }
}

/// Reads from a socket that does not wait. Returns whether there was anything.
fn may_take(stream: &mut &TcpStream, bytes: &mut [u8]) -> Result<bool> {
    Ok(some_or_none(stream.read(bytes))? > 0)
}
