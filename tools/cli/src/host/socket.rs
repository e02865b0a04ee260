//! One TCP connection to a target, in the host role.

use std::io::{ErrorKind, IoSlice, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use fabric::queue::{HostReceived, HostTransport as _, Termination};
use fabric::tcp::{Fes, HostConnection, HostParams};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, connect, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike as _};

pub(crate) type Data = Rc<Vec<u8>>;

/// The time that the target may take to answer during set-up.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The most runs of bytes in one write; IOV_MAX is 1024.
const MAX_RUNS: usize = 256;

/// A connection and its socket.
#[derive(Debug)]
pub(crate) struct HostSocket {
    stream: TcpStream,
    pub(crate) connection: HostConnection<Data>,
    address: String,
}

impl HostSocket {
    /// Connects and exchanges ICReq and ICResp. The socket blocks, with a time limit. `tos` is the
    /// ToS or traffic class byte of all packets, from the first one on.
    pub(crate) fn connect(
        address: &str,
        params: HostParams,
        tos: Option<u8>,
    ) -> anyhow::Result<Self> {
        let resolved = resolve(address)?;
        let stream = open(resolved, tos).with_context(|| {
            format!(
                "cannot connect to {address}: is the target running, and does it listen there? \
                 (try -a ADDRESS:PORT)"
            )
        })?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        let mut socket =
            Self { stream, connection: HostConnection::new(params), address: address.to_owned() };
        socket
            .initialize()
            .with_context(|| format!("{address} did not answer as an NVMe/TCP target does"))?;
        Ok(socket)
    }

    fn initialize(&mut self) -> anyhow::Result<()> {
        let mut ready = false;
        self.flush()?;
        while !ready {
            let mut buffer = [0; 256];
            let n = self.read(&mut buffer)?.context("no ICResp within 10 s")?;
            let bytes = buffer.get(..n).unwrap_or_default();
            self.parse(bytes, |event| ready |= matches!(event, HostReceived::Ready { .. }))?;
        }
        Ok(())
    }

    /// Makes reads and writes return at once from here on.
    pub(crate) fn set_nonblocking(&self) -> anyhow::Result<()> {
        Ok(self.stream.set_nonblocking(true)?)
    }

    /// Reads the bytes that have come into `buffer`. Returns their number; `None` where nothing
    /// came in time.
    #[inline]
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> anyhow::Result<Option<usize>> {
        match self.stream.read(buffer) {
            Ok(0) => bail!("{} closed the connection", self.address),
            Ok(n) => Ok(Some(n)),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(None),
                _ => Err(error).with_context(|| format!("receiving from {}", self.address)),
            },
        }
    }

    /// Hands each event in `bytes` to `handle`.
    #[inline]
    pub(crate) fn parse(
        &mut self,
        bytes: &[u8],
        mut handle: impl FnMut(HostReceived<'_>),
    ) -> anyhow::Result<()> {
        let mut input = bytes;
        loop {
            match self.connection.next(&mut input) {
                Ok(Some(HostReceived::Terminated(reason))) => {
                    return Err(terminated(&self.address, reason));
                }
                Ok(Some(event)) => handle(event),
                Ok(None) => return Ok(()),
                Err(violation) => {
                    // The connection ends either way; the request tells the target why.
                    let _ = self.flush();
                    return Err(violation)
                        .with_context(|| format!("{} broke the protocol", self.address));
                }
            }
        }
    }

    /// Sends queued bytes, as far as the socket takes them. Returns whether all have been sent.
    #[inline]
    pub(crate) fn flush(&mut self) -> anyhow::Result<bool> {
        let tx = self.connection.tx();
        while tx.in_flight() || tx.begin() {
            let mut runs = [IoSlice::new(&[]); MAX_RUNS];
            let mut count = 0;
            for (run, slice) in runs.iter_mut().zip(tx.slices()) {
                *run = IoSlice::new(slice);
                count += 1;
            }
            match self.stream.write_vectored(runs.get(..count).unwrap_or_default()) {
                Ok(n) => {
                    tx.advance(n);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(error).with_context(|| format!("sending to {}", self.address));
                }
            }
        }
        Ok(true)
    }

    /// Returns the socket, and whether bytes wait for room in it.
    pub(crate) fn arm(&mut self) -> (BorrowedFd<'_>, bool) {
        (self.stream.as_fd(), self.connection.tx().in_flight())
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

/// Finds the IP address that HOST:PORT stands for.
pub(crate) fn resolve(address: &str) -> anyhow::Result<SocketAddr> {
    address
        .to_socket_addrs()
        .with_context(|| format!("{address} is not an address: write HOST:PORT"))?
        .next()
        .with_context(|| format!("no IP address is known for {address}: check the name"))
}

/// Opens a TCP connection within [`ANSWER_TIMEOUT`].
fn open(address: SocketAddr, tos: Option<u8>) -> anyhow::Result<TcpStream> {
    let (family, flags) = match address {
        SocketAddr::V4(_) => (AddressFamily::Inet, SockFlag::SOCK_CLOEXEC),
        SocketAddr::V6(_) => (AddressFamily::Inet6, SockFlag::SOCK_CLOEXEC),
    };
    let socket = socket(family, SockType::Stream, flags, None)?;
    if let Some(tos) = tos {
        match address {
            SocketAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4Tos, &tos.into()),
            SocketAddr::V6(_) => setsockopt(&socket, sockopt::Ipv6TClass, &tos.into()),
        }
        .context("setting the ToS")?;
    }
    // Bounds connect() too (socket(7)).
    let patience = TimeVal::seconds(i64::try_from(ANSWER_TIMEOUT.as_secs())?);
    setsockopt(&socket, sockopt::SendTimeout, &patience)?;
    match connect(socket.as_raw_fd(), &SockaddrStorage::from(address)) {
        Ok(()) => Ok(TcpStream::from(socket)),
        Err(Errno::EINPROGRESS) => bail!("no answer within 10 s"),
        Err(errno) => Err(errno.into()),
    }
}

fn terminated(address: &str, reason: Termination) -> anyhow::Error {
    let Termination { code: fes, information: fei } = reason;
    let known = [
        (Fes::InvalidHeaderField, "a PDU header field is invalid (at that offset)"),
        (Fes::SequenceError, "a PDU came out of sequence"),
        (Fes::HeaderDigest, "a header digest was wrong"),
        (Fes::DataOutOfRange, "data was out of range"),
        (Fes::LimitExceeded, "a data limit was exceeded"),
        (Fes::UnsupportedParameter, "a parameter (at that offset) is not supported"),
    ];
    let why = known.iter().find(|(code, _)| code.code() == fes).map_or("unknown", |(_, why)| why);
    anyhow::anyhow!(
        "{address} terminated the connection: {why} (fatal error status {fes:02x}h, information \
         {fei:#x})"
    )
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::getsockopt;

    use super::*;

    #[test]
    fn the_tos_is_set_for_both_families() {
        for (address, tos) in [("127.0.0.1:0", 0xb8), ("[::1]:0", 0x48)] {
            // A machine may have no IPv6.
            let Ok(listener) = std::net::TcpListener::bind(address) else { continue };
            let address = listener.local_addr().unwrap();
            let stream = open(address, Some(tos)).unwrap();
            let found = match address {
                SocketAddr::V4(_) => getsockopt(&stream, sockopt::Ipv4Tos),
                SocketAddr::V6(_) => getsockopt(&stream, sockopt::Ipv6TClass),
            };
            assert_eq!(found, Ok(i32::from(tos)), "{address}");
        }
    }
}
