//! A store in memory, whose content ends with the process.

use std::collections::BTreeMap;
use std::sync::Mutex;

use uuid::Uuid;

use super::{Change, Key, Object, Store, StoreError};
use crate::sys::sync::lock;

/// A store in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    revision: u64,
    objects: BTreeMap<Key, (u64, String)>,
}

impl Store for MemoryStore {
    fn machine(&self) -> Uuid {
        Uuid::nil()
    }

    fn objects(&self) -> Result<Vec<Object>, StoreError> {
        let state = lock(&self.state);
        let object = |(key, (version, value)): (&Key, &(u64, String))| Object {
            key: key.clone(),
            version: *version,
            value: value.clone(),
        };
        Ok(state.objects.iter().map(object).collect())
    }

    fn apply(&self, changes: &[Change]) -> Result<u64, StoreError> {
        let mut state = lock(&self.state);
        state.revision += 1;
        let revision = state.revision;
        for change in changes {
            match change {
                Change::Put(key, value) => {
                    state.objects.insert(key.clone(), (revision, value.clone()));
                }
                Change::Delete(key) => {
                    state.objects.remove(key);
                }
            }
        }
        Ok(revision)
    }

    fn durable(&self) -> bool {
        false
    }

    fn has_identities(&self) -> bool {
        true
    }
}
