//! Identify: the data structures as a controller's host sees them.

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::ana::{ANA_CAPABILITIES, ANA_GROUPS, ANA_TRANSITION_TIME};
use super::error_log::ERROR_ENTRIES;
use super::events::AERL;
use super::feature_values::WARNING_TEMPERATURE;
use super::instance::{Controller, ControllerKind};
use super::{
    Namespace, NamespaceFeatures, PreferredSizes, Reply, Service, ServiceConfig, TransportType,
};
use crate::nvm::BlockFormat;
use crate::nvme::Status;
use crate::nvme::identify::{
    Attributes, CNTRLTYPE_DISCOVERY, CNTRLTYPE_IO, CSI_NVM, DCTYPE_DIRECT, IDENTIFY_SIZE,
    IdentifyCommand, IdentifyController, IdentifyControllerNvm, IdentifyNamespace,
    IdentifyNamespaceIndependent, LogAttributes, MultiPath, NMIC_SHARED, NSATTR_WRITE_PROTECTED,
    NSFEAT_OPTPERF, NSFEAT_THINP, OptionalCommands, SglSupport, ascii, cns, descriptor, nul_padded,
    zeroed,
};
use crate::nvme::property::VERSION_2_0;

/// VSL, WZSL: the recommended size of one Verify and of one Write Zeroes in bytes. Larger ones are
/// carried out too: the bits of ONCS that offer these commands make the fields recommendations.
/// Linux splits Write Zeroes by WZSL since 5.13; before, it sends up to a block more than MDTS has
/// sectors, and SPDK's host 65536 blocks.
const SIZE_WITHOUT_DATA: u32 = 1 << 20;
/// DMRSL: the most blocks of one range of Dataset Management; 64 MiB of blocks of 4 KiB. Linux sends larger
/// deallocations as several commands, each of which passes a limit by itself. Larger ranges are carried out, too.
pub(super) const DEALLOCATED_RANGE: u32 = 1 << 14;
/// ACL: Abort commands at one time, 0's based.
pub(super) const ABORT_LIMIT: u8 = 3;

impl Service {
    /// Answers Identify.
    pub(super) fn identify(
        &self,
        controller: &Controller,
        command: IdentifyCommand,
        out: &mut Vec<u8>,
    ) -> Reply {
        let done = match command.cns {
            cns::CONTROLLER => {
                self.identify_controller(controller, out);
                Ok(())
            }
            // A discovery controller has no namespaces and no command set.
            _ if controller.kind == ControllerKind::Discovery => Err(Status::INVALID_FIELD),
            _ => self.identify_io(controller, command, out),
        };
        match done {
            Ok(()) => {
                out.resize(IDENTIFY_SIZE, 0);
                Reply::OK
            }
            // A later try may succeed after this status alone.
            Err(Status::NAMESPACE_NOT_READY) => {
                Reply::failed(controller.shared.namespace_not_ready())
            }
            Err(status) => Reply::failed(status.dnr()),
        }
    }

    fn identify_io(
        &self,
        controller: &Controller,
        command: IdentifyCommand,
        out: &mut Vec<u8>,
    ) -> Result<(), Status> {
        let config = &self.config;
        let nvm = if command.csi == CSI_NVM { Ok(()) } else { Err(Status::INVALID_FIELD) };
        match command.cns {
            cns::NAMESPACE | cns::ALLOCATED_NAMESPACE => {
                let asked = controller.table.get(command.nsid);
                if asked.is_some_and(|namespace| !namespace.has_geometry()) {
                    return Err(Status::NAMESPACE_NOT_READY);
                }
                namespace(controller, command.nsid, config, out, identify_namespace)
            }
            cns::ACTIVE_LIST | cns::ALLOCATED_LIST => namespace_list(controller, command.nsid, out),
            cns::ACTIVE_LIST_CSI => nvm.and(namespace_list(controller, command.nsid, out)),
            cns::DESCRIPTORS => descriptors(controller, command.nsid, out),
            // Neither metadata nor protection information: all fields are zero.
            cns::NAMESPACE_CSI => {
                nvm.and(namespace(controller, command.nsid, config, out, |_, _| {}))
            }
            cns::CONTROLLER_CSI => nvm.map(|()| controller_nvm(out)),
            cns::NAMESPACE_INDEPENDENT => {
                namespace(controller, command.nsid, config, out, identify_independent)
            }
            cns::NAMESPACE_CONTROLLERS => self.controllers_with(controller, command, out),
            cns::SUBSYSTEM_CONTROLLERS => {
                self.controller_list(controller, command.cntid, |_| true, out);
                Ok(())
            }
            cns::COMMAND_SETS => command_sets(controller, command.cntid, out),
            _ => Err(Status::INVALID_FIELD),
        }
    }

