//! Errors, with their remedies.

use std::io;
use std::path::PathBuf;

/// Why a segment cannot be created or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened, mapped or locked.
    #[error(
        "credit segment '{path}' cannot be used: {source}. Check that this user may read and write the \
         file, and restart sluice-agent if it is missing"
    )]
    Unusable {
        /// The segment.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The file is not a segment, or not a whole one.
    #[error(
        "'{path}' is not a credit segment: {fault}. Remove the file unless it is needed for something \
         else, and restart sluice-agent"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The part that is wrong.
        fault: &'static str,
    },
    /// The segment has the layout of another version.
    #[error(
        "credit segment '{path}' has layout version {found}, and this program needs version \
         {expected}: install sluice-agent and this program from the same release, and restart \
         sluice-agent"
    )]
    Version {
        /// The segment.
        path: PathBuf,
        /// Version of the segment.
        found: u64,
        /// Version of this program.
        expected: u64,
    },
    /// All slots for processes are taken.
    #[error(
        "credit segment '{path}' has no room for another process: {limit} are attached. End some of \
         them, or restart sluice-agent if fewer exist"
    )]
    Full {
        /// The segment.
        path: PathBuf,
        /// The most processes of a segment.
        limit: usize,
    },
    /// Another agent is alive and owns the segment.
    #[error(
        "credit segment '{path}' belongs to a running sluice-agent (process {agent}). Stop that \
         agent, or use another folder for the segments"
    )]
    Owned {
        /// The segment.
        path: PathBuf,
        /// Process ID of the other agent, in its own namespace.
        agent: u64,
    },
    /// The session's name has a wrong length.
    #[error(
        "credit segment '{path}' cannot be created: the session's name has {length} bytes, and 1 to \
         {limit} are allowed. Choose another name"
    )]
    Name {
        /// The segment.
        path: PathBuf,
        /// Length of the name in bytes.
        length: usize,
        /// The longest name in bytes.
        limit: usize,
    },
    /// The segment's file cannot be created.
    #[error(
        "credit segment '{path}' cannot be created: {source}. Check that its folder exists, that \
         sluice-agent may write to it, and that its file system has space"
    )]
    Uncreated {
        /// The segment.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
}
