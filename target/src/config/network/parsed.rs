//! A link with the place that it was read at.

use super::super::fields::At;
use super::settings::Link;

/// A link and the places of its values.
#[derive(Debug)]
pub(crate) struct ParsedLink {
    pub(crate) link: Link,
    pub(crate) name: At<()>,
}
