//! `backend` of a namespace with the keys that belong to it, and how each is read and written.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::amounts::{format_duration, format_size};
use crate::keys::PARALLEL_MAX;

use super::fields::{At, Fields};
use super::qos::values::{bandwidth, percent};
use super::table::Written;
use super::values;

/// Largest namespace in bytes, 1 EiB: more than any drive or file system holds, and far enough
/// below 2^63, where file offsets end.
pub(crate) const SIZE_MAX: u64 = 1 << 60;
/// Largest `memory` namespace in bytes: 4 TiB.
pub const MEMORY_MAX: u64 = 4 << 40;

/// The store of a namespace's blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// `null`: reads zeroes, forgets writes.
    Null {
        /// `size` in bytes.
        size: u64,
        /// `block_size` in bytes: 512 or 4096.
        block_size: u32,
        /// The times that the device takes; `None` means that commands take no time.
        model: Option<DeviceModel>,
    },
    /// `memory`: anonymous memory, allocated as it is written, lost at exit.
    Memory {
        /// `size` in bytes.
        size: u64,
        /// `block_size` in bytes: 512 or 4096.
        block_size: u32,
    },
    /// `file` or `block`: a regular file or a block device.
    File {
        /// `path`.
        path: PathBuf,
        /// `size` in bytes: the file grows to it; `None` means the size it has.
        size: Option<u64>,
        /// `block_size` in bytes: 512 or 4096; `None` means the device's, and 4096 for a file.
        block_size: Option<u32>,
        /// `direct`: whether to use O_DIRECT where it is possible (the default).
        direct: bool,
        /// `create`: whether a missing regular file is created with `size`, for a namespace that
        /// was never seen.
        create: bool,
    },
    /// `pmem`: persistent memory, or a substitute for it, with atomic blocks.
    Pmem {
        /// `path`: a device `/dev/daxX.Y`, or a file.
        path: PathBuf,
        /// `size` in bytes that hosts get; `None` means the whole region.
        size: Option<u64>,
        /// `block_size` in bytes: 512 or 4096; `None` means the block size in the region's table, or 4096 if the
        /// table is created.
        block_size: Option<u32>,
        /// `create`: whether a missing regular file is created with `size`, for a namespace that
        /// was never seen.
        create: bool,
    },
    /// `nvme`: io_uring passthrough to an NVMe namespace.
    Nvme {
        /// `device`: the generic character device, `/dev/ngXnY`.
        device: PathBuf,
        /// `forward_class`: whether the device sees the class bits of CDW13 too.
        forward_class: bool,
    },
}

impl Backend {
    /// Returns the path of the file or device; `None` for null and memory.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File { path, .. } | Self::Pmem { path, .. } => Some(path),
            Self::Nvme { device, .. } => Some(device),
            Self::Null { .. } | Self::Memory { .. } => None,
        }
    }

    /// Returns `null`, `memory`, `file`, `block`, `pmem` or `nvme`, as far as the configuration tells.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::File { path, .. } if path.starts_with("/dev") => "block",
            Self::File { .. } => "file",
            Self::Pmem { .. } => "pmem",
            Self::Nvme { .. } => "nvme",
            Self::Null { .. } => "null",
            Self::Memory { .. } => "memory",
        }
    }

    /// Sets the size in bytes with which the backend is opened.
    pub fn set_size(&mut self, bytes: Option<u64>) {
        match self {
            Self::Null { size, .. } | Self::Memory { size, .. } => *size = bytes.unwrap_or(*size),
            Self::File { size, .. } | Self::Pmem { size, .. } => *size = bytes,
            Self::Nvme { .. } => {}
        }
    }

    /// Returns whether a missing file is created.
    #[must_use]
    pub fn creates(&self) -> bool {
        matches!(self, Self::File { create: true, .. } | Self::Pmem { create: true, .. })
    }

    /// Sets whether a missing file is created; without effect on backends that have no file.
    pub fn set_create(&mut self, create: bool) {
        if let Self::File { create: now, .. } | Self::Pmem { create: now, .. } = self {
            *now = create;
        }
    }
}

