//! `memory`: anonymous memory, taken from the system as it is written and given back as it is
//! deallocated. Its content is lost at exit.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use fabric::nvm::{BlockFormat, IoCommand, LbaRange};
use fabric::nvme::Status;
use sluice_config::format_size;
use sluice_core::Held;
use sluice_core::device::{Data, Immediate};

use super::{Abilities, Backend, BackendError, Description, Health, Style};
use crate::disks::block_memory::{BlockLocks, BlockMemory};

/// The size of one mapping in bytes: memory comes in mappings, so that a namespace can grow while
/// it is in use.
const SEGMENT: u64 = 1 << 30;
/// The number of mappings of the largest memory namespace.
const SEGMENTS_MAX: u64 = sluice_config::MEMORY_MAX / SEGMENT;

/// Size in bytes of the smallest read that is answered without a copy.
const HELD_LEAST: u64 = 16 << 10;

/// A memory disk.
pub(super) struct Memory {
    description: Description,
    health: Health,
    segments: Box<[OnceLock<Arc<BlockMemory>>]>,
    /// Locks that all segments share.
    locks: Arc<BlockLocks>,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memory").field("health", &self.health).finish_non_exhaustive()
    }
}

impl Memory {
    /// Makes a memory disk of `blocks` blocks of a format, all zero.
    ///
    /// # Errors
    /// The system has no address space for it, or it is larger than 4 TiB.
    pub(super) fn new(format: BlockFormat, blocks: u64) -> Result<Self, BackendError> {
        let abilities = Abilities {
            volatile_cache: false,
            deallocate: true,
            zeroes_after_deallocate: true,
            write_zeroes_deallocates: true,
            write_zeroes: true,
            compare: true,
            verify: true,
        };
        let description = Description::new("memory", format, abilities);
        let segments = (0..SEGMENTS_MAX).map(|_| OnceLock::new()).collect();
        let new = Self { description, health: Health::new(0), segments, locks: Arc::default() };
        new.resize(Some(blocks))?;
        Ok(new)
    }

    /// Calls `each` with a mapping, the offset in it, and the bytes of the request it covers.
    #[inline]
    fn pieces(
        &self,
        offset: u64,
        length: u64,
        mut each: impl FnMut(&BlockMemory, usize, Range<usize>),
    ) {
        let mut done = 0;
        while done < length {
            let (index, within) = ((offset + done) / SEGMENT, (offset + done) % SEGMENT);
            let bytes = (SEGMENT - within).min(length - done);
            let to_size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
            if let Some(mapping) = self.segments.get(to_size(index)).and_then(OnceLock::get) {
                each(mapping, to_size(within), to_size(done)..to_size(done + bytes));
            }
            done += bytes;
        }
    }

    #[inline]
    fn read(&self, range: LbaRange, into: &mut [u8]) {
        let offset = range.offset(self.description.format);
        self.pieces(offset, into.len() as u64, |mapping, within, part| {
            if let Some(part) = into.get_mut(part) {
                mapping.read(within, part);
            }
        });
    }

    #[inline]
    fn write(&self, range: LbaRange, from: &[u8]) {
        let offset = range.offset(self.description.format);
        self.pieces(offset, from.len() as u64, |mapping, within, part| {
            if let Some(part) = from.get(part) {
                mapping.write(within, part);
            }
        });
    }

    fn zero(&self, offset: u64, length: u64) {
        self.pieces(offset, length, |mapping, within, part| {
            mapping.zero(within, part.len());
        });
    }

    fn equals(&self, range: LbaRange, with: &[u8]) -> bool {
        let mut buffer = [0; 4096];
        let offset = range.offset(self.description.format);
        with.chunks(buffer.len()).enumerate().all(|(index, theirs)| {
            let at = offset + (index * buffer.len()) as u64;
            let Some(mine) = buffer.get_mut(..theirs.len()) else {
                debug_assert!(false, "no chunk is larger than the buffer");
                return false;
            };
            self.pieces(at, theirs.len() as u64, |mapping, within, part| {
                if let Some(part) = mine.get_mut(part) {
                    mapping.read(within, part);
                }
            });
            mine == theirs
        })
    }

    fn deallocate(&self, definitions: &[u8]) -> Status {
        let format = self.description.format;
        let limits = self.health.limits(format);
        let ranges = match limits.valid_dsm_ranges(definitions) {
            Ok(ranges) => ranges,
            Err(status) => return status,
        };
        for range in ranges {
            self.zero(range.offset(format), range.bytes(format));
        }
        Status::SUCCESS
    }
}

impl Backend for Memory {
    fn description(&self) -> &Description {
        &self.description
    }

