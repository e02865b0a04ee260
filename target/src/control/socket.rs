//! The control socket's file: made without a moment at which others could use it, taken over from
//! a dead process, left to a living one.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::ControlError;
use crate::access;

/// Who may use the socket: its owner and group.
const MODE: u32 = 0o660;
/// Longest path of a socket: sockaddr_un holds 108 bytes with the final NUL, and the socket is
/// made under a name that is up to 16 bytes longer.
const PATH_MAX: usize = 91;

/// How long another program may take to say who it is.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest answer that is read of it, in bytes.
const ANSWER_MAX: u64 = 1 << 20;

/// A socket file that is removed with its owner.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Only our own: another process may have taken the path over.
        if std::fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Listens on `path`.
pub(super) fn listen(path: &Path) -> Result<(UnixListener, SocketFile), ControlError> {
    let refused = |error: io::Error| ControlError::Socket {
        path: path.into(),
        detail: access::explain(&error, path),
        remedy: "check the folder and its permissions, or set `control` in the configuration",
    };
    if path.as_os_str().len() > PATH_MAX {
        return Err(ControlError::Socket {
            path: path.into(),
            detail: format!("the path is longer than {PATH_MAX} bytes"),
            remedy: "set a shorter `control` in the configuration",
        });
    }
    folder(path).map_err(refused)?;
    vacant(path)?;
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}", std::process::id()));
    let fresh = PathBuf::from(name);
    let _ = std::fs::remove_file(&fresh);
    // Not by tokio-uring: it asks for SO_REUSEPORT, which kernels refuse for local sockets.
    let listener = UnixListener::bind(&fresh).map_err(refused)?;
    let finish = || {
        listener.set_nonblocking(true)?;
        std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(MODE))?;
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

/// Makes the folder where it is not there. One that another user made is not trusted.
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

/// Nothing living is at the path.
fn vacant(path: &Path) -> Result<(), ControlError> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if !meta.file_type().is_socket() => Err(ControlError::Socket {
            path: path.into(),
            detail: "there is a file that is no socket".into(),
            remedy: "move it away, or set another `control` in the configuration",
        }),
        Ok(_) => match UnixStream::connect(path) {
            Ok(stream) if is_ours(&stream) => Err(ControlError::Running { path: path.into() }),
            Ok(_) => Err(ControlError::Foreign { path: path.into() }),
            Err(_) => Ok(()),
        },
        Err(_) => Ok(()),
    }
}

/// Whether what listens at the other end answers as a daemon of ours.
fn is_ours(mut stream: &UnixStream) -> bool {
    let mut ask = || {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(b"{\"method\":\"status\"}\n")?;
        let mut answer = Vec::new();
        BufReader::new(stream.take(ANSWER_MAX)).read_until(b'\n', &mut answer)?;
        Ok::<_, io::Error>(answer)
    };
    let answer = ask().ok().and_then(|line| serde_json::from_slice::<Value>(&line).ok());
    answer.is_some_and(|answer| answer.get("result").or(answer.get("error")).is_some())
}
