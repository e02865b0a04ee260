//! Notes for the operator.

use std::fmt::Display;
use std::io::Write as _;

/// Writes a note to standard error, which is the journal of a service.
pub(super) fn note(text: &dyn Display) {
    let _ = writeln!(std::io::stderr(), "sluice: agent: {text}");
}
