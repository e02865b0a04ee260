//! Segments in files, within one process.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tempfile::TempDir;

use super::*;
use crate::sys::futex::count;
use crate::{Backlog, Error, PROCESSES, Pool, SPOTS, Segment};

/// A validity that outlasts a test.
const LONG: Duration = Duration::from_secs(500);
/// A wait that a test does not reach the end of.
const PATIENT: Duration = Duration::from_secs(20);
/// A wait that ends without credits.
const BRIEF: Duration = Duration::from_millis(5);

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = folder.path().join("disks");
    (folder, path)
}

fn create(path: &Path, operations: u32, valid_for: Duration) -> Result<Segment, Error> {
    let caps = Caps { operations, payload: u64::MAX };
    Segment::create(path, "nqn.2026-01.example:disks", 0o640, caps, valid_for)
}

/// Creates a segment with these credits, and attaches to it.
fn attached(operations: u32) -> (TempDir, Segment, Pool) {
    let (folder, path) = folder();
    let segment = create(&path, operations, LONG).unwrap();
    let pool = Pool::attach(path).unwrap();
    (folder, segment, pool)
}

#[test]
fn d6_free_credits_need_no_futex() {
    let (_folder, path) = folder();
    let _segment = create(&path, 4, LONG).unwrap();
    let (pool, other) = (Pool::attach(&path).unwrap(), Pool::attach(&path).unwrap());
    let before = count::calls();
    for _ in 0..1_000 {
        let held = pool.take(cost(1, 4)).unwrap();
        let others = other.wait(cost(3, 4), PATIENT).unwrap();
        assert!(pool.take(cost(1, 0)).is_none());
        drop((held, others));
    }
    // Event loops that hand credits to each other make none, either.
    let held = pool.take(cost(4, 0)).unwrap();
    let mut spot = other.enqueue(cost(1, 0));
    assert!(other.poll(&mut spot).is_none());
    drop(held);
    assert!(other.poll(&mut spot).is_some());
    assert!(other.poll(&mut spot).is_none(), "a spot returns its credits once");
    assert_eq!(count::calls(), before);
}

#[test]
fn d6_threads_that_sleep_are_woken_in_order() {
    let (_folder, segment, pool) = attached(1);
    let held = pool.take(cost(1, 0)).unwrap();
    let (sender, order) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        for index in 0..3 {
            let (sender, pool) = (sender.clone(), &pool);
            scope.spawn(move || {
                let held = pool.wait(cost(1, 0), PATIENT).unwrap();
                sender.send(index).unwrap();
                drop(held);
            });
            while segment.backlog().waiting.operations != index + 1 {
                thread::yield_now();
            }
        }
        drop(held);
    });
    drop(sender);
    assert_eq!(order.iter().collect::<Vec<_>>(), [0, 1, 2]);
    let statistics = segment.statistics();
    assert_eq!((statistics.taken, statistics.waited, statistics.reclaimed), (4, 3, 0));
    assert_eq!(segment.backlog(), Backlog { processes: 1, ..Backlog::default() });
}

#[test]
fn d6_waiter_notices_expiry_by_itself() {
    let (_folder, segment, pool) = attached(1);
    let held = pool.take(cost(1, 0)).unwrap();
    assert!(pool.is_enforced());
    assert!(pool.wait(cost(1, 0), BRIEF).is_none(), "no credits, and not expired");
    segment.extend(Duration::from_millis(50));
    let start = Instant::now();
    let more = pool.wait(cost(1, 0), PATIENT).unwrap();
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!(!pool.is_enforced());
    drop((held, more));
    segment.extend(LONG);
    assert!(pool.is_enforced());
}

#[test]
fn d6_closing_wakes_all_waiters() {
    let (_folder, segment, pool) = attached(1);
    let held = pool.take(cost(1, 0)).unwrap();
    // More waiters than the process has spots.
    let waiters = SPOTS + 2;
    thread::scope(|scope| {
        for _ in 0..waiters {
            scope.spawn(|| std::mem::forget(pool.wait(cost(1, 0), PATIENT).unwrap()));
        }
        while segment.backlog().waiting.operations != SPOTS as u64 {
            thread::yield_now();
        }
        segment.close();
    });
    assert_eq!(segment.backlog().held.operations, waiters as u64 + 1);
    drop(held);
}

#[test]
fn d6_more_spots_than_the_segment_has_are_served() {
    let (_folder, segment, pool) = attached(1);
    let mut held = pool.take(cost(1, 0));
    let mut spots: Vec<_> = (0..3 * SPOTS).map(|_| pool.enqueue(cost(1, 0))).collect();
    for spot in &mut spots {
        assert!(pool.poll(spot).is_none());
        drop(held);
        held = pool.poll(spot).or_else(|| pool.poll(spot));
        assert!(held.is_some());
    }
    drop(held);
    assert_eq!(segment.backlog(), Backlog { processes: 1, ..Backlog::default() });
}

#[test]
fn d6_pool_that_is_dropped_returns_everything() {
    let (_folder, mut segment, pool) = attached(2);
    let held = pool.take(cost(2, 7)).unwrap();
    let spot = pool.enqueue(cost(1, 3));
    assert_eq!(segment.reclaim().unwrap(), 0, "the process lives");
    let backlog = segment.backlog();
    assert_eq!((backlog.held.operations, backlog.held.payload), (2, 7));
    assert_eq!((backlog.waiting.operations, backlog.waiting.payload), (1, 3));
    drop(pool);
    assert_eq!(segment.backlog().processes, 1, "credits keep it attached");
    drop((held, spot));
    assert_eq!(segment.backlog(), Backlog::default());
}

