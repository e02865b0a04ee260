//! From a configured backend to an open one.

use std::sync::Arc;

use super::file::{FileDisk, FileOptions};
use super::memory::Memory;
use super::null::Null;
use super::nvme::NvmeDisk;
use super::{Backend, BackendError};
use crate::config;

/// Opens what the configuration names.
///
/// # Errors
/// The file or device cannot be served; the message says why and what would be right.
pub fn open(backend: &config::Backend, read_only: bool) -> Result<Arc<dyn Backend>, BackendError> {
    Ok(match backend {
        config::Backend::Null { size, block_size, model } => {
            let shift = shift(*block_size)?;
            Arc::new(Null::new(shift, size >> shift, *model))
        }
        config::Backend::Memory { size, block_size } => {
            let shift = shift(*block_size)?;
            Arc::new(Memory::new(shift, size >> shift)?)
        }
        config::Backend::File { path, size, block_size, direct } => {
            let options =
                FileOptions { size: *size, block_size: *block_size, direct: *direct, read_only };
            Arc::new(FileDisk::open(path, options)?)
        }
        config::Backend::Nvme { device, forward_class } => {
            Arc::new(NvmeDisk::open(device, read_only, *forward_class)?)
        }
    })
}

fn shift(block_size: u32) -> Result<u8, BackendError> {
    match block_size {
        512 => Ok(9),
        4096 => Ok(12),
        other => Err(BackendError::new(
            format!("block_size = {other}"),
            "hosts are served blocks of 512 or 4096 bytes",
        )),
    }
}
