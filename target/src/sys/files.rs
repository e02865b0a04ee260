//! Files that the daemon creates. Only the daemon's user may read them, and their names outlive a
//! power failure.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The mode of files that the daemon creates, even if its umask permits more: such files hold hosts' data, or the
/// names of hosts that may have it.
const MODE: u32 = 0o600;

/// Creates a file, and opens it to read and write it.
///
/// # Errors
/// The file exists already, or cannot be created.
pub(crate) fn make(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(MODE).open(path)
}

/// Opens a file to read and write it, and creates it where it is missing.
///
/// # Errors
/// The file cannot be opened or created, or its folder cannot be synchronized.
pub(crate) fn open_or_make(path: &Path) -> io::Result<File> {
    match make(path) {
        Ok(file) => {
            sync_folder(path)?;
            Ok(file)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            OpenOptions::new().read(true).write(true).open(path)
        }
        Err(error) => Err(error),
    }
}

/// Synchronizes a file's folder, so that the file's name outlives a power failure.
///
/// # Errors
/// The folder cannot be synchronized.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_the_daemon_makes_is_its_own() {
        let folder = tempfile::tempdir().unwrap();
        for (name, open) in [("1", make as fn(&Path) -> io::Result<File>), ("2", open_or_make)] {
            let path = folder.path().join(name);
            let mode = open(&path).unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, MODE);
            assert!(make(&path).is_err(), "never in place of another");
            assert!(open_or_make(&path).is_ok());
        }
    }
}
