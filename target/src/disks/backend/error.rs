//! The error of a backend that cannot be opened or resized.

use std::path::Path;
use std::{fmt, io};

use thiserror::Error;

use crate::sys::access;

/// A backend that cannot be opened or resized, with the reason and the remedy.
#[derive(Clone, Debug, Error)]
#[error("{what}: {why}")]
pub struct BackendError {
    /// The kind of reason.
    pub cause: Cause,
    /// The file, device or setting.
    pub what: String,
    /// The fault and the remedy, in words.
    pub why: String,
}

/// The kind of reason for which a backend cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The file or device does not exist, at least not now.
    Missing,
    /// Another namespace, the kernel or another program has the file or device.
    InUse,
    /// The device holds a file system or the like, and was never seen: `force` takes it.
    HoldsData,
    /// The file or device has become smaller, or another device is in its place.
    Changed,
    /// The file or device cannot be served, or the operating system refuses.
    Unusable,
}

impl BackendError {
    pub(super) fn new(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self { cause: Cause::Unusable, what: what.to_string(), why: why.to_string() }
    }

    /// Makes the error for a refusal of the operating system.
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
