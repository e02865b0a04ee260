//! Tests of the running target, driven over loopback TCP by a small host.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod atomic;
mod authentication;
mod availability;
mod backings;
mod client;
mod crowds;
mod force;
mod holding;
mod host_log;
mod hostile;
mod identified;
mod independent;
mod network_changes;
mod pmem;
mod qos_changes;
mod qos_memory;
mod retry_delay;
mod rights;
mod sources;
mod turns;
mod workloads;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{HOST, NQN, connected, deallocate, free_address, io, on, pattern};
use fabric::nvme::{Sqe, Status, opcode};
use sluice_config::{Backend, Config, Namespace, Poll, QosConfig, TargetConfig};
use sluiced::control::store::{MemoryStore, Remembered, Store};
use sluiced::serve::engine::{Engine, NamespaceState};
use sluiced::start::runtime::Runtime;
use tempfile::TempDir;
use zerocopy::little_endian::U32;

fn memory() -> Namespace {
    memory_of(64 << 20)
}

fn memory_of(size: u64) -> Namespace {
    Namespace::new(Backend::Memory { size, block_size: 4096 })
}

/// Makes a namespace on a file of 64 MiB.
fn file(path: &Path) -> Namespace {
    file_of(path, 64 << 20)
}

fn file_of(path: &Path, size: u64) -> Namespace {
    let (path, size, block_size) = (path.to_owned(), Some(size), Some(4096));
    Namespace::new(Backend::File { path, size, block_size, direct: true, create: true })
}

/// Makes a folder on a disk, and returns the path of a file in it.
fn disk() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("disk");
    (folder, path)
}

/// A running target, which ends with this value.
struct Running(Arc<Runtime>);

impl std::ops::Deref for Running {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        &self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            end(&self.0);
        }
    }
}

/// Returns the settings of a target with one reactor and little I/O memory.
fn settings() -> TargetConfig {
    TargetConfig {
        cores: vec![0],
        poll: Poll::Never,
        io_memory: 2 << 20,
        drain_time: Duration::from_secs(1),
        ..TargetConfig::default()
    }
}

/// Returns a target with one subsystem of these namespaces, and little I/O memory.
fn target(namespaces: Vec<Namespace>, reactors: usize) -> (Running, SocketAddr) {
    let drain_time = Duration::from_secs(5);
    let settings = TargetConfig { cores: vec![0; reactors], drain_time, ..settings() };
    serve(settings, QosConfig::default(), namespaces)
}

/// Returns a target with one subsystem that any host may connect to, and its address.
fn serve(
    target: TargetConfig,
    qos: QosConfig,
    namespaces: Vec<Namespace>,
) -> (Running, SocketAddr) {
    let (address, store) = (free_address(), Arc::new(MemoryStore::default()) as Arc<dyn Store>);
    (serve_at(address, (target, qos), namespaces, &store), address)
}

/// Makes the configuration of a target with a listener and a subsystem that any host may connect to.
fn config(address: SocketAddr) -> Config {
    let listener = format!("[[listener]]\naddress = \"{address}\"\n");
    let subsystem = format!("[[subsystem]]\nnqn = \"{NQN}\"\nallow_any_host = true\n");
    sluice_config::testing::parse(&(listener + &subsystem)).unwrap()
}

/// Returns the same as [`serve`], of a target that listens on `address` and has seen namespaces before, as `store`
/// tells.
fn serve_at(
    address: SocketAddr,
    (target, qos): (TargetConfig, QosConfig),
    mut namespaces: Vec<Namespace>,
    store: &Arc<dyn Store>,
) -> Running {
    // A whole configuration numbers its namespaces.
    for (nsid, namespace) in (1..).zip(&mut namespaces) {
        namespace.nsid.get_or_insert(nsid);
    }
    let mut config = Config { target, qos, ..config(address) };
    config.subsystems[0].namespaces = namespaces;
    let (remembered, _) = Remembered::open(store).unwrap();
    Running(Runtime::start(&config, remembered).unwrap())
}

/// Returns the highest NSID.
fn last_nsid(runtime: &Runtime) -> u32 {
    runtime.subsystems()[0].namespaces.iter().map(|namespace| namespace.nsid).max().unwrap()
}

fn row(runtime: &Runtime, nsid: u32) -> NamespaceState {
    let rows = runtime.subsystems().remove(0).namespaces;
    rows.into_iter().find(|row| row.nsid == nsid).unwrap()
}

