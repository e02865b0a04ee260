//! The examination of a file before it is used as the state file: whether it is a state file,
//! whether it is sound, and which objects can be read where it is not. Nothing is written to it.

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use redb::{Database, Error as RedbError, StorageBackend};

use super::StoreError;
use super::earlier::latest_copy;
use super::explain::{explain, unusable};
use super::quiet::quietly;
use super::scratch::Scratch;
use super::tables::{self, Content, FORMAT, MARK, PREFIX};

/// The first bytes of a database.
const MAGIC: &[u8; 9] = b"redb\x1a\x0a\xa9\x0d\x0a";
/// The place of a database's flags, in bytes.
const FLAGS: u64 = MAGIC.len() as u64;
/// The flag that tells which commit is the newer one.
const NEWER: u8 = 1;
/// The flag of a database that is in use, or whose process was killed.
const UNCLEAN: u8 = 2;
/// The places of the database's versions, one in each of its two commits, in bytes.
const VERSIONS: [u64; 2] = [64, 192];
/// The version of databases that this daemon knows.
const VERSION: u8 = 3;
/// The last version that counts as a later database's. Others are damage.
const VERSION_MAX: u8 = 16;
/// The part of a file that is searched for names of the state file's tables, in bytes.
const SEARCHED: u64 = 64 << 20;

/// The result of the examination.
#[derive(Debug)]
pub(super) enum Found {
    /// There is no state file.
    Nothing,
    /// The content is as it was written, except for the objects in its `wrong`.
    Sound(Content),
    /// The file is damaged.
    Damaged {
        /// A description of the damage.
        detail: String,
        /// The content that could be read.
        content: Content,
        /// Whether `content` is known to be the file's whole content.
        whole: bool,
    },
}

/// Examines a file.
///
/// # Errors
/// The file cannot be read, another process has it, it is not a state file, or a later version of the
/// daemon wrote it.
pub(super) fn examine(path: &Path) -> Result<Found, StoreError> {
    let name = path.display().to_string();
    let (file, writable) = match open(path) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(unusable(&name, &error)),
    };
    let metadata = file.metadata().map_err(|error| unusable(&name, &error))?;
    if !metadata.is_file() {
        return Err(unusable(&name, &io::Error::other("it is not a regular file")));
    }
    if is_of_later_database(&file) {
        return Err(later(path, FORMAT + 1));
    }
    let mut content = Content::default();
    // The library would make an empty database in an empty file.
    let looked = match metadata.len() {
        0 => Ok(Err(RedbError::Corrupted("it is empty".into()))),
        _ => quietly(|| check(&file, writable, Trust::Flags, &mut content)),
    };
    let detail = match looked {
        Ok(Ok(true)) => {
            check_tables(path, &content)?;
            return check_format(path, &content).map(|()| Found::Sound(content));
        }
        Ok(Ok(false)) => "its structure had to be repaired".into(),
        Ok(Err(RedbError::DatabaseAlreadyOpen)) => {
            return Err(explain(&name, RedbError::DatabaseAlreadyOpen));
        }
        Ok(Err(
            RedbError::TableTypeMismatch { table, .. }
            | RedbError::TableIsMultimap(table)
            | RedbError::TableIsNotMultimap(table),
        )) => {
            return Err(match table.starts_with(PREFIX) {
                true => later(path, FORMAT + 1),
                false => StoreError::Foreign { file: name },
            });
        }
        Ok(Err(error)) => detail(error),
        Err(panic) => panic,
    };
    if !is_ours(path).unwrap_or(true) {
        return Err(StoreError::Foreign { file: name });
    }
    // The commit before the last has all acknowledged changes too.
    let mut other = Content::default();
    let whole = quietly(|| check(&file, writable, Trust::Checksums, &mut other));
    let whole = matches!(whole, Ok(Ok(_))) && other.wrong.is_empty() && !other.first_format;
    let content =
        if whole || other.objects.len() > content.objects.len() { other } else { content };
    // The names of tables have no checksums of their own.
    if whole {
        check_tables(path, &content)?;
    }
    check_format(path, &content)?;
    Ok(Found::Damaged { detail, content, whole })
}

/// Checks that this daemon knows the format of a file's content.
fn check_format(path: &Path, content: &Content) -> Result<(), StoreError> {
    match content.format {
        ..=FORMAT => Ok(()),
        format => Err(later(path, format)),
    }
}

/// Checks that a sound database is a state file, and that this daemon knows all of its tables.
fn check_tables(path: &Path, content: &Content) -> Result<(), StoreError> {
    match content.later_table {
        _ if content.foreign => Err(StoreError::Foreign { file: path.display().to_string() }),
        Some(format) => Err(later(path, format.max(content.format))),
        None => Ok(()),
    }
}

