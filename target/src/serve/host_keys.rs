//! The secrets and TLS keys of hosts, read from the files of `host_keys` and from systemd credentials.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use fabric::dhchap::HostSecrets;
use fabric::key_file::{KeyFile, KeyFileError};
use fabric::tls_psk::ConfiguredPsk;
use sluice_config::check_nqn;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::sys::access;

/// The end of the names of files that have secrets.
const EXTENSION: &str = "key";
/// Largest file in bytes.
const FILE_MAX: u64 = 64 << 10;
/// The permissions of a file that others than its owner have.
const OTHERS: u32 = 0o077;

/// The secrets and TLS keys of hosts, by their NQNs.
pub type HostKeys = BTreeMap<String, KeyFile>;

/// The error of secrets that cannot be used.
#[derive(Debug, Error)]
pub enum HostKeysError {
    /// The folder or a file cannot be read.
    #[error("cannot read {path}: {why}")]
    Unreadable {
        /// The folder or file.
        path: PathBuf,
        /// The operating system's error, with advice.
        why: String,
    },
    /// Others may read a file.
    #[error("{path} has mode {mode:03o}: others than its owner may read it; chmod 600 {path}")]
    Open {
        /// The file.
        path: PathBuf,
        /// The mode, without the type.
        mode: u32,
    },
    /// A file is too large.
    #[error("{path} is larger than 64 KiB: a file has the secrets of one host")]
    Large {
        /// The file.
        path: PathBuf,
    },
    /// A file has a fault.
    #[error("{path}, {fault}")]
    Fault {
        /// The file.
        path: PathBuf,
        /// The line and its fault.
        fault: KeyFileError,
    },
    /// A file's host has no good name.
    #[error("{path}: {host} is no NQN: write what /etc/nvme/hostnqn has on the host")]
    Host {
        /// The file.
        path: PathBuf,
        /// The name.
        host: String,
    },
    /// Two files are of one host.
    #[error("{path}: another file has secrets of {host} too; put two secrets into one file")]
    Twice {
        /// The file.
        path: PathBuf,
        /// The host.
        host: String,
    },
}

/// Reads the secrets of all hosts: of `folder`, where there is one, and of the credentials that
/// systemd gave this process.
///
/// # Errors
/// A file cannot be read, may be read by others, or has a fault. The error has no part of a secret.
pub(crate) fn read(folder: Option<&Path>) -> Result<HostKeys, HostKeysError> {
    let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
    let mut keys = HostKeys::new();
    if let Some(folder) = folder {
        read_folder(folder, true, &mut keys)?;
    }
    if let Some(folder) = credentials {
        // systemd sees to the permissions, by other means than the mode.
        read_folder(&folder, false, &mut keys)?;
    }
    Ok(keys)
}

/// Checks that the folder can be read, without a look into its files.
///
/// # Errors
/// It cannot be read.
pub(crate) fn check_folder(folder: &Path) -> Result<(), HostKeysError> {
    fs::read_dir(folder).map(drop).map_err(unread(folder))
}

fn unread(path: &Path) -> impl FnOnce(std::io::Error) -> HostKeysError {
    let path = path.to_owned();
    move |error| {
        let why = access::explain(&error, &path);
        HostKeysError::Unreadable { path, why }
    }
}

fn read_folder(folder: &Path, check: bool, keys: &mut HostKeys) -> Result<(), HostKeysError> {
    let entries = fs::read_dir(folder).map_err(unread(folder))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(unread(folder))?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            paths.push(path);
        }
    }
    paths.sort();
    for path in paths {
        let file = fs::File::open(&path).map_err(unread(&path))?;
        let mode = file.metadata().map_err(unread(&path))?.permissions().mode() & 0o777;
        if check && mode & OTHERS != 0 {
            return Err(HostKeysError::Open { path, mode });
        }
        // With all of its room from the start, no copy is left behind where it grows.
        let room = usize::try_from(FILE_MAX + 1).unwrap_or_default();
        let mut text = Zeroizing::new(String::with_capacity(room));
        file.take(FILE_MAX + 1).read_to_string(&mut text).map_err(unread(&path))?;
        if text.len() as u64 > FILE_MAX {
            return Err(HostKeysError::Large { path });
        }
        let file = match KeyFile::parse(&text) {
            Ok(file) => file,
            Err(fault) => return Err(HostKeysError::Fault { path, fault }),
        };
        let host = file.host.clone();
        if check_nqn(&host).is_err() {
            return Err(HostKeysError::Host { path, host });
        }
        if keys.insert(host.clone(), file).is_some() {
            return Err(HostKeysError::Twice { path, host });
        }
    }
    Ok(())
}

fn secrets(file: Option<&KeyFile>) -> Option<&HostSecrets> {
    file.and_then(|file| file.secrets.as_ref())
}