#[test]
fn d6_segment_of_a_live_agent_is_refused() {
    let (folder, path) = folder();
    let segment = create(&path, 2, LONG).unwrap();
    let message = create(&path, 3, LONG).unwrap_err().to_string();
    let expected = format!("running sluice-agent (process {})", std::process::id());
    assert!(message.contains(&expected), "{message}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    let pool = Pool::attach(&path).unwrap();
    assert_eq!(pool.session(), "nqn.2026-01.example:disks");
    assert_eq!(pool.allowance(), segment.allowance());
    assert!(!pool.is_replaced());
    drop(segment);
    assert!(pool.is_replaced() && !pool.is_enforced());
    assert!(pool.take(cost(7, 7)).is_some());
    let files = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files, 0, "files remain");
}

#[test]
fn d6_stale_segment_is_replaced_and_releases_its_processes() {
    let (folder, path) = folder();
    let segment = create(&path, 1, LONG).unwrap();
    let pool = Pool::attach(&path).unwrap();
    let held = pool.take(cost(1, 0)).unwrap();
    // A copy with another inode has no lock, as the segment of a killed agent.
    let copy = folder.path().join("copy");
    fs::copy(&path, &copy).unwrap();
    fs::rename(&copy, &path).unwrap();
    let stale = Pool::attach(&path).unwrap();
    let next = create(&path, 2, LONG).unwrap();
    assert!(stale.is_replaced() && !stale.is_enforced());
    assert!(pool.is_replaced() && pool.is_enforced());
    drop(segment);
    assert!(path.exists(), "an agent removed the segment of its successor");
    assert_eq!(Pool::attach(&path).unwrap().allowance(), next.allowance());
    drop(held);
}

#[test]
fn d6_attach_names_path_fault_and_remedy() {
    let (folder, path) = folder();
    let fault = |expected: &str| {
        let message = Pool::attach(&path).unwrap_err().to_string();
        assert!(message.contains(path.to_str().unwrap()), "{message}");
        assert!(
            message.contains(expected) && message.contains("restart sluice-agent"),
            "{message}"
        );
    };
    fault("No such file");
    fs::create_dir(&path).unwrap();
    fault("cannot be used");
    fs::remove_dir(&path).unwrap();
    symlink("/dev/zero", &path).unwrap();
    fault("cannot be used");
    fs::remove_file(&path).unwrap();
    mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    fault("not a regular file");
    fs::remove_file(&path).unwrap();
    fs::write(&path, "short").unwrap();
    fault("too short");
    fs::write(&path, [b'x'; 100]).unwrap();
    fault("begins with other bytes");
    let message = create(&path, 1, LONG).unwrap_err().to_string();
    assert!(message.contains("begins with other bytes"), "a foreign file was replaced: {message}");
    fs::remove_file(&path).unwrap();

    let segment = create(&path, 1, LONG).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&7_u64.to_ne_bytes(), 8).unwrap();
    fault("layout version 7");
    file.write_all_at(&1_u64.to_ne_bytes(), 8).unwrap();
    let copy = folder.path().join("copy");
    fs::copy(&path, &copy).unwrap();
    File::options().write(true).open(&copy).unwrap().set_len(4096).unwrap();
    fs::rename(&copy, &path).unwrap();
    fault("another length");
    drop(segment);
    // An agent replaces a stale segment that it cannot map.
    drop(create(&path, 1, LONG).unwrap());

    let caps = Caps::NONE;
    for name in [String::new(), "x".repeat(256)] {
        let error = Segment::create(&path, &name, 0o600, caps, LONG).unwrap_err().to_string();
        assert!(error.contains("1 to 255"), "{error}");
    }
    let error = create(&path.join("missing"), 1, LONG).unwrap_err().to_string();
    assert!(error.contains("missing") && error.contains("folder exists"), "{error}");
}

#[test]
fn d6_full_segment_refuses_another_process() {
    let (_folder, path) = folder();
    let _segment = create(&path, 1, LONG).unwrap();
    let pools: Vec<_> = (0..PROCESSES).map(|_| Pool::attach(&path)).collect();
    if pools.iter().any(Result::is_err) {
        return; // A limit of open files below PROCESSES.
    }
    let message = Pool::attach(&path).unwrap_err().to_string();
    assert!(message.contains("512 are attached"), "{message}");
    drop(pools);
    assert!(Pool::attach(&path).is_ok());
}

#[test]
fn d6_overwritten_segment_neither_blocks_nor_panics() {
    let (folder, mut segment, pool) = attached(2);
    let path = folder.path().join("disks");
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let length = usize::try_from(fs::metadata(&path).unwrap().len()).unwrap();
    for byte in [0, 1, 0x7f, 0x80, 0xff] {
        file.write_all_at(&vec![byte; length], 0).unwrap();
        let held = pool.wait(cost(1, 1), BRIEF);
        let mut spot = pool.enqueue(cost(2, 2));
        drop(held);
        let _ = pool.poll(&mut spot);
        drop(spot);
        segment.reclaim().unwrap();
        let _ = (segment.backlog(), segment.statistics());
        segment.set_allowance(Caps { operations: 1, payload: 1 });
    }
    assert!(Pool::attach(&path).is_err());
}
