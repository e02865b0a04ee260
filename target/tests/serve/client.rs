//! A small blocking NVMe/TCP host.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use fabric::Nanos;
use fabric::host::{Action, AdminCommand, Association, Settings, commands};
use fabric::nvme::property::offset;
use fabric::nvme::{Cqe, Sqe, Status};
use fabric::queue::{HostReceived, HostTransport};
use fabric::tcp::{HostConnection, HostParams};
use zerocopy::little_endian::{U16, U32};

pub(crate) const NQN: &str = "nqn.2026-01.io.sluicegate:test";
pub(crate) const HOST: &str =
    "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-00000000abcd";

const HOST_ID: [u8; 16] = [7; 16];
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// One queue.
pub(crate) struct Queue {
    stream: TcpStream,
    protocol: HostConnection<Vec<u8>>,
    reads: HashMap<u16, Vec<u8>>,
    next_cid: u16,
    /// Completions that nobody has asked for yet.
    done: HashMap<u16, (Status, u64, Vec<u8>)>,
}

impl Queue {
    /// Connects queue `qid` of controller `cntlid`.
    pub(crate) fn connect(address: SocketAddr, qid: u16, cntlid: u16) -> (Self, u16) {
        let mut queue = Self::open(address);
        let data = connect_data(cntlid);
        let (status, result, _) = queue.call(connect_command(qid), Some(data), 0);
        assert!(status.is_success(), "connect: {status}");
        (queue, u16::try_from(result & 0xffff).unwrap())
    }

    /// Makes a connection that takes commands.
    fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let params = HostParams { header_digest: true, data_digest: true, ..HostParams::default() };
        let mut queue = Self {
            stream,
            protocol: HostConnection::new(params),
            reads: HashMap::new(),
            next_cid: 0,
            done: HashMap::new(),
        };
        queue.protocol.set_in_capsule_data(8192);
        queue.flush();
        queue.pump(|event| matches!(event, HostReceived::Ready { .. }));
        queue
    }

    /// Returns an enabled controller: its admin queue and its identifier.
    pub(crate) fn controller(address: SocketAddr) -> (Self, u16) {
        let mut admin = Self::open(address);
        let mut host = Association::new(Settings {
            subsystem: NQN.to_owned(),
            host: HOST.to_owned(),
            host_id: HOST_ID,
            keep_alive: KEEP_ALIVE,
            queues: 0,
            weighted_round_robin: false,
            event_requests: 0,
            events: 0,
        });
        let start = Instant::now();
        let now = || Nanos::default() + start.elapsed();
        host.connect(now());
        loop {
            match host.poll_action() {
                Some(Action::Submit(AdminCommand { sqe, data, read_length })) => {
                    let (status, result, read) = admin.call(sqe, data, read_length);
                    host.answered(now(), &Cqe::new(sqe.cid.get(), 0, result, status), read);
                }
                Some(Action::Ready) => return (admin, host.facts().cntlid),
                Some(other) => assert!(matches!(other, Action::Event(_)), "{other:?}"),
                None => host.tick(now()),
            }
        }
    }

    fn flush(&mut self) {
        while self.protocol.tx().in_flight() || self.protocol.tx().begin() {
            let bytes: Vec<u8> = self.protocol.tx().slices().flatten().copied().collect();
            self.stream.write_all(&bytes).unwrap();
            self.protocol.tx().advance(bytes.len());
        }
    }

    /// Receives until an event satisfies `enough`.
    fn pump(&mut self, mut enough: impl FnMut(&HostReceived<'_>) -> bool) {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let n = self.stream.read(&mut buffer).expect("the target answers in time");
            assert!(n > 0, "the target closed the connection");
            let mut input = &buffer[..n];
            let mut over = false;
            while let Some(event) = self.protocol.next(&mut input).expect("the target is right") {
                over |= enough(&event);
                match event {
                    HostReceived::ReadData { cid, offset, bytes } => {
                        let data = self.reads.entry(cid).or_default();
                        let end = offset as usize + bytes.len();
                        data.resize(data.len().max(end), 0);
                        data[offset as usize..end].copy_from_slice(bytes);
                    }
                    HostReceived::Response { cid, cqe, .. } => {
                        let data = self.reads.remove(&cid).unwrap_or_default();
                        let cqe: Cqe = cqe;
                        self.done.insert(cid, (cqe.status(), cqe.result.get(), data));
                    }
                    _ => {}
                }
            }
            self.flush();
            if over {
                return;
            }
        }
    }

    /// Sends a command without waiting.
    pub(crate) fn submit(&mut self, sqe: Sqe, data: Option<Vec<u8>>, read: u32) -> u16 {
        let cid = self.next_cid;
        self.next_cid = (self.next_cid + 1) % 64;
        let sqe = Sqe { cid: U16::new(cid), ..sqe };
        self.protocol.submit(sqe, data, read).unwrap();
        self.flush();
        cid
    }

    /// Waits for a command's completion.
    pub(crate) fn wait(&mut self, cid: u16) -> (Status, u64, Vec<u8>) {
        if !self.done.contains_key(&cid) {
            self.pump(
                |event| matches!(event, HostReceived::Response { cid: done, .. } if *done == cid),
            );
        }
        let (status, result, data) = self.done.remove(&cid).unwrap();
        // M (bit 13) says that the error log has an entry.
        (Status::from_bits(status.bits() & !0x2000), result, data)
    }

    /// Says whether the target has sent anything that was not read yet.
    pub(crate) fn has_answers(&self) -> bool {
        self.stream.set_nonblocking(true).unwrap();
        let answers = self.stream.peek(&mut [0]).is_ok();
        self.stream.set_nonblocking(false).unwrap();
        answers
    }

    /// Sends a command and waits for its completion.
    pub(crate) fn call(
        &mut self,
        sqe: Sqe,
        data: Option<Vec<u8>>,
        read: u32,
    ) -> (Status, u64, Vec<u8>) {
        let cid = self.submit(sqe, data, read);
        self.wait(cid)
    }
}

