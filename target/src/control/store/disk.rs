//! A store in one file, by an embedded transactional database.
//!
//! The file is examined before it is used ([`super::examine`]). A damaged file is kept under another name, and the
//! store begins with the file's content, if that is known to be complete, or empty. A full or unwritable file
//! system stops changes, but not the start. A file of an earlier format is copied before it is opened for writing
//! ([`super::earlier`]).

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use redb::backends::FileBackend;
use redb::{Database, Error as RedbError, StorageBackend};
use uuid::Uuid;

use super::aside::{Keep, set_aside};
use super::earlier::keep_copy;
use super::examine::{Found, examine};
use super::explain::{damaged, explain, unusable};
use super::quiet::quietly;
use super::tables::{self, Content, FORMAT, Raw};
use super::{Change, Key, Kind, Object, Store, StoreError};
use crate::sys::files;
use crate::sys::sync::lock;
use crate::sys::words::list;

/// The function that opens the database: a file, or in tests a storage that fails on demand.
type Opener = Box<dyn Fn() -> Result<Database, RedbError> + Send>;

/// A store in a file.
pub struct DiskStore {
    file: String,
    machine: Uuid,
    has_identities: bool,
    state: Mutex<State>,
}

impl std::fmt::Debug for DiskStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskStore").field("file", &self.file).finish_non_exhaustive()
    }
}

struct State {
    opener: Opener,
    /// The open database; `None` after a failed write, since the database must then be opened again
    /// before it takes anything.
    database: Option<Database>,
    /// The content that was found in the file, until the database has been opened for the first
    /// time.
    found: Option<Content>,
}

impl DiskStore {
    /// Opens the file, or creates it and its folder. Returns the store, and warnings for the
    /// operator: that the file was damaged, or that changes cannot be stored now.
    ///
    /// # Errors
    /// The file cannot be read or created, is in use, or is not a state file.
    pub fn open(path: &Path) -> Result<(Self, Vec<String>), StoreError> {
        let file = path.display().to_string();
        let mut problems = Vec::new();
        if let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) {
            let made = std::fs::DirBuilder::new().recursive(true).mode(0o750).create(folder);
            made.or_else(|error| tolerate(unusable(&file, &error), &mut problems))?;
        }
        let found = examine(path)?;
        let earlier = match &found {
            Found::Sound(content) if content.wrong.is_empty() => content.earlier_format(),
            // There is nothing, or the file as it was is kept under another name.
            _ => None,
        };
        let (content, usable) = match found {
            Found::Nothing => (Content::fresh(), true),
            Found::Sound(content) if content.wrong.is_empty() => (content, true),
            Found::Sound(content) => leave_out(path, content, &mut problems),
            Found::Damaged { detail, content, whole } => {
                put_away(path, &detail, content, whole, &mut problems)
            }
        };
        let path: PathBuf = path.into();
        let earlier = Cell::new(earlier);
        let opener: Opener = match usable {
            true => Box::new(move || {
                if let Some(format) = earlier.get() {
                    let copy = keep_copy(&path, format).map_err(|error| uncopied(format, error))?;
                    tracing::info!(
                        "the state file {} has format {format}, and is copied as {} before the \
                         first write in format {FORMAT}",
                        path.display(),
                        copy.display()
                    );
                    earlier.set(None);
                }
                let storage = FileBackend::new(files::open_or_make(&path)?)?;
                open_database(storage, || drop(std::fs::remove_file(&path)))
            }),
            false => Box::new(|| Err(RedbError::Corrupted("it could not be set aside".into()))),
        };
        let store = Self::with_opener(file, opener, content, &mut problems)?;
        Ok((store, problems))
    }

    /// Opens a database over any storage.
    ///
    /// # Errors
    /// As [`DiskStore::open`].
    pub fn over<B: StorageBackend>(
        name: &str,
        backend: impl Fn() -> io::Result<B> + Send + 'static,
    ) -> Result<Self, StoreError> {
        let open = move || open_database(backend()?, || ());
        let mut problems = Vec::new();
        Self::with_opener(name.into(), Box::new(open), Content::fresh(), &mut problems)
    }

    fn with_opener(
        file: String,
        opener: Opener,
        mut content: Content,
        problems: &mut Vec<String>,
    ) -> Result<Self, StoreError> {
        let machine = match content.machine {
            Some(machine) => machine,
            None => tables::fresh_uuid().map_err(|error| unusable(&file, &error))?,
        };
        content.machine = Some(machine);
        let has_identities = content.identities;
        let mut state = State { opener, database: None, found: Some(content) };
        state.run(&file, |_| Ok(())).or_else(|error| tolerate(error, problems))?;
        Ok(Self { file, machine, has_identities, state: Mutex::new(state) })
    }
}

