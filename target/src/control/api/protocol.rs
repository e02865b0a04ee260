//! Lines of the control socket: a request in, an answer out.

use serde_json::{Value, json};
use sluice_config::Method;
use sluice_config::wire::RequestLine;
pub use sluice_config::wire::{ErrorKind, Failure, LINE_MAX};

use crate::control::store::{Clash, StoreError};
use crate::serve::engine::EngineError;

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let kind = match &error {
            EngineError::NotFound(_) => ErrorKind::NotFound,
            EngineError::Exists(_) => ErrorKind::Exists,
            EngineError::Invalid(_) => ErrorKind::Invalid,
            EngineError::System(_) => ErrorKind::System,
            EngineError::Refused(_) => ErrorKind::Refused,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<Clash> for Failure {
    fn from(clash: Clash) -> Self {
        Self::exists(clash.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new(ErrorKind::Store, format!("nothing was changed: {error}"))
    }
}

/// Returns whether a line requests a change, which may take long.
pub(super) fn changes(line: &[u8]) -> bool {
    let Ok(RequestLine { method, .. }) = serde_json::from_slice(line) else { return false };
    Method::from_name(&method).is_some_and(Method::changes)
}

/// Answers one request.
pub(crate) fn answer(
    line: &[u8],
    call: impl FnOnce(&str, &Value) -> Result<Value, Failure>,
) -> String {
    let request: RequestLine = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(error) => {
            let message = format!(
                "this is not a request ({error}); write one JSON object on one line: \
                 {{\"id\": 1, \"method\": \"status\", \"params\": {{}}}}"
            );
            return failure(&Value::Null, &Failure::new(ErrorKind::BadRequest, message));
        }
    };
    match call(&request.method, &request.params) {
        Ok(result) => json!({ "id": request.id, "result": result }).to_string(),
        Err(error) => failure(&request.id, &error),
    }
}

/// Returns the answer that reports a failure.
pub(crate) fn failure(id: &Value, failure: &Failure) -> String {
    json!({ "id": id, "error": failure }).to_string()
}