/// Makes Connect for a queue of 64 entries, without submission queue flow control.
pub(crate) fn connect_command(qid: u16) -> Sqe {
    let kato_ms = u32::try_from(KEEP_ALIVE.as_millis()).unwrap();
    let (outstanding, kato_ms) = if qid == 0 { (31, kato_ms) } else { (63, 0) };
    commands::connect(qid, outstanding, kato_ms, None)
}

/// Returns the Connect data.
pub(crate) fn connect_data(cntlid: u16) -> Vec<u8> {
    commands::connect_data(HOST_ID, cntlid, NQN, HOST)
}

/// Makes Property Set of CC: enable.
pub(crate) fn enable_command() -> Sqe {
    commands::property_set(offset::CC, commands::CC_ENABLE)
}

/// Returns an I/O command on blocks of 4096 bytes of namespace 1.
pub(crate) fn io(opcode: u8, lba: u32, blocks: u32) -> Sqe {
    Sqe {
        opcode,
        nsid: U32::new(1),
        cdw10: U32::new(lba),
        cdw12: U32::new(blocks.saturating_sub(1)),
        ..Sqe::default()
    }
}

/// Deallocates blocks of namespace 1.
pub(crate) fn deallocate(lba: u64, blocks: u32) -> (Sqe, Vec<u8>) {
    commands::deallocate(1, lba, blocks)
}

/// Blocks that tell where they belong.
pub(crate) fn pattern(lba: u32, blocks: u32, salt: u8) -> Vec<u8> {
    (lba..lba + blocks)
        .flat_map(|block| {
            let mut bytes = vec![salt; 4096];
            bytes[..4].copy_from_slice(&block.to_le_bytes());
            bytes
        })
        .collect()
}
