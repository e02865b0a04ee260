//! All settings of quality of service together.

use super::general::Qos;
use super::policy::Policy;
use super::session::Session;

/// Everything of the configuration that concerns quality of service and may change while the
/// daemon runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QosConfig {
    /// `[qos]`.
    pub general: Qos,
    /// `[[session]]`.
    pub sessions: Vec<Session>,
    /// `[[policy]]`.
    pub policies: Vec<Policy>,
}
