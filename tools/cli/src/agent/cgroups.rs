//! Control groups (cgroup v2): the slices and pods of the machine, their counts at disks, and their `io.max`.
//!
//! Only lines that this module wrote are changed again. They are listed in a file, so that the agent, or the unit's
//! `ExecStopPost=`, can undo them after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use fabric::nvme::node::NodeRates;

use super::division::{Done, Limits, User};
use super::notes::note;

/// The most groups that are looked at. Groups beyond it are left alone.
const GROUPS_MAX: usize = 4096;

/// Divisor of a limit: smaller changes are not written.
const CLOSE: u64 = 32;

/// The control groups of a machine, and the limits that were written into them.
#[derive(Debug)]
pub(super) struct ControlGroups {
    /// The mount point of cgroup v2.
    root: PathBuf,
    /// The file that lists the written limits.
    list: PathBuf,
    written: BTreeMap<User, Limits>,
    /// Users whose `io.max` somebody else has set: they are left alone.
    foreign: BTreeSet<User>,
}

impl ControlGroups {
    /// Opens the groups below `root`, and enables the I/O controller for them. Undoes the list of an earlier agent.
    ///
    /// # Errors
    /// There is no cgroup v2, or its I/O controller cannot be enabled; with the remedy.
    pub(super) fn open(root: &Path, list: &Path) -> anyhow::Result<Self> {
        let controllers = fs::read_to_string(root.join("cgroup.controllers")).with_context(|| {
            format!(
                "{} is no cgroup v2: mount it, or name its folder with --cgroups; without it the agent can keep \
                 only programs of the client library within the credits",
                root.display()
            )
        })?;
        if !controllers.split_whitespace().any(|name| name == "io") {
            bail!(
                "the groups of {} have no I/O controller: the kernel needs CONFIG_BLK_CGROUP and \
                 CONFIG_BLK_DEV_THROTTLING; in a container or a user's service, delegate it (Delegate=io)",
                root.display()
            );
        }
        let subtree = root.join("cgroup.subtree_control");
        let enabled = fs::read_to_string(&subtree).unwrap_or_default();
        if !enabled.split_whitespace().any(|name| name == "io") {
            fs::write(&subtree, "+io").with_context(|| {
                format!(
                    "the I/O controller cannot be enabled in {}: run the agent as root, or delegate the group to its \
                     user (Delegate=io)",
                    subtree.display()
                )
            })?;
        }
        undo(root, list)?;
        Ok(Self {
            root: root.to_owned(),
            list: list.to_owned(),
            written: BTreeMap::new(),
            foreign: BTreeSet::new(),
        })
    }

    /// Returns the counts of each group at disks, by MAJOR:MINOR.
    pub(super) fn done(&self, disks: &BTreeSet<String>) -> BTreeMap<User, [Done; 2]> {
        let mut done = BTreeMap::new();
        for group in groups(&self.root) {
            let Ok(text) = fs::read_to_string(self.root.join(&group).join("io.stat")) else {
                continue;
            };
            for line in text.lines() {
                let Some((disk, counts)) = line.split_once(' ') else { continue };
                if disks.contains(disk) {
                    let user = User { group: group.clone(), disk: disk.to_owned() };
                    done.insert(user, counts_of(counts));
                }
            }
        }
        done
    }

    /// Writes limits, and removes limits of users that are no longer listed for these disks.
    ///
    /// # Errors
    /// The list of limits cannot be stored; nothing was written then.
    pub(super) fn apply(
        &mut self,
        disks: &BTreeSet<String>,
        limits: &BTreeMap<User, Limits>,
    ) -> anyhow::Result<()> {
        let unlimited = Limits::default();
        let gone = |user: &&User| {
            disks.contains(&user.disk)
                && limits.get(*user).is_none_or(|limits| *limits == unlimited)
        };
        let gone: Vec<User> = self.written.keys().filter(gone).cloned().collect();
        let mut new: Vec<(&User, &Limits)> = Vec::new();
        for (user, limits) in limits {
            // systemd may remove limits when it loads its units again.
            let is_set = |before| are_close(before, limits) && is_limited(&self.root, user);
            let is_new = *limits != unlimited && !self.written.get(user).is_some_and(is_set);
            if is_new && (self.written.contains_key(user) || self.is_ours(user)) {
                new.push((user, limits));
            }
        }
        // The list is stored first: a crash in between leaves no limit that is not listed.
        let first: Vec<User> = new
            .iter()
            .filter(|(user, _)| !self.written.contains_key(user))
            .map(|(user, _)| (*user).clone())
            .collect();
        if !first.is_empty() {
            self.store(self.written.keys().chain(&first))?;
        }
        for (user, limits) in new {
            if write(&self.root, user, limits).is_ok() {
                self.written.insert(user.clone(), *limits);
            }
        }
        for user in &gone {
            // A group that has gone took its limits with it.
            let _ = write(&self.root, user, &unlimited);
            self.written.remove(user);
        }
        if !gone.is_empty() {
            self.store(self.written.keys())?;
        }
        Ok(())
    }

