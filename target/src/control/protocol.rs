//! Newline-delimited JSON: `{"id":1,"method":"namespace.add","params":{…}}` is answered by
//! `{"id":1,"result":…}` or `{"id":1,"error":{"kind":"not_found","message":"…"}}`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::engine::EngineError;
use crate::store::{Clash, StoreError};

/// Longest request in bytes.
pub const LINE_MAX: usize = 256 << 10;

/// A request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// Comes back in the answer: any JSON value.
    #[serde(default)]
    id: Value,
    method: String,
    #[serde(default)]
    params: Value,
}

/// What kind of failure an answer tells of, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The line is no request.
    BadRequest,
    /// There is no such method.
    UnknownMethod,
    /// The object is not there.
    NotFound,
    /// The object is there already, or something of it is another's.
    Exists,
    /// The parameters ask for something that cannot be.
    Invalid,
    /// The operating system refused.
    System,
    /// It could be done, but hosts or data would be hurt: only with `force`.
    Refused,
    /// The change could not be stored, and was not made.
    Store,
    /// Too many clients.
    Busy,
}

/// A request that was not fulfilled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// For programs.
    pub kind: ErrorKind,
    /// For people: what is wrong and what would be right.
    pub message: String,
}

impl Failure {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    pub(crate) fn exists(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Exists, message)
    }
}

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

/// Whether a line asks for a change, which may take long, and not only for what there is.
pub(super) fn changes(line: &[u8]) -> bool {
    let Ok(Request { method, .. }) = serde_json::from_slice(line) else { return false };
    let shows = ["status", "connections", "statistics"].contains(&method.as_str());
    !shows && !method.ends_with(".list") && !method.ends_with(".show")
}

/// Answers one request.
pub(crate) fn answer(
    line: &[u8],
    call: impl FnOnce(&str, &Value) -> Result<Value, Failure>,
) -> String {
    let request: Request = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(error) => {
            let message = format!(
                "this is no request ({error}); write one JSON object in a line: \
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

/// The answer that tells of a failure.
pub(crate) fn failure(id: &Value, failure: &Failure) -> String {
    json!({ "id": id, "error": failure }).to_string()
}
