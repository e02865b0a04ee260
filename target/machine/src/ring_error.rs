//! Reasons why there is no io_uring, told apart because each has another remedy: a kernel that is
//! too old, a kernel whose settings forbid it, a filter of system calls, and a limit on locked
//! memory.

use std::io;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use sluice_config::format_size;
use thiserror::Error;

use crate::container;

/// The reason why there is no ring, and the remedy.
#[derive(Debug, Error)]
pub enum RingError {
    /// io_uring_setup failed.
    #[error("io_uring cannot be set up: {}", explain(.0))]
    Setup(io::Error),
    /// An operation is missing.
    #[error("this kernel's io_uring has no {0}: Linux 6.1 or later is needed")]
    Missing(&'static str),
    /// Receive buffers could not be registered.
    #[error("the receive buffers cannot be registered: {}", explain(.0))]
    Buffers(io::Error),
}

impl RingError {
    /// Returns a command that removes the cause, if there is one.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Setup(error) | Self::Buffers(error) => {
                command(error.raw_os_error().unwrap_or(0), Limits::of_this_process())
            }
            Self::Missing(_) => None,
        }
    }
}

/// The settings of this machine that prevent io_uring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Limits {
    /// `kernel.io_uring_disabled`: 0 for all, 1 for a group only, 2 for nobody; `None`: the kernel
    /// has no such setting.
    disabled: Option<u8>,
    /// Whether this process's system calls are filtered (seccomp).
    filtered: bool,
    /// RLIMIT_MEMLOCK in bytes; `None`: no limit.
    locked: Option<u64>,
    /// Whether this process runs in a container.
    container: bool,
}

impl Limits {
    fn of_this_process() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let status = read("/proc/self/status");
        let seccomp = status.lines().find_map(|line| line.strip_prefix("Seccomp:"));
        let locked = getrlimit(Resource::RLIMIT_MEMLOCK).map_or(RLIM_INFINITY, |(soft, _)| soft);
        Self {
            disabled: read("/proc/sys/kernel/io_uring_disabled").trim().parse().ok(),
            filtered: seccomp.is_some_and(|mode| mode.trim() == "2"),
            locked: (locked != RLIM_INFINITY).then_some(locked),
            container: container::engine().is_some(),
        }
    }
}

/// Explains an error of a call of io_uring, and says what to do about it.
#[must_use]
pub fn explain(error: &io::Error) -> String {
    let errno = error.raw_os_error().unwrap_or(0);
    format!("{error}: {}", advice(errno, Limits::of_this_process()))
}

fn advice(errno: i32, limits: Limits) -> String {
    match (errno, limits) {
        (libc::ENOMEM, Limits { locked: Some(bytes), .. }) => format!(
            "the limit on locked memory is {}, too little for io_uring: raise RLIMIT_MEMLOCK \
             ({})",
            format_size(bytes),
            if limits.container {
                "option of Podman and Docker: --ulimit memlock=-1"
            } else {
                "LimitMEMLOCK=infinity in the unit, `ulimit -l unlimited`"
            }
        ),
        (libc::ENOMEM, _) => "there is too little memory".to_owned(),
        (libc::EPERM, Limits { disabled: Some(2), .. }) => {
            "io_uring is switched off on this machine: `sysctl kernel.io_uring_disabled=0`"
                .to_owned()
        }
        (libc::EPERM, Limits { disabled: Some(1), .. }) => {
            "io_uring is for a group only on this machine: add the daemon's user to the group of \
             `sysctl kernel.io_uring_group`, or `sysctl kernel.io_uring_disabled=0`"
                .to_owned()
        }
        (
            libc::EPERM | libc::EACCES | libc::ENOSYS,
            Limits { filtered: true, container: true, .. },
        ) => "the container's filter of system calls (seccomp) forbids it, as the default profiles of \
              engines do: allow io_uring_setup, io_uring_enter and io_uring_register in a profile \
              (option of Podman and Docker: --security-opt seccomp=FILE)"
            .to_owned(),
        (libc::EPERM | libc::EACCES | libc::ENOSYS, Limits { filtered: true, .. }) => {
            "a filter of system calls (seccomp) forbids it: allow io_uring_setup, io_uring_enter \
             and io_uring_register (SystemCallFilter= in the unit, the container's seccomp profile)"
                .to_owned()
        }
        (libc::EPERM | libc::EACCES, _) => {
            "a security module (SELinux, AppArmor) or the container's rules forbid it".to_owned()
        }
        (libc::ENOSYS, _) => {
            "this kernel has no io_uring: Linux 6.1 or later with CONFIG_IO_URING is needed"
                .to_owned()
        }
        (libc::EMFILE | libc::ENFILE, _) => {
            "there are no file descriptors left: raise LimitNOFILE= (`ulimit -n`)".to_owned()
        }
        _ => "Linux 6.1 or later is needed".to_owned(),
    }
}

/// Returns the command that removes the cause of an error, if a command can.
fn command(errno: i32, limits: Limits) -> Option<&'static str> {
    match (errno, limits) {
        // A container's limit is an option of its engine.
        (libc::ENOMEM, Limits { locked: Some(_), container: false, .. }) => {
            Some("ulimit -l unlimited")
        }
        (libc::EPERM, Limits { disabled: Some(1 | 2), .. }) => {
            Some("sysctl -w kernel.io_uring_disabled=0")
        }
        (libc::EMFILE | libc::ENFILE, _) => Some("ulimit -n 262144"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_remedy() {
        let free = Limits { disabled: Some(0), ..Limits::default() };
        let small = Limits { locked: Some(64 << 10), ..free };
        let filtered = Limits { filtered: true, ..free };
        let contained = Limits { container: true, ..filtered };
        let off = |how| Limits { disabled: Some(how), ..filtered };
        for (errno, limits, words) in [
            (libc::ENOMEM, small, "is 64 KiB, too little for io_uring: raise RLIMIT_MEMLOCK"),
            (libc::ENOMEM, free, "too little memory"),
            (libc::EPERM, off(2), "kernel.io_uring_disabled=0"),
            (libc::EPERM, off(1), "kernel.io_uring_group"),
            (libc::EPERM, filtered, "SystemCallFilter="),
            (libc::ENOSYS, filtered, "seccomp"),
            (libc::EPERM, contained, "--security-opt seccomp=FILE"),
            (libc::ENOSYS, contained, "--security-opt seccomp=FILE"),
            (libc::ENOMEM, Limits { container: true, ..small }, "--ulimit memlock=-1"),
            (libc::EPERM, free, "security module"),
            (libc::ENOSYS, free, "CONFIG_IO_URING"),
            (libc::EMFILE, small, "LimitNOFILE="),
            (libc::EINVAL, small, "Linux 6.1"),
        ] {
            let said = advice(errno, limits);
            assert!(said.contains(words), "{errno} {limits:?}: {said}");
            let repeated = command(errno, limits).is_none_or(|command| {
                ["ulimit -l unlimited", "kernel.io_uring_disabled=0", "ulimit -n"]
                    .iter()
                    .any(|words| command.contains(words) && said.contains(words))
            });
            assert!(repeated, "{errno} {limits:?}: the command differs from: {said}");
            let kernel = matches!(errno, libc::ENOSYS | libc::EINVAL) && !limits.filtered;
            assert_eq!(said.contains("Linux 6.1"), kernel, "{errno} {limits:?}: {said}");
        }
    }
}
