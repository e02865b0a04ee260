//! The error of a backend that cannot be opened or resized.

use std::path::Path;
use std::{fmt, io};

use thiserror::Error;

use crate::access;

/// A backend that cannot be opened or resized, with the reason and what would be right.
#[derive(Clone, Debug, Error)]
#[error("{what}: {why}")]
pub struct BackendError {
    /// What kind of reason it is.
    pub cause: Cause,
    /// The file, device or setting.
    pub what: String,
    /// What is wrong and what would be right.
    pub why: String,
}

/// Why a backend cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// There is no such file or device, at least not now.
    Missing,
    /// Somebody has it: another namespace, the kernel, another program.
    InUse,
    /// It holds a file system or the like, and was never seen: only with `force`.
    HoldsData,
    /// It has become smaller, or is another device than the one that was seen.
    Changed,
    /// It cannot be served, or the operating system refuses.
    Unusable,
}

impl BackendError {
    pub(super) fn new(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self { cause: Cause::Unusable, what: what.to_string(), why: why.to_string() }
    }

    /// Makes an error of the operating system's.
    pub(super) fn io(path: &Path, error: &io::Error) -> Self {
        let gone = matches!(
            error.raw_os_error(),
            Some(libc::ENOENT | libc::ENXIO | libc::ENODEV | libc::ENOMEDIUM)
        );
        let cause = if gone { Cause::Missing } else { Cause::Unusable };
        Self { cause, ..Self::new(path.display(), access::explain(error, path)) }
    }

    pub(super) fn missing(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self { cause: Cause::Missing, ..Self::new(what, why) }
    }

    pub(super) fn in_use(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self { cause: Cause::InUse, ..Self::new(what, why) }
    }

    pub(super) fn holds_data(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self { cause: Cause::HoldsData, ..Self::new(what, why) }
    }

    pub(super) fn changed(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self { cause: Cause::Changed, ..Self::new(what, why) }
    }
}
