//! TCP sockets: listening ones, and the options of accepted ones.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, listen, setsockopt, socket,
    sockopt,
};

/// Pending connections of a listening socket.
const BACKLOG: i32 = 1024;

/// A listening socket. IPv6 ones take IPv6 connections only, so that both families can have a
/// listener on the same port.
///
/// # Errors
/// The address is in use, not of this machine, or not permitted.
pub fn listen_on(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let fd = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&fd, sockopt::ReuseAddr, &true)?;
    if address.is_ipv6() {
        setsockopt(&fd, sockopt::Ipv6V6Only, &true)?;
    }
    bind(std::os::fd::AsRawFd::as_raw_fd(&fd), &SockaddrStorage::from(address))?;
    listen(&fd, Backlog::new(BACKLOG)?)?;
    Ok(fd)
}

/// Sets the options of an accepted socket; answers the peer's address.
///
/// # Errors
/// The connection is gone already.
pub fn prepare(socket: &OwnedFd) -> io::Result<SocketAddr> {
    setsockopt(socket, sockopt::TcpNoDelay, &true)?;
    TcpStream::from(socket.as_fd().try_clone_to_owned()?).peer_addr()
}

/// The address a socket is bound to.
#[must_use]
pub fn local_address(socket: &OwnedFd) -> Option<SocketAddr> {
    let clone = socket.as_fd().try_clone_to_owned().ok()?;
    TcpListener::from(clone).local_addr().ok()
}
