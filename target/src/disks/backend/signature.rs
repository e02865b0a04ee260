//! The content of a device that is served for the first time: a file system, swap, a part of a RAID
//! or of a volume group, a partition table. A device with such content is perhaps the wrong one.
//!
//! `wipefs` (util-linux) finds the content. It knows some eighty formats and where on a device each
//! has its signature, reports when it cannot read, can erase just the signatures, and is on every
//! Debian machine. (`blkid -p` has one exit status for a device that it cannot read and one that is
//! empty.)

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;

use super::{BackendError, OnSignature, Opening};

/// Refuses or warns of a device that holds something, unless the namespace was seen before.
///
/// # Errors
/// The device holds something, or its content cannot be read.
pub(super) fn check(path: &Path, device: &File, opening: &Opening<'_>) -> Result<(), BackendError> {
    if opening.seen.is_some() || opening.signature == OnSignature::Ignore {
        return Ok(());
    }
    let why = match readable(device).and_then(|()| find(device, &["wipefs", "/usr/sbin/wipefs"])) {
        Ok(None) => return Ok(()),
        Ok(Some(what)) => format!("it holds {what}"),
        Err(error) => format!(
            "it may hold a file system, which cannot be found out: {error} (`wipefs` is in the \
             package util-linux)"
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

/// One signature, as `wipefs` lists it.
#[derive(Debug, Deserialize)]
struct Signature {
    /// The format, such as `ext4`, `swap` or `gpt`.
    #[serde(rename = "type")]
    format: Option<String>,
    /// The kind of use: `filesystem`, `raid`, `crypto`, `partition-table` or `other`.
    usage: Option<String>,
    label: Option<String>,
}

/// The list that `wipefs` prints.
#[derive(Debug, Deserialize)]
struct Listing {
    signatures: Vec<Signature>,
}

/// Says what a device holds; `None` where it holds nothing that `wipefs` knows. `commands` are the
/// places where `wipefs` may be.
fn find(device: &File, commands: &[&str]) -> Result<Option<String>, String> {
    for command in commands {
        // The device is the child's standard input, so that it stays the same device whatever
        // happens to the path meanwhile.
        let input = device.try_clone().map_err(|error| error.to_string())?;
        let output = Command::new(command)
            .args(["--json", "--output", "TYPE,USAGE,LABEL", "/proc/self/fd/0"])
            .env("LC_ALL", "C")
            .stdin(Stdio::from(input))
            .output();
        let output = match output {
            Ok(output) => output,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(format!("{command}: {error}")),
        };
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{command} failed ({}): {}", output.status, said.trim()));
        }
        return words(&output.stdout).map_err(|error| format!("{command}: {error}"));
    }
    Err("there is no wipefs".into())
}

/// Describes the content that `wipefs` lists; `None` where the list is empty.
fn words(json: &[u8]) -> Result<Option<String>, serde_json::Error> {
    // Older versions print nothing where they find nothing.
    if json.trim_ascii().is_empty() {
        return Ok(None);
    }
    let listing: Listing = serde_json::from_slice(json)?;
    let mut all: Vec<String> = Vec::new();
    for signature in &listing.signatures {
        let format = signature.format.as_deref().unwrap_or("unknown");
        let name = match signature.usage.as_deref() {
            Some("filesystem") => format!("a file system ({format})"),
            Some("raid") => format!("a part of a RAID or of a volume group ({format})"),
            Some("crypto") => format!("encrypted data ({format})"),
            Some("partition-table") => format!("a partition table ({format})"),
            _ if format == "swap" => "swap space".to_owned(),
            _ => format!("data ({format})"),
        };
        let label = signature.label.as_ref().filter(|label| !label.is_empty());
        let label = label.map_or(String::new(), |label| format!(" named \"{label}\""));
        let words = format!("{name}{label}");
        if !all.contains(&words) {
            all.push(words);
        }
    }
    Ok((!all.is_empty()).then(|| all.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
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

    fn found(file: &File) -> Option<String> {
        find(file, &["wipefs", "/usr/sbin/wipefs"]).unwrap()
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
    fn a_list_becomes_words() {
        let list = r#"{"signatures": [{"type": "gpt", "usage": "partition-table", "label": null},
            {"type": "gpt", "usage": "partition-table", "label": null},
            {"type": "LVM2_member", "usage": "raid"},
            {"type": "crypto_LUKS", "usage": "crypto", "label": "x"}]}"#;
        let expected = "a partition table (gpt), a part of a RAID or of a volume group \
                        (LVM2_member), encrypted data (crypto_LUKS) named \"x\"";
        assert_eq!(words(list.as_bytes()).unwrap().unwrap(), expected);
        assert_eq!(words(b"{\"signatures\": []}").unwrap(), None);
        assert_eq!(words(b"\n").unwrap(), None);
        assert!(words(b"DEVICE OFFSET").is_err());
    }

    #[test]
    fn a_first_device_that_holds_something_is_refused_and_a_known_one_is_not() {
        let swap = made_by("mkswap", &["-q"]);
        let claims = Claims::default();
        let opening =
            |signature| Opening { claims: &claims, namespace: "n", seen: None, signature };
        let check = |opening: &Opening<'_>| check(Path::new("/dev/sdb"), swap.as_file(), opening);
        let error = check(&opening(OnSignature::Refuse)).unwrap_err();
        assert_eq!(error.cause, crate::disks::backend::Cause::HoldsData);
        let text = error.to_string();
        assert!(text.starts_with("/dev/sdb: it holds swap space") && text.contains("--force"));
        check(&opening(OnSignature::Ignore)).unwrap();
        check(&opening(OnSignature::Warn)).unwrap();
        let seen = crate::control::store::Seen {
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
    fn what_cannot_be_looked_at_is_not_taken_for_empty() {
        let file = tempfile::tempfile().unwrap();
        assert!(readable(&file).unwrap_err().starts_with("it cannot be read"), "no block at all");
        file.set_len(8192).unwrap();
        readable(&file).unwrap();
        let error = find(&file, &["/nonexistent/wipefs"]).unwrap_err();
        assert_eq!(error, "there is no wipefs");
        let error = find(&file, &["false"]).unwrap_err();
        assert!(error.starts_with("false failed"), "{error}");
    }
}
