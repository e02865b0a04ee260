use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use arbitration::session::HostId;
use fabric::nvme::Sqe;

use super::*;
use crate::disks::backend::{Claims, OnSignature};

const MIB: u64 = 1 << 20;
const RANGE: LbaRange = LbaRange { lba: 8, blocks: 16 };

/// Opens a sparse file of 1 MiB with a block of data at its begin.
fn disk(folder: &tempfile::TempDir) -> FileDisk {
    let path = folder.path().join("disk");
    let file = File::create(&path).unwrap();
    file.set_len(MIB).unwrap();
    file.write_all_at(&[7; 4096], 0).unwrap();
    file.sync_all().unwrap();
    let options = FileOptions {
        size: None,
        block_size: Some(4096),
        direct: false,
        create: false,
        read_only: false,
    };
    let claims = Claims::default();
    let signature = OnSignature::Refuse;
    let opening = Opening { claims: &claims, namespace: "n", seen: None, signature };
    FileDisk::open(&path, options, &opening).unwrap()
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
    let folder = tempfile::tempdir().unwrap();
    let disk = Rc::new(disk(&folder));
    let seen = Rc::new(RefCell::new(Vec::new()));
    let resize = |blocks, fails: bool| {
        let (seen, of) = (Rc::clone(&seen), Rc::clone(&disk));
        let observer = move |file: &File| {
            seen.borrow_mut().push((file.metadata()?.len(), of.health().blocks() * 4096));
            if fails { Err(Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
        };
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
        let path = folder.path().join(name);
        let open = |size, fails: bool| {
            let seen = Rc::clone(&seen);
            let observer = move |file: &File| {
                seen.borrow_mut().push((file.metadata()?.len(), 0));
                if fails { Err(Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
            };
            let block_size = Some(4096);
            let (direct, create, read_only) = (false, true, false);
            let options = FileOptions { size: Some(size), block_size, direct, create, read_only };
            let (claims, signature) = (Claims::default(), OnSignature::Refuse);
            let opening = Opening { claims: &claims, namespace: "n", seen: None, signature };
            source::while_synchronizing(observer, || FileDisk::open(&path, options, &opening))
                .is_ok()
        };
        assert!(!open(5 * MIB, true), "{name}");
        assert!(open(6 * MIB, false), "{name}");
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
    let folder = tempfile::tempdir().unwrap();
    let disk = disk(&folder);
    disk.no_holes.store(false, Relaxed);
    let zeroes = |deallocate, fua| IoCommand::WriteZeroes { range: RANGE, deallocate, fua };
    let (punch, zero) = (FALLOCATE + u32::from(PUNCH_HOLE), FALLOCATE + u32::from(ZERO_RANGE));
    let done = Some(Outcome::Done(0, Status::SUCCESS));
    assert_eq!(plan(&disk, zeroes(true, false), 0), (vec![punch], done));
    assert_eq!(plan(&disk, zeroes(false, false), 0), (vec![zero], done));
    assert_eq!(plan(&disk, zeroes(true, true), 65536).0, [0], "fallocate knows no FUA");
    // A file system that punches no holes still zeroes ranges.
    let again = Some(Outcome::Replan);
    assert_eq!(plan(&disk, zeroes(true, false), -libc::EOPNOTSUPP), (vec![punch], again));
    assert_eq!(plan(&disk, zeroes(true, false), 0), (vec![zero], done));
    let hole = IoCommand::Deallocate { range: RANGE };
    assert_eq!(plan(&disk, hole, 0), (vec![], None), "nor does it deallocate");
    assert_eq!(plan(&disk, zeroes(true, false), -libc::EOPNOTSUPP), (vec![zero], again));
    assert_eq!(plan(&disk, zeroes(true, false), -libc::EOPNOTSUPP), (vec![punch], again));
    assert_eq!(plan(&disk, zeroes(true, false), 65536), (vec![0], done), "zeroes are written");
}

#[test]
fn a_full_file_system_is_told_as_such_and_not_to_be_tried_again() {
    let write = IoCommand::Write { range: RANGE, fua: false };
    let zeroes = IoCommand::WriteZeroes { range: RANGE, deallocate: false, fua: false };
    for errno in [libc::ENOSPC, libc::EDQUOT, libc::EFBIG] {
        let folder = tempfile::tempdir().unwrap();
        let disk = disk(&folder);
        for command in [write, zeroes, IoCommand::Flush] {
            let (_, done) = plan(&disk, command, -errno);
            assert_eq!(done, Some(Outcome::Done(0, Status::CAPACITY_EXCEEDED.dnr())));
        }
    }
}

#[test]
fn a_sparse_file_says_how_many_blocks_it_takes() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk(&folder);
    let Some(used) = &disk.description.used else {
        assert!(
            !disk.description.abilities.zeroes_after_deallocate,
            "no holes can be punched here"
        );
        return;
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
    let write = |fua| IoCommand::Write { range: RANGE, fua };
    for command in [IoCommand::Flush, write(true)] {
        let folder = tempfile::tempdir().unwrap();
        let disk = disk(&folder);
        let lost = Outcome::Doubtful(Answer::Errno(libc::EIO), Status::WRITE_FAULT.dnr());
        assert_eq!(plan(&disk, command, -libc::EIO).1, Some(lost));
        let sqe = Sqe::default();
        for (later, expected) in [
            (IoCommand::Flush, Err(Status::WRITE_FAULT.dnr())),
            (write(true), Err(Status::WRITE_FAULT.dnr())),
            (write(false), Ok(Memory::Data)),
        ] {
            let job = Job { command: &later, sqe: &sqe, host: HostId(1), data: &[] };
            assert_eq!(disk.plan(&job, &mut Vec::new()), expected, "{later:?} after {command:?}");
        }
    }
}

#[test]
fn command_without_memory_of_the_kernel_is_tried_again() {
    let write = |fua| IoCommand::Write { range: RANGE, fua };
    let read = IoCommand::Read { range: RANGE, fua: false };
    let zeroes = IoCommand::WriteZeroes { range: RANGE, deallocate: true, fua: false };
    let folder = tempfile::tempdir().unwrap();
    let disk = disk(&folder);
    for command in [read, write(false), zeroes, IoCommand::Deallocate { range: RANGE }] {
        for errno in [libc::EAGAIN, libc::EINTR, libc::EBUSY, libc::ENOMEM] {
            let (_, done) = plan(&disk, command, -errno);
            assert!(done.is_none_or(|done| done == Outcome::Busy), "{errno} of {command:?}");
        }
    }
    assert_eq!(disk.health.errors().0, 0);
    // The error may be the only report of an earlier write-back that failed.
    for command in [IoCommand::Flush, write(true)] {
        for errno in [libc::EBUSY, libc::ENOMEM] {
            let folder = tempfile::tempdir().unwrap();
            let disk = self::disk(&folder);
            let lost = Some(Outcome::Done(0, Status::WRITE_FAULT.dnr()));
            assert_eq!(plan(&disk, command, -errno).1, lost, "{errno} of {command:?}");
        }
        assert_eq!(plan(&disk, command, -libc::EINTR).1, Some(Outcome::Busy));
    }
}

#[test]
fn error_of_a_file_is_final_unless_its_file_system_is_found_to_have_failed() {
    let read = IoCommand::Read { range: RANGE, fua: false };
    for errno in [libc::EIO, libc::ETIMEDOUT, libc::EUCLEAN] {
        let folder = tempfile::tempdir().unwrap();
        let disk = disk(&folder);
        let bad = Outcome::Doubtful(Answer::Errno(errno), Status::UNRECOVERED_READ_ERROR);
        assert_eq!(plan(&disk, read, -errno).1, Some(bad));
        assert!(disk.health.is_suspect(), "the keeper is to look");
        assert_eq!(disk.look(), None, "it is a bad block");
        assert!(!disk.health.is_suspect());
        assert_eq!(plan(&disk, read, -errno).1, Some(bad));
        disk.health.fail("its file system has failed".to_owned());
        let gone = Outcome::Done(0, Status::NAMESPACE_NOT_READY);
        assert_eq!(plan(&disk, read, -errno).1, Some(gone));
        assert_eq!(disk.health.errors().0, 0, "no error of a device");
    }
}

#[test]
fn file_whose_file_system_is_read_only_or_stale_is_gone() {
    let write = IoCommand::Write { range: RANGE, fua: false };
    for errno in [libc::EROFS, libc::ESTALE, libc::ENOTCONN] {
        let folder = tempfile::tempdir().unwrap();
        let disk = disk(&folder);
        let gone = Outcome::Done(0, Status::NAMESPACE_NOT_READY);
        assert_eq!(plan(&disk, write, -errno).1, Some(gone));
        let why = disk.health.fault().unwrap();
        assert!(why.contains("its file system has failed"), "{why}");
        let lost = Outcome::Done(0, Status::WRITE_FAULT.dnr());
        assert_eq!(plan(&disk, IoCommand::Flush, -errno).1, Some(lost), "cached writes are lost");
    }
}

#[test]
fn cached_writes_are_pending_until_a_flush_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk(&folder);
    let pending = || disk.health.cached().are_pending();
    let write = |fua| IoCommand::Write { range: RANGE, fua };
    let zeroes = IoCommand::WriteZeroes { range: RANGE, deallocate: false, fua: false };
    plan(&disk, write(true), 65536);
    plan(&disk, IoCommand::Read { range: RANGE, fua: false }, 65536);
    assert!(!pending(), "what was written is on the medium");
    for command in [write(false), zeroes] {
        plan(&disk, command, 0);
        assert!(pending(), "{command:?}");
        plan(&disk, write(true), 65536);
        assert!(pending(), "of other blocks");
        plan(&disk, IoCommand::Flush, -libc::EINTR);
        assert!(pending());
        plan(&disk, IoCommand::Flush, 0);
        assert!(!pending());
    }
}
