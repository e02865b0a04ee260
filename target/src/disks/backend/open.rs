//! Opening of the backend that the configuration names.

use std::sync::Arc;

use fabric::nvm::BlockFormat;
use pmem::btt::BlockSize;

use super::file::FileDisk;
use super::memory::Memory;
use super::null::Null;
use super::nvme::NvmeDisk;
use super::pmem::PmemDisk;
use super::pmem_open::PmemOptions;
use super::source::FileOptions;
use super::{Backend, BackendError, Opening};

/// Opens the file or device that the configuration names, and claims it against other writers.
///
/// # Errors
/// The file or device cannot be served; the message has the reason and the remedy.
pub fn open(
    backend: &sluice_config::Backend,
    read_only: bool,
    opening: &Opening<'_>,
) -> Result<Arc<dyn Backend>, BackendError> {
    Ok(match backend {
        sluice_config::Backend::Null { size, block_size, model } => {
            let format = format(*block_size)?;
            Arc::new(Null::new(format, format.blocks(*size), *model))
        }
        sluice_config::Backend::Memory { size, block_size } => {
            let format = format(*block_size)?;
            Arc::new(Memory::new(format, format.blocks(*size))?)
        }
        sluice_config::Backend::File { path, size, block_size, direct, create } => {
            let (size, block_size, direct, create) = (*size, *block_size, *direct, *create);
            let options = FileOptions { size, block_size, direct, create, read_only };
            Arc::new(FileDisk::open(path, options, opening)?)
        }
        sluice_config::Backend::Pmem { path, size, block_size, create } => {
            let block_size = block_size.map(pmem_block).transpose()?;
            let (size, create) = (*size, *create);
            let options = PmemOptions { size, block_size, create, read_only };
            Arc::new(PmemDisk::open(path, options, opening)?)
        }
        sluice_config::Backend::Nvme { device, forward_class } => {
            Arc::new(NvmeDisk::open(device, read_only, *forward_class, opening)?)
        }
    })
}

fn format(block_size: u32) -> Result<BlockFormat, BackendError> {
    match block_size {
        512 => Ok(BlockFormat::BYTES_512),
        4096 => Ok(BlockFormat::BYTES_4096),
        other => Err(wrong_block_size(other)),
    }
}

fn pmem_block(block_size: u32) -> Result<BlockSize, BackendError> {
    match block_size {
        512 => Ok(BlockSize::B512),
        4096 => Ok(BlockSize::B4096),
        other => Err(wrong_block_size(other)),
    }
}

fn wrong_block_size(block_size: u32) -> BackendError {
    BackendError::new(
        format!("block_size = {block_size}"),
        "hosts are served blocks of 512 or 4096 bytes",
    )
}
