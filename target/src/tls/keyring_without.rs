//! What stands in for the keyring of the kernel in builds without TLS.

use super::keys::KeyringKeys;

/// Returns no keys.
pub(super) fn open(_: &str) -> Option<Box<dyn KeyringKeys>> {
    None
}

/// Says why no keys are found in a keyring.
pub(crate) fn doubt(name: &str) -> Option<String> {
    Some(format!("TLS keys in the keyring {name} are not used: this build has no TLS"))
}
