//! Errors of setups that cannot be modelled.

/// The reason why a setup cannot be modelled.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The setup has no classes.
    #[error("there are no classes: name at least one")]
    NoClasses,
    /// A number that is not in its range.
    #[error("{what} is {value}: it must be {range}")]
    Range {
        /// The number, and whether it is the link's or which class's.
        what: String,
        /// The value of the number.
        value: f64,
        /// The values that the number may have.
        range: &'static str,
    },
}

/// Refuses NaN, and a number outside of its range.
pub(super) fn require(
    what: &str,
    value: f64,
    allowed: core::ops::RangeInclusive<f64>,
    range: &'static str,
) -> Result<(), SetupError> {
    if allowed.contains(&value) {
        return Ok(());
    }
    Err(SetupError::Range { what: what.to_owned(), value, range })
}
