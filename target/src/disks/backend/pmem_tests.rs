use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use arbitration::session::HostId;
use pmem::btt::BlockSize;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::control::store::Seen;
use crate::disks::backend::block_array::{self, BlockArray, Step};
use crate::disks::backend::{Cause, Claims, OnSignature};

const MIB: u64 = 1 << 20;

/// Returns the options of a namespace of 1 MiB that is created.
fn options() -> PmemOptions {
    let block_size = Some(BlockSize::B512);
    PmemOptions { size: Some(MIB), block_size, create: true, read_only: false }
}

/// A file in a folder, and its recorded state.
struct Place {
    path: PathBuf,
    _folder: TempDir,
    claims: Claims,
    seen: Option<Seen>,
    signature: OnSignature,
}

impl Place {
    fn new() -> Self {
        Self::in_folder(tempfile::tempdir().unwrap())
    }

    fn in_folder(folder: TempDir) -> Self {
        let (claims, seen, signature) = (Claims::default(), None, OnSignature::Refuse);
        let path = folder.path().join("region");
        Self { path, _folder: folder, claims, seen, signature }
    }

    fn open(&self, options: PmemOptions) -> Result<PmemDisk, BackendError> {
        let (seen, signature) = (self.seen.as_ref(), self.signature);
        let opening = Opening { seen, signature, ..Opening::for_tests(&self.claims) };
        PmemDisk::open(&self.path, options, &opening)
    }

    /// Returns the cause and the words of a refusal.
    fn refused(&self, options: PmemOptions) -> (Cause, String) {
        let error = self.open(options).expect_err("it is refused");
        (error.cause, error.to_string())
    }

    /// Returns the content of the file.
    fn content(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }

    fn note(&mut self, disk: &PmemDisk) {
        let size = disk.description.format.bytes(disk.health.blocks());
        self.seen = Some(Seen { block_size: 512, ..Seen::for_tests(size) });
    }
}

/// Carries a command out as a reactor does, without a ring.
fn run(disk: &PmemDisk, command: &IoCommand, data: Data<'_>) -> Status {
    match disk.style() {
        Style::Immediate(immediate) => immediate.run(command, data),
        Style::Queued(queued) => queued.at_once(command, data).unwrap_or_else(|| {
            disk.table.medium().sync().unwrap();
            Status::SUCCESS
        }),
        Style::Timed(_) => panic!("it is no model"),
    }
}

fn write(disk: &PmemDisk, lba: u64, data: &[u8]) {
    let range = LbaRange { lba, blocks: u32::try_from(data.len() / 512).unwrap() };
    let write = IoCommand::Write { range, fua: lba.is_multiple_of(2) };
    assert_eq!(run(disk, &write, Data::Write(data)), Status::SUCCESS);
}

fn read(disk: &PmemDisk, lba: u64, blocks: u32) -> Vec<u8> {
    let mut seen = vec![1; blocks as usize * 512];
    let range = LbaRange { lba, blocks };
    let status = run(disk, &IoCommand::Read { range, fua: false }, Data::Read(&mut seen));
    assert_eq!(status, Status::SUCCESS);
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 8))]

    #[test]
    fn it_behaves_as_an_array_of_blocks_that_outlives_its_process(
        steps in block_array::steps(2000, 0..1),
    ) {
        let mut place = Place::new();
        let mut disk = place.open(options()).unwrap();
        prop_assert_eq!(disk.health.blocks(), MIB / 512, "hosts get the size that was asked for");
        place.note(&disk);
        let mut model = BlockArray::new(2048);
        for step in steps {
            if let Step::Again(_) = step {
                drop(disk);
                disk = place.open(options()).unwrap();
            }
            model.carry_out(&step, |command, data| run(&disk, command, data))?;
        }
        model.compare(|command, data| run(&disk, command, data))?;
    }
}

#[test]
fn the_kind_decides_about_the_cache_and_the_way_of_a_flush() {
    let on_disk = Place::new();
    let disk = on_disk.open(options()).unwrap();
    let is_cached = |disk: &PmemDisk| {
        let is_queued = matches!(disk.style(), Style::Queued(_));
        assert_eq!(disk.description.abilities.volatile_cache, is_queued);
        is_queued
    };
    assert_eq!(is_cached(&disk), disk.description.region == Some("plain file"));
    let (sqe, host) = (fabric::nvme::Sqe::default(), HostId(1));
    let range = LbaRange { lba: 0, blocks: 1 };
    for (command, waits) in [
        (IoCommand::Flush, true),
        (IoCommand::Write { range, fua: true }, true),
        (IoCommand::Write { range, fua: false }, false),
        (IoCommand::WriteZeroes { range, deallocate: false, fua: true }, true),
        (IoCommand::WriteZeroes { range, deallocate: false, fua: false }, false),
        (IoCommand::Deallocate { range }, false),
    ] {
        let data = match command {
            IoCommand::Write { .. } => Data::Write(&[7; 512]),
            _ => Data::None,
        };
        assert_eq!(disk.at_once(&command, data).is_none(), waits, "{command:?}");
        let mut units = Vec::new();
        disk.plan(&Job { command: &command, sqe: &sqe, host, data: &[] }, &mut units).unwrap();
        assert_eq!(units.len(), usize::from(waits), "{command:?}");
    }
    // A second synchronization would not report the loss.
    let flush = Job { command: &IoCommand::Flush, sqe: &sqe, host, data: &[] };
    let fault = disk.finish(&flush, &Unit { offset: 0, length: 0, at: 0 }, -libc::EIO, 0);
    assert_eq!(fault, Outcome::Done(0, Status::WRITE_FAULT.dnr()));
    assert_eq!(disk.plan(&flush, &mut Vec::new()).unwrap_err(), Status::WRITE_FAULT.dnr());
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return };
    let in_memory = Place::in_folder(folder);
    let disk = in_memory.open(options()).unwrap();
    assert_eq!((is_cached(&disk), disk.description.region), (false, Some("file in memory")));
}

