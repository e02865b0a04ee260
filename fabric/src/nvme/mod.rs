//! Wire types of the NVMe base and NVM command set specifications, one file for each family.
//!
//! Every multi-byte field is little-endian. Byte and bit positions follow the specification's
//! tables; `a:b` means bit or byte `a` down to `b`, both included.

mod command;
mod completion;
pub mod feature;
pub mod identify;
pub mod log;
pub mod node;
pub mod opcode;
pub mod property;
pub mod region;
mod sgl;
mod status;

pub use command::Sqe;
pub use completion::Cqe;
pub use sgl::{SglDescriptor, SglKind};
pub use status::Status;
