//! Regions of persistent memory, and substitutes for it.
//!
//! | kind | after `kill -9` | after a power cut |
//! |---|---|---|
//! | device DAX (`/dev/daxX.Y`) | everything | what was flushed and fenced |
//! | file on a file system with DAX (`MAP_SYNC`) | everything | what was flushed and fenced |
//! | plain file | everything | what was stored before [`Region::sync`]; of the rest any part, in any order |
//! | file in memory (tmpfs) | everything | nothing |
//! | anonymous memory | nothing | nothing |
//!
//! [`Region::open`] finds the kind out by trying: DAX needs the kernel, the file system and the mount
//! to agree, which nothing but an attempt tells.
//!
//! With DAX a store goes to the CPU's cache and from there to the medium, so that [`Medium::flush`] is
//! an instruction for each cache line, and [`Medium::fence`] is one more. The instruction is the best
//! that the CPU has ([`Instruction`]). On CPUs for which none is built in (all but x86-64) a file on a
//! file system with DAX is a plain file, and device DAX, which knows no other way, is refused.
//!
//! A plain file is mapped from the page cache. The kernel writes its pages back when it likes and in
//! any order; a flush and a fence do nothing there. A load or store may wait for the file system when
//! it is the first of a page.
//!
//! # Signals
//!
//! A load from a page that the medium cannot read, or that a file does not have any more since
//! somebody cut it, ends the process (SIGBUS). So does a store for which a file system has no space;
//! [`Region::open`] sets the space aside.

mod dax;
#[expect(unsafe_code, reason = "instructions that no safe function has, behind safe functions")]
mod flush;
mod kind;
#[expect(unsafe_code, reason = "mappings, as slices of atomic words")]
mod mapping;

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use thiserror::Error;

use crate::medium::{Medium, WORD};
use dax::DaxDevice;
use mapping::{How, Mapping};

pub use flush::Instruction;
pub use kind::{AfterPowerCut, Kind};

/// The access to a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Loads and stores.
    Write,
    /// Loads. A store to a file's region is seen by this region alone and goes nowhere; on device DAX,
    /// which maps no other way, it is a store.
    Read,
}

/// A region that cannot be opened.
#[derive(Debug, Error)]
pub enum RegionError {
    /// The path is of something else.
    #[error(
        "neither a regular file nor a device of persistent memory (/dev/daxX.Y: see `ndctl list \
         --namespaces --mode=devdax`)"
    )]
    Other,
    /// The file has no bytes.
    #[error("it is empty; give a size")]
    Empty,
    /// This build knows no instruction of this CPU that writes cache lines back.
    #[error(
        "no instruction is known that writes this CPU's cache back, which device DAX needs; put a \
         file system with DAX on it and give a file"
    )]
    NoFlush,
    /// The file system has no space for the file's holes.
    #[error("no space can be set aside for all of its {bytes} bytes: {error}")]
    NoSpace {
        /// The size of the file in bytes.
        bytes: u64,
        /// The refusal of the operating system.
        error: io::Error,
    },
    /// The operating system refuses to map it.
    #[error("it cannot be mapped: {0}")]
    Map(io::Error),
}

/// A region of persistent memory, or of a substitute.
#[derive(Debug)]
pub struct Region {
    mapping: Mapping,
    kind: Kind,
    /// The instruction that makes a store survive, where there is one.
    instruction: Option<Instruction>,
    file: Option<File>,
}

/// Returns the size in bytes of an open device of persistent memory; `None` where the file is something
/// else.
#[must_use]
pub fn device_bytes(file: &File) -> Option<u64> {
    dax_device(file).map(|device| device.size)
}

fn dax_device(file: &File) -> Option<DaxDevice> {
    let found = file.metadata().ok().filter(|found| found.file_type().is_char_device())?;
    let number = found.rdev();
    DaxDevice::find(Path::new("/sys"), libc::major(number), libc::minor(number))
}

