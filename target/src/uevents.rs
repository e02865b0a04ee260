//! Signs of devices that come and go: the messages of udev, sent when a device has its name and
//! its permissions, and those of the kernel, for machines and containers without udev.
//!
//! A message is no more than a sign: whoever gets it looks for itself. So it need not be told who
//! sent it, and nothing of it is used but its subsystem.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket,
};

/// Multicast groups of NETLINK_KOBJECT_UEVENT, as bits: the kernel's is 1, udev's 2.
const GROUPS: u32 = 1 | 1 << 1;
/// Subsystems that namespaces' devices are of.
const SUBSYSTEMS: [&[u8]; 3] = [b"SUBSYSTEM=block", b"SUBSYSTEM=nvme", b"SUBSYSTEM=nvme-generic"];

/// A socket that gets the messages.
#[derive(Debug)]
pub(crate) struct Uevents {
    socket: OwnedFd,
}

impl Uevents {
    /// Listens from now on. No privileges are needed.
    ///
    /// # Errors
    /// There are no netlink sockets here: a sandbox without AF_NETLINK, or a kernel that is none.
    pub(crate) fn listen() -> nix::Result<Self> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            SockProtocol::NetlinkKObjectUEvent,
        )?;
        // Port 0: the kernel chooses one.
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, GROUPS))?;
        Ok(Self { socket })
    }

    /// Takes all messages that are there; whether any was about a device that a namespace may
    /// have, or may have been (messages are lost when there are too many).
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

/// Says whether a message is about a device that a namespace may have: `KEY=VALUE` strings with a
/// NUL after each, behind a header of either sender.
fn is_of_a_device(message: &[u8]) -> bool {
    message.split(|byte| *byte == 0).any(|part| SUBSYSTEMS.contains(&part))
}

#[cfg(test)]
mod tests {
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
    fn anybody_may_listen_and_nothing_there_is_no_sign() {
        // Where there are no netlink sockets there is nothing to show.
        if let Ok(uevents) = Uevents::listen() {
            uevents.any();
        }
    }
}
