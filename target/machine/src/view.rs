//! A machine as its file system shows it.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::SystemTime;

use sluice_config::parse_cpu_list;

use crate::ring::Trial;

/// Bytes that are read of a file at most. The files of the kernel that the checks read are shorter.
const READ_MAX: u64 = 64 << 10;
/// Bytes that are read of the list of a kernel's modules at most.
const MODULES_MAX: u64 = 8 << 20;
/// Names that a sentence lists at most.
const NAMES_MAX: usize = 4;

/// The files of a machine below a root, and the result of setting up an io_uring there.
///
/// Paths are relative to the root: `sys/class/nvme`.
#[derive(Clone, Debug)]
pub struct View {
    root: PathBuf,
    /// `None`: no ring was set up.
    pub(crate) ring: Option<Trial>,
}

/// The reason why a file cannot be read: its path, and the error.
#[derive(Debug)]
pub(crate) struct Unreadable(String);

impl Display for Unreadable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl View {
    /// Makes a view of the files below `root`, which is `/` for this machine.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>, ring: Option<Trial>) -> Self {
        Self { root: root.into(), ring }
    }

    /// Returns the path of a file or folder below the root.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// Reads a file without white space around its text; `None`: it does not exist.
    pub(crate) fn read(&self, path: &str) -> Result<Option<String>, Unreadable> {
        self.read_bounded(path, READ_MAX)
    }

    /// Reads up to `limit` bytes of a file.
    fn read_bounded(&self, path: &str, limit: u64) -> Result<Option<String>, Unreadable> {
        let mut bytes = Vec::new();
        let file = File::open(self.root.join(path));
        match file.and_then(|file| file.take(limit).read_to_end(&mut bytes)) {
            Ok(_) => Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned())),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(None)
            }
            Err(error) => Err(Unreadable(format!("cannot read /{path}: {error}"))),
        }
    }

    /// Reads a file that every machine has.
    pub(crate) fn require(&self, path: &str) -> Result<String, Unreadable> {
        self.read(path)?.ok_or_else(|| Unreadable(format!("there is no /{path}")))
    }

    /// Reads a file; `None`: it does not exist or cannot be read.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        self.read(path).ok().flatten()
    }

    /// Reads a file with a number; `None` as in [`Self::text`], or the file holds something else.
    pub(crate) fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// Lists the names in a folder, `nvme2` before `nvme10`; none if it cannot be read.
    pub(crate) fn list(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
        names
    }

    /// Returns whether a file or folder exists.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// Returns whether the kernel can load a module, as far as the machine's files tell.
    pub(crate) fn can_load(&self, module: &str) -> bool {
        let release = self.text("proc/sys/kernel/osrelease").unwrap_or_default();
        let list = self.read_bounded(&format!("lib/modules/{release}/modules.dep"), MODULES_MAX);
        // Containers have no list.
        let is_listed =
            list.ok().flatten().is_none_or(|list| list.contains(&format!("/{module}.ko")));
        self.has("proc/modules") && is_listed
    }

    /// Returns the time of a file's last change.
    pub(crate) fn changed(&self, path: &str) -> Option<SystemTime> {
        fs::metadata(self.root.join(path)).and_then(|meta| meta.modified()).ok()
    }

    /// Returns the lowest identifier of a process of this name.
    pub(crate) fn find_process(&self, name: &str) -> Option<u32> {
        let mut ids = self.list("proc").into_iter().filter_map(|id| id.parse::<u32>().ok());
        ids.find(|id| self.text(&format!("proc/{id}/comm")).is_some_and(|comm| comm == name))
    }

    /// Reads a file with a list of CPUs or nodes, such as "0-3,8"; empty if it cannot be read.
    pub(crate) fn cpu_list(&self, path: &str) -> BTreeSet<usize> {
        self.text(path).map(|list| parse_cpu_list(&list)).unwrap_or_default()
    }

    /// Reads the CPUs that are online.
    pub(crate) fn online_cpus(&self) -> BTreeSet<usize> {
        self.cpu_list("sys/devices/system/cpu/online")
    }
}

/// Lists names in a sentence: "a, b, c, d and 2 more".
pub(crate) fn join_names<T: ToString>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    let shown = names.iter().take(NAMES_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn names_are_in_the_order_of_their_numbers() {
        let tree = Tree::new(&[("sys/nvme10", ""), ("sys/nvme2", ""), ("sys/nvme0", "")]);
        assert_eq!(tree.view().list("sys"), ["nvme0", "nvme2", "nvme10"]);
        assert_eq!(join_names(1..=6), "1, 2, 3, 4 and 2 more");
        assert_eq!(join_names(["a", "b"]), "a, b");
    }

    #[test]
    fn only_existing_modules_are_loaded() {
        let tree = Tree::new(&[("proc/sys/kernel/osrelease", "6.12.0")]);
        assert!(!tree.view().can_load("tls"), "this kernel loads no modules");
        let tree = tree.with("proc/modules", "");
        assert!(tree.view().can_load("tls"), "a container without the list");
        let tree = tree.with("lib/modules/6.12.0/modules.dep", "kernel/net/tls/tls.ko.xz:\n");
        assert!(tree.view().can_load("tls") && !tree.view().can_load("tcp_dctcp"));
    }

    #[test]
    fn process_is_found_by_name() {
        let tree = Tree::new(&[("proc/self/comm", "sluiced"), ("proc/70/comm", "sluiced\n")]);
        let view = tree.view();
        assert_eq!((view.find_process("sluiced"), view.find_process("other")), (Some(70), None));
    }
}
