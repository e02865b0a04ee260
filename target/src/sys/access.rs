//! Advice for paths that cannot be used: a folder is missing, a file system is read only, or the
//! systemd unit hides the path from the daemon, which looking at the path does not show.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sluice_machine::container;

/// The way to change the unit, as the end of a sentence.
const DROP_IN: &str = "in a drop-in (`systemctl edit sluiced`)";

/// Facts about a path that cannot be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Whether systemd started this process as a service.
    pub service: bool,
    /// Whether this process runs in a container.
    pub container: bool,
    /// The first folder on the way to the path that does not exist.
    pub missing: Option<PathBuf>,
    /// The path, or a folder on the way to it, with mode 000, which permits nothing. With such a folder systemd
    /// covers paths that a unit hides.
    pub hidden: Option<PathBuf>,
}

impl Facts {
    /// Looks at a path, as this process sees it.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let container = container::engine().is_some();
        let mut facts = Self { service: is_service(), container, ..Self::default() };
        let path = &absolute(path);
        let mut way: Vec<&Path> = path.ancestors().collect();
        way.reverse();
        for part in way {
            match std::fs::metadata(part) {
                Ok(meta) => {
                    if meta.permissions().mode() & 0o7777 == 0 && facts.hidden.is_none() {
                        facts.hidden = Some(part.to_owned());
                    }
                }
                Err(error) => {
                    if error.kind() == io::ErrorKind::NotFound && part != path {
                        facts.missing = Some(part.to_owned());
                    }
                    break;
                }
            }
        }
        facts
    }
}

/// Returns the path from the root: a relative path begins at the folder that this process is in.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Returns whether systemd started this process as a service. Children of a service, such as a terminal's shell,
/// inherit the variables that systemd sets; since version 248 one of them names the service's own process.
fn is_service() -> bool {
    let variable = |name| std::env::var(name).ok();
    started_by_systemd(
        variable("INVOCATION_ID").as_deref(),
        variable("SYSTEMD_EXEC_PID").as_deref(),
        std::process::id(),
    )
}

fn started_by_systemd(invocation: Option<&str>, meant: Option<&str>, own: u32) -> bool {
    match meant {
        Some(meant) => meant.parse() == Ok(own),
        None => invocation.is_some(),
    }
}

/// Writes the error, with advice where there is some.
#[must_use]
pub fn explain(error: &io::Error, path: &Path) -> String {
    let advice = error.raw_os_error().and_then(|errno| advice(errno, path, &Facts::of(path)));
    match advice {
        Some(advice) => format!("{error}: {advice}"),
        None => error.to_string(),
    }
}

