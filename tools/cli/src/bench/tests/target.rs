//! A target of one namespace in memory, on the state machine of the target role, for tests of the
//! initiator.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fabric::nvme::region::{GetRegion, RegionGrant, Survives};
use fabric::nvme::{Sqe, Status, opcode};
use fabric::queue::{CapsuleData, Received, SlotId, Transport};
use fabric::tcp::{TargetConnection, TargetParams};

pub(super) const NQN: &str = "nqn.2026-01.test:memory";
const BLOCK: usize = 512;
/// Bytes of the namespace.
const SIZE: usize = 4 << 20;

/// The behaviour of the target.
#[derive(Clone, Copy)]
pub(super) struct Behaviour {
    pub(super) params: TargetParams,
    /// Bytes of in-capsule data on I/O queues.
    pub(super) in_capsule: u32,
    /// Flips a bit in the byte at this offset of the namespace when it is read.
    pub(super) damage: Option<usize>,
    /// Fails reads of this block.
    pub(super) bad_block: Option<u64>,
    /// The number of commands after which an I/O queue's connection is closed.
    pub(super) close_after: Option<usize>,
    /// Offers weighted round robin (CAP.AMS).
    pub(super) wrr: bool,
    /// The time after which each I/O queue answers a command.
    pub(super) delay: Duration,
    /// Begins as a file system does.
    pub(super) file_system: bool,
    /// CRDT1 in units of 100 ms, and the number of commands of each I/O queue that are answered with Command
    /// Interrupted and this delay.
    pub(super) interrupts: (u8, usize),
    /// The number of controllers of other hosts that the target lists; `None`: it lists none at all.
    pub(super) others: Option<u16>,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            params: TargetParams::default(),
            in_capsule: 4096,
            damage: None,
            bad_block: None,
            close_after: None,
            wrr: true,
            delay: Duration::ZERO,
            file_system: false,
            interrupts: (0, 0),
            others: None,
        }
    }
}

/// What the target has learned of hosts.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The queue, CATTR and host NQN of each Connect.
    pub(super) connects: Vec<(u32, u32, String)>,
    pub(super) host_ids: BTreeSet<Vec<u8>>,
    /// The values of CC that were set.
    pub(super) configurations: BTreeSet<u32>,
    /// The reads and writes by their command dword 13.
    pub(super) dwords: BTreeMap<u32, u64>,
    /// Whether a host honours retry delays.
    pub(super) acre: bool,
    /// The regions that were asked for.
    pub(super) regions: Vec<GetRegion>,
}

/// The region that the target grants.
pub(super) const REGION: &str = "log";
/// The largest reservation that it admits.
pub(super) const MOST_RESERVED: u32 = 1000;

/// Makes a disk with an ext4 file system.
fn with_file_system() -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(SIZE as u64).unwrap();
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut made = std::process::Command::new("mkfs.ext4");
    assert!(made.env("PATH", path).args(["-q", "-F"]).arg(file.path()).status().unwrap().success());
    std::fs::read(file.path()).unwrap()
}

/// Starts a target, which runs until the process ends. Returns its address.
pub(super) fn start(behaviour: Behaviour) -> String {
    start_seen(behaviour).0
}

/// Starts a target. Returns its address, and what it sees.
pub(super) fn start_seen(behaviour: Behaviour) -> (String, Arc<Mutex<Seen>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let memory = if behaviour.file_system { with_file_system() } else { vec![0; SIZE] };
    let memory = Arc::new(Mutex::new(memory));
    let seen = Arc::new(Mutex::new(Seen::default()));
    let shared = Arc::clone(&seen);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (memory, seen) = (Arc::clone(&memory), Arc::clone(&shared));
            thread::spawn(move || Queue::new(behaviour, memory, seen).serve(stream.unwrap()));
        }
    });
    (address, seen)
}

struct Queue {
    behaviour: Behaviour,
    memory: Arc<Mutex<Vec<u8>>>,
    seen: Arc<Mutex<Seen>>,
    connection: TargetConnection<Vec<u8>>,
    /// The write data of each slot, which arrives in pieces.
    arriving: Vec<Vec<u8>>,
    cc: u64,
    admin: bool,
    /// Whether this is an I/O queue that is connected.
    io: bool,
    commands: usize,
}

impl Queue {
    fn new(behaviour: Behaviour, memory: Arc<Mutex<Vec<u8>>>, seen: Arc<Mutex<Seen>>) -> Self {
        let connection = TargetConnection::new(behaviour.params);
        let (arriving, cc, admin, io, commands) = (vec![], 0, false, false, 0);
        Self { behaviour, memory, seen, connection, arriving, cc, admin, io, commands }
    }

