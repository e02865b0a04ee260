//! Readers for the single values of regions.

use super::super::fields::{Wrong, quoted};
use super::super::node::Node;
use super::super::values::{Read, string};

/// The longest name of a region in bytes: the size of the field in the command Get Region.
const NAME_MAX: usize = 16;

/// Reads the name of a region.
pub fn name(node: &Node) -> Read<String> {
    let text = string(node, "a name", "a name in quotes: \"log\"")?;
    let right = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if (1..=NAME_MAX).contains(&text.len()) && text.chars().all(right) {
        return Ok(text.into());
    }
    let message = format!("is \"{}\", not the name of a region", quoted(text));
    Err(Wrong::new(message, format!("write 1 to {NAME_MAX} letters, digits and -_.")))
}
