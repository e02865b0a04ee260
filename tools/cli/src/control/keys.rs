//! `sluice host key …`: the secrets by which hosts prove themselves and their TLS keys, in the target's folder. Asks
//! the daemon whether it reads the stored keys.

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};
use fabric::dhchap::{Hash, Secret, SecretPair};
use fabric::key_file::KeyFile;
use fabric::tls_psk::{ConfiguredPsk, PskLength, Transform};
use serde_json::Value;
use sluice_config::answer::HostKeys;
use sluice_config::failure::{Failure, NO_DAEMON, PERMISSION, REFUSED, UNKNOWN_METHOD};
use sluice_config::{call, params};
use zeroize::Zeroizing;

use super::request::Request;
use crate::host::authentication::{must_name_file, random};

/// Largest file of secrets in bytes.
const FILE_MAX: u64 = 64 << 10;
/// The end of the names of files with secrets.
const EXTENSION: &str = "key";

/// `sluice host key …`.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum KeyAction {
    /// Make a secret and print it, as nvme gen-dhchap-key does; or a TLS key, as nvme gen-tls-key
    Generate {
        /// Make a TLS key
        #[arg(long)]
        tls: bool,
        /// Hash by which both ends transform the secret with the NQN; with --tls it chooses the
        /// cipher too: sha256 (AES-128) or sha384 (AES-256)
        #[arg(long, visible_alias = "hmac", value_enum, default_value_t = Transformation::Sha256)]
        hash: Transformation,
    },
    /// Store the secret of a host; it counts after a reload
    Set {
        /// The host's NQN: the content of its /etc/nvme/hostnqn
        host: String,
        /// File with the secret (DHHC-1:…); - reads it from the standard input
        #[arg(required_unless_present = "tls_key")]
        secret: Option<PathBuf>,
        /// File with the secret by which the target proves itself to this host
        #[arg(long, value_name = "FILE", requires = "secret")]
        controller: Option<PathBuf>,
        /// File with the host's TLS key (NVMeTLSkey-1:…); - reads it from the standard input
        #[arg(long, value_name = "FILE")]
        tls_key: Option<PathBuf>,
        /// Keep the present secret or TLS key beside the new one, until the host has changed to it
        #[arg(long)]
        beside: bool,
        /// Store it even where the daemon reads another folder, or no subsystem allows the host
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Remove the secrets and TLS keys of a host; it counts after a reload
    Remove {
        /// The host's NQN
        host: String,
        /// Remove them even where the daemon reads another folder
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        place: Place,
    },
}

/// The folder of secrets.
#[derive(Clone, Debug, Args)]
pub(crate) struct Place {
    /// The folder that `host_keys` of the target's configuration names
    #[arg(long, value_name = "FOLDER", default_value = "/etc/sluicegate/keys")]
    folder: PathBuf,
}

/// The transformation of a secret.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Transformation {
    None,
    Sha256,
    Sha384,
    Sha512,
}

