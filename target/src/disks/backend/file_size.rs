//! The largest file that a file system can hold.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::Path;

use sluice_config::format_size;

use super::BackendError;
use crate::sys::words::coarse_size;

/// Checks that the file system of an open file can hold a file of `size` bytes, whether or not there is
/// room for all its blocks.
///
/// # Errors
/// It cannot: the message says how large its files may be.
pub(super) fn check(path: &Path, file: &File, size: u64) -> Result<(), BackendError> {
    let largest = largest(|offset| (&mut &*file).seek(SeekFrom::Start(offset)).is_ok());
    match refusal(size, largest) {
        Some(why) => Err(BackendError::new(path.display(), why)),
        None => Ok(()),
    }
}

fn refusal(size: u64, largest: u64) -> Option<String> {
    (size > largest).then(|| {
        format!(
            "{} is more than its file system can hold as one file, which is {}: give at most that as \
             size, or put the file on another file system (XFS holds files of 8 EiB)",
            format_size(size),
            coarse_size(largest)
        )
    })
}

/// Returns the largest offset to which the kernel lets a file be sought: the file system's bound on
/// sizes of files. A seek changes nothing, and takes no memory or space.
fn largest(mut can_seek: impl FnMut(u64) -> bool) -> u64 {
    let (mut possible, mut too_large) = (0, i64::MAX.unsigned_abs());
    if can_seek(too_large) {
        return too_large;
    }
    while too_large - possible > 1 {
        let middle = possible + (too_large - possible) / 2;
        if can_seek(middle) { possible = middle } else { too_large = middle }
    }
    possible
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIB: u64 = 1 << 40;

    #[test]
    fn the_largest_file_is_found_to_the_byte() {
        for bound in [0, 1, 4095, 16 * TIB - 4096, 16 * TIB, i64::MAX.unsigned_abs()] {
            assert_eq!(largest(|offset| offset <= bound), bound);
        }
    }

    #[test]
    fn a_size_beyond_the_largest_file_is_refused_with_both_sizes() {
        assert_eq!(refusal(16 * TIB - 4096, 16 * TIB - 4096), None);
        let why = refusal(100 * TIB, 16 * TIB - 1).unwrap();
        assert!(why.contains("100 TiB") && why.contains("at most"), "{why}");
    }

    #[test]
    fn a_file_of_this_machine_may_be_as_large_as_set_len_allows() {
        let file = tempfile::tempfile().unwrap();
        let bound = largest(|offset| (&file).seek(SeekFrom::Start(offset)).is_ok());
        assert!(check(Path::new("x"), &file, 1 << 30).is_ok());
        if bound < i64::MAX.unsigned_abs() {
            assert!(check(Path::new("x"), &file, bound + 1).is_err());
            let error = file.set_len(bound + 1).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EFBIG));
            file.set_len(bound).unwrap();
        }
    }
}