/// Returns the remedy if `path` cannot be used because of `errno`; `None` if the error's own text suffices.
#[must_use]
pub fn advice(errno: i32, path: &Path, facts: &Facts) -> Option<String> {
    let path = &absolute(path);
    let folder = path.parent().unwrap_or(path).display();
    match (errno, facts) {
        (libc::EACCES | libc::EPERM | libc::ENOENT, Facts { service: true, hidden, .. })
            if hidden.is_some() =>
        {
            let hidden = hidden.as_deref().unwrap_or(path).display();
            Some(format!(
                "the unit hides {hidden} from the daemon (ProtectHome=, InaccessiblePaths=): use \
                 another folder, such as /var/lib/sluicegate or /srv, or allow this one {DROP_IN}"
            ))
        }
        (libc::EROFS, Facts { service: true, .. }) => Some(format!(
            "unless the file system itself is mounted read only, the unit makes it read only for \
             the daemon (ProtectSystem=strict): add ReadWritePaths={folder} {DROP_IN}"
        )),
        (libc::EROFS, _) => {
            Some("its file system is mounted read only: remount it for writing".to_owned())
        }
        (libc::EPERM, Facts { service: true, .. }) if path.starts_with("/dev") => Some(format!(
            "the unit does not let the daemon use this device: add DeviceAllow={} rw {DROP_IN}",
            path.display()
        )),
        (libc::EPERM, Facts { service: false, container: true, .. })
            if container::is_device(path) =>
        {
            Some(format!(
                "the container withholds this device (option of Podman and Docker: --device={})",
                path.display()
            ))
        }
        (libc::EACCES, Facts { service: false, container: true, .. })
            if container::is_device(path) =>
        {
            Some(
                "the container's user lacks the permission: add the group that owns the device \
                 (option of Podman and Docker: --group-add)"
                    .to_owned(),
            )
        }
        (libc::EACCES | libc::EPERM, Facts { service: true, .. }) => Some(format!(
            "the user of the unit (User=, SupplementaryGroups=) lacks the permission: grant it, or \
             name a group that has it {DROP_IN}; the folders above count too"
        )),
        (libc::EACCES | libc::EPERM, _) => Some(
            "this user lacks the permission: check the modes of the path and of the folders above"
                .to_owned(),
        ),
        (libc::ENOENT, Facts { service: true, missing: Some(_), .. })
            if path.starts_with("/tmp") || path.starts_with("/var/tmp") =>
        {
            Some(format!(
                "the unit gives the daemon a /tmp of its own (PrivateTmp=): use another folder, or \
                 change that {DROP_IN}"
            ))
        }
        (libc::ENOENT, Facts { missing: Some(missing), .. }) => Some(format!(
            "the folder {} does not exist: create it, or mount its file system",
            missing.display()
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cases of advice: the error number, the facts, and words that the advice must (or, after a
    /// `!`, must not) contain.
    #[test]
    fn what_the_unit_does_is_named_where_it_is_the_reason_and_only_there() {
        let service = Facts { service: true, ..Facts::default() };
        let hidden = |facts: &Facts| Facts { hidden: Some("/home".into()), ..facts.clone() };
        let missing = |facts: &Facts| Facts { missing: Some("/srv/a".into()), ..facts.clone() };
        let shell = Facts::default();
        let container = Facts { container: true, ..Facts::default() };
        let home = "/home/ann/1.img";
        let file = "/srv/a/1.img";
        let drive = "/dev/nvme0n1";
        for (errno, path, facts, words) in [
            (libc::EACCES, home, hidden(&service), "hides /home from the daemon (ProtectHome="),
            (libc::ENOENT, home, hidden(&service), "ProtectHome="),
            (libc::EACCES, home, hidden(&shell), "!ProtectHome"),
            (libc::EROFS, file, service.clone(), "ReadWritePaths=/srv/a"),
            (libc::EROFS, file, shell.clone(), "mounted read only"),
            (libc::EROFS, file, shell.clone(), "!ReadWritePaths"),
            (libc::EPERM, drive, service.clone(), "DeviceAllow=/dev/nvme0n1 rw"),
            (libc::EACCES, drive, service.clone(), "SupplementaryGroups="),
            (libc::EACCES, file, shell.clone(), "!unit"),
            (libc::ENOENT, "/tmp/a/1.img", missing(&service), "PrivateTmp="),
            (libc::ENOENT, file, missing(&service), "the folder /srv/a does not exist"),
            (libc::ENOENT, file, missing(&shell), "the folder /srv/a does not exist"),
            (libc::EPERM, drive, container.clone(), "--device=/dev/nvme0n1"),
            (libc::EACCES, drive, container.clone(), "--group-add"),
            (libc::EPERM, file, container, "!--device"),
        ] {
            let said = advice(errno, Path::new(path), &facts).unwrap();
            match words.strip_prefix('!') {
                Some(words) => assert!(!said.contains(words), "{errno} {path}: {said}"),
                None => assert!(said.contains(words), "{errno} {path}: {said}"),
            }
        }
        for errno in [libc::ENOENT, libc::EIO, libc::ENOSPC] {
            assert_eq!(advice(errno, Path::new(file), &service), None);
        }
    }

    #[test]
    fn a_child_of_a_service_is_none() {
        for (invocation, meant, is) in [
            (None, None, false),
            (Some("f1"), None, true),
            (Some("f1"), Some("7"), true),
            (Some("f1"), Some("8"), false),
            (Some("f1"), Some("x"), false),
        ] {
            assert_eq!(started_by_systemd(invocation, meant, 7), is, "{invocation:?} {meant:?}");
        }
    }

    #[test]
    fn what_is_known_of_a_path_is_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/c.img");
        let missing = |path: &Path| Facts::of(path).missing;
        assert_eq!(missing(&path), Some(folder.path().join("a")));
        let here = std::env::current_dir().unwrap();
        assert_eq!(missing(Path::new("no-such.toml")), None, "its folder is there");
        assert_eq!(missing(Path::new("no-such/a.toml")), Some(here.join("no-such")));
        let said =
            advice(libc::EROFS, Path::new("a"), &Facts { service: true, ..Facts::default() });
        assert!(said.unwrap().contains(&format!("ReadWritePaths={} ", here.display())));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        assert_eq!(missing(&path), None, "that the file is missing is the error itself");
        let covered = folder.path().join("a");
        std::fs::set_permissions(&covered, std::fs::Permissions::from_mode(0o0)).unwrap();
        assert_eq!(Facts::of(&path).hidden, Some(covered.clone()));
        std::fs::set_permissions(&covered, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(Facts::of(&path).hidden, None);
    }
}
