//! Namespaces with `backend = "pmem"`, on what this machine has: a plain file, and a file in memory.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use sluiced::engine::{Availability, EngineError, NamespaceState};
use tempfile::TempDir;

use super::*;

/// Returns folders on a disk, and in memory where the machine has such a file system.
fn folders() -> Vec<TempDir> {
    let on_disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::iter::once(on_disk).chain(tempfile::tempdir_in("/dev/shm").ok()).collect()
}

fn region(path: PathBuf, size: u64) -> Backend {
    Backend::Pmem { path, size: Some(size), block_size: None, create: true }
}

fn row(runtime: &Runtime, nsid: u32) -> NamespaceState {
    let subsystems = runtime.subsystems();
    subsystems[0].namespaces.iter().find(|row| row.nsid == nsid).unwrap().clone()
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
        end(&runtime);
        drop(runtime);
        // Another target finds all of it.
        let (runtime, address) = target(vec![region(folder.path().join("region"), 64 << 20)], 1);
        let (_admin, id) = Queue::controller(address);
        let (mut queue, _) = Queue::connect(address, 1, id);
        let (status, _, seen) = queue.call(io(opcode::io::READ, 1000, 32), None, 32 * 4096);
        assert!(status.is_success() && seen == pattern(1000, 32, 5));
        end(&runtime);
    }
}

#[test]
fn a_region_comes_goes_and_changes_its_size_while_the_target_runs() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("region");
    let (runtime, address) = target(vec![memory()], 1);
    let (_admin, id) = Queue::controller(address);
    let (mut queue, _) = Queue::connect(address, 1, id);
    let on = |sqe: Sqe| Sqe { nsid: U32::new(2), ..sqe };
    let new = Namespace { nsid: Some(2), ..namespace(region(path.clone(), 20 << 20)) };
    runtime.add_namespace(NQN, &new).unwrap();
    assert_eq!(last_nsid(&runtime), 2);
    let write = on(io(opcode::io::WRITE, 5000, 8));
    assert!(queue.call(write, Some(pattern(5000, 8, 3)), 0).0.is_success());
    let again = Namespace { nsid: Some(3), ..new.clone() };
    let error = runtime.add_namespace(NQN, &again).unwrap_err();
    assert!(matches!(&error, EngineError::Exists(_)), "{error:?}");
    assert_eq!(runtime.resize_namespace(NQN, 2, Some(16 << 20)).unwrap(), 16 << 20);
    let read = on(io(opcode::io::READ, 5000, 8));
    assert_eq!(queue.call(read, None, 8 * 4096).0, Status::LBA_OUT_OF_RANGE.dnr());
    let error = runtime.resize_namespace(NQN, 2, Some(1 << 30)).unwrap_err();
    assert!(error.to_string().contains("cannot grow"), "{error}");
    assert_eq!(runtime.resize_namespace(NQN, 2, Some(20 << 20)).unwrap(), 20 << 20);
    let (status, _, seen) = queue.call(read, None, 8 * 4096);
    assert!(status.is_success() && seen == pattern(5000, 8, 3));
    runtime.remove_namespace(NQN, 2).unwrap();
    assert!(runtime.subsystems()[0].namespaces.iter().all(|row| row.nsid != 2));
    runtime.add_namespace(NQN, &new).unwrap();
    let (status, _, seen) = queue.call(read, None, 8 * 4096);
    assert!(status.is_success() && seen == pattern(5000, 8, 3), "the file has kept it");
    end(&runtime);
}

#[test]
fn a_file_with_something_else_is_refused_and_force_takes_it() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("region");
    let file = File::create(&path).unwrap();
    file.set_len(20 << 20).unwrap();
    file.write_all_at(b"letters", 5 << 20).unwrap();
    let (runtime, _) = target(vec![region(path, 16 << 20)], 1);
    let absent = row(&runtime, 1);
    assert_eq!(absent.state, Availability::Unavailable);
    let why = absent.reason.unwrap();
    assert!(why.contains("no block translation table") && why.contains("--force"), "{why}");
    let path = folder.path().join("region");
    let forced = Namespace { nsid: Some(2), force: true, ..namespace(region(path, 16 << 20)) };
    runtime.add_namespace(NQN, &forced).unwrap();
    assert_eq!(row(&runtime, 2).state, Availability::Ready);
    end(&runtime);
}

/// Hosts of two reactors write and read the same blocks.
#[test]
fn a_block_is_of_one_write_whichever_reactors_serve_its_hosts() {
    const BLOCKS: u32 = 4;
    const WRITES: u8 = 250;
    for folder in folders() {
        let (runtime, address) = target(vec![region(folder.path().join("region"), 16 << 20)], 2);
        let writes = |qid: u16| {
            let (_admin, id) = Queue::controller(address);
            let (mut queue, _) = Queue::connect(address, qid, id);
            for round in 0..WRITES {
                let zero = round % 16 == 15;
                let opcode = if zero { opcode::io::WRITE_ZEROES } else { opcode::io::WRITE };
                let data = (!zero).then(|| vec![round; BLOCKS as usize * 4096]);
                assert!(queue.call(io(opcode, 0, BLOCKS), data, 0).0.is_success());
            }
        };
        let reads = |qid: u16| {
            let (_admin, id) = Queue::controller(address);
            let (mut queue, _) = Queue::connect(address, qid, id);
            for _ in 0..WRITES {
                read_whole_blocks(&mut queue, BLOCKS);
            }
        };
        std::thread::scope(|scope| {
            for qid in [1, 2] {
                let (writes, reads) = (&writes, &reads);
                scope.spawn(move || writes(qid));
                scope.spawn(move || reads(qid));
            }
        });
        end(&runtime);
    }
}