/// Runs a subcommand; `ask` sends a request to the daemon. Returns the output, which may be a secret.
///
/// # Errors
/// A file cannot be read or written, or is invalid; or the daemon would not use the stored key, and `force` is not set.
pub(super) fn run(
    action: &KeyAction,
    ask: impl FnOnce(&Request) -> Result<Value, Failure>,
) -> Result<Zeroizing<String>> {
    match action {
        KeyAction::Generate { tls: true, hash } => {
            let (length, transform) = match hash {
                Transformation::None => (PskLength::Bytes32, Transform::None),
                Transformation::Sha256 => (PskLength::Bytes32, Transform::Hash),
                Transformation::Sha384 => (PskLength::Bytes48, Transform::Hash),
                Transformation::Sha512 => bail!("a TLS key has hash sha256, sha384 or none"),
            };
            let random = Zeroizing::new(random::<48>()?);
            let key = ConfiguredPsk::generate(&random, length, transform);
            Ok(Zeroizing::new(format!("{}\n", *key.text())))
        }
        KeyAction::Generate { tls: false, hash } => {
            let hash = match hash {
                Transformation::None => None,
                Transformation::Sha256 => Some(Hash::Sha256),
                Transformation::Sha384 => Some(Hash::Sha384),
                Transformation::Sha512 => Some(Hash::Sha512),
            };
            let random = Zeroizing::new(random::<64>()?);
            let secret = Secret::generate(&random, hash);
            Ok(Zeroizing::new(format!("{}\n", *secret.text())))
        }
        KeyAction::Set { host, secret, controller, tls_key, beside, force, place } => {
            ensure!(
                host.starts_with("nqn.") && !host.contains(char::is_whitespace),
                "{host} is no NQN: it is what /etc/nvme/hostnqn has on the host"
            );
            let controller = controller.as_deref().map(read_secret).transpose()?;
            let secret = secret.as_deref().map(read_secret).transpose()?;
            let pair = secret.map(|host| SecretPair { host, controller });
            ensure!(
                pair.as_ref().is_none_or(|pair| pair.controller.as_ref() != Some(&pair.host)),
                "the target has the host's secret: make one of its own for it"
            );
            let tls_key = tls_key.as_deref().map(read_tls_key).transpose()?;
            let warning = checked(ask, place, host, KeyChange::Store, *force)?;
            let path = set(&place.folder, host, (pair, tls_key), *beside)?;
            let path = path.display();
            let text = format!("{path}: `sluice reload` makes the target take it\n{warning}");
            Ok(Zeroizing::new(text))
        }
        KeyAction::Remove { host, force, place } => {
            let found = find(&place.folder, host)?;
            let (path, _) = found.with_context(|| {
                let folder = place.folder.display();
                format!("{host} has no secret in {folder}; name another folder with --folder")
            })?;
            let warning = checked(ask, place, host, KeyChange::Remove, *force)?;
            let path_name = path.display();
            fs::remove_file(&path).with_context(|| format!("cannot remove {path_name}"))?;
            let text = format!(
                "{path_name}: removed; `sluice reload` makes the target forget it\n{warning}"
            );
            Ok(Zeroizing::new(text))
        }
    }
}

/// A change of a host's secrets and TLS keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyChange {
    Store,
    Remove,
}

/// Asks the daemon whether it reads this folder, and where a secret is stored, whether a subsystem allows the host.
/// Returns warnings, a line for each.
///
/// # Errors
/// The change would have no effect on the daemon, and that is not forced.
fn checked(
    ask: impl FnOnce(&Request) -> Result<Value, Failure>,
    Place { folder }: &Place,
    host: &str,
    change: KeyChange,
    force: bool,
) -> Result<String> {
    let asked = params::OfHost { host: Some(host.to_owned()) };
    let unasked = |failure: &Failure| {
        [NO_DAEMON, PERMISSION, UNKNOWN_METHOD].contains(&failure.kind.as_str())
    };
    let (mut doubts, mut more) = (Vec::new(), Vec::new());
    match ask(&Request::of::<call::HostKeys>(&asked)) {
        Ok(answer) => {
            let answer: HostKeys = serde_json::from_value(answer)?;
            doubts.extend(folder_doubt(&answer, folder));
            let why = answer.unreadable.as_ref().filter(|_| !answer.unreadable_folder);
            more.extend(
                why.map(|why| format!("the daemon could not read the secrets of hosts: {why}")),
            );
            if change == KeyChange::Store {
                doubts.extend(host_doubt(&answer, host));
                let row = answer.hosts.iter().find(|row| row.host == host);
                more.extend(row.is_some_and(|row| row.allowed && !row.listed).then(|| {
                    format!(
                        "no subsystem lists {host}, and one allows any host: the secret has no effect if the NQN \
                         is mistyped"
                    )
                }));
            }
        }
        Err(failure) if unasked(&failure) => more.push(format!(
            "nobody checked that the daemon reads this folder and that a subsystem allows the host: {failure}"
        )),
        Err(failure) => doubts.push(failure.message),
    }
    if !doubts.is_empty() && !force {
        let verb = match change {
            KeyChange::Store => "stores",
            KeyChange::Remove => "removes",
        };
        let message = format!("{}; --force {verb} it all the same", doubts.join("\n"));
        return Err(Failure::new(REFUSED, message).into());
    }
    Ok(doubts.iter().chain(&more).map(|warning| format!("Warning: {warning}\n")).collect())
}

