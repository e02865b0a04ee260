//! What stands in for the keyring of the kernel in builds without TLS.

use std::io;

use super::keys::KeyringKeys;

/// Returns no keys.
#[expect(clippy::unnecessary_wraps, reason = "builds with TLS have the same function")]
pub(super) fn open(_: Option<&str>) -> io::Result<Option<Box<dyn KeyringKeys>>> {
    Ok(None)
}

/// Says why no keys are found in a keyring.
pub(crate) fn doubt(name: &str) -> Option<String> {
    Some(format!("TLS keys in the keyring {name} are not used: this build has no TLS"))
}