    fn serve(mut self, mut stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        let mut buffer = vec![0; 256 * 1024];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(n) => self.receive(&buffer[..n]),
            }
            let enough = self.behaviour.close_after.is_some_and(|count| self.commands > count);
            if !self.send(&mut stream) || enough {
                return;
            }
        }
    }

    fn send(&mut self, stream: &mut TcpStream) -> bool {
        let tx = self.connection.tx();
        while tx.in_flight() || tx.begin() {
            let runs: Vec<_> = tx.slices().take(512).map(std::io::IoSlice::new).collect();
            let Ok(n) = stream.write_vectored(&runs) else { return false };
            tx.advance(n);
        }
        true
    }

    fn receive(&mut self, mut input: &[u8]) {
        while let Ok(Some(event)) = self.connection.next(&mut input) {
            match event {
                Received::Command { slot, data } => {
                    let sqe = *self.connection.sqe_of(slot);
                    self.command(slot, &sqe, &data);
                }
                Received::Data { slot, offset, bytes } => {
                    let place = &mut self.arriving[usize::from(slot.0)];
                    place[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
                }
                Received::DataEnd { slot, digest_ok } => {
                    assert!(digest_ok);
                    let data = std::mem::take(&mut self.arriving[usize::from(slot.0)]);
                    let sqe = *self.connection.sqe_of(slot);
                    self.finish(slot, &sqe, &data);
                }
                _ => {}
            }
        }
    }

    fn command(&mut self, slot: SlotId, sqe: &Sqe, data: &CapsuleData<'_>) {
        self.commands += 1;
        if self.io {
            *self.seen.lock().unwrap().dwords.entry(sqe.cdw13.get()).or_default() += 1;
            thread::sleep(self.behaviour.delay);
        }
        // The rest of data that arrives in pieces would follow the answer.
        let is_whole = !matches!(data, CapsuleData::Partial { .. });
        if self.io && is_whole && self.commands <= self.behaviour.interrupts.1 + 1 {
            let status = Status::COMMAND_INTERRUPTED.with_retry_delay(1);
            return self.connection.complete(slot, 0, status);
        }
        let length = sqe.sgl.length.get();
        let read = !self.admin && sqe.opcode == opcode::io::READ;
        match data {
            CapsuleData::Whole(bytes) => self.finish(slot, sqe, bytes),
            CapsuleData::None if !self.admin && sqe.opcode == opcode::io::WRITE => {
                self.expect(slot, length);
                self.connection.fetch(slot, length);
            }
            CapsuleData::None if read => self.read(slot, sqe),
            CapsuleData::None => self.finish(slot, sqe, &[]),
            CapsuleData::Partial { length } => self.expect(slot, *length),
        }
    }

    fn expect(&mut self, slot: SlotId, length: u32) {
        let index = usize::from(slot.0);
        if self.arriving.len() <= index {
            self.arriving.resize(index + 1, vec![]);
        }
        self.arriving[index] = vec![0; length as usize];
    }

    fn read(&mut self, slot: SlotId, sqe: &Sqe) {
        let length = (sqe.cdw12.get() as usize + 1) * BLOCK;
        let start = usize::try_from(sqe.slba()).unwrap() * BLOCK;
        let mut data = self.memory.lock().unwrap()[start..start + length].to_vec();
        let damage = self.behaviour.damage.and_then(|at| at.checked_sub(start));
        if let Some(byte) = damage.and_then(|at| data.get_mut(at)) {
            *byte ^= 0x10;
        }
        if self.behaviour.bad_block == Some(sqe.slba()) {
            self.connection.complete(slot, 0, Status::UNRECOVERED_READ_ERROR);
            return;
        }
        self.connection.complete_with_data(slot, data, 0);
    }

    fn finish(&mut self, slot: SlotId, sqe: &Sqe, data: &[u8]) {
        match (sqe.opcode, sqe.nsid.get()) {
            (opcode::FABRICS, 0x01) => self.connect(slot, sqe, data),
            (opcode::FABRICS, 0x00) => {
                self.cc = u64::from(sqe.cdw12.get());
                self.seen.lock().unwrap().configurations.insert(sqe.cdw12.get());
                self.connection.complete(slot, 0, Status::SUCCESS);
            }
            (opcode::FABRICS, _) => {
                // CAP with MQES 1023, AMS and TO 1, else CSTS.
                let cap = 1023 | u64::from(self.behaviour.wrr) << 17 | 1 << 24;
                // SHST (CSTS 3:2) is 10b once CC.SHN is set.
                let shut_down = u64::from(self.cc >> 14 & 0b11 != 0) << 3;
                let csts = self.cc & 1 | shut_down;
                let value = if sqe.cdw11.get() == 0 { cap } else { csts };
                self.connection.complete(slot, value, Status::SUCCESS);
            }
            (opcode::admin::IDENTIFY, nsid) if self.admin => self.identify(slot, sqe, nsid),
            (opcode::admin::SET_FEATURES, _) if self.admin => {
                if sqe.cdw10.get() == 0x16 {
                    // ACRE.
                    self.seen.lock().unwrap().acre = data.first() == Some(&1);
                }
                self.connection.complete(slot, 0x003f_003f, Status::SUCCESS);
            }
            (opcode::admin::GET_REGION, _) if self.admin => self.region(slot, sqe),
            (opcode::io::WRITE, _) if !self.admin => {
                let start = usize::try_from(sqe.slba()).unwrap() * BLOCK;
                self.memory.lock().unwrap()[start..start + data.len()].copy_from_slice(data);
                self.connection.complete(slot, 0, Status::SUCCESS);
            }
            _ => self.connection.complete(slot, 0, Status::SUCCESS),
        }
    }

    fn connect(&mut self, slot: SlotId, sqe: &Sqe, data: &[u8]) {
        let nqn = &data[256..256 + NQN.len()];
        if nqn != NQN.as_bytes() {
            let status = Status::CONNECT_INVALID_PARAMETERS.dnr();
            return self.connection.complete(slot, 0, status);
        }
        let host = String::from_utf8_lossy(&data[512..768]);
        let host = host.trim_end_matches('\0').to_owned();
        let mut seen = self.seen.lock().unwrap();
        seen.connects.push((sqe.cdw10.get() >> 16, sqe.cdw11.get() >> 16 & 0xff, host));
        seen.host_ids.insert(data[..16].to_vec());
        drop(seen);
        self.admin = sqe.cdw10.get() >> 16 == 0;
        self.io = !self.admin;
        let entries = u16::try_from((sqe.cdw11.get() & 0xffff) + 1).unwrap();
        let flow_control = sqe.cdw11.get() >> 16 & 4 == 0;
        let in_capsule = if self.admin { 8192 } else { self.behaviour.in_capsule };
        self.connection.set_queue(entries, flow_control);
        self.connection.set_in_capsule_data(in_capsule);
        self.connection.complete(slot, 1, Status::SUCCESS);
    }

    fn region(&mut self, slot: SlotId, sqe: &Sqe) {
        let GetRegion { name, rights, reservation } = GetRegion::parse(sqe).unwrap();
        self.seen.lock().unwrap().regions.push(GetRegion { name, rights, reservation });
        if name.as_str() != REGION {
            return self.connection.complete(slot, 0, Status::REGION_NOT_GRANTED.dnr());
        }
        if reservation > MOST_RESERVED {
            let status = Status::RESERVATION_REFUSED.dnr();
            return self.connection.complete(slot, MOST_RESERVED.into(), status);
        }
        let grant = RegionGrant {
            rights,
            address: "127.0.0.1:4430".parse().unwrap(),
            secret: 7,
            length: 1 << 20,
            reservation,
            limit: 0,
            survives: Survives::Exit,
        };
        self.connection.complete_with_data(slot, grant.emit().to_vec(), 0);
    }

    fn identify(&mut self, slot: SlotId, sqe: &Sqe, nsid: u32) {
        let mut data = vec![0; 4096];
        match (sqe.cdw10.get(), nsid) {
            (1, _) => {
                data[24..64].copy_from_slice(&[b' '; 40]);
                data[24..35].copy_from_slice(b"Test target");
                data[77] = 8;
                data[128] = self.behaviour.interrupts.0;
                let ioccsz = 4 + self.behaviour.in_capsule / 16;
                data[1792..1796].copy_from_slice(&ioccsz.to_le_bytes());
            }
            (0, 1) => {
                let blocks = (SIZE / BLOCK) as u64;
                data[..8].copy_from_slice(&blocks.to_le_bytes());
                data[130] = 9;
            }
            (0x12, 1) if self.behaviour.others.is_some() => {
                let others = self.behaviour.others.unwrap();
                // A controller list: the count, then identifiers, of which each host has the first.
                let ids = (1..=others + 1).flat_map(u16::to_le_bytes);
                data = (others + 1).to_le_bytes().into_iter().chain(ids).collect();
                data.resize(4096, 0);
            }
            _ => return self.connection.complete(slot, 0, Status::INVALID_NAMESPACE.dnr()),
        }
        self.connection.complete_with_data(slot, data, 0);
    }
}
