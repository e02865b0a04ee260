//! The machine: futexes.

#[expect(unsafe_code, reason = "a system call without a safe function")]
pub(crate) mod futex;