/// Opens the database in a storage. Calls `discard` if the storage was empty and could not be filled: otherwise the
/// next try would take it for a damaged database.
fn open_database(
    storage: impl StorageBackend,
    discard: impl FnOnce(),
) -> Result<Database, RedbError> {
    let is_empty = storage.len()? == 0;
    let opened = Database::builder().create_with_backend(storage).map_err(RedbError::from);
    let is_others = matches!(opened, Err(RedbError::DatabaseAlreadyOpen));
    if is_empty && opened.is_err() && !is_others {
        discard();
    }
    opened
}

/// Explains that a file of an earlier format cannot be copied, and therefore is not written.
fn uncopied(format: u64, error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => error,
        _ => io::Error::new(
            ErrorKind::ReadOnlyFilesystem,
            format!("it has format {format}, and no copy of it can be made in its folder: {error}"),
        ),
    }
}

/// Notes an error that stops changes and need not stop the start.
fn tolerate(error: StoreError, problems: &mut Vec<String>) -> Result<(), StoreError> {
    match error {
        StoreError::Full { .. } | StoreError::ReadOnly { .. } | StoreError::Damaged { .. } => {
            let text = format!("{error}; until then live changes are refused");
            if !problems.contains(&text) {
                problems.push(text);
            }
            Ok(())
        }
        error => Err(error),
    }
}

/// Leaves out objects that are not as they were written, and keeps a copy of the file. Returns the
/// other objects, and whether the file can be used.
fn leave_out(path: &Path, content: Content, problems: &mut Vec<String>) -> (Content, bool) {
    let wrong: Vec<String> =
        content.wrong.iter().map(|(kind, id)| format!("{kind} {id}")).collect();
    let sound = Content { wrong: Vec::new(), ..content };
    let kept = set_aside(path, Keep::Copied).and_then(|copy| {
        let database = Database::create(path).map_err(io::Error::other)?;
        tables::restore(&database, &sound).map_err(io::Error::other)?;
        Ok(copy)
    });
    let after = match &kept {
        Ok(copy) => format!("a copy of the file as it was is {}", copy.display()),
        Err(error) => format!("and a copy could not be made: {error}"),
    };
    problems.push(format!(
        "the state file {} is damaged: {} not as it was written, and left out: for that, the \
         configuration file counts; {after}",
        path.display(),
        names(&wrong)
    ));
    (sound, true)
}

/// Sets a damaged file aside. Returns the part of its content that is used, and whether a new file
/// can be created in its place.
fn put_away(
    path: &Path,
    detail: &str,
    content: Content,
    whole: bool,
    problems: &mut Vec<String>,
) -> (Content, bool) {
    let changes = content.objects.iter().filter(|raw| !is_remembered(raw));
    let known: Vec<String> = changes.map(|raw| format!("{} {}", raw.kind, raw.id)).collect();
    let lost = match (whole, &known[..]) {
        (true, known) => {
            format!("all of its {} live changes could be read, and count", known.len())
        }
        (false, []) => "its live changes are lost, and cannot be named".into(),
        (false, known) => {
            format!("its live changes are lost, among them changes of {}", list(known))
        }
    };
    let left = if whole { content } else { without_changes(content) };
    let (usable, after) = match set_aside(path, Keep::Renamed) {
        Ok(aside) => (true, format!("it is kept as {}", aside.display())),
        Err(error) => (false, format!("it could not be set aside ({error}): move it away")),
    };
    let served = if whole { "" } else { ", and the configuration file alone is served" };
    let file = path.display();
    problems.push(format!("the state file {file} is damaged ({detail}): {after}; {lost}{served}"));
    (left, usable)
}

