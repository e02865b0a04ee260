//! A host's command as the device sees it: the blocks of one unit, without the bits that carry the
//! class to this target.

use fabric::nvm::{BlockFormat, IoCommand};
use fabric::nvme::Sqe;

use super::Unit;
use super::nvme_uapi::UringCmd;

/// CDW13 bits 15:8: spare, and used for the QoS class; a strict drive may refuse them.
const CDW13_SPARE: u32 = 0xff00;
/// CDW13 bits 9:8: the class.
const CDW13_CLASS: u32 = 0x0300;

/// The settings of all commands to one namespace of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passthrough {
    /// The device's own identifier of the namespace.
    pub(super) nsid: u32,
    format: BlockFormat,
    /// The bits of CDW13 that the device does not see.
    withheld: u32,
}

impl Passthrough {
    /// Makes the settings for a namespace of the device; with `forward_class` the device sees the
    /// class.
    pub(super) fn new(nsid: u32, format: BlockFormat, forward_class: bool) -> Self {
        let withheld = if forward_class { CDW13_SPARE & !CDW13_CLASS } else { CDW13_SPARE };
        Self { nsid, format, withheld }
    }

    /// Returns the command of one unit of a host's command, without the address of its data.
    pub(super) fn command(&self, sqe: &Sqe, parsed: &IoCommand, unit: &Unit) -> UringCmd {
        let mut command = UringCmd {
            opcode: sqe.opcode,
            nsid: self.nsid,
            cdw2: sqe.cdw2.get(),
            cdw3: sqe.cdw3.get(),
            cdw10: sqe.cdw10.get(),
            cdw11: sqe.cdw11.get(),
            cdw12: sqe.cdw12.get(),
            cdw13: sqe.cdw13.get(),
            cdw14: sqe.cdw14.get(),
            cdw15: sqe.cdw15.get(),
            ..UringCmd::default()
        };
        // With a command extension (CETYPE, CDW12 19:16) the bits are the extension's.
        if command.cdw12 >> 16 & 0xf == 0 {
            command.cdw13 &= !self.withheld;
        }
        if matches!(parsed, IoCommand::Deallocate { .. }) {
            // NR, CDW10 bits 7:0, is a 0's based number: one range, the part's.
            command.cdw10 &= !0xff;
        } else if !matches!(parsed, IoCommand::Flush | IoCommand::DatasetManagement { .. }) {
            let [a, b, c, d, e, f, g, h] = self.format.blocks(unit.offset).to_le_bytes();
            command.cdw10 = u32::from_le_bytes([a, b, c, d]);
            command.cdw11 = u32::from_le_bytes([e, f, g, h]);
            let blocks = self.format.blocks(unit.length);
            let nlb = u16::try_from(blocks.saturating_sub(1)).unwrap_or(u16::MAX);
            command.cdw12 = (command.cdw12 & 0xffff_0000) | u32::from(nlb);
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use fabric::nvm::LbaRange;
    use zerocopy::little_endian::U32;

    use super::*;

    const UNIT: Unit = Unit { offset: 7 << 12, length: 3 << 12, at: 0 };
    const READ: IoCommand = IoCommand::Read { range: LbaRange { lba: 7, blocks: 3 }, fua: false };

    fn sqe(cdw12: u32, cdw13: u32) -> Sqe {
        Sqe { opcode: 2, cdw12: U32::new(cdw12), cdw13: U32::new(cdw13), ..Sqe::default() }
    }

    fn cdw13(forward_class: bool, cdw12: u32) -> u32 {
        let device = Passthrough::new(1, BlockFormat::BYTES_4096, forward_class);
        device.command(&sqe(cdw12, 0xabcd_ef12), &READ, &UNIT).cdw13
    }

    #[test]
    fn a_device_sees_the_class_only_where_it_is_configured() {
        assert_eq!(cdw13(false, 2), 0xabcd_0012, "no spare bit, all of the others");
        assert_eq!(cdw13(true, 2), 0xabcd_0312, "the class alone");
    }

    #[test]
    fn the_bits_of_a_command_extension_are_the_hosts() {
        for extension in 1..16 {
            assert_eq!(cdw13(false, extension << 16), 0xabcd_ef12);
        }
        assert_eq!(cdw13(false, 2 << 20), 0xabcd_0012, "bits above CETYPE are no extension");
    }

    #[test]
    fn a_unit_names_its_own_blocks() {
        let device = Passthrough::new(9, BlockFormat::BYTES_512, false);
        let unit = Unit { offset: (0x1_2345_6789) << 9, length: 8 << 9, at: 0 };
        let command = device.command(&sqe(0xc000_00ff, 0), &READ, &unit);
        assert_eq!((command.opcode, command.nsid), (2, 9));
        assert_eq!((command.cdw10, command.cdw11), (0x2345_6789, 1));
        assert_eq!(command.cdw12, 0xc000_0007, "NLB of the unit, the host's FUA and LR");
    }

    #[test]
    fn commands_without_blocks_keep_their_dwords() {
        let device = Passthrough::new(9, BlockFormat::BYTES_512, false);
        let sqe = Sqe { cdw10: U32::new(3), cdw11: U32::new(4), ..sqe(0, 0) };
        let dwords = |command| {
            let sent = device.command(&sqe, &command, &UNIT);
            (sent.cdw10, sent.cdw11, sent.cdw12)
        };
        let dsm = IoCommand::DatasetManagement { ranges: 4, deallocate: true };
        assert_eq!(dwords(dsm), (3, 4, 0));
        let part = IoCommand::Deallocate { range: LbaRange { lba: 5, blocks: 6 } };
        assert_eq!(dwords(part), (0, 4, 0), "of one range");
    }
}
