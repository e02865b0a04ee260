//! The content of a disk, as far as its signatures tell: a file system, swap, a part of a RAID or of a volume
//! group, a partition table.
//!
//! `wipefs` (util-linux) finds the content. It knows some eighty formats and where on a device each has its
//! signature, reports when it cannot read, can erase just the signatures, and is on every Debian machine.
//! (`blkid -p` has the same exit status for an unreadable device as for an empty one.)

use std::fs::File;
use std::io::ErrorKind;
use std::process::{Command, Stdio};

use serde::Deserialize;

/// The places where `wipefs` may be.
const COMMANDS: [&str; 2] = ["wipefs", "/usr/sbin/wipefs"];

/// Describes the content of a device or file; `None` if `wipefs` finds no signature.
///
/// # Errors
/// There is no `wipefs`, or it fails; in words.
pub fn find(device: &File) -> Result<Option<String>, String> {
    find_by(device, &COMMANDS)
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

fn find_by(device: &File, commands: &[&str]) -> Result<Option<String>, String> {
    for command in commands {
        // The device is the child's standard input, so that the child reads this device even if the path is
        // replaced meanwhile.
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
    Err("there is no wipefs (it is in the package util-linux)".into())
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
    fn content_of_device_is_named() {
        let empty = tempfile::tempfile().unwrap();
        empty.set_len(1 << 20).unwrap();
        let found = |file: &File| find(file).unwrap();
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
    fn device_is_not_taken_for_empty_without_working_wipefs() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let error = find_by(&file, &["/nonexistent/wipefs"]).unwrap_err();
        assert!(error.starts_with("there is no wipefs"), "{error}");
        let error = find_by(&file, &["false"]).unwrap_err();
        assert!(error.starts_with("false failed"), "{error}");
    }
}
