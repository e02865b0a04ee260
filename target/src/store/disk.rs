//! A store in one file, by an embedded transactional database.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use redb::{
    Database, Error as RedbError, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition,
};
use uuid::Uuid;

use super::{Change, Key, Kind, Object, Store, StoreError};
use crate::access;

/// Kind and identifier to version and value.
const OBJECTS: TableDefinition<'_, (&str, &str), (u64, &str)> = TableDefinition::new("objects");
/// The store's own values.
const META: TableDefinition<'_, &str, u128> = TableDefinition::new("meta");
/// In [`META`]: how often the store was changed.
const REVISION: &str = "revision";
/// In [`META`]: the machine's UUID.
const MACHINE: &str = "machine";

/// How the database is opened: a file, or in tests something that fails on demand.
type Opener = Box<dyn Fn() -> Result<Database, RedbError> + Send>;

/// Keeps objects in a file.
pub struct DiskStore {
    file: String,
    machine: Uuid,
    state: Mutex<State>,
}

impl std::fmt::Debug for DiskStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskStore").field("file", &self.file).finish_non_exhaustive()
    }
}

struct State {
    opener: Opener,
    /// `None` after a failed write: the database refuses everything then until it is opened anew.
    database: Option<Database>,
}

impl DiskStore {
    /// Opens the file, or makes it and its folder.
    ///
    /// # Errors
    /// The file cannot be opened or made, is in use, or is damaged.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let file = path.display().to_string();
        if let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o750)
                .create(folder)
                .map_err(|error| unusable(&file, &error))?;
        }
        let path: PathBuf = path.into();
        Self::with_opener(file, Box::new(move || Database::create(&path).map_err(RedbError::from)))
    }

    /// Opens a database over any storage.
    ///
    /// # Errors
    /// As [`DiskStore::open`].
    pub fn over<B: StorageBackend>(
        name: &str,
        backend: impl Fn() -> io::Result<B> + Send + 'static,
    ) -> Result<Self, StoreError> {
        let open =
            move || Database::builder().create_with_backend(backend()?).map_err(RedbError::from);
        Self::with_opener(name.into(), Box::new(open))
    }

    fn with_opener(file: String, opener: Opener) -> Result<Self, StoreError> {
        let mut state = State { opener, database: None };
        let machine = state.run(&file, machine_uuid)?;
        state.run(&file, |database| read_all(database).map(drop))?;
        Ok(Self { file, machine, state: Mutex::new(state) })
    }

    /// Runs an action on the database.
    fn run<T>(
        &self,
        action: impl FnOnce(&Database) -> Result<T, RedbError>,
    ) -> Result<T, StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.run(&self.file, action)
    }
}

impl State {
    /// Runs an action on the database. After an error the database is closed, and opened anew by
    /// the next action. Damage can make the database library panic; that is an error here.
    fn run<T>(
        &mut self,
        file: &str,
        action: impl FnOnce(&Database) -> Result<T, RedbError>,
    ) -> Result<T, StoreError> {
        let database = self.database.take();
        let opener = &self.opener;
        let attempt = catch_unwind(AssertUnwindSafe(|| {
            let database = database.map_or_else(opener, Ok)?;
            action(&database).map(|value| (value, database))
        }));
        match attempt {
            Ok(Ok((value, database))) => {
                self.database = Some(database);
                Ok(value)
            }
            Ok(Err(error)) => Err(explain(file, error)),
            Err(_) => Err(damaged(file, "its structure is inconsistent")),
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // Closing a damaged database can panic in the database library too. There is nobody left
        // to tell, and everything acknowledged is already on the disk.
        let database = self.database.take();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(database)));
    }
}

impl Store for DiskStore {
    fn machine(&self) -> Uuid {
        self.machine
    }

    fn objects(&self) -> Result<Vec<Object>, StoreError> {
        self.run(read_all)
    }

    fn apply(&self, changes: &[Change]) -> Result<u64, StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let next = state.run(&self.file, revision)?.saturating_add(1);
        let failed = match state.run(&self.file, |database| write(database, changes, next)) {
            Ok(()) => return Ok(next),
            Err(error) => error,
        };
        // The database may fail after the change is in, when it tidies up: look.
        match state.run(&self.file, revision) {
            Ok(seen) if seen == next => Ok(next),
            _ => Err(failed),
        }
    }

    fn durable(&self) -> bool {
        true
    }
}

/// The machine's UUID; made when the store is new.
fn machine_uuid(database: &Database) -> Result<Uuid, RedbError> {
    let write = database.begin_write()?;
    let stored = {
        write.open_table(OBJECTS)?;
        let mut meta = write.open_table(META)?;
        let stored = meta.get(MACHINE)?.map(|value| value.value());
        match stored {
            Some(stored) => stored,
            None => {
                let fresh = fresh_uuid()?.as_u128();
                meta.insert(MACHINE, fresh)?;
                fresh
            }
        }
    };
    write.commit()?;
    Ok(Uuid::from_u128(stored))
}

/// A random UUID from the kernel.
fn fresh_uuid() -> io::Result<Uuid> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    Uuid::try_parse(text.trim()).map_err(io::Error::other)
}

fn read_all(database: &Database) -> Result<Vec<Object>, RedbError> {
    let read = database.begin_read()?;
    let table = read.open_table(OBJECTS)?;
    let mut objects = Vec::new();
    for entry in table.iter()? {
        let (key, value) = entry?;
        let (kind, id) = key.value();
        let (version, value) = value.value();
        // A kind that a later version of the product stores is not ours to touch.
        let Some(kind) = Kind::ALL.into_iter().find(|known| known.name() == kind) else { continue };
        let key = Key { kind, id: id.into() };
        objects.push(Object { key, version, value: value.into() });
    }
    objects.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(objects)
}

/// How often the store was changed.
fn revision(database: &Database) -> Result<u64, RedbError> {
    let meta = database.begin_read()?.open_table(META)?;
    let stored = meta.get(REVISION)?.map_or(0, |value| value.value());
    Ok(u64::try_from(stored).unwrap_or(u64::MAX))
}

fn write(database: &Database, changes: &[Change], revision: u64) -> Result<(), RedbError> {
    let write = database.begin_write()?;
    write.open_table(META)?.insert(REVISION, u128::from(revision))?;
    {
        let mut table = write.open_table(OBJECTS)?;
        for change in changes {
            match change {
                Change::Put(key, value) => {
                    table.insert((key.kind.name(), key.id.as_str()), (revision, value.as_str()))?;
                }
                Change::Delete(key) => {
                    table.remove((key.kind.name(), key.id.as_str()))?;
                }
            }
        }
    }
    write.commit()?;
    Ok(())
}

fn damaged(file: &str, detail: impl std::fmt::Display) -> StoreError {
    StoreError::Damaged { file: file.into(), detail: detail.to_string() }
}

fn unusable(file: &str, detail: &io::Error) -> StoreError {
    StoreError::Unusable { file: file.into(), detail: access::explain(detail, Path::new(file)) }
}

/// Says what a database error means for whoever runs the target.
fn explain(file: &str, error: RedbError) -> StoreError {
    match error {
        RedbError::Io(error) => match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => StoreError::Full { file: file.into() },
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => damaged(file, error),
            _ => unusable(file, &error),
        },
        RedbError::DatabaseAlreadyOpen => StoreError::InUse { file: file.into() },
        other => damaged(file, other),
    }
}

#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
