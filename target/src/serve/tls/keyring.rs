//! The keyring of the kernel that the configuration names: keys that nvme-cli has put there.
//!
//! A thread that uses a keyring gets new credentials, and so does each thread that it starts later. The
//! kernel then refuses their writes to RDMA devices that other threads have opened, and the other way
//! round. So a thread of its own makes all calls about a keyring, and starts no other thread.

use std::io;
use std::sync::Mutex;
use std::sync::mpsc::{self, Sender};
use std::thread::Builder;
use std::time::{Duration, Instant};

use sluice_tls::{Keyring, KeyringError};
use zeroize::Zeroizing;

use super::keys::KeyringKeys;
use crate::sys::sync::lock;
use crate::sys::threads::AbortOnPanic;

/// The least time between two lines of the log.
const BETWEEN: Duration = Duration::from_secs(10);
/// The time for which a keyring that was not there is not looked for again: that takes a look at all keys.
const MISSING: Duration = Duration::from_secs(1);

/// A call about a keyring.
type Call = Box<dyn FnOnce(&Keyring) + Send>;

/// The thread that makes all calls about a keyring. It ends when this is dropped.
#[derive(Debug)]
struct KeyringThread {
    /// The name of the keyring.
    name: String,
    calls: Sender<Call>,
}

impl KeyringThread {
    /// Starts the thread of the keyring with this name.
    ///
    /// # Errors
    /// No thread is left, or no keyring can have the name.
    fn start(name: &str) -> io::Result<Self> {
        let keyring = Keyring::new(name).ok_or(io::ErrorKind::InvalidInput)?;
        let (calls, received) = mpsc::channel::<Call>();
        Builder::new().name("keyring".to_owned()).spawn(move || {
            // Without this thread no key would be found, and nobody would know why.
            let _guard = AbortOnPanic;
            for call in received {
                call(&keyring);
            }
        })?;
        Ok(Self { name: name.to_owned(), calls })
    }

    /// Makes a call on the thread, and waits for its result; `None` where the thread has ended.
    fn call<T: Send + 'static>(
        &self,
        make: impl FnOnce(&Keyring) -> T + Send + 'static,
    ) -> Option<T> {
        let (result, received) = mpsc::sync_channel(1);
        let call = move |keyring: &Keyring| {
            // The caller waits for the result.
            let _ = result.send(make(keyring));
        };
        self.calls.send(Box::new(call)).ok()?;
        received.recv().ok()
    }
}

/// The keyring, and the last report about it.
#[derive(Debug)]
struct HostKeyring {
    thread: KeyringThread,
    told: Mutex<Told>,
    /// When it was last found missing.
    missing: Mutex<Option<Instant>>,
}

/// The last report about a keyring: why it could not be used, and when.
#[derive(Debug, Default)]
struct Told {
    fault: Option<KeyringError>,
    at: Option<Instant>,
}

impl HostKeyring {
    /// Reports the result of a look-up if it differs from the last report and is not too soon: peers may ask for
    /// keys without end.
    fn tell(&self, fault: Option<KeyringError>) {
        let mut told = lock(&self.told);
        if told.fault == fault || told.at.is_some_and(|at| at.elapsed() < BETWEEN) {
            return;
        }
        match &fault {
            Some(why) => tracing::warn!(%why, "no TLS keys are found in a keyring"),
            None => {
                tracing::info!("TLS keys are found in the keyring {} again", self.thread.name)
            }
        }
        *told = Told { fault, at: Some(Instant::now()) };
    }
}

impl KeyringKeys for HostKeyring {
    fn find(&self, identity: &str) -> Option<Zeroizing<Vec<u8>>> {
        let wanted = identity.to_owned();
        self.ask(move |keyring| keyring.find(&wanted)).flatten()
    }

    fn identities(&self) -> Vec<String> {
        self.ask(Keyring::descriptions).unwrap_or_default()
    }
}

impl HostKeyring {
    /// Asks the keyring, unless it was missing a moment ago; `None` where it cannot be used.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Keyring) -> Result<T, KeyringError> + Send + 'static,
    ) -> Option<T> {
        if lock(&self.missing).is_some_and(|at| at.elapsed() < MISSING) {
            return None;
        }
        match self.thread.call(question)? {
            Ok(found) => {
                self.tell(None);
                Some(found)
            }
            Err(fault) => {
                if matches!(fault, KeyringError::Missing { .. }) {
                    *lock(&self.missing) = Some(Instant::now());
                }
                self.tell(Some(fault));
                None
            }
        }
    }
}

/// Returns the keys of a keyring, which need not be there yet; `None` where none is named.
///
/// # Errors
/// No thread is left.
pub(super) fn open(name: Option<&str>) -> io::Result<Option<Box<dyn KeyringKeys>>> {
    let Some(name) = name else { return Ok(None) };
    let thread = KeyringThread::start(name)?;
    let (told, missing) = (Mutex::default(), Mutex::default());
    Ok(Some(Box::new(HostKeyring { thread, told, missing })))
}

/// Says why no keys are found in a keyring; `None`: they are.
pub(crate) fn doubt(name: &str) -> Option<String> {
    let why = match KeyringThread::start(name) {
        Ok(thread) => thread.call(Keyring::check)?.err()?.to_string(),
        Err(error) => error.to_string(),
    };
    Some(format!(
        "hosts whose TLS keys are in the keyring {name} are refused until it can be used: {why}"
    ))
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;

    /// Returns whether the calling thread has a keyring of its own, and so credentials of its own.
    fn has_own_keyring() -> Result<bool, Errno> {
        // SAFETY: numbers only. The last one asks for no new keyring.
        let result = unsafe {
            let of_thread = libc::KEY_SPEC_THREAD_KEYRING;
            libc::syscall(libc::SYS_keyctl, libc::KEYCTL_GET_KEYRING_ID, of_thread, 0)
        };
        match Errno::result(result) {
            Ok(_) => Ok(true),
            Err(Errno::ENOKEY) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    #[test]
    fn keyring_calls_leave_the_credentials_of_other_threads_alone() {
        let name = "sluicegate-tests-have-none";
        if has_own_keyring() != Ok(false) {
            return; // The machine lets nobody use keys, or another test has run on this thread.
        }
        assert!(doubt(name).is_some());
        let keys = open(Some(name)).unwrap().unwrap();
        assert!(keys.find("NVMe0R01 host subsystem").is_none());
        assert_eq!(has_own_keyring(), Ok(false));
        // The calls themselves do change the credentials of their thread.
        let here = std::thread::spawn(move || {
            let checked = Keyring::new(name).unwrap().check();
            (checked, has_own_keyring())
        });
        let (checked, own) = here.join().unwrap();
        assert_eq!(own, Ok(matches!(checked, Err(KeyringError::Missing { .. }))));
    }
}
