//! Namespaces whose devices are missing, fail, or are changed under them.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use fabric::host::commands;
use fabric::nvme::Status;
use sluice_config::{Backend, DeviceModel, Namespace};
use sluiced::serve::engine::{Availability, Engine, EngineError, NamespaceState};
use sluiced::start::runtime::Runtime;

use super::client::{NQN, Queue, connected, on, pattern};
use super::{disk, end, eventually, last_nsid, memory, row, target};

/// Makes a namespace on a file in its present size.
fn existing(path: &Path) -> Namespace {
    let (path, block_size) = (path.to_owned(), Some(4096));
    Namespace::new(Backend::File { path, size: None, block_size, direct: false, create: false })
}

fn await_state(runtime: &Runtime, nsid: u32, state: Availability) -> NamespaceState {
    let mut seen = row(runtime, nsid);
    eventually(&format!("{state:?}"), || {
        seen = row(runtime, nsid);
        seen.state == state
    });
    seen
}

#[test]
fn a_file_that_is_missing_at_start_is_served_when_it_appears() {
    let (_folder, path) = disk();
    let (runtime, address) = target(vec![existing(&path), memory()], 1);
    let absent = row(&runtime, 1);
    assert_eq!((absent.state, absent.size), (Availability::Unavailable, 0));
    assert_eq!(absent.path.as_deref(), path.to_str());
    let reason = absent.reason.unwrap();
    assert!(reason.contains("disk: there is no such file"), "{reason}");
    let (_admin, [mut queue]) = connected(address);
    let status = queue.try_read(1, 0);
    let is_retried = status.is(Status::NAMESPACE_NOT_READY) && !status.is_dnr();
    assert!(is_retried, "{status}");
    queue.read(2, 0, 1);
    assert!(matches!(
        runtime.resize_namespace(NQN, 1, Some(1 << 20)),
        Err(EngineError::Invalid(why)) if why.contains("there is no such file")
    ));
    let again = runtime.add_namespace(NQN, &Namespace { nsid: Some(1), ..memory() });
    assert!(matches!(again, Err(EngineError::Exists(_))), "its number is taken");

    fs::write(&path, vec![9; 1 << 20]).unwrap();
    let there = await_state(&runtime, 1, Availability::Ready);
    assert_eq!((there.size, there.reason), (1 << 20, None));
    assert!(queue.read(1, 0, 1) == [9; 4096]);
    queue.read(2, 0, 1);
}

#[test]
fn a_missing_file_is_inaccessible_for_a_host_that_reads_the_log_of_ana_states() {
    let (_folder, path) = disk();
    let (runtime, address) = target(vec![existing(&path), memory()], 1);
    let (mut admin, id) = Queue::controller(address);
    let log = on(u32::MAX, commands::log_page(0x0c, 0, 4096));
    let nsids = |log: &[u8]| {
        let at = |at: usize| u32::from_le_bytes(log[at..at + 4].try_into().unwrap());
        // Each group has 32 bytes, with the number of NSIDs from byte 4 on, and then the NSIDs.
        let accessible = at(20) as usize;
        let second = 48 + 4 * accessible;
        let list = |from: usize, count: usize| (0..count).map(|n| at(from + 4 * n)).collect();
        let lists: [Vec<u32>; 2] =
            [list(48, accessible), list(second + 32, at(second + 4) as usize)];
        lists
    };
    let (status, _, page) = admin.call(log, None, 4096);
    assert!(status.is_success(), "{status}");
    assert_eq!(nsids(&page), [vec![2], vec![1]]);
    let (mut queue, _) = Queue::connect(address, 1, id);
    let status = queue.try_read(1, 0);
    assert!(status.is(Status::ANA_INACCESSIBLE) && !status.is_dnr(), "{status}");
    queue.read(2, 0, 1);

    fs::write(&path, vec![9; 1 << 20]).unwrap();
    await_state(&runtime, 1, Availability::Ready);
    let (_, _, page) = admin.call(log, None, 4096);
    assert_eq!(nsids(&page), [vec![1, 2], vec![]]);
    assert!(queue.read(1, 0, 1) == [9; 4096]);
}

