//! The fuzz targets, for cargo-fuzz (`tests/fuzz/`), and for the replay of the committed inputs in
//! the plain tests. A run that finds a fault panics.
#![expect(clippy::expect_used, reason = "a panic is how a fuzz target reports what it found")]

pub mod authentication;
pub mod capsule;
pub mod config;
pub mod input;
pub mod pdu_stream;
pub mod queue_pair;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

/// Runs `target` on each input in `tests/fuzz/corpus/NAME/`, in the order of their names.
///
/// # Errors
/// The folder cannot be read, or holds nothing.
pub fn replay(name: &str, target: impl Fn(&[u8])) -> Result<()> {
    let folder = crate::root().join("tests/fuzz/corpus").join(name);
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut inputs = entries.map(|e| Ok(e?.path())).collect::<Result<Vec<PathBuf>>>()?;
    inputs.sort();
    ensure!(!inputs.is_empty(), "{} holds no inputs", folder.display());
    for input in inputs {
        // The name is printed before the run, so that a panic follows it.
        println!("{}", input.display());
        target(&fs::read(&input)?);
    }
    Ok(())
}
