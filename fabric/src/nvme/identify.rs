//! Identify data structures (NVMe base 2.0, section 5.17; NVM command set 1.0, section 4.1.5).

mod controller;
mod namespace;
mod size;

use zerocopy::FromZeros;

use super::Sqe;

pub use controller::*;
pub use namespace::*;
pub use size::IDENTIFY_SIZE;

/// Controller or Namespace Structure codes, CDW10 7:0.
pub mod cns {
    /// Identify Namespace, NVM command set.
    pub const NAMESPACE: u8 = 0x00;
    /// Identify Controller.
    pub const CONTROLLER: u8 = 0x01;
    /// Active namespace ID list.
    pub const ACTIVE_LIST: u8 = 0x02;
    /// Namespace Identification Descriptor list.
    pub const DESCRIPTORS: u8 = 0x03;
    /// I/O command set specific Identify Namespace.
    pub const NAMESPACE_CSI: u8 = 0x05;
    /// I/O command set specific Identify Controller.
    pub const CONTROLLER_CSI: u8 = 0x06;
    /// I/O command set specific active namespace ID list.
    pub const ACTIVE_LIST_CSI: u8 = 0x07;
    /// I/O command set independent Identify Namespace.
    pub const NAMESPACE_INDEPENDENT: u8 = 0x08;
    /// Allocated namespace ID list.
    pub const ALLOCATED_LIST: u8 = 0x10;
    /// Identify Namespace of an allocated namespace.
    pub const ALLOCATED_NAMESPACE: u8 = 0x11;
    /// Controllers attached to a namespace.
    pub const NAMESPACE_CONTROLLERS: u8 = 0x12;
    /// Controllers of the subsystem.
    pub const SUBSYSTEM_CONTROLLERS: u8 = 0x13;
    /// I/O command set combinations.
    pub const COMMAND_SETS: u8 = 0x1c;
}

/// CSI of the NVM command set.
pub const CSI_NVM: u8 = 0x00;

/// The fields of an Identify command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdentifyCommand {
    /// CDW10 7:0: see [`cns`].
    pub cns: u8,
    /// CDW10 31:16: controller identifier.
    pub cntid: u16,
    /// CDW11 31:24: command set identifier.
    pub csi: u8,
    /// CDW1.
    pub nsid: u32,
}

impl IdentifyCommand {
    /// Reads the fields of an Identify command.
    #[must_use]
    pub fn parse(sqe: &Sqe) -> Self {
        let [cns, _, low, high] = sqe.cdw10.to_bytes();
        let [_, _, _, csi] = sqe.cdw11.to_bytes();
        Self { cns, cntid: u16::from_le_bytes([low, high]), csi, nsid: sqe.nsid.get() }
    }
}

/// Makes an all-zero structure, boxed because Identify structures are too large to move about.
#[must_use]
pub fn zeroed<T: FromZeros>() -> Box<T> {
    Box::new(T::new_zeroed())
}

/// Pads `text` with spaces (or cuts it) to `N` bytes, as Identify's ASCII fields want it;
/// characters outside printable ASCII become `?`.
#[must_use]
pub fn ascii<const N: usize>(text: &str) -> [u8; N] {
    let mut out = [b' '; N];
    for (to, c) in out.iter_mut().zip(text.chars()) {
        *to = if matches!(c, ' '..='~') { u8::try_from(c).unwrap_or(b'?') } else { b'?' };
    }
    out
}

/// Ends `text` by NUL and cuts it to `N` bytes, as NQN and address fields want it.
#[must_use]
pub fn nul_padded<const N: usize>(text: &str) -> [u8; N] {
    let mut out = [0; N];
    for (to, from) in out.iter_mut().take(N.saturating_sub(1)).zip(text.bytes()) {
        *to = from;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_fields_are_padded_and_cut() {
        assert_eq!(&ascii::<4>("ab"), b"ab  ");
        assert_eq!(&ascii::<4>("a\u{e9}bcd"), b"a?bc");
        assert_eq!(&nul_padded::<4>("abcdef"), b"abc\0");
    }
}