fn tls_keys(file: Option<&KeyFile>) -> &[ConfiguredPsk] {
    file.map_or(&[], |file| &file.tls_keys)
}

/// Describes the differences between two sets of secrets, a line for each host.
pub(crate) fn differing(from: &HostKeys, to: &HostKeys) -> Vec<String> {
    let hosts: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
    let differs = |host: &String| {
        let (old, new) = (from.get(host), to.get(host));
        let secrets = match (secrets(old), secrets(new)) {
            (Some(_), None) => Some("has no secret any more"),
            (None, Some(_)) => Some("has to prove that it knows its secret"),
            (old, new) if old != new => Some("has other secrets"),
            _ => None,
        };
        let keys = match (tls_keys(old), tls_keys(new)) {
            (old, new) if old == new => None,
            (_, []) => Some("has no TLS key any more"),
            ([], _) => Some("has a TLS key"),
            _ => Some("has other TLS keys"),
        };
        secrets
            .into_iter()
            .chain(keys)
            .map(|what| format!("host {host} {what}"))
            .collect::<Vec<_>>()
    };
    hosts.into_iter().flat_map(differs).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;

    use fabric::dhchap::{Secret, SecretPair};
    use fabric::tls_psk::{PskLength, Transform};

    use super::*;

    /// Makes the file of a host. Beside its secret the target has one of its own.
    pub(crate) fn key_file(host: &str, secret: bool, tls_key: bool) -> (String, KeyFile) {
        let controller = Some(Secret::generate(&[2; 64], None));
        let pair = SecretPair { host: Secret::generate(&[1; 64], None), controller };
        let secrets = HostSecrets { pairs: vec![pair], hashes: vec![], groups: vec![] };
        let psk = ConfiguredPsk::generate(&[1; 48], PskLength::Bytes32, Transform::Hash);
        let file = KeyFile {
            secrets: secret.then_some(secrets),
            tls_keys: if tls_key { vec![psk] } else { vec![] },
            ..KeyFile::new(host)
        };
        (host.to_owned(), file)
    }

    const ONE: &str = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";

    fn write(folder: &Path, name: &str, mode: u32, text: &str) {
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(mode);
        file.open(folder.join(name)).unwrap().write_all(text.as_bytes()).unwrap();
    }

    fn of(host: &str) -> String {
        format!("host {host}\nsecret {ONE}\n")
    }

    fn read_one(folder: &Path) -> Result<HostKeys, HostKeysError> {
        let mut keys = HostKeys::new();
        read_folder(folder, true, &mut keys).map(|()| keys)
    }

    #[test]
    fn each_file_has_a_host_and_files_with_other_names_mean_nothing() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.key", 0o600, &of("nqn.2026-01.io.x:a"));
        write(folder.path(), "b.key", 0o400, &of("nqn.2026-01.io.x:b"));
        write(folder.path(), "README", 0o644, "nothing");
        let keys = read_one(folder.path()).unwrap();
        let hosts = ["nqn.2026-01.io.x:a", "nqn.2026-01.io.x:b"];
        assert!(keys.keys().eq(hosts), "{:?}", keys.keys());
        let mut other = keys.clone();
        other.remove("nqn.2026-01.io.x:a");
        assert_eq!(differing(&keys, &other), ["host nqn.2026-01.io.x:a has no secret any more"]);
        assert_eq!(differing(&other, &keys).len(), 1);
        assert!(differing(&keys, &keys).is_empty());
    }

    #[test]
    fn a_file_that_others_may_read_or_that_has_a_fault_is_named_and_nothing_of_its_secret() {
        let host = of("nqn.2026-01.io.x:a");
        for (mode, text, words) in [
            (0o640, host.clone(), "mode 640"),
            (0o604, host.clone(), "chmod 600"),
            (0o600, format!("{host}secret {}", ONE.replace("AAEC", "ABEC")), "line 3: its CRC-32"),
            (0o600, of("host"), "host is no NQN"),
            (0o600, "x".repeat(70_000), "larger than 64 KiB"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            write(folder.path(), "a.key", mode, &text);
            let error = read_one(folder.path()).unwrap_err().to_string();
            let is_named = error.contains(words) && error.contains("a.key");
            assert!(is_named && !error.contains("AwQF"), "{error}");
        }
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.key", 0o600, &host);
        write(folder.path(), "b.key", 0o600, &host);
        assert!(read_one(folder.path()).unwrap_err().to_string().contains("another file"));
        assert!(read(Some(Path::new("/nonexistent/keys"))).is_err());
        let error = check_folder(Path::new("/nonexistent/keys")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read /nonexistent/keys: "), "{error}");
        check_folder(folder.path()).unwrap();
    }
}
