//! The agent's side of a segment.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use arbitration::credit::Caps;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, FallocateFlags, fallocate};
use nix::unistd::linkat;

use crate::error::Error;
use crate::file::{Opened, leads_to, unusable};
use crate::layout::{LONGEST_NAME, MAGIC, Seat, Shared, VERSION};
use crate::sys::clock;
use crate::sys::lock::{Byte, try_lock, unlock};
use crate::sys::mapping::Mapping;
use crate::tally::Amount;

/// Attempts to put a segment's file in its place while others do the same.
const ATTEMPTS: usize = 16;

/// The use of a segment at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Credits for which commands wait.
    pub waiting: Amount,
    /// Credits that are held, or were handed to a waiter that has not polled since.
    pub held: Amount,
    /// Attached processes. A dead one counts until it is reclaimed.
    pub processes: usize,
}

/// Counters since the segment was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Commands that got credits, with or without waiting.
    pub taken: u64,
    /// Commands that entered the wait queue.
    pub waited: u64,
    /// Dead processes whose credits and spots were returned.
    pub reclaimed: u64,
}

/// The agent's side of a segment. Dropping it closes the segment, which releases all waiters, and
/// unlinks its file.
#[derive(Debug)]
pub struct Segment {
    shared: Mapping,
    /// The file, whose lock shows that the agent lives.
    file: File,
    path: PathBuf,
}

impl Segment {
    /// Creates the segment of a session. Its folder must exist, and should be in a tmpfs. The file gets
    /// the mode `mode`; the umask does not apply. A user who may write to it can use the credits, and
    /// can also disturb the others ([trust](crate#trust)). The allowance is valid for
    /// `valid_for`, at most [`crate::LONGEST_VALIDITY`]. The segment of an agent that is dead is
    /// replaced, and the processes that use it are released.
    ///
    /// # Errors
    /// The name is empty or longer than 255 bytes; another agent that lives owns the segment; the path
    /// leads to something else; or the operating system refuses.
    pub fn create(
        path: impl AsRef<Path>,
        name: &str,
        mode: u32,
        allowance: Caps,
        valid_for: Duration,
    ) -> Result<Self, Error> {
        let path = path.as_ref().to_path_buf();
        if !(1..=LONGEST_NAME).contains(&name.len()) {
            return Err(Error::Name { path, length: name.len(), limit: LONGEST_NAME });
        }
        let uncreated = |source| Error::Uncreated { path: path.clone(), source };
        let file = create_unnamed(&path, mode).map_err(uncreated)?;
        let shared = Mapping::new(&file).map_err(uncreated)?;
        let header = &shared.header;
        header.set_name(name);
        header.set_caps(allowance);
        header.extend(clock::now(), valid_for);
        header.agent.store(std::process::id().into());
        header.version.store(VERSION);
        header.magic.store(MAGIC);
        // Before others can open the file: nobody sees a segment whose agent seems to be dead.
        try_lock(&file, Byte::Agent).map_err(uncreated)?;
        install(&file, &path)?;
        Ok(Self { shared, file, path })
    }

    /// Returns the path of the segment's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the allowance.
    #[must_use]
    pub fn allowance(&self) -> Caps {
        self.shared.header.caps()
    }

    /// Changes the allowance. If more is held, nothing is granted until enough was returned. A larger
    /// allowance goes to waiters at once.
    pub fn set_allowance(&self, allowance: Caps) {
        self.shared.header.set_caps(allowance);
        self.shared.dispatch();
    }

    /// Makes the allowance valid for `valid_for` from now on, at most [`crate::LONGEST_VALIDITY`]. With
    /// zero it expires now, and all waiters are released.
    pub fn extend(&self, valid_for: Duration) {
        self.shared.header.extend(clock::now(), valid_for);
        if valid_for.is_zero() {
            self.shared.wake_all();
        }
    }

    /// Returns the credits and spots of dead processes, and hands them to waiters. Also resumes a hand-over
    /// that a killed process has left half done. To be called each second.
    ///
    /// Returns the number of processes.
    ///
    /// # Errors
    /// The kernel has no room for locks.
    pub fn reclaim(&mut self) -> Result<usize, Error> {
        let mut reclaimed = 0;
        for seat in Seat::all().filter(|seat| self.shared.is_occupied(*seat)) {
            let byte = Byte::Process(seat);
            // While the byte is locked here, no new process occupies the slot.
            if try_lock(&self.file, byte).map_err(unusable(&self.path))? {
                reclaimed += usize::from(self.shared.reclaim(seat));
                unlock(&self.file, byte).map_err(unusable(&self.path))?;
            }
        }
        self.shared.dispatch();
        Ok(reclaimed)
    }

    /// Returns the use of the segment.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        let tally = self.shared.tally();
        let processes = Seat::all().filter(|seat| self.shared.is_occupied(*seat)).count();
        Backlog { waiting: tally.waiting, held: tally.held, processes }
    }

    /// Returns the counters.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let mut sum =
            Statistics { reclaimed: self.shared.header.reclaimed.load(), ..Statistics::default() };
        for (slot, _) in self.shared.used() {
            sum.taken = sum.taken.wrapping_add(slot.taken.load());
            sum.waited = sum.waited.wrapping_add(slot.waited.load());
        }
        sum
    }

    /// Ends the enforcement of the allowance for good: all waiters are released, and every take
    /// succeeds.
    pub fn close(&self) {
        close(&self.shared);
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.close();
        if leads_to(&self.path, &self.file) {
            // A file that remains is stale: the next agent replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn close(shared: &Shared) {
    shared.header.closed.store(1);
    shared.wake_all();
}

/// Creates a file without a name, of a segment's length, in the folder of `path`. Its space is
/// reserved: a store to it never finds the file system full.
fn create_unnamed(path: &Path, mode: u32) -> io::Result<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE);
    let file = options.open(folder.unwrap_or(Path::new(".")))?;
    let length = size_of::<Shared>().try_into().map_err(|_| ErrorKind::FileTooLarge)?;
    fallocate(&file, FallocateFlags::empty(), 0, length)?;
    file.set_permissions(Permissions::from_mode(mode & 0o777))?;
    Ok(file)
}

/// Gives a complete segment its name, if no agent that lives owns a segment of that name. Agents that
/// do so at once exclude each other: a link never replaces, and a stale segment is removed by the
/// agent alone that has locked it.
fn install(file: &File, path: &Path) -> Result<(), Error> {
    let uncreated = |source| Error::Uncreated { path: path.to_path_buf(), source };
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    for _ in 0..ATTEMPTS {
        match linkat(AT_FDCWD, unnamed.as_str(), AT_FDCWD, path, AtFlags::AT_SYMLINK_FOLLOW) {
            Err(Errno::EEXIST) => {}
            linked => return linked.map_err(|error| uncreated(error.into())),
        }
        let stale = match Opened::new(path) {
            Err(Error::Unusable { source, .. }) if source.kind() == ErrorKind::NotFound => continue,
            opened => opened?,
        };
        let is_dead = try_lock(&stale.file, Byte::Agent).map_err(unusable(path))?;
        let old = stale.map(path).ok();
        if !is_dead {
            let agent = old.map_or(0, |old| old.header.agent.load());
            return Err(Error::Owned { path: path.to_path_buf(), agent });
        }
        if leads_to(path, &stale.file) {
            fs::remove_file(path).map_err(uncreated)?;
            // Its processes look for the new segment.
            old.iter().for_each(|old| close(old));
        }
    }
    Err(uncreated(ErrorKind::ResourceBusy.into()))
}
