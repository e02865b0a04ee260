//! TCP sockets: listening ones, and the options of accepted ones; addresses and their interfaces.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use fabric::controller::MachineAddress;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_indextoname, if_nametoindex};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, getpeername, getsockopt,
    listen, setsockopt, socket, sockopt,
};
use nix::{getsockopt_impl, sockopt_impl};
use sluice_config::ListenAddress;

/// The socket option that keeps the headers of SYNs (linux/tcp.h).
const TCP_SAVE_SYN: libc::c_int = 27;
/// The socket option that reads a SYN's headers, once (linux/tcp.h).
const TCP_SAVED_SYN: libc::c_int = 28;

/// The most pending connections of a listening socket; net.core.somaxconn is 4096 by default.
const BACKLOG: i32 = 4096;

/// Attempts to bind an address that is in use, and the pause between them: a second in all.
const ATTEMPTS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// The handling of an address that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InUse {
    /// Fail at once: a running daemon's own sockets free their addresses when they are shut down.
    Fail,
    /// Retry for up to a second, as the daemon starts: io_uring keeps the sockets of a killed process until
    /// kernel workers have released its rings, some milliseconds after the exit.
    Retry,
}

impl InUse {
    /// Calls `bind`, again and after pauses where an address that is in use may become free.
    ///
    /// # Errors
    /// The error of the last `bind`.
    pub fn bind<T>(self, bind: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        self.attempt(bind, || std::thread::sleep(PAUSE))
    }

    fn attempt<T>(
        self,
        mut bind: impl FnMut() -> io::Result<T>,
        mut pause: impl FnMut(),
    ) -> io::Result<T> {
        if self == Self::Fail {
            return bind();
        }
        for _ in 1..ATTEMPTS {
            match bind() {
                Err(error) if error.raw_os_error() == Some(libc::EADDRINUSE) => pause(),
                result => return result,
            }
        }
        bind()
    }
}

/// Opens a listening socket. An IPv6 socket takes IPv6 connections only, so that both families can
/// have a listener on the same port. `prepare` sets options before hosts can connect.
///
/// # Errors
/// The address is in use, not of this machine, or not permitted.
pub fn listen_on(
    address: SocketAddr,
    in_use: InUse,
    prepare: impl FnOnce(&OwnedFd),
) -> io::Result<OwnedFd> {
    let fd = in_use.bind(|| bind_to(address))?;
    // Without this option a host's ToS gives its connection no class; all else works.
    let _ = set_int(&fd, libc::IPPROTO_TCP, TCP_SAVE_SYN, 1);
    prepare(&fd);
    listen(&fd, Backlog::new(BACKLOG)?)?;
    Ok(fd)
}

/// Returns a listener's address with the index of the interface that it names.
///
/// # Errors
/// This machine has no such interface; in words.
pub(crate) fn resolve(address: ListenAddress) -> Result<SocketAddr, String> {
    let Some(interface) = address.interface() else { return Ok(address.socket(0)) };
    // The index is accepted in place of the name.
    let index = if_nametoindex(interface).or_else(|error| interface.parse().map_err(|_| error));
    index.map(|index| address.socket(index)).map_err(|error| {
        format!(
            "cannot listen on {address}: this machine has no interface {interface} now: {error}: \
             choose an interface that `ip link` shows"
        )
    })
}

/// Returns the address of a socket with the name of its interface, where it is link-local.
#[must_use]
pub(crate) fn named(address: SocketAddr) -> ListenAddress {
    let plain = ListenAddress::from(address);
    let index = MachineAddress::from(address).interface;
    let name = (index != 0).then(|| if_indextoname(index).ok()).flatten();
    name.and_then(|name| plain.on(name.to_str().ok()?)).unwrap_or(plain)
}

/// Returns the addresses of this machine's interfaces that are up.
///
/// # Errors
/// The kernel does not list them: it does so by a netlink socket, which the process may not have.
pub(crate) fn machine_addresses() -> io::Result<Vec<MachineAddress>> {
    let up = getifaddrs()?.filter(|one| one.flags.contains(InterfaceFlags::IFF_UP));
    let rdma = rdma_interfaces();
    let known = up.filter_map(|one| {
        let mut known = MachineAddress::from(internet_address(&one.address?)?);
        // A sandbox that hides /sys shows none.
        known.has_rdma = rdma.is_empty() || rdma.contains(&one.interface_name);
        // Of IPv4 the kernel tells no interface.
        if matches!(known.address, IpAddr::V4(address) if address.is_link_local()) {
            known.interface = if_nametoindex(one.interface_name.as_str()).unwrap_or(0);
        }
        Some(known)
    });
    Ok(known.collect())
}

