//! What a device holds already: a file system, swap, a part of a RAID or of a volume group, a
//! partition table. Whoever exports such a device for the first time has perhaps the wrong one.
//!
//! `blkid` (util-linux) tells. It knows some eighty formats, where on a device each has its marks
//! and which marks are left-overs, and is on every Debian machine.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{BackendError, Opening};

/// What becomes of a device that was never seen and holds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnSignature {
    /// It is refused.
    Refuse,
    /// It is taken with a warning: what was seen earlier is not known, so that it may be the
    /// hosts'.
    Warn,
    /// It is taken.
    Ignore,
}

/// Refuses or warns of a device that holds something, unless the namespace was seen before.
///
/// # Errors
/// It holds something, or what it holds cannot be told.
pub(super) fn check(path: &Path, device: &File, opening: &Opening<'_>) -> Result<(), BackendError> {
    if opening.seen.is_some() || opening.signature == OnSignature::Ignore {
        return Ok(());
    }
    let why = match find(device, &["blkid", "/usr/sbin/blkid", "/sbin/blkid"]) {
        Ok(None) => return Ok(()),
        Ok(Some(what)) => format!("it holds {what}"),
        Err(error) => format!(
            "whether it holds a file system cannot be told: {error} (`blkid` is in the package \
             util-linux)"
        ),
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
             (`wipefs -a`), or if hosts are to have what is on it, add it with --force (in the \
             configuration file: force = true)"
        ),
    ))
}

/// What a device holds, in words; `commands` are places where `blkid` may be.
fn find(device: &File, commands: &[&str]) -> Result<Option<String>, String> {
    for command in commands {
        // The device as the child's standard input: the same device, whatever the path leads to
        // meanwhile.
        let input = device.try_clone().map_err(|error| error.to_string())?;
        let output = Command::new(command)
            .args(["-p", "-o", "export", "/dev/stdin"])
            .env("LC_ALL", "C")
            .stdin(Stdio::from(input))
            .output();
        let output = match output {
            Ok(output) => output,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(format!("{command}: {error}")),
        };
        let said = String::from_utf8_lossy(&output.stderr);
        return match output.status.code() {
            Some(0) => Ok(Some(words(&String::from_utf8_lossy(&output.stdout)))),
            // Nothing found, or the device could not be read.
            Some(2) if said.trim().is_empty() => Ok(None),
            Some(8) => Ok(Some("the marks of several formats".into())),
            _ => Err(format!("{command} failed ({}): {}", output.status, said.trim())),
        };
    }
    Err("there is no blkid".into())
}

/// `blkid`'s lines of `KEY=value` as words.
fn words(export: &str) -> String {
    let value = |key: &str| {
        let mut lines = export.lines().filter_map(|line| line.split_once('='));
        lines.find(|(known, _)| *known == key).map(|(_, value)| value.replace('\\', ""))
    };
    let kind = value("TYPE").unwrap_or_default();
    let label = value("LABEL").map_or(String::new(), |label| format!(" named \"{label}\""));
    match (value("USAGE").as_deref(), value("PTTYPE")) {
        (Some("filesystem"), _) => format!("a file system ({kind}){label}"),
        (Some("raid"), _) => format!("a part of a RAID or of a volume group ({kind}){label}"),
        (Some("crypto"), _) => format!("encrypted data ({kind}){label}"),
        (Some(_), _) if kind == "swap" => format!("swap space{label}"),
        (Some(_), _) => format!("data ({kind}){label}"),
        (None, Some(table)) => format!("a partition table ({table})"),
        (None, None) => "data of a known format".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::backend::claim::Claims;

    /// A file of 1 MiB that is made by a command.
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

    fn found(file: &File) -> Option<String> {
        find(file, &["blkid", "/usr/sbin/blkid"]).unwrap()
    }

    #[test]
    fn what_a_device_holds_is_named() {
        let empty = tempfile::tempfile().unwrap();
        empty.set_len(1 << 20).unwrap();
        assert_eq!(found(&empty), None);
        (&empty).write_all(&[0xa5; 4096]).unwrap();
        assert_eq!(found(&empty), None, "bytes that mean nothing");
        let swap = made_by("mkswap", &["-q", "-L", "old"]);
        assert_eq!(found(swap.as_file()).unwrap(), "swap space named \"old\"");
        let ext4 = made_by("mkfs.ext4", &["-q", "-F", "-L", "my files"]);
        assert_eq!(found(ext4.as_file()).unwrap(), "a file system (ext4) named \"my files\"");
    }

    #[test]
    fn lines_become_words() {
        let table = "DEVNAME=/dev/stdin\nPTUUID=1\nPTTYPE=gpt\n";
        assert_eq!(words(table), "a partition table (gpt)");
        assert_eq!(
            words("TYPE=LVM2_member\nUSAGE=raid\n"),
            "a part of a RAID or of a volume group (LVM2_member)"
        );
        assert_eq!(words("TYPE=crypto_LUKS\nUSAGE=crypto\n"), "encrypted data (crypto_LUKS)");
    }

    #[test]
    fn a_first_device_that_holds_something_is_refused_and_a_known_one_is_not() {
        let swap = made_by("mkswap", &["-q"]);
        let claims = Claims::default();
        let opening =
            |signature| Opening { claims: &claims, namespace: "n", seen: None, signature };
        let check = |opening: &Opening<'_>| check(Path::new("/dev/sdb"), swap.as_file(), opening);
        let error = check(&opening(OnSignature::Refuse)).unwrap_err();
        assert_eq!(error.cause, crate::backend::Cause::HoldsData);
        let text = error.to_string();
        assert!(text.starts_with("/dev/sdb: it holds swap space") && text.contains("--force"));
        check(&opening(OnSignature::Ignore)).unwrap();
        check(&opening(OnSignature::Warn)).unwrap();
        let seen = crate::store::Seen {
            size: 4096,
            block_size: 512,
            kind: "block".into(),
            path: "/dev/sdb".into(),
            device: None,
            uuid: uuid::Uuid::nil(),
        };
        check(&Opening { seen: Some(&seen), ..opening(OnSignature::Refuse) }).unwrap();
    }

    #[test]
    fn without_blkid_nothing_is_known() {
        let file = tempfile::tempfile().unwrap();
        let error = find(&file, &["/nonexistent/blkid"]).unwrap_err();
        assert_eq!(error, "there is no blkid");
        let error = find(&file, &["false"]).unwrap_err();
        assert!(error.starts_with("false failed"), "{error}");
    }
}
