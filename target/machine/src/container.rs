//! The container that this process runs in.

use std::path::Path;

/// Returns the name of the engine of the container that this process runs in, such as `podman`; `None` outside of
/// containers.
#[must_use]
pub fn engine() -> Option<String> {
    let variable = |name: &str| std::env::var(name).ok();
    let file = |path: &str| std::fs::read_to_string(path).ok();
    find_engine(variable, file, |path| Path::new(path).exists())
}

/// Finds the engine by a `variable` of the environment, the text of a `file`, or a file that `exists`. A service of a
/// container with systemd has no variable of the engine: systemd leaves a file.
fn find_engine(
    variable: impl Fn(&str) -> Option<String>,
    file: impl Fn(&str) -> Option<String>,
    exists: impl Fn(&str) -> bool,
) -> Option<String> {
    let named = variable("container").or_else(|| file("/run/systemd/container"));
    let named = named.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
    let marks = || {
        if exists("/run/.containerenv") {
            Some("podman")
        } else if variable("KUBERNETES_SERVICE_HOST").is_some() {
            Some("kubernetes")
        } else if exists("/.dockerenv") {
            Some("docker")
        } else {
            None
        }
    };
    named.or_else(|| marks().map(str::to_owned))
}

/// Returns whether a path is one of a device: files in shared memory are none.
#[must_use]
pub fn is_device(path: &Path) -> bool {
    path.starts_with("/dev") && !path.starts_with("/dev/shm")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_shared_memory_are_no_devices() {
        assert!(is_device(Path::new("/dev/ng0n1")) && is_device(Path::new("/dev/mapper/a")));
        assert!(!is_device(Path::new("/dev/shm/a.img")) && !is_device(Path::new("/srv/a.img")));
    }

    #[test]
    fn engines_are_found_by_their_marks() {
        for (variables, files, engine) in [
            (&[][..], &[][..], None),
            (&[("container", "")], &[], None),
            (&[("container", "podman")], &[], Some("podman")),
            (&[], &[("/run/systemd/container", "lxc\n")], Some("lxc")),
            (&[], &[("/run/.containerenv", "")], Some("podman")),
            (&[], &[("/.dockerenv", "")], Some("docker")),
            (&[("KUBERNETES_SERVICE_HOST", "10.0.0.1")], &[], Some("kubernetes")),
        ] {
            let find = |pairs: &[(&str, &str)], name: &str| {
                let pair = pairs.iter().find(|(known, _)| *known == name);
                pair.map(|(_, text)| (*text).to_owned())
            };
            let found = find_engine(
                |name| find(variables, name),
                |path| find(files, path),
                |path| find(files, path).is_some(),
            );
            assert_eq!(found.as_deref(), engine, "{variables:?} {files:?}");
        }
    }
}
