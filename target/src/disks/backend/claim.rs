//! Claims on files and devices: a namespace's file or device is held, so that nobody else writes to it while the
//! namespace is served.
//!
//! A file is locked as a whole by an open file description lock (`fcntl(2)`): for writing by a namespace that
//! writes, for reading by a read-only one. A block device is opened exclusively, which fails while it, the disk
//! that it is on or a partition on it is mounted, is swap, is part of a RAID or of a volume group, or is held so by
//! another program. A claim does not depend on the path: a file is known by its device and inode number, a block
//! device by its device number. The file below a loop device is claimed with the loop device.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};

use super::identity::Identity;
use super::{BackendError, holders, sysfs};
use crate::sys::sync;

/// A claim on a file or device. The claim ends when its last owner drops it.
#[derive(Debug)]
pub(super) struct Claim {
    /// The identities of everything that is held, such as a loop device and the file below it.
    identities: Vec<Identity>,
    writes: bool,
    /// The namespace that has the claim.
    holder: String,
    /// The descriptors whose locks and exclusive opens keep others away. A block device's comes
    /// first.
    held: Vec<File>,
}

/// A file that the daemon uses itself, which cannot be a namespace's.
#[derive(Clone, Debug)]
pub struct OwnFile {
    /// The path at which the file is, or will be.
    pub path: PathBuf,
    /// The file's name in messages: "the state file".
    pub what: &'static str,
}

/// The claims of this daemon's namespaces.
#[derive(Debug, Default)]
pub struct Claims {
    own: Vec<OwnFile>,
    held: Mutex<Held>,
    /// Told when a claim is no longer being made.
    made: Condvar,
    /// The locations of files that namespaces would create, each with its namespace.
    planned: Mutex<Vec<(Location, String)>>,
}

#[derive(Debug, Default)]
struct Held {
    claims: Vec<Weak<Claim>>,
    /// The identities of claims that are being made. Opening and locking may wait for a device or a server that does
    /// not answer, so the table is not locked meanwhile: only claims on the same file or device wait.
    being_made: Vec<Identity>,
}

/// A claim that is being made. Others on the same file or device wait until it is dropped.
struct BeingMade<'a> {
    claims: &'a Claims,
    identities: Vec<Identity>,
}

/// The location of a file that does not exist yet: its folder's canonical path, and its name.
type Location = (PathBuf, OsString);

fn location(path: &Path) -> Option<Location> {
    let folder = path.parent().map(|folder| match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    });
    Some((folder?.canonicalize().ok()?, path.file_name()?.to_owned()))
}

/// The namespace that asks for a claim.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claimant<'a> {
    /// The path as it is configured.
    pub(super) path: &'a Path,
    /// The namespace's name.
    pub(super) namespace: &'a str,
    pub(super) writes: bool,
}

impl Claims {
    /// Makes a table without claims; `own` are the daemon's own files.
    #[must_use]
    pub fn new(own: Vec<OwnFile>) -> Self {
        Self { own, ..Self::default() }
    }

    /// Refuses to create one of the daemon's own files for a namespace.
    ///
    /// # Errors
    /// The path is one of them.
    pub(super) fn may_make(&self, path: &Path) -> Result<(), BackendError> {
        let Some(wanted) = location(path) else { return Ok(()) };
        match self.own.iter().find(|own| location(&own.path).as_ref() == Some(&wanted)) {
            Some(own) => Err(own_file(path, own)),
            None => Ok(()),
        }
    }

    /// Notes that a namespace would create a file. A second namespace that would create the same file, by any path,
    /// is refused.
    ///
    /// # Errors
    /// Another namespace would create the file, or it is one of the daemon's own.
    pub(super) fn plan(&self, claimant: Claimant<'_>) -> Result<(), BackendError> {
        self.may_make(claimant.path)?;
        let Some(location) = location(claimant.path) else { return Ok(()) };
        let mut planned = sync::lock(&self.planned);
        match planned.iter().find(|(known, _)| *known == location) {
            Some((_, holder)) => Err(taken(claimant, holder)),
            None => {
                planned.push((location, claimant.namespace.to_owned()));
                Ok(())
            }
        }
    }

