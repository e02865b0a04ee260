//! The tables of the database: objects and the store's own values, each with a checksum of its own.
//!
//! The database has checksums of its pages; the objects' checksums also cover damage before a page was written, or
//! after it was read.

use std::io;

use crc_fast::{CrcAlgorithm, Digest};
use redb::{
    Database, Error as RedbError, MultimapTableHandle, ReadTransaction, ReadableDatabase,
    ReadableTable, TableDefinition, TableError, TableHandle, WriteTransaction,
};
use uuid::Uuid;

use super::{Change, Kind};

/// The table of objects: kind and identifier to version, checksum and value.
const OBJECTS: TableDefinition<'_, (&str, &str), (u64, u64, &str)> =
    TableDefinition::new("sluicegate.objects.2");
/// The table of the store's own values, each with its checksum.
const META: TableDefinition<'_, &str, (u128, u64)> = TableDefinition::new("sluicegate.meta.2");
/// The beginning of the tables' names since format 2. The number of the format follows with which a
/// table was introduced, behind another dot.
pub(super) const PREFIX: &str = "sluicegate.";
/// A part of the tables' names: a file in which it occurs is or was a state file.
pub(super) const MARK: &[u8] = PREFIX.as_bytes();
/// The objects of the first version: as [`OBJECTS`], without checksums.
const OBJECTS_1: TableDefinition<'_, (&str, &str), (u64, &str)> = TableDefinition::new("objects");
/// The values of the first version: as [`META`], without checksums.
const META_1: TableDefinition<'_, &str, u128> = TableDefinition::new("meta");
/// The name in [`META`] of the number of changes of the store.
const REVISION: &str = "revision";
/// The name in [`META`] of the machine's UUID.
const MACHINE: &str = "machine";
/// The name in [`META`] of the format that a daemon must know to read the file. Files that were
/// written before there was such a value have none.
const FORMAT_NAME: &str = "format";
/// The format that this daemon writes, and the last format that it knows. It is raised with each change that an
/// earlier daemon would misread. Since 3 a host may be bound to addresses; since 4 identities are kept, which
/// earlier daemons derive; since 5 `operations` and `payload` of sessions have other names; since 6 sessions have
/// weights, limits by direction, bursts and profiles. Before raising it, keep a file of the present format
/// (`formats_tests.rs`), and change the number in docs/use/operating.md.
pub(super) const FORMAT: u64 = 6;
/// The name in [`META`] of the mark that identities are kept in the file.
const IDENTITIES: &str = "identities";
/// The name in [`META`] of the last revision that is in both of the database's commits.
const CONFIRMED: &str = "confirmed";

/// An object as it is in the database, of a kind that this version may not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Raw {
    pub(super) kind: String,
    pub(super) id: String,
    pub(super) version: u64,
    pub(super) value: String,
}

/// The content of the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) machine: Option<Uuid>,
    pub(super) revision: u64,
    pub(super) objects: Vec<Raw>,
    /// The kind and identifier of objects that are not as they were written.
    pub(super) wrong: Vec<(String, String)>,
    /// Whether the first version wrote the file, without checksums.
    pub(super) first_format: bool,
    /// The format that a daemon must know to read the file; 0 where the file does not say.
    pub(super) format: u64,
    /// The format of a table that this daemon does not know, at least; `None` where there is none.
    pub(super) later_table: Option<u64>,
    /// Whether the database is another program's: it has tables, and none of them is ours.
    pub(super) foreign: bool,
    /// Whether identities are kept in the file.
    pub(super) identities: bool,
}

impl Content {
    /// Makes the content of a new file.
    pub(super) fn fresh() -> Self {
        Self { identities: true, ..Self::default() }
    }

    /// Returns the earlier format in which the file was written; `None` of a file of this daemon's
    /// format, and of one to which nothing was written yet.
    pub(super) fn earlier_format(&self) -> Option<u64> {
        self.machine?;
        let format = match (self.first_format, self.format) {
            (true, _) => 1,
            // The second format has no such value.
            (false, format) => format.max(2),
        };
        (format < FORMAT).then_some(format)
    }
}

