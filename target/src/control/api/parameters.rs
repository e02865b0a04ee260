//! Parameters that have the form of the configuration's settings.

use serde_json::Value;
use sluice_config::entry;
use sluice_config::fields::Fields;

use super::protocol::Failure;

/// Reads parameters by a reader of the configuration. Former names are logged.
pub(super) fn read<T>(
    params: &Value,
    read: impl FnOnce(Fields<'_>) -> Option<T>,
) -> Result<T, Failure> {
    let (value, notices) =
        entry::read_json(params, "the parameters", read).map_err(Failure::invalid)?;
    for notice in notices {
        tracing::warn!("a request on the control socket: {notice}");
    }
    Ok(value)
}

/// Reports parameters that passed their check and do not fit their type: a defect of the schema.
pub(super) fn inconsistent(what: &str, error: &serde_json::Error) -> Failure {
    debug_assert!(false, "{what}: {error}");
    Failure::invalid(format!("{what}: {error}"))
}