    /// Claims an open regular file by a lock, which lasts as long as the claim.
    ///
    /// # Errors
    /// A namespace, the kernel or another program has the file, or it is one of the daemon's own.
    pub(super) fn file(
        &self,
        claimant: Claimant<'_>,
        file: &File,
    ) -> Result<Arc<Claim>, BackendError> {
        let fail = |error: io::Error| BackendError::io(claimant.path, &error);
        let identity = Identity::of(&file.metadata().map_err(fail)?);
        let Some(identity @ Identity::File(..)) = identity else {
            return Err(BackendError::new(claimant.path.display(), "not a regular file"));
        };
        if let Some(own) = self.own.iter().find(|own| Identity::at(&own.path) == Some(identity)) {
            return Err(own_file(claimant.path, own));
        }
        let being_made = self.begin(vec![identity]);
        being_made.shared(claimant)?;
        if let Some(user) = holders::kernel_user_of_file(identity) {
            let why = format!("{user}: end that use first, or give another file");
            return Err(BackendError::in_use(claimant.path.display(), why));
        }
        lock(claimant, file, identity)?;
        let descriptors = vec![file.try_clone().map_err(fail)?];
        Ok(being_made.keep(claimant, descriptors))
    }

    /// Claims a block device by opening it exclusively. Namespaces of this daemon that only read
    /// share one claim.
    ///
    /// # Errors
    /// A namespace, the kernel or another program has the device, or it cannot be opened.
    pub(super) fn block(
        &self,
        claimant: Claimant<'_>,
        device: &Path,
        number: u64,
    ) -> Result<Arc<Claim>, BackendError> {
        let fail = |error: io::Error| BackendError::io(claimant.path, &error);
        let mut identities = vec![Identity::Block(number)];
        let below = sysfs::loop_file(number).and_then(|path| {
            let mut options = OpenOptions::new();
            let file = options.read(true).write(claimant.writes).open(path).ok()?;
            Some((Identity::of(&file.metadata().ok()?)?, file))
        });
        identities.extend(below.iter().map(|(identity, _)| *identity));
        let being_made = self.begin(identities);
        if let Some(claim) = being_made.shared(claimant)?
            && claim.identities == being_made.identities
        {
            return Ok(claim);
        }
        let exclusive = OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(device);
        let exclusive = exclusive.map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => BackendError::in_use(
                claimant.path.display(),
                format!("it is in use: {}", holders::of_block(number)),
            ),
            _ => fail(error),
        })?;
        if Identity::of(&exclusive.metadata().map_err(fail)?) != Some(Identity::Block(number)) {
            return Err(BackendError::new(claimant.path.display(), "it has just been replaced"));
        }
        let mut descriptors = vec![exclusive];
        if let Some((identity, file)) = below {
            lock(claimant, &file, identity)?;
            descriptors.push(file);
        }
        Ok(being_made.keep(claimant, descriptors))
    }

    /// Claims an open device of persistent memory by a lock, which lasts as long as the claim. The
    /// lock holds against other daemons; what maps the device without asking is not kept away.
    ///
    /// # Errors
    /// A namespace or another program has the device.
    pub(super) fn memory(
        &self,
        claimant: Claimant<'_>,
        device: &File,
        number: u64,
    ) -> Result<Arc<Claim>, BackendError> {
        let identity = Identity::Character(number);
        let being_made = self.begin(vec![identity]);
        being_made.shared(claimant)?;
        lock(claimant, device, identity)?;
        let descriptor =
            device.try_clone().map_err(|error| BackendError::io(claimant.path, &error))?;
        Ok(being_made.keep(claimant, vec![descriptor]))
    }

    /// Claims a character device of a namespace without a block device. The claim holds against
    /// namespaces of this daemon only.
    ///
    /// # Errors
    /// Another namespace has the device.
    pub(super) fn character(
        &self,
        claimant: Claimant<'_>,
        number: u64,
    ) -> Result<Arc<Claim>, BackendError> {
        let being_made = self.begin(vec![Identity::Character(number)]);
        being_made.shared(claimant)?;
        Ok(being_made.keep(claimant, Vec::new()))
    }

    /// Begins a claim, once no other claim on the same file or device is being made.
    fn begin(&self, identities: Vec<Identity>) -> BeingMade<'_> {
        let is_other = |held: &mut Held| held.being_made.iter().any(|one| identities.contains(one));
        let waited = self.made.wait_while(self.held(), is_other);
        let mut held = waited.unwrap_or_else(PoisonError::into_inner);
        held.being_made.extend(&identities);
        drop(held);
        BeingMade { claims: self, identities }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        sync::lock(&self.held)
    }
}

