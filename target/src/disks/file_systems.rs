//! The file systems of namespaces' and regions' files: the space that the files may still take, and the free space. The
//! same for namespaces and regions in memory.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;
use sluice_config::{Backend, Config, RegionConfig};

use crate::serve::engine::FileSystem;
use crate::sys::words::coarse_size;

/// The mount of content in memory.
const MEMORY: &str = "memory";
/// Its device number.
const MEMORY_DEVICE: u64 = u64::MAX;

/// A file, or content in memory, that takes space as hosts write to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SparseFile {
    /// The device number of its file system.
    device: u64,
    /// The file, or the folder in which it will be created.
    path: PathBuf,
    /// The bytes that the file may still take.
    may_take: u64,
}

impl SparseFile {
    /// Looks at a namespace's file, or at the folder in which it is created. `None` where the namespace
    /// takes no space, or nothing is there.
    pub(crate) fn of(backend: &Backend, read_only: bool) -> Option<Self> {
        match backend {
            Backend::File { path, size, create, .. } | Backend::Pmem { path, size, create, .. } => {
                Self::at(path, *size, *create).filter(|_| !read_only)
            }
            Backend::Memory { size, .. } => Some(Self::in_memory(*size)).filter(|_| !read_only),
            _ => None,
        }
    }

    /// Looks at a region's file in the same way.
    pub(crate) fn of_region(region: &RegionConfig) -> Option<Self> {
        let file = match &region.path {
            Some(path) => Self::at(path, region.size, region.create),
            None => region.size.map(Self::in_memory),
        };
        file.filter(|_| !region.read_only)
    }

    fn in_memory(size: u64) -> Self {
        Self { device: MEMORY_DEVICE, path: PathBuf::new(), may_take: size }
    }

    fn at(path: &Path, size: Option<u64>, create: bool) -> Option<Self> {
        if let Ok(file) = std::fs::metadata(path) {
            // `st_blocks` counts 512 bytes.
            let taken = file.blocks().saturating_mul(512);
            let may_take = size.unwrap_or(file.len()).saturating_sub(taken);
            let sparse = Self { device: file.dev(), path: path.to_owned(), may_take };
            return file.is_file().then_some(sparse);
        }
        let folder = path.parent().filter(|_| create)?;
        let device = std::fs::metadata(folder).ok()?.dev();
        Some(Self { device, path: folder.to_owned(), may_take: size? })
    }
}

/// The place of a file system, and the bytes that are free there for processes without privileges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Free {
    mount: PathBuf,
    bytes: u64,
    /// Bytes of the content that are taken already.
    taken: u64,
}

/// Looks at this machine's memory. The process's whole memory, without mapped files, counts as content of disks.
fn free_memory() -> Option<Free> {
    let told = std::fs::read_to_string("/proc/meminfo").ok()?;
    let own = std::fs::read_to_string("/proc/self/status").ok()?;
    let bytes = kibibytes(&told, "MemAvailable:")?;
    let taken = kibibytes(&own, "RssAnon:")?.saturating_add(kibibytes(&own, "RssShmem:")?);
    Some(Free { mount: MEMORY.into(), bytes, taken })
}

/// Reads a line of a file of `/proc` that has an amount in kB. Returns bytes.
pub(crate) fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Looks at the file system with a device number that a file or folder is on.
fn free_at(path: &Path, device: u64) -> Option<Free> {
    if device == MEMORY_DEVICE {
        return free_memory();
    }
    let path = path.canonicalize().ok()?;
    let told = statvfs(&path).ok()?;
    let bytes = told.blocks_available().saturating_mul(told.fragment_size());
    let inside = |path: &&Path| std::fs::metadata(path).is_ok_and(|found| found.dev() == device);
    let mount = path.ancestors().take_while(inside).last().unwrap_or(&path).to_owned();
    Some(Free { mount, bytes, taken: 0 })
}

/// Adds up the space that files may still take on each file system, and compares it with the free space.
pub(crate) fn sum(files: impl IntoIterator<Item = SparseFile>) -> Vec<FileSystem> {
    sum_with(files, free_at)
}

