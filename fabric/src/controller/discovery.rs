//! The discovery log page: the subsystems that each host may connect to, and their addresses.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::addresses::reachable;
use super::instance::{Controller, ControllerKind};
use super::{
    ConnectionId, ControllerId, ListenerId, ListenerSpec, MachineAddress, SecureChannel, Service,
    TransportType,
};
use crate::fabrics::{DISCOVERY_NQN, DiscoveryEntry, DiscoveryHeader, EntryFlags, subtype};
use crate::nvme::Status;
use crate::nvme::identify::{OptionalEvents, nul_padded, zeroed};
use crate::nvme::log::{DISCOVERY_PORT_LOCAL, GetLogPage};

/// Header and entries have the same size.
const RECORD: u64 = 1024;

/// One entry before it is written out.
#[derive(Clone, Copy)]
struct Record<'a> {
    listener: &'a ListenerSpec,
    address: SocketAddr,
    nqn: &'a str,
    subtype: u8,
}

impl Service {
    /// Sets the address on which a discovery controller's host reached the target, with the index of
    /// the interface where it is link-local and that is known. It has no effect on other queues.
    pub fn local_address(&mut self, connection: ConnectionId, address: SocketAddr) {
        if let Some(attachment) = self.connections.get(&connection)
            && let Some(controller) = self.controllers.get_mut(&attachment.controller)
            && attachment.qid == 0
        {
            controller.local_address = Some(address);
        }
    }

    /// Sets the addresses of this machine, which discovery reports for listeners on all addresses.
    /// Hosts whose view changes are notified.
    pub fn set_addresses(&mut self, mut addresses: Vec<MachineAddress>) {
        addresses.sort_unstable();
        addresses.dedup();
        if addresses == self.addresses {
            return;
        }
        let before = self.shown_addresses();
        self.addresses = addresses;
        let after = self.shown_addresses();
        self.discovery_changed(|c| before.get(&c.id) != after.get(&c.id));
    }

    /// Returns the addresses of I/O controllers that the host of each discovery controller sees.
    fn shown_addresses(&self) -> BTreeMap<ControllerId, Vec<SocketAddr>> {
        let discovery = self.controllers.values().filter(|c| c.kind == ControllerKind::Discovery);
        let shown = |controller: &Controller| -> Vec<SocketAddr> {
            let listeners = self.listeners.values().filter(|listener| !listener.discovery_only);
            listeners.flat_map(|listener| self.addresses_of(listener, controller)).collect()
        };
        discovery.map(|controller| (controller.id, shown(controller))).collect()
    }

    /// Returns the addresses at which a controller's host can reach a listener.
    fn addresses_of(&self, listener: &ListenerSpec, controller: &Controller) -> Vec<SocketAddr> {
        reachable(listener, &self.addresses, controller.local_address)
    }

    /// Writes the part of the page that the command wants.
    pub(super) fn discovery_page(
        &self,
        controller: &Controller,
        command: &GetLogPage,
        out: &mut Vec<u8>,
    ) -> Result<(), Status> {
        let local = command.lsp & DISCOVERY_PORT_LOCAL != 0;
        let records = self.discovery_records(controller, local);
        let count = u64::try_from(records.len()).unwrap_or(u64::MAX);
        let total = count.saturating_add(1).saturating_mul(RECORD);
        let length = usize::try_from(command.length).map_err(|_| Status::INVALID_FIELD)?;
        if command.offset > total {
            return Err(Status::INVALID_FIELD);
        }
        // Only the records that the part touches are written, so that reading a long page in
        // small parts costs no more than its length.
        let first = command.offset / RECORD;
        let skip = usize::try_from(command.offset % RECORD).unwrap_or(0);
        let mut index = first;
        while out.len() < skip.saturating_add(length) && index <= count {
            self.write_record(controller, &records, index, local, total, out);
            index += 1;
        }
        out.drain(..skip.min(out.len()));
        out.resize(length, 0);
        Ok(())
    }

