//! The kernel's target as its folder in configfs shows it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::nvmet::{AnaGroup, Attributes, Disk, Exported, Host, Nvmet, Passthru, Port};

/// Reads the folder, as `nvmetcli save` does.
///
/// # Errors
/// The kernel has no target, or the folder may not be read.
pub(super) fn read(folder: &Path) -> anyhow::Result<Nvmet> {
    ensure!(
        folder.join("subsystems").is_dir(),
        "{} shows no target: is it running (modprobe nvmet), and is configfs mounted?",
        folder.display()
    );
    let host = |path: PathBuf| Ok(Host { nqn: name(&path), attr: attributes(&path, "")? });
    Ok(Nvmet {
        hosts: each(&folder.join("hosts"), host)?,
        ports: each(&folder.join("ports"), port)?,
        subsystems: each(&folder.join("subsystems"), subsystem)?,
    })
}

fn port(path: PathBuf) -> anyhow::Result<Port> {
    let group = |path: PathBuf| {
        let grpid = name(&path).parse().unwrap_or(0);
        Ok(AnaGroup { grpid, ana: attributes(&path, "ana_")? })
    };
    Ok(Port {
        portid: name(&path).parse().unwrap_or(0),
        addr: attributes(&path, "addr_")?,
        param: attributes(&path, "param_")?,
        referrals: each(&path.join("referrals"), |_| Ok(Value::Null))?,
        ana_groups: each(&path.join("ana_groups"), group)?,
        subsystems: names(&path.join("subsystems"))?,
    })
}

fn subsystem(path: PathBuf) -> anyhow::Result<Exported> {
    let disk = |path: PathBuf| {
        Ok(Disk {
            nsid: name(&path).parse().unwrap_or(0),
            device: attributes(&path, "device_")?,
            enable: u32::from(is_enabled(&path)?),
            ana_grpid: attributes(&path, "ana_grpid")?.remove("").unwrap_or_default(),
            resv: attributes(&path, "resv_")?,
        })
    };
    let passthru = path.join("passthru");
    Ok(Exported {
        nqn: name(&path),
        attr: attributes(&path, "attr_")?,
        allowed_hosts: names(&path.join("allowed_hosts"))?,
        namespaces: each(&path.join("namespaces"), disk)?,
        passthru: if is_enabled(&passthru)? {
            vec![Passthru { device: attributes(&passthru, "device_")? }]
        } else {
            Vec::new()
        },
    })
}

/// Reads the files of a folder whose names begin with `prefix`, by the rest of their names.
fn attributes(folder: &Path, prefix: &str) -> anyhow::Result<Attributes> {
    let mut attributes = Attributes::new();
    for path in entries(folder)?.into_iter().filter(|path| path.is_file()) {
        let name = name(&path);
        if let Some(rest) = name.strip_prefix(prefix)
            // Some files can only be written.
            && let Ok(text) = fs::read_to_string(&path)
        {
            attributes.insert(rest.to_owned(), Value::String(text.trim().to_owned()));
        }
    }
    Ok(attributes)
}

/// Reads whether the object of a folder is enabled.
fn is_enabled(folder: &Path) -> anyhow::Result<bool> {
    Ok(attributes(folder, "enable")?.get("").is_some_and(|on| on == "1"))
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn names(folder: &Path) -> anyhow::Result<Vec<String>> {
    Ok(entries(folder)?.iter().map(|path| name(path)).collect())
}

/// Reads each folder in a folder.
fn each<T>(
    folder: &Path,
    read: impl FnMut(PathBuf) -> anyhow::Result<T>,
) -> anyhow::Result<Vec<T>> {
    entries(folder)?.into_iter().filter(|path| path.is_dir()).map(read).collect()
}

/// Lists a folder in order; a missing one is empty.
fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let read = || {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()
    };
    let mut paths =
        read().with_context(|| format!("cannot read {}: run it as root", folder.display()))?;
    paths.sort_by_key(|path| (name(path).parse::<u32>().unwrap_or(u32::MAX), name(path)));
    Ok(paths)
}
