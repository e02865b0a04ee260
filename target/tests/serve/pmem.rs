//! Namespaces with `backend = "pmem"`, on what this machine has: a plain file, and a file in memory.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use sluiced::serve::engine::{Availability, EngineError};
use tempfile::TempDir;

use super::*;

/// Returns folders on a disk, and in memory where the machine has such a file system.
fn folders() -> Vec<TempDir> {
    let on_disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::iter::once(on_disk).chain(tempfile::tempdir_in("/dev/shm").ok()).collect()
}

fn region(path: PathBuf, size: u64) -> Namespace {
    Namespace::new(Backend::Pmem { path, size: Some(size), block_size: None, create: true })
}

#[test]
fn regions_keep_what_is_written() {
    for folder in folders() {
        let (runtime, address) = target(vec![region(folder.path().join("region"), 64 << 20)], 1);
        exercise(address);
        let row = row(&runtime, 1);
        assert_eq!((row.backend.as_str(), row.size), ("pmem", 64 << 20));
        let kind = row.region.unwrap();
        assert!(["plain file", "DAX file", "file in memory"].contains(&kind.as_str()), "{kind}");
        drop(runtime);
        // Another target finds all of it.
        let (_runtime, address) = target(vec![region(folder.path().join("region"), 64 << 20)], 1);
        let (_admin, [mut queue]) = connected(address);
        assert!(queue.read(1, 1000, 32) == pattern(1000, 32, 5));
    }
}

#[test]
fn a_region_comes_goes_and_changes_its_size_while_the_target_runs() {
    let (_folder, path) = disk();
    let (runtime, address) = target(vec![memory()], 1);
    let (_admin, [mut queue]) = connected(address);
    let new = Namespace { nsid: Some(2), ..region(path, 20 << 20) };
    runtime.add_namespace(NQN, &new).unwrap();
    assert_eq!(last_nsid(&runtime), 2);
    queue.write(2, 5000, pattern(5000, 8, 3));
    let again = Namespace { nsid: Some(3), ..new.clone() };
    let error = runtime.add_namespace(NQN, &again).unwrap_err();
    assert!(matches!(&error, EngineError::Exists(_)), "{error:?}");
    assert_eq!(runtime.resize_namespace(NQN, 2, Some(16 << 20)).unwrap(), 16 << 20);
    assert_eq!(queue.try_read(2, 5000), Status::LBA_OUT_OF_RANGE.dnr());
    let most = runtime.resize_namespace(NQN, 2, None).unwrap();
    let error = runtime.resize_namespace(NQN, 2, Some(most + 4096)).unwrap_err();
    assert!(error.to_string().contains("cannot grow"), "{error}");
    assert_eq!(runtime.resize_namespace(NQN, 2, Some(20 << 20)).unwrap(), 20 << 20);
    assert!(queue.read(2, 5000, 8) == pattern(5000, 8, 3));
    runtime.remove_namespace(NQN, 2).unwrap();
    assert!(runtime.subsystems()[0].namespaces.iter().all(|row| row.nsid != 2));
    runtime.add_namespace(NQN, &new).unwrap();
    assert!(queue.read(2, 5000, 8) == pattern(5000, 8, 3), "the file has kept it");
}

#[test]
fn a_file_with_something_else_is_refused_and_force_takes_it() {
    let (_folder, path) = disk();
    let file = File::create(&path).unwrap();
    file.set_len(20 << 20).unwrap();
    file.write_all_at(b"letters", 5 << 20).unwrap();
    let (runtime, _) = target(vec![region(path.clone(), 16 << 20)], 1);
    let absent = row(&runtime, 1);
    assert_eq!(absent.state, Availability::Unavailable);
    let why = absent.reason.unwrap();
    assert!(why.contains("no block translation table") && why.contains("--force"), "{why}");
    let forced = Namespace { nsid: Some(2), force: true, ..region(path, 16 << 20) };
    runtime.add_namespace(NQN, &forced).unwrap();
    assert_eq!(row(&runtime, 2).state, Availability::Ready);
}

#[test]
fn a_block_is_of_one_write_whichever_reactors_serve_its_hosts() {
    for folder in folders() {
        let path = folder.path().join("region");
        let (_runtime, address) = target(vec![region(path, 16 << 20)], 2);
        super::atomic::check_whole_blocks(address, 4, 250);
    }
}
