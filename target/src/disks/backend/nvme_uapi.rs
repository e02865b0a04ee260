//! The kernel's NVMe passthrough interface (`linux/nvme_ioctl.h`): the only place that knows its
//! structures and ioctl numbers.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// io_uring command: an I/O command with one buffer, `_IOWR('N', 0x80, struct nvme_uring_cmd)`.
pub(super) const URING_CMD_IO: u32 = 0xc048_4e80;

/// `struct nvme_uring_cmd`, 72 bytes.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub(super) struct UringCmd {
    pub(super) opcode: u8,
    pub(super) flags: u8,
    pub(super) rsvd1: u16,
    pub(super) nsid: u32,
    pub(super) cdw2: u32,
    pub(super) cdw3: u32,
    pub(super) metadata: u64,
    pub(super) addr: u64,
    pub(super) metadata_len: u32,
    pub(super) data_len: u32,
    pub(super) cdw10: u32,
    pub(super) cdw11: u32,
    pub(super) cdw12: u32,
    pub(super) cdw13: u32,
    pub(super) cdw14: u32,
    pub(super) cdw15: u32,
    pub(super) timeout_ms: u32,
    pub(super) rsvd2: u32,
}

const _: () = assert!(size_of::<UringCmd>() == 72);

impl UringCmd {
    /// Returns the command area of a 128-byte submission entry.
    pub(super) fn area(&self) -> [u8; 80] {
        let mut area = [0; 80];
        for (to, from) in area.iter_mut().zip(self.as_bytes()) {
            *to = *from;
        }
        area
    }
}

/// `struct nvme_passthru_cmd`: as [`UringCmd`], with the result as its last field.
#[repr(C)]
#[derive(Default)]
struct PassthruCmd {
    command: UringCmd,
}

nix::ioctl_none!(nvme_id, b'N', 0x40);
nix::ioctl_readwrite!(nvme_admin_cmd, b'N', 0x41, PassthruCmd);

/// Returns the namespace identifier behind a generic character device.
///
/// # Errors
/// The file is no NVMe namespace device.
pub(super) fn namespace_id(device: &File) -> io::Result<u32> {
    // SAFETY: the ioctl takes no argument.
    let nsid = unsafe { nvme_id(device.as_raw_fd()) }?;
    u32::try_from(nsid).map_err(io::Error::other)
}

/// Sends Identify; `cns` 0 is the namespace `nsid`, 1 the controller.
///
/// # Errors
/// The device's or the kernel's refusal.
pub(super) fn identify(device: &File, cns: u32, nsid: u32) -> io::Result<Box<[u8; 4096]>> {
    let mut data = Box::new([0u8; 4096]);
    let mut command = PassthruCmd {
        command: UringCmd {
            opcode: fabric::nvme::opcode::admin::IDENTIFY,
            nsid,
            addr: data.as_mut_ptr() as u64,
            data_len: 4096,
            cdw10: cns,
            ..UringCmd::default()
        },
    };
    // SAFETY: the structure is the kernel's (72 bytes), and its buffer has the 4096 bytes that
    // Identify returns.
    let status = unsafe { nvme_admin_cmd(device.as_raw_fd(), &raw mut command) }?;
    match u16::try_from(status) {
        Ok(0) => Ok(data),
        Ok(status) => Err(io::Error::other(fabric::nvme::Status::from_bits(status).to_string())),
        Err(_) => Err(io::Error::other("Identify failed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ioctl_numbers_are_the_kernels() {
        assert_eq!(nix::request_code_readwrite!(b'N', 0x80, 72), u64::from(URING_CMD_IO));
        assert_eq!(size_of::<PassthruCmd>(), 72);
    }
}