/// Writers of the keys for a file.
impl Backend {
    /// Writes `backend`. A block device is served like a file.
    pub(super) fn write_word(&self) -> Written {
        Written::same(match self {
            Self::File { .. } => "file",
            other => other.kind(),
        })
    }

    /// Writes `size`.
    pub(super) fn write_size(&self) -> Written {
        let size = match self {
            Self::Null { size, .. } | Self::Memory { size, .. } => Some(*size),
            Self::File { size, .. } | Self::Pmem { size, .. } => *size,
            Self::Nvme { .. } => None,
        };
        size.map_or_else(Written::nothing, |size| Written::text(&format_size(size), size))
    }

    /// Writes `create`.
    pub(super) fn write_create(&self) -> Written {
        Written::if_set(self.creates())
    }

    /// Writes `block_size`.
    pub(super) fn write_block_size(&self) -> Written {
        Written::same(match self {
            Self::Null { block_size, .. } | Self::Memory { block_size, .. } => Some(*block_size),
            Self::File { block_size, .. } | Self::Pmem { block_size, .. } => *block_size,
            Self::Nvme { .. } => None,
        })
    }

    /// Writes `path`.
    pub(super) fn write_path(&self) -> Written {
        match self {
            Self::File { path, .. } | Self::Pmem { path, .. } => {
                Written::same(path.to_string_lossy())
            }
            _ => Written::nothing(),
        }
    }

    /// Writes `direct`.
    pub(super) fn write_direct(&self) -> Written {
        match self {
            Self::File { direct, .. } => Written::same(*direct),
            _ => Written::nothing(),
        }
    }

    /// Writes `device`.
    pub(super) fn write_device(&self) -> Written {
        match self {
            Self::Nvme { device, .. } => Written::same(device.to_string_lossy()),
            _ => Written::nothing(),
        }
    }

    /// Writes `forward_class`.
    pub(super) fn write_forward_class(&self) -> Written {
        Written::if_set(matches!(self, Self::Nvme { forward_class: true, .. }))
    }

    fn model(&self) -> Option<&DeviceModel> {
        match self {
            Self::Null { model, .. } => model.as_ref(),
            _ => None,
        }
    }

    /// Writes `service_time`.
    pub(super) fn write_service_time(&self) -> Written {
        Written::same(self.model().map(|model| format_duration(model.service_time)))
    }

    /// Writes `bandwidth`.
    pub(super) fn write_bandwidth(&self) -> Written {
        let bytes = self.model().and_then(|model| model.bandwidth);
        bytes.map_or_else(Written::nothing, |bytes| Written::text(&format_size(bytes), bytes))
    }

    /// Writes `channels`.
    pub(super) fn write_channels(&self) -> Written {
        Written::same(self.model().map(|model| model.channels))
    }

    /// Writes `errors`.
    pub(super) fn write_errors(&self) -> Written {
        let share = self.model().and_then(|model| model.errors);
        share.map_or_else(Written::nothing, |share| Written::text(&format!("{share} %"), share))
    }
}

/// The model of a device that `null` imitates, to try out what quality of service does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceModel {
    /// `service_time` of a command, without the time for its bytes.
    pub service_time: Duration,
    /// `bandwidth` of each of its channels in bytes per second; `None` means that bytes take no
    /// time.
    pub bandwidth: Option<u64>,
    /// `channels`: commands that are carried out at the same time.
    pub channels: u32,
    /// `errors`: the commands of a hundred that fail; `None` means that no command fails.
    pub errors: Option<u8>,
}

/// The kind of a backend, which decides about its settings.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Null,
    Memory,
    File,
    Pmem,
    Nvme,
}

/// The settings of the device that `null` imitates.
const MODEL: [&str; 4] = ["service_time", "bandwidth", "channels", "errors"];

