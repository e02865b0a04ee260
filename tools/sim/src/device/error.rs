//! A fault in the properties of a device.

/// A property that no device can have.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{key}` is {value}: it must be {range}")]
pub struct SettingsError {
    /// The key.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// The valid range.
    pub range: &'static str,
}

/// Checks that a property fits.
///
/// # Errors
///
/// It does not.
pub(super) fn require(
    key: &'static str,
    fits: bool,
    value: impl ToString,
    range: &'static str,
) -> Result<(), SettingsError> {
    if fits { Ok(()) } else { Err(SettingsError { key, value: value.to_string(), range }) }
}