/// Waits until a condition holds.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(100), "{what} did not come true");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn buffers_in_use(runtime: &Runtime) -> u64 {
    runtime.statistics().reactors.iter().map(|reactor| reactor.buffer_used).sum()
}

/// Counts the commands that hosts have sent and that are not answered.
fn in_flight(runtime: &Runtime) -> u32 {
    runtime.connections().iter().map(|connection| connection.in_flight).sum()
}

fn end(runtime: &Runtime) {
    runtime.shutdown(false);
    runtime.wait();
}

/// Writes, reads back, compares, verifies, zeroes and deallocates.
fn exercise(address: SocketAddr) {
    let (_admin, [mut queue]) = connected(address);
    for (lba, blocks) in [(0, 1), (7, 2), (100, 3), (1000, 32), (2000, 256)] {
        let (data, other) = (pattern(lba, blocks, 5), pattern(lba, blocks, 6));
        let [mut write, compare, verify] =
            [opcode::io::WRITE, opcode::io::COMPARE, opcode::io::VERIFY]
                .map(|opcode| io(opcode, lba, blocks));
        if blocks == 3 {
            write.cdw12 |= U32::new(1 << 30); // FUA
        }
        let mut call = |sqe, data| queue.call(sqe, data, 0).0;
        assert_eq!(call(write, Some(data.clone())), Status::SUCCESS);
        assert_eq!(call(compare, Some(data.clone())), Status::SUCCESS);
        assert_eq!(call(compare, Some(other)), Status::COMPARE_FAILURE);
        assert_eq!(call(verify, None), Status::SUCCESS);
        assert_eq!(call(io(opcode::io::FLUSH, 0, 1), None), Status::SUCCESS);
        assert!(queue.read(1, lba, blocks) == data, "{blocks} blocks at {lba}");
    }
    let zero = io(opcode::io::WRITE_ZEROES, 2010, 100);
    assert_eq!(queue.call(zero, None, 0).0, Status::SUCCESS);
    let (sqe, ranges) = deallocate(2150, 10);
    assert_eq!(queue.call(sqe, Some(ranges), 0).0, Status::SUCCESS);
    let seen = queue.read(1, 2000, 256);
    let mut expected = pattern(2000, 256, 5);
    expected[10 * 4096..110 * 4096].fill(0);
    expected[150 * 4096..160 * 4096].fill(0);
    assert!(seen == expected, "write zeroes and deallocate change their blocks and no others");
    assert_eq!(queue.try_read(1, (64 << 20) / 4096), Status::LBA_OUT_OF_RANGE.dnr());
}

#[test]
fn namespaces_keep_what_is_written() {
    let (_folder, path) = disk();
    for namespace in [memory(), file(&path)] {
        let (_runtime, address) = target(vec![namespace], 1);
        exercise(address);
    }
}

#[test]
fn commands_share_a_little_memory_and_all_of_it_comes_back() {
    let (_folder, path) = disk();
    for namespace in [memory(), file(&path)] {
        let (runtime, address) = target(vec![namespace], 2);
        let write_and_read = |host: u32| {
            let (_admin, [mut queue]) = connected(address);
            // 256 blocks are 1 MiB: two such commands take all the memory there is.
            let places = [0, 1, 2, 3, 4, 5].map(|i| (host * 6 + i) * 256);
            let writes = places.map(|place| queue.submit_write(1, place, 256));
            queue.complete(writes);
            let reads = places.map(|place| queue.submit_read(place, 256));
            for (place, cid) in places.into_iter().zip(reads) {
                let (status, _, data) = queue.wait(cid);
                assert!(status.is_success() && data == pattern(place, 256, 1));
            }
        };
        std::thread::scope(|scope| {
            for host in 0..3 {
                scope.spawn(move || write_and_read(host));
            }
        });
        eventually("all buffers are free", || buffers_in_use(&runtime) == 0);
        eventually("no connection is left", || runtime.connections().is_empty());
    }
}

