//! One request and its answer over the control socket.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use tokio_uring::net::UnixStream;

/// Where the daemon's socket is when it runs as a service.
const SERVICE: &str = "/run/sluicegate/control.sock";
/// Longest answer in bytes.
const ANSWER_MAX: usize = 64 << 20;
/// How much is read at once.
const CHUNK: usize = 64 << 10;

/// The socket to use: the one that was named, the service's, or that of the user's own daemon.
pub(crate) fn socket(named: Option<&Path>) -> PathBuf {
    let service = PathBuf::from(SERVICE);
    match named {
        Some(path) => path.into(),
        None if service.exists() => service,
        None => Some(users_own()).filter(|path| path.exists()).unwrap_or(service),
    }
}

/// Where a daemon listens that a user started.
fn users_own() -> PathBuf {
    let folder = match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(folder) if folder.is_absolute() => folder.join("sluicegate"),
        _ => PathBuf::from(format!("/tmp/sluicegate-{}", nix::unistd::geteuid())),
    };
    folder.join("control.sock")
}

/// Sends a request and answers its result.
///
/// # Errors
/// The daemon is not to be reached, or refuses.
pub(super) fn call(socket: &Path, method: &str, params: &Value) -> Result<Value> {
    let runtime = tokio_uring::Runtime::new(&tokio_uring::builder())
        .context("cannot use io_uring; is it allowed (sysctl kernel.io_uring_disabled)?")?;
    let line = json!({ "id": 1, "method": method, "params": params }).to_string() + "\n";
    let answer = runtime.block_on(exchange(socket, line.into_bytes()))?;
    let mut answer: Value = serde_json::from_slice(&answer)
        .with_context(|| format!("{} does not answer as sluiced does", socket.display()))?;
    if let Some(error) = answer.get("error") {
        let message = error.get("message").and_then(Value::as_str).unwrap_or("it does not say why");
        bail!("{message}");
    }
    Ok(answer.get_mut("result").map(Value::take).unwrap_or_default())
}

/// Sends a line and reads a line.
async fn exchange(socket: &Path, line: Vec<u8>) -> Result<Vec<u8>> {
    let stream = UnixStream::connect(socket).await.map_err(|error| unreachable(socket, &error))?;
    stream.write_all(line).await.0.context("the daemon ended the connection")?;
    let mut answer = Vec::new();
    loop {
        let (length, chunk) = stream.read(Vec::with_capacity(CHUNK)).await;
        let length = length.context("the daemon ended the connection")?;
        let chunk = chunk.get(..length).unwrap_or_default();
        if let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            answer.extend_from_slice(chunk.get(..end).unwrap_or_default());
            return Ok(answer);
        }
        answer.extend_from_slice(chunk);
        if length == 0 {
            bail!("the daemon ended the connection before it answered");
        }
        if answer.len() > ANSWER_MAX {
            bail!("the answer is longer than {ANSWER_MAX} bytes");
        }
    }
}

/// Says why the daemon is not to be reached, and what to do.
pub(crate) fn unreachable(socket: &Path, error: &io::Error) -> anyhow::Error {
    let path = socket.display();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => anyhow!(
            "sluiced is not running: nothing listens on {path}; start it (systemctl start \
             sluiced), or name its socket with --socket"
        ),
        ErrorKind::PermissionDenied => anyhow!(
            "no permission to use {path}; run this as root or as a member of the group that \
             owns the socket (group sluicegate)"
        ),
        _ => anyhow!("cannot connect to {path}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Answers one client's line with what `answer` makes of it.
    fn daemon(
        answer: impl FnOnce(Value) -> String + Send + 'static,
    ) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            let answer = answer(serde_json::from_str(&line).unwrap());
            (&stream).write_all(answer.as_bytes()).unwrap();
        });
        (folder, path)
    }

    #[test]
    fn a_large_answer_comes_whole() {
        let rows: Vec<u64> = (0..100_000).collect();
        let (_folder, path) = daemon(|request| {
            let rows: Vec<u64> = (0..100_000).collect();
            json!({ "id": request["id"], "result": [request["method"], rows] }).to_string() + "\n"
        });
        assert_eq!(call(&path, "m", &json!({})).unwrap(), json!(["m", rows]));
    }

    #[test]
    fn refusals_and_ends_are_errors() {
        let error = json!({"id": 1, "error": {"kind": "not_found", "message": "no such"}});
        let (_folder, path) = daemon(move |_| error.to_string() + "\n");
        assert_eq!(call(&path, "m", &json!({})).unwrap_err().to_string(), "no such");
        let (_folder, path) = daemon(|_| "{\"id\":1".into());
        let error = call(&path, "m", &json!({})).unwrap_err().to_string();
        assert!(error.contains("before it answered"), "{error}");
        let (_folder, path) = daemon(|_| "hello\n".into());
        let error = call(&path, "m", &json!({})).unwrap_err().to_string();
        assert!(error.contains("does not answer as sluiced"), "{error}");
    }

    #[test]
    fn a_daemon_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.sock");
        for dead in [false, true] {
            if dead {
                drop(UnixListener::bind(&path).unwrap());
            }
            let error = call(&path, "status", &json!({})).unwrap_err().to_string();
            assert!(error.contains("not running") && error.contains("--socket"), "{error}");
        }
    }
}
