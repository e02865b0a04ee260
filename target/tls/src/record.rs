//! Records of TLS on a socket: the kernel's part of it, and records that are not data.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd as _, OwnedFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::sockopt::TcpUlp;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, TlsGetRecordType, recvmsg,
    send, setsockopt, socket,
};

/// Checks whether the kernel can take over records of TLS.
///
/// # Errors
/// It cannot: the module `tls` is not loaded, or the kernel was built without it.
pub fn is_supported() -> io::Result<()> {
    let any = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    match setsockopt(&any, TcpUlp::default(), b"tls") {
        // It would, on a socket that is connected.
        Ok(()) | Err(Errno::ENOTCONN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A record that is not data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// An alert: close_notify (0), or an error.
    Alert(u8),
    /// The peer changes the key by which it sends.
    KeyUpdate {
        /// Whether it wants the other end to do so too, before that sends data again.
        requested: bool,
    },
    /// Another record, which no peer may send once it is connected: its type (RFC 8446, section B.1).
    Other(u8),
}

/// The type of a KeyUpdate among handshake messages (RFC 8446, section 4).
const KEY_UPDATE: u8 = 24;

/// The types of records that have names (RFC 8446, section B.1).
const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;

/// Takes the record that has made a receive of a socket over TLS fail with EIO.
///
/// # Errors
/// There is none: the socket itself has failed.
pub fn take(socket: &OwnedFd) -> io::Result<Record> {
    let mut bytes = [0; 1 << 14];
    let mut space = cmsg_space!(u8);
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let flags = MsgFlags::MSG_DONTWAIT;
    let message = match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags) {
        Ok(message) => message,
        // The receive did not fail because of the kind of a record.
        Err(Errno::EAGAIN) => return Err(Errno::EIO.into()),
        Err(error) => return Err(error.into()),
    };
    let length = message.bytes;
    let kind = message.cmsgs()?.find_map(|control| match control {
        ControlMessageOwned::TlsGetRecordType(kind) => Some(kind),
        _ => None,
    });
    let bytes = bytes.get(..length).unwrap_or_default();
    Ok(match (kind, bytes) {
        (Some(TlsGetRecordType::Alert), [_, description]) => Record::Alert(*description),
        (Some(TlsGetRecordType::Handshake), [KEY_UPDATE, 0, 0, 1, requested @ (0 | 1)]) => {
            Record::KeyUpdate { requested: *requested == 1 }
        }
        (Some(TlsGetRecordType::Alert), _) => Record::Other(ALERT),
        (Some(TlsGetRecordType::Handshake), _) => Record::Other(HANDSHAKE),
        (Some(TlsGetRecordType::ChangeCipherSpec), _) => Record::Other(CHANGE_CIPHER_SPEC),
        (Some(TlsGetRecordType::Unknown(kind)), _) => Record::Other(kind),
        // Data makes no receive fail. The bytes taken out of the stream here are missing in it.
        _ => return Err(io::ErrorKind::InvalidData.into()),
    })
}

/// Sends a fatal alert before any key is in use (RFC 8446, sections 5.1 and 6).
pub(crate) fn alert_in_the_clear(socket: &OwnedFd, description: u8) -> io::Result<()> {
    const FATAL: u8 = 2;
    let record = [21, 3, 3, 0, 2, FATAL, description];
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    send(socket.as_raw_fd(), &record, flags)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_tls_says_so_and_one_with_it_takes_an_unconnected_socket_for_what_it_is() {
        match is_supported() {
            Ok(()) => {}
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "{error}"),
        }
    }
}
