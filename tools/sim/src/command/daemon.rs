//! A running daemon: its configuration, its counters and its measurements.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sluice_config::answer::{Io, Qos, Statistics};
use sluice_config::client::Connection;
use sluice_config::{Call, call};

use super::counts::Counts;

/// A daemon that is asked.
#[derive(Debug)]
pub(super) struct Daemon(Connection);

/// Counters of some commands, and how long the commands took in the target.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    pub(super) seconds: f64,
    pub(super) commands: u64,
    pub(super) bytes: u64,
    pub(super) times: Counts,
}

impl Daemon {
    /// Connects.
    ///
    /// # Errors
    ///
    /// The daemon cannot be reached.
    pub(super) fn open(socket: &Path, patience: Duration) -> anyhow::Result<Self> {
        Ok(Self(Connection::open(socket, patience)?))
    }

    /// Calls a method.
    fn call<M: Call<Answer: DeserializeOwned>>(
        &mut self,
        params: &Value,
    ) -> anyhow::Result<M::Answer> {
        let answer = self.0.call(M::METHOD, params)?;
        serde_json::from_value(answer).with_context(|| {
            format!("the daemon's answer to {} is not understood", M::METHOD.name())
        })
    }

    /// Returns the configuration that runs, as a file.
    pub(super) fn configuration(&mut self) -> anyhow::Result<String> {
        Ok(self.call::<call::ConfigShow>(&json!({}))?.text)
    }

    /// Returns the state of quality of service.
    pub(super) fn qos(&mut self) -> anyhow::Result<Qos> {
        self.call::<call::QosShow>(&json!({}))
    }

    /// Returns the operations since the daemon's start, with histograms.
    pub(super) fn statistics(&mut self) -> anyhow::Result<Statistics> {
        self.call::<call::Statistics>(&json!({ "buckets": true }))
    }
}

/// Computes what operations have come since `before`.
pub(super) fn since(now: &Io, before: &Io, seconds: f64) -> Seen {
    let mut seen = Seen { seconds, ..Seen::default() };
    let kinds =
        [(&now.read, &before.read), (&now.write, &before.write), (&now.other, &before.other)];
    for (now, before) in kinds {
        seen.commands += now.operations.saturating_sub(before.operations);
        seen.bytes += now.bytes.saturating_sub(before.bytes);
        let times = Counts::of(&now.latency_ns);
        seen.times.merge(&times.since(&Counts::of(&before.latency_ns)));
    }
    seen
}

impl Seen {
    /// Adds what others have moved in the same time.
    pub(super) fn add(&mut self, other: &Self) {
        self.commands += other.commands;
        self.bytes += other.bytes;
        self.times.merge(&other.times);
    }
}
