//! Processes that are killed while they take and return credits as fast as they can.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail as tests do"
)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use sluice_credits::{Backlog, Caps, Cost, Pool, Segment};

/// The allowance.
const CAPS: Caps = Caps { operations: 5, payload: 24 };
/// Processes at a time.
const HOSTS: usize = 6;
/// Number of processes that are killed, at least.
const KILLS: u64 = 100;
/// Time after which a process counts as blocked.
const LONG: Duration = Duration::from_secs(60);
/// The role of this program if it is one of the processes: its number.
const ROLE: &str = "SLUICE_CREDITS_HOST";
/// The seed of the process's choices.
const SEED: &str = "SLUICE_CREDITS_SEED";
/// The folder of the segment and of the diary.
const FOLDER: &str = "SLUICE_CREDITS_FOLDER";

/// A file with 16 bytes for each process: the operations and KiB that it holds, of 8 bits each, and
/// from byte 8 on the commands that it has completed.
#[derive(Debug)]
struct Diary(File);

impl Diary {
    fn open(folder: &Path) -> Self {
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false);
        Self(file.open(folder.join("diary")).unwrap())
    }

    fn note(&self, host: usize, cost: Cost) {
        // One byte each: no reader sees half of a number.
        let bytes = [cost.operations, cost.payload].map(|count| u8::try_from(count).unwrap());
        self.0.write_all_at(&bytes, host as u64 * 16).unwrap();
    }

    fn complete(&self, host: usize, completed: u64) {
        self.0.write_all_at(&completed.to_ne_bytes(), host as u64 * 16 + 8).unwrap();
    }

    fn read(&self) -> [[u8; 16]; HOSTS] {
        let mut entries = [[0; 16]; HOSTS];
        self.0.read_exact_at(entries.as_flattened_mut(), 0).unwrap();
        entries
    }

    /// Checks the sum of all notes, unless the allowance is not enforced any more.
    fn check(&self, pool: &Pool) {
        let entries = self.read();
        let sum = |index: usize| entries.iter().map(|entry| u64::from(entry[index])).sum::<u64>();
        let (operations, payload) = (sum(0), sum(1));
        let is_within = operations <= CAPS.operations.into() && payload <= CAPS.payload;
        let holders = entries.iter().filter(|entry| entry[0] > 0).count();
        let is_right = is_within || holders == 1 || !pool.is_enforced();
        assert!(is_right, "{operations} operations, {payload} KiB: {entries:?}");
    }
}

/// Takes and returns credits until it is killed, or until the segment is closed.
fn run_host(host: usize, seed: u64, folder: &Path) {
    let pool = Pool::attach(folder.join("segment")).unwrap();
    let diary = Diary::open(folder);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut completed = 0;
    while pool.is_enforced() {
        // Some are larger than the allowance.
        let cost = match random.u32(0..64) {
            0 => Cost { operations: 1, payload: 30 },
            _ => Cost { operations: random.u32(1..4), payload: random.u32(0..12) },
        };
        let mut held = match random.u32(0..3) {
            0 => pool.take(cost),
            1 => pool.wait(cost, Duration::from_secs(60)),
            _ => {
                let mut spot = pool.enqueue(cost);
                let polled = (0..random.u32(1..300)).find_map(|_| {
                    thread::yield_now();
                    pool.poll(&mut spot)
                });
                drop(spot);
                polled
            }
        };
        if let Some(held) = &mut held {
            diary.note(host, cost);
            diary.check(&pool);
            if random.bool() {
                let needed = Cost { operations: 1, payload: cost.payload / 2 };
                diary.note(host, needed);
                held.keep(needed);
                diary.check(&pool);
            }
            diary.note(host, Cost::default());
            completed += 1;
            diary.complete(host, completed);
        }
        drop(held);
    }
}

