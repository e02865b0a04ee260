//! Sleeping on a word of shared memory.

use std::ptr::{from_ref, null};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use nix::sys::time::TimeSpec;

/// Sleeps while the word is `value`, for at most `ns` nanoseconds of `CLOCK_MONOTONIC`. May return
/// earlier.
pub(crate) fn wait(word: &AtomicU32, value: u32, ns: u64) {
    #[cfg(test)]
    count::add();
    let timeout = TimeSpec::from_duration(Duration::from_nanos(ns));
    // SAFETY: the kernel reads the word and the timeout, both of which live longer than the call. It
    // writes nothing. Any result is a reason to look again.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            value,
            from_ref(timeout.as_ref()),
        )
    };
}

/// Wakes all threads that sleep on the word, in any process.
pub(crate) fn wake(word: &AtomicU32) {
    #[cfg(test)]
    count::add();
    // SAFETY: the kernel uses the word's address alone, as a key.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE,
            libc::c_int::MAX,
            null::<libc::timespec>(),
        )
    };
}

/// Futex calls of each thread.
#[cfg(test)]
pub(crate) mod count {
    use std::cell::Cell;

    thread_local! {
        static CALLS: Cell<u32> = const { Cell::new(0) };
    }

    pub(super) fn add() {
        CALLS.with(|calls| calls.set(calls.get() + 1));
    }

    /// Returns the number of futex calls that this thread has made.
    pub(crate) fn calls() -> u32 {
        CALLS.with(Cell::get)
    }
}
