//! Options of a socket: the kernel's congestion control, the pacing rate, the unsent bytes.

use std::io;
use std::os::fd::BorrowedFd;

use super::sys;
use crate::Rate;

/// `TCP_CA_NAME_MAX`: the room for the name of a congestion control, its final zero included.
const NAME: usize = 16;

/// The lowest rate that a socket can be paced at, in bytes per second.
///
/// The kernel waits for as long as the packets that it has just sent take at the rate of that
/// moment, two packets at least, and a higher rate later does not shorten the wait: at
/// this rate the wait is a third of a second. The kernel takes a rate of zero for no limit.
pub const LEAST_PACING: Rate = Rate::new(10_000.0);

/// Sets the kernel's congestion control of a socket: of a connection from now on, of a listener
/// for the connections it accepts, their SYN included.
///
/// # Errors
///
/// `NotFound` where the kernel has none of that name, `PermissionDenied` where it is not in
/// `tcp_allowed_congestion_control` and the process has no `CAP_NET_ADMIN`, `InvalidInput` where
/// the name is longer than 15 bytes.
pub fn set_congestion(fd: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let mut value = [0; NAME];
    match value.get_mut(..name.len()) {
        Some(room) if name.len() < NAME => room.copy_from_slice(name.as_bytes()),
        _ => {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("the congestion control {name:?} has a name of more than 15 bytes"),
            ));
        }
    }
    sys::set(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &value)
}

/// Reads the kernel's congestion control of a socket.
///
/// # Errors
///
/// The kernel's, where `fd` is no TCP socket.
pub fn congestion(fd: BorrowedFd<'_>) -> io::Result<String> {
    let (name, len) = sys::get::<[u8; NAME]>(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION)?;
    let name = name.get(..len).unwrap_or(&name).split(|&byte| byte == 0).next();
    Ok(String::from_utf8_lossy(name.unwrap_or_default()).into_owned())
}

/// Sets the rate that a connection may not exceed (`SO_MAX_PACING_RATE`); `None` is no limit.
/// Rates below [`LEAST_PACING`] become that rate. TCP's own pacing counts payload; behind the
/// queue discipline `fq` headers count too, 3 to 5 % of full packets.
///
/// Once a rate was set, the connection is paced until it ends, at the kernel's own rate
/// where there is no limit: somewhat above a window per round trip.
///
/// # Errors
///
/// The kernel's, where `fd` is no socket.
#[inline]
pub fn set_pacing_rate(fd: BorrowedFd<'_>, rate: Option<Rate>) -> io::Result<()> {
    let value = rate.map_or(u64::MAX, |rate| rate.max(LEAST_PACING).whole());
    sys::set(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &value)
}

/// Sets how many bytes a socket may hold unsent before it is no longer writable
/// (`TCP_NOTSENT_LOWAT`); `None` is the system's `tcp_notsent_lowat`.
///
/// # Errors
///
/// The kernel's, where `fd` is no TCP socket.
pub fn set_notsent_lowat(fd: BorrowedFd<'_>, bytes: Option<u32>) -> io::Result<()> {
    // A socket's setting of 0 means the system's.
    sys::set(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes.map_or(0, |bytes| bytes.max(1)))
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::super::Info;
    use super::super::info::tests::{fill, pair};
    use super::*;

    #[test]
    fn e1_a_connection_takes_the_congestion_control_it_is_given() {
        let (here, _there) = pair();
        // Reno is a part of every kernel, and allowed in every one.
        set_congestion(here.as_fd(), "reno").unwrap();
        assert_eq!(congestion(here.as_fd()).unwrap(), "reno");
        let unknown = set_congestion(here.as_fd(), "no-such-one").unwrap_err();
        assert!(matches!(unknown.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied));
        let long = set_congestion(here.as_fd(), "sixteen-byte-is-").unwrap_err();
        assert_eq!(long.kind(), ErrorKind::InvalidInput);
        assert_eq!(congestion(here.as_fd()).unwrap(), "reno");
    }

    #[test]
    fn e1_a_listener_hands_its_congestion_control_on() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_congestion(listener.as_fd(), "reno").unwrap();
        let _host = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert_eq!(congestion(accepted.as_fd()).unwrap(), "reno");
    }

    /// Measures how long it takes to send `bytes` to a peer that reads them all.
    fn time_of(here: &mut TcpStream, mut there: TcpStream, bytes: usize) -> Duration {
        let reader = thread::spawn(move || there.read_exact(&mut vec![0; bytes]));
        let start = Instant::now();
        here.write_all(&vec![0; bytes]).unwrap();
        reader.join().unwrap().unwrap();
        start.elapsed()
    }

    #[test]
    fn e1_the_pacing_rate_holds_and_is_lifted() {
        let (mut here, there) = pair();
        set_pacing_rate(here.as_fd(), Some(Rate::new(2e7))).unwrap();
        // A burst of the first packets is not paced.
        let time = time_of(&mut here, there.try_clone().unwrap(), 6_000_000);
        assert!(time > Duration::from_millis(200), "6 MB at 20 MB/s took only {time:?}");
        let paced = Info::read(here.as_fd()).unwrap();
        assert!(paced.pacing_rate.unwrap().bytes() <= 2e7);
        set_pacing_rate(here.as_fd(), None).unwrap();
        time_of(&mut here, there, 20_000_000);
        let free = Info::read(here.as_fd()).unwrap();
        assert!(free.pacing_rate.is_none_or(|rate| rate.bytes() > 2e7), "{free:?}");
    }

    #[test]
    fn e1_zero_rate_is_not_unlimited() {
        let (here, _there) = pair();
        // More than 4 GB/s: not cut to 32 bits.
        for (rate, set) in [(Rate::ZERO, 10_000), (Rate::new(1e10), 10_000_000_000)] {
            set_pacing_rate(here.as_fd(), Some(rate)).unwrap();
            let (value, _) =
                sys::get::<u64>(here.as_fd(), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE).unwrap();
            assert_eq!(value, set);
        }
    }

    #[test]
    fn e1_unsent_bytes_stay_within_their_bound() {
        let (here, _there) = pair();
        let set = |bytes| {
            set_notsent_lowat(here.as_fd(), bytes).unwrap();
            sys::get::<u32>(here.as_fd(), libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT).unwrap().0
        };
        assert_eq!(set(Some(65_536)), 65_536);
        fill(&here);
        let info = Info::read(here.as_fd()).unwrap();
        assert!(info.notsent_bytes < 2 * 65_536, "{info:?}");
        assert_eq!(set(None), 0, "the system's");
    }

    #[test]
    fn other_sockets_have_no_such_options() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(congestion(socket.as_fd()).is_err());
        assert!(set_congestion(socket.as_fd(), "reno").is_err());
        assert!(set_notsent_lowat(socket.as_fd(), Some(1)).is_err());
    }
}
