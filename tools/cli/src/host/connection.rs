//! A connection to a target in the host role, over any transport.

use std::os::fd::BorrowedFd;

use anyhow::Context as _;
use fabric::nvme::{Cqe, Sqe};
use fabric::queue::{HostReceived, HostTransport as _, SubmitError};
use fabric::tcp::HostParams;

use super::access::{Access, Transport};
use super::queue_pair::HostQueuePair;
use super::queue_room::QueueRoom;
use super::socket::{Data, HostSocket};

/// The answer to an admin or Connect command.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) cqe: Cqe,
    pub(crate) data: Vec<u8>,
}

/// A connection that carries one queue.
#[derive(Debug)]
pub(crate) enum Connection {
    /// NVMe/TCP.
    Socket(Box<HostSocket>),
    /// NVMe/RDMA.
    QueuePair(Box<HostQueuePair>),
}

impl Connection {
    /// Connects over the transport that `access` names. Calls that receive wait, with a time limit.
    pub(crate) fn connect(
        access: &Access,
        params: HostParams,
        room: QueueRoom,
    ) -> anyhow::Result<Self> {
        let Access { transport, address, tos, .. } = access;
        Ok(match transport {
            Transport::Tcp => Self::Socket(Box::new(HostSocket::connect(address, params, *tos)?)),
            Transport::Rdma => {
                Self::QueuePair(Box::new(HostQueuePair::connect(address, room, *tos)?))
            }
        })
    }

    /// Prepares for load after Connect: `in_capsule_data` bytes of a write may travel in its capsule,
    /// and calls return at once from here on. `keeps_data` says whether anybody looks at what is read.
    pub(crate) fn begin_load(
        &mut self,
        in_capsule_data: u32,
        keeps_data: bool,
    ) -> anyhow::Result<()> {
        match self {
            Self::Socket(socket) => {
                socket.connection.set_in_capsule_data(in_capsule_data);
                socket.set_nonblocking()
            }
            Self::QueuePair(pair) => {
                pair.begin_load(in_capsule_data, keeps_data);
                Ok(())
            }
        }
    }

    /// Queues a command.
    ///
    /// # Errors
    /// As [`fabric::queue::HostTransport::submit`].
    #[inline]
    pub(crate) fn submit(
        &mut self,
        sqe: Sqe,
        data: Option<Data>,
        read_length: u32,
    ) -> Result<(), SubmitError> {
        match self {
            Self::Socket(socket) => socket.connection.submit(sqe, data, read_length),
            Self::QueuePair(pair) => pair.submit(sqe, data, read_length),
        }
    }

    /// Receives what has come, for [`Self::parse`]: a stream's bytes into `buffer`. Returns the number
    /// of bytes or capsules; `None` where nothing came in time.
    #[inline]
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> anyhow::Result<Option<usize>> {
        match self {
            Self::Socket(socket) => socket.read(buffer),
            Self::QueuePair(pair) => pair.read(),
        }
    }

    /// Hands each event in what was received to `handle`; `bytes` are those of a stream.
    #[inline]
    pub(crate) fn parse(
        &mut self,
        bytes: &[u8],
        handle: impl FnMut(HostReceived<'_>),
    ) -> anyhow::Result<()> {
        match self {
            Self::Socket(socket) => socket.parse(bytes, handle),
            Self::QueuePair(pair) => pair.parse(handle),
        }
    }

    /// Sends what is queued, as far as there is room for it. Returns whether all has been sent.
    #[inline]
    pub(crate) fn flush(&mut self) -> anyhow::Result<bool> {
        match self {
            Self::Socket(socket) => socket.flush(),
            Self::QueuePair(pair) => pair.flush(),
        }
    }

    /// Prepares for sleep until something comes. Returns the descriptor that becomes readable then, and
    /// whether bytes wait for room to be sent, for which it becomes writable; `None` where something has
    /// come already.
    pub(crate) fn arm(&mut self) -> anyhow::Result<Option<(BorrowedFd<'_>, bool)>> {
        match self {
            Self::Socket(socket) => Ok(Some(socket.arm())),
            Self::QueuePair(pair) => Ok(pair.arm()?.map(|fd| (fd, false))),
        }
    }

    /// Returns the target's address.
    fn address(&self) -> &str {
        match self {
            Self::Socket(socket) => socket.address(),
            Self::QueuePair(pair) => pair.address(),
        }
    }

    /// Sends one command and waits for its completion, on a connection that carries no other.
    pub(crate) fn execute(
        &mut self,
        sqe: Sqe,
        data: Option<Vec<u8>>,
        read_length: u32,
    ) -> anyhow::Result<Reply> {
        self.submit(sqe, data.map(Data::new), read_length)?;
        let mut reply = None;
        let mut read = vec![0; read_length as usize];
        let mut buffer = vec![0; 16 * 1024];
        while reply.is_none() {
            self.flush()?;
            let n = self.read(&mut buffer)?.with_context(|| {
                format!("{} did not answer a command within 10 s", self.address())
            })?;
            self.parse(buffer.get(..n).unwrap_or_default(), |event| match event {
                HostReceived::ReadData { offset, bytes, .. } => {
                    let range = offset as usize..offset as usize + bytes.len();
                    if let Some(place) = read.get_mut(range) {
                        place.copy_from_slice(bytes);
                    }
                }
                HostReceived::Response { cqe, .. } => reply = Some(cqe),
                _ => {}
            })?;
        }
        let cqe = reply.context("no completion")?;
        Ok(Reply { cqe, data: read })
    }
}
