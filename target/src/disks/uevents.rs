//! Messages about devices that come and go: udev's messages, sent when a device has its name and its permissions,
//! and the kernel's, for machines and containers without udev.
//!
//! A message only wakes its receiver, which looks at the devices itself. So the sender does not matter, and only
//! the message's subsystem is used.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};

/// The multicast groups of NETLINK_KOBJECT_UEVENT, as bits: the kernel's is 1, udev's 2.
const GROUPS: u32 = 1 | 1 << 1;
/// The subsystems of namespaces' devices.
const SUBSYSTEMS: [&[u8]; 3] = [b"SUBSYSTEM=block", b"SUBSYSTEM=nvme", b"SUBSYSTEM=nvme-generic"];

/// A socket that receives the messages.
#[derive(Debug)]
pub(crate) struct Uevents {
    socket: OwnedFd,
}

impl Uevents {
    /// Opens the socket, which receives messages from now on. No privileges are needed.
    ///
    /// # Errors
    /// No netlink sockets are available: in a sandbox without AF_NETLINK, or on a kernel without
    /// them.
    pub(crate) fn listen() -> nix::Result<Self> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            SockProtocol::NetlinkKObjectUEvent,
        )?;
        // Port 0 lets the kernel choose one.
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, GROUPS))?;
        Ok(Self { socket })
    }

    /// Takes all pending messages. Returns whether any was about a device that a namespace may
    /// have, or was lost because there were too many.
    pub(crate) fn any(&self) -> bool {
        let mut buffer = [0; 8192];
        let mut any = false;
        loop {
            match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
                Ok(length) => any |= is_of_a_device(buffer.get(..length).unwrap_or_default()),
                Err(Errno::ENOBUFS) => any = true,
                Err(Errno::EINTR) => {}
                Err(_) => return any,
            }
        }
    }
}

impl AsFd for Uevents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns whether a message is about a device that a namespace may have. A message has `KEY=VALUE` strings with a
/// NUL after each, behind a header of the kernel or of udev.
fn is_of_a_device(message: &[u8]) -> bool {
    message.split(|byte| *byte == 0).any(|part| SUBSYSTEMS.contains(&part))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn messages_of_disks_are_told_from_others() {
        let kernel = b"add@/devices/virtual/block/loop0\0ACTION=add\0SUBSYSTEM=block\0SEQNUM=1\0";
        assert!(is_of_a_device(kernel));
        let mut udev = b"libudev\0\xfe\xed\xca\xfe\x28\0\0\0\x28\0\0\0\x80\0\0\0".to_vec();
        udev.resize(40, 0);
        udev.extend(b"ACTION=add\0SUBSYSTEM=nvme-generic\0DEVNAME=/dev/ng0n1\0");
        assert!(is_of_a_device(&udev));
        for other in [&b""[..], b"ACTION=add\0SUBSYSTEM=net\0", b"SUBSYSTEM=blockade", &[0; 64]] {
            assert!(!is_of_a_device(other));
        }
    }

    #[test]
    fn all_pending_messages_are_taken_and_one_of_a_disk_among_them_counts() {
        let (sender, receiver) = UnixDatagram::pair().unwrap();
        receiver.set_nonblocking(true).unwrap();
        let uevents = Uevents { socket: receiver.into() };
        assert!(!uevents.any(), "there is no message");
        let (disk, other) = (b"ACTION=add\0SUBSYSTEM=block\0", b"ACTION=add\0SUBSYSTEM=net\0");
        sender.send(other).unwrap();
        assert!(!uevents.any(), "no message is of a disk");
        for message in [&other[..], disk, other] {
            sender.send(message).unwrap();
        }
        assert!(uevents.any(), "one message is of a disk");
        assert!(!uevents.any(), "no message is left");
    }
}
