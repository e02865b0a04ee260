//! Live changes against the configuration file.
//!
//! A live change is kept with the file's own entry for the same object as it was at the time. The
//! live change wins for as long as that entry stays; when the entry in the file changes, the file
//! wins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sluice_config::qos::remove_dangling;
use sluice_config::{Config, LowestRates, Subsystem, Taken, clash, render_subsystem};
use uuid::Uuid;

use super::differences::{Difference, differences};
use super::object::ObjectId;
use super::part::Part;
use super::{Change, Key, Kind, Object, Store, StoreError};
use crate::control::objects::Batch;

/// A live change as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// The file's entry at the time of the change; `None` where the file had none.
    file: Option<String>,
    /// The object since the change; `None` where the change removed it.
    value: Option<String>,
    /// Whether the texts have identifiers only where these were given. Records of daemons before
    /// format 4 also have the derived ones.
    #[serde(default)]
    given: bool,
}

/// The effective configuration: the file with the live changes that still count.
#[derive(Debug)]
pub struct Effective {
    /// The configuration to run.
    pub config: Config,
    /// Warnings about live changes that no longer count, with the reasons.
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
    // Removals come first, since an addition may have taken the place of a removed object.
    records.sort_by_key(|(_, record)| record.value.is_some());
    let (later, others): (Vec<_>, Vec<_>) =
        records.into_iter().partition(|(key, _)| key.kind.batch() != Batch::Subsystems);
    // The changes that belong to a live subsystem which no longer counts go with it.
    let machine = store.machine();
    let gone: BTreeSet<String> = others
        .iter()
        .filter_map(|(key, record)| match ObjectId::parse(key, machine)? {
            whole @ ObjectId::Subsystem(_) => stale(file, &whole, record).then(|| key.id.clone()),
            _ => None,
        })
        .collect();
    let goes = |key: &Key| {
        let object = ObjectId::parse(key, machine);
        object.as_ref().and_then(ObjectId::subsystem).is_some_and(|nqn| gone.contains(nqn))
    };
    let (parts, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|(key, _)| goes(key));
    for (key, record) in parts {
        result.forget(file, key, &record, CHANGED, machine);
    }
    result.take_together(file, others, machine);
    let (network, qos) = later.into_iter().partition(|(key, _)| key.kind.batch() == Batch::Network);
    result.take_together(file, network, machine);
    result.take_together(file, qos, machine);
    Ok(result)
}

impl Effective {
    /// Takes live changes, one of which may need another: all of them, or if they contradict each other, a set that
    /// fits together. A limit that has become too low is raised and not dropped, because an unlimited session takes
    /// bandwidth from the other sessions.
    fn take_together(&mut self, file: &Config, mut records: Vec<(Key, Record)>, machine: Uuid) {
        loop {
            let before = records.len();
            let mut left = self.take_some(file, records, machine);
            if left.len() == before {
                left.retain(|(key, record, _)| !self.take_raised(file, key, record, machine));
            }
            if left.len() == before {
                for (key, record, reason) in left {
                    self.forget(file, key, &record, &reason, machine);
                }
                return;
            }
            records = left.into_iter().map(|(key, record, _)| (key, record)).collect();
        }
    }

    /// Takes a live change of a session or profile with its limits raised to the lowest ones, where
    /// it fits then. Returns whether it does.
    fn take_raised(&mut self, file: &Config, key: &Key, record: &Record, machine: Uuid) -> bool {
        let mut next = self.config.clone();
        if apply(&mut next, file, key, record, machine).is_err() {
            return false;
        }
        let Some(reason) = clash(&next) else {
            self.config = next;
            return true;
        };
        let lowest = LowestRates::of(&next.target);
        let limits = match ObjectId::parse(key, machine) {
            Some(ObjectId::Listed(Kind::Session, name)) => {
                let session = next.qos.sessions.iter_mut().find(|session| session.name == name);
                session.map(|session| &mut session.limits)
            }
            Some(ObjectId::Listed(Kind::Profile, name)) => {
                let profile = next.qos.profiles.iter_mut().find(|profile| profile.name == name);
                profile.map(|profile| &mut profile.limits)
            }
            _ => None,
        };
        let Some(limits) = limits else { return false };
        *limits = limits.raised(lowest);
        let fits = clash(&next).is_none();
        if fits {
            self.config = next;
            self.warnings.push(format!(
                "a limit of {key} is raised to the lowest that works with this configuration: {reason}"
            ));
        }
        fits
    }

