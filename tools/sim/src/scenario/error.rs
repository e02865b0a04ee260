//! Errors in a scenario.

use thiserror::Error;

use crate::load::{ShapeError, TraceError};
use crate::model::PlanError;
use crate::network::TopologyError;

/// A scenario that cannot be run.
#[derive(Debug, Error)]
pub enum ScenarioError {
    /// Not TOML, or a key or value that is not one.
    #[error(transparent)]
    Toml(#[from] toml::de::Error),
    /// A key has a value that it cannot have.
    #[error("`{key}` is {is}: {must}")]
    Value {
        /// The key, with the table that it is in.
        key: String,
        /// Its value.
        is: String,
        /// The valid values.
        must: String,
    },
    /// A key is missing.
    #[error("`{key}` is missing: {must}")]
    Missing {
        /// The key, with the table that it is in.
        key: String,
        /// The purpose of the key.
        must: &'static str,
    },
    /// Accesses cannot be like that.
    #[error("{at}: {error}")]
    Shape {
        /// The load.
        at: String,
        /// The error.
        error: ShapeError,
    },
    /// The topology cannot be.
    #[error("[topology]: {0}")]
    Topology(#[from] TopologyError),
    /// A trace cannot be read.
    #[error("{at}: {error}")]
    Trace {
        /// The load.
        at: String,
        /// The error.
        error: TraceError,
    },
    /// No model can be made from it.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// Makes an error of a value.
pub(super) fn value(
    key: impl Into<String>,
    is: impl ToString,
    must: impl Into<String>,
) -> ScenarioError {
    ScenarioError::Value { key: key.into(), is: is.to_string(), must: must.into() }
}