impl Region {
    /// Maps a device of persistent memory or a regular file, all of it, and finds out which kind of
    /// region that is. Space is set aside for a file that is written. A device must be open for
    /// writing; a file only for [`Access::Write`].
    ///
    /// # Errors
    /// The file is something else or empty, no space can be set aside, or it cannot be mapped.
    pub fn open(file: File, access: Access) -> Result<Self, RegionError> {
        let best = Instruction::best();
        if let Some(device) = dax_device(&file) {
            let instruction = Some(best.ok_or(RegionError::NoFlush)?);
            let mapping =
                Mapping::new(How::Shared(&file), device.size).map_err(RegionError::Map)?;
            return Ok(Self { mapping, kind: Kind::DeviceDax, instruction, file: Some(file) });
        }
        let found = file.metadata().map_err(RegionError::Map)?;
        if !found.is_file() {
            return Err(RegionError::Other);
        }
        let bytes = found.len();
        if bytes < WORD {
            return Err(RegionError::Empty);
        }
        let plain = if mapping::is_in_memory(&file).unwrap_or(false) {
            Kind::MemoryFile
        } else {
            Kind::File
        };
        if access == Access::Read {
            let mapping = Mapping::new(How::Private(&file), bytes).map_err(RegionError::Map)?;
            return Ok(Self { mapping, kind: plain, instruction: None, file: Some(file) });
        }
        reserve(&file, &found)?;
        if best.is_some()
            && let Ok(mapping) = Mapping::new(How::Synchronous(&file), bytes)
        {
            let (kind, instruction) = (Kind::DaxFile, best);
            return Ok(Self { mapping, kind, instruction, file: Some(file) });
        }
        let mapping = Mapping::new(How::Shared(&file), bytes).map_err(RegionError::Map)?;
        Ok(Self { mapping, kind: plain, instruction: None, file: Some(file) })
    }

    /// Maps anonymous memory of zeroes.
    ///
    /// # Errors
    /// The operating system refuses, or there is no whole word to map.
    pub fn anonymous(bytes: u64) -> Result<Self, RegionError> {
        let mapping = Mapping::new(How::Anonymous, bytes).map_err(RegionError::Map)?;
        Ok(Self { mapping, kind: Kind::Anonymous, instruction: None, file: None })
    }

    /// Returns the kind of the region.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the instruction that flushes; `None` where a flush does nothing.
    #[must_use]
    pub fn instruction(&self) -> Option<Instruction> {
        self.instruction
    }

    /// Returns the open file or device.
    #[must_use]
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Returns the address of the first byte, for devices that read and write the region by themselves.
    #[must_use]
    pub fn address(&self) -> *mut u8 {
        self.mapping.words().as_ptr().cast_mut().cast()
    }

    /// Waits until all earlier stores survive as well as the region's kind permits. For a plain
    /// file that takes milliseconds; with DAX, stores that were flushed and fenced need nothing.
    ///
    /// # Errors
    /// The medium cannot be written.
    pub fn sync(&self) -> io::Result<()> {
        match (self.kind, &self.file) {
            (Kind::File, Some(file)) => file.sync_data(),
            _ => Ok(()),
        }
    }

    /// Returns the words from a place on, and the number of them that a length covers.
    #[inline]
    fn from(&self, at: u64) -> &[AtomicU64] {
        let first = usize::try_from(at / WORD).unwrap_or(usize::MAX);
        self.mapping.words().get(first..).unwrap_or_default()
    }

    #[inline]
    fn word(&self, at: u64) -> Option<&AtomicU64> {
        self.from(at).first()
    }
}

fn reserve(file: &File, found: &std::fs::Metadata) -> Result<(), RegionError> {
    let bytes = found.len();
    match mapping::reserve(file, bytes) {
        Ok(()) => Ok(()),
        // A file without holes has its space already.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            let whole = found.blocks().saturating_mul(512) >= bytes;
            if whole { Ok(()) } else { Err(RegionError::NoSpace { bytes, error }) }
        }
        Err(error) => Err(RegionError::NoSpace { bytes, error }),
    }
}

impl Medium for Region {
    fn bytes(&self) -> u64 {
        self.mapping.words().len() as u64 * WORD
    }

    #[inline]
    fn load(&self, at: u64) -> u64 {
        self.word(at).map_or(0, |word| u64::from_le(word.load(SeqCst)))
    }

    #[inline]
    fn store(&self, at: u64, value: u64) {
        if let Some(word) = self.word(at) {
            word.store(value.to_le(), Relaxed);
        }
    }