    /// Takes those changes that can be taken one after the other. Finds the others by bisection,
    /// since there may be many thousands of changes, of which few fail. Returns the others, with
    /// the reasons.
    fn take_some(
        &mut self,
        file: &Config,
        mut records: Vec<(Key, Record)>,
        machine: Uuid,
    ) -> Vec<(Key, Record, String)> {
        let mut next = self.config.clone();
        let taken = records
            .iter()
            .try_for_each(|(key, record)| apply(&mut next, file, key, record, machine))
            .and_then(|()| match clash(&next) {
                Some(reason) if clash(&self.config).is_none() => Err(reason),
                _ => Ok(()),
            });
        let Err(reason) = taken else {
            self.config = next;
            return Vec::new();
        };
        if records.len() <= 1 {
            return records
                .into_iter()
                .map(|(key, record)| (key, record, reason.clone()))
                .collect();
        }
        let second = records.split_off(records.len() / 2);
        let mut left = self.take_some(file, records, machine);
        left.extend(self.take_some(file, second, machine));
        left
    }

    /// Forgets a live change. Notes the reason, unless the file has the change by now.
    fn forget(&mut self, file: &Config, key: Key, record: &Record, reason: &str, machine: Uuid) {
        if !is_in_file(file, &key, record, machine) {
            self.warnings.push(format!("the live change of {key} is dropped: {reason}"));
        }
        self.stale.push(key);
    }
}

/// The reason for which a live change no longer counts.
const CHANGED: &str = "its entry in the configuration file has changed since";

/// Returns whether the file's entry has changed since a live change.
fn stale(file: &Config, object: &ObjectId, record: &Record) -> bool {
    let plain = |text: String| match record.given {
        true => Ok(text),
        false => object.comparable(&text),
    };
    let now = object.text(file).map(plain).transpose();
    let then = record.file.as_deref().map(|text| object.canonical(text).and_then(plain));
    match (now, then.transpose()) {
        (Ok(now), Ok(then)) => now != then,
        _ => true,
    }
}

/// Returns whether the file's entry is the result of a live change.
fn is_in_file(file: &Config, key: &Key, record: &Record, machine: Uuid) -> bool {
    let Some(object) = ObjectId::parse(key, machine) else { return false };
    let now = match &object {
        // Its namespaces have records of their own.
        ObjectId::Subsystem(nqn) => {
            let found = file.subsystems.iter().find(|subsystem| subsystem.nqn == *nqn);
            found.cloned().map(|subsystem| render_subsystem(&bare(subsystem)))
        }
        _ => object.text(file),
    };
    let then = record.value.as_deref().map(|text| object.canonical(text)).transpose();
    then.is_ok_and(|then| then == now)
}

/// Takes the namespaces out of a subsystem.
fn bare(subsystem: Subsystem) -> Subsystem {
    Subsystem { namespaces: Vec::new(), ..subsystem }
}

/// Makes one live change in a configuration.
///
/// # Errors
/// The file's entry has changed since, or the change does not fit the configuration.
fn apply(
    config: &mut Config,
    file: &Config,
    key: &Key,
    record: &Record,
    machine: Uuid,
) -> Result<(), String> {
    let Some(object) = ObjectId::parse(key, machine) else {
        // The object is another machine's.
        return Ok(());
    };
    if stale(file, &object, record) {
        return Err(CHANGED.into());
    }
    let value = match &record.value {
        Some(text) if !record.given => Some(object.without_derived(text)?),
        value => value.clone(),
    };
    object.assign(config, value.as_deref())
}

/// The configuration that runs, and the store that remembers how it differs from the file.
#[derive(Debug)]
pub struct Live {
    file: Config,
    current: Config,
    /// The index of the identifiers, files and devices of the current namespaces.
    taken: Taken,
    records: BTreeMap<Key, Record>,
    store: Arc<dyn Store>,
    /// Whether the content of the store is unknown, after a write that failed.
    doubtful: bool,
}

/// The refusal of a change that clashes with another object.
#[derive(Debug, thiserror::Error)]
#[error("{0}; nothing was changed")]
pub(crate) struct Clash(String);

