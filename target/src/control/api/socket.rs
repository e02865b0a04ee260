//! The control socket's file. The socket appears under its path once its mode is set. A dead process's socket is
//! replaced, a running process's is left alone.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::unistd::Gid;

use super::ControlError;
use super::occupant::{self, Occupant};
use crate::sys::access;

/// The mode of the socket: its owner and group may use it.
const MODE: u32 = 0o660;

/// A socket file that is removed when this is dropped.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Another process may have taken the path over: only this process's socket is removed.
        if std::fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Listens on `path`, with a socket of that group where there is one.
pub(super) fn listen(
    path: &Path,
    group: Option<Gid>,
) -> Result<(UnixListener, SocketFile), ControlError> {
    let refused = |error: io::Error| ControlError::Socket {
        path: path.into(),
        detail: access::explain(&error, path),
        remedy: "check the folder and its permissions, or set `control` in the configuration",
    };
    let occupant = occupant::of(path)?;
    folder(path).map_err(refused)?;
    if occupant == Occupant::Daemon {
        return Err(ControlError::Running { path: path.into() });
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let fresh = PathBuf::from(name);
    let _ = std::fs::remove_file(&fresh);
    // The standard library binds the socket, since tokio-uring asks for SO_REUSEPORT, which kernels
    // refuse for local sockets.
    let listener = UnixListener::bind(&fresh).map_err(refused)?;
    let finish = || {
        listener.set_nonblocking(true)?;
        std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(MODE))?;
        if let Some(group) = group {
            std::os::unix::fs::chown(&fresh, None, Some(group.as_raw()))?;
        }
        std::fs::rename(&fresh, path)?;
        std::fs::symlink_metadata(path)
    };
    match finish() {
        Ok(meta) => Ok((listener, SocketFile { path: path.into(), inode: meta.ino() })),
        Err(error) => {
            let _ = std::fs::remove_file(&fresh);
            Err(refused(error))
        }
    }
}

/// Makes the folder where it is missing. A folder that another user made is not trusted.
fn folder(path: &Path) -> io::Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    if !folder.is_dir() {
        std::fs::DirBuilder::new().recursive(true).mode(0o750).create(folder)?;
    }
    let owner = std::fs::metadata(folder)?.uid();
    let own = nix::unistd::geteuid().as_raw();
    if owner != 0 && owner != own && own != 0 {
        return Err(io::Error::other(format!("{} belongs to another user", folder.display())));
    }
    Ok(())
}
