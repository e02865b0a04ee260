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

/// A folder, and the recorded state of its file.
struct Place {
    folder: TempDir,
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
        Self { folder, claims, seen, signature }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("region")
    }

    fn open(&self, options: PmemOptions) -> Result<PmemDisk, BackendError> {
        let Self { claims, signature, .. } = self;
        let (seen, signature) = (self.seen.as_ref(), *signature);
        PmemDisk::open(&self.path(), options, &Opening { claims, namespace: "n", seen, signature })
    }

    fn refused(&self, options: PmemOptions) -> BackendError {
        self.open(options).expect_err("it is refused")
    }

    fn note(&mut self, disk: &PmemDisk) {
        self.seen = Some(Seen {
            size: disk.description.format.bytes(disk.health.blocks()),
            block_size: 512,
            kind: "pmem".into(),
            path: self.path(),
            device: None,
            uuid: uuid::Uuid::nil(),
        });
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
    let status =
        run(disk, &IoCommand::Write { range, fua: lba.is_multiple_of(2) }, Data::Write(data));
    assert_eq!(status, Status::SUCCESS);
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
    let cached = disk.description.region == Some("plain file");
    assert_eq!(disk.description.abilities.volatile_cache, cached);
    assert_eq!(matches!(disk.style(), Style::Queued(_)), cached);
    let range = LbaRange { lba: 0, blocks: 1 };
    for (command, waits) in [
        (IoCommand::Flush, true),
        (IoCommand::Write { range, fua: true }, true),
        (IoCommand::Write { range, fua: false }, false),
        (IoCommand::WriteZeroes { range, deallocate: false, fua: true }, true),
        (IoCommand::WriteZeroes { range, deallocate: false, fua: false }, false),
        (IoCommand::Deallocate { range }, false),
    ] {
        let data = || match command {
            IoCommand::Write { .. } => Data::Write(&[7; 512]),
            _ => Data::None,
        };
        assert_eq!(disk.at_once(&command, data()).is_none(), waits, "{command:?}");
        let (sqe, mut units) = (fabric::nvme::Sqe::default(), Vec::new());
        let job = Job { command: &command, sqe: &sqe, host: HostId(1), data: &[] };
        disk.plan(&job, &mut units).unwrap();
        assert_eq!(units.len(), usize::from(waits), "{command:?}");
    }
    // A second synchronization would not report the loss.
    let sqe = fabric::nvme::Sqe::default();
    let flush = Job { command: &IoCommand::Flush, sqe: &sqe, host: HostId(1), data: &[] };
    let fault = disk.finish(&flush, &Unit { offset: 0, length: 0, at: 0 }, -libc::EIO, 0);
    assert_eq!(fault, Outcome::Done(0, Status::WRITE_FAULT.dnr()));
    assert_eq!(disk.plan(&flush, &mut Vec::new()).unwrap_err(), Status::WRITE_FAULT.dnr());
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return };
    let in_memory = Place::in_folder(folder);
    let disk = in_memory.open(options()).unwrap();
    assert_eq!(disk.description.region, Some("file in memory"));
    assert!(!disk.description.abilities.volatile_cache);
    assert!(matches!(disk.style(), Style::Immediate(_)));
}

#[test]
fn what_is_no_table_is_not_written_over_unless_the_operator_says_so() {
    let mut place = Place::new();
    let file = File::create(place.path()).unwrap();
    file.set_len(32 * MIB).unwrap();
    file.write_all_at(&[9], 20 * MIB + 5).unwrap();
    let untouched = || {
        let bytes = fs::read(place.path()).unwrap();
        bytes.iter().filter(|byte| **byte != 0).count() == 1
    };
    let error = place.refused(options());
    assert_eq!(error.cause, Cause::HoldsData);
    let text = error.to_string();
    assert!(
        text.contains(&format!("a byte at {}", 20 * MIB + 5)) && text.contains("force"),
        "{text}"
    );
    assert!(untouched());
    // If the state was lost, content without a table cannot be the hosts' either.
    place.signature = OnSignature::Warn;
    assert_eq!(place.refused(options()).cause, Cause::HoldsData);
    place.signature = OnSignature::Ignore;
    let disk = place.open(options()).unwrap();
    assert_eq!(read(&disk, 0, 2048), vec![0; 2048 * 512]);
    place.note(&disk);
    drop(disk);
    // Hosts had a table here: none is made again, even in a file of zeroes.
    file.write_all_at(&vec![0; 32 << 20], 0).unwrap();
    let error = place.refused(options());
    assert_eq!(error.cause, Cause::Changed);
    assert!(error.to_string().contains("no block translation table any more"), "{error}");
}

