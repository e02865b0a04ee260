//! A host that writes its PDUs by hand, without digests, and may leave anything out.

use std::io::{Error, Read, Result, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use fabric::nvme::{SglDescriptor, Sqe};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use zerocopy::IntoBytes;

use crate::{Identity, commands};

/// Time within which a target must answer, and accept sent bytes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A way to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// The host's address; `None`: any.
    pub from: Option<Ipv4Addr>,
    /// The address of a listener.
    pub to: SocketAddr,
}

impl From<SocketAddr> for Way {
    fn from(to: SocketAddr) -> Self {
        Self { from: None, to }
    }
}

impl Way {
    /// Makes a TCP connection.
    ///
    /// # Errors
    /// The system refuses the connection.
    pub fn connect(self) -> Result<TcpStream> {
        let Some(from) = self.from else { return TcpStream::connect(self.to) };
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&socket, &SocketAddr::from((from, 0)))?;
        connect(&socket, &self.to)?;
        Ok(TcpStream::from(socket))
    }
}

/// An initialized connection.
#[derive(Debug)]
pub struct Raw(pub TcpStream);

/// A PDU of the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// PDU type (byte 0).
    pub kind: u8,
    /// All bytes after the common header of 8.
    pub rest: Vec<u8>,
}

impl Reply {
    /// Returns 16 bits of the bytes after the common header, 0 behind their end.
    #[must_use]
    pub fn word(&self, at: usize) -> u16 {
        let byte = |at: usize| self.rest.get(at).copied().unwrap_or_default();
        u16::from_le_bytes([byte(at), byte(at + 1)])
    }

    /// Returns the status of a response capsule (bytes 15:14), without its phase tag.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.word(14) >> 1
    }
}

impl Raw {
    /// Makes a connection and initializes it.
    ///
    /// # Errors
    /// The socket fails.
    pub fn open(way: impl Into<Way>) -> Result<Self> {
        Self::initialize(way.into().connect()?)
    }

    /// Initializes an open connection.
    ///
    /// # Errors
    /// The socket fails.
    pub fn initialize(mut stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut initialize = [0; 128];
        (initialize[2], initialize[4]) = (128, 128);
        stream.write_all(&initialize)?;
        stream.read_exact(&mut [0; 128])?;
        Ok(Self(stream))
    }

    /// Connects with a given command and data. Returns the connection and the controller's
    /// identifier, or the status with which the target refuses.
    ///
    /// # Errors
    /// The socket fails.
    pub fn connect_with(
        way: impl Into<Way>,
        command: &Sqe,
        data: &[u8],
    ) -> Result<std::result::Result<(Self, u16), u16>> {
        Self::open(way)?.begin(command, data)
    }

    /// Connects over this connection as [`Raw::connect_with`] does.
    ///
    /// # Errors
    /// The socket fails.
    pub fn begin(
        mut self,
        command: &Sqe,
        data: &[u8],
    ) -> Result<std::result::Result<(Self, u16), u16>> {
        self.send(command, SglDescriptor::in_capsule(1024), data)?;
        let reply = self.receive()?;
        Ok(match reply.status() {
            0 => Ok((self, reply.word(0))),
            status => Err(status),
        })
    }

    /// Connects queue `qid` of controller `cntlid`, 0xffff for a new one.
    ///
    /// # Errors
    /// The socket fails, or the target refuses, with its status.
    pub fn connect(
        way: impl Into<Way>,
        host: &Identity,
        qid: u16,
        cntlid: u16,
    ) -> Result<(Self, u16)> {
        let data = host.connect_data(cntlid);
        Self::connect_with(way, &commands::connect(qid), &data)?
            .map_err(|status| Error::other(format!("Connect is refused: {status:#x}")))
    }

    /// Makes an enabled controller. Returns its admin queue and its identifier.
    ///
    /// # Errors
    /// The same as of [`Raw::connect`].
    pub fn controller(way: impl Into<Way>, host: &Identity) -> Result<(Self, u16)> {
        let (mut admin, cntlid) = Self::connect(way, host, 0, 0xffff)?;
        admin.send(&commands::enable(), SglDescriptor::default(), &[])?;
        admin.receive()?;
        Ok((admin, cntlid))
    }

    /// Returns a command capsule, with data in it or without.
    #[must_use]
    pub fn capsule(sqe: &Sqe, sgl: SglDescriptor, data: &[u8]) -> Vec<u8> {
        let length = u32::try_from(72 + data.len()).unwrap_or(u32::MAX);
        let mut pdu = vec![4, 0, 72, if data.is_empty() { 0 } else { 72 }];
        pdu.extend(length.to_le_bytes());
        pdu.extend(Sqe { flags: 0x40, sgl, ..*sqe }.as_bytes());
        pdu.extend(data);
        pdu
    }

    /// Sends a command capsule.
    ///
    /// # Errors
    /// The socket fails.
    pub fn send(&mut self, sqe: &Sqe, sgl: SglDescriptor, data: &[u8]) -> Result<()> {
        self.0.write_all(&Self::capsule(sqe, sgl, data))
    }

    /// Receives the next PDU.
    ///
    /// # Errors
    /// The socket fails.
    pub fn receive(&mut self) -> Result<Reply> {
        let mut header = [0; 8];
        self.0.read_exact(&mut header)?;
        let [kind, _, _, _, length @ ..] = header;
        let length = (u32::from_le_bytes(length) as usize).saturating_sub(header.len());
        let mut rest = vec![0; length];
        self.0.read_exact(&mut rest)?;
        Ok(Reply { kind, rest })
    }
}
