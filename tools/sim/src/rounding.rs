//! Numbers with a fraction as whole ones.

/// Rounds a number that has no sign, clamped to `u64`.
pub(crate) fn whole(number: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates; numbers have no sign here"
    )]
    let whole = number.round() as u64;
    whole
}