/// Keeps the states and identities of namespaces and the hosts that use them, as far as they could be
/// read. They only prevent that a namespace's file is created again, its device taken for another, its
/// disk shown as another one or taken from its hosts, so that some are better than none.
fn without_changes(content: Content) -> Content {
    match content {
        // Without the machine's UUID it is not known whose states these are. The first version of
        // the file has none.
        Content { machine: Some(machine), first_format: false, .. } => Content {
            machine: Some(machine),
            revision: content.revision,
            objects: content.objects.into_iter().filter(is_remembered).collect(),
            identities: content.identities,
            ..Content::default()
        },
        _ => Content::fresh(),
    }
}

/// Returns whether an object records an observation of this machine, and is not a live change.
fn is_remembered(raw: &Raw) -> bool {
    Kind::REMEMBERED.iter().any(|kind| raw.kind == kind.name())
}

/// Writes names as "a, b and 3 more are".
fn names(names: &[String]) -> String {
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", list(names))
}

impl State {
    /// Runs an action on the database. After an error the database is closed, and opened again by
    /// the next action. Damage can make the database library panic, which is an error here.
    fn run<T>(
        &mut self,
        file: &str,
        action: impl FnOnce(&Database) -> Result<T, RedbError>,
    ) -> Result<T, StoreError> {
        let (opener, found, opened) = (&self.opener, &self.found, &mut self.database);
        let attempt = quietly(|| {
            let database = match opened {
                Some(database) => database,
                None => {
                    let database = opened.insert(opener()?);
                    tables::prepare(database, found.as_ref())?;
                    database
                }
            };
            action(database)
        });
        let error = match attempt {
            Ok(Ok(value)) => {
                self.found = None;
                return Ok(value);
            }
            Ok(Err(error)) => explain(file, error),
            Err(panic) => damaged(file, panic),
        };
        self.close();
        Err(error)
    }

    /// Closes the database. The database library can panic over a damaged file here too. Everything
    /// acknowledged is already on the disk.
    fn close(&mut self) {
        let database = self.database.take();
        let _ = quietly(|| drop(database));
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.close();
    }
}

impl Store for DiskStore {
    fn machine(&self) -> Uuid {
        self.machine
    }

    fn objects(&self) -> Result<Vec<Object>, StoreError> {
        let mut state = lock(&self.state);
        let read = state.run(&self.file, |database| {
            let mut content = Content::default();
            tables::read(database, &mut content).map(|()| content)
        });
        match (read, &state.found) {
            (Ok(content), _) => Ok(known(content)),
            (Err(_), Some(found)) => Ok(known(found.clone())),
            (Err(error), None) => Err(error),
        }
    }

    fn apply(&self, changes: &[Change]) -> Result<u64, StoreError> {
        let mut state = lock(&self.state);
        let next = state.run(&self.file, tables::revision)?.saturating_add(1);
        let write = |database: &Database| tables::write(database, changes, next);
        let failed = match state.run(&self.file, write) {
            Ok(()) => return Ok(next),
            Err(error) => error,
        };
        // The database may fail after it has taken the change. The revision tells.
        match state.run(&self.file, tables::revision) {
            Ok(seen) if seen == next => Ok(next),
            _ => Err(failed),
        }
    }

    fn durable(&self) -> bool {
        true
    }

    fn has_identities(&self) -> bool {
        self.has_identities
    }
}

/// Keeps the objects whose kinds this version knows. Objects of other kinds are a later version's,
/// which this one must not touch.
fn known(content: Content) -> Vec<Object> {
    let object = |Raw { kind, id, version, value }| {
        let kind = Kind::ALL.iter().copied().find(|known| known.name() == kind)?;
        Some(Object { key: Key { kind, id }, version, value })
    };
    let mut objects: Vec<Object> = content.objects.into_iter().filter_map(object).collect();
    objects.sort_by(|a, b| a.key.cmp(&b.key));
    objects
}

#[cfg(test)]
#[path = "damage_tests.rs"]
mod damage_tests;
#[cfg(test)]
#[path = "formats_tests.rs"]
mod formats_tests;
#[cfg(test)]
#[path = "disk_tests.rs"]
mod tests;