    fn health(&self) -> &Health {
        &self.health
    }

    fn style(&self) -> Style<'_> {
        Style::Immediate(self)
    }

    fn memory(&self) -> Vec<Arc<BlockMemory>> {
        self.segments.iter().map_while(|segment| segment.get().map(Arc::clone)).collect()
    }

    fn resize(&self, blocks: Option<u64>) -> Result<u64, BackendError> {
        let old = self.health.blocks();
        let Some(blocks) = blocks else { return Ok(old) };
        let format = self.description.format;
        let bytes = format.bytes(blocks);
        if bytes > SEGMENTS_MAX * SEGMENT {
            return Err(BackendError::new(
                "memory namespace",
                format!("the largest size is {}", format_size(SEGMENTS_MAX * SEGMENT)),
            ));
        }
        for slot in self.segments.iter().take(usize::try_from(bytes.div_ceil(SEGMENT)).unwrap_or(0))
        {
            if slot.get().is_none() {
                let length = usize::try_from(SEGMENT).unwrap_or(usize::MAX);
                let mapping = BlockMemory::new(length, Arc::clone(&self.locks))
                    .map_err(|e| BackendError::new("memory namespace", e))?;
                // Another thread that was faster has set an equal mapping.
                let _ = slot.set(Arc::new(mapping));
            }
        }
        self.health.set_blocks(blocks);
        if blocks < old {
            self.zero(bytes, format.bytes(old - blocks));
        }
        Ok(blocks)
    }
}

impl Immediate for Memory {
    fn hold(&self, command: &IoCommand) -> Option<Held> {
        let IoCommand::Read { range, .. } = command else { return None };
        let format = self.description.format;
        let (offset, bytes) = (range.offset(format), range.bytes(format));
        if bytes < HELD_LEAST || offset % SEGMENT + bytes > SEGMENT {
            return None;
        }
        let to_size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let memory = self.segments.get(to_size(offset / SEGMENT))?.get()?;
        memory.hold(to_size(offset % SEGMENT), to_size(bytes)).map(Held::new)
    }

    #[inline]
    fn run(&self, command: &IoCommand, data: Data<'_>) -> Status {
        match (command, data) {
            (IoCommand::Read { range, .. }, Data::Read(into)) => self.read(*range, into),
            (IoCommand::Write { range, .. }, Data::Write(from)) => self.write(*range, from),
            (IoCommand::Compare { range }, Data::Write(with)) => {
                if !self.equals(*range, with) {
                    return Status::COMPARE_FAILURE;
                }
            }
            (IoCommand::WriteZeroes { range, .. } | IoCommand::Deallocate { range }, _) => {
                let format = self.description.format;
                self.zero(range.offset(format), range.bytes(format));
            }
            (IoCommand::DatasetManagement { deallocate: true, ranges }, Data::Write(from)) => {
                let length = usize::from(*ranges) * fabric::nvm::DSM_RANGE_BYTES as usize;
                return self.deallocate(from.get(..length).unwrap_or(from));
            }
            (
                IoCommand::Flush
                | IoCommand::Verify { .. }
                | IoCommand::DatasetManagement { deallocate: false, .. },
                _,
            ) => {}
            (
                IoCommand::Read { .. }
                | IoCommand::Write { .. }
                | IoCommand::Compare { .. }
                | IoCommand::DatasetManagement { .. },
                _,
            ) => return Status::INTERNAL_ERROR,
        }
        Status::SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::disks::backend::block_array::{self, BlockArray, Step};

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn it_behaves_as_an_array_of_blocks(steps in block_array::steps(200, 50..240)) {
            let disk = Memory::new(BlockFormat::BYTES_512, 200).unwrap();
            let mut model = BlockArray::new(200);
            for step in steps {
                if let Step::Again(blocks) = step {
                    disk.resize(Some(blocks)).unwrap();
                    model.resize(blocks);
                }
                model.carry_out(&step, |command, data| disk.run(command, data))?;
            }
            model.compare(|command, data| disk.run(command, data))?;
        }
    }

    #[test]
    fn a_request_may_cross_two_mappings() {
        let disk = Memory::new(BlockFormat::BYTES_4096, (2 * SEGMENT) >> 12).unwrap();
        let range = LbaRange { lba: (SEGMENT >> 12) - 1, blocks: 2 };
        let data: Vec<u8> = (0..8192u32).map(|i| (i % 251) as u8).collect();
        disk.run(&IoCommand::Write { range, fua: false }, Data::Write(&data));
        let mut seen = vec![0; 8192];
        disk.run(&IoCommand::Read { range, fua: false }, Data::Read(&mut seen));
        assert_eq!(seen, data);
    }
}
