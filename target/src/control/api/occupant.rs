//! The occupant of the control socket's path: nobody, a Sluicegate daemon, or another program.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::ControlError;

/// The longest path of a socket in bytes: sockaddr_un holds 108 with the final NUL, and the socket
/// is made under a name that is up to 16 bytes longer.
const PATH_MAX: usize = 91;
/// The time within which another program has to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest answer that is read, in bytes.
const ANSWER_MAX: u64 = 64 << 20;

/// The occupant of a path where a daemon can listen or already does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occupant {
    /// No process: the path is free, or a dead process has left its socket.
    Nobody,
    /// A Sluicegate daemon.
    Daemon,
}

/// Finds the occupant of a path.
///
/// # Errors
/// No socket can be made there.
pub(crate) fn of(path: &Path) -> Result<Occupant, ControlError> {
    let wrong = |detail: String, remedy| ControlError::Socket { path: path.into(), detail, remedy };
    if path.as_os_str().len() > PATH_MAX {
        let remedy = "set a shorter `control` in the configuration";
        return Err(wrong(format!("the path is longer than {PATH_MAX} bytes"), remedy));
    }
    match std::fs::symlink_metadata(path) {
        Ok(meta) if !meta.file_type().is_socket() => {
            let remedy = "move it away, or set another `control` in the configuration";
            Err(wrong("there is a file that is no socket".into(), remedy))
        }
        Ok(_) => match UnixStream::connect(path) {
            Ok(stream) if request(&stream, "status").is_some() => Ok(Occupant::Daemon),
            Ok(_) => Err(ControlError::Foreign { path: path.into() }),
            Err(_) => Ok(Occupant::Nobody),
        },
        Err(_) => Ok(Occupant::Nobody),
    }
}

/// Returns the answer of the daemon at a path to a method without parameters; `None` means no usable answer.
pub(crate) fn ask(path: &Path, method: &str) -> Option<Value> {
    request(&UnixStream::connect(path).ok()?, method)?.get("result").cloned()
}

/// Returns the answer to a request, where it is one of the control protocol.
fn request(mut stream: &UnixStream, method: &str) -> Option<Value> {
    let mut ask = || {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(format!("{}\n", json!({ "method": method })).as_bytes())?;
        let mut answer = Vec::new();
        BufReader::new(stream.take(ANSWER_MAX)).read_until(b'\n', &mut answer)?;
        Ok::<_, io::Error>(answer)
    };
    let answer: Value = serde_json::from_slice(&ask().ok()?).ok()?;
    answer.get("result").or(answer.get("error")).is_some().then_some(answer)
}
