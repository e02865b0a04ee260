//! Namespaces and the table of those that a host sees.

use std::sync::Arc;

use bitflags::bitflags;

use super::config::check_nqn;
use super::{BackendId, ConfigError};
use crate::nvme::identify::OptionalCommands;

bitflags! {
    /// What a namespace can do.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct NamespaceFeatures: u32 {
        /// Completed writes may be lost before a Flush or without FUA.
        const VOLATILE_CACHE = 1 << 0;
        /// Dataset Management with the deallocate attribute frees blocks.
        const DEALLOCATE = 1 << 1;
        /// Write Zeroes.
        const WRITE_ZEROES = 1 << 2;
        /// Compare.
        const COMPARE = 1 << 3;
        /// Verify.
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

/// Size of a namespace; all zero where it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Geometry {
    /// A logical block has 2^`block_shift` bytes: 9 or 12.
    pub block_shift: u8,
    /// Logical blocks.
    pub blocks: u64,
}

impl Geometry {
    /// Size in bytes, `u64::MAX` at the most.
    #[must_use]
    pub fn bytes(self) -> u64 {
        u64::try_from(u128::from(self.blocks) << self.block_shift.min(64)).unwrap_or(u64::MAX)
    }
}

/// Whether the commands of a namespace can be executed now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readiness {
    /// They are.
    #[default]
    Ready,
    /// They are answered with Namespace Not Ready: what the blocks are kept on is not there. The
    /// namespace stays in the list of active namespaces, so that hosts keep their disk.
    NotReady {
        /// [`Namespace::geometry`] is the last one known. Else Identify Namespace is answered
        /// with Namespace Not Ready as well: a capacity of 0 would tell hosts that the namespace
        /// is gone.
        geometry_known: bool,
    },
}

/// What the real controller behind a passthrough namespace says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceIdentity {
    /// Its largest transfer in bytes; 0 no limit. Larger commands are split in the target.
    pub max_transfer: u32,
    /// Whether it has a volatile write cache.
    pub volatile_cache: bool,
    /// Its optional commands.
    pub commands: OptionalCommands,
}

/// A namespace as hosts see it.
#[derive(Clone, Debug)]
pub struct Namespace {
    /// Namespace identifier; 0 lets [`super::Service::add_namespace`] choose the lowest free.
    pub nsid: u32,
    /// UUID, not all zero.
    pub uuid: [u8; 16],
    /// NGUID; all zero means none.
    pub nguid: [u8; 16],
    /// Size.
    pub geometry: Geometry,
    /// What it can do.
    pub features: NamespaceFeatures,
    /// NQNs of the hosts that see it; none: all that the subsystem allows.
    pub hosts: Option<Vec<String>>,
    /// What its blocks are kept on; the service makes it [`BackendId::NONE`] where the namespace
    /// is not ready, so that no command finds a backend.
    pub backend: BackendId,
    /// Whether its commands can be executed. One that becomes ready again must have the
    /// identifiers that it had (`uuid`, `nguid`, and those in `identify`): hosts take a namespace
    /// with others for another one.
    pub readiness: Readiness,
    /// Identify Namespace of the device behind a passthrough namespace. It shows through but for
    /// what is ours: size, the one LBA format, sharing, ANA group, identifiers, no metadata, no
    /// reservations, no copy, no atomics beyond one block.
    pub identify: Option<Box<[u8; 4096]>>,
    /// The controller behind a passthrough namespace.
    pub device: Option<DeviceIdentity>,
}

impl Namespace {
    /// Whether the namespace can be shown to hosts, apart from the others of its subsystem.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.has_geometry() && !matches!(self.geometry.block_shift, 9 | 12) {
            return Err(ConfigError::BlockSize(self.geometry.block_shift));
        }
        if self.uuid == [0; 16] {
            return Err(ConfigError::ZeroUuid);
        }
        self.hosts.iter().flatten().try_for_each(|host| check_nqn(host))
    }

    /// The namespace as hosts are shown it: nothing of what its readiness makes untrue.
    pub(super) fn settled(mut self) -> Self {
        if !self.is_ready() {
            self.backend = BackendId::NONE;
        }
        if !self.has_geometry() {
            self.geometry = Geometry::default();
        }
        self
    }

    /// Whether its commands are executed.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.readiness == Readiness::Ready
    }

    /// Whether [`Self::geometry`] is known.
    #[must_use]
    pub fn has_geometry(&self) -> bool {
        self.readiness != Readiness::NotReady { geometry_known: false }
    }

    /// Whether `host` sees the namespace.
    #[must_use]
    pub fn visible_to(&self, host: &str) -> bool {
        self.hosts.as_ref().is_none_or(|hosts| hosts.iter().any(|h| h == host))
    }
}

/// The namespaces that one host sees, in ascending order of NSID; never changes.
#[derive(Clone, Debug, Default)]
pub struct NamespaceTable {
    namespaces: Vec<Arc<Namespace>>,
}

impl NamespaceTable {
    /// A table of `namespaces`, which must be in ascending order of NSID.
    #[must_use]
    pub(super) fn new(namespaces: Vec<Arc<Namespace>>) -> Self {
        Self { namespaces }
    }

    /// The namespace, if the host sees it. One comparison where NSIDs have no gaps, else a
    /// binary search.
    #[must_use]
    pub fn get(&self, nsid: u32) -> Option<&Arc<Namespace>> {
        let guess = usize::try_from(nsid).ok()?.checked_sub(1)?;
        if let Some(namespace) = self.namespaces.get(guess)
            && namespace.nsid == nsid
        {
            return Some(namespace);
        }
        let at = self.namespaces.binary_search_by_key(&nsid, |n| n.nsid).ok()?;
        self.namespaces.get(at)
    }

    /// All of them, in ascending order of NSID.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Namespace>> {
        self.namespaces.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.namespaces.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.namespaces.is_empty()
    }

    /// The optional commands that at least one namespace executes; all that the target knows
    /// where there is no namespace yet, or one that is not ready. The union, because hosts read it once at connect and
    /// namespaces come and go; a namespace that lacks a command answers Invalid Opcode, to which
    /// hosts fall back.
    pub(super) fn commands(&self) -> OptionalCommands {
        let all = NamespaceFeatures::all();
        let of = |n: &Namespace| if n.is_ready() { n.features } else { all };
        let have = self.iter().fold(NamespaceFeatures::empty(), |have, n| have | of(n));
        let have = if self.is_empty() { all } else { have };
        let table = [
            (NamespaceFeatures::COMPARE, OptionalCommands::COMPARE),
            (NamespaceFeatures::DEALLOCATE, OptionalCommands::DATASET_MANAGEMENT),
            (NamespaceFeatures::WRITE_ZEROES, OptionalCommands::WRITE_ZEROES),
            (NamespaceFeatures::VERIFY, OptionalCommands::VERIFY),
        ];
        table
            .into_iter()
            .filter(|(feature, _)| have.contains(*feature))
            .fold(OptionalCommands::empty(), |commands, (_, command)| commands | command)
    }
}