#[test]
fn a_namespace_that_is_not_available_can_be_tried_on_request_and_removed() {
    let ((folder, one), (_folder, two)) = (disk(), disk());
    let (runtime, address) = target(vec![existing(&one), existing(&two)], 1);
    let (_admin, [mut queue]) = connected(address);
    fs::write(&one, vec![1; 1 << 20]).unwrap();
    fs::write(&two, vec![2; 1 << 20]).unwrap();
    runtime.retry_namespaces(Some(NQN), Some(2));
    assert_eq!(row(&runtime, 2).state, Availability::Ready, "at once");
    assert!(queue.read(2, 3, 1) == [2; 4096]);
    end(&runtime);

    let missing = folder.path().join("never");
    let (runtime, address) = target(vec![existing(&missing)], 1);
    let (_admin, [mut queue]) = connected(address);
    runtime.retry_namespaces(None, None);
    assert_eq!(row(&runtime, 1).state, Availability::Unavailable);
    runtime.remove_namespace(NQN, 1).unwrap();
    assert!(runtime.subsystems()[0].namespaces.is_empty());
    assert_eq!(queue.try_read(1, 0), Status::INVALID_NAMESPACE.dnr());
    fs::write(&missing, vec![1; 1 << 20]).unwrap();
    runtime.retry_namespaces(None, None);
    assert!(runtime.subsystems()[0].namespaces.is_empty(), "what was removed stays away");
    runtime.add_namespace(NQN, &memory()).unwrap();
    assert_eq!(last_nsid(&runtime), 1, "its number is free");
    queue.read(1, 0, 1);
}

#[test]
fn errors_of_a_device_are_counted_and_the_last_one_is_named() {
    let (service_time, errors) = (Duration::ZERO, Some(10));
    let model = Some(DeviceModel { service_time, bandwidth: None, channels: 8, errors });
    let flawed = Namespace::new(Backend::Null { size: 64 << 20, block_size: 4096, model });
    let (runtime, address) = target(vec![flawed, memory()], 2);
    assert_eq!(row(&runtime, 1).state, Availability::Ready, "none yet");
    let (_admin, [mut queue]) = connected(address);
    let failed = (0..200)
        .filter(|lba| {
            let status = queue.try_read(1, *lba);
            assert!(status.is_success() || status.is(Status::UNRECOVERED_READ_ERROR), "{status}");
            !status.is_success()
        })
        .count();
    assert_eq!(failed, 20, "10 % of 200");
    eventually("all are counted", || row(&runtime, 1).errors == 20);
    let seen = row(&runtime, 1);
    assert_eq!((seen.state, seen.errors), (Availability::Errors, 20));
    let reason = seen.reason.unwrap();
    let last = "20 errors, last: unrecovered read error (SCT 2h, SC 81h) on read at LBA 199, ";
    assert!(reason.starts_with(last), "{reason}");
    // A wrong request of a host is no error of the device.
    assert_eq!(queue.try_read(2, (64 << 20) / 4096), Status::LBA_OUT_OF_RANGE.dnr());
    let sound = row(&runtime, 2);
    assert_eq!((sound.state, sound.errors, sound.reason), (Availability::Ready, 0, None));
}

#[test]
fn a_file_that_is_cut_under_its_namespace_is_noticed_by_the_first_read_beyond_its_end() {
    let (_folder, path) = disk();
    fs::write(&path, pattern(0, 256, 3)).unwrap();
    let (runtime, address) = target(vec![existing(&path)], 1);
    let (_admin, [mut queue]) = connected(address);
    let cut = OpenOptions::new().write(true).open(&path).unwrap();
    cut.set_len(100 * 4096).unwrap();
    let status = queue.try_read(1, 200);
    assert!(status.is(Status::INTERNAL_ERROR), "{status}");
    assert!(queue.read(1, 99, 1) == pattern(99, 1, 3), "what is left is served");
    let reason = await_state(&runtime, 1, Availability::Errors).reason.unwrap();
    assert!(reason.contains("1 error, last: end of the file on read at LBA 200"), "{reason}");
    let words = "the file was cut to 409600 bytes, the namespace has 1048576";
    assert!(reason.contains(words), "{reason}");
}

#[test]
fn a_file_that_is_deleted_is_noticed_without_any_command_and_can_be_saved() {
    let (_folder, path) = disk();
    fs::write(&path, pattern(0, 256, 4)).unwrap();
    let (runtime, address) = target(vec![existing(&path)], 1);
    fs::remove_file(&path).unwrap();
    let reason = await_state(&runtime, 1, Availability::Errors).reason.unwrap();
    assert!(reason.contains("the file was deleted"), "{reason}");
    let from = reason.split("--sparse=always ").nth(1).unwrap().split(' ').next().unwrap();
    let mut saved = vec![0; 4096];
    fs::File::open(from).unwrap().read_exact_at(&mut saved, 77 * 4096).unwrap();
    assert_eq!(saved, pattern(77, 1, 4));
    let (_admin, [mut queue]) = connected(address);
    assert!(queue.read(1, 5, 1) == pattern(5, 1, 4), "it is served meanwhile");
}
