//! Namespaces, and the table of a host's visible namespaces.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bitflags::bitflags;

use super::config::{ConfigError, check_nqn};
use super::ids::BackendId;
use crate::Nanos;
use crate::nvm::BlockFormat;
use crate::nvme::identify::OptionalCommands;

bitflags! {
    /// The features of a namespace.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct NamespaceFeatures: u32 {
        /// Completed writes may be lost before a Flush or without FUA.
        const VOLATILE_CACHE = 1 << 0;
        /// Dataset Management with the deallocate attribute frees blocks.
        const DEALLOCATE = 1 << 1;
        /// The Write Zeroes command.
        const WRITE_ZEROES = 1 << 2;
        /// The Compare command.
        const COMPARE = 1 << 3;
        /// The Verify command.
        const VERIFY = 1 << 4;
        /// Writes are refused.
        const READ_ONLY = 1 << 5;
        /// Deallocated blocks read as zeroes.
        const ZEROES_AFTER_DEALLOCATE = 1 << 6;
        /// Writes honour FUA by themselves, without a Flush.
        const FUA = 1 << 7;
        /// Write Zeroes with DEAC frees blocks.
        const WRITE_ZEROES_DEALLOCATES = 1 << 8;
    }
}

/// The size of a namespace; no blocks where it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Geometry {
    /// The format of a logical block.
    pub format: BlockFormat,
    /// The number of logical blocks.
    pub blocks: u64,
}

impl Geometry {
    /// Checks that hosts can use this size. The block format must be known to hosts and backends,
    /// and there must be at least one block, for hosts treat a namespace without blocks as absent.
    fn check(self) -> Result<(), ConfigError> {
        if !matches!(self.format, BlockFormat::BYTES_512 | BlockFormat::BYTES_4096) {
            return Err(ConfigError::BlockFormat(self.format));
        }
        if self.blocks == 0 { Err(ConfigError::NoBlocks) } else { Ok(()) }
    }

    /// Returns the size in bytes, `u64::MAX` at the most.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.format.bytes(self.blocks)
    }
}

/// The sizes of writes and deallocations that a namespace prefers, in logical blocks, 1 to 65536. Each
/// begins at a multiple of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreferredSizes {
    /// The least write that overwrites nothing by reading it first (NPWG, NPWA).
    pub write: u32,
    /// The least deallocation that frees something (NPDG, NPDA).
    pub deallocate: u32,
    /// The least write that is carried out at the full rate (NOWS); `None` where it is not known.
    pub optimal: Option<u32>,
}

/// The number of logical blocks that take space where a namespace is stored (NUSE): it is shared with
/// the backend, which keeps it up to date.
#[derive(Clone, Debug, Default)]
pub struct UsedBlocks(Arc<AtomicU64>);

impl UsedBlocks {
    /// Returns the number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the number.
    pub fn set(&self, blocks: u64) {
        self.0.store(blocks, Ordering::Relaxed);
    }
}

/// Whether the commands of a namespace can be executed now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readiness {
    /// Commands are executed.
    #[default]
    Ready,
    /// The file or device is not there: the namespace is inaccessible for hosts that know ANA states, and
    /// not ready for others. It stays in the list of active namespaces, so that hosts keep
    /// their disk.
    NotReady {
        /// Whether [`Namespace::geometry`] is the last one known. If not, Identify Namespace is
        /// answered with Namespace Not Ready as well: a capacity of 0 would tell hosts that the
        /// namespace is gone.
        geometry_known: bool,
        /// Begin of the outage: after a while hosts are asked to retry later
        /// ([`ControllerShared::unavailable`](super::ControllerShared::unavailable)).
        since: Nanos,
    },
    /// Commands are answered with Namespace Not Ready until this controller's host has asked for
    /// Identify Namespace. Only the tables of controllers have such namespaces.
    Unidentified,
    /// Commands are answered with Invalid Namespace or Format, as those for the removed disk that the
    /// host knows by the NSID, until this controller's host has asked for Identify Namespace. Only the
    /// tables of controllers have such namespaces.
    KnownAsOther,
}

