//! The machine: mapped files, futexes, locks of bytes, and the clock.

pub(crate) mod clock;
#[expect(unsafe_code, reason = "a system call without a safe function")]
pub(crate) mod futex;
pub(crate) mod lock;
#[expect(unsafe_code, reason = "a mapping, as a structure of atomic words")]
pub(crate) mod mapping;
