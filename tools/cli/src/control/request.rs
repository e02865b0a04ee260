//! A request to the daemon.

use serde_json::{Value, json};
use sluice_config::{Call, Method};

/// A request to the daemon.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) params: Value,
}

impl Request {
    /// Makes the request of a method.
    pub(super) fn of<M: Call>(params: &M::Params) -> Self {
        // Parameters are objects with names as keys, which JSON always has.
        Self { method: M::METHOD, params: json!(params) }
    }

    /// Makes the request that only shows the changes.
    pub(super) fn dry(&self) -> Self {
        let mut request = self.clone();
        if let Some(params) = request.params.as_object_mut() {
            params.insert("dry_run".to_owned(), json!(true));
        }
        request
    }
}
