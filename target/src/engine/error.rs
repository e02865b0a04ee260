//! The refusal of a change.

use fabric::controller::ConfigError;
use thiserror::Error;

/// A change that the running target refuses, with the reason and what would be right.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The object that the change names is not there.
    #[error("{0}")]
    NotFound(String),
    /// The object that the change adds is there already.
    #[error("{0}")]
    Exists(String),
    /// The change asks for something that cannot be.
    #[error("{0}")]
    Invalid(String),
    /// The operating system refused (a port in use, a device that does not open).
    #[error("{0}")]
    System(String),
    /// The target could do it, but hosts or data would be hurt: only with `force`.
    #[error("{0}")]
    Refused(String),
}

impl From<ConfigError> for EngineError {
    fn from(error: ConfigError) -> Self {
        let text = error.to_string();
        match error {
            ConfigError::NoSubsystem(_)
            | ConfigError::NoNamespace { .. }
            | ConfigError::NoHost { .. }
            | ConfigError::NoListener(_) => Self::NotFound(text),
            ConfigError::SubsystemExists(_)
            | ConfigError::NamespaceExists { .. }
            | ConfigError::HostExists { .. }
            | ConfigError::ListenerExists(_) => Self::Exists(text),
            _ => Self::Invalid(text),
        }
    }
}
