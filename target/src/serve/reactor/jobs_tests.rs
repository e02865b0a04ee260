//! Tests of units that are submitted again. Ring, buffers and file are real; completions are reported as if the
//! device were busy, or failed.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use arbitration::device::DeviceRules;
use fabric::nvm::LbaRange;
use sluice_config::Backend::File;
use sluice_core::stats::PerReactor;
use tempfile::TempDir;

use super::super::ring::tests::{small_ring, wait_for};
use super::*;
use crate::disks::backend::testing;
use crate::disks::devices::Devices;

const KEY: Key = Key { index: 1, generation: 1 };
const BLOCK: usize = 4096;
/// The bytes of a write, a half each.
const DATA: [u8; 2] = [5, 7];

struct Rig {
    jobs: Jobs,
    ring: Ring,
    pool: Pool,
    device: Arc<OpenDevice>,
    path: PathBuf,
    _folder: TempDir,
}

impl Rig {
    /// Opens a file of two blocks, and starts a write of both.
    fn writing() -> (Self, u32) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        fs::write(&path, [0; 2 * BLOCK]).unwrap();
        let (to, size, block_size) = (path.clone(), None, Some(4096));
        let file = File { path: to, size, block_size, direct: false, create: false };
        let stats = Arc::new(PerReactor::new(1));
        let devices = Devices::default();
        let (_, device) = devices.add(testing::open(&file), DeviceRules::default(), stats);
        let pool = Pool::new(1 << 20, 1 << 18).unwrap();
        let (jobs, ring) = (Jobs::default(), small_ring(8).0);
        let mut rig = Self { jobs, ring, pool, device, path, _folder: folder };
        let mut buffer = rig.pool.take(2 * BLOCK, Use::Any).unwrap();
        for (half, byte) in buffer.chunks_mut(BLOCK).zip(DATA) {
            half.fill(byte);
        }
        let command = IoCommand::Write { range: LbaRange { lba: 0, blocks: 2 }, fua: false };
        let job = Job::uncharged(KEY, Arc::clone(&rig.device), command, buffer);
        let started = rig.jobs.start(job, &mut rig.ring, &rig.pool);
        assert!(matches!(started, Started::Running));
        let (unit, result) = rig.completion();
        assert_eq!((result, rig.content()), (2 * 4096, DATA));
        (rig, unit)
    }

    /// Returns the unit of the next completion, and its result.
    fn completion(&mut self) -> (u32, i32) {
        let [completion] = wait_for(&mut self.ring, 1)[..] else { panic!("one unit is there") };
        let Some(Tag::Unit(unit)) = Tag::decode(completion.user_data) else { panic!() };
        (unit, completion.result)
    }

    /// Reports a completion. Returns the status of the job's end.
    fn finish(&mut self, now: Nanos, unit: u32, result: i32) -> Option<Status> {
        match self.jobs.finish(now, unit, (result, 0), &mut self.ring, &self.pool)? {
            (KEY, Started::Ended(ended)) => Some(ended.status),
            other => panic!("{other:?}"),
        }
    }

    /// Submits due units again.
    fn retry(&mut self) -> Nanos {
        let due = self.jobs.next_try().unwrap();
        self.jobs.retry_busy(due, &mut self.ring);
        assert_eq!(self.jobs.next_try(), None);
        due
    }

    /// Overwrites the file, as another host may that has resent a command.
    fn overwrite(&self) {
        fs::write(&self.path, [1; 2 * BLOCK]).unwrap();
    }

    /// Returns the first byte of each block of the file.
    fn content(&self) -> [u8; 2] {
        let content = fs::read(&self.path).unwrap();
        [content[0], content[BLOCK]]
    }
}

#[test]
fn unit_is_submitted_again_when_its_device_was_busy() {
    for errno in [libc::EAGAIN, libc::EBUSY, libc::ENOMEM, libc::EINTR] {
        let (mut rig, unit) = Rig::writing();
        rig.overwrite();
        assert_eq!(rig.finish(Nanos(0), unit, -errno), None);
        assert!(rig.jobs.next_try() > Some(Nanos(0)) && rig.content() == [1; 2]);
        let now = rig.retry();
        assert_eq!((rig.completion(), rig.content()), ((unit, 2 * 4096), DATA), "{errno}");
        assert_eq!(rig.finish(now, unit, 2 * 4096), Some(Status::SUCCESS));
        assert_eq!((rig.jobs.len(), rig.jobs.next_try()), (0, None));
        assert_eq!(rig.device.backend.health().errors().0, 0);
    }
}

#[test]
fn device_that_stays_busy_has_its_command_sent_again_by_the_host() {
    let (mut rig, unit) = Rig::writing();
    let mut now = Nanos(0);
    let status = loop {
        if let Some(status) = rig.finish(now, unit, -libc::EBUSY) {
            break status;
        }
        now = rig.retry();
        assert!(now < Nanos(0) + Duration::from_secs(11));
        assert_eq!(rig.completion(), (unit, 2 * 4096));
    };
    assert_eq!(status, Status::COMMAND_INTERRUPTED);
    assert!(now >= Nanos(0) + Duration::from_secs(10));
    assert_eq!(rig.device.backend.health().errors().0, 1);
}

#[test]
fn rest_of_a_unit_is_submitted_when_a_part_was_done() {
    let (mut rig, unit) = Rig::writing();
    rig.overwrite();
    assert_eq!(rig.finish(Nanos(0), unit, 4096), None);
    assert_eq!((rig.completion(), rig.content()), ((unit, 4096), [1, DATA[1]]));
    assert_eq!(rig.finish(Nanos(0), unit, 4096), Some(Status::SUCCESS));
}

#[test]
fn unit_of_a_connection_that_ends_is_not_submitted_again() {
    let (mut rig, unit) = Rig::writing();
    assert_eq!(rig.finish(Nanos(0), unit, -libc::EAGAIN), None);
    rig.overwrite();
    rig.jobs.end_connection(KEY);
    let now = rig.retry();
    assert_eq!((rig.completion(), rig.content()), ((unit, 0), [1; 2]));
    assert_eq!(rig.finish(now, unit, 0), Some(Status::ABORT_REQUESTED));
    // The same where the connection ends first.
    let (mut rig, unit) = Rig::writing();
    rig.jobs.end_connection(KEY);
    assert_eq!(rig.finish(Nanos(0), unit, -libc::EAGAIN), Some(Status::ABORT_REQUESTED));
    assert_eq!(rig.jobs.next_try(), None);
}

#[test]
fn error_that_may_be_that_of_a_removed_device_is_classified_again_without_another_write() {
    let (mut rig, unit) = Rig::writing();
    assert_eq!(rig.finish(Nanos(0), unit, -libc::EIO), None);
    assert_eq!(rig.device.backend.health().errors().0, 0, "the host is told nothing yet");
    rig.overwrite();
    let now = rig.retry();
    assert_eq!((rig.completion(), rig.content()), ((unit, 0), [1; 2]));
    assert_eq!(rig.finish(now, unit, 0), Some(Status::WRITE_FAULT));
    assert_eq!(rig.device.backend.health().errors().0, 1);
    // The keeper finds the file system gone meanwhile.
    let (mut rig, unit) = Rig::writing();
    assert_eq!(rig.finish(Nanos(0), unit, -libc::EIO), None);
    rig.device.backend.health().fail("its file system has failed".to_owned());
    let now = rig.retry();
    assert_eq!(rig.completion(), (unit, 0));
    assert_eq!(rig.finish(now, unit, 0), Some(Status::NAMESPACE_NOT_READY));
}
