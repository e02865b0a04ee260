//! The content of a device that is served for the first time: a file system, swap, a part of a RAID
//! or of a volume group, a partition table. A device with such content is perhaps the wrong one.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use sluice_config::signature;

use super::{BackendError, OnSignature, Opening};

/// Refuses or warns of a device that holds something, unless the namespace was seen before.
///
/// # Errors
/// The device holds something, or its content cannot be read.
pub(super) fn check(path: &Path, device: &File, opening: &Opening<'_>) -> Result<(), BackendError> {
    if opening.seen.is_some() || opening.signature == OnSignature::Ignore {
        return Ok(());
    }
    let why = match readable(device).and_then(|()| signature::find(device)) {
        Ok(None) => return Ok(()),
        Ok(Some(what)) => format!("it holds {what}"),
        Err(error) => format!("it may hold a file system, which cannot be found out: {error}"),
    };
    if opening.signature == OnSignature::Warn {
        tracing::warn!(
            path = %path.display(), why,
            "a device with data on it is exported for writing; without `state` (or since it was \
             damaged) it is not known whether hosts put it there"
        );
        return Ok(());
    }
    Err(BackendError::holds_data(
        path.display(),
        format!(
            "{why}, and hosts would write over it: give another device, erase this one \
             (`wipefs -a`), or if hosts should have its content, add it with --force (in the \
             configuration file: force = true)"
        ),
    ))
}

/// Checks that the first and the last 4 KiB can be read: a device that cannot be read may hold
/// anything.
fn readable(mut device: &File) -> Result<(), String> {
    const BLOCK: u64 = 4096;
    let mut block = [0; 4096];
    let mut read = |place: SeekFrom| -> std::io::Result<()> {
        let at = device.seek(place)?;
        device.seek(SeekFrom::Start(at / BLOCK * BLOCK))?;
        device.read_exact(&mut block)
    };
    let last = SeekFrom::End(-4096);
    read(SeekFrom::Start(0))
        .and_then(|()| read(last))
        .map_err(|e| format!("it cannot be read: {e}"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::control::store::Seen;
    use crate::disks::backend::claim::Claims;

    /// Makes a file of 1 MiB by a command.
    fn made_by(command: &str, arguments: &[&str]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new(command)
            .env("PATH", format!("{path}:/usr/sbin:/sbin"))
            .args(arguments)
            .arg(file.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        file
    }

    #[test]
    fn a_first_device_that_holds_something_is_refused_and_a_known_one_is_not() {
        let swap = made_by("mkswap", &["-q"]);
        let (claims, seen) = (Claims::default(), Seen::for_tests(4096));
        let opening = Opening::for_tests(&claims);
        let check = |opening: &Opening<'_>| check(Path::new("/dev/sdb"), swap.as_file(), opening);
        let error = check(&opening).unwrap_err();
        assert_eq!(error.cause, crate::disks::backend::Cause::HoldsData);
        let text = error.to_string();
        assert!(text.starts_with("/dev/sdb: it holds swap space") && text.contains("--force"));
        for signature in [OnSignature::Ignore, OnSignature::Warn] {
            check(&Opening { signature, ..opening }).unwrap();
        }
        check(&Opening { seen: Some(&seen), ..opening }).unwrap();
    }

    #[test]
    fn what_cannot_be_looked_at_is_not_taken_for_empty() {
        let file = tempfile::tempfile().unwrap();
        assert!(readable(&file).unwrap_err().starts_with("it cannot be read"), "no block at all");
        file.set_len(8192).unwrap();
        readable(&file).unwrap();
    }
}
