//! Direct I/O: whether it takes a namespace's blocks where the file or device is.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

use super::{BackendError, sysfs};
use crate::sys::mapping::Mapping;

/// The alignment of all I/O buffers in bytes.
const BUFFER_ALIGNMENT: u32 = 4096;

/// The kernel's answer to which direct I/O a file or device takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectIo {
    /// Addresses in memory and in the file must be multiples of these numbers of bytes.
    Aligned { memory: u32, offset: u32 },
    /// The file takes none.
    Unsupported,
    /// The file system does not say; `sector` is the logical block size in bytes of the disk below,
    /// where there is one.
    Unknown { sector: Option<u32> },
}

/// The reason for which a namespace's blocks go through the page cache.
#[derive(Debug, thiserror::Error)]
pub(super) enum Obstacle {
    /// Direct I/O moves larger blocks only.
    #[error(
        "direct I/O needs whole sectors of {sector} bytes there, and block_size is {block_size}: \
         the page cache is used, and smaller writes read a sector first; a new namespace with block_size = 4096 avoids both"
    )]
    Sector { sector: u32, block_size: u32 },
    /// Direct I/O needs memory that is aligned to more than a page.
    #[error("direct I/O needs memory aligned to {0} bytes there: the page cache is used")]
    Memory(u32),
    /// The file system has no direct I/O for the file.
    #[error("there is no direct I/O there: the page cache is used")]
    Unsupported,
    /// A read was refused.
    #[error("direct I/O does not work there ({0}): the page cache is used")]
    Refused(io::Error),
}

impl DirectIo {
    /// Asks the kernel (STATX_DIOALIGN, Linux 6.1).
    pub(super) fn ask(file: &File) -> Self {
        let mut told = MaybeUninit::<libc::statx>::zeroed();
        // SAFETY: the path is empty and ends with NUL, and `told` has room for the answer.
        let answer = unsafe {
            libc::statx(
                file.as_raw_fd(),
                c"".as_ptr(),
                libc::AT_EMPTY_PATH,
                libc::STATX_DIOALIGN,
                told.as_mut_ptr(),
            )
        };
        // SAFETY: all zeroes is a valid value, whether or not the kernel has written another.
        let told = unsafe { told.assume_init() };
        if answer != 0 || told.stx_mask & libc::STATX_DIOALIGN == 0 {
            return Self::Unknown { sector: sysfs::sector(file) };
        }
        match (told.stx_dio_mem_align, told.stx_dio_offset_align) {
            (0, _) | (_, 0) => Self::Unsupported,
            (memory, offset) => Self::Aligned { memory, offset },
        }
    }

    /// Decides whether blocks of `block_size` bytes can go around the page cache; returns the reason why they cannot.
    /// `attempt` reads one of them so. It would not suffice: a read of a hole succeeds at any alignment.
    ///
    /// # Errors
    /// The read failed for a reason that says nothing of direct I/O, as of a device that is not ready yet.
    pub(super) fn decide(
        self,
        block_size: u32,
        attempt: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<Option<Obstacle>> {
        let (memory, sector) = match self {
            Self::Unsupported => return Ok(Some(Obstacle::Unsupported)),
            Self::Aligned { memory, offset } => (memory, offset),
            Self::Unknown { sector } => (1, sector.unwrap_or(1)),
        };
        if !block_size.is_multiple_of(sector) {
            return Ok(Some(Obstacle::Sector { sector, block_size }));
        }
        if !BUFFER_ALIGNMENT.is_multiple_of(memory) {
            return Ok(Some(Obstacle::Memory(memory)));
        }
        match attempt() {
            Ok(()) => Ok(None),
            Err(error) if is_bad_block(&error) => Ok(None),
            Err(error) => match error.raw_os_error() {
                Some(libc::EINVAL | libc::EOPNOTSUPP) => Ok(Some(Obstacle::Refused(error))),
                _ => Err(error),
            },
        }
    }
}

/// Returns whether the medium cannot read a block. Hosts may never read that block.
fn is_bad_block(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODATA | libc::EILSEQ))
}

/// Turns O_DIRECT on where blocks of `block_size` bytes can be read and written with it. Otherwise O_DIRECT stays
/// off, and the reason is returned.
///
/// # Errors
/// The first block cannot be read at present. The error names `path`.
pub(super) fn turn_on(
    file: &File,
    path: &Path,
    block_size: u32,
) -> Result<Option<Obstacle>, BackendError> {
    let decided = DirectIo::ask(file).decide(block_size, || {
        let flags = OFlag::from_bits_retain(fcntl(file, FcntlArg::F_GETFL)?);
        fcntl(file, FcntlArg::F_SETFL(flags | OFlag::O_DIRECT))?;
        let page = Mapping::anonymous(4096)?;
        // SAFETY: nobody else has this mapping.
        let bytes = unsafe { page.slice_mut(0, block_size as usize) };
        file.read_at(bytes, 0).map(drop).inspect_err(|error| {
            if !is_bad_block(error) {
                let _ = fcntl(file, FcntlArg::F_SETFL(flags));
            }
        })
    });
    decided.map_err(|error| BackendError::io(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_smaller_than_a_sector_go_through_the_page_cache() {
        let aligned = |memory, offset| DirectIo::Aligned { memory, offset };
        for (told, block, words) in [
            (aligned(512, 512), 512, ""),
            (aligned(512, 512), 4096, ""),
            (aligned(512, 4096), 4096, ""),
            (aligned(512, 4096), 512, "sectors of 4096 bytes"),
            (DirectIo::Unknown { sector: Some(4096) }, 512, "block_size = 4096"),
            (aligned(512, 16384), 4096, "sectors of 16384 bytes"),
            (DirectIo::Unsupported, 4096, "there is no direct I/O"),
            (aligned(8192, 512), 512, "aligned to 8192 bytes"),
        ] {
            let obstacle = told.decide(block, || Ok(())).unwrap();
            let said = obstacle.map_or(String::new(), |obstacle| obstacle.to_string());
            let is_right = said.contains(words) && said.is_empty() == words.is_empty();
            assert!(is_right, "{told:?} for blocks of {block}: {said}");
        }
    }

    #[test]
    fn a_file_is_tried_where_all_else_allows_it() {
        let fails = |errno| move || Err(io::Error::from_raw_os_error(errno));
        let aligned = DirectIo::Aligned { memory: 4, offset: 512 };
        for told in [DirectIo::Unknown { sector: None }, aligned] {
            let decide = |errno| told.decide(512, fails(errno));
            assert!(matches!(decide(libc::EINVAL), Ok(Some(Obstacle::Refused(_)))));
            assert!(decide(libc::EIO).is_err(), "not ready yet: not by the page cache");
            assert!(matches!(decide(libc::ENODATA), Ok(None)), "a bad block");
        }
        let not_reached = || panic!("the answer is known");
        assert!(matches!(DirectIo::Unsupported.decide(512, not_reached), Ok(Some(_))));
    }

    #[test]
    fn a_file_without_direct_io_is_read_without_it() {
        let file = File::open("/proc/self/status").unwrap();
        assert!(turn_on(&file, Path::new("/dev/null"), 512).unwrap().is_some());
        let flags = OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL).unwrap());
        assert!(!flags.contains(OFlag::O_DIRECT));
    }
}