#[test]
fn a_damaged_table_is_refused_with_force_too_and_left_as_it_is() {
    let mut place = Place::new();
    let disk = place.open(options()).unwrap();
    write(&disk, 3, &[5; 512]);
    drop(disk);
    let file = File::options().read(true).write(true).open(place.path()).unwrap();
    let last = file.metadata().unwrap().len() - 4096;
    for at in [60, last + 60] {
        file.write_all_at(&[0x77], at).unwrap();
    }
    let before = fs::read(place.path()).unwrap();
    place.signature = OnSignature::Ignore;
    let error = place.refused(options());
    assert!(error.to_string().contains("its checksum is wrong; restore"), "{error}");
    assert!(fs::read(place.path()).unwrap() == before);
}

#[test]
fn a_blank_file_becomes_as_large_as_its_size_needs_and_one_with_a_table_stays() {
    let place = Place::new();
    for length in [0, 8192, 64 * MIB] {
        let file = File::create(place.path()).unwrap();
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
        let larger = PmemOptions { size: Some(80 * MIB), ..wanted };
        let text = place.refused(larger).to_string();
        assert!(text.contains("cannot grow: give at most that as size"), "{text}");
        let other = PmemOptions { block_size: Some(BlockSize::B4096), ..wanted };
        let text = place.refused(other).to_string();
        assert!(text.contains("block_size = 512"), "{text}");
        assert_eq!(file.metadata().unwrap().len(), made);
    }
    File::create(place.path()).unwrap();
    let text = place.refused(PmemOptions { size: None, create: false, ..options() }).to_string();
    assert!(text.contains("it is empty; give a size"), "{text}");
}

#[test]
fn a_namespace_shrinks_and_grows_within_its_table() {
    let place = Place::new();
    let disk = place.open(options()).unwrap();
    let most = disk.present_blocks().unwrap();
    assert_eq!(disk.resize(Some(100)).unwrap(), 100);
    assert_eq!(disk.health.blocks(), 100);
    assert_eq!(disk.resize(None).unwrap(), most);
    let text = disk.resize(Some(most + 1)).unwrap_err().to_string();
    assert!(text.contains("cannot grow"), "{text}");
    assert_eq!(disk.health.blocks(), most);
}

#[test]
fn a_reader_serves_what_is_there_and_changes_nothing() {
    let place = Place::new();
    let reader = PmemOptions { size: None, create: false, read_only: true, ..options() };
    assert_eq!(place.refused(reader).cause, Cause::Missing);
    File::create(place.path()).unwrap().set_len(20 * MIB).unwrap();
    let text = place.refused(reader).to_string();
    assert!(text.contains("read_only makes none"), "{text}");
    fs::remove_file(place.path()).unwrap();
    let disk = place.open(options()).unwrap();
    write(&disk, 9, &[5; 1024]);
    let text = place.refused(reader);
    assert_eq!(text.cause, Cause::InUse, "a writer has it");
    drop(disk);
    let before = fs::read(place.path()).unwrap();
    let (one, two) = (place.open(reader).unwrap(), place.open(reader).unwrap());
    assert_eq!(read(&one, 9, 2), [5; 1024]);
    assert_eq!(read(&two, 8, 1), [0; 512]);
    assert!(fs::read(place.path()).unwrap() == before);
}

#[test]
fn what_cannot_be_a_region_is_refused() {
    let claims = Claims::default();
    let signature = OnSignature::Refuse;
    let open = |path: &str| {
        let opening = Opening { claims: &claims, namespace: "n", seen: None, signature };
        PmemDisk::open(Path::new(path), options(), &opening).unwrap_err().to_string()
    };
    assert!(open("/dev/null").contains("nor a device of persistent memory"));
    assert!(open("/").contains("neither a regular file"));
    assert!(open("/nonexistent/x").contains("/nonexistent does not exist"));
}

#[test]
fn a_cut_off_making_of_a_table_is_begun_again() {
    let place = Place::new();
    let file = File::create(place.path()).unwrap();
    file.set_len(16 * MIB).unwrap();
    file.write_all_at(b"SLUICE_F", 0).unwrap();
    let disk = place.open(options()).unwrap();
    assert_eq!(read(&disk, 0, 8), [0; 4096]);
}
