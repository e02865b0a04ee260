//! Receiving with the time at which bytes came, which the kernel notes when they reach the socket.
//! The host's own wait for a CPU is left out.

use std::io::{IoSliceMut, Result};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt::ReceiveTimestampns,
};

/// Enables the kernel's timestamps of received bytes.
pub(crate) fn enable(stream: &TcpStream) -> Result<()> {
    Ok(setsockopt(stream, ReceiveTimestampns, &true)?)
}

/// Returns the time since 1970.
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Receives some bytes. Returns their number, and the time since 1970 at which the last of them came.
pub(crate) fn read(stream: &TcpStream, buffer: &mut [u8]) -> Result<(usize, Duration)> {
    let mut slices = [IoSliceMut::new(buffer)];
    let mut space = nix::cmsg_space!(nix::sys::time::TimeSpec);
    let fd = stream.as_raw_fd();
    let message = recvmsg::<()>(fd, &mut slices, Some(&mut space), MsgFlags::empty())?;
    let stamp = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::ScmTimestampns(time) => Some(Duration::from(time)),
        _ => None,
    });
    Ok((message.bytes, stamp.unwrap_or_else(now)))
}