impl BeingMade<'_> {
    /// Refuses a file or device that a namespace of this daemon has, unless both namespaces only
    /// read: then the claim is returned, which they may share.
    fn shared(&self, claimant: Claimant<'_>) -> Result<Option<Arc<Claim>>, BackendError> {
        // The last owner of a claim unlocks and closes its files, which may take long: these are dropped without the lock.
        let claims: Vec<Arc<Claim>> =
            self.claims.held().claims.iter().filter_map(Weak::upgrade).collect();
        let mut shared = None;
        for claim in claims {
            if !claim.identities.iter().any(|identity| self.identities.contains(identity)) {
                continue;
            }
            if claim.writes || claimant.writes {
                return Err(taken(claimant, &claim.holder));
            }
            shared = Some(claim);
        }
        Ok(shared)
    }

    /// Adds the claim to this daemon's claims, and forgets ended ones.
    fn keep(self, claimant: Claimant<'_>, descriptors: Vec<File>) -> Arc<Claim> {
        let claim = Arc::new(Claim {
            identities: self.identities.clone(),
            writes: claimant.writes,
            holder: claimant.namespace.to_owned(),
            held: descriptors,
        });
        let mut held = self.claims.held();
        held.claims.retain(|claim| claim.strong_count() > 0);
        held.claims.push(Arc::downgrade(&claim));
        drop(held);
        claim
    }
}

impl Drop for BeingMade<'_> {
    fn drop(&mut self) {
        self.claims.held().being_made.retain(|one| !self.identities.contains(one));
        self.claims.made.notify_all();
    }
}

fn taken(claimant: Claimant<'_>, holder: &str) -> BackendError {
    let why = format!(
        "{holder} has it already, perhaps by another path: give each namespace its own file or \
         device, or make each of its users read_only"
    );
    BackendError::in_use(claimant.path.display(), why)
}

fn own_file(path: &Path, own: &OwnFile) -> BackendError {
    let why = format!("this is {} of this daemon: give another file", own.what);
    BackendError::in_use(path.display(), why)
}

/// Locks a whole file for its open file description: a lock of another description conflicts even
/// in the same process.
fn lock(claimant: Claimant<'_>, file: &File, identity: Identity) -> Result<(), BackendError> {
    let kind = if claimant.writes { libc::F_WRLCK } else { libc::F_RDLCK };
    match fcntl(file, FcntlArg::F_OFD_SETLK(&whole_file(kind))) {
        Ok(_) => Ok(()),
        Err(Errno::EAGAIN | Errno::EACCES) => {
            let who = holders::processes(identity).unwrap_or_else(|| {
                format!("another program (`fuser -v {}` names it)", claimant.path.display())
            });
            let why = format!("{who} has it locked: end that first, or give another file");
            Err(BackendError::in_use(claimant.path.display(), why))
        }
        Err(error @ (Errno::ENOLCK | Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EINVAL)) => {
            tracing::warn!(
                path = %claimant.path.display(), %error,
                "this file system has no locks: nothing keeps other programs from the file"
            );
            Ok(())
        }
        Err(error) => {
            Err(BackendError::new(claimant.path.display(), format!("cannot lock it: {error}")))
        }
    }
}

