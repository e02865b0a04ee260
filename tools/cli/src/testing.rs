//! Helpers of the tests of several modules.

use std::ffi::OsString;
use std::fs;

use clap::{Args, Command, Error};
use tempfile::TempDir;

use crate::Cli;

/// Parses a line, whose first word is the program, as arguments alone.
pub(crate) fn parse<A: Args>(line: &str) -> Result<A, Error> {
    let command = A::augment_args(Command::new("test"));
    A::from_arg_matches(&command.try_get_matches_from(line.split_whitespace())?)
}

/// Parses a line of the whole program.
pub(crate) fn parse_all(line: &str) -> Result<Cli, Error> {
    let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
    crate::parse(&words).map(|(cli, _)| cli)
}

/// Makes a folder with files, by their paths and texts.
pub(crate) fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}