    /// Returns whether nobody else has limited a user. Each limited user is reported once.
    fn is_ours(&mut self, user: &User) -> bool {
        if self.foreign.contains(user) {
            return false;
        }
        let is_foreign = is_limited(&self.root, user);
        if is_foreign {
            note(&format_args!(
                "{} limits {} already: the agent leaves it alone",
                self.root.join(&user.group).join("io.max").display(),
                user.disk
            ));
            self.foreign.insert(user.clone());
        }
        !is_foreign
    }

    fn store<'a>(&self, users: impl Iterator<Item = &'a User>) -> anyhow::Result<()> {
        let text: String = users.map(|user| format!("{} {}\n", user.disk, user.group)).collect();
        let temporary = self.list.with_extension("new");
        let stored = fs::write(&temporary, text).and_then(|()| fs::rename(&temporary, &self.list));
        stored.with_context(|| {
            format!("{} cannot be written: no limits were set", self.list.display())
        })
    }

    /// Removes all limits that were written.
    pub(super) fn undo(&mut self) -> anyhow::Result<()> {
        self.written.clear();
        undo(&self.root, &self.list)
    }
}

/// Removes the limits that a list names, and the list.
///
/// # Errors
/// The list cannot be read or removed.
pub(super) fn undo(root: &Path, list: &Path) -> anyhow::Result<()> {
    let text = match fs::read_to_string(list) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", list.display())),
    };
    for line in text.lines() {
        let Some((disk, group)) = line.split_once(' ') else { continue };
        // A list that somebody wrote must not lead out of the groups.
        let is_below = Path::new(group)
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)));
        if is_below {
            let user = User { group: group.to_owned(), disk: disk.to_owned() };
            let _ = write(root, &user, &Limits::default());
        }
    }
    fs::remove_file(list).with_context(|| format!("cannot remove {}", list.display()))
}

/// Returns whether a user's line of `io.max` has a limit.
fn is_limited(root: &Path, user: &User) -> bool {
    let text = fs::read_to_string(root.join(&user.group).join("io.max")).unwrap_or_default();
    text.lines().any(|line| {
        line.split_once(' ').is_some_and(|(disk, limits)| {
            disk == user.disk && limits.split_whitespace().any(|limit| !limit.ends_with("=max"))
        })
    })
}

/// Writes a user's line of `io.max`.
fn write(root: &Path, user: &User, [reads, writes]: &Limits) -> io::Result<()> {
    let value = |rate: Option<u64>| rate.map_or_else(|| "max".to_owned(), |rate| rate.to_string());
    // The kernel keeps operations in 32 bits.
    let count = |rate: Option<u64>| value(rate.map(|rate| rate.min(u64::from(u32::MAX) - 1)));
    let NodeRates { iops: riops, bandwidth: rbps } = *reads;
    let NodeRates { iops: wiops, bandwidth: wbps } = *writes;
    let line = format!(
        "{} rbps={} wbps={} riops={} wiops={}",
        user.disk,
        value(rbps),
        value(wbps),
        count(riops),
        count(wiops)
    );
    let path = root.join(&user.group).join("io.max");
    fs::OpenOptions::new().write(true).truncate(true).open(path)?.write_all(line.as_bytes())
}

/// Returns whether limits differ by less than a [`CLOSE`]th: each write begins a new slice of the kernel's throttling.
fn are_close(before: &Limits, after: &Limits) -> bool {
    let close = |before: Option<u64>, after: Option<u64>| match (before, after) {
        (Some(before), Some(after)) => before.abs_diff(after) < before / CLOSE,
        (before, after) => before == after,
    };
    before.iter().zip(after).all(|(before, after)| {
        close(before.iops, after.iops) && close(before.bandwidth, after.bandwidth)
    })
}

/// Reads the counts of a line of `io.stat`.
fn counts_of(line: &str) -> [Done; 2] {
    let value = |key: &str| {
        let value =
            line.split_whitespace().find_map(|part| part.strip_prefix(key)?.strip_prefix('='));
        value.and_then(|value| value.parse().ok()).unwrap_or(0)
    };
    [
        Done { bytes: value("rbytes"), operations: value("rios") },
        Done { bytes: value("wbytes"), operations: value("wios") },
    ]
}