/// The words of `backend`.
pub(crate) const KINDS: [(&str, Kind); 6] = [
    ("null", Kind::Null),
    ("memory", Kind::Memory),
    ("file", Kind::File),
    ("block", Kind::File),
    ("pmem", Kind::Pmem),
    ("nvme", Kind::Nvme),
];

/// Reads `backend` and the settings that belong to it.
pub(super) fn backend(fields: &mut Fields<'_>) -> Option<Backend> {
    let kind = fields.require("backend", "\"memory\"", values::choice(&KINDS));
    // If `backend` itself is invalid, its settings are not reported as unknown.
    fields.know(&["size", "block_size", "path", "direct", "create", "device", "forward_class"]);
    fields.know(&MODEL);
    match kind?.value {
        kind @ (Kind::Null | Kind::Memory) => sized(fields, kind),
        Kind::File => file(fields),
        Kind::Pmem => pmem(fields),
        Kind::Nvme => nvme(fields),
    }
}

/// Reads the settings of `null` and `memory`.
fn sized(fields: &mut Fields<'_>, kind: Kind) -> Option<Backend> {
    let most = if matches!(kind, Kind::Memory) { MEMORY_MAX } else { SIZE_MAX };
    let size = fields.require("size", "\"4 GiB\"", values::size_within(4096, most));
    let block_size = fields.get("block_size", values::block_size).map(|at| at.value);
    let unread = fields.unread("block_size", block_size.as_ref());
    let block_size = block_size.unwrap_or(4096);
    refuse(fields, &["path", "create"], "belongs to the backends \"file\", \"block\" and \"pmem\"");
    refuse(fields, &["direct"], "belongs to the backends \"file\" and \"block\"");
    refuse(fields, &["device", "forward_class"], "belongs to the backend \"nvme\"");
    let model = match kind {
        Kind::Null => device_model(fields),
        _ => refuse_model(fields),
    };
    let size = size?;
    if unread {
        return None;
    }
    let size = whole_blocks(size, block_size, fields)?;
    Some(match kind {
        Kind::Memory => Backend::Memory { size, block_size },
        _ => Backend::Null { size, block_size, model },
    })
}

/// Reads the settings of `file` and `block`.
fn file(fields: &mut Fields<'_>) -> Option<Backend> {
    let path = fields.require("path", "\"/srv/disk1.img\"", values::path);
    let size = fields.get("size", values::size_within(4096, SIZE_MAX));
    let block_size = fields.get("block_size", values::block_size).map(|at| at.value);
    let direct = fields.value_or("direct", true, values::boolean);
    let create = fields.get("create", values::boolean);
    refuse(
        fields,
        &["device"],
        "belongs to the backend \"nvme\"; a file or block device is `path`",
    );
    refuse(fields, &["forward_class"], "belongs to the backend \"nvme\"");
    refuse_model(fields);
    let (size, create) = checked_size(fields, size, block_size, create)?;
    Some(Backend::File { path: path?.value, size, block_size, direct, create })
}

/// Reads the settings of `pmem`.
fn pmem(fields: &mut Fields<'_>) -> Option<Backend> {
    let path = fields.require("path", "\"/dev/dax0.0\"", values::path);
    let size = fields.get("size", values::size_within(4096, SIZE_MAX));
    let block_size = fields.get("block_size", values::block_size).map(|at| at.value);
    let create = fields.get("create", values::boolean);
    refuse(fields, &["direct"], "belongs to the backends \"file\" and \"block\"");
    refuse(fields, &["device"], "belongs to the backend \"nvme\"; a DAX device is `path`");
    refuse(fields, &["forward_class"], "belongs to the backend \"nvme\"");
    refuse_model(fields);
    let (size, create) = checked_size(fields, size, block_size, create)?;
    Some(Backend::Pmem { path: path?.value, size, block_size, create })
}

