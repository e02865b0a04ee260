//! Words of messages that several parts write.

/// Joins names for a message: the first eight, and the number of the others.
pub(crate) fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "none".into();
    }
    let shown: Vec<&str> = names.iter().take(8).map(String::as_str).collect();
    match names.len().saturating_sub(8) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
