//! Live changes against the configuration file.
//!
//! A live change is kept with the file's own entry for the same object as it was at the time. It
//! wins for as long as that entry stays; when the entry in the file changes, the file wins.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::object::ObjectId;
use super::{Change, Key, Object, Store, StoreError};
use crate::config::{Config, clash};

/// A live change as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// The file's entry at the time of the change; `None`: there was none.
    file: Option<String>,
    /// The object since the change; `None`: it was removed.
    value: Option<String>,
}

/// What the target should be: the file with the live changes that still count.
#[derive(Debug)]
pub struct Effective {
    /// The configuration to run.
    pub config: Config,
    /// What a person should know: live changes that no longer count, and why.
    pub warnings: Vec<String>,
    /// The live changes that no longer count.
    stale: Vec<Key>,
}

/// Puts the live changes of `store` on top of the configuration file.
///
/// # Errors
/// The store cannot be read.
pub fn effective(file: &Config, store: &dyn Store) -> Result<Effective, StoreError> {
    let mut result = Effective { config: file.clone(), warnings: Vec::new(), stale: Vec::new() };
    let mut records = Vec::new();
    for object in changes(store)? {
        match serde_json::from_str::<Record>(&object.value) {
            Ok(record) => records.push((object.key, record)),
            Err(error) => result
                .warnings
                .push(format!("the live change of {} cannot be read: {error}", object.key)),
        }
    }
    // What was removed first: what was added may have taken its place.
    records.sort_by_key(|(_, record)| record.value.is_some());
    let (qos, others): (Vec<_>, Vec<_>) =
        records.into_iter().partition(|(key, _)| key.kind.is_qos());
    let (network, others): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|(key, _)| key.kind.is_network());
    for (key, record) in others {
        if let Err(reason) = result.take(file, &key, &record, store.machine()) {
            result.drop(key, &reason);
        }
    }
    result.take_together(file, network, store.machine());
    result.take_together(file, qos, store.machine());
    Ok(result)
}

impl Effective {
    /// Takes live changes of which one may need another: all at once, or where that cannot be,
    /// as many as can be together.
    fn take_together(&mut self, file: &Config, mut records: Vec<(Key, Record)>, machine: Uuid) {
        let mut next = self.config.clone();
        let all = records
            .iter()
            .try_for_each(|(key, record)| apply(&mut next, file, key, record, machine));
        if all.is_ok() && clash(&next).is_none() {
            self.config = next;
            return;
        }
        loop {
            let before = records.len();
            let mut reasons = Vec::new();
            records.retain(|(key, record)| match self.take(file, key, record, machine) {
                Ok(()) => false,
                Err(reason) => {
                    reasons.push(reason);
                    true
                }
            });
            if records.len() == before {
                for ((key, _), reason) in records.into_iter().zip(reasons) {
                    self.drop(key, &reason);
                }
                return;
            }
        }
    }

    /// Forgets a live change, and says why.
    fn drop(&mut self, key: Key, reason: &str) {
        self.warnings.push(format!("the live change of {key} is dropped: {reason}"));
        self.stale.push(key);
    }

    /// Takes one live change, or says why not.
    fn take(
        &mut self,
        file: &Config,
        key: &Key,
        record: &Record,
        machine: Uuid,
    ) -> Result<(), String> {
        let mut next = self.config.clone();
        apply(&mut next, file, key, record, machine)?;
        match clash(&next) {
            Some(reason) if clash(&self.config).is_none() => Err(reason),
            _ => {
                self.config = next;
                Ok(())
            }
        }
    }
}

/// Makes one live change in a configuration, where the file's entry has stayed what it was.
fn apply(
    config: &mut Config,
    file: &Config,
    key: &Key,
    record: &Record,
    machine: Uuid,
) -> Result<(), String> {
    let Some(object) = ObjectId::parse(key, machine) else {
        // Another machine's.
        return Ok(());
    };
    let then = record.file.as_deref().map(|text| object.canonical(text)).transpose()?;
    if then != object.text(file) {
        return Err("its entry in the configuration file has changed since".into());
    }
    object.assign(config, record.value.as_deref())
}

/// The configuration that runs, and the store that remembers how it differs from the file.
#[derive(Debug)]
pub struct Live {
    file: Config,
    current: Config,
    records: BTreeMap<Key, Record>,
    store: Arc<dyn Store>,
    /// After a write that failed it is not known what the store has.
    doubtful: bool,
}

/// A change that is in the store, and how to take it back.
#[must_use]
#[derive(Debug)]
pub(crate) struct Stored {
    before: Config,
    records: BTreeMap<Key, Record>,
    /// The configuration file before, where that has changed.
    file: Option<Config>,
}