/// Checks that a file's `size` is of whole blocks, and is there where the file may be created.
fn checked_size(
    fields: &Fields<'_>,
    size: Option<At<u64>>,
    block_size: Option<u32>,
    create: Option<At<bool>>,
) -> Option<(Option<u64>, bool)> {
    let unread = fields.unread("block_size", block_size.as_ref());
    let size = match size.filter(|_| !unread) {
        Some(size) => Some(whole_blocks(size, block_size.unwrap_or(4096), fields)?),
        None => None,
    };
    match create.filter(|create| create.value) {
        Some(place) if size.is_none() => {
            let message = "`create` is set, and `size` is not";
            fields.problems().at(&place, message, "say how large the file becomes: `size`");
            None
        }
        create => Some((size, create.is_some())),
    }
}

/// Reads the settings of `nvme`.
fn nvme(fields: &mut Fields<'_>) -> Option<Backend> {
    let device = fields.require("device", "\"/dev/ng0n1\"", values::path);
    let theirs = "is taken from the device with the backend \"nvme\"";
    refuse(fields, &["size", "block_size"], theirs);
    refuse(
        fields,
        &["path"],
        "belongs to the backends \"file\", \"block\" and \"pmem\"; here it is `device`",
    );
    refuse(fields, &["direct"], "belongs to the backends \"file\" and \"block\"");
    refuse(fields, &["create"], "belongs to the backends \"file\", \"block\" and \"pmem\"");
    refuse_model(fields);
    let forward_class = fields.value_or("forward_class", false, values::boolean);
    let device = device?;
    let name = device.value.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name.starts_with("nvme") && device.value.starts_with("/dev") {
        let message = "`device` is the block device, not the generic character device".to_owned();
        let generic = name.replacen("nvme", "ng", 1);
        let remedy = format!(
            "write device = \"/dev/{generic}\", or backend = \"block\" and path = \"/dev/{name}\""
        );
        fields.problems().at(&device, message, remedy);
    }
    Some(Backend::Nvme { device: device.value, forward_class })
}

/// Refuses the settings of the device that `null` imitates.
fn refuse_model(fields: &mut Fields<'_>) -> Option<DeviceModel> {
    refuse(fields, &MODEL, "belongs to the backend \"null\", which models a device");
    None
}

/// Refuses settings of other backends.
fn refuse(fields: &mut Fields<'_>, keys: &[&'static str], reason: &str) {
    for key in keys {
        fields.refuse(key, &format!("`{key}` {reason}"), "remove it");
    }
}

/// Returns the size if it is a multiple of the block size.
fn whole_blocks(size: At<u64>, block_size: u32, fields: &Fields<'_>) -> Option<u64> {
    let block = u64::from(block_size);
    if size.value.is_multiple_of(block) {
        return Some(size.value);
    }
    let message = format!("`size` is {} bytes, not a multiple of block_size {block}", size.value);
    let below = size.value / block * block;
    fields.problems().at(
        &size,
        message,
        format!("write {below} or {}", below.saturating_add(block)),
    );
    None
}

/// Reads `service_time`, `bandwidth`, `channels` and `errors` of the backend "null"; `None` where
/// all are missing.
fn device_model(fields: &mut Fields<'_>) -> Option<DeviceModel> {
    let time = fields.get("service_time", values::duration_up_to(Duration::from_secs(10)));
    let bandwidth = fields.get("bandwidth", bandwidth);
    let channels = fields.get("channels", values::integer(1, PARALLEL_MAX.into()));
    let errors = fields.get("errors", percent(1, 100)).map(|at| at.value);
    if time.is_none() && bandwidth.is_none() && channels.is_none() && errors.is_none() {
        return None;
    }
    Some(DeviceModel {
        service_time: time.map_or(Duration::ZERO, |at| at.value),
        bandwidth: bandwidth.map(|at| at.value),
        channels: channels.map_or(1, |at| at.value),
        errors,
    })
}