/// Returns the error for a file that needs a daemon that knows `format`, with the remedy.
fn later(path: &Path, format: u64) -> StoreError {
    let file = path.display().to_string();
    let remedy = match latest_copy(path, FORMAT) {
        Some(copy) => format!(
            "go back to the copy from before the upgrade, which lacks all live changes since then; \
             disconnect the hosts first (Downgrade in share/doc/sluicegate/use/operating.md): \
             mv {file} {file}.format-{format} && cp -p {} {file}",
            copy.display()
        ),
        None => "move the file away. Then the configuration file alone is served, and hosts find \
                 namespaces with other UUIDs, unless the file is what `sluice config` of the later \
                 sluiced printed (Downgrade in share/doc/sluicegate/use/operating.md)"
            .to_owned(),
    };
    StoreError::Later { file, format, known: FORMAT, remedy }
}

/// Returns whether both commits of a database have a later version. One alone is damage.
fn is_of_later_database(file: &File) -> bool {
    let mut magic = [0; MAGIC.len()];
    let version = |at: u64| {
        let mut version = [0];
        file.read_exact_at(&mut version, at).map(|()| version[0])
    };
    let [first, second] = VERSIONS.map(version);
    file.read_exact_at(&mut magic, 0).is_ok()
        && magic == *MAGIC
        && matches!((first, second), (Ok(first), Ok(second))
            if first == second && (VERSION + 1..=VERSION_MAX).contains(&first))
}

/// The part of a file's beginning that is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// The flags, as the database library does.
    Flags,
    /// The newer of the two commits whose checksums are right, as after a crash.
    Checksums,
}

/// Opens a file, for writing too where that is possible, so that the database can lock it.
fn open(path: &Path) -> io::Result<(File, bool)> {
    match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => Ok((file, true)),
        Err(error) if is_closed_to_writing(&error) => Ok((File::open(path)?, false)),
        Err(error) => Err(error),
    }
}

fn is_closed_to_writing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied)
}

/// Reads all of a database. Returns whether it was sound. Repairs are made in memory.
fn check(
    file: &File,
    writable: bool,
    trust: Trust,
    content: &mut Content,
) -> Result<bool, RedbError> {
    let mut flags = [0];
    let clean = file.read_exact_at(&mut flags, FLAGS).is_ok() && flags[0] & UNCLEAN == 0;
    let fell_back = Rc::new(Cell::new(false));
    let repaired = Rc::clone(&fell_back);
    let scratch = Scratch::new(file.try_clone()?, writable)?;
    if trust == Trust::Checksums {
        scratch.write(FLAGS, &[flags[0] & NEWER | UNCLEAN])?;
    }
    let mut database = Database::builder()
        .set_repair_callback(move |repair| {
            // The progress is a third when the last commit proves useless.
            repaired.set(repaired.get() || repair.progress() < 0.5);
        })
        .create_with_backend(scratch)?;
    // The check compares all pages with their checksums; opening alone believes a database that was
    // closed.
    let checked = database.check_integrity();
    let read = quietly(|| tables::read(&database, content));
    // Closing a damaged database may panic as well.
    let _ = quietly(|| drop(database));
    // The last commit may be incomplete after a crash, but not after an orderly end.
    let sound = checked? && !(clean && fell_back.get());
    match read {
        Ok(Ok(())) => Ok(sound),
        // Only in a sound database do tables of other types belong to another format.
        Ok(Err(error)) if sound => Err(error),
        Ok(Err(error)) => Err(RedbError::Corrupted(detail(error))),
        Err(panic) => Err(RedbError::Corrupted(panic)),
    }
}

/// Describes a database error, without its prefix.
fn detail(error: RedbError) -> String {
    match error {
        RedbError::Corrupted(text) => text,
        other => other.to_string(),
    }
}

/// Returns whether a file that is not a sound database is, or was, a state file, rather than another file that
/// `state` names by mistake.
fn is_ours(path: &Path) -> io::Result<bool> {
    let mut start = Vec::new();
    File::open(path)?.take(MAGIC.len() as u64).read_to_end(&mut start)?;
    let alike = start.iter().zip(MAGIC).filter(|(a, b)| a == b).count();
    if alike == start.len() || alike > MAGIC.len() / 2 {
        return Ok(true);
    }
    let size = std::fs::metadata(path)?.len();
    let mut input = io::BufReader::with_capacity(1 << 20, File::open(path)?.take(SEARCHED));
    let (mut chunk, mut zeroes) = (Vec::new(), true);
    loop {
        // The end of each chunk is kept, since the mark may lie across two chunks.
        let kept = chunk.len().saturating_sub(MARK.len());
        chunk.drain(..kept);
        let before = chunk.len();
        if input.by_ref().take(1 << 20).read_to_end(&mut chunk)? == 0 {
            return Ok(zeroes && size <= SEARCHED);
        }
        zeroes &= chunk.iter().skip(before).all(|byte| *byte == 0);
        if chunk.windows(MARK.len()).any(|part| part == MARK) {
            return Ok(true);
        }
    }
}
