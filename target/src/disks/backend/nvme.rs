//! `nvme`: io_uring passthrough to a real NVMe namespace (`/dev/ngXnY`). The device's Identify
//! data, limits and status codes show through.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fabric::controller::UsedBlocks;
use fabric::nvm::{BlockFormat, DSM_RANGE_BYTES, IoCommand, LbaRange};
use fabric::nvme::Status;
use fabric::nvme::identify::{IdentifyNamespace, NSFEAT_THINP};
use io_uring::types::Fd;
use io_uring::{opcode, squeue};

use super::claim::{Claim, Claimant};
use super::errors::{blames_device, concerns_path};
use super::nvme_uapi::{self, URING_CMD_IO};
use super::passthrough::Passthrough;
use super::queued::{is_transient, split};
use super::seen::{self, Present};
use super::sysfs::{self, Names};
use super::{
    Abilities, Answer, Backend, BackendError, Description, DeviceError, Finding, Health, Job,
    Memory, Opening, Outcome, Place, Queued, Style, Unit, signature,
};

/// A namespace of a real device.
#[derive(Debug)]
pub(super) struct NvmeDisk {
    description: Description,
    health: Health,
    /// Whether a refusal of the kernel was logged. Only the first is, since a host can cause any
    /// number of them.
    refusal_logged: AtomicBool,
    /// Whether commands may have data in registered buffers: the kernel has not refused it.
    registered: AtomicBool,
    device: File,
    passthrough: Passthrough,
    /// Largest transfer of one command in bytes.
    largest: u64,
    /// The claim that keeps others from the block device of the same namespace.
    _claim: Arc<Claim>,
}

impl NvmeDisk {
    /// Opens a generic character device.
    ///
    /// # Errors
    /// The device is missing, not permitted, no NVMe namespace, or in use; it has a format with metadata or a block
    /// size other than 512 or 4096 bytes; it differs from the device seen before, or it holds data and was never
    /// seen.
    pub(super) fn open(
        path: &Path,
        read_only: bool,
        forward_class: bool,
        opening: &Opening<'_>,
    ) -> Result<Self, BackendError> {
        let fail = |why: &dyn std::fmt::Display| BackendError::new(path.display(), why);
        let device = OpenOptions::new().read(true).write(!read_only).open(path).map_err(
            |error| match error.kind() {
                ErrorKind::NotFound => BackendError::missing(
                    path.display(),
                    "there is no such device (see `nvme list`)",
                ),
                _ => BackendError::io(path, &error),
            },
        )?;
        let nsid = nvme_uapi::namespace_id(&device).map_err(|e| match e.kind() {
            ErrorKind::WouldBlock => BackendError::missing(
                path.display(),
                "no live controller leads to it at present (see `nvme list-subsys`)",
            ),
            _ => fail(&format!("not an NVMe namespace ({e}); give a device like /dev/ng0n1")),
        })?;
        let identify = nvme_uapi::identify(&device, 0, nsid)
            .map_err(|e| fail(&format!("Identify Namespace failed: {e}")))?;
        let controller = nvme_uapi::identify(&device, 1, 0)
            .map_err(|e| fail(&format!("Identify Controller failed: {e}")))?;
        let format = format(&identify).map_err(|why| fail(&why))?;
        let largest = largest_transfer(path, byte(&controller[..], 77));
        let oncs = u16::from(byte(&controller[..], 520));
        let claimant = Claimant { path, namespace: opening.namespace, writes: !read_only };
        let (claim, names) = claim(claimant, &device, opening, (&identify, &controller))?;
        let blocks = blocks(Some(&identify));
        let now = Present { path, size: format.bytes(blocks), names: &names };
        seen::compare(opening.seen, &now, None)?;
        if let Some(beside) = claim.device().filter(|_| !read_only) {
            signature::check(path, beside, opening)?;
        }
        let description = Description {
            kind: "nvme",
            path: Some(path.to_owned()),
            device: seen::kept(&names),
            region: None,
            seeks: claim.device().and_then(sysfs::seeks),
            format,
            abilities: Abilities {
                volatile_cache: byte(&controller[..], 525) & 1 == 1,
                deallocate: oncs >> 2 & 1 == 1,
                // DLFEAT 2:0 = 001b.
                zeroes_after_deallocate: byte(&identify[..], 33) & 0b111 == 1,
                // DLFEAT 3.
                write_zeroes_deallocates: byte(&identify[..], 33) >> 3 & 1 == 1,
                write_zeroes: oncs >> 3 & 1 == 1,
                compare: oncs & 1 == 1,
                verify: oncs >> 7 & 1 == 1,
            },
            // Hosts have the device's own.
            preferred: None,
            used: is_thin(&identify).then(UsedBlocks::default),
            notice: None,
            identify: Some(identify),
            controller: Some(controller),
        };
        if let (Some(used), Some(identify)) = (&description.used, &description.identify) {
            used.set(used_blocks(identify));
        }
        let passthrough = Passthrough::new(nsid, format, forward_class);
        let health = Health::new(blocks);
        let (refusal_logged, registered) = (AtomicBool::new(false), AtomicBool::new(true));
        let _claim = claim;
        Ok(Self {
            description,
            health,
            refusal_logged,
            registered,
            device,
            passthrough,
            largest,
            _claim,
        })
    }

