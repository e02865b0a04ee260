//! Opening of regions for one-sided RDMA: memory, a file or a device of persistent memory, whose bytes
//! clients see as they are.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use fabric::nvme::region::Survives;
use nix::sys::memfd::{MFdFlags, memfd_create};
use pmem::medium::Medium as _;
use pmem::region::{Access, AfterPowerCut, Region};
use sluice_config::{RegionConfig, format_size};

use super::pmem_open::{self, Held};
use super::source::{self, FileOptions};
use super::{BackendError, Opening};

/// An open region.
#[derive(Clone, Debug)]
pub struct OpenRegion {
    /// The memory, which may be larger than what clients get.
    pub memory: Arc<Region>,
    /// The number of bytes that clients get, from the first one on.
    pub bytes: u64,
    /// The kind of region, in words.
    pub kind: &'static str,
    /// The worst event that the data survives.
    pub survives: Survives,
    /// The claim on the file or device.
    _held: Option<Arc<Held>>,
}

impl OpenRegion {
    /// Maps an open file or device. `size` is what clients get; a smaller file has grown to it.
    fn map(
        name: &Path,
        file: &File,
        size: Option<u64>,
        held: Option<Arc<Held>>,
    ) -> Result<Self, BackendError> {
        let file = file.try_clone().map_err(|error| BackendError::io(name, &error))?;
        let memory = Region::open(file, Access::Write);
        let memory = memory.map_err(|error| BackendError::new(name.display(), error))?;
        let all = memory.bytes();
        let bytes = size.unwrap_or(all);
        if bytes == 0 || bytes > all {
            let why = format!(
                "it has {} and the region {}: give a size of at most that, or leave it out",
                format_size(all),
                format_size(bytes)
            );
            return Err(BackendError::new(name.display(), why));
        }
        let kind = memory.kind();
        let (kind, survives) = match kind.after_power_cut() {
            _ if held.is_none() => ("memory", Survives::Nothing),
            AfterPowerCut::Nothing => (kind.name(), Survives::Exit),
            AfterPowerCut::Flushed | AfterPowerCut::Synchronized => {
                (kind.name(), Survives::PowerCut)
            }
        };
        Ok(Self { memory: Arc::new(memory), bytes, kind, survives, _held: held })
    }

    /// Returns the region with another size. A growing region is mapped again, at another address; the file of a
    /// shrinking region stays as it is.
    ///
    /// # Errors
    /// The file cannot grow, or the device is smaller.
    pub fn resized(&self, name: &Path, size: Option<u64>) -> Result<Self, BackendError> {
        let all = self.memory.bytes();
        let Some(file) = self.memory.file().filter(|_| size.is_none_or(|size| size > all)) else {
            return Ok(Self { bytes: size.unwrap_or(all), ..self.clone() });
        };
        if let Some(size) = size
            && file.metadata().is_ok_and(|found| found.is_file())
        {
            source::grow(name, file, size)?;
            source::sync_length(name, file)?;
        }
        Self::map(name, file, size, self._held.clone())
    }
}

/// Opens a region: its file or device, which is created where the settings say so, or memory.
///
/// # Errors
/// The path cannot be opened or mapped, is in use, or is smaller than the region; or there is no memory.
pub fn open_region(
    config: &RegionConfig,
    opening: &Opening<'_>,
) -> Result<OpenRegion, BackendError> {
    let Some(path) = &config.path else {
        let name = Path::new(opening.namespace);
        let fail = |error: std::io::Error| BackendError::io(name, &error);
        let file = memfd_create(c"sluicegate-region", MFdFlags::MFD_CLOEXEC);
        let file = File::from(file.map_err(|error| fail(error.into()))?);
        file.set_len(config.size.unwrap_or(0)).map_err(fail)?;
        return OpenRegion::map(name, &file, config.size, None);
    };
    let made = FileOptions {
        size: config.size,
        block_size: None,
        direct: false,
        create: config.create,
        read_only: false,
    };
    let (file, held) = pmem_open::claimed(path, made, config.size, opening)?;
    OpenRegion::map(path, &file, config.size, Some(Arc::new(held)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::disks::backend::Claims;

    /// Opens a region, and makes its file if the size is known.
    fn open(claims: &Claims, path: Option<&Path>, size: Option<u64>) -> Result<OpenRegion, String> {
        let (name, create) = ("r".to_owned(), path.is_some() && size.is_some());
        let path = path.map(Path::to_owned);
        let config = RegionConfig { name, path, size, create, ..RegionConfig::default() };
        let opening = Opening { namespace: "region r", ..Opening::for_tests(claims) };
        open_region(&config, &opening).map_err(|error| error.to_string())
    }

    #[test]
    fn memory_survives_nothing_and_keeps_its_data_as_it_grows_and_shrinks() {
        let small = open(&Claims::default(), None, Some(8192)).unwrap();
        assert_eq!((small.bytes, small.kind, small.survives), (8192, "memory", Survives::Nothing));
        small.memory.store(4096, 7);
        let name = Path::new("region r");
        let large = small.resized(name, Some(1 << 20)).unwrap();
        assert_eq!((large.bytes, large.memory.bytes()), (1 << 20, 1 << 20));
        assert_eq!(large.memory.load(4096), 7);
        small.memory.store(0, 9);
        assert_eq!(large.memory.load(0), 9, "clients of before see the same memory");
        let smaller = large.resized(name, Some(4096)).unwrap();
        assert_eq!((smaller.bytes, smaller.memory.load(4096)), (4096, 7));
        assert_eq!(smaller.memory.address(), large.memory.address());
    }

    #[test]
    fn a_file_is_made_grows_and_belongs_to_one() {
        let folder = tempfile::tempdir().unwrap();
        let (claims, path) = (Claims::default(), folder.path().join("region"));
        let open = |path: &Path, size| open(&claims, Some(path), size);
        let refused = |path, words: &str| open(path, None).is_err_and(|why| why.contains(words));
        assert!(refused(&path, "region"), "it is missing");
        let made = open(&path, Some(8192)).unwrap();
        assert_eq!((made.bytes, made.memory.bytes()), (8192, 8192));
        assert!(refused(&path, "region r"), "it is in use");
        made.memory.store(0, 5);
        let fails = |_: &File| Err(std::io::Error::from_raw_os_error(libc::EIO));
        let resize = || made.resized(&path, Some(16384));
        source::while_synchronizing(fails, resize).unwrap_err();
        let length = Rc::new(Cell::new(0));
        let seen = Rc::clone(&length);
        let observer = move |file: &File| file.metadata().map(|found| seen.set(found.len()));
        let grown = source::while_synchronizing(observer, || made.resized(&path, Some(20480)));
        let grown = grown.unwrap();
        assert_eq!(length.get(), 20480, "the length is on the medium");
        drop(made);
        assert_eq!((grown.memory.load(0), grown.bytes), (5, 20480));
        open(&path, None).unwrap_err();
        drop(grown);
        let again = open(&path, None).unwrap();
        assert_eq!((again.memory.load(0), again.bytes), (5, 20480));
        assert!(refused(folder.path(), "device of persistent memory"));
    }
}
