//! Features and their values (NVMe base 2.0, section 5.27).

use super::Sqe;

/// Feature identifiers, CDW10 7:0 of Get and Set Features.
pub mod fid {
    /// Arbitration: AB 2:0, LPW 15:8, MPW 23:16, HPW 31:24.
    pub const ARBITRATION: u8 = 0x01;
    /// Power Management: PS 4:0, WH 7:5.
    pub const POWER: u8 = 0x02;
    /// Temperature Threshold: TMPTH 15:0, TMPSEL 19:16, THSEL 21:20.
    pub const TEMPERATURE: u8 = 0x04;
    /// Error Recovery: TLER 15:0, DULBE 16.
    pub const ERROR_RECOVERY: u8 = 0x05;
    /// Volatile Write Cache: WCE 0.
    pub const WRITE_CACHE: u8 = 0x06;
    /// Number of Queues: submission 15:0, completion 31:16, both 0's based.
    pub const QUEUES: u8 = 0x07;
    /// Write Atomicity Normal: DN 0.
    pub const WRITE_ATOMICITY: u8 = 0x0a;
    /// Asynchronous Event Configuration.
    pub const ASYNC_EVENTS: u8 = 0x0b;
    /// Keep Alive Timer, milliseconds.
    pub const KEEP_ALIVE: u8 = 0x0f;
    /// Host Behavior Support, 512 bytes of data.
    pub const HOST_BEHAVIOR: u8 = 0x16;
    /// Host Identifier, 8 or 16 bytes of data.
    pub const HOST_IDENTIFIER: u8 = 0x81;
}

/// The size of the Host Behavior Support data structure in bytes. Byte 0 is ACRE: 1 where the host
/// honours Command Retry Delays.
pub const HOST_BEHAVIOR_SIZE: usize = 512;

/// SEL, CDW10 10:8 of Get Features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Select {
    /// 000b.
    Current,
    /// 001b.
    Default,
    /// 010b.
    Saved,
    /// 011b: the feature's abilities: bit 0 saveable, 1 namespace specific, 2 changeable.
    Capabilities,
}

/// A Get Features command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GetFeature {
    /// CDW10 7:0.
    pub fid: u8,
    /// CDW10 10:8; none where reserved.
    pub select: Option<Select>,
    /// CDW11.
    pub cdw11: u32,
}

impl GetFeature {
    /// Reads the fields of a Get Features command.
    #[must_use]
    pub fn parse(sqe: &Sqe) -> Self {
        let [fid, sel, ..] = sqe.cdw10.to_bytes();
        let select = match sel & 0x7 {
            0 => Some(Select::Current),
            1 => Some(Select::Default),
            2 => Some(Select::Saved),
            3 => Some(Select::Capabilities),
            _ => None,
        };
        Self { fid, select, cdw11: sqe.cdw11.get() }
    }

    /// Returns the length of the answer's data in bytes.
    #[must_use]
    pub fn data_length(&self) -> usize {
        if self.select == Some(Select::Capabilities) {
            return 0;
        }
        match self.fid {
            fid::HOST_BEHAVIOR => HOST_BEHAVIOR_SIZE,
            fid::HOST_IDENTIFIER => host_identifier_length(self.cdw11),
            _ => 0,
        }
    }
}

/// A Set Features command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetFeature {
    /// CDW10 7:0.
    pub fid: u8,
    /// CDW10 31: whether to keep the value over resets and power cycles.
    pub save: bool,
    /// CDW11.
    pub cdw11: u32,
}

impl SetFeature {
    /// Reads the fields of a Set Features command.
    #[must_use]
    pub fn parse(sqe: &Sqe) -> Self {
        let [fid, _, _, high] = sqe.cdw10.to_bytes();
        Self { fid, save: high & 0x80 != 0, cdw11: sqe.cdw11.get() }
    }

    /// Returns the length of the command's data in bytes.
    #[must_use]
    pub fn data_length(&self) -> usize {
        match self.fid {
            fid::HOST_BEHAVIOR => HOST_BEHAVIOR_SIZE,
            fid::HOST_IDENTIFIER => host_identifier_length(self.cdw11),
            _ => 0,
        }
    }
}

/// Returns the length that EXHID, CDW11 bit 0 of the Host Identifier feature, tells: 16 bytes, else
/// 8.
fn host_identifier_length(cdw11: u32) -> usize {
    if cdw11 & 1 != 0 { 16 } else { 8 }
}