    fn format(&self) -> BlockFormat {
        self.description.format
    }

    /// Returns the largest transfer of one command that is whole blocks, in bytes.
    fn largest_whole(&self) -> u64 {
        self.format().bytes(self.format().blocks(self.largest))
    }

    fn name(&self) -> String {
        self.description.path.as_deref().unwrap_or(Path::new("?")).display().to_string()
    }

    fn gone(&self) -> String {
        format!("{}: the device is gone", self.name())
    }

    #[cold]
    fn note(&self, job: &Job<'_>, unit: &Unit, answer: Answer) {
        self.health.note(DeviceError::new(job.command, self.format().blocks(unit.offset), answer));
    }

    /// Classifies EINVAL. The kernel returns it for a malformed command, and for any command while no live controller
    /// leads to the namespace: during a controller reset, and during the removal of the device, before and after its
    /// file disappears.
    #[cold]
    fn refused(&self) -> Outcome {
        if self.description.path.as_deref().is_some_and(|path| !path.exists()) {
            self.health.fail(self.gone());
            return Outcome::Done(0, Status::NAMESPACE_NOT_READY);
        }
        // A path may have returned since the kernel's answer, so that one EINVAL does not prove a malformed command.
        if self.may_refuse() { Outcome::Busy } else { Outcome::NoPath }
    }

    fn supports(&self, command: &IoCommand) -> bool {
        let can = &self.description.abilities;
        match command {
            IoCommand::Read { .. } | IoCommand::Write { .. } | IoCommand::Flush => true,
            IoCommand::WriteZeroes { .. } => can.write_zeroes,
            IoCommand::Compare { .. } => can.compare,
            IoCommand::Verify { .. } => can.verify,
            IoCommand::DatasetManagement { .. } | IoCommand::Deallocate { .. } => can.deallocate,
        }
    }
}

/// Claims a passthrough device by the block device of the same namespace, since the character
/// device itself may be open any number of times. Returns the claim, and the names that the device
/// reports. `identify` is Identify Namespace and Identify Controller.
fn claim(
    claimant: Claimant<'_>,
    device: &File,
    opening: &Opening<'_>,
    identify: (&[u8; 4096], &[u8; 4096]),
) -> Result<(Arc<Claim>, Names), BackendError> {
    let own_names = names(identify.0, identify.1);
    if let Some((beside, number)) = sysfs::block_beside(device, claimant.path) {
        let mut names = sysfs::names(number);
        names.extend(own_names);
        return Ok((opening.claims.block(claimant, &beside, number)?, names));
    }
    tracing::warn!(
        device = %claimant.path.display(),
        "the namespace has no block device to open exclusively: nothing keeps other programs from \
         the device"
    );
    let metadata = device.metadata().map_err(|error| BackendError::io(claimant.path, &error))?;
    Ok((opening.claims.character(claimant, metadata.rdev())?, own_names))
}