/// The identity of the real controller behind a passthrough namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceIdentity {
    /// The device's largest transfer in bytes; 0: no limit. Larger commands are split in the
    /// target.
    pub max_transfer: u32,
    /// Whether the device has a volatile write cache.
    pub volatile_cache: bool,
    /// The device's optional commands.
    pub commands: OptionalCommands,
}

/// A namespace as hosts see it.
#[derive(Clone, Debug)]
pub struct Namespace {
    /// Namespace identifier; 0 lets [`super::Service::add_namespace`] choose the lowest free.
    pub nsid: u32,
    /// UUID; all zero of a namespace whose identifiers are not known yet, which is not ready and has no
    /// known geometry. Its Namespace Identification Descriptor list is answered with Namespace Not
    /// Ready: without identifiers a host would take it for another namespace.
    pub uuid: [u8; 16],
    /// NGUID; all zero means none.
    pub nguid: [u8; 16],
    /// The namespace's size.
    pub geometry: Geometry,
    /// The namespace's features.
    pub features: NamespaceFeatures,
    /// The preferred sizes; `None` where they are not known. Those of [`Self::identify`] come first.
    pub preferred: Option<PreferredSizes>,
    /// The blocks in use, of a namespace that takes space as it is written and gives it back as it is
    /// deallocated (thin provisioning); `None`: all blocks have their space.
    pub used: Option<UsedBlocks>,
    /// NQNs of the hosts that see the namespace; `None`: all hosts of the subsystem.
    pub hosts: Option<Vec<String>>,
    /// The store of the namespace's blocks; the service makes it [`BackendId::NONE`] where the
    /// namespace is not ready, so that no command finds a backend.
    pub backend: BackendId,
    /// Whether the namespace's commands can be executed. A namespace that becomes ready again must
    /// have the identifiers that it had (`uuid`, `nguid`, and those in `identify`): hosts take a
    /// namespace with others for another one.
    pub readiness: Readiness,
    /// Whether the NSID belonged to another disk before. Each controller's host must then ask for
    /// Identify Namespace before its commands are executed, unless it has identified this disk
    /// before and was not shut down since.
    pub replaces: bool,
    /// Identify Namespace of the device behind a passthrough namespace. Hosts see this, except for
    /// the target's own fields: size, the one LBA format, sharing, ANA group, identifiers, no
    /// metadata, no reservations, no copy, no atomics beyond one block.
    pub identify: Option<Box<[u8; 4096]>>,
    /// The controller behind a passthrough namespace.
    pub device: Option<DeviceIdentity>,
}

impl Namespace {
    /// Checks whether the namespace can be shown to hosts, apart from the others of its subsystem.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.has_geometry() {
            self.geometry.check()?;
        }
        if self.uuid == [0; 16] && self.has_geometry() {
            return Err(ConfigError::ZeroUuid);
        }
        self.hosts.iter().flatten().try_for_each(|host| check_nqn(host))
    }

    /// Returns the namespace as hosts are shown it, without the values that its readiness makes
    /// untrue.
    pub(super) fn settled(mut self) -> Self {
        if !self.is_ready() {
            self.backend = BackendId::NONE;
        }
        if !self.has_geometry() {
            self.geometry = Geometry::default();
        }
        self
    }

    /// Returns the namespace for hosts that may only read.
    pub(super) fn protected(&self) -> Self {
        Self { features: self.features | NamespaceFeatures::READ_ONLY, ..self.clone() }
    }

    /// Returns whether the namespace's commands are executed, for hosts that have identified it.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !matches!(self.readiness, Readiness::NotReady { .. })
    }

    /// Returns whether [`Self::geometry`] is known.
    #[must_use]
    pub fn has_geometry(&self) -> bool {
        !matches!(self.readiness, Readiness::NotReady { geometry_known: false, .. })
    }

    /// Returns whether `host` sees the namespace.
    #[must_use]
    pub fn visible_to(&self, host: &str) -> bool {
        self.hosts.as_ref().is_none_or(|hosts| hosts.iter().any(|h| h == host))
    }
}
