//! Requests over one connection to the control socket that stays open.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use crate::control::client::unreachable;

/// How long the daemon may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest answer in bytes.
const ANSWER_MAX: u64 = 64 << 20;

/// A connection that is made when it is needed, and again when it has ended.
#[derive(Debug)]
pub(super) struct Client {
    socket: PathBuf,
    stream: Option<BufReader<UnixStream>>,
    line: Vec<u8>,
}

impl Client {
    pub(super) fn new(socket: &Path) -> Self {
        Self { socket: socket.into(), stream: None, line: Vec::new() }
    }

    /// The result of a method without parameters; none where the daemon does not know it.
    ///
    /// # Errors
    /// The daemon is not to be reached, does not answer in time, or refuses.
    pub(super) fn call(&mut self, method: &str) -> anyhow::Result<Option<Value>> {
        let known = self.stream.is_some();
        let mut answer = self.exchange(method);
        if answer.is_err() {
            self.stream = None;
            if known {
                // A daemon that was started anew has ended the old connection.
                answer = self.exchange(method);
            }
        }
        if answer.is_err() {
            self.stream = None;
        }
        result(answer?)
    }

    fn exchange(&mut self, method: &str) -> anyhow::Result<Value> {
        let path = self.socket.display();
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => self.stream.insert(connect(&self.socket)?),
        };
        let request = json!({ "id": 1, "method": method, "params": {} }).to_string() + "\n";
        stream.get_mut().write_all(request.as_bytes()).context("the daemon has gone")?;
        self.line.clear();
        let length = stream
            .by_ref()
            .take(ANSWER_MAX)
            .read_until(b'\n', &mut self.line)
            .context("the daemon does not answer")?;
        if length == 0 {
            bail!("the daemon ended the connection");
        }
        serde_json::from_slice(&self.line)
            .with_context(|| format!("{path} does not answer as sluiced does"))
    }
}

fn connect(socket: &Path) -> anyhow::Result<BufReader<UnixStream>> {
    let stream = UnixStream::connect(socket).map_err(|error| unreachable(socket, &error))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(BufReader::with_capacity(64 << 10, stream))
}

fn result(mut answer: Value) -> anyhow::Result<Option<Value>> {
    if let Some(error) = answer.get("error") {
        if error.get("kind").and_then(Value::as_str) == Some("unknown_method") {
            return Ok(None);
        }
        let message = error.get("message").and_then(Value::as_str).unwrap_or("it does not say why");
        bail!("the daemon refuses: {message}");
    }
    Ok(answer.get_mut("result").map(Value::take))
}