    #[inline]
    fn exchange(&self, at: u64, old: u64, new: u64) -> Result<(), u64> {
        let Some(word) = self.word(at) else { return Ok(()) };
        word.compare_exchange(old.to_le(), new.to_le(), SeqCst, SeqCst)
            .map(drop)
            .map_err(u64::from_le)
    }

    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) {
        let (chunks, _) = into.as_chunks_mut();
        for (chunk, word) in chunks.iter_mut().zip(self.from(at)) {
            *chunk = word.load(Relaxed).to_ne_bytes();
        }
    }

    #[inline]
    fn write(&self, at: u64, from: &[u8]) {
        let (chunks, _) = from.as_chunks();
        for (chunk, word) in chunks.iter().zip(self.from(at)) {
            word.store(u64::from_ne_bytes(*chunk), Relaxed);
        }
    }

    #[inline]
    fn flush(&self, at: u64, bytes: u64) {
        if let Some(instruction) = self.instruction {
            let word = |byte: u64| usize::try_from(byte).unwrap_or(usize::MAX);
            let range = word(at / WORD)..word(at.saturating_add(bytes).div_ceil(WORD));
            instruction.flush(self.mapping.words(), range);
        }
    }

    #[inline]
    fn fence(&self) {
        if self.instruction.is_some() {
            flush::fence();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;
    use crate::btt::{BlockSize, Btt, Cuts};

    fn file(bytes: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        file
    }

    #[test]
    fn stores_reach_the_file() {
        let mut file = file(10_000);
        let region = Region::open(file.try_clone().unwrap(), Access::Write).unwrap();
        assert_eq!(region.bytes(), 10_000);
        region.write(4096, &[[1, 2, 3, 4, 5, 6, 7, 8], [9; 8]].concat());
        region.store(0, u64::from_le_bytes(*b"firsteig"));
        assert_eq!(region.exchange(0, 7, 8), Err(u64::from_le_bytes(*b"firsteig")));
        region.exchange(9992, 0, u64::from_le_bytes(*b"lasteigh")).unwrap();
        let mut seen = [0; 24];
        region.read(4088, &mut seen);
        assert_eq!(seen[8..], [1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9, 9, 9, 9, 9]);
        // Beyond the end nothing is, and nothing happens.
        region.store(10_000, 5);
        region.write(9992, &[7; 16]);
        assert_eq!(region.load(10_000), 0);
        region.flush(0, 10_000);
        region.fence();
        region.sync().unwrap();
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(
            (bytes.len(), &bytes[..8], &bytes[9992..]),
            (10_000, &b"firsteig"[..], &[7; 8][..])
        );
        assert_eq!(bytes[4096..4105], [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn stores_by_reader_are_private() {
        let mut file = file(8192);
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        let reader = Region::open(File::open(path).unwrap(), Access::Read).unwrap();
        let writer = Region::open(file.try_clone().unwrap(), Access::Write).unwrap();
        reader.store(0, 5);
        assert_eq!((reader.load(0), writer.load(0)), (5, 0));
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn kind_determines_surviving_content() {
        let on_disk = Region::open(file(8192), Access::Write).unwrap();
        assert!(matches!(on_disk.kind(), Kind::File | Kind::DaxFile | Kind::MemoryFile));
        let memory = Region::anonymous(8192).unwrap();
        assert_eq!((memory.kind(), memory.instruction()), (Kind::Anonymous, None));
        assert_eq!(Kind::File.cuts(), Cuts::InAnyOrder);
        assert_eq!(Kind::DaxFile.cuts(), Cuts::InOrder);
        if let Ok(file) = tempfile::tempfile_in("/dev/shm") {
            file.set_len(8192).unwrap();
            assert_eq!(Region::open(file, Access::Write).unwrap().kind(), Kind::MemoryFile);
        }
    }

    #[test]
    fn a_file_has_its_space_before_it_is_written() {
        let file = file(1 << 20);
        let region = Region::open(file.try_clone().unwrap(), Access::Write).unwrap();
        assert!(file.metadata().unwrap().blocks() * 512 >= 1 << 20);
        drop(region);
    }

    #[test]
    fn invalid_regions_are_refused() {
        let open = |path| Region::open(File::open(path).unwrap(), Access::Read);
        assert!(matches!(open("/dev/null"), Err(RegionError::Other)));
        assert!(matches!(open("/"), Err(RegionError::Other)));
        assert!(matches!(Region::open(file(0), Access::Write), Err(RegionError::Empty)));
        assert!(Region::anonymous(7).is_err());
        assert_eq!(device_bytes(&File::open("/dev/zero").unwrap()), None);
    }

    /// Runs a table on memory that is flushed by each instruction that this CPU has.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn each_flush_instruction_of_this_cpu_works() {
        assert_eq!(Instruction::all().next(), Instruction::best());
        for instruction in Instruction::all() {
            let region = Region::anonymous(16 << 20).unwrap();
            let region = Region { instruction: Some(instruction), ..region };
            Btt::format(&region, BlockSize::B4096, [1; 16]).unwrap();
            let (btt, _) = Btt::open(region, Cuts::InOrder).unwrap();
            let last = btt.blocks() - 1;
            btt.write(last, &[7; 4096]);
            let mut seen = [0; 4096];
            btt.read(last, &mut seen).unwrap();
            assert_eq!(seen, [7; 4096], "{instruction}");
        }
    }

    /// Formats a table with blocks of `BYTES` bytes, opens it three times, and reads and writes three blocks each time.
    fn survive_reopening<const BYTES: usize>(size: BlockSize, open: impl Fn() -> Region) {
        Btt::format(&open(), size, [1; 16]).unwrap();
        for round in 1..4_u8 {
            let region = open();
            let cuts = region.kind().cuts();
            let (btt, found) = Btt::open(region, cuts).unwrap();
            assert_eq!((found.restored, found.parted), (0, 0));
            for block in [0, 1000, btt.blocks() - 1] {
                let mut seen = [9; BYTES];
                btt.read(block, &mut seen).unwrap();
                assert!(seen == [round - 1; BYTES], "block {block} in round {round}");
                btt.write(block, &[round; BYTES]);
            }
            btt.medium().sync().unwrap();
        }
    }

    #[test]
    fn table_on_file_survives_reopening() {
        let file = file(16 << 20);
        survive_reopening::<512>(BlockSize::B512, || {
            Region::open(file.try_clone().unwrap(), Access::Write).unwrap()
        });
        let reader = Region::open(file.try_clone().unwrap(), Access::Read).unwrap();
        let (btt, _) = Btt::open(reader, Cuts::InAnyOrder).unwrap();
        let mut seen = [9; 512];
        btt.read(1000, &mut seen).unwrap();
        assert_eq!(seen, [3; 512]);
    }

    /// Returns whether the mapping at an address is one by MAP_SYNC (the flag `sf` of its
    /// `VmFlags`, proc(5)).
    fn is_synchronous(address: *const u8) -> bool {
        let begins = format!("{:x}-", address.addr());
        let all = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut lines = all.lines().skip_while(|line| !line.starts_with(&begins));
        let flags = lines.find_map(|line| line.strip_prefix("VmFlags:")).unwrap();
        flags.split_whitespace().any(|flag| flag == "sf")
    }

    /// `make nvdimm` runs this one, on a file and on a device. The device's content is lost.
    #[test]
    #[ignore = "SLUICEGATE_DAX has to name a device of persistent memory, or a file on a file system with DAX"]
    fn table_on_persistent_memory_survives_reopening() {
        let path = std::path::PathBuf::from(std::env::var_os("SLUICEGATE_DAX").unwrap());
        let is_device = path.metadata().is_ok_and(|found| found.file_type().is_char_device());
        let open = || {
            let file =
                File::options().read(true).write(true).create(!is_device).open(&path).unwrap();
            if !is_device {
                file.set_len(32 << 20).unwrap();
            }
            let region = Region::open(file, Access::Write).unwrap();
            assert_eq!(region.kind(), if is_device { Kind::DeviceDax } else { Kind::DaxFile });
            assert_eq!(region.kind().after_power_cut(), AfterPowerCut::Flushed);
            assert!(region.instruction().is_some() && region.instruction() == Instruction::best());
            assert!(is_device || is_synchronous(region.address()));
            region
        };
        let region = open();
        assert_eq!(device_bytes(region.file().unwrap()), is_device.then_some(region.bytes()));
        drop(region);
        survive_reopening::<4096>(BlockSize::B4096, open);
    }
}