#[test]
fn what_is_no_table_is_not_written_over_unless_the_operator_says_so() {
    let mut place = Place::new();
    let file = File::create(&place.path).unwrap();
    file.set_len(32 * MIB).unwrap();
    file.write_all_at(&[9], 20 * MIB + 5).unwrap();
    let (cause, text) = place.refused(options());
    assert_eq!(cause, Cause::HoldsData);
    let words = format!("a byte at {}", 20 * MIB + 5);
    assert!(text.contains(&words) && text.contains("force"), "{text}");
    assert_eq!(place.content().iter().filter(|byte| **byte != 0).count(), 1, "untouched");
    // If the state was lost, content without a table cannot be the hosts' either.
    place.signature = OnSignature::Warn;
    assert_eq!(place.refused(options()).0, Cause::HoldsData);
    place.signature = OnSignature::Ignore;
    let disk = place.open(options()).unwrap();
    assert_eq!(read(&disk, 0, 2048), vec![0; 2048 * 512]);
    place.note(&disk);
    drop(disk);
    // Hosts had a table here: none is made again, even in a file of zeroes.
    file.write_all_at(&vec![0; 32 << 20], 0).unwrap();
    let (cause, text) = place.refused(options());
    assert_eq!(cause, Cause::Changed);
    assert!(text.contains("no block translation table any more"), "{text}");
}

#[test]
fn a_damaged_table_is_refused_with_force_too_and_left_as_it_is() {
    let mut place = Place::new();
    let disk = place.open(options()).unwrap();
    write(&disk, 3, &[5; 512]);
    drop(disk);
    let mut damaged = place.content();
    for start in [0, damaged.len() - 4096] {
        damaged[start + 60] = 0x77;
    }
    fs::write(&place.path, &damaged).unwrap();
    place.signature = OnSignature::Ignore;
    let (_, text) = place.refused(options());
    assert!(text.contains("its checksum is wrong; restore"), "{text}");
    assert!(place.content() == damaged);
}

#[test]
fn a_blank_file_becomes_as_large_as_its_size_needs_and_one_with_a_table_stays() {
    let place = Place::new();
    for length in [0, 8192, 64 * MIB] {
        let file = File::create(&place.path).unwrap();
        file.set_len(length).unwrap();
        let wanted = PmemOptions { size: Some(40 * MIB), create: false, ..options() };
        let disk = place.open(wanted).unwrap();
        assert_eq!(disk.health.blocks(), 40 * MIB / 512);
        drop(disk);
        let made = file.metadata().unwrap().len();
        assert!(made > 40 * MIB && (made == length || made < 42 * MIB), "{made}");
        let all = place.open(PmemOptions { size: None, block_size: None, ..wanted }).unwrap();
        let most = all.present_blocks().unwrap();
        assert!(all.health.blocks() == most && most >= 40 * MIB / 512);
        drop(all);
        let (larger, other) = (Some(80 * MIB), Some(BlockSize::B4096));
        let (_, text) = place.refused(PmemOptions { size: larger, ..wanted });
        assert!(text.contains("cannot grow: give at most that as size"), "{text}");
        let (_, text) = place.refused(PmemOptions { block_size: other, ..wanted });
        assert!(text.contains("block_size = 512"), "{text}");
        assert_eq!(file.metadata().unwrap().len(), made);
    }
    File::create(&place.path).unwrap();
    let (_, text) = place.refused(PmemOptions { size: None, create: false, ..options() });
    assert!(text.contains("it is empty; give a size"), "{text}");
}

#[test]
fn a_reader_serves_what_is_there_and_changes_nothing() {
    let place = Place::new();
    let reader = PmemOptions { size: None, create: false, read_only: true, ..options() };
    assert_eq!(place.refused(reader).0, Cause::Missing);
    File::create(&place.path).unwrap().set_len(20 * MIB).unwrap();
    let (_, text) = place.refused(reader);
    assert!(text.contains("read_only makes none"), "{text}");
    fs::remove_file(&place.path).unwrap();
    let disk = place.open(options()).unwrap();
    write(&disk, 9, &[5; 1024]);
    assert_eq!(place.refused(reader).0, Cause::InUse, "a writer has it");
    drop(disk);
    let before = place.content();
    let (one, two) = (place.open(reader).unwrap(), place.open(reader).unwrap());
    assert_eq!(read(&one, 9, 2), [5; 1024]);
    assert_eq!(read(&two, 8, 1), [0; 512]);
    assert!(place.content() == before);
}

#[test]
fn what_cannot_be_a_region_is_refused() {
    for (path, words) in [
        ("/dev/null", "nor a device of persistent memory"),
        ("/", "neither a regular file"),
        ("/nonexistent/x", "/nonexistent does not exist"),
    ] {
        let (_, text) = Place { path: path.into(), ..Place::new() }.refused(options());
        assert!(text.contains(words), "{path}: {text}");
    }
}

#[test]
fn a_cut_off_making_of_a_table_is_begun_again() {
    let place = Place::new();
    let file = File::create(&place.path).unwrap();
    file.set_len(16 * MIB).unwrap();
    file.write_all_at(b"SLUICE_F", 0).unwrap();
    let disk = place.open(options()).unwrap();
    assert_eq!(read(&disk, 0, 8), [0; 4096]);
}
