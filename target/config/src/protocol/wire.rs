//! The lines of the control socket: `{"id":1,"method":"namespace.add","params":{…}}` is answered
//! by `{"id":1,"result":…}` or `{"id":1,"error":{"kind":"not_found","message":"…"}}`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The longest request in bytes.
pub const LINE_MAX: usize = 256 << 10;

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestLine {
    /// Any JSON value, which comes back in the answer.
    #[serde(default)]
    pub id: Value,
    /// The method's name.
    pub method: String,
    /// The method's parameters.
    #[serde(default)]
    pub params: Value,
}

/// The kind of an answer's failure, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The line is not a request.
    BadRequest,
    /// There is no such method.
    UnknownMethod,
    /// The object does not exist.
    NotFound,
    /// The object exists already, or a part of it is another's.
    Exists,
    /// The parameters contradict the configuration or the specification.
    Invalid,
    /// The operating system refused.
    System,
    /// The change would hurt hosts or data, and was not forced.
    Refused,
    /// The change could not be stored, and was not made.
    Store,
    /// Too many clients.
    Busy,
    /// The caller may look, and change nothing.
    Denied,
}

impl ErrorKind {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::BadRequest,
        Self::UnknownMethod,
        Self::NotFound,
        Self::Exists,
        Self::Invalid,
        Self::System,
        Self::Refused,
        Self::Store,
        Self::Busy,
        Self::Denied,
    ];

    /// Returns the kind's name in an answer.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BadRequest => "bad_request",
            Self::UnknownMethod => "unknown_method",
            Self::NotFound => "not_found",
            Self::Exists => "exists",
            Self::Invalid => "invalid",
            Self::System => "system",
            Self::Refused => "refused",
            Self::Store => "store",
            Self::Busy => "busy",
            Self::Denied => "denied",
        }
    }
}

/// A request that was not fulfilled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind, for programs.
    pub kind: ErrorKind,
    /// The fault and the remedy, for people.
    pub message: String,
}

impl Failure {
    /// Makes a failure of a kind.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Makes the failure of parameters that are wrong.
    #[must_use]
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Makes the failure of an object that does not exist.
    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// Makes the failure of an object that exists already.
    #[must_use]
    pub fn exists(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Exists, message)
    }
}
