//! The image of a namespace for hosts, made of its configuration and its device.

use fabric::Nanos;
use fabric::controller::{
    BackendId, DeviceIdentity, Geometry, Namespace as FabricNamespace, NamespaceFeatures, Readiness,
};
use fabric::nvm::BlockFormat;
use fabric::nvme::identify::OptionalCommands;
use sluice_config::{Namespace, derived_nguid};
use uuid::Uuid;

use crate::control::store::Seen;
use crate::disks::backend::{Backend, Description};

/// Describes a namespace whose device is open.
pub(super) fn open(
    nsid: u32,
    namespace: &Namespace,
    uuid: Uuid,
    id: BackendId,
    backend: &dyn Backend,
) -> FabricNamespace {
    let description = backend.description();
    FabricNamespace {
        nsid,
        uuid: uuid.into_bytes(),
        nguid: namespace.nguid.unwrap_or_else(|| derived_nguid(uuid)),
        geometry: Geometry { format: description.format, blocks: backend.health().blocks() },
        features: features(description, namespace.read_only),
        preferred: description.preferred,
        used: description.used.clone(),
        hosts: namespace.hosts.clone(),
        backend: id,
        readiness: Readiness::Ready,
        replaces: false,
        identify: description.identify.clone(),
        device: description.controller.as_deref().map(device_identity),
    }
}

/// Returns the features of a namespace that hosts see.
fn features(description: &Description, read_only: bool) -> NamespaceFeatures {
    let can = &description.abilities;
    let mut features = NamespaceFeatures::FUA;
    for (flag, set) in [
        (NamespaceFeatures::VOLATILE_CACHE, can.volatile_cache),
        (NamespaceFeatures::DEALLOCATE, can.deallocate),
        (NamespaceFeatures::WRITE_ZEROES, can.write_zeroes),
        (NamespaceFeatures::COMPARE, can.compare),
        (NamespaceFeatures::VERIFY, can.verify),
        (NamespaceFeatures::READ_ONLY, read_only),
        (NamespaceFeatures::ZEROES_AFTER_DEALLOCATE, can.zeroes_after_deallocate),
        (NamespaceFeatures::WRITE_ZEROES_DEALLOCATES, can.write_zeroes_deallocates),
    ] {
        features.set(flag, set);
    }
    features
}

/// Reads the fields of a real device's Identify Controller that hosts see: MDTS (byte 77), ONCS
/// (bytes 521:520), VWC (byte 525).
fn device_identity(identify: &[u8; 4096]) -> DeviceIdentity {
    DeviceIdentity {
        max_transfer: match identify[77] {
            0 => 0,
            shift => 4096u32.checked_shl(u32::from(shift)).unwrap_or(0),
        },
        volatile_cache: identify[525] & 1 == 1,
        commands: OptionalCommands::from_bits_truncate(u16::from_le_bytes([
            identify[520],
            identify[521],
        ])),
    }
}

/// Describes a namespace whose device is not open, with the size that the device had when it was seen last. Without
/// `uuid`, which depends on the device then, hosts see no identifiers.
pub(super) fn absent(
    nsid: u32,
    namespace: &Namespace,
    uuid: Option<Uuid>,
    seen: Option<Seen>,
    now: Nanos,
) -> FabricNamespace {
    let mut features = NamespaceFeatures::empty();
    features.set(NamespaceFeatures::READ_ONLY, namespace.read_only);
    // A namespace with another UUID is another disk.
    let geometry = seen.filter(|seen| Some(seen.uuid) == uuid).and_then(|seen| {
        let format = BlockFormat::plain(u64::from(seen.block_size)).ok()?;
        Some(Geometry { format, blocks: format.blocks(seen.size) })
    });
    FabricNamespace {
        nsid,
        uuid: uuid.unwrap_or_default().into_bytes(),
        nguid: namespace.nguid.or(uuid.map(derived_nguid)).unwrap_or_default(),
        geometry: geometry.unwrap_or_default(),
        features,
        preferred: None,
        used: None,
        hosts: namespace.hosts.clone(),
        backend: BackendId::NONE,
        readiness: Readiness::NotReady { geometry_known: geometry.is_some(), since: now },
        replaces: false,
        identify: None,
        device: None,
    }
}
