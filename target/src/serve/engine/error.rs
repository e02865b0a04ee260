//! The error of a change that the running target refuses.

use fabric::controller::ConfigError;
use thiserror::Error;

/// A change that the running target refuses, with the reason and the remedy.
#[derive(Debug, Error)]
pub enum EngineError {
    /// The object that the change names does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The object that the change adds exists already.
    #[error("{0}")]
    Exists(String),
    /// The change contradicts the configuration or the specification.
    #[error("{0}")]
    Invalid(String),
    /// The operating system refused (a port in use, a device that does not open).
    #[error("{0}")]
    System(String),
    /// The change would hurt hosts or data, and was not forced.
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
            | ConfigError::DuplicateSerial { .. }
            | ConfigError::NamespaceExists { .. }
            | ConfigError::HostExists { .. }
            | ConfigError::ListenerExists(_) => Self::Exists(text),
            _ => Self::Invalid(text),
        }
    }
}