/// Returns the checksum of an object. Lengths stand before texts, so that no two objects are one
/// text.
fn object_sum(kind: &str, id: &str, version: u64, value: &str) -> u64 {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    for text in [kind, id, value] {
        digest.update(&(text.len() as u64).to_le_bytes());
        digest.update(text.as_bytes());
    }
    digest.update(&version.to_le_bytes());
    digest.finalize()
}

/// Returns the checksum of one of the store's own values.
fn meta_sum(name: &str, value: u128) -> u64 {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    digest.update(name.as_bytes());
    digest.update(&value.to_le_bytes());
    digest.finalize()
}

/// Returns an opened table; `None` where it does not exist.
fn present<T>(opened: Result<T, TableError>) -> Result<Option<T>, RedbError> {
    match opened {
        Ok(table) => Ok(Some(table)),
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reads one of the store's own values; `None` where it was never written.
fn meta(read: &ReadTransaction, name: &str) -> Result<Option<u128>, RedbError> {
    let stored = match present(read.open_table(META))? {
        Some(table) => table.get(name)?.map(|at| at.value()),
        None => None,
    };
    match stored {
        Some((value, sum)) if sum == meta_sum(name, value) => Ok(Some(value)),
        Some(_) => Err(RedbError::Corrupted(format!("its {name} is not as it was written"))),
        None => Ok(None),
    }
}

/// Reads the whole database into `content`. On failure, `content` holds the part that was read before.
pub(super) fn read(database: &Database, content: &mut Content) -> Result<(), RedbError> {
    let read = database.begin_read()?;
    note_unknown(&read, content)?;
    if let Some(table) = present(read.open_table(OBJECTS))? {
        // First, so that a file whose machine is known tells whether it has identities.
        content.identities = meta(&read, IDENTITIES)?.is_some();
        content.machine = meta(&read, MACHINE)?.map(Uuid::from_u128);
        content.revision = narrow(meta(&read, REVISION)?.unwrap_or_default());
        content.format = narrow(meta(&read, FORMAT_NAME)?.unwrap_or_default());
        for entry in table.iter()? {
            let (key, stored) = entry?;
            let ((kind, id), (version, sum, value)) = (key.value(), stored.value());
            if sum == object_sum(kind, id, version, value) {
                content.objects.push(raw(kind, id, version, value));
            } else {
                content.wrong.push((kind.into(), id.into()));
            }
        }
        return Ok(());
    }
    content.first_format = true;
    if let Some(table) = present(read.open_table(OBJECTS_1))? {
        for entry in table.iter()? {
            let (key, stored) = entry?;
            let ((kind, id), (version, value)) = (key.value(), stored.value());
            content.objects.push(raw(kind, id, version, value));
        }
    }
    if let Some(table) = present(read.open_table(META_1))? {
        let value = |name| Ok::<_, RedbError>(table.get(name)?.map(|value| value.value()));
        content.machine = value(MACHINE)?.map(Uuid::from_u128);
        content.revision = narrow(value(REVISION)?.unwrap_or_default());
    }
    Ok(())
}

/// Notes the tables that this daemon does not know: a later format's, and another program's. Without this, a file
/// without today's tables would be taken for an empty one.
fn note_unknown(read: &ReadTransaction, content: &mut Content) -> Result<(), RedbError> {
    let mut names: Vec<String> = read.list_tables()?.map(|one| one.name().to_owned()).collect();
    names.extend(read.list_multimap_tables()?.map(|one| one.name().to_owned()));
    let known = [OBJECTS.name(), META.name(), OBJECTS_1.name(), META_1.name()];
    let is_ours = |name: &String| known.contains(&name.as_str()) || name.starts_with(PREFIX);
    content.foreign = !names.is_empty() && !names.iter().any(is_ours);
    let unknown = names.iter().filter(|name| !known.contains(&name.as_str()));
    let later = unknown.filter_map(|name| {
        let number = name.strip_prefix(PREFIX)?.rsplit('.').next()?.parse::<u64>();
        Some(number.unwrap_or(0).max(FORMAT + 1))
    });
    content.later_table = later.max();
    Ok(())
}

fn raw(kind: &str, id: &str, version: u64, value: &str) -> Raw {
    Raw { kind: kind.into(), id: id.into(), version, value: value.into() }
}

fn narrow(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// Reads the number of changes of the store.
pub(super) fn revision(database: &Database) -> Result<u64, RedbError> {
    Ok(narrow(meta(&database.begin_read()?, REVISION)?.unwrap_or_default()))
}

/// Makes missing tables: from the first version's tables if these exist, else with the content of `found`.
pub(super) fn prepare(database: &Database, found: Option<&Content>) -> Result<(), RedbError> {
    if meta(&database.begin_read()?, MACHINE)?.is_some() {
        return Ok(());
    }
    let mut content = Content::default();
    read(database, &mut content)?;
    match (content.machine, found) {
        (None, Some(found)) => restore(database, found),
        _ => restore(database, &content),
    }
}

/// Makes the database hold `content` and nothing else.
pub(super) fn restore(database: &Database, content: &Content) -> Result<(), RedbError> {
    let write = database.begin_write()?;
    write.delete_table(OBJECTS)?;
    write.delete_table(OBJECTS_1)?;
    write.delete_table(META_1)?;
    if let Some(machine) = content.machine {
        put_meta(&write, MACHINE, machine.as_u128())?;
    }
    put_meta(&write, REVISION, content.revision.into())?;
    put_meta(&write, FORMAT_NAME, FORMAT.into())?;
    if content.identities {
        put_meta(&write, IDENTITIES, 1)?;
    }
    {
        let mut table = write.open_table(OBJECTS)?;
        for Raw { kind, id, version, value } in &content.objects {
            let sum = object_sum(kind, id, *version, value);
            table.insert((kind.as_str(), id.as_str()), (*version, sum, value.as_str()))?;
        }
    }
    write.commit()?;
    confirm(database, content.revision)
}

/// Makes all changes or none.
pub(super) fn write(
    database: &Database,
    changes: &[Change],
    revision: u64,
) -> Result<(), RedbError> {
    let write = database.begin_write()?;
    put_meta(&write, REVISION, revision.into())?;
    put_meta(&write, FORMAT_NAME, FORMAT.into())?;
    if changes.iter().any(|c| matches!(c, Change::Put(key, _) if key.kind == Kind::Identity)) {
        put_meta(&write, IDENTITIES, 1)?;
    }
    {
        let mut table = write.open_table(OBJECTS)?;
        for change in changes {
            match change {
                Change::Put(key, value) => {
                    let (kind, id) = (key.kind.name(), key.id.as_str());
                    let sum = object_sum(kind, id, revision, value);
                    table.insert((kind, id), (revision, sum, value.as_str()))?;
                }
                Change::Delete(key) => {
                    table.remove((key.kind.name(), key.id.as_str()))?;
                }
            }
        }
    }
    write.commit()?;
    confirm(database, revision)
}

/// Commits once more. The database keeps its last two commits, and falls back to the earlier one
/// where the last is damaged: so both must have every change that was acknowledged.
fn confirm(database: &Database, revision: u64) -> Result<(), RedbError> {
    let write = database.begin_write()?;
    put_meta(&write, CONFIRMED, revision.into())?;
    write.commit()?;
    Ok(())
}

fn put_meta(write: &WriteTransaction, name: &str, value: u128) -> Result<(), RedbError> {
    write.open_table(META)?.insert(name, (value, meta_sum(name, value)))?;
    Ok(())
}

/// Reads a random UUID from the kernel.
pub(super) fn fresh_uuid() -> io::Result<Uuid> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    Uuid::try_parse(text.trim()).map_err(io::Error::other)
}
