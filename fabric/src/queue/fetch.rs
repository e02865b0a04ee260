//! Data that the target's shell moves from the host's memory itself.

use super::SlotId;

/// A place in the host's memory, as the host has registered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Address of the first byte.
    pub address: u64,
    /// The key of the memory's registration, 32 bits.
    pub key: u32,
}

impl Remote {
    /// Returns the place `bytes` bytes further on.
    #[must_use]
    pub fn after(self, bytes: u32) -> Self {
        Self { address: self.address.wrapping_add(u64::from(bytes)), ..self }
    }
}

/// A part of a command's data that the shell is to move from the host's memory (RDMA READ).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The command's slot.
    pub slot: SlotId,
    /// Offset of the part within the command's data, in bytes.
    pub offset: u32,
    /// Length of the part in bytes, more than 0.
    pub length: u32,
    /// The part's place in the host's memory.
    pub remote: Remote,
}