/// Lists the groups that are limited: slices without a slice below them (of services, users, or pods), and the groups
/// directly below the root that are no slices.
fn groups(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![(PathBuf::new(), true)];
    while let Some((group, is_root)) = left.pop() {
        if found.len() >= GROUPS_MAX {
            break;
        }
        let below: Vec<PathBuf> = fs::read_dir(root.join(&group))
            .into_iter()
            .flatten()
            .filter_map(|entry| {
                let entry = entry.ok()?;
                entry.file_type().ok()?.is_dir().then(|| group.join(entry.file_name()))
            })
            .collect();
        let is_slice = |path: &PathBuf| path.extension().is_some_and(|end| end == "slice");
        let wanted: Vec<PathBuf> =
            below.into_iter().filter(|path| is_root || is_slice(path)).collect();
        if wanted.is_empty() && !is_root {
            found.extend(group.to_str().map(str::to_owned));
        }
        for path in wanted {
            match is_slice(&path) {
                true => left.push((path, false)),
                false => found.extend(path.to_str().map(str::to_owned)),
            }
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: &str = "259:3";

    /// Makes a cgroup v2 with two slices, a pod's slice, and a group without an extension.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for group in [
            "system.slice/a.service",
            "user.slice",
            "kubepods.slice/kubepods-pod1.slice/container",
            "lab",
        ] {
            fs::create_dir_all(at(group)).unwrap();
        }
        for group in ["system.slice", "user.slice", "kubepods.slice/kubepods-pod1.slice", "lab"] {
            fs::write(
                at(group).join("io.stat"),
                "259:3 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n",
            )
            .unwrap();
            fs::write(at(group).join("io.max"), "").unwrap();
        }
        fs::write(at("cgroup.controllers"), "cpu io memory\n").unwrap();
        fs::write(at("cgroup.subtree_control"), "").unwrap();
        root
    }

    fn limits(rate: u64) -> Limits {
        [NodeRates { bandwidth: Some(rate), iops: None }, NodeRates::default()]
    }

    fn max(root: &Path, group: &str) -> String {
        fs::read_to_string(root.join(group).join("io.max")).unwrap()
    }

    fn user(group: &str) -> User {
        User { group: group.to_owned(), disk: DISK.to_owned() }
    }

    #[test]
    fn d6_leaf_slices_and_plain_groups_are_limited_and_restored() {
        let root = machine();
        let list = root.path().join("list");
        let disks = BTreeSet::from([DISK.to_owned()]);
        let mut groups = ControlGroups::open(root.path(), &list).unwrap();
        assert_eq!(fs::read_to_string(root.path().join("cgroup.subtree_control")).unwrap(), "+io");
        let done = groups.done(&disks);
        let pod = "kubepods.slice/kubepods-pod1.slice";
        let names: Vec<&str> = done.keys().map(|user| user.group.as_str()).collect();
        assert_eq!(names, [pod, "lab", "system.slice", "user.slice"]);
        let count = |bytes, operations| Done { bytes, operations };
        assert_eq!(done[&user("lab")], [count(4096, 1), count(8192, 2)]);
        assert!(groups.done(&BTreeSet::new()).is_empty(), "other disks");

        let all = [(user("lab"), limits(1000)), (user(pod), limits(2000))].into();
        groups.apply(&disks, &all).unwrap();
        assert_eq!(max(root.path(), pod), "259:3 rbps=2000 wbps=max riops=max wiops=max");
        assert_eq!(max(root.path(), "user.slice"), "");
        fs::write(root.path().join(pod).join("io.max"), "").unwrap();
        groups.apply(&disks, &all).unwrap();
        assert_eq!(max(root.path(), pod), "259:3 rbps=2000 wbps=max riops=max wiops=max");
        groups.apply(&disks, &[(user(pod), limits(2000))].into()).unwrap();
        assert_eq!(max(root.path(), "lab"), "259:3 rbps=max wbps=max riops=max wiops=max");
        assert!(fs::read_to_string(&list).unwrap().contains(pod));
        groups.undo().unwrap();
        assert_eq!(max(root.path(), pod), "259:3 rbps=max wbps=max riops=max wiops=max");
        assert!(!list.exists());
    }

    #[test]
    fn d6_killed_agents_limits_are_undone_at_the_next_start() {
        let root = machine();
        let list = root.path().join("list");
        let disks = BTreeSet::from([DISK.to_owned()]);
        let mut groups = ControlGroups::open(root.path(), &list).unwrap();
        groups.apply(&disks, &[(user("lab"), limits(1000))].into()).unwrap();
        drop(groups);
        ControlGroups::open(root.path(), &list).unwrap();
        assert_eq!(max(root.path(), "lab"), "259:3 rbps=max wbps=max riops=max wiops=max");
        fs::write(&list, "259:3 ../outside\n259:3 gone\nnonsense\n").unwrap();
        undo(root.path(), &list).unwrap();
    }

    #[test]
    fn d6_limits_of_others_are_left_alone() {
        let root = machine();
        let foreign = "259:3 rbps=5 wbps=max riops=max wiops=max";
        fs::write(root.path().join("lab/io.max"), foreign).unwrap();
        let disks = BTreeSet::from([DISK.to_owned()]);
        let mut groups = ControlGroups::open(root.path(), &root.path().join("list")).unwrap();
        groups.apply(&disks, &[(user("lab"), limits(1000))].into()).unwrap();
        groups.undo().unwrap();
        assert_eq!(max(root.path(), "lab"), foreign);
    }

    #[test]
    fn machine_without_the_controller_is_told_the_remedy() {
        let root = machine();
        fs::write(root.path().join("cgroup.controllers"), "cpu\n").unwrap();
        let list = root.path().join("list");
        let error = ControlGroups::open(root.path(), &list).unwrap_err().to_string();
        assert!(error.contains("Delegate=io") && error.contains("CONFIG_BLK_CGROUP"), "{error}");
        let none = tempfile::tempdir().unwrap();
        let error = format!("{:#}", ControlGroups::open(none.path(), &list).unwrap_err());
        assert!(error.contains("--cgroups"), "{error}");
    }
}
