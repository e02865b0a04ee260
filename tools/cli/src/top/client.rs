//! Requests over one connection to the control socket that stays open.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sluice_config::Method;
use sluice_config::client::Connection;
use sluice_config::failure::{Failure, INVALID, NO_DAEMON, UNKNOWN_METHOD};

/// A connection to the daemon, made when it is needed, and again when it has ended.
#[derive(Debug)]
pub(super) struct Client {
    socket: PathBuf,
    /// The time that the daemon may be silent.
    patience: Duration,
    connection: Option<Connection>,
    /// The methods for which this daemon does not know the parameter `buckets`.
    plain: BTreeSet<Method>,
}

impl Client {
    pub(super) fn new(socket: &Path, patience: Duration) -> Self {
        Self { socket: socket.into(), patience, connection: None, plain: BTreeSet::new() }
    }

    /// Calls a method without parameters. Returns `None` where the daemon does not know the method.
    ///
    /// # Errors
    /// The daemon cannot be reached, is silent for too long, or refuses.
    pub(super) fn call(&mut self, method: Method) -> Result<Option<Value>, Failure> {
        match self.exchange(method, &json!({})) {
            Ok(result) => Ok(Some(result)),
            Err(failure) if failure.kind == UNKNOWN_METHOD => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Calls a method that can answer histograms, or without them where the daemon cannot.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub(super) fn call_for_buckets(&mut self, method: Method) -> Result<Option<Value>, Failure> {
        if !self.plain.contains(&method) {
            match self.exchange(method, &json!({ "buckets": true })) {
                Err(failure) if failure.kind == INVALID => {
                    self.plain.insert(method);
                }
                Err(failure) if failure.kind == UNKNOWN_METHOD => return Ok(None),
                outcome => return outcome.map(Some),
            }
        }
        self.call(method)
    }

    fn exchange(&mut self, method: Method, params: &Value) -> Result<Value, Failure> {
        let begun = Instant::now();
        if let Some(connection) = &mut self.connection {
            match connection.call(method, params) {
                Err(failure) if failure.kind == NO_DAEMON => {
                    self.connection = None;
                    self.plain.clear();
                    if begun.elapsed() >= self.patience {
                        return Err(failure);
                    }
                    // This is no silence: a daemon that was started again has ended the old
                    // connection.
                }
                outcome => return outcome,
            }
        }
        let mut connection = Connection::open(&self.socket, self.patience)?;
        let outcome = connection.call(method, params);
        let lost = outcome.as_ref().is_err_and(|failure| failure.kind == NO_DAEMON);
        self.connection = Some(connection).filter(|_| !lost);
        outcome
    }
}