/// Returns the names of the network interfaces that RDMA devices have.
fn rdma_interfaces() -> BTreeSet<String> {
    let entries = |folder: PathBuf| {
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
    };
    let ports =
        entries("/sys/class/infiniband".into()).flat_map(|device| entries(device.join("ports")));
    let gids = ports.flat_map(|port| entries(port.join("gid_attrs/ndevs")));
    // A GID that is not set has no interface: reading it fails.
    gids.filter_map(|gid| Some(std::fs::read_to_string(gid).ok()?.trim().to_owned())).collect()
}

/// Returns an address of IPv4 or IPv6; `None` for one of another family.
fn internet_address(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address.as_sockaddr_in().map(|address| SocketAddr::from(*address));
    v4.or_else(|| address.as_sockaddr_in6().map(|address| SocketAddr::from(*address)))
}

/// Opens a socket that is bound to an address and does not listen: nobody can connect to it.
///
/// # Errors
/// As [`listen_on`].
pub(crate) fn bind_to(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let fd = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&fd, sockopt::ReuseAddr, &true)?;
    if address.is_ipv6() {
        setsockopt(&fd, sockopt::Ipv6V6Only, &true)?;
    }
    bind(std::os::fd::AsRawFd::as_raw_fd(&fd), &SockaddrStorage::from(address))?;
    Ok(fd)
}

/// Describes why listening on `address` failed, with the remedy.
#[must_use]
pub fn refusal(address: SocketAddr, error: &io::Error) -> String {
    let (ip, port) = (address.ip(), address.port());
    let advice = match error.raw_os_error() {
        Some(libc::EADDRINUSE) => format!(
            "another program listens there, or the kernel's own target (nvmet): \
             `ss -ltnp 'sport = :{port}'` shows which; end it, or choose another port"
        ),
        Some(libc::EADDRNOTAVAIL) => {
            let all = if address.is_ipv4() { "0.0.0.0" } else { "[::]" };
            format!(
                "this machine has no address {ip} now: choose an address that `ip address` shows, \
                 or {all} for all addresses"
            )
        }
        Some(libc::EACCES) => format!(
            "port {port} needs a privilege: give the daemon CAP_NET_BIND_SERVICE, lower `sysctl \
             net.ipv4.ip_unprivileged_port_start`, or choose a port above 1023"
        ),
        Some(libc::EAFNOSUPPORT) => {
            let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
            format!("{family} is switched off on this machine, or by RestrictAddressFamilies=")
        }
        _ => "choose another address or port".to_owned(),
    };
    format!("cannot listen on {}: {error}: {advice}", named(address))
}

/// The time without a packet from a peer after which the kernel sends TCP keep-alive probes.
pub const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(30);
/// The time between two TCP keep-alive probes.
pub const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// The number of TCP keep-alive probes that may stay unanswered.
pub const KEEP_ALIVE_COUNT: u32 = 3;
/// The time for which sent data or probes may stay unacknowledged (TCP_USER_TIMEOUT). After it the
/// connection is lost (ETIMEDOUT).
pub const USER_TIMEOUT: Duration = Duration::from_secs(60);