/// The same with a function that looks at a file system.
fn sum_with(
    files: impl IntoIterator<Item = SparseFile>,
    look: impl Fn(&Path, u64) -> Option<Free>,
) -> Vec<FileSystem> {
    // Of each file system: one of its files, their number, and the sum.
    let mut all: BTreeMap<u64, (PathBuf, usize, u64)> = BTreeMap::new();
    for SparseFile { device, path, may_take } in files {
        let (_, files, sum) = all.entry(device).or_insert_with(|| (path, 0, 0));
        *files += 1;
        *sum = sum.saturating_add(may_take);
    }
    let looked = all.into_iter().filter_map(|(device, (path, files, may_take))| {
        let Free { mount, bytes: free, taken } = look(&path, device)?;
        let may_take = may_take.saturating_sub(taken);
        let overcommit = may_take.saturating_sub(free);
        let mount = mount.display().to_string();
        Some(FileSystem { mount, files, may_take, free, overcommit })
    });
    let mut looked: Vec<FileSystem> = looked.collect();
    looked.sort_by(|a, b| a.mount.cmp(&b.mount));
    looked
}

/// Returns a warning if a file system is overcommitted.
pub(crate) fn warning(of: &FileSystem) -> Option<String> {
    let FileSystem { mount, files, may_take, free, overcommit } = of;
    if *overcommit == 0 {
        return None;
    }
    let (may_take, free) = (coarse_size(*may_take), coarse_size(*free));
    if mount == MEMORY {
        return Some(format!(
            "memory is overcommitted: {files} namespaces and regions in memory may still take {may_take}, and {free} \
             are free; once it is full, Linux ends the daemon, and their content is lost: watch \
             sluicegate_file_system_overcommit_bytes, and shrink or remove some in time"
        ));
    }
    let files = if *files == 1 { "1 file".to_owned() } else { format!("{files} files") };
    Some(format!(
        "file system {mount} is overcommitted: {files} of namespaces and regions may still take {may_take}, and \
             {free} are free; writes fail with Capacity Exceeded once it is full: watch \
             sluicegate_file_system_overcommit_bytes, and add space or shrink namespaces in time"
    ))
}

/// Returns the warnings about the files of a configuration, as they are before a start. Memory is left out, since the
/// content of a running daemon is not known.
pub(crate) fn at_start(config: &Config) -> Vec<String> {
    let namespaces = config.subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
    let files = namespaces.filter_map(|n| SparseFile::of(&n.backend, n.read_only));
    let regions = config.pmem.regions.iter().filter_map(SparseFile::of_region);
    let files = files.chain(regions).filter(|file| file.device != MEMORY_DEVICE);
    sum(files).iter().filter_map(warning).collect()
}