#[test]
fn d2_reserved_credits_that_are_not_needed_are_returned() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("segment");
    let _segment = Segment::create(&path, "disks", 0o600, CAPS, LONG).unwrap();
    let pool = Pool::attach(&path).unwrap();
    let all = Cost { operations: CAPS.operations, payload: 24 };
    let mut reserved = pool.take(all).unwrap();
    let mut other = pool.enqueue(Cost { operations: 1, payload: 20 });
    assert!(pool.poll(&mut other).is_none(), "nothing is free");
    reserved.keep(Cost { operations: 2, payload: 30 });
    assert_eq!(reserved.cost(), Cost { operations: 2, payload: 24 }, "no more than was taken");
    assert!(pool.poll(&mut other).is_none());
    reserved.keep(Cost { operations: 0, payload: 4 });
    assert_eq!(reserved.cost(), Cost { operations: 1, payload: 4 }, "a command has an operation");
    let other = pool.poll(&mut other).unwrap();
    drop((reserved, other));
    assert!(pool.take(all).is_some(), "all came back, and nothing twice");
}

fn spawn(host: usize, random: &mut fastrand::Rng, folder: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "d6_killed_processes_keep_within_the_allowance", "--nocapture"]);
    command.env(ROLE, host.to_string()).env(SEED, random.u64(..).to_string());
    command.env(FOLDER, folder).stdout(Stdio::null());
    command.spawn().unwrap()
}

fn wait_for_hosts(segment: &Segment) {
    let end = Instant::now() + LONG;
    while segment.backlog().processes < HOSTS {
        assert!(Instant::now() < end, "a process does not attach");
        thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn d6_killed_processes_keep_within_the_allowance() {
    let role = [ROLE, SEED, FOLDER].map(std::env::var);
    if let [Ok(host), Ok(seed), Ok(folder)] = role {
        run_host(host.parse().unwrap(), seed.parse().unwrap(), Path::new(&folder));
        return;
    }
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let folder = folder.path();
    let path = folder.join("segment");
    let diary = Diary::open(folder);
    diary.0.set_len(HOSTS as u64 * 16).unwrap();
    let valid = Duration::from_secs(60);
    let mut segment = Segment::create(&path, "disks", 0o600, CAPS, valid).unwrap();
    let seed = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut random = fastrand::Rng::with_seed(seed.unwrap_or(1));
    let mut hosts: Vec<Child> = (0..HOSTS).map(|host| spawn(host, &mut random, folder)).collect();
    wait_for_hosts(&segment);
    let (mut kills, mut reclaimed, mut completed) = (0, 0, 0);
    while kills < KILLS {
        thread::sleep(Duration::from_micros(random.u64(0..12_000)));
        let host = random.usize(0..HOSTS);
        // Once or more often: the second time the process may be about to attach.
        loop {
            hosts[host].kill().unwrap();
            let status = hosts[host].wait().unwrap();
            assert_eq!(status.signal(), Some(9), "process {host} has failed: {status}");
            kills += 1;
            // It holds its credits until it is reclaimed, so nobody else can have them before.
            let entry = diary.read()[host];
            completed += u64::from_ne_bytes(entry[8..].try_into().unwrap());
            diary.complete(host, 0);
            diary.note(host, Cost::default());
            reclaimed += segment.reclaim().unwrap();
            hosts[host] = spawn(host, &mut random, folder);
            if random.bool() {
                break;
            }
            thread::sleep(Duration::from_micros(random.u64(0..4_000)));
        }
        // A process that attaches takes over the slot of a dead one. Therefore none is killed in the
        // meantime: its credits would return before its note is deleted.
        wait_for_hosts(&segment);
    }
    for host in &mut hosts {
        host.kill().unwrap();
        host.wait().unwrap();
    }
    segment.reclaim().unwrap();
    assert_eq!(segment.backlog(), Backlog::default(), "credits are lost");
    completed +=
        diary.read().iter().map(|e| u64::from_ne_bytes(e[8..].try_into().unwrap())).sum::<u64>();
    let waited = segment.statistics().waited;
    println!("{kills} kills, {reclaimed} reclaimed, {completed} commands, {waited} waited");
    assert!(kills > 5 && reclaimed > 2 && completed > 100 && waited > 10);

    (0..HOSTS).for_each(|host| diary.note(host, Cost::default()));
    hosts = (0..HOSTS).map(|host| spawn(host, &mut random, folder)).collect();
    wait_for_hosts(&segment);
    segment.close();
    for host in &mut hosts {
        let end = Instant::now() + LONG;
        let status = loop {
            match host.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > end => panic!("a process is blocked: {host:?}"),
                None => thread::sleep(Duration::from_millis(1)),
            }
        };
        assert!(status.success(), "{status}");
    }
    assert_eq!(segment.backlog(), Backlog::default());
}
