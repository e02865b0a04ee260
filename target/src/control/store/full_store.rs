//! A store on a full disk, for tests of data that waits to be stored.

use std::sync::atomic::{AtomicBool, Ordering};

use uuid::Uuid;

use super::{Change, MemoryStore, Object, Store, StoreError};

/// A store in memory that takes nothing while it is full.
#[derive(Debug, Default)]
pub(crate) struct FullStore {
    inner: MemoryStore,
    is_full: AtomicBool,
}

impl FullStore {
    pub(crate) fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }
}

impl Store for FullStore {
    fn machine(&self) -> Uuid {
        self.inner.machine()
    }

    fn objects(&self) -> Result<Vec<Object>, StoreError> {
        self.inner.objects()
    }

    fn apply(&self, changes: &[Change]) -> Result<u64, StoreError> {
        match self.is_full.load(Ordering::Relaxed) {
            true => Err(StoreError::Full { file: "/state".to_owned() }),
            false => self.inner.apply(changes),
        }
    }

    fn durable(&self) -> bool {
        true
    }

    fn has_identities(&self) -> bool {
        true
    }
}