/// Returns the warnings after a look at file systems; `before` is the previous look. They are about file systems
/// that have become overcommitted, and after a change by an operator also about overcommitted ones on which files
/// may take more.
pub(crate) fn news(before: &[FileSystem], now: &[FileSystem], is_change: bool) -> Vec<String> {
    let is_news = |now: &&FileSystem| match before.iter().find(|known| known.mount == now.mount) {
        Some(known) if known.overcommit > 0 => is_change && now.may_take > known.may_take,
        _ => true,
    };
    now.iter().filter(is_news).filter_map(warning).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    const GIB: u64 = 1 << 30;

    /// Adds up files of these file systems, of which so many bytes may be taken; 10 GiB are free on each.
    fn of(files: &[(u64, u64)]) -> Vec<FileSystem> {
        let file = |&(device, may_take)| SparseFile { device, path: PathBuf::new(), may_take };
        let look = |_: &Path, device| {
            let mount = format!("/srv/{device}").into();
            Some(Free { mount, bytes: 10 * GIB, taken: 0 })
        };
        sum_with(files.iter().map(file), look)
    }

    #[test]
    fn files_of_one_file_system_count_together() {
        let all = of(&[(1, 6 * GIB), (2, 10 * GIB), (1, 6 * GIB)]);
        let row = |f: &FileSystem| (f.mount.clone(), f.files, f.may_take, f.free, f.overcommit);
        let rows: Vec<_> = all.iter().map(row).collect();
        let first = ("/srv/1".to_owned(), 2, 12 * GIB, 10 * GIB, 2 * GIB);
        assert_eq!(rows, [first, ("/srv/2".to_owned(), 1, 10 * GIB, 10 * GIB, 0)]);
        let said = warning(&all[0]).unwrap();
        assert!(["/srv/1", "12 GiB", "10 GiB"].iter().all(|words| said.contains(words)), "{said}");
        assert_eq!(warning(&all[1]), None, "what is free suffices to the byte");
        let all = of(&[(1, u64::MAX), (1, u64::MAX)]);
        assert_eq!(all[0].overcommit, u64::MAX - 10 * GIB, "no overflow");
    }

    #[test]
    fn a_file_may_take_what_it_has_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let backend = |size, create| {
            let (path, block_size, direct) = (path.clone(), None, true);
            Backend::File { path, size, block_size, direct, create }
        };
        let may_take =
            |size, create| SparseFile::of(&backend(size, create), false).map(|f| f.may_take);
        assert_eq!(may_take(Some(GIB), false), None, "there is no file");
        assert_eq!(may_take(Some(GIB), true), Some(GIB), "it will be created");
        let disk = File::create(&path).unwrap();
        disk.set_len(GIB).unwrap();
        disk.write_all_at(&[7; 1 << 20], 4096).unwrap();
        disk.sync_all().unwrap();
        let taken = disk.metadata().unwrap().blocks() * 512;
        assert!(taken >= 1 << 20);
        assert_eq!(may_take(None, false), Some(GIB - taken));
        assert_eq!(may_take(Some(2 * GIB), false), Some(2 * GIB - taken), "it will grow");
        assert_eq!(may_take(Some(4096), false), Some(0));
        assert_eq!(SparseFile::of(&backend(None, false), true), None, "nobody writes");
        let text = format!("[[region]]\nname = \"log\"\npath = \"{}\"\n", path.display());
        let region = &sluice_config::testing::parse(&text).unwrap().pmem.regions[0];
        assert_eq!(SparseFile::of_region(region).map(|file| file.may_take), Some(GIB - taken));
        let found = sum(SparseFile::of(&backend(None, false), false));
        assert!(path.canonicalize().unwrap().starts_with(&found[0].mount) && found[0].free > 0);
    }

    #[test]
    fn content_in_memory_counts_together() {
        let backend = |size| Backend::Memory { size, block_size: 4096 };
        let of = |sizes: &[u64]| {
            let disks = sizes.iter().filter_map(|size| SparseFile::of(&backend(*size), false));
            let region = RegionConfig { size: Some(1 << 50), ..RegionConfig::default() };
            sum(disks.chain(SparseFile::of_region(&region)))
        };
        let found = of(&[4096, 1 << 50]);
        let [FileSystem { mount, files: 3, overcommit, .. }] = &found[..] else {
            panic!("{found:?}")
        };
        assert!(mount == "memory" && *overcommit > 1 << 50, "{found:?}");
        assert!(warning(&found[0]).unwrap().contains("3 namespaces and regions in memory"));
        let small = sum(SparseFile::of(&backend(4096), false));
        assert_eq!((small[0].may_take, warning(&small[0])), (0, None), "the process has more");
        assert_eq!(SparseFile::of(&backend(1 << 50), true), None, "nobody writes");
    }

    #[test]
    fn an_operator_is_told_once_and_after_each_change_that_makes_it_worse() {
        let [none, room, over, worse] =
            [&[][..], &[(1, GIB)], &[(1, 11 * GIB)], &[(1, 12 * GIB)]].map(of);
        for (before, now, is_change, told) in [
            (&none, &over, false, 1),
            // Another program takes space.
            (&room, &over, false, 1),
            (&over, &over, false, 0),
            // Hosts deallocate.
            (&over, &worse, false, 0),
            (&over, &worse, true, 1),
            (&worse, &over, true, 0),
            (&over, &room, true, 0),
        ] {
            let lines = news(before, now, is_change).len();
            assert_eq!(lines, told, "{before:?}, {now:?}, {is_change}");
        }
    }
}
