//! A congestion control in the kernel that takes its window from user space (feature `bpf`).
//!
//! Under it a pure controller is in sole control of the window: the kernel's part takes the window
//! from here, answers losses as Reno does, and leaves marks to the controller. The kernel's part is
//! a `struct_ops` program and needs Linux 6.4 with BPF, its type information
//! (`CONFIG_DEBUG_INFO_BTF`), and `CAP_BPF`, `CAP_NET_ADMIN` and `CAP_PERFMON`.
//!
//! A congestion control is known to the whole machine under its name. This one ends with
//! the [`WindowMap`], however the process ends; connections that have it by then keep it, with the
//! last window.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, PrintLevel};
use thiserror::Error;

/// The compiled program.
static PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/window.bpf.o"));

/// The name that the program gives to its congestion control.
pub(crate) const NAME: &str = "sluice_window";

/// The file in which the kernel tells its types.
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// The complaints of libbpf while the program was loaded.
static COMPLAINTS: Mutex<String> = Mutex::new(String::new());

/// The reason why the kernel did not take the program.
#[derive(Debug, Error)]
pub(crate) enum LoadError {
    /// The kernel does not tell its types.
    #[error(
        "{TYPES} is missing: the kernel must be built with CONFIG_BPF_SYSCALL and \
         CONFIG_DEBUG_INFO_BTF"
    )]
    NoTypes,
    /// The process may not load programs.
    #[error(
        "this process may not load BPF programs: it needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON \
         (with systemd: AmbientCapabilities=), or to be root"
    )]
    Forbidden,
    /// The name is registered already.
    #[error(
        "the congestion control {NAME} is registered already: another daemon of this machine has \
         it (`bpftool struct_ops list`)"
    )]
    Taken,
    /// The kernel refused the program for another reason.
    #[error(
        "the kernel did not take the congestion control {NAME}; Linux 6.4 or newer with \
         CONFIG_BPF_JIT is needed: {reason}{complaints}"
    )]
    Refused {
        /// The error of libbpf.
        reason: String,
        /// The complaints of libbpf before the error.
        complaints: String,
    },
}

/// The congestion control, registered for as long as this lives, and the windows of the sockets
/// that have it.
#[derive(Debug)]
pub(crate) struct WindowMap {
    windows: MapHandle,
    _link: Link,
    _object: Object,
}

impl WindowMap {
    /// Registers the congestion control.
    ///
    /// # Errors
    ///
    /// The kernel or the process lacks something, and the error names it.
    pub(crate) fn load() -> Result<Self, LoadError> {
        if !Path::new(TYPES).exists() {
            return Err(LoadError::NoTypes);
        }
        if registered() {
            return Err(LoadError::Taken);
        }
        complaints().clear();
        libbpf_rs::set_print(Some((PrintLevel::Warn, |_, line| complaints().push_str(&line))));
        Self::attach().map_err(|error| explain(&error))
    }

    fn attach() -> libbpf_rs::Result<Self> {
        let mut object = ObjectBuilder::default().open_memory(PROGRAM)?.load()?;
        let windows = object.maps().find(|map| map.name() == "windows");
        let windows = MapHandle::try_from(&windows.ok_or_else(not_there)?)?;
        let mut ops = object.maps_mut().find(|map| map.name() == "window").ok_or_else(not_there)?;
        let link = ops.attach_struct_ops()?;
        Ok(Self { windows, _link: link, _object: object })
    }

    /// Sets the window of a socket in packets; 0 is taken for 1. It holds from the next
    /// acknowledgement on.
    ///
    /// # Errors
    ///
    /// The kernel's, where `fd` is no socket, or memory is short.
    pub(crate) fn set_window(&self, fd: BorrowedFd<'_>, packets: u32) -> io::Result<()> {
        let key = fd.as_raw_fd().to_ne_bytes();
        let value = packets.max(1).to_ne_bytes();
        self.windows.update(&key, &value, MapFlags::ANY).map_err(|error| match error.kind() {
            ErrorKind::OutOfMemory => io::Error::from(io::ErrorKind::OutOfMemory),
            _ => io::Error::other(error),
        })
    }
}

/// Returns whether the kernel has a congestion control of this name.
fn registered() -> bool {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")
        .is_ok_and(|names| names.split_whitespace().any(|name| name == NAME))
}

fn complaints() -> std::sync::MutexGuard<'static, String> {
    COMPLAINTS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn not_there() -> libbpf_rs::Error {
    io::Error::new(io::ErrorKind::NotFound, "the program has no such map").into()
}

fn explain(error: &libbpf_rs::Error) -> LoadError {
    match error.kind() {
        ErrorKind::PermissionDenied => LoadError::Forbidden,
        ErrorKind::AlreadyExists => LoadError::Taken,
        _ => {
            let lines = complaints();
            LoadError::Refused {
                reason: format!("{error:#}"),
                complaints: if lines.is_empty() {
                    String::new()
                } else {
                    format!("\n{}", lines.trim_end())
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use qtcp::linux::{Info, options};

    use super::*;

    /// Makes the two ends of a connection over the loopback device.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (one, listener.accept().unwrap().0)
    }

    /// Sends data one way, and waits until it has come.
    fn send(from: &mut TcpStream, to: &mut TcpStream) {
        let chunk = vec![7; 10_000];
        for _ in 0..20 {
            from.write_all(&chunk).unwrap();
            to.read_exact(&mut vec![0; chunk.len()]).unwrap();
        }
        // The acknowledgement is in before the sender can be asked for it.
        to.write_all(b".").unwrap();
        from.read_exact(&mut [0]).unwrap();
    }

    /// Tests everything in turn, since the kernel takes one program of this name at a time.
    #[test]
    fn e1_kernel_uses_the_set_window() {
        let map = match WindowMap::load() {
            Ok(map) => map,
            Err(error @ (LoadError::NoTypes | LoadError::Forbidden)) => {
                eprintln!("not tried: {error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        assert!(matches!(WindowMap::load(), Err(LoadError::Taken)));
        let (mut here, mut there) = pair();
        options::set_congestion(here.as_fd(), NAME).unwrap();
        assert_eq!(options::congestion(here.as_fd()).unwrap(), NAME);
        let initial = Info::read(here.as_fd()).unwrap().snd_cwnd;
        send(&mut here, &mut there);
        assert_eq!(Info::read(here.as_fd()).unwrap().snd_cwnd, initial, "no other window was set");
        for window in [4, 40, 1, 0, 7] {
            map.set_window(here.as_fd(), window).unwrap();
            send(&mut here, &mut there);
            assert_eq!(Info::read(here.as_fd()).unwrap().snd_cwnd, window.max(1));
        }
        drop(map);
        send(&mut here, &mut there);
        assert_eq!(Info::read(here.as_fd()).unwrap().snd_cwnd, 7, "what it had last");
        drop((here, there));
        let (other, _there) = pair();
        assert!(options::set_congestion(other.as_fd(), NAME).is_err(), "it is gone");
    }
}
