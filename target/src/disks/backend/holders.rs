//! The holders of a file or a device, for messages: mount points, swap, devices that are built on
//! it, processes. Holders are looked up only where a claim was refused.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::identity::Identity;
use super::sysfs;

/// The most processes that a message names.
const NAMED: usize = 4;

/// Says who has a block device, the disk that it is on, or a partition on it; and what to do.
pub(super) fn of_block(device: u64) -> String {
    let mut devices = vec![device];
    devices.extend(sysfs::partitions(device));
    devices.extend(sysfs::whole_disk(device).and_then(|disk| sysfs::number_of(&disk)));
    let mut found = Vec::new();
    for &one in &devices {
        let what = if one == device { "it".to_owned() } else { name(one) };
        found.extend(
            mount_point(one)
                .map(|at| format!("{what} is mounted at {}: unmount it first", at.display())),
        );
        if is_swap(Identity::Block(one)) {
            found.push(format!("{what} is swap space: `swapoff` it first"));
        }
        found.extend(built_on(one).map(|upper| {
            format!("{what} is part of {upper}: serve that instead, or dissolve it first")
        }));
    }
    if found.is_empty() {
        let holders = devices.iter().find_map(|&one| processes(Identity::Block(one)));
        found.push(match holders {
            Some(who) => format!("{who} has it open exclusively: end that first"),
            None => "another program has it open exclusively (`fuser -v` names the program)".into(),
        });
    }
    format!("{}; or give another device", found.join("; "))
}

/// Describes how the kernel uses a regular file without a lock on it: below a loop device, or as swap.
pub(super) fn kernel_user_of_file(file: Identity) -> Option<String> {
    if let Some(device) = sysfs::loop_on(file) {
        return Some(format!("the loop device {} lies on it", device.display()));
    }
    is_swap(file).then(|| "it is swap space".to_owned())
}

/// Returns a device's name: `/dev/sdb1`.
fn name(device: u64) -> String {
    let folder = sysfs::block(device).canonicalize().ok();
    let name = folder.as_deref().and_then(Path::file_name);
    name.map_or_else(|| sysfs::text(device), |name| format!("/dev/{}", name.display()))
}

/// Returns where a device is mounted, as far as this process sees.
fn mount_point(device: u64) -> Option<PathBuf> {
    let table = std::fs::read("/proc/self/mountinfo").ok()?;
    String::from_utf8_lossy(&table).lines().find_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(2);
        let number = sysfs::number(fields.next()?);
        let point = fields.nth(1)?;
        // Some file systems (btrfs) have device numbers of their own.
        let source = || Identity::at(&unescaped(source.split(' ').nth(1)?));
        let is_it = number == Some(device) || source() == Some(Identity::Block(device));
        is_it.then(|| unescaped(point))
    })
}

/// Reads a path of a kernel's table, where blanks are `\040`.
fn unescaped(text: &str) -> PathBuf {
    let mut parts = text.split('\\');
    let mut path = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => path.extend([char::from(code)]),
            None => path.push('\\'),
        }
        path.push_str(if code.is_some() { part.get(3..).unwrap_or_default() } else { part });
    }
    path.into()
}

fn is_swap(identity: Identity) -> bool {
    is_listed(&std::fs::read_to_string("/proc/swaps").unwrap_or_default(), identity)
}

/// Returns whether a table like `/proc/swaps` lists a file or device.
fn is_listed(table: &str, identity: Identity) -> bool {
    let mut files = table.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    files.any(|path| Identity::at(&unescaped(path)) == Some(identity))
}

/// Returns the devices that are built on a device: RAID, device mapper (LVM, LUKS, multipath),
/// bcache.
fn built_on(device: u64) -> Option<String> {
    let holders = std::fs::read_dir(sysfs::block(device).join("holders")).ok()?;
    let mut words = String::new();
    for holder in holders.flatten() {
        let name = holder.file_name();
        let mapped = sysfs::read(&holder.path().join("dm/name"));
        let mapped = mapped.map_or(String::new(), |mapped| format!(" ({mapped})"));
        let gap = if words.is_empty() { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(words, "{gap}/dev/{}{mapped}", name.display());
    }
    (!words.is_empty()).then_some(words)
}

/// Returns the processes that have a file or device open, as far as this process may see them.
pub(super) fn processes(identity: Identity) -> Option<String> {
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").ok()?.flatten() {
        let folder = process.path();
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        if pid == std::process::id() {
            continue;
        }
        let mut open = std::fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
        if open.any(|file| Identity::at(&file.path()) == Some(identity)) {
            let name = sysfs::read(&folder.join("comm")).unwrap_or_default();
            found.push(format!("{pid} ({name})"));
        }
    }
    let more = found.len().saturating_sub(NAMED);
    found.truncate(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!found.is_empty()).then(|| format!("process {}{more}", found.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_kernel_tables_are_unescaped() {
        assert_eq!(unescaped("/srv/a\\040b\\134c"), Path::new("/srv/a b\\c"));
        assert_eq!(unescaped("/plain"), Path::new("/plain"));
        assert_eq!(unescaped("/odd\\"), Path::new("/odd\\"));
    }

    #[test]
    fn swap_is_known_by_what_it_is_and_not_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("a b"), folder.path().join("link"));
        std::fs::write(&file, "").unwrap();
        std::fs::write(folder.path().join("other"), "").unwrap();
        std::fs::hard_link(&file, &link).unwrap();
        let path = file.display().to_string().replace(' ', "\\040");
        let table = format!("Filename\tType\tSize\n{path}\tfile\t4096\n");
        let listed = |name: &str| {
            let identity = Identity::at(&folder.path().join(name)).unwrap();
            is_listed(&table, identity)
        };
        assert!(listed("a b") && listed("link") && !listed("other"));
    }
}
