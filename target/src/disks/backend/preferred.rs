//! The sizes of writes and deallocations that a file or device prefers.
//!
//! Hosts see the physical block as a preferred size (NPWG), not as an atomic one (NAWUPF): the daemon cannot check
//! whether a file system writes it atomically.

use std::fs::File;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use fabric::controller::PreferredSizes;
use nix::sys::statvfs::fstatvfs;

use super::sysfs;

/// The kernel's limits for a file or device, in bytes; 0 if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    /// The smallest write that overwrites nothing by reading it first: the physical block, and a
    /// file's unit of allocation.
    pub(super) write: u64,
    /// The smallest write that uses all members of an array.
    pub(super) optimal: u64,
    /// The smallest range that can be deallocated.
    pub(super) deallocate: u64,
    /// The bytes by which the device's start is off its physical blocks.
    pub(super) offset: u64,
}

/// Reads the kernel's limits for an open file or block device.
pub(super) fn limits(file: &File) -> Limits {
    let Ok(found) = file.metadata() else { return Limits::default() };
    if found.file_type().is_block_device() {
        let disk = sysfs::queue(found.rdev());
        return Limits {
            write: disk.physical_block.max(disk.least_io),
            optimal: disk.optimal_io,
            deallocate: disk.discard_granularity,
            offset: disk.offset,
        };
    }
    let disk = sysfs::queue(found.dev());
    let unit = fstatvfs(file).map_or(0, |told| told.fragment_size());
    // A file system with stripes says so in the size of its blocks for I/O.
    let stripe = if found.blksize() > unit { found.blksize() } else { 0 };
    Limits {
        write: disk.physical_block.max(unit),
        optimal: stripe.max(disk.optimal_io),
        deallocate: unit,
        offset: 0,
    }
}

/// Returns the preferred sizes for hosts, in blocks of `block_size` bytes; `None` if they are unknown, or the
/// fields cannot express them, which hold multiples of a block up to 65536 of them, from the first block on.
pub(super) fn sizes(limits: Limits, block_size: u32) -> Option<PreferredSizes> {
    let block = u64::from(block_size);
    let blocks = |bytes: u64| -> Option<u32> {
        let count = bytes.max(block) / block;
        (bytes.max(block).is_multiple_of(block) && count <= 1 << 16)
            .then(|| u32::try_from(count).ok())?
    };
    if limits.write == 0 || limits.offset != 0 {
        return None;
    }
    let write = blocks(limits.write)?;
    // Sizes that are no multiples of the best write size would contradict it.
    let multiple = |blocks: &u32| blocks.is_multiple_of(write);
    let deallocate = blocks(limits.deallocate).filter(multiple).unwrap_or(write);
    let optimal = Some(limits.optimal).filter(|&bytes| bytes > 0).and_then(blocks);
    let optimal = optimal.filter(multiple);
    Some(PreferredSizes { write, deallocate, optimal })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(write: u64, optimal: u64, deallocate: u64) -> Limits {
        Limits { write, optimal, deallocate, offset: 0 }
    }

    #[test]
    fn preferred_sizes_are_whole_blocks_that_fields_can_hold() {
        for (limits, block, expected) in [
            (told(4096, 0, 4096), 512, Some((8, 8, None))),
            (told(4096, 65536, 4096), 4096, Some((1, 1, Some(16)))),
            // No less than a block.
            (told(512, 0, 512), 4096, Some((1, 1, None))),
            (told(4096, 0, 65536), 512, Some((8, 128, None))),
            (Limits::default(), 512, None),
            (Limits { offset: 3584, ..told(4096, 0, 4096) }, 512, None),
            // More than 65536 blocks.
            (told(64 << 20, 0, 4096), 512, None),
            (told(32 << 20, 0, 0), 512, Some((65536, 65536, None))),
            // No multiples.
            (told(4096, 6144, 4096), 512, Some((8, 8, None))),
            (told(4096, 0, 512), 512, Some((8, 8, None))),
            (told(4096, 1 << 40, 4096), 512, Some((8, 8, None))),
        ] {
            let found = sizes(limits, block).map(|s| (s.write, s.deallocate, s.optimal));
            assert_eq!(found, expected, "{limits:?} in blocks of {block}");
        }
    }
}