    /// Returns the controllers whose host sees the namespace; none if the asking host does not.
    fn controllers_with(
        &self,
        controller: &Controller,
        command: IdentifyCommand,
        out: &mut Vec<u8>,
    ) -> Result<(), Status> {
        if !valid_nsid(command.nsid, &self.config) {
            return Err(Status::INVALID_NAMESPACE);
        }
        let seen = controller.table.get(command.nsid).is_some();
        let attached = |c: &Controller| seen && c.table.get(command.nsid).is_some();
        self.controller_list(controller, command.cntid, attached, out);
        Ok(())
    }

    /// Writes a controller list: count, then up to 2047 identifiers from `from` up.
    fn controller_list(
        &self,
        controller: &Controller,
        from: u16,
        wanted: impl Fn(&Controller) -> bool,
        out: &mut Vec<u8>,
    ) {
        let of_subsystem = |c: &&Controller| c.subsystem() == controller.subsystem() && wanted(c);
        let ids = self.controllers.values().filter(of_subsystem).map(|c| c.id.0);
        let ids: Vec<u16> = ids.filter(|&id| id >= from).take(2047).collect();
        let count = u16::try_from(ids.len()).unwrap_or(u16::MAX);
        out.extend([count].into_iter().chain(ids).flat_map(u16::to_le_bytes));
    }

    fn identify_controller(&self, controller: &Controller, out: &mut Vec<u8>) {
        let config = &self.config;
        let (serial, model) = self.identity_of(controller);
        // VID, SSVID and IEEE stay 0: the PCI SIG and the IEEE have given this target no numbers,
        // it has no PCI header to repeat them from, and another vendor's would be false.
        let mut id = zeroed::<IdentifyController>();
        id.sn = ascii(serial);
        id.mn = ascii(model);
        id.fr = ascii(&config.firmware);
        id.mdts = pages(max_transfer(controller.transport, config));
        id.cntlid = U16::new(controller.id.0);
        id.ver = U32::new(VERSION_2_0);
        id.oaes = U32::new(controller.offered_events().bits());
        id.ctratt = U32::new((Attributes::HOST_ID_128 | Attributes::TRAFFIC_KEEP_ALIVE).bits());
        id.aerl = AERL;
        id.lpa = LogAttributes::all().bits();
        id.elpe = ERROR_ENTRIES.saturating_sub(1);
        id.kas = keep_alive_granularity(config);
        id.sgls = U32::new(sgls(controller.transport).bits());
        id.subnqn = nul_padded(controller.subsystem());
        match controller.kind {
            ControllerKind::Io => io_controller(&mut id, controller, config),
            ControllerKind::Discovery => discovery_controller(&mut id, config),
        }
        out.extend_from_slice(id.as_bytes());
    }
}

/// Returns the data descriptors that hosts may use over a transport.
fn sgls(transport: TransportType) -> SglSupport {
    let own = match transport {
        TransportType::Tcp => SglSupport::TRANSPORT,
        TransportType::Rdma => SglSupport::KEYED,
    };
    SglSupport::SUPPORTED | SglSupport::OFFSET | own
}

/// Returns the most data that a command may move over a transport, in bytes: keyed descriptors have
/// lengths of 24 bits.
fn max_transfer(transport: TransportType, config: &ServiceConfig) -> u32 {
    match transport {
        TransportType::Tcp => config.max_transfer,
        TransportType::Rdma => config.max_transfer.min(1 << 23),
    }
}

fn discovery_controller(id: &mut IdentifyController, config: &ServiceConfig) {
    id.cntrltype = CNTRLTYPE_DISCOVERY;
    id.dctype = DCTYPE_DIRECT;
    id.maxcmd = U16::new(config.admin_queue_entries);
}