#[test]
fn a_waiting_command_can_be_aborted_and_a_cut_connection_gives_its_buffers_back() {
    let (runtime, address) = target(vec![memory()], 1);
    let (mut admin, [mut queue, mut other]) = connected(address);
    // The host never answers the R2T of the first write. No host may have all the memory there is:
    // the second write waits, though there is room for it.
    let [_, waiting] = [0, 256].map(|lba| queue.submit_write(1, lba, 256));
    eventually("both have arrived", || {
        runtime.connections().iter().any(|c| c.queue == Some(1) && c.in_flight == 2)
    });
    assert_eq!(buffers_in_use(&runtime), 1 << 20);
    // The host's reads find memory meanwhile.
    other.read(1, 0, 256);
    admin.abort(waiting);
    assert_eq!(queue.wait(waiting).0, Status::ABORT_REQUESTED);
    drop(queue);
    eventually("the cut connection's buffers are free", || buffers_in_use(&runtime) == 0);
    other.read(1, 0, 256);
}

#[test]
fn d3_a_large_deallocation_is_done_slice_by_slice_while_others_are_served() {
    // Deallocating all of this device takes a million slices, none of which does anything.
    let endless = Backend::Null { size: 1 << 44, block_size: 4096, model: None };
    let (runtime, address) = target(vec![memory_of(1 << 30), Namespace::new(endless)], 1);
    let (_admin, [mut sweeping, mut other]) = connected(address);
    let blocks = (1 << 30) / 4096;
    for lba in [0, blocks / 2, blocks - 1] {
        sweeping.write(1, lba, pattern(lba, 1, 9));
    }
    let (sqe, ranges) = deallocate(0, blocks);
    assert!(sweeping.call(sqe, Some(ranges), 0).0.is_success());
    for lba in [0, blocks / 2, blocks - 1] {
        assert!(other.read(1, lba, 1) == [0; 4096], "block {lba}");
    }
    // A command beyond the end is refused as a whole, and leaves nothing behind.
    let (sqe, ranges) = deallocate(1, blocks);
    assert!(!sweeping.call(sqe, Some(ranges), 0).0.is_success());
    // A sweep is not done while reads are served, and ends with its connection.
    let (sqe, ranges) = deallocate(0, u32::MAX);
    sweeping.submit(on(2, sqe), Some(ranges), 0);
    for lba in 0..3 {
        other.read(1, lba, 1);
    }
    assert!(!sweeping.has_answers(), "reads waited for a whole sweep, not for a slice of it");
    drop(sweeping);
    eventually("all memory is back", || buffers_in_use(&runtime) == 0);
}

#[test]
fn d3_a_file_deallocates_all_of_its_ranges_slice_by_slice() {
    let (_folder, path) = disk();
    let (_runtime, address) = target(vec![file_of(&path, 1 << 30)], 1);
    let (_admin, [mut queue]) = connected(address);
    // These are the last block of 64 MiB, the first of the next slice, the last block of all, and
    // the one before a range.
    let slice: u32 = (64 << 20) / 4096;
    let inside = [8, 8 + slice - 1, 8 + slice, 3 * slice];
    let outside = [7, 3 * slice + 1];
    for lba in inside.into_iter().chain(outside) {
        queue.write(1, lba, pattern(lba, 1, 9));
    }
    let (sqe, mut ranges) = deallocate(8, 2 * slice);
    let (_, more) = deallocate(u64::from(2 * slice + 8), slice - 7);
    ranges.extend(more);
    let sqe = Sqe { cdw10: U32::new(1), ..sqe };
    assert_eq!(queue.call(sqe, Some(ranges), 0).0, Status::SUCCESS);
    for lba in inside {
        assert!(queue.read(1, lba, 1) == [0; 4096], "block {lba}");
    }
    for lba in outside {
        assert!(queue.read(1, lba, 1) == pattern(lba, 1, 9), "block {lba}");
    }
}

/// Makes a Write Zeroes of 8192 blocks, which are on media at its end.
fn zeroes(nsid: u32) -> Sqe {
    on(nsid, Sqe { cdw12: U32::new(8191 | 1 << 30), ..io(opcode::io::WRITE_ZEROES, 0, 1) })
}