/// Reads the names that a device reports: NGUID (bytes 119:104) and EUI64 (bytes 127:120) of
/// Identify Namespace, the serial number (bytes 23:4) of Identify Controller.
fn names(namespace: &[u8; 4096], controller: &[u8; 4096]) -> Names {
    let hex = |range: Range<usize>| {
        let bytes = namespace.get(range).unwrap_or_default();
        let set = bytes.iter().any(|&byte| byte != 0);
        set.then(|| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    };
    let serial = String::from_utf8_lossy(controller.get(4..24).unwrap_or_default());
    let serial = Some(serial.trim().to_owned()).filter(|serial| !serial.is_empty());
    let all = [("nguid", hex(104..120)), ("eui64", hex(120..128)), ("controller", serial)];
    all.into_iter().filter_map(|(word, value)| Some((word, value?))).collect()
}

/// Returns the status of a completion with a positive result, for the host: the drive's CRDT values and error log
/// do not apply to the target's controllers.
fn relayed(result: i32) -> Status {
    u16::try_from(result).map_or(Status::INTERNAL_ERROR, |bits| Status::from_bits(bits).relayed())
}

fn byte(data: &[u8], at: usize) -> u8 {
    data.get(at).copied().unwrap_or(0)
}

/// Reads NSZE, bytes 7:0 of Identify Namespace.
fn blocks(identify: Option<&[u8; 4096]>) -> u64 {
    identify.and_then(|data| data.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Returns whether a device provisions thinly: NSFEAT (byte 24), bit 0.
fn is_thin(identify: &[u8; 4096]) -> bool {
    byte(identify, 24) & NSFEAT_THINP != 0
}

/// Reads NUSE, bytes 23:16 of Identify Namespace.
fn used_blocks(identify: &[u8; 4096]) -> u64 {
    let identify: &IdentifyNamespace = zerocopy::transmute_ref!(identify);
    identify.nuse.get()
}

/// Reads the format in use.
///
/// # Errors
/// The format has metadata, or blocks of another size than 512 or 4096 bytes.
fn format(identify: &[u8; 4096]) -> Result<BlockFormat, String> {
    let identify: &IdentifyNamespace = zerocopy::transmute_ref!(identify);
    let format = BlockFormat::in_use(identify).map_err(|why| why.to_string())?;
    let (bytes, metadata) = (format.data_bytes(), format.metadata_bytes());
    if metadata != 0 {
        return Err(format!(
            "its format has {metadata} bytes of metadata for each block, which is not served; \
             format the namespace without metadata"
        ));
    }
    match format {
        BlockFormat::BYTES_512 | BlockFormat::BYTES_4096 => Ok(format),
        _ => Err(format!("its blocks have {bytes} bytes; 512 or 4096 are served")),
    }
}

/// Returns the largest transfer that neither the device (MDTS, in units of 4 KiB at least) nor the
/// kernel (which does not split passthrough commands) refuses.
fn largest_transfer(path: &Path, mdts: u8) -> u64 {
    let device = match mdts {
        0 => u64::MAX,
        n => 4096u64.checked_shl(u32::from(n)).unwrap_or(u64::MAX),
    };
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("");
    let queue = name.strip_prefix("ng").map(|rest| format!("/sys/block/nvme{rest}/queue"));
    let setting = |key: &str| -> Option<u64> {
        std::fs::read_to_string(format!("{}/{key}", queue.as_deref()?)).ok()?.trim().parse().ok()
    };
    let kernel = setting("max_hw_sectors_kb").map_or(128 << 10, |kb| kb << 10);
    // One page for each segment in the worst case.
    let segments = setting("max_segments").map_or(u64::MAX, |n| n.saturating_mul(4096));
    device.min(kernel).min(segments).max(4096)
}

impl Backend for NvmeDisk {
    fn description(&self) -> &Description {
        &self.description
    }

    fn health(&self) -> &Health {
        &self.health
    }

    fn style(&self) -> Style<'_> {
        Style::Queued(self)
    }

    fn look(&self) -> Option<Finding> {
        let path = self.description.path.as_deref()?;
        if !path.exists() {
            return Some(Finding::Gone(self.gone()));
        }
        if let Some(used) = &self.description.used
            && let Ok(identify) = nvme_uapi::identify(&self.device, 0, self.passthrough.nsid)
        {
            used.set(used_blocks(&identify));
        }
        None
    }

    fn present_blocks(&self) -> Result<u64, BackendError> {
        let identify = nvme_uapi::identify(&self.device, 0, self.passthrough.nsid)
            .map_err(|e| BackendError::new(self.name(), format!("Identify failed: {e}")))?;
        Ok(blocks(Some(&identify)))
    }

    fn resize(&self, size: Option<u64>) -> Result<u64, BackendError> {
        if size.is_some() {
            return Err(BackendError::new(
                self.name(),
                "the size of a passthrough namespace is its device's: resize the device, then \
                 give no size to take it over",
            ));
        }
        let now = self.present_blocks()?;
        self.health.set_blocks(now);
        Ok(now)
    }
}

impl Queued for NvmeDisk {
    fn plan(&self, job: &Job<'_>, units: &mut Vec<Unit>) -> Result<Memory, Status> {
        if !self.supports(job.command) {
            return Err(Status::INVALID_OPCODE.dnr());
        }
        let whole = |range: &LbaRange| Unit {
            offset: range.offset(self.format()),
            length: range.bytes(self.format()),
            at: 0,
        };
        match job.command {
            IoCommand::Read { range, .. }
            | IoCommand::Write { range, .. }
            | IoCommand::Compare { range } => {
                let all = whole(range);
                split(units, all.offset, all.length, self.largest_whole());
                Ok(Memory::Data)
            }
            IoCommand::WriteZeroes { range, .. } | IoCommand::Verify { range } => {
                // These commands bring no data, but a device may limit them too (WZSL, VSL; else
                // MDTS).
                let all = whole(range);
                split(units, all.offset, all.length, self.largest_whole());
                Ok(Memory::None)
            }
            IoCommand::Flush => {
                units.push(Unit { offset: 0, length: 0, at: 0 });
                Ok(Memory::None)
            }
            IoCommand::DatasetManagement { ranges, .. } => {
                let length = u64::from(*ranges) * u64::from(DSM_RANGE_BYTES);
                units.push(Unit { offset: 0, length, at: 0 });
                Ok(Memory::Data)
            }
            IoCommand::Deallocate { .. } => {
                let length = u64::from(DSM_RANGE_BYTES);
                units.push(Unit { offset: 0, length, at: 0 });
                Ok(Memory::Scratch(DSM_RANGE_BYTES))
            }
        }
    }

    fn fill(&self, job: &Job<'_>, scratch: &mut [u8]) {
        if let IoCommand::Deallocate { range } = job.command
            && let Some(definition) = scratch.first_chunk_mut()
        {
            *definition = range.definition();
        }
    }

    fn registered(&self) -> Option<&AtomicBool> {
        Some(&self.registered)
    }

    fn entry(&self, job: &Job<'_>, unit: &Unit, memory: Place) -> squeue::Entry128 {
        let mut command = self.passthrough.command(job.sqe, job.command, unit);
        if !memory.address.is_null() {
            command.addr = memory.address as u64;
            debug_assert!(u32::try_from(unit.length).is_ok(), "units are no larger than MDTS");
            command.data_len = u32::try_from(unit.length).unwrap_or(0);
        }
        opcode::UringCmd80::new(Fd(self.device.as_raw_fd()), URING_CMD_IO)
            .cmd(command.area())
            .buf_index(memory.registered)
            .build()
    }

    fn may_refuse(&self) -> bool {
        nvme_uapi::namespace_id(&self.device).is_ok()
    }

    fn finish(&self, job: &Job<'_>, unit: &Unit, result: i32, extra: u64) -> Outcome {
        match result {
            0 => Outcome::Done(extra, Status::SUCCESS),
            // An NVMe status, as the device gave it, or the kernel in its name.
            1.. => {
                let status = relayed(result);
                if concerns_path(status) {
                    return Outcome::NoPath;
                }
                if blames_device(status) {
                    self.note(job, unit, Answer::Status(status));
                }
                Outcome::Done(extra, status)
            }
            _ => match -result {
                errno if is_transient(errno) => Outcome::Busy,
                libc::ENODEV | libc::ENXIO | libc::ESHUTDOWN => {
                    self.health.fail(self.gone());
                    Outcome::Done(0, Status::NAMESPACE_NOT_READY)
                }
                libc::EINVAL => self.refused(),
                errno @ (libc::EACCES | libc::EPERM | libc::EOPNOTSUPP) => {
                    let why = std::io::Error::from_raw_os_error(errno).to_string();
                    if !self.refusal_logged.swap(true, Ordering::Relaxed) {
                        tracing::warn!(
                            device = self.name(),
                            why,
                            "the kernel refuses commands of this kind: give the daemon CAP_SYS_ADMIN, \
                             or serve the drive with backend = \"block\""
                        );
                    }
                    Outcome::Done(0, Status::INVALID_OPCODE.dnr())
                }
                errno => {
                    self.note(job, unit, Answer::Errno(errno));
                    Outcome::Done(0, Status::INTERNAL_ERROR)
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_of_a_drive_reaches_hosts_without_its_retry_delay_and_more_bit() {
        let interrupted = Status::COMMAND_INTERRUPTED;
        let drive = interrupted.with_retry_delay(3).more();
        assert_eq!(relayed(drive.bits().into()), interrupted);
        let fault = Status::WRITE_FAULT.dnr();
        let drive = fault.more();
        assert_eq!(relayed(drive.bits().into()), fault, "Do Not Retry holds for the host too");
        assert_eq!(relayed(i32::MAX), Status::INTERNAL_ERROR);
    }
}