/// Writes the fields that only I/O controllers have.
fn io_controller(id: &mut IdentifyController, controller: &Controller, config: &ServiceConfig) {
    id.cntrltype = CNTRLTYPE_IO;
    // The recommended burst is the actual one; 2^6 commands if there is no limit.
    id.rab = u8::try_from(config.arbitration & 0b111).unwrap_or(6).min(6);
    id.cmic = (MultiPath::PORTS | MultiPath::CONTROLLERS | MultiPath::ANA).bits();
    id.crdt = config.retry_delays.map(U16::new);
    id.acl = ABORT_LIMIT;
    // One firmware slot, read only.
    id.frmw = 0b11;
    id.wctemp = U16::new(WARNING_TEMPERATURE);
    id.cctemp = U16::new(WARNING_TEMPERATURE + 10);
    id.anatt = ANA_TRANSITION_TIME;
    id.anacap = ANA_CAPABILITIES;
    id.anagrpmax = U32::new(ANA_GROUPS);
    id.nanagrpid = U32::new(ANA_GROUPS);
    id.sqes = 0x66;
    id.cqes = 0x44;
    id.maxcmd = U16::new(controller.queue_entries);
    id.nn = U32::new(config.max_namespaces);
    id.mnan = U32::new(config.max_namespaces);
    id.oncs = U16::new((controller.table.commands() | OptionalCommands::SAVE_SELECT).bits());
    // A cache is always reported: hosts read VWC once, and a namespace with a cache may be added
    // later. Namespaces without one answer Flush at once, and say so in CNS 08h. Flush of all
    // namespaces in one command (bits 2:1) is not supported: 10b.
    id.vwc = 0b101;
    let in_capsule_data = match controller.transport {
        TransportType::Tcp => config.in_capsule_data,
        TransportType::Rdma => config.rdma_in_capsule_data,
    };
    id.ioccsz = U32::new((64 + in_capsule_data) / 16);
    id.iorcsz = U32::new(1);
    id.msdbd = 1;
    // Disconnect.
    id.ofcs = U16::new(1);
    // Maximum power is 25 W, as of other targets that have no real power state.
    id.psd0.max_power = U16::new(2500);
    id.psd0.entry_latency = U32::new(16);
    id.psd0.exit_latency = U32::new(4);
}

/// Returns KAS, in units of 100 ms.
fn keep_alive_granularity(config: &ServiceConfig) -> U16 {
    let units = config.keep_alive_granularity.as_millis() / 100;
    U16::new(u16::try_from(units).unwrap_or(u16::MAX))
}

/// Returns log2 of a power of two of bytes in pages of 4 KiB; 0 for none.
fn pages(bytes: u32) -> u8 {
    u8::try_from(bytes.max(4096).ilog2().saturating_sub(12)).unwrap_or(0)
}

fn valid_nsid(nsid: u32, config: &ServiceConfig) -> bool {
    (1..=config.max_namespaces).contains(&nsid)
}

/// Writes a structure of one namespace, all zero where the NSID is valid but not active.
fn namespace(
    controller: &Controller,
    nsid: u32,
    config: &ServiceConfig,
    out: &mut Vec<u8>,
    write: impl Fn(&Namespace, &mut Vec<u8>),
) -> Result<(), Status> {
    if !valid_nsid(nsid, config) {
        return Err(Status::INVALID_NAMESPACE);
    }
    if let Some(namespace) = controller.table.get(nsid) {
        write(namespace, out);
    }
    Ok(())
}

fn namespace_list(controller: &Controller, after: u32, out: &mut Vec<u8>) -> Result<(), Status> {
    if after >= u32::MAX - 1 {
        return Err(Status::INVALID_NAMESPACE);
    }
    let nsids = controller.table.after(after).map(|n| n.nsid);
    out.extend(nsids.take(IDENTIFY_SIZE / 4).flat_map(u32::to_le_bytes));
    Ok(())
}

/// Writes Identify Namespace: the device's own where there is one, then the target's fields.
fn identify_namespace(namespace: &Namespace, out: &mut Vec<u8>) {
    let mut id = zeroed::<IdentifyNamespace>();
    match &namespace.identify {
        Some(device) => show_device(&mut id, device),
        None => {
            id.dlfeat = deallocated_blocks(namespace.features);
            if namespace.used.is_some() {
                id.nsfeat |= NSFEAT_THINP;
            }
            if let Some(sizes) = namespace.preferred {
                id.nsfeat |= NSFEAT_OPTPERF;
                id.preferred = preferred_fields(sizes);
            }
        }
    }
    let blocks = namespace.geometry.blocks;
    id.nsze = U64::new(blocks);
    id.ncap = U64::new(blocks);
    // A file system counts blocks of its own too, and those behind a namespace's end.
    let used = namespace.used.as_ref().map_or(blocks, |used| used.get().min(blocks));
    id.nuse = U64::new(used);
    id.nmic = NMIC_SHARED;
    id.anagrpid = U32::new(namespace.ana_group());
    if namespace.features.contains(NamespaceFeatures::READ_ONLY) {
        id.nsattr |= NSATTR_WRITE_PROTECTED;
    }
    if namespace.nguid != [0; 16] {
        id.nguid = namespace.nguid;
        id.eui64 = [0; 8];
    }
    namespace.geometry.format.describe(&mut id);
    out.extend_from_slice(id.as_bytes());
}

