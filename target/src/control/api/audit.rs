//! The log of changes requested on the control socket: a line for each change made, and a limited number of lines
//! for each user's refused changes.

use std::sync::Mutex;
use std::time::Instant;

use fabric::Nanos;
use fabric::key_file::mask_keys;
use serde_json::Value;

use super::caller::Caller;
use super::protocol::Failure;
use crate::sys::line_bound::{LeftOut, LineBound};
use crate::sys::sync::lock;

/// The most characters of a request's parameters in the log.
const REQUEST_MAX: usize = 500;

/// The record, and the bound on its lines about changes that were refused.
#[derive(Debug)]
pub(super) struct Audit {
    started: Instant,
    /// The lines about refused changes, by user.
    refused: Mutex<LineBound<u32>>,
}

impl Audit {
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), refused: Mutex::default() }
    }

    /// Logs a change that a caller has made, or was not let make.
    pub(super) fn record(
        &self,
        caller: &Caller,
        method: &str,
        params: &Value,
        result: &Result<Value, Failure>,
    ) {
        let Caller { uid, pid, .. } = *caller;
        match result {
            Ok(_) => {
                let request = shortened(params);
                tracing::info!(uid, pid, method, request, "changed by the control socket");
            }
            Err(error) => {
                if lock(&self.refused).allows(self.now(), uid) {
                    let (error, request) = (&error.message, shortened(params));
                    tracing::warn!(uid, pid, method, request, %error, "a change was refused");
                }
            }
        }
    }

    /// Logs how many lines about refused changes were left out since it was last told, if that was long
    /// enough ago. Called with each request.
    pub(super) fn tell(&self) {
        let left_out = lock(&self.refused).tell(self.now());
        if let Some(LeftOut { lines: passed_over, most: uid }) = left_out {
            tracing::warn!(
                passed_over,
                uid,
                "lines about refused changes were left out of the log; most were about the user that \
                 is named"
            );
        }
    }

    /// Returns the number of lines that were left out since the start.
    #[cfg(test)]
    pub(super) fn left_out(&self) -> u64 {
        lock(&self.refused).left_out()
    }

    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Writes the parameters of a request, or their beginning. Keys in them are masked.
fn shortened(params: &Value) -> String {
    let mut request = mask_keys(&params.to_string());
    if let Some((end, _)) = request.char_indices().nth(REQUEST_MAX) {
        request.truncate(end);
        request.push('…');
    }
    request
}
