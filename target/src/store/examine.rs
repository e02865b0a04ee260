//! A look at a state file before it is used: whether it is one, whether it is sound, and what of
//! it can be read where it is not. Nothing is written to it.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use redb::{Database, Error as RedbError};

use super::StoreError;
use super::disk::{explain, unusable};
use super::quiet::quietly;
use super::scratch::Scratch;
use super::tables::{self, Content, MARK};

/// What a database begins with.
const MAGIC: &[u8; 9] = b"redb\x1a\x0a\xa9\x0d\x0a";
/// How much of a file is searched for signs that it was a state file, in bytes.
const SEARCHED: u64 = 64 << 20;

/// What a state file is found to be.
#[derive(Debug)]
pub(super) enum Found {
    /// There is none.
    Nothing,
    /// All is as it was written, but for the objects that `wrong` of it names.
    Sound(Content),
    /// It is damaged.
    Damaged {
        /// What is wrong.
        detail: String,
        /// What could be read.
        content: Content,
        /// Whether that is known to be all that was in it.
        whole: bool,
    },
}

/// Looks at a file.
///
/// # Errors
/// It cannot be read, another process has it, or it is no state file.
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
    let damaged = |detail, content, whole| Found::Damaged { detail, content, whole };
    let mut content = Content::default();
    // An empty database would be made in an empty file.
    let looked = match metadata.len() {
        0 => Ok(Err(RedbError::Corrupted("it is empty".into()))),
        _ => quietly(|| check(&file, writable, &mut content)),
    };
    let detail = match looked {
        Ok(Ok(true)) => return Ok(Found::Sound(content)),
        Ok(Ok(false)) => {
            let whole = content.wrong.is_empty() && !content.first_format;
            return Ok(damaged("its structure had to be repaired".into(), content, whole));
        }
        Ok(Err(RedbError::DatabaseAlreadyOpen)) => {
            return Err(explain(&name, RedbError::DatabaseAlreadyOpen));
        }
        Ok(Err(error)) => detail(error),
        Err(panic) => panic,
    };
    if is_ours(path).unwrap_or(true) {
        return Ok(damaged(detail, content, false));
    }
    Err(StoreError::Foreign { file: name })
}

/// Opens a file, for writing too where that is possible: so that nobody else has it meanwhile.
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

/// Reads all of a database; answers whether it was sound. Repairs are made in memory.
fn check(file: &File, writable: bool, content: &mut Content) -> Result<bool, RedbError> {
    let scratch = Scratch::new(file.try_clone()?, writable)?;
    let mut database = Database::builder().create_with_backend(scratch)?;
    // All pages against their checksums: opening alone believes a database that was closed.
    let checked = database.check_integrity();
    let read = quietly(|| tables::read(&database, content));
    // Closing a damaged database may panic as well.
    let _ = quietly(|| drop(database));
    let sound = checked?;
    match read {
        Ok(read) => read.map(|()| sound),
        Err(panic) => Err(RedbError::Corrupted(panic)),
    }
}

/// What a database error says, without words about how it was found.
fn detail(error: RedbError) -> String {
    match error {
        RedbError::Corrupted(text) => text,
        other => other.to_string(),
    }
}

/// Whether a file that is no sound database is, or was, a state file: not somebody else's file
/// that `state` names by mistake.
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
        // The end of the chunk before: the mark may lie across two.
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
