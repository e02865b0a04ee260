use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use arbitration::session::HostId;
use fabric::nvme::Sqe;
use tempfile::TempDir;

use super::*;
use crate::disks::backend::Claims;

const MIB: u64 = 1 << 20;
const RANGE: LbaRange = LbaRange { lba: 8, blocks: 16 };
const READ: IoCommand = IoCommand::Read { range: RANGE, fua: false };
const WRITE: IoCommand = IoCommand::Write { range: RANGE, fua: false };
const DURABLE_WRITE: IoCommand = IoCommand::Write { range: RANGE, fua: true };
const HOLE: IoCommand = IoCommand::Deallocate { range: RANGE };
const IN_PLACE: IoCommand = zeroes(false, false);

const fn zeroes(deallocate: bool, fua: bool) -> IoCommand {
    IoCommand::WriteZeroes { range: RANGE, deallocate, fua }
}

fn open(path: &Path, size: Option<u64>) -> Result<FileDisk, BackendError> {
    let (block_size, direct, create, read_only) = (Some(4096), false, true, false);
    let options = FileOptions { size, block_size, direct, create, read_only };
    FileDisk::open(path, options, &Opening::for_tests(&Claims::default()))
}

/// Opens a sparse file of 1 MiB with a block of data at its begin.
fn disk() -> (FileDisk, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    let file = File::create(&path).unwrap();
    file.set_len(MIB).unwrap();
    file.write_all_at(&[7; 4096], 0).unwrap();
    file.sync_all().unwrap();
    (open(&path, None).unwrap(), folder)
}

/// Returns the ways in which a command would be carried out, and finishes the first of its units.
fn plan(disk: &FileDisk, command: IoCommand, result: i32) -> (Vec<u32>, Option<Outcome>) {
    let (sqe, mut units) = (Sqe::default(), Vec::new());
    let job = Job { command: &command, sqe: &sqe, host: HostId(1), data: &[] };
    disk.plan(&job, &mut units).unwrap();
    let done = units.first().map(|unit| disk.finish(&job, unit, result, 0));
    (units.iter().map(|unit| unit.at).collect(), done)
}