/// The records that a change writes or removes (`None`).
type Plan = Vec<(Key, Option<Record>)>;

/// A change that is in the store, with everything needed to undo it.
#[must_use]
#[derive(Debug)]
pub(crate) struct Stored {
    before: Part,
    records: Plan,
    /// The configuration file before the change; `None` where the change did not replace it.
    file: Option<Config>,
}

impl Live {
    /// Reads the store, and forgets live changes that no longer count. Returns the warnings too.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn open(file: Config, store: Arc<dyn Store>) -> Result<(Self, Vec<String>), StoreError> {
        let Effective { config, mut warnings, stale } = effective(&file, store.as_ref())?;
        let mut records = read_records(store.as_ref())?;
        let mut doubtful = false;
        for key in &stale {
            records.remove(key);
        }
        if !stale.is_empty() {
            let changes: Vec<Change> = stale.into_iter().map(Change::Delete).collect();
            // The next change that can be stored removes them too.
            if let Err(error) = store.apply(&changes) {
                warnings.push(format!("the dropped changes stay in the state file: {error}"));
                doubtful = true;
            }
        }
        let taken = Taken::of(&config);
        Ok((Self { file, current: config, taken, records, store, doubtful }, warnings))
    }

    /// Returns the configuration that runs.
    #[must_use]
    pub fn current(&self) -> &Config {
        &self.current
    }

    /// Returns the configuration that runs as a file can have it: without sessions and policies that are left over
    /// from removed subsystems and namespaces.
    pub(crate) fn as_file(&self) -> Config {
        let mut config = self.current.clone();
        remove_dangling(&mut config.qos, &config.subsystems);
        config
    }

    /// Returns the configuration file as it was read last.
    pub(crate) fn file(&self) -> &Config {
        &self.file
    }

    /// Returns the objects in which the configuration that runs differs from the file.
    pub(crate) fn differences(&self) -> Vec<Difference> {
        differences(&self.file, &self.current)
    }

    /// Counts the objects in which the configuration that runs differs from the file.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.differences().len()
    }

    /// Returns the effective configuration without any live change, as [`Live::take`] takes it.
    /// Settings that are read at the start alone stay as they are.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn without_changes(&self) -> Result<Effective, StoreError> {
        let machine = self.store.machine();
        let ours = |object: Object| ObjectId::parse(&object.key, machine).map(|_| object.key);
        let stale = changes(self.store.as_ref())?.filter_map(ours).collect();
        let mut config = self.file.clone();
        config.target = self.current.target.clone();
        config.pmem.general = self.current.pmem.general.clone();
        Ok(Effective { config, warnings: Vec::new(), stale })
    }

    /// Returns whether changes survive a restart.
    #[must_use]
    pub fn durable(&self) -> bool {
        self.store.durable()
    }

    /// Makes a change in the configuration, and stores it. `edit` changes only `object`. Nothing
    /// has changed when this fails. The cost depends on the size of the change alone, since there
    /// may be many thousands of namespaces.
    ///
    /// # Errors
    /// `edit` fails, the change clashes with another object, or the store cannot be written.
    pub(crate) fn store<F: From<StoreError> + From<Clash>>(
        &mut self,
        object: &ObjectId,
        edit: impl FnOnce(&mut Config) -> Result<(), F>,
    ) -> Result<Stored, F> {
        let before = Part::of(&self.current, object);
        if let Err(error) = edit(&mut self.current) {
            before.put_back(&mut self.current);
            return Err(error);
        }
        let clash = self.taken.exchange(before.namespaces(), before.namespaces_in(&self.current));
        let clash = clash.or_else(|| object.clash(&self.current));
        let stored = match clash {
            Some(clash) => Err(F::from(Clash(clash))),
            None => self.write(self.plan(object)).map_err(F::from),
        };
        match stored {
            Ok(records) => Ok(Stored { before, records, file: None }),
            Err(error) => {
                self.put_back(before);
                Err(error)
            }
        }
    }

    /// Restores a part of the configuration.
    fn put_back(&mut self, before: Part) {
        // The namespaces were together before, so nothing clashes.
        self.taken.exchange(before.namespaces_in(&self.current), before.namespaces());
        before.put_back(&mut self.current);
    }

    /// Returns the effective configuration of another file, with the live changes that still count.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn under(&self, file: &Config) -> Result<Effective, StoreError> {
        effective(file, self.store.as_ref())
    }

    /// Takes another configuration file, and the result of [`Live::under`]; forgets the live
    /// changes that no longer count. Nothing has changed when this fails.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub(crate) fn take(&mut self, file: Config, next: Effective) -> Result<Stored, StoreError> {
        let mut wanted = read_records(self.store.as_ref())?;
        wanted.retain(|key, _| !next.stale.contains(key));
        let gone = self.records.keys().filter(|key| !wanted.contains_key(*key));
        let mut plan: Plan = gone.map(|key| (key.clone(), None)).collect();
        plan.extend(wanted.into_iter().map(|(key, record)| (key, Some(record))));
        // The content of the store counts from here, not the records in memory.
        self.doubtful = true;
        let records = self.write(plan)?;
        self.taken = Taken::of(&next.config);
        Ok(Stored {
            before: Part::Whole(Box::new(std::mem::replace(&mut self.current, next.config))),
            records,
            file: Some(std::mem::replace(&mut self.file, file)),
        })
    }

    /// Takes another configuration to run, and stores how it differs from the file as live changes. Nothing has changed
    /// when this fails.
    ///
    /// # Errors
    /// The store cannot be written.
    pub(crate) fn take_as_changes(&mut self, next: Config) -> Result<Stored, StoreError> {
        let before = std::mem::replace(&mut self.current, next);
        let machine = self.store.machine();
        let ours = |key: &&Key| ObjectId::parse(key, machine).is_some();
        let mut plan: BTreeMap<Key, Option<Record>> =
            self.records.keys().filter(ours).map(|key| (key.clone(), None)).collect();
        for difference in self.differences() {
            plan.extend(self.plan(&difference.object));
        }
        match self.write(plan.into_iter().collect()) {
            Ok(records) => {
                self.taken = Taken::of(&self.current);
                Ok(Stored { before: Part::Whole(Box::new(before)), records, file: None })
            }
            Err(error) => {
                self.current = before;
                Err(error)
            }
        }
    }

    /// Undoes a stored change.
    ///
    /// # Errors
    /// The store cannot be written: the change may come back with the next start.
    pub(crate) fn undo(&mut self, stored: Stored) -> Result<(), StoreError> {
        self.put_back(stored.before);
        if let Some(file) = stored.file {
            self.file = file;
        }
        let result = self.write(stored.records.clone());
        if result.is_err() {
            self.adopt(stored.records);
        }
        result.map(drop)
    }

    /// Writes the records of a plan to the store. Returns the plan that undoes this.
    fn write(&mut self, plan: Plan) -> Result<Plan, StoreError> {
        let changes = if self.doubtful {
            // The store's content is not certain, and must include these records afterwards.
            let mut wanted = self.records.clone();
            for (key, record) in &plan {
                put(&mut wanted, key.clone(), record.clone());
            }
            difference(&read_records(self.store.as_ref())?, &wanted)
        } else {
            let differs =
                |(key, record): &&(Key, Option<Record>)| self.records.get(key) != record.as_ref();
            plan.iter().filter(differs).filter_map(|(key, record)| change(key, record)).collect()
        };
        if !changes.is_empty() {
            self.doubtful = true;
            self.store.apply(&changes)?;
        }
        self.doubtful = false;
        Ok(self.adopt(plan))
    }

    /// Takes the records of a plan. Returns the plan that undoes this.
    fn adopt(&mut self, plan: Plan) -> Plan {
        let mut before = Vec::with_capacity(plan.len());
        for (key, record) in plan {
            let old = put(&mut self.records, key.clone(), record);
            before.push((key, old));
        }
        before
    }

    /// Returns the records that a change of `object` writes and removes.
    fn plan(&self, object: &ObjectId) -> Plan {
        let machine = self.store.machine();
        if let Some(nqn) = object.subsystem() {
            let whole = ObjectId::Subsystem(nqn.into());
            let stored = self.records.get(&whole.key(machine));
            let in_file = self.file.subsystems.iter().any(|subsystem| subsystem.nqn == nqn);
            // A subsystem that differs from the file's has one record without its namespaces, and
            // one for each of these.
            if !in_file || stored.is_some() || *object == whole {
                return match object {
                    ObjectId::Namespace(..) if !stored.is_none_or(holds_namespaces) => {
                        vec![self.record(object)]
                    }
                    ObjectId::AnyHost(_) | ObjectId::Host(..)
                        if !stored.is_none_or(holds_namespaces) =>
                    {
                        vec![self.whole_record(nqn)]
                    }
                    _ => self.plan_whole(nqn),
                };
            }
        }
        let (file, value) = (object.text(&self.file), object.text(&self.current));
        vec![(object.key(machine), (file != value).then_some(Record { file, value, given: true }))]
    }

    /// Returns all records of a subsystem.
    fn plan_whole(&self, nqn: &str) -> Plan {
        let (machine, whole) = (self.store.machine(), self.whole_record(nqn));
        let mut plan: BTreeMap<Key, Option<Record>> = BTreeMap::new();
        for kind in [Kind::AnyHost, Kind::Host, Kind::Namespace] {
            let of = |id: String| Key { kind, id };
            let parts = self.records.range(of(nqn.to_owned())..of(format!("{nqn}!")));
            let ours = |key: &&Key| {
                key.id
                    .strip_prefix(nqn)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            };
            plan.extend(parts.map(|(key, _)| key).filter(ours).map(|key| (key.clone(), None)));
        }
        // A subsystem that is as in the file needs no records at all.
        if whole.1.is_some() {
            let here = self.current.subsystems.iter().filter(|subsystem| subsystem.nqn == nqn);
            for nsid in here.flat_map(|s| &s.namespaces).filter_map(|namespace| namespace.nsid) {
                let object = ObjectId::Namespace(nqn.to_owned(), nsid);
                let (key, record) = self.record(&object);
                debug_assert_eq!(key, object.key(machine));
                plan.insert(key, record);
            }
        }
        plan.insert(whole.0, whole.1);
        plan.into_iter().collect()
    }

    /// Returns the record of a live subsystem, without its namespaces; `None` where it is as in the
    /// file.
    fn whole_record(&self, nqn: &str) -> (Key, Option<Record>) {
        let whole = ObjectId::Subsystem(nqn.into());
        let key = whole.key(self.store.machine());
        let find = |config: &Config| config.subsystems.iter().find(|s| s.nqn == nqn).cloned();
        let (of_file, now) = (find(&self.file), find(&self.current));
        if of_file == now {
            return (key, None);
        }
        let value = now.map(bare).map(|subsystem| render_subsystem(&subsystem));
        (key, Some(Record { file: whole.text(&self.file), value, given: true }))
    }

    /// Returns the record of a live subsystem's namespace; `None` where it does not exist.
    fn record(&self, object: &ObjectId) -> (Key, Option<Record>) {
        let value = object.text(&self.current);
        let file = object.text(&self.file);
        let record = value.map(|value| Record { file, value: Some(value), given: true });
        (object.key(self.store.machine()), record)
    }
}