    /// Writes a record: record 0 is the header, record n entry n - 1.
    fn write_record(
        &self,
        controller: &Controller,
        records: &[Record<'_>],
        index: u64,
        local: bool,
        total: u64,
        out: &mut Vec<u8>,
    ) {
        let entry = usize::try_from(index).ok().and_then(|i| i.checked_sub(1));
        if let Some(record) = entry.and_then(|i| records.get(i)) {
            let has_key = self.channels.has_key(controller.host());
            let entries = self.config.admin_queue_entries;
            let entry = write_entry(record, has_key, entries);
            out.extend_from_slice(entry.as_bytes());
            return;
        }
        let mut header = zeroed::<DiscoveryHeader>();
        header.genctr = U64::new(self.generation);
        header.numrec = U64::new(u64::try_from(records.len()).unwrap_or(u64::MAX));
        header.dlpf = if local { DISCOVERY_PORT_LOCAL } else { 0 };
        header.tdlpl = U32::new(u32::try_from(total).unwrap_or(u32::MAX));
        out.extend_from_slice(header.as_bytes());
    }

    /// Returns the records: the discovery subsystem itself, then for each address of a listener the
    /// subsystems served there that the host may use.
    fn discovery_records(&self, controller: &Controller, local: bool) -> Vec<Record<'_>> {
        let mut records = Vec::new();
        if let Some(listener) = self.listeners.get(&controller.listener) {
            let reached = self.addresses_of(listener, controller).first().copied();
            let address = reached.unwrap_or(listener.address);
            let subtype = subtype::CURRENT;
            records.push(Record { listener, address, nqn: DISCOVERY_NQN, subtype });
        }
        let subtype = subtype::NVM;
        for listener in self.listeners.values().filter(|l| !local || l.id == controller.listener) {
            for address in self.addresses_of(listener, controller) {
                let nqns = self.subsystems.values().filter_map(|s| {
                    let nqn = s.spec.nqn.as_str();
                    (listener.serves(nqn) && s.shows_itself_to(controller)).then_some(nqn)
                });
                records.extend(nqns.map(|nqn| Record { listener, address, nqn, subtype }));
            }
        }
        records
    }

    /// Notes that the page has changed for hosts that satisfy `concerns`: increments the generation
    /// and notifies them.
    pub(super) fn discovery_changed(&mut self, concerns: impl Fn(&Controller) -> bool) {
        self.generation += 1;
        for controller in self.controllers.values_mut() {
            if controller.kind == ControllerKind::Discovery && concerns(controller) {
                controller.events.raise(OptionalEvents::DISCOVERY_CHANGE);
                controller.pump_events(&mut self.actions);
            }
        }
    }
}

fn write_entry(record: &Record<'_>, has_key: bool, admin_entries: u16) -> Box<DiscoveryEntry> {
    let Record { listener, address, .. } = *record;
    let mut entry = zeroed::<DiscoveryEntry>();
    entry.trtype = listener.transport.trtype();
    if listener.transport == TransportType::Rdma {
        entry.tsas = DiscoveryEntry::rdma_tsas();
    }
    entry.adrfam = if address.is_ipv4() { 1 } else { 2 };
    entry.subtype = record.subtype;
    let secure = listener.secure_channel;
    if secure != SecureChannel::Off {
        entry.tsas = DiscoveryEntry::tls_tsas();
    }
    // A host with a key needs it where another one may choose.
    let required = secure == SecureChannel::Required
        || (secure == SecureChannel::Allowed && has_key && record.subtype == subtype::NVM);
    entry.treq = if required { DiscoveryEntry::TREQ_SECURE } else { DiscoveryEntry::TREQ_OPEN };
    entry.portid = port_id(listener.id);
    entry.cntlid = U16::new(DiscoveryEntry::DYNAMIC);
    entry.asqsz = U16::new(admin_entries);
    if record.subtype == subtype::CURRENT {
        entry.eflags = U16::new((EntryFlags::SAME_INFORMATION | EntryFlags::PERSISTENT).bits());
    }
    entry.trsvcid = nul_padded(&address.port().to_string());
    entry.subnqn = nul_padded(record.nqn);
    // Without an interface: the host's own interface for the link has another name.
    entry.traddr = nul_padded(&address.ip().to_string());
    entry
}

/// Returns the low half of the listener's number.
fn port_id(id: ListenerId) -> U16 {
    let [low, high, ..] = id.0.to_le_bytes();
    U16::from_bytes([low, high])
}
