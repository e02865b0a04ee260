//! The Connect command (NVMe base 2.0, section 6.3).

use bitflags::bitflags;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::NQN_MAX;
use crate::nvme::{SglDescriptor, Sqe, opcode};

bitflags! {
    /// CATTR, byte 46 of Connect, without the priority class in bits 1:0.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ConnectAttributes: u8 {
        /// Bit 2: no submission queue flow control.
        const DISABLE_SQ_FLOW_CONTROL = 1 << 2;
    }
}

/// The Connect command, 64 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ConnectCommand {
    /// Byte 0: 7Fh.
    pub opcode: u8,
    /// Byte 1: PSDT 7:6.
    pub flags: u8,
    /// Bytes 3:2.
    pub cid: U16,
    /// Byte 4: 01h.
    pub fctype: u8,
    /// Bytes 23:5.
    pub reserved5: [u8; 19],
    /// Bytes 39:24: where the Connect data is.
    pub sgl: SglDescriptor,
    /// Bytes 41:40: record format, 0.
    pub recfmt: U16,
    /// Bytes 43:42: queue identifier, 0 for the admin queue.
    pub qid: U16,
    /// Bytes 45:44: submission queue size, 0's based.
    pub sqsize: U16,
    /// Byte 46: priority class 1:0, [`ConnectAttributes`].
    pub cattr: u8,
    /// Byte 47.
    pub reserved47: u8,
    /// Bytes 51:48: keep alive timeout in milliseconds.
    pub kato: U32,
    /// Bytes 63:52.
    pub reserved52: [u8; 12],
}

const _: () = assert!(size_of::<ConnectCommand>() == size_of::<Sqe>());

impl ConnectCommand {
    /// Returns whether the command is a Connect at all.
    #[must_use]
    pub fn is_connect(&self) -> bool {
        self.opcode == opcode::FABRICS && self.fctype == opcode::fabrics::CONNECT
    }
}

impl From<&Sqe> for ConnectCommand {
    fn from(sqe: &Sqe) -> Self {
        zerocopy::transmute!(*sqe)
    }
}

impl From<&ConnectCommand> for Sqe {
    fn from(command: &ConnectCommand) -> Self {
        zerocopy::transmute!(*command)
    }
}

/// The size of the Connect data in bytes.
pub const CONNECT_DATA_BYTES: u32 = 1024;

/// The Connect data, 1024 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct ConnectData {
    /// Bytes 15:0: host identifier.
    pub hostid: [u8; 16],
    /// Bytes 17:16: controller wanted: FFFFh any (dynamic), FFFEh any (static), else that one.
    pub cntlid: U16,
    /// Bytes 255:18.
    pub reserved18: [u8; 238],
    /// Bytes 511:256: NVM subsystem NQN, ended by NUL.
    pub subnqn: [u8; 256],
    /// Bytes 767:512: host NQN, ended by NUL.
    pub hostnqn: [u8; 256],
    /// Bytes 1023:768.
    pub reserved768: [u8; 256],
}

const _: () = assert!(size_of::<ConnectData>() == CONNECT_DATA_BYTES as usize);

/// The field that a refused Connect's result points at: IPO 15:0 the byte offset, IATTR bit 16
/// whether in the data (1) or in the command (0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectField {
    /// The queue identifier, byte 42 of the command.
    Qid,
    /// The queue size, byte 44 of the command.
    SqSize,
    /// The host identifier, byte 0 of the data.
    HostId,
    /// The controller identifier, byte 16 of the data.
    CntlId,
    /// The subsystem NQN, byte 256 of the data.
    SubNqn,
    /// The host NQN, byte 512 of the data.
    HostNqn,
}

impl ConnectField {
    /// Returns the completion's result that points at this field.
    #[must_use]
    pub fn result(self) -> u64 {
        const DATA: u64 = 1 << 16;
        match self {
            Self::Qid => 42,
            Self::SqSize => 44,
            Self::HostId => DATA,
            Self::CntlId => DATA | 16,
            Self::SubNqn => DATA | 256,
            Self::HostNqn => DATA | 512,
        }
    }
}

/// Returns the NQN in a 256-byte field: text up to the NUL that must end it, 1 to 223 bytes of
/// UTF-8 without control characters. The prefix `nqn.` is not required: some hosts' names lack it,
/// and a name that is in no list opens nothing.
#[must_use]
pub fn nqn_field(field: &[u8; 256]) -> Option<&str> {
    let length = field.iter().position(|&b| b == 0)?;
    let text = core::str::from_utf8(field.get(..length)?).ok()?;
    let good = (1..=NQN_MAX).contains(&text.len()) && !text.chars().any(char::is_control);
    good.then_some(text)
}

#[cfg(test)]
mod tests {
    use core::mem::offset_of;

    use super::*;

    #[test]
    fn connect_fields_lie_where_the_specification_puts_them() {
        assert_eq!(offset_of!(ConnectCommand, sgl), 24);
        assert_eq!(offset_of!(ConnectCommand, recfmt), 40);
        assert_eq!(offset_of!(ConnectCommand, qid), 42);
        assert_eq!(offset_of!(ConnectCommand, sqsize), 44);
        assert_eq!(offset_of!(ConnectCommand, cattr), 46);
        assert_eq!(offset_of!(ConnectCommand, kato), 48);
        assert_eq!(offset_of!(ConnectData, cntlid), 16);
        assert_eq!(offset_of!(ConnectData, subnqn), 256);
        assert_eq!(offset_of!(ConnectData, hostnqn), 512);
    }

    #[test]
    fn nqn_is_printable_bounded_and_terminated() {
        for (bytes, is_nqn) in [
            (&b"nqn.x"[..], true),
            (&b""[..], false),
            (&b"nqn.\n"[..], false),
            (&b"nqn.x\xff"[..], false),
            (&[b'n'; 223][..], true),
            (&[b'n'; 224][..], false),
            (&[b'n'; 256][..], false),
        ] {
            let mut field = [0; 256];
            field[..bytes.len()].copy_from_slice(bytes);
            assert_eq!(nqn_field(&field).map(str::as_bytes), is_nqn.then_some(bytes), "{bytes:?}");
        }
    }
}