#[test]
fn d3_a_large_write_zeroes_is_done_slice_by_slice_and_can_be_given_up() {
    let (_folder, path) = disk();
    let slow = qos_memory::slow_device(Duration::from_millis(30));
    let (_runtime, address) = target(vec![file(&path), slow], 1);
    let (mut admin, [mut large, mut other]) = connected(address);
    // 8192 blocks are 32 MiB; WZSL and VSL recommend 1 MiB.
    for lba in [0, 255, 256, 8191, 8192] {
        large.write(1, lba, pattern(lba, 1, 9));
    }
    for opcode in [opcode::io::WRITE_ZEROES, opcode::io::VERIFY] {
        let all = Sqe { opcode, ..zeroes(1) };
        assert_eq!(large.call(all, None, 0).0, Status::SUCCESS);
    }
    for lba in [0, 255, 256, 8191] {
        assert!(other.read(1, lba, 1) == [0; 4096], "block {lba}");
    }
    let after = pattern(8192, 1, 9);
    assert!(other.read(1, 8192, 1) == after, "the block after them is as it was");
    // The command has 32 slices, each of which takes 30 ms; nobody waits for more than one of them.
    let cid = large.submit(zeroes(2), None, 0);
    for _ in 0..3 {
        other.read(2, 0, 1);
    }
    assert!(!large.has_answers(), "reads waited for all of it, not for a slice");
    admin.abort(cid);
    assert_eq!(large.wait(cid).0, Status::ABORT_REQUESTED);
    // The queue goes on.
    large.read(2, 0, 1);
}

#[test]
fn namespaces_come_change_and_go_under_a_connected_host() {
    let (runtime, address) = target(vec![memory()], 2);
    let (_admin, [mut queue]) = connected(address);
    assert_eq!(queue.try_read(2, 0), Status::INVALID_NAMESPACE.dnr());
    runtime.add_namespace(NQN, &memory()).unwrap();
    assert_eq!(last_nsid(&runtime), 2);
    queue.read(2, 0, 1);
    let beyond = (64 << 20) / 4096;
    assert!(!queue.try_read(2, beyond).is_success());
    assert_eq!(runtime.resize_namespace(NQN, 2, Some(128 << 20)).unwrap(), 128 << 20);
    queue.read(2, beyond, 1);
    runtime.remove_namespace(NQN, 2).unwrap();
    assert_eq!(queue.try_read(2, 0), Status::INVALID_NAMESPACE.dnr());
    queue.read(1, 0, 1);
}

#[test]
fn a_host_that_is_no_longer_allowed_is_disconnected() {
    let (runtime, address) = target(vec![memory()], 1);
    let (_admin, [_queue]) = connected(address);
    assert_eq!(runtime.connections().len(), 2);
    runtime.add_host(NQN, &HOST.into()).unwrap();
    runtime.set_allow_any_host(NQN, false).unwrap();
    assert_eq!(runtime.connections().len(), 2, "it is in the list");
    runtime.remove_host(NQN, HOST).unwrap();
    eventually("its connections end", || runtime.connections().is_empty());
}

#[test]
fn garbage_ends_its_own_connection_only() {
    use std::io::{Read, Write};
    let (runtime, address) = target(vec![memory()], 1);
    let (_admin, [mut queue]) = connected(address);
    let mut rude = std::net::TcpStream::connect(address).unwrap();
    rude.write_all(&[0xff; 512]).unwrap();
    rude.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut answer = Vec::new();
    rude.read_to_end(&mut answer).unwrap();
    assert_eq!(answer.first(), Some(&0x03), "a C2HTermReq says what was wrong");
    queue.read(1, 0, 1);
    assert_eq!(runtime.statistics().protocol_errors, 1);
}

#[test]
fn statistics_count_every_command_once() {
    let (runtime, address) = target(vec![memory()], 1);
    let (_admin, [mut queue]) = connected(address);
    for lba in 0..10 {
        queue.write(1, lba, pattern(lba, 1, 0));
        queue.read(1, lba, 2);
    }
    drop(queue);
    eventually("the queue is gone", || runtime.statistics().queues.is_empty());
    let seen = runtime.statistics();
    let (_, _, namespace) = &seen.namespaces[0];
    let (host, nqn, of_host) = &seen.hosts[0];
    assert_eq!((host.as_str(), nqn.as_str()), (HOST, NQN));
    for io in [namespace, of_host] {
        assert_eq!((io.read.ops, io.read.bytes), (10, 10 * 8192));
        assert_eq!((io.write.ops, io.write.bytes), (10, 10 * 4096));
        assert_eq!(io.read.latency.count(), 10);
        let waited = (io.queueing.count(), io.queueing.sum_ns);
        assert_eq!(waited, (20, 0), "with no limits commands to memory wait for nothing");
        assert_eq!(io.read.errors + io.write.errors, 0);
    }
}