/// Returns whether a subsystem's record includes its namespaces, as in earlier versions.
fn holds_namespaces(record: &Record) -> bool {
    let value = record.value.as_deref();
    value.is_some_and(|text| text.contains("[[namespace]]"))
}

/// Sets or removes a record. Returns the earlier one.
fn put(records: &mut BTreeMap<Key, Record>, key: Key, record: Option<Record>) -> Option<Record> {
    match record {
        Some(record) => records.insert(key, record),
        None => records.remove(&key),
    }
}

/// Returns the change that makes a store hold a record.
fn change(key: &Key, record: &Option<Record>) -> Option<Change> {
    match record {
        Some(record) => Some(Change::Put(key.clone(), serde_json::to_string(record).ok()?)),
        None => Some(Change::Delete(key.clone())),
    }
}

/// Returns the objects of a store that are live changes.
fn changes(store: &dyn Store) -> Result<impl Iterator<Item = Object> + use<>, StoreError> {
    Ok(store.objects()?.into_iter().filter(|object| object.key.kind.is_change()))
}

/// Returns the live changes that a store holds.
fn read_records(store: &dyn Store) -> Result<BTreeMap<Key, Record>, StoreError> {
    let record = |value: &str| serde_json::from_str(value).ok();
    Ok(changes(store)?.filter_map(|object| Some((object.key, record(&object.value)?))).collect())
}

/// Returns the changes that lead from one set of records to another.
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