/// Copies the fields of a device's Identify Namespace that stay true through the target: thin
/// provisioning and preferred sizes, the value that deallocated blocks read as, and its
/// identifiers. Its format in use becomes the only one.
fn show_device(id: &mut IdentifyNamespace, device: &[u8; IDENTIFY_SIZE]) {
    let device: &IdentifyNamespace = zerocopy::transmute_ref!(device);
    // Atomics are not copied: a command may be split on its way.
    id.nsfeat = device.nsfeat & (NSFEAT_THINP | NSFEAT_OPTPERF);
    id.dlfeat = device.dlfeat;
    id.noiob = device.noiob;
    id.preferred = device.preferred;
    id.nsattr = device.nsattr & NSATTR_WRITE_PROTECTED;
    id.nguid = device.nguid;
    id.eui64 = device.eui64;
    let format = device.lbaf.get(usize::from(BlockFormat::index_in_use(device)));
    if let (Some(first), Some(format)) = (id.lbaf.first_mut(), format) {
        first.performance = format.performance & 0b11;
    }
}

/// Returns NPWG, NPWA, NPDG, NPDA and NOWS, each 0's based. NOWS that is not known is the least write.
fn preferred_fields(sizes: PreferredSizes) -> [U16; 5] {
    let PreferredSizes { write, deallocate, optimal } = sizes;
    let optimal = optimal.unwrap_or(write);
    [write, write, deallocate, deallocate, optimal]
        .map(|blocks| U16::new(u16::try_from(blocks.saturating_sub(1)).unwrap_or(u16::MAX)))
}

fn deallocated_blocks(features: NamespaceFeatures) -> u8 {
    let zeroes = features.contains(NamespaceFeatures::ZEROES_AFTER_DEALLOCATE);
    let write_zeroes = features.contains(NamespaceFeatures::WRITE_ZEROES_DEALLOCATES);
    u8::from(zeroes) | u8::from(write_zeroes) << 3
}

/// Writes the I/O command set independent Identify Namespace.
fn identify_independent(namespace: &Namespace, out: &mut Vec<u8>) {
    let cache = namespace.features.contains(NamespaceFeatures::VOLATILE_CACHE);
    let read_only = namespace.features.contains(NamespaceFeatures::READ_ONLY);
    let id = IdentifyNamespaceIndependent {
        nsfeat: if cache { 0 } else { IdentifyNamespaceIndependent::NO_VOLATILE_CACHE },
        nmic: NMIC_SHARED,
        anagrpid: U32::new(namespace.ana_group()),
        nsattr: if read_only { NSATTR_WRITE_PROTECTED } else { 0 },
        nstat: if namespace.is_ready() { IdentifyNamespaceIndependent::READY } else { 0 },
        ..IdentifyNamespaceIndependent::default()
    };
    out.extend_from_slice(id.as_bytes());
}

/// Writes the Namespace Identification Descriptor list: UUID, NGUID, EUI64, CSI.
fn descriptors(controller: &Controller, nsid: u32, out: &mut Vec<u8>) -> Result<(), Status> {
    let namespace = controller.table.get(nsid).ok_or(Status::INVALID_NAMESPACE)?;
    if namespace.uuid == [0; 16] {
        return Err(Status::NAMESPACE_NOT_READY);
    }
    let mut structure = Vec::with_capacity(IDENTIFY_SIZE);
    identify_namespace(namespace, &mut structure);
    let nguid = structure.get(104..120).unwrap_or_default();
    let eui64 = structure.get(120..128).unwrap_or_default();
    let all: [(u8, &[u8]); 4] = [
        (descriptor::UUID, &namespace.uuid),
        (descriptor::NGUID, nguid),
        (descriptor::EUI64, eui64),
        (descriptor::CSI, &[CSI_NVM]),
    ];
    for (kind, value) in all {
        let absent = kind != descriptor::CSI && value.iter().all(|&b| b == 0);
        if !absent {
            let length = u8::try_from(value.len()).unwrap_or(0);
            out.extend_from_slice(&[kind, length, 0, 0]);
            out.extend_from_slice(value);
        }
    }
    Ok(())
}

/// Writes Identify Controller of the NVM command set: size limits.
fn controller_nvm(out: &mut Vec<u8>) {
    let size = pages(SIZE_WITHOUT_DATA);
    let dmrsl = DEALLOCATED_RANGE.into();
    let id = IdentifyControllerNvm { vsl: size, wzsl: size, dmrsl, ..Default::default() };
    out.extend_from_slice(id.as_bytes());
}

/// Writes the I/O command set combinations: one, the NVM command set alone.
fn command_sets(controller: &Controller, cntid: u16, out: &mut Vec<u8>) -> Result<(), Status> {
    if cntid != 0xffff && cntid != controller.id.0 {
        return Err(Status::INVALID_FIELD);
    }
    out.extend_from_slice(&1u64.to_le_bytes());
    Ok(())
}