/// Returns the address of an accepted socket's peer.
///
/// # Errors
/// The connection is gone already.
pub fn peer(socket: &OwnedFd) -> io::Result<SocketAddr> {
    let address: SockaddrStorage = getpeername(std::os::fd::AsRawFd::as_raw_fd(socket))?;
    internet_address(&address).ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// Sets the options of an accepted socket: answers leave at once, and a peer that has vanished without a word is
/// noticed, independent of its keep-alive time.
///
/// # Errors
/// The kernel refuses an option.
pub fn prepare(socket: &OwnedFd) -> io::Result<()> {
    setsockopt(socket, sockopt::TcpNoDelay, &true)?;
    let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
    setsockopt(socket, sockopt::TcpKeepIdle, &seconds(KEEP_ALIVE_IDLE))?;
    setsockopt(socket, sockopt::TcpKeepInterval, &seconds(KEEP_ALIVE_INTERVAL))?;
    setsockopt(socket, sockopt::TcpKeepCount, &KEEP_ALIVE_COUNT)?;
    setsockopt(socket, sockopt::KeepAlive, &true)?;
    let milliseconds = u32::try_from(USER_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
    setsockopt(socket, sockopt::TcpUserTimeout, &milliseconds)?;
    Ok(())
}

/// Returns the ToS (IPv4) or traffic class (IPv6) byte that the peer connected with, from the
/// headers of its SYN, which [`listen_on`] asks the kernel to keep. `None` where the kernel kept
/// none (SYN cookies).
#[must_use]
pub fn received_tos(socket: &OwnedFd) -> Option<u8> {
    let mut header = [0u8; 128];
    let mut length = libc::socklen_t::try_from(header.len()).ok()?;
    // SAFETY: the kernel writes at most `length` bytes to `header`, which has that many.
    let result = unsafe {
        libc::getsockopt(
            std::os::fd::AsRawFd::as_raw_fd(socket),
            libc::IPPROTO_TCP,
            TCP_SAVED_SYN,
            header.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result != 0 || length < 2 {
        return None;
    }
    // IPv4: version 4 in the first four bits, ToS in the second byte. IPv6: version 6, then eight
    // bits of traffic class.
    match header[0] >> 4 {
        4 => Some(header[1]),
        6 => Some(header[0] << 4 | header[1] >> 4),
        _ => None,
    }
}

sockopt_impl!(
    /// The CPU that processed the last packet of a socket.
    IncomingCpu,
    GetOnly,
    libc::SOL_SOCKET,
    libc::SO_INCOMING_CPU,
    i32
);

/// Returns the CPU that received a socket's last packet, and receives its next ones while the interface distributes by
/// connection; `None` if the kernel has none.
#[must_use]
pub fn incoming_cpu(socket: &OwnedFd) -> Option<usize> {
    usize::try_from(getsockopt(socket, IncomingCpu).ok()?).ok()
}

/// Sets the DSCP of a socket's packets (IP_TOS, IPV6_TCLASS), and their priority in this machine's own queues
/// (SO_PRIORITY, 0 to 6).
///
/// # Errors
/// The kernel refuses.
pub fn set_dscp(socket: &OwnedFd, ipv6: bool, dscp: u8, priority: i32) -> io::Result<()> {
    let tos = libc::c_int::from(dscp & 0x3f) << 2;
    let (level, option) = if ipv6 {
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS)
    } else {
        (libc::IPPROTO_IP, libc::IP_TOS)
    };
    set_int(socket, level, option, tos)?;
    set_int(socket, libc::SOL_SOCKET, libc::SO_PRIORITY, priority)
}

/// The socket option that tells the groups of a local peer (asm-generic/socket.h).
const SO_PEERGROUPS: libc::c_int = 59;
/// The most groups that a process has (NGROUPS_MAX).
const GROUPS_MAX: usize = 65_536;

/// Returns the supplementary groups that the process at the other end of a local socket had when it
/// connected.
///
/// # Errors
/// It is no local socket, or the kernel is older than 4.13.
pub(crate) fn peer_groups(socket: &impl AsFd) -> io::Result<Vec<u32>> {
    let mut groups = vec![0_u32; 64];
    loop {
        let length = groups.len() * size_of::<u32>();
        let mut length = libc::socklen_t::try_from(length).map_err(io::Error::other)?;
        // SAFETY: the kernel writes at most `length` bytes to `groups`, which has that many.
        let result = unsafe {
            libc::getsockopt(
                std::os::fd::AsRawFd::as_raw_fd(&socket.as_fd()),
                libc::SOL_SOCKET,
                SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        let count = usize::try_from(length).unwrap_or(0) / size_of::<u32>();
        if result == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ERANGE) || groups.len() >= GROUPS_MAX {
            return Err(error);
        }
        // The kernel says how many there are.
        groups.resize(count.clamp(groups.len() + 1, GROUPS_MAX), 0);
    }
}

fn set_int(socket: &OwnedFd, level: i32, option: i32, value: libc::c_int) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(0);
    // SAFETY: the kernel reads `length` bytes of `value`, which has that many.
    let result = unsafe {
        libc::setsockopt(
            std::os::fd::AsRawFd::as_raw_fd(socket),
            level,
            option,
            (&raw const value).cast(),
            length,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the address a socket is bound to.
#[must_use]
pub fn local_address(socket: &OwnedFd) -> Option<SocketAddr> {
    let clone = socket.as_fd().try_clone_to_owned().ok()?;
    TcpListener::from(clone).local_addr().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::threads;

    fn refused(address: &str) -> String {
        let address = address.parse().unwrap();
        refusal(address, &listen_on(address, InUse::Fail, |_| {}).unwrap_err())
    }

    #[test]
    fn cpu_that_receives_a_connection_is_known() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for cpu in threads::allowed().unwrap() {
            let address = listener.local_addr().unwrap();
            // On loopback the sender's CPU receives.
            let connect = move || {
                threads::pin(cpu).unwrap();
                std::net::TcpStream::connect(address).unwrap()
            };
            let peer = std::thread::spawn(connect).join().unwrap();
            let (socket, _) = listener.accept().unwrap();
            assert_eq!(incoming_cpu(&socket.into()), Some(cpu));
            drop(peer);
        }
    }

    #[test]
    fn an_address_that_is_freed_in_time_is_bound() {
        let mut taken = Some(TcpListener::bind("127.0.0.1:0").unwrap());
        let address = taken.as_ref().unwrap().local_addr().unwrap();
        let mut pauses = 0;
        let free_last = || {
            pauses += 1;
            if pauses == ATTEMPTS - 1 {
                taken = None;
            }
        };
        InUse::Retry.attempt(|| bind_to(address), free_last).unwrap();
        let elsewhere = "192.0.2.1:4420".parse().unwrap();
        let no_pause = || panic!("this does not pass by itself");
        InUse::Retry.attempt(|| bind_to(elsewhere), no_pause).unwrap_err();
    }

    #[test]
    fn live_listener_on_busy_address_fails_without_a_pause() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let no_pause = || panic!("the control interface would wait");
        let bind = || bind_to(address).and_then(|fd| Ok(listen(&fd, Backlog::new(1)?)?));
        let error = InUse::Fail.attempt(bind, no_pause).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EADDRINUSE));
    }

    #[test]
    fn each_reason_not_to_listen_has_its_own_remedy() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let said = refused(&address.to_string());
        assert!(said.contains(&format!("ss -ltnp 'sport = :{}'", address.port())), "{said}");
        // The address is one for documentation (RFC 5737), which no machine has.
        let said = refused("192.0.2.1:4420");
        assert!(said.contains("no address 192.0.2.1 now") && said.contains("0.0.0.0"), "{said}");
        assert!(!said.contains("another"), "{said}");
        let refusal = |address: &str, errno| {
            refusal(address.parse().unwrap(), &io::Error::from_raw_os_error(errno))
        };
        let said = refusal("0.0.0.0:420", libc::EACCES);
        assert!(said.contains("CAP_NET_BIND_SERVICE") && !said.contains("another"), "{said}");
        let said = refusal("[::]:4420", libc::EAFNOSUPPORT);
        assert!(said.contains("IPv6 is switched off"), "{said}");
        let said = resolve("[fe80::1%nowhere0]:4420".parse().unwrap()).unwrap_err();
        assert!(said.contains("no interface nowhere0 now") && said.contains("ip link"), "{said}");
    }

    #[test]
    fn interfaces_have_names_and_indexes() {
        let lo: ListenAddress = "[fe80::1%lo]:4420".parse().unwrap();
        let socket = resolve(lo).unwrap();
        assert_eq!((named(socket), named(socket).to_string()), (lo, lo.to_string()));
        let by_index: ListenAddress = socket.to_string().parse().unwrap();
        assert_eq!(resolve(by_index), Ok(socket));
        let any: SocketAddr = "0.0.0.0:4420".parse().unwrap();
        assert_eq!(resolve(any.into()), Ok(any));
        assert_eq!(named(any), ListenAddress::from(any));
    }

    #[test]
    fn this_machine_has_its_loopback_address() {
        let loopback = IpAddr::from([127, 0, 0, 1]);
        assert!(machine_addresses().unwrap().iter().any(|known| known.address == loopback));
    }
}