#[test]
fn length_of_a_file_that_grows_is_synchronized_before_its_blocks_count() {
    let (disk, folder) = disk();
    let (disk, seen) = (Rc::new(disk), Rc::new(RefCell::new(Vec::new())));
    // Notes the length of a file as it is synchronized, and the bytes that hosts may use then.
    let observer = |served: Option<&Rc<FileDisk>>, fails: bool| {
        let (seen, served) = (Rc::clone(&seen), served.cloned());
        move |file: &File| {
            let bytes = served.as_ref().map_or(0, |disk| disk.health().blocks() * 4096);
            seen.borrow_mut().push((file.metadata()?.len(), bytes));
            if fails { Err(Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
        }
    };
    let resize = |blocks, fails| {
        let observer = observer(Some(&disk), fails);
        let resized = source::while_synchronizing(observer, || disk.resize(blocks));
        (resized.is_ok(), disk.health().blocks() * 4096)
    };
    assert_eq!(resize(Some(512), false), (true, 2 * MIB));
    assert_eq!(seen.take(), [(2 * MIB, MIB)]);
    // A file that an operator has grown.
    disk.source.file.set_len(3 * MIB).unwrap();
    assert_eq!(resize(None, false), (true, 3 * MIB));
    assert_eq!(seen.take(), [(3 * MIB, 2 * MIB)]);
    assert_eq!(resize(Some(1024), true), (false, 3 * MIB), "the length may not be on the medium");
    assert_eq!(seen.take(), [(4 * MIB, 3 * MIB)]);
    drop(disk);
    // A file that grows as it is opened, or is made.
    for name in ["disk", "new"] {
        let opens = |size, fails| {
            let open = || open(&folder.path().join(name), Some(size));
            source::while_synchronizing(observer(None, fails), open).is_ok()
        };
        assert!(!opens(5 * MIB, true) && opens(6 * MIB, false), "{name}");
        assert_eq!(seen.take(), [(5 * MIB, 0), (6 * MIB, 0)], "{name}");
    }
}

#[test]
fn a_device_has_blocks_no_smaller_than_its_own() {
    for (native, configured, expected) in [
        (None, None, Some(4096)),
        (None, Some(512), Some(512)),
        (Some(512), None, Some(512)),
        (Some(512), Some(4096), Some(4096)),
        (Some(4096), None, Some(4096)),
        (Some(4096), Some(512), None),
        (Some(16384), None, None),
        (Some(16384), Some(4096), None),
    ] {
        let chosen = choose_block_size(native, configured);
        assert_eq!(chosen.as_ref().ok(), expected.as_ref(), "{native:?} {configured:?}");
    }
    let why = choose_block_size(Some(4096), Some(512)).unwrap_err();
    assert!(why.ends_with("give block_size = 4096, or leave it out"), "{why}");
    let why = choose_block_size(Some(16384), None).unwrap_err();
    assert!(!why.contains("block_size = 4096,"), "no remedy that does not help: {why}");
}

#[test]
fn zeroes_are_holes_where_the_host_allows_it_and_written_where_nothing_else_works() {
    let (disk, _folder) = disk();
    disk.no_holes.store(false, Relaxed);
    let (punch, zero) = (FALLOCATE + u32::from(PUNCH_HOLE), FALLOCATE + u32::from(ZERO_RANGE));
    let done = Some(Outcome::Done(0, Status::SUCCESS));
    assert_eq!(plan(&disk, zeroes(true, false), 0), (vec![punch], done));
    assert_eq!(plan(&disk, IN_PLACE, 0), (vec![zero], done));
    assert_eq!(plan(&disk, zeroes(true, true), 65536).0, [0], "fallocate knows no FUA");
    // A file system that punches no holes still zeroes ranges.
    let again = Some(Outcome::Replan);
    assert_eq!(plan(&disk, zeroes(true, false), -libc::EOPNOTSUPP), (vec![punch], again));
    assert_eq!(plan(&disk, zeroes(true, false), 0), (vec![zero], done));
    assert_eq!(plan(&disk, HOLE, 0), (vec![], None), "nor does it deallocate");
    assert_eq!(plan(&disk, zeroes(true, false), -libc::EOPNOTSUPP), (vec![zero], again));
    assert_eq!(plan(&disk, zeroes(true, false), -libc::EOPNOTSUPP), (vec![punch], again));
    assert_eq!(plan(&disk, zeroes(true, false), 65536), (vec![0], done), "zeroes are written");
}

#[test]
fn a_full_file_system_is_told_as_such_and_not_to_be_tried_again() {
    let full = Some(Outcome::Done(0, Status::CAPACITY_EXCEEDED.dnr()));
    for errno in [libc::ENOSPC, libc::EDQUOT, libc::EFBIG] {
        let (disk, _folder) = disk();
        for command in [WRITE, IN_PLACE, IoCommand::Flush] {
            assert_eq!(plan(&disk, command, -errno).1, full, "{errno} of {command:?}");
        }
    }
}

#[test]
fn a_sparse_file_says_how_many_blocks_it_takes() {
    let (disk, _folder) = disk();
    let Some(used) = &disk.description.used else {
        let has_holes = disk.description.abilities.zeroes_after_deallocate;
        return assert!(!has_holes, "no holes can be punched here");
    };
    let format = disk.format();
    assert!((1..MIB / 4096).contains(&used.get()), "{}", used.get());
    assert_eq!(used.get(), used_blocks(&disk.source.file, format));
    let before = used.get();
    disk.source.file.write_all_at(&[7; 65536], 65536).unwrap();
    disk.source.file.sync_all().unwrap();
    assert_eq!(disk.look(), None);
    assert!(used.get() >= before + 16, "{before}, then {}", used.get());
    assert_eq!(disk.source.size, MIB, "trying to punch a hole changes no size");
    assert_eq!(disk.source.file.metadata().unwrap().len(), MIB);
}

/// The kernel reports only once, to any caller, that it could not write cached data, and drops the data.
#[test]
fn a_flush_that_failed_fails_for_all_hosts_where_writes_are_cached() {
    let fault = Status::WRITE_FAULT.dnr();
    for command in [IoCommand::Flush, DURABLE_WRITE] {
        let (disk, _folder) = disk();
        let lost = Outcome::Doubtful(Answer::Errno(libc::EIO), fault);
        assert_eq!(plan(&disk, command, -libc::EIO).1, Some(lost));
        let sqe = Sqe::default();
        for (later, expected) in
            [(IoCommand::Flush, Err(fault)), (DURABLE_WRITE, Err(fault)), (WRITE, Ok(Memory::Data))]
        {
            let job = Job { command: &later, sqe: &sqe, host: HostId(1), data: &[] };
            assert_eq!(disk.plan(&job, &mut Vec::new()), expected, "{later:?} after {command:?}");
        }
    }
}

#[test]
fn command_without_memory_of_the_kernel_is_tried_again() {
    let (disk, _folder) = disk();
    for command in [READ, WRITE, zeroes(true, false), HOLE] {
        for errno in [libc::EAGAIN, libc::EINTR, libc::EBUSY, libc::ENOMEM] {
            let (_, done) = plan(&disk, command, -errno);
            assert!(done.is_none_or(|done| done == Outcome::Busy), "{errno} of {command:?}");
        }
    }
    assert_eq!(disk.health.errors().0, 0);
    // The error may be the only report of an earlier write-back that failed.
    for command in [IoCommand::Flush, DURABLE_WRITE] {
        for errno in [libc::EBUSY, libc::ENOMEM] {
            let (disk, _folder) = self::disk();
            let lost = Some(Outcome::Done(0, Status::WRITE_FAULT.dnr()));
            assert_eq!(plan(&disk, command, -errno).1, lost, "{errno} of {command:?}");
        }
        assert_eq!(plan(&disk, command, -libc::EINTR).1, Some(Outcome::Busy));
    }
}

#[test]
fn error_of_a_file_is_final_unless_its_file_system_is_found_to_have_failed() {
    for errno in [libc::EIO, libc::ETIMEDOUT, libc::EUCLEAN] {
        let (disk, _folder) = disk();
        let read = || plan(&disk, READ, -errno).1;
        let bad = Outcome::Doubtful(Answer::Errno(errno), Status::UNRECOVERED_READ_ERROR);
        assert_eq!(read(), Some(bad));
        assert!(disk.health.is_suspect(), "the keeper is to look");
        assert_eq!(disk.look(), None, "it is a bad block");
        assert!(!disk.health.is_suspect());
        assert_eq!(read(), Some(bad));
        disk.health.fail("its file system has failed".to_owned());
        assert_eq!(read(), Some(Outcome::Done(0, Status::NAMESPACE_NOT_READY)));
        assert_eq!(disk.health.errors().0, 0, "no error of a device");
    }
}

#[test]
fn file_whose_file_system_is_read_only_or_stale_is_gone() {
    for errno in [libc::EROFS, libc::ESTALE, libc::ENOTCONN] {
        let (disk, _folder) = disk();
        let gone = Outcome::Done(0, Status::NAMESPACE_NOT_READY);
        assert_eq!(plan(&disk, WRITE, -errno).1, Some(gone));
        let why = disk.health.fault().unwrap();
        assert!(why.contains("its file system has failed"), "{why}");
        let lost = Outcome::Done(0, Status::WRITE_FAULT.dnr());
        assert_eq!(plan(&disk, IoCommand::Flush, -errno).1, Some(lost), "cached writes are lost");
    }
}

#[test]
fn cached_writes_are_pending_until_a_flush_succeeds() {
    let (disk, _folder) = disk();
    let pending = || disk.health.cached().are_pending();
    plan(&disk, DURABLE_WRITE, 65536);
    plan(&disk, READ, 65536);
    assert!(!pending(), "what was written is on the medium");
    for command in [WRITE, IN_PLACE] {
        plan(&disk, command, 0);
        assert!(pending(), "{command:?}");
        plan(&disk, DURABLE_WRITE, 65536);
        assert!(pending(), "of other blocks");
        plan(&disk, IoCommand::Flush, -libc::EINTR);
        assert!(pending());
        plan(&disk, IoCommand::Flush, 0);
        assert!(!pending());
    }
}
