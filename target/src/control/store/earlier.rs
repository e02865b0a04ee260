//! Copies of the state file from before its first write in a later format, for an operator who goes back
//! to an earlier daemon.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::aside::rename;
use crate::sys::files;

/// The most copies of one format.
const COPIES_MAX: usize = 1000;

/// Copies a state file of an earlier format as `FILE.format-FORMAT`, or with a number behind where that is
/// another file already. Returns the copy, which may be one of an earlier upgrade with the same content.
///
/// # Errors
/// The copy cannot be made. The file must not be written then.
pub(super) fn keep_copy(path: &Path, format: u64) -> io::Result<PathBuf> {
    let content = std::fs::read(path)?;
    for number in 1..=COPIES_MAX {
        let more = if number == 1 { String::new() } else { format!(".{number}") };
        let name = with_end(path, &format!(".format-{format}{more}"));
        match std::fs::read(&name) {
            Ok(other) if other == content => {
                // It is the latest copy again.
                let file = std::fs::File::options().append(true).open(&name);
                let _ = file.and_then(|file| file.set_modified(SystemTime::now()));
                return Ok(name);
            }
            Ok(_) => continue,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        // Under its name the copy is whole, whenever the machine fails.
        let part = with_end(path, ".part");
        match std::fs::remove_file(&part) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut copy = files::make(&part)?;
        copy.write_all(&content)?;
        copy.sync_all()?;
        rename(&part, &name)?;
        files::sync_folder(&name)?;
        return Ok(name);
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Returns the newest copy of a state file whose format is at most `known`; `None` if there is none.
pub(super) fn latest_copy(path: &Path, known: u64) -> Option<PathBuf> {
    let prefix = format!("{}.format-", path.file_name()?.to_str()?);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let entries = std::fs::read_dir(folder.unwrap_or(Path::new("."))).ok()?;
    let copies = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let name = entry.file_name();
        let format: u64 = name.to_str()?.strip_prefix(&prefix)?.split('.').next()?.parse().ok()?;
        let made = entry.metadata().ok()?.modified().ok()?;
        (format <= known).then(|| (made, entry.path()))
    });
    copies.max().map(|(_, copy)| copy)
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}
