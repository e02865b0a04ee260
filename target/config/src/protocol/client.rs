//! The client's end of the control socket.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Method;
use crate::protocol::failure::{Failure, NO_DAEMON, PERMISSION};
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr, sockopt};
use nix::sys::time::TimeVal;
use serde_json::{Value, json};

/// Path of the daemon's socket when it runs as a service.
const SERVICE: &str = "/run/sluicegate/control.sock";
/// Longest answer in bytes.
const ANSWER_MAX: u64 = 64 << 20;
/// Number of bytes that are read at once.
const CHUNK: usize = 64 << 10;
/// Number of characters of a foreign program's answer that are shown.
const QUOTE_MAX: usize = 40;

/// Returns the socket to use: the socket named by an option or by `$SLUICEGATE_CONTROL`, else the service's, else
/// the socket of the user's own daemon.
pub fn socket(named: Option<&Path>) -> PathBuf {
    let variable = || std::env::var_os("SLUICEGATE_CONTROL").filter(|path| !path.is_empty());
    let service = PathBuf::from(SERVICE);
    match named.map(Path::to_owned).or_else(|| variable().map(PathBuf::from)) {
        Some(path) => path,
        None if service.exists() => service,
        None => Some(users_own()).filter(|path| path.exists()).unwrap_or(service),
    }
}

/// Returns the socket of a daemon that the user started.
fn users_own() -> PathBuf {
    let folder = match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(folder) if folder.is_absolute() => folder.join("sluicegate"),
        _ => PathBuf::from(format!("/tmp/sluicegate-{}", nix::unistd::geteuid())),
    };
    folder.join("control.sock")
}

/// A connection to the daemon.
#[derive(Debug)]
pub struct Connection {
    path: PathBuf,
    stream: BufReader<UnixStream>,
    line: Vec<u8>,
    patience: Duration,
}

impl Connection {
    /// Connects. No later call waits longer than `patience` for a daemon that is silent.
    ///
    /// # Errors
    /// The daemon cannot be reached.
    pub fn open(path: &Path, patience: Duration) -> Result<Self, Failure> {
        let stream = match connect(path, patience) {
            Ok(stream) => stream,
            Err(error) => return Err(unreachable(path, &error, patience)),
        };
        let stream = BufReader::with_capacity(CHUNK, stream);
        Ok(Self { path: path.into(), stream, line: Vec::new(), patience })
    }

    /// Sends a request. Returns the result. The daemon may take long while it gives signs of life:
    /// while it works on a change it sends a space every second.
    ///
    /// # Errors
    /// The daemon is silent for too long, has gone or refuses, or another program listens. Only
    /// after a refusal the connection can be used again.
    pub fn call(&mut self, method: Method, params: &Value) -> Result<Value, Failure> {
        let request = json!({ "id": 1, "method": method.name(), "params": params });
        let request = request.to_string() + "\n";
        let trouble = |error: &io::Error| self.trouble(method, error);
        if let Err(error) = self.stream.get_ref().write_all(request.as_bytes()) {
            return Err(trouble(&error));
        }
        self.line.clear();
        let answer = self.stream.by_ref().take(ANSWER_MAX).read_until(b'\n', &mut self.line);
        match answer {
            Err(error) => Err(self.trouble(method, &error)),
            Ok(_) if self.line.last() == Some(&b'\n') => self.result(),
            Ok(0) => Err(self.trouble(method, &ErrorKind::UnexpectedEof.into())),
            Ok(_) if !looks_like_ours(&self.line) => Err(self.foreign()),
            Ok(length) if length as u64 == ANSWER_MAX => Err(Failure::new(
                NO_DAEMON,
                format!("the answer is longer than {ANSWER_MAX} bytes"),
            )),
            Ok(_) => Err(self.trouble(method, &ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Returns the result in the answer.
    fn result(&self) -> Result<Value, Failure> {
        let mut answer: Value = serde_json::from_slice(&self.line).unwrap_or_default();
        let text = |of: &Value, key| of.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(error) = answer.get("error") {
            return Err(match text(error, "kind").zip(text(error, "message")) {
                Some((kind, message)) => Failure { kind, message },
                None => self.foreign(),
            });
        }
        match answer.get_mut("result").map(Value::take) {
            Some(result) if answer.get("id") == Some(&json!(1)) => Ok(result),
            _ => Err(self.foreign()),
        }
    }

    /// Makes the failure of a connection that broke before the answer had come.
    fn trouble(&self, method: Method, error: &io::Error) -> Failure {
        let what = match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => format!(
                "{} does not answer within {:?}{}; wait longer with --timeout",
                self.path.display(),
                self.patience,
                self.listener()
            ),
            _ => format!("the daemon ended the connection to {}", self.path.display()),
        };
        let hint = match method.changes() {
            true => "; the change may take effect anyway: check before you repeat it",
            false => "",
        };
        Failure::new(NO_DAEMON, what + hint)
    }

    /// Makes the failure of a listener that does not speak the control protocol.
    fn foreign(&self) -> Failure {
        let said = String::from_utf8_lossy(&self.line);
        let said: String = said.trim().chars().filter(|c| !c.is_control()).collect();
        let mut short: String = said.chars().take(QUOTE_MAX).collect();
        if short.len() < said.len() {
            short.push('…');
        }
        let message = format!(
            "the program that listens on {} is not sluiced{}: it answers \"{short}\"; name the \
             daemon's socket with --socket",
            self.path.display(),
            self.listener()
        );
        Failure::new(NO_DAEMON, message)
    }

    /// Returns the process at the other end in parentheses, where the kernel knows it.
    fn listener(&self) -> String {
        let peer = socket::getsockopt(self.stream.get_ref(), sockopt::PeerCredentials);
        let Some(pid) = peer.ok().map(|peer| peer.pid()).filter(|pid| *pid > 0) else {
            return String::new();
        };
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        match name.trim() {
            "" => format!(" (process {pid})"),
            name => format!(" (process {pid}, {name})"),
        }
    }
}

/// Returns whether a truncated line begins like a line of the daemon.
fn looks_like_ours(line: &[u8]) -> bool {
    line.trim_ascii_start().first().is_none_or(|first| *first == b'{')
}

/// Connects within `patience`. A plain connect would wait without end for a daemon that is stuck,
/// once its backlog is full.
fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let fd: OwnedFd = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    let limit = TimeVal::new(
        i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        patience.subsec_micros().into(),
    );
    socket::setsockopt(&fd, sockopt::SendTimeout, &limit)?;
    socket::setsockopt(&fd, sockopt::ReceiveTimeout, &limit)?;
    socket::connect(std::os::fd::AsRawFd::as_raw_fd(&fd), &UnixAddr::new(path)?)?;
    Ok(fd.into())
}

/// Says why the daemon cannot be reached, and what to do.
fn unreachable(path: &Path, error: &io::Error, patience: Duration) -> Failure {
    let shown = path.display();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => Failure::new(
            NO_DAEMON,
            format!(
                "sluiced is not running: nothing listens on {shown}; start it (systemctl start \
                 sluiced), or name its socket with --socket"
            ),
        ),
        ErrorKind::PermissionDenied => Failure::new(
            PERMISSION,
            format!(
                "no permission to use {shown}; run this as root or as a member of the group that \
                 owns the socket (group sluicegate)"
            ),
        ),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Failure::new(
            NO_DAEMON,
            format!(
                "{shown} accepts no connection within {patience:?}: too many wait already; look \
                 into the daemon's log (journalctl -u sluiced), or wait longer with --timeout"
            ),
        ),
        _ => Failure::new(NO_DAEMON, format!("cannot connect to {shown}: {error}")),
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
