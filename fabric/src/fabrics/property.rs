//! Property Get and Property Set (NVMe base 2.0, sections 6.5 and 6.6).

use crate::nvme::Sqe;

/// ATTRIB 2:0: the number of bytes of the property that move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropertySize {
    /// 000b: 4 bytes.
    Four,
    /// 001b: 8 bytes.
    Eight,
}

impl PropertySize {
    /// Reads ATTRIB, byte 40 of the command (CDW10 7:0); none where reserved.
    fn parse(sqe: &Sqe) -> Option<Self> {
        match sqe.cdw10.get() & 0x7 {
            0 => Some(Self::Four),
            1 => Some(Self::Eight),
            _ => None,
        }
    }
}

/// Property Get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropertyGet {
    /// Byte 40.
    pub size: Option<PropertySize>,
    /// Bytes 47:44 (CDW11): offset of the property.
    pub offset: u32,
}

impl PropertyGet {
    /// Reads the fields of the command.
    #[must_use]
    pub fn parse(sqe: &Sqe) -> Self {
        Self { size: PropertySize::parse(sqe), offset: sqe.cdw11.get() }
    }
}

/// Property Set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropertySet {
    /// Byte 40.
    pub size: Option<PropertySize>,
    /// Bytes 47:44 (CDW11): offset of the property.
    pub offset: u32,
    /// Bytes 55:48 (CDW12, CDW13): the value.
    pub value: u64,
}

impl PropertySet {
    /// Reads the fields of the command.
    #[must_use]
    pub fn parse(sqe: &Sqe) -> Self {
        Self {
            size: PropertySize::parse(sqe),
            offset: sqe.cdw11.get(),
            value: u64::from(sqe.cdw12.get()) | u64::from(sqe.cdw13.get()) << 32,
        }
    }
}