/// Describes a lock of a kind (`F_WRLCK`, `F_RDLCK`, `F_UNLCK`) on a whole file.
fn whole_file(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: libc::c_short::try_from(kind).unwrap_or_default(),
        l_whence: libc::c_short::try_from(libc::SEEK_SET).unwrap_or_default(),
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

impl Drop for Claim {
    /// Ends the locks at once. Closing the descriptors would not: a process that is being started has
    /// copies of them until it runs its own program.
    fn drop(&mut self) {
        for file in &self.held {
            // A device or a file system without locks has none to end.
            let _ = fcntl(file, FcntlArg::F_OFD_SETLK(&whole_file(libc::F_UNLCK)));
        }
    }
}

impl Claim {
    /// Opens the claimed block device once more, for commands.
    ///
    /// # Errors
    /// The claim is not on a block device, or the operating system refuses.
    pub(super) fn open(&self, writes: bool) -> io::Result<File> {
        let held = self.device().ok_or(ErrorKind::NotFound)?;
        let path = format!("/proc/self/fd/{}", held.as_raw_fd());
        OpenOptions::new().read(true).write(writes).open(path)
    }

    /// Returns the claimed block device; `None` where the claim is on something else.
    pub(super) fn device(&self) -> Option<&File> {
        matches!(self.identities.first(), Some(Identity::Block(_))).then(|| self.held.first())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_ends_although_a_process_that_starts_has_its_descriptors() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let claimant = Claimant { namespace: "t1/1", path: file.path(), writes: true };
        let claims = Claims::default();
        let open = || OpenOptions::new().read(true).write(true).open(file.path()).unwrap();
        let first = open();
        // The copy of the descriptor in a child process between fork and exec.
        let _copy = first.try_clone().unwrap();
        let claim = claims.file(claimant, &first).unwrap();
        assert!(Claims::default().file(claimant, &open()).is_err(), "the claim holds");
        drop(claim);
        assert!(Claims::default().file(claimant, &open()).is_ok(), "the claim has ended");
    }

    #[test]
    fn device_that_does_not_answer_delays_claims_on_itself_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (hangs, path) = (folder.path().join("fifo"), folder.path().join("disk"));
        nix::unistd::mkfifo(&hangs, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let file = File::create(&path).unwrap();
        let claims = Claims::default();
        let claimant = |path, namespace| Claimant { namespace, path, writes: true };
        let (tell, told) = std::sync::mpsc::channel();
        let long = std::time::Duration::from_secs(60);
        std::thread::scope(|scope| {
            for name in ["t1/1", "t1/2"] {
                let (tell, claims, hangs) = (tell.clone(), &claims, &hangs);
                scope.spawn(move || {
                    // Opening waits for a writer, and finds no block device then.
                    let error = claims.block(claimant(hangs, name), hangs, 4711).unwrap_err();
                    tell.send(error.to_string()).unwrap();
                });
            }
            while claims.held().being_made.is_empty() {
                std::thread::yield_now();
            }
            let (tell, claims, path, file) = (tell.clone(), &claims, &path, &file);
            scope.spawn(move || {
                let claim = claims.file(claimant(path, "t1/3"), file).map(drop);
                tell.send(format!("{claim:?}")).unwrap();
            });
            let first = told.recv_timeout(long);
            // Both threads end.
            let writer = OpenOptions::new().read(true).write(true).open(&hangs).unwrap();
            assert_eq!(first.unwrap(), "Ok(())", "another file");
            for _ in 0..2 {
                let error = told.recv_timeout(long).unwrap();
                assert!(error.contains("has just been replaced"), "{error}");
            }
            drop(writer);
        });
    }
}
