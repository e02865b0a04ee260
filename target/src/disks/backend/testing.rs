//! Helpers of tests that open backends.

use std::sync::Arc;

use super::{Backend, Claims, OnSignature, Opening};
use crate::control::store::Seen;

impl<'a> Opening<'a> {
    /// Opens a file or device of which nothing is known, for one of these claims.
    pub(crate) fn for_tests(claims: &'a Claims) -> Self {
        Self { claims, namespace: "n", seen: None, signature: OnSignature::Refuse }
    }
}

impl Seen {
    /// Returns the state of a device of `size` bytes without names.
    pub(crate) fn for_tests(size: u64) -> Self {
        let (kind, path) = ("block".into(), "/dev/sdb".into());
        Self { size, block_size: 4096, kind, path, device: None, uuid: uuid::Uuid::nil() }
    }
}

/// Opens a backend of which nothing is known.
pub(crate) fn open(config: &sluice_config::Backend) -> Arc<dyn Backend> {
    super::open(config, false, &Opening::for_tests(&Claims::default())).unwrap()
}