/// Returns the reason for which the daemon does not read secrets in this folder, with the remedy.
fn folder_doubt(daemon: &HostKeys, folder: &Path) -> Option<String> {
    match &daemon.folder {
        None => Some(format!(
            "the daemon reads no folder with secrets: set host_keys = \"{}\" in [target] of its \
             configuration, and restart it",
            absolute(folder).display()
        )),
        Some(read) if absolute(Path::new(read)) != absolute(folder) => Some(format!(
            "the daemon reads secrets in {read}, not in {}: use --folder {read}",
            folder.display()
        )),
        Some(read) if daemon.unreadable_folder => Some(format!(
            "{}: make the folder the daemon's (install -d -m 700 -o sluicegate {read})",
            daemon
                .unreadable
                .as_deref()
                .unwrap_or("the daemon cannot read its folder with secrets")
        )),
        Some(_) => None,
    }
}

/// Returns the reason for which the daemon has no use for a secret of the host, with the remedy.
fn host_doubt(daemon: &HostKeys, host: &str) -> Option<String> {
    let is_allowed = daemon.hosts.iter().any(|known| known.host == host && known.allowed);
    (!is_allowed).then(|| {
        format!(
            "no subsystem allows {host}: correct the NQN, or allow it first (sluice host add SUBSYSTEM \
             {host})"
        )
    })
}

/// Returns the path without links where it exists, and from the root in any case.
fn absolute(path: &Path) -> PathBuf {
    let whole = path.canonicalize().or_else(|_| std::path::absolute(path));
    whole.unwrap_or_else(|_| path.to_owned())
}

/// Reads a secret from a file, or from the standard input.
fn read_secret(file: &Path) -> Result<Secret> {
    if file != Path::new("-") {
        return crate::host::authentication::secret(file);
    }
    let mut text = Zeroizing::new(String::new());
    std::io::stdin().take(FILE_MAX).read_to_string(&mut text).context("the standard input")?;
    text.parse().context("the standard input has no secret")
}

/// Reads a TLS key from a file, or from the standard input.
fn read_tls_key(file: &Path) -> Result<ConfiguredPsk> {
    must_name_file(file)?;
    let name = if file == Path::new("-") {
        "the standard input".into()
    } else {
        file.display().to_string()
    };
    let mut text = Zeroizing::new(String::new());
    let mut source: Box<dyn std::io::Read> = match file == Path::new("-") {
        true => Box::new(std::io::stdin()),
        false => Box::new(fs::File::open(file).with_context(|| name.clone())?),
    };
    source.by_ref().take(FILE_MAX).read_to_string(&mut text).with_context(|| name.clone())?;
    text.parse().with_context(|| format!("{name} has no TLS key"))
}

/// Finds the file of a host, with its content.
fn find(folder: &Path, host: &str) -> Result<Option<(PathBuf, KeyFile)>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("{}", folder.display())),
    };
    for entry in entries {
        let path = entry.with_context(|| format!("{}", folder.display()))?.path();
        if path.extension().is_none_or(|extension| extension != EXTENSION) {
            continue;
        }
        let name = path.display().to_string();
        let mut text = Zeroizing::new(String::new());
        let file = fs::File::open(&path).with_context(|| name.clone())?;
        file.take(FILE_MAX).read_to_string(&mut text).with_context(|| name.clone())?;
        let file = KeyFile::parse(&text).with_context(|| name)?;
        if file.host == host {
            return Ok(Some((path, file)));
        }
    }
    Ok(None)
}

/// Makes the name of a new file: the host's NQN, with `_` for characters unfit for file names.
fn file_name(host: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || ".-".contains(c) { c } else { '_' };
    let name: String = host.chars().map(plain).take(200).collect();
    format!("{name}.{EXTENSION}")
}

