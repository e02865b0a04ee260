//! Explanations of the state file's errors for the operator.

use std::io;
use std::path::Path;

use redb::Error as RedbError;

use super::model::StoreError;
use crate::sys::access;

/// Returns the error for a damaged state file.
pub(super) fn damaged(file: &str, detail: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged { file: file.into(), detail: detail.to_string() }
}

/// Explains an error of the operating system to the operator.
pub(super) fn unusable(file: &str, error: &io::Error) -> StoreError {
    let detail = || access::explain(error, Path::new(file));
    let file: String = file.into();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            StoreError::Full { file }
        }
        io::ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly { detail: detail(), file },
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
            StoreError::Damaged { file, detail: error.to_string() }
        }
        _ => StoreError::Unusable { detail: detail(), file },
    }
}

/// Explains a database error to the operator.
pub(super) fn explain(file: &str, error: RedbError) -> StoreError {
    match error {
        RedbError::Io(error) => unusable(file, &error),
        RedbError::DatabaseAlreadyOpen => StoreError::InUse { file: file.into() },
        other => damaged(file, other),
    }
}
