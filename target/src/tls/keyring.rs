//! The keyring of the kernel that the configuration names: keys that nvme-cli has put there.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use sluice_tls::{Keyring, KeyringError};
use zeroize::Zeroizing;

use super::keys::KeyringKeys;
use crate::sync::lock;

/// The least time between two lines of the log.
const BETWEEN: Duration = Duration::from_secs(10);
/// The time for which a keyring that was not there is not looked for again: that takes a look at all keys.
const MISSING: Duration = Duration::from_secs(1);

/// The keyring, and what was told of it last.
#[derive(Debug)]
struct HostKeyring {
    keyring: Keyring,
    told: Mutex<Told>,
    /// When it was last found missing.
    missing: Mutex<Option<Instant>>,
}

/// What was told of a keyring last: why it could not be used, and when.
#[derive(Debug, Default)]
struct Told {
    fault: Option<KeyringError>,
    at: Option<Instant>,
}

impl HostKeyring {
    /// Tells how a look-up went, where that is another answer than before and not too soon: peers may
    /// ask for keys without end.
    fn tell(&self, fault: Option<KeyringError>) {
        let mut told = lock(&self.told);
        if told.fault == fault || told.at.is_some_and(|at| at.elapsed() < BETWEEN) {
            return;
        }
        match &fault {
            Some(why) => tracing::warn!(%why, "no TLS keys are found in a keyring"),
            None => {
                tracing::info!("TLS keys are found in the keyring {} again", self.keyring.name())
            }
        }
        *told = Told { fault, at: Some(Instant::now()) };
    }
}

impl KeyringKeys for HostKeyring {
    fn find(&self, identity: &str) -> Option<Zeroizing<Vec<u8>>> {
        if lock(&self.missing).is_some_and(|at| at.elapsed() < MISSING) {
            return None;
        }
        match self.keyring.find(identity) {
            Ok(found) => {
                self.tell(None);
                found
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

/// Returns the keys of a keyring, which need not be there yet.
pub(super) fn open(name: &str) -> Option<Box<dyn KeyringKeys>> {
    let keyring = Keyring::new(name)?;
    Some(Box::new(HostKeyring { keyring, told: Mutex::default(), missing: Mutex::default() }))
}

/// Says why no keys are found in a keyring; `None`: they are.
pub(crate) fn doubt(name: &str) -> Option<String> {
    let why = Keyring::new(name)?.check().err()?;
    Some(format!(
        "hosts whose TLS keys are in the keyring {name} are refused until it can be used: {why}"
    ))
}
