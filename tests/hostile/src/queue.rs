//! A small blocking NVMe/TCP host.

use std::collections::HashMap;
use std::io::{Error, ErrorKind, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use fabric::Nanos;
use fabric::host::{Action, AdminCommand, Association, Settings};
use fabric::nvme::{Cqe, Sqe, Status};
use fabric::queue::{HostReceived, HostTransport};
use fabric::tcp::{HostConnection, HostParams};
use zerocopy::little_endian::U16;

use crate::commands::{self, KEEP_ALIVE};
use crate::{Identity, stamped};

/// Time that a target may take for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Identifiers of commands that are in use at one time.
const COMMANDS: u16 = 64;

/// The answer to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status, without M (bit 13), which says that the error log has an entry.
    pub status: Status,
    /// Dwords 0 and 1 of the completion queue entry.
    pub result: u64,
    /// The data of a read.
    pub data: Vec<u8>,
}

/// One queue of a host that keeps the rules.
#[derive(Debug)]
pub struct Queue {
    stream: TcpStream,
    protocol: HostConnection<Vec<u8>>,
    reads: HashMap<u16, Vec<u8>>,
    next_cid: u16,
    /// Answers that nobody has asked for yet.
    done: HashMap<u16, Answer>,
    /// The time since 1970 at which the last received bytes reached the socket.
    came: Duration,
}

fn wrong(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::InvalidData, what.to_string())
}

impl Queue {
    /// Connects queue `qid` of controller `cntlid`. Returns the controller's identifier too.
    ///
    /// # Errors
    /// The socket fails, or the target refuses Connect, with its status.
    pub fn connect(
        address: SocketAddr,
        host: &Identity,
        qid: u16,
        cntlid: u16,
    ) -> Result<(Self, u16)> {
        let mut queue = Self::open(address)?;
        let data = host.connect_data(cntlid);
        let Answer { status, result, .. } = queue.call(commands::connect(qid), Some(data), 0)?;
        if !status.is_success() {
            return Err(wrong(format!("Connect is refused: {status}")));
        }
        let [low, high, ..] = result.to_le_bytes();
        Ok((queue, u16::from_le_bytes([low, high])))
    }

    /// Makes a connection that takes commands.
    fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let params = HostParams { header_digest: true, data_digest: true, ..HostParams::default() };
        let mut queue = Self {
            stream,
            protocol: HostConnection::new(params),
            reads: HashMap::new(),
            next_cid: 0,
            done: HashMap::new(),
            came: Duration::ZERO,
        };
        stamped::enable(&queue.stream)?;
        queue.protocol.set_in_capsule_data(8192);
        queue.flush()?;
        queue.receive_until(|event| matches!(event, HostReceived::Ready { .. }))?;
        Ok(queue)
    }

    /// Returns an enabled controller: its admin queue and its identifier.
    ///
    /// # Errors
    /// The same as of [`Queue::connect`], or a step of the association fails.
    pub fn controller(address: SocketAddr, host: &Identity) -> Result<(Self, u16)> {
        let mut admin = Self::open(address)?;
        let mut association = Association::new(Settings {
            subsystem: host.subsystem.clone(),
            host: host.host.clone(),
            host_id: host.host_id,
            credentials: None,
            keep_alive: KEEP_ALIVE,
            queues: 0,
            weighted_round_robin: false,
            honours_retry_delays: false,
            event_requests: 0,
            events: 0,
        });
        let start = Instant::now();
        let now = || Nanos::default() + start.elapsed();
        association.connect(now());
        loop {
            match association.poll_action() {
                Some(Action::Submit(AdminCommand { sqe, data, read_length })) => {
                    let Answer { status, result, data } = admin.call(sqe, data, read_length)?;
                    let cqe = Cqe::new(sqe.cid.get(), 0, result, status);
                    association.answered(now(), &cqe, data);
                }
                Some(Action::Ready) => return Ok((admin, association.facts().cntlid)),
                Some(Action::Event(_)) => {}
                Some(other) => return Err(wrong(format!("{other:?}"))),
                None => association.tick(now()),
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        while self.protocol.tx().in_flight() || self.protocol.tx().begin() {
            let bytes: Vec<u8> = self.protocol.tx().slices().flatten().copied().collect();
            self.stream.write_all(&bytes)?;
            self.protocol.tx().advance(bytes.len());
        }
        Ok(())
    }

    /// Receives until an event satisfies `enough`.
    fn receive_until(&mut self, mut enough: impl FnMut(&HostReceived<'_>) -> bool) -> Result<()> {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let (n, came) = stamped::read(&self.stream, &mut buffer)?;
            self.came = came;
            if n == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let mut input = buffer.get(..n).unwrap_or_default();
            let mut over = false;
            while let Some(event) = self.protocol.next(&mut input).map_err(wrong)? {
                over |= enough(&event);
                match event {
                    HostReceived::ReadData { cid, offset, bytes } => {
                        let data = self.reads.entry(cid).or_default();
                        let start = offset as usize;
                        let end = start + bytes.len();
                        data.resize(data.len().max(end), 0);
                        if let Some(to) = data.get_mut(start..end) {
                            to.copy_from_slice(bytes);
                        }
                    }
                    HostReceived::Response { cid, cqe, .. } => {
                        let data = self.reads.remove(&cid).unwrap_or_default();
                        let status = Status::from_bits(cqe.status().bits() & !0x2000);
                        let answer = Answer { status, result: cqe.result.get(), data };
                        self.done.insert(cid, answer);
                    }
                    _ => {}
                }
            }
            self.flush()?;
            if over {
                return Ok(());
            }
        }
    }

    /// Sends a command that reads `read` bytes without waiting for its answer. Returns the
    /// command's identifier.
    ///
    /// # Errors
    /// The socket fails, or the queue cannot carry the command.
    pub fn submit(&mut self, sqe: Sqe, data: Option<Vec<u8>>, read: u32) -> Result<u16> {
        let cid = self.next_cid;
        self.next_cid = (self.next_cid + 1) % COMMANDS;
        let sqe = Sqe { cid: U16::new(cid), ..sqe };
        self.protocol.submit(sqe, data, read).map_err(wrong)?;
        self.flush()?;
        Ok(cid)
    }

    /// Waits for a command's answer.
    ///
    /// # Errors
    /// The socket fails; `InvalidData` where the target breaks the protocol.
    pub fn wait(&mut self, cid: u16) -> Result<Answer> {
        loop {
            if let Some(answer) = self.done.remove(&cid) {
                return Ok(answer);
            }
            self.receive_until(
                |event| matches!(event, HostReceived::Response { cid: done, .. } if *done == cid),
            )?;
        }
    }

    /// Sends a command and waits for its answer.
    ///
    /// # Errors
    /// The same as of [`Queue::submit`] and [`Queue::wait`].
    pub fn call(&mut self, sqe: Sqe, data: Option<Vec<u8>>, read: u32) -> Result<Answer> {
        let cid = self.submit(sqe, data, read)?;
        self.wait(cid)
    }

    /// Returns the time since 1970 at which the last received bytes reached the socket.
    #[must_use]
    pub fn came(&self) -> Duration {
        self.came
    }

    /// Returns whether the target has sent unread bytes.
    ///
    /// # Errors
    /// The socket fails.
    pub fn has_answers(&self) -> Result<bool> {
        self.stream.set_nonblocking(true)?;
        let answers = self.stream.peek(&mut [0]).is_ok();
        self.stream.set_nonblocking(false)?;
        Ok(answers)
    }
}
