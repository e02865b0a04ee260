//! A comparison of a file or device with its state when its namespace was open last.
//!
//! A file is compared by its size only: a file that was restored from a backup has another inode,
//! perhaps another file system, and is right. A device is compared by its size and the names that
//! it reports, not by its path, which changes with the order in which devices are found.

use std::path::Path;

use sluice_config::format_size;

use super::BackendError;
use crate::control::store::Seen;
use crate::sys::access;

/// The remedy where a file or device is not as it was.
const NEW_DISK: &str = "remove the namespace (or region) and add it again (a namespace may have another \
                        `uuid` in the configuration file instead), so that hosts see a new disk";

/// The present state of a file or device.
#[derive(Debug)]
pub(super) struct Present<'a> {
    pub(super) path: &'a Path,
    /// Size in bytes.
    pub(super) size: u64,
    /// The names that a device reports: a word and a value each.
    pub(super) names: &'a [(&'static str, String)],
}

/// Refuses a file or device that has become smaller, and a device that differs from the device seen before.
/// `configured` is the configured size in bytes.
///
/// # Errors
/// The file or device has become smaller, or another one is in its place.
pub(super) fn compare(
    seen: Option<&Seen>,
    now: &Present<'_>,
    configured: Option<u64>,
) -> Result<(), BackendError> {
    let Some(seen) = seen else { return Ok(()) };
    if let Some((word, then)) = seen.device.as_deref().and_then(|device| device.split_once(' '))
        && let Some((_, name)) = now.names.iter().find(|(known, _)| *known == word)
        && name != then
    {
        let why = format!(
            "this is another device than before: its {word} is {name}, and was {then}; connect the \
             right one, or correct the path; to serve this one, {NEW_DISK}"
        );
        return Err(BackendError::changed(now.path.display(), why));
    }
    let expected = configured.map_or(seen.size, |size| size.min(seen.size));
    if now.size < expected {
        let why = format!(
            "it has {} and had at least {} when it was open last: restore it; to serve it at this \
             size, {NEW_DISK}",
            format_size(now.size),
            format_size(expected)
        );
        return Err(BackendError::changed(now.path.display(), why));
    }
    Ok(())
}

/// Refuses blocks of another size than hosts know the disk with: they address it by block.
///
/// # Errors
/// The sizes differ.
pub(crate) fn compare_blocks(path: &Path, was: u32, is: u32) -> Result<(), BackendError> {
    if was == is {
        return Ok(());
    }
    let why = format!(
        "its blocks had {was} bytes when it was open last, and hosts address it by these: give \
         block_size = {was}; for blocks of {is} bytes, {NEW_DISK}"
    );
    Err(BackendError::changed(path.display(), why))
}

/// Makes the error of a file or device that does not exist, with the remedy.
pub(super) fn missing(path: &Path, seen: Option<&Seen>, size: Option<u64>) -> BackendError {
    let folder = access::advice(libc::ENOENT, path, &access::Facts::of(path));
    let why = match (folder, seen) {
        (Some(why), _) => why,
        _ if path.starts_with("/dev") => "there is no such device (see `lsblk`)".into(),
        (None, Some(seen)) => format!(
            "there is no such file any more; it had {} (is its file system mounted?); restore it, \
             or for a new one {NEW_DISK}",
            format_size(seen.size)
        ),
        (None, None) if size.is_some() => {
            "there is no such file; to create it, write create = true beside its size".into()
        }
        (None, None) => "there is no such file; to create it, give a size (in the configuration \
                         file create = true too)"
            .into(),
    };
    BackendError::missing(path.display(), why)
}

/// Returns the device name that the state file keeps.
pub(super) fn kept(names: &[(&'static str, String)]) -> Option<String> {
    names.first().map(|(word, value)| format!("{word} {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disks::backend::Cause;

    const MIB: u64 = 1 << 20;

    fn seen(device: Option<&str>) -> Seen {
        Seen { device: device.map(str::to_owned), ..Seen::for_tests(64 * MIB) }
    }

    fn against(
        seen: &Seen,
        size: u64,
        names: &[(&'static str, &str)],
        configured: Option<u64>,
    ) -> Result<(), BackendError> {
        let names: Vec<_> = names.iter().map(|(word, value)| (*word, (*value).into())).collect();
        let now = Present { path: Path::new("/dev/sdb"), size, names: &names };
        compare(Some(seen), &now, configured)
    }

    #[test]
    fn less_than_was_seen_is_refused_unless_the_configuration_asks_for_less() {
        let seen = seen(None);
        for (size, configured, fits) in [
            (64, None, true),
            (65, None, true),
            (63, None, false),
            // `size` would make it grow again, with zeroes where hosts had data.
            (10, Some(64), false),
            (64, Some(128), true),
            (32, Some(32), true),
            (31, Some(32), false),
        ] {
            let result = against(&seen, size * MIB, &[], configured.map(|size: u64| size * MIB));
            assert_eq!(result.is_ok(), fits, "{size} MiB, size = {configured:?}: {result:?}");
        }
        let error = against(&seen, 63 * MIB, &[], None).unwrap_err();
        assert_eq!(error.cause, Cause::Changed);
        assert!(error.to_string().contains("it has 63 MiB and had at least 64 MiB"), "{error}");
        let now = Present { path: Path::new("/x"), size: 1, names: &[] };
        compare(None, &now, None).unwrap();
    }

    #[test]
    fn another_device_is_refused_and_one_that_says_less_is_not() {
        let seen = seen(Some("serial S 1"));
        let same = against(&seen, 64 * MIB, &[("wwid", "naa.5"), ("serial", "S 1")], None);
        assert!(same.is_ok(), "a name that is new says nothing: {same:?}");
        assert!(against(&seen, 64 * MIB, &[], None).is_ok());
        let error = against(&seen, 64 * MIB, &[("serial", "S 2")], None).unwrap_err();
        assert_eq!(error.cause, Cause::Changed);
        assert!(error.to_string().contains("its serial is S 2, and was S 1"), "{error}");
    }

    #[test]
    fn a_missing_folder_is_not_called_a_missing_file() {
        let folder = tempfile::tempdir().unwrap();
        let text = |path: &Path, seen, size| {
            let error = missing(path, seen, size);
            assert_eq!(error.cause, Cause::Missing);
            error.to_string()
        };
        let inside = folder.path().join("none/disk");
        let no_folder = text(&inside, None, Some(1));
        let words = format!("the folder {} does not exist", folder.path().join("none").display());
        assert!(no_folder.contains(&words), "{no_folder}");
        assert!(!no_folder.contains("size"), "{no_folder}");
        let file = folder.path().join("disk");
        assert!(text(&file, None, None).contains("give a size"));
        assert!(text(&file, None, Some(1)).contains("create = true"));
        let known = seen(None);
        let gone = text(&file, Some(&known), Some(1));
        assert!(gone.contains("it had 64 MiB (is its file system mounted?)"), "{gone}");
        assert!(!gone.contains("create"), "{gone}");
        assert!(text(Path::new("/dev/sdzz"), None, Some(1)).contains("no such device"));
    }

    #[test]
    fn blocks_of_another_size_are_refused_with_both_sizes() {
        let path = Path::new("/srv/disk");
        assert!(compare_blocks(path, 4096, 4096).is_ok());
        let error = compare_blocks(path, 512, 4096).unwrap_err();
        assert_eq!(error.cause, Cause::Changed);
        let text = error.to_string();
        assert!(text.contains("give block_size = 512; for blocks of 4096 bytes, remove"), "{text}");
    }
}