impl Live {
    /// Reads the store; forgets live changes that no longer count. Answers the warnings too.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn open(file: Config, store: Arc<dyn Store>) -> Result<(Self, Vec<String>), StoreError> {
        let Effective { config, mut warnings, stale } = effective(&file, store.as_ref())?;
        let mut records = read_records(store.as_ref())?;
        records.retain(|key, _| !stale.contains(key));
        let mut doubtful = false;
        if !stale.is_empty() {
            let changes: Vec<Change> = stale.into_iter().map(Change::Delete).collect();
            // The next change that can be stored removes them too.
            if let Err(error) = store.apply(&changes) {
                warnings.push(format!("what is dropped is still in the state file: {error}"));
                doubtful = true;
            }
        }
        Ok((Self { file, current: config, records, store, doubtful }, warnings))
    }

    /// The configuration that runs.
    #[must_use]
    pub fn current(&self) -> &Config {
        &self.current
    }

    /// Whether changes survive a restart.
    #[must_use]
    pub fn durable(&self) -> bool {
        self.store.durable()
    }

    /// Stores that `object` is now as in `next`. Nothing has changed when this fails.
    ///
    /// # Errors
    /// The store cannot be written.
    pub(crate) fn store(&mut self, object: &ObjectId, next: Config) -> Result<Stored, StoreError> {
        let mut records = self.records.clone();
        for (key, record) in self.plan(object, &next) {
            match record {
                Some(record) => records.insert(key, record),
                None => records.remove(&key),
            };
        }
        let before = std::mem::replace(&mut self.current, next);
        let stored = Stored { before, records: self.records.clone(), file: None };
        match self.write(records) {
            Ok(()) => Ok(stored),
            Err(error) => {
                self.current = stored.before;
                Err(error)
            }
        }
    }

    /// What another configuration file would mean, with the live changes that still count on it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn under(&self, file: &Config) -> Result<Effective, StoreError> {
        effective(file, self.store.as_ref())
    }

    /// Takes another configuration file, and what [`Live::under`] has made of it; forgets the live
    /// changes that no longer count. Nothing has changed when this fails.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub(crate) fn take(&mut self, file: Config, next: Effective) -> Result<Stored, StoreError> {
        let mut records = read_records(self.store.as_ref())?;
        records.retain(|key, _| !next.stale.contains(key));
        let before = self.records.clone();
        self.write(records)?;
        Ok(Stored {
            before: std::mem::replace(&mut self.current, next.config),
            records: before,
            file: Some(std::mem::replace(&mut self.file, file)),
        })
    }

    /// Takes a stored change back.
    ///
    /// # Errors
    /// The store cannot be written: the change may come back with the next start.
    pub(crate) fn undo(&mut self, stored: Stored) -> Result<(), StoreError> {
        self.current = stored.before;
        if let Some(file) = stored.file {
            self.file = file;
        }
        let result = self.write(stored.records.clone());
        self.records = stored.records;
        result
    }

    /// Makes the store hold `records`.
    fn write(&mut self, records: BTreeMap<Key, Record>) -> Result<(), StoreError> {
        if self.doubtful {
            self.records = read_records(self.store.as_ref())?;
        }
        let changes = difference(&self.records, &records);
        self.doubtful = !changes.is_empty();
        if !changes.is_empty() {
            self.store.apply(&changes)?;
        }
        self.doubtful = false;
        self.records = records;
        Ok(())
    }

    /// Which records a change of `object` writes and removes.
    fn plan(&self, object: &ObjectId, next: &Config) -> Vec<(Key, Option<Record>)> {
        let machine = self.store.machine();
        let mut plan = Vec::new();
        let mut object = object.clone();
        if let Some(nqn) = object.subsystem() {
            let whole = ObjectId::Subsystem(nqn.into());
            let ours =
                whole.text(&self.file).is_none() || self.records.contains_key(&whole.key(machine));
            // A subsystem that is not the file's is one record with all that is in it.
            if ours || object == whole {
                let parts = self.records.keys().filter(|key| {
                    let part = ObjectId::parse(key, machine);
                    part.is_some_and(|part| part != whole && part.subsystem() == Some(nqn))
                });
                plan.extend(parts.map(|key| (key.clone(), None)));
                object = whole;
            }
        }
        let (file, value) = (object.text(&self.file), object.text(next));
        let record = (file != value).then_some(Record { file, value });
        plan.push((object.key(machine), record));
        plan
    }
}

/// The objects of a store that are live changes.
fn changes(store: &dyn Store) -> Result<impl Iterator<Item = Object> + use<>, StoreError> {
    Ok(store.objects()?.into_iter().filter(|object| object.key.kind.is_change()))
}

/// The live changes that a store holds.
fn read_records(store: &dyn Store) -> Result<BTreeMap<Key, Record>, StoreError> {
    let record = |value: &str| serde_json::from_str(value).ok();
    Ok(changes(store)?.filter_map(|object| Some((object.key, record(&object.value)?))).collect())
}

/// The changes that lead from one set of records to another.
fn difference(from: &BTreeMap<Key, Record>, to: &BTreeMap<Key, Record>) -> Vec<Change> {
    let removed = from.keys().filter(|key| !to.contains_key(key));
    let mut changes: Vec<Change> = removed.map(|key| Change::Delete(key.clone())).collect();
    for (key, record) in to.iter().filter(|(key, record)| from.get(key) != Some(record)) {
        if let Ok(text) = serde_json::to_string(record) {
            changes.push(Change::Put(key.clone(), text));
        }
    }
    changes
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
