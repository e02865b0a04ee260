//! System calls for socket options as plain values.

use core::ffi::c_int;
use core::mem::{MaybeUninit, size_of};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A value that the kernel reads from, or writes to, memory as it is.
///
/// # Safety
///
/// The type has no padding that is read, no references, and every pattern of bits is a value of
/// it, all zeroes among them.
pub(super) unsafe trait Plain: Copy {}

// SAFETY: every pattern of bits is a number.
unsafe impl Plain for u32 {}
// SAFETY: every pattern of bits is a number.
unsafe impl Plain for u64 {}
// SAFETY: every pattern of bits is an array of bytes.
unsafe impl<const N: usize> Plain for [u8; N] {}
// SAFETY: a C struct of unsigned numbers alone, whose size is the sum of its fields.
unsafe impl Plain for super::tcp_info::Raw {}

/// Reads an option. Returns also how many bytes of it the kernel filled in; the rest are zeroes.
#[inline]
pub(super) fn get<T: Plain>(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
) -> io::Result<(T, usize)> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = libc::socklen_t::try_from(size_of::<T>()).unwrap_or(libc::socklen_t::MAX);
    // SAFETY: the descriptor is open for as long as it is borrowed; `value` has `len` bytes, and
    // the kernel writes no more than that.
    let result = unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut len)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed, then partly written by the kernel; any bits are a value of a `Plain` type.
    Ok((unsafe { value.assume_init() }, usize::try_from(len).unwrap_or(0)))
}

/// Sets an option.
#[inline]
pub(super) fn set<T: Plain>(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: &T,
) -> io::Result<()> {
    let len = libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0);
    // SAFETY: the descriptor is open for as long as it is borrowed; `value` has `len` bytes, which
    // the kernel only reads.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const *value).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Opens a TCP socket that is connected to nothing.
pub(super) fn tcp_socket() -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let fd = unsafe {
        libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, libc::IPPROTO_TCP)
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it, and nothing else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