/// Stores a host's secrets and TLS key. Returns the file.
fn set(
    folder: &Path,
    host: &str,
    (pair, tls_key): (Option<SecretPair>, Option<ConfiguredPsk>),
    beside: bool,
) -> Result<PathBuf> {
    let (path, mut file) = match find(folder, host)? {
        Some(found) => found,
        None => {
            let path = folder.join(file_name(host));
            ensure!(!path.exists(), "{} is a file of another host", path.display());
            (path, KeyFile::new(host))
        }
    };
    if let Some(pair) = pair {
        let pairs = &mut file.secrets_mut().pairs;
        pairs.retain(|known| known.host != pair.host);
        match pairs.len() {
            _ if !beside => pairs.clear(),
            0 | 1 => {}
            _ => bail!(
                "{host} has two secrets already: set one without --beside, which removes both"
            ),
        }
        pairs.push(pair);
    }
    if let Some(key) = tls_key {
        let added = file.add_tls_key(key, beside);
        added.with_context(|| {
            format!("{host}: set it without --beside, which removes the keys of its length")
        })?;
    }
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| format!("cannot make the folder {}", folder.display()))?;
    write(&path, &file.text()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Writes a file that its owner alone may read, as a whole or not at all. It belongs to the owner of its folder, the
/// daemon, even if another user writes it.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let folder = fs::metadata(path.parent().unwrap_or(Path::new(".")))?;
    if folder.uid() != file.metadata()?.uid() {
        fchown(&file, Some(folder.uid()), Some(folder.gid()))?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;
    use sluice_config::answer::HostKey;

    use super::*;

    const HOST: &str = "nqn.2026-01.io.x:a/b";

    fn pair(tag: u8) -> SecretPair {
        SecretPair { host: Secret::generate(&[tag; 64], None), controller: None }
    }

    fn key(tag: u8) -> ConfiguredPsk {
        ConfiguredPsk::generate(&[tag; 48], PskLength::Bytes32, Transform::Hash)
    }

    fn set_secret(folder: &Path, host: &str, pair: SecretPair, beside: bool) -> Result<PathBuf> {
        set(folder, host, (Some(pair), None), beside)
    }

    fn secrets(folder: &Path) -> Vec<SecretPair> {
        find(folder, HOST)
            .unwrap()
            .and_then(|(_, file)| file.secrets)
            .map(|s| s.pairs)
            .unwrap_or_default()
    }

    #[test]
    fn a_secret_is_stored_for_its_owner_alone_exchanged_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("keys");
        set_secret(&folder, HOST, pair(1), false).unwrap();
        let path = folder.join("nqn.2026-01.io.x_a_b.key");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(secrets(&folder), [pair(1)]);
        set_secret(&folder, HOST, pair(2), true).unwrap();
        assert_eq!(secrets(&folder), [pair(1), pair(2)], "both are good for a while");
        assert!(set_secret(&folder, HOST, pair(3), true).is_err(), "two, and no more");
        set_secret(&folder, HOST, pair(2), false).unwrap();
        assert_eq!(secrets(&folder), [pair(2)], "the old one is gone");
        set_secret(&folder, "nqn.2026-01.io.x:other", pair(4), false).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        assert!(
            set_secret(&folder, "nqn.2026-01.io.x:a_b", pair(5), false).is_err(),
            "a name is taken"
        );
        let remove = |read: &Path, force| {
            let place = Place { folder: folder.clone() };
            let action = KeyAction::Remove { host: HOST.to_owned(), force, place };
            run(&action, |_| Ok(json!(daemon(Some(read), false))))
        };
        let said = remove(Path::new("/etc/other"), false).unwrap_err().to_string();
        assert!(said.contains("use --folder /etc/other; --force removes it"), "{said}");
        assert!(path.exists(), "the daemon still has it");
        assert!(remove(&folder, false).unwrap().ends_with("makes the target forget it\n"));
        assert!(!path.exists());
        assert!(remove(&folder, true).is_err(), "it is gone");
        set_secret(&folder, HOST, pair(1), false).unwrap();
        assert!(
            remove(Path::new("/etc/other"), true).unwrap().contains("Warning: the daemon reads")
        );
        assert!(!path.exists());
    }

    /// Makes the answer of a daemon that reads this folder.
    fn daemon(folder: Option<&Path>, allowed: bool) -> HostKeys {
        HostKeys {
            folder: folder.map(|folder| folder.display().to_string()),
            hosts: vec![HostKey {
                host: HOST.to_owned(),
                allowed,
                listed: allowed,
                ..HostKey::default()
            }],
            ..HostKeys::default()
        }
    }

    #[test]
    fn a_secret_that_the_daemon_would_not_use_is_refused_with_what_would_be_right() {
        let top = tempfile::tempdir().unwrap();
        let (folder, own) = (top.path().join("keys"), top.path().join("own.secret"));
        fs::write(&own, pair(1).host.text().as_bytes()).unwrap();
        let set = |host: &str, answer: Result<HostKeys, Failure>, force: bool| {
            let action = KeyAction::Set {
                host: host.to_owned(),
                secret: Some(own.clone()),
                controller: None,
                tls_key: None,
                beside: false,
                force,
                place: Place { folder: folder.clone() },
            };
            run(&action, |request| {
                assert_eq!(request.params, json!({"host": HOST}));
                answer.map(|answer| json!(answer))
            })
        };
        for (answer, words) in [
            (daemon(None, true), "set host_keys = "),
            (daemon(Some(Path::new("/etc/other")), true), "use --folder /etc/other"),
            (daemon(Some(&folder), false), "sluice host add SUBSYSTEM nqn.2026-01.io.x:a/b"),
            (
                HostKeys { unreadable_folder: true, ..daemon(Some(&folder), true) },
                "install -d -m 700",
            ),
        ] {
            let error = set(HOST, Ok(answer.clone()), false).unwrap_err();
            assert_eq!(error.downcast_ref::<Failure>().unwrap().kind, REFUSED);
            let said = error.to_string();
            assert!(said.contains(words) && said.contains("--force"), "{said}");
            assert!(!folder.exists(), "nothing is stored");
            let said = set(HOST, Ok(answer), true).unwrap();
            assert!(said.contains("\nWarning: ") && said.contains(words), "{}", *said);
            fs::remove_dir_all(&folder).unwrap();
        }
        let said = set(HOST, Ok(daemon(Some(&folder), true)), false).unwrap();
        assert!(said.ends_with("`sluice reload` makes the target take it\n"), "{}", *said);
        let faulty =
            HostKeys { unreadable: Some("mode 640".into()), ..daemon(Some(&folder), true) };
        let said = set(HOST, Ok(faulty), false).unwrap();
        assert!(said.contains("Warning: ") && said.contains("mode 640"), "{}", *said);
        let mut any = daemon(Some(&folder), true);
        any.hosts.iter_mut().for_each(|host| host.listed = false);
        let said = set(HOST, Ok(any), false).unwrap();
        assert!(said.contains("Warning: no subsystem lists nqn.2026-01.io.x:a/b"), "{}", *said);
        let gone = Failure::new(NO_DAEMON, "sluiced is not running");
        let said = set(HOST, Err(gone), false).unwrap();
        assert!(said.contains("nobody checked") && said.contains("is not running"), "{}", *said);
        let wrong = Failure::new("invalid", "`host` is no NQN");
        assert!(set(HOST, Err(wrong), false).unwrap_err().to_string().contains("is no NQN"));
        assert!(set("host", Ok(daemon(Some(&folder), true)), true).is_err(), "no NQN");
    }

    #[test]
    fn a_tls_key_is_exchanged_beside_the_secret_of_its_host() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let keys = || find(folder, HOST).unwrap().unwrap().1.tls_keys;
        set(folder, HOST, (None, Some(key(1))), false).unwrap();
        assert!(secrets(folder).is_empty(), "it needs no secret");
        set_secret(folder, HOST, pair(1), false).unwrap();
        set(folder, HOST, (None, Some(key(2))), true).unwrap();
        assert_eq!(keys(), [key(1), key(2)], "both are good for a while");
        assert!(set(folder, HOST, (None, Some(key(3))), true).is_err(), "two, and no more");
        set(folder, HOST, (None, Some(key(2))), false).unwrap();
        assert_eq!((keys(), secrets(folder)), (vec![key(2)], vec![pair(1)]));
    }

    fn nobody(_: &Request) -> Result<Value, Failure> {
        panic!("the daemon has nothing to do with it")
    }

    #[test]
    fn what_is_generated_is_read_again() {
        for (tls, hash, begins) in [
            (true, Transformation::None, "NVMeTLSkey-1:00:"),
            (true, Transformation::Sha256, "NVMeTLSkey-1:01:"),
            (true, Transformation::Sha384, "NVMeTLSkey-1:02:"),
            (false, Transformation::Sha512, "DHHC-1:03:"),
        ] {
            let text = run(&KeyAction::Generate { tls, hash }, nobody).unwrap();
            assert!(text.starts_with(begins), "{hash:?}");
            assert_eq!(text.parse::<ConfiguredPsk>().is_ok(), tls);
            assert_eq!(text.parse::<Secret>().is_ok(), !tls);
        }
        let wrong = KeyAction::Generate { tls: true, hash: Transformation::Sha512 };
        assert!(run(&wrong, nobody).is_err());
    }
}
