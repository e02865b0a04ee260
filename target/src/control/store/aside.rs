//! Damaged files, kept under another name for the operator.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::sys::files;

/// The way in which a damaged file is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// The file itself, under another name.
    Renamed,
    /// A copy; the file stays in use.
    Copied,
}

/// Keeps a file as `FILE.damaged-SECONDS` (seconds since 1970), and never replaces another file.
/// Returns the new name.
///
/// # Errors
/// The file cannot be renamed or copied.
pub(super) fn set_aside(path: &Path, keep: Keep) -> io::Result<PathBuf> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut last = ErrorKind::AlreadyExists.into();
    for extra in 0..1000 {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".damaged-{}", since.as_secs() + extra));
        let name = PathBuf::from(name);
        let kept = match keep {
            Keep::Renamed => rename(path, &name),
            Keep::Copied => copy(path, &name),
        };
        match kept {
            Ok(()) => {
                files::sync_folder(&name)?;
                return Ok(name);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// Renames a file, and never replaces another one.
///
/// # Errors
/// The new name is in use, or the file cannot be renamed.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    use nix::errno::Errno;
    match renameat2(AT_FDCWD, from, AT_FDCWD, to, RenameFlags::RENAME_NOREPLACE) {
        Ok(()) => Ok(()),
        // Not every file system can look and rename in one step.
        Err(Errno::EINVAL | Errno::ENOSYS) => match to.symlink_metadata() {
            Ok(_) => Err(ErrorKind::AlreadyExists.into()),
            Err(_) => std::fs::rename(from, to),
        },
        Err(error) => Err(error.into()),
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = std::fs::File::open(from)?;
    let mut copy = files::make(to)?;
    io::copy(&mut source, &mut copy)?;
    copy.sync_all()
}
