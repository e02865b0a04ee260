//! The discovery log page: the subsystems that each host may connect to, and their addresses.

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::instance::{Controller, ControllerKind};
use super::{
    AddressFamily, ConnectionId, ListenerId, ListenerSpec, SecureChannel, Service, TransportType,
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
    nqn: &'a str,
    subtype: u8,
}

impl Service {
    /// Sets the address on which a discovery controller's host reached the target, for listeners on
    /// all addresses (`0.0.0.0`, `::`). It has no effect on other queues.
    pub fn local_address(&mut self, connection: ConnectionId, traddr: &str) {
        if let Some(attachment) = self.connections.get(&connection)
            && let Some(controller) = self.controllers.get_mut(&attachment.controller)
            && attachment.qid == 0
        {
            controller.local_address = Some(traddr.to_owned());
        }
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
            let entry = write_entry(record, controller, has_key, entries);
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

    /// Returns the records: the discovery subsystem itself, then for each listener the subsystems
    /// served there that the host may use.
    fn discovery_records(&self, controller: &Controller, local: bool) -> Vec<Record<'_>> {
        let here = |l: &&ListenerSpec| !local || l.id == controller.listener;
        let own = self.listeners.get(&controller.listener);
        let current =
            own.map(|listener| Record { listener, nqn: DISCOVERY_NQN, subtype: subtype::CURRENT });
        let subsystems = self.listeners.values().filter(here).flat_map(|listener| {
            self.subsystems.values().filter_map(move |s| {
                let seen = listener.serves(&s.spec.nqn) && s.shows_itself_to(controller);
                seen.then_some(Record { listener, nqn: &s.spec.nqn, subtype: subtype::NVM })
            })
        });
        current.into_iter().chain(subsystems).collect()
    }

    /// Notes that the page has changed for hosts that satisfy `concerns`: the generation moves on
    /// and they are told.
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

fn write_entry(
    record: &Record<'_>,
    controller: &Controller,
    has_key: bool,
    admin_entries: u16,
) -> Box<DiscoveryEntry> {
    let listener = record.listener;
    let mut entry = zeroed::<DiscoveryEntry>();
    entry.trtype = listener.transport.trtype();
    if listener.transport == TransportType::Rdma {
        entry.tsas = DiscoveryEntry::rdma_tsas();
    }
    entry.adrfam = match listener.family {
        AddressFamily::Ipv4 => 1,
        AddressFamily::Ipv6 => 2,
    };
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
    entry.trsvcid = nul_padded(&listener.trsvcid);
    entry.subnqn = nul_padded(record.nqn);
    entry.traddr = nul_padded(address(listener, controller));
    entry
}

/// Returns the low half of the listener's number.
fn port_id(id: ListenerId) -> U16 {
    let [low, high, ..] = id.0.to_le_bytes();
    U16::from_bytes([low, high])
}

/// Returns the address of a listener: one on all addresses has the address at which this host has
/// reached the target.
fn address<'a>(listener: &'a ListenerSpec, controller: &'a Controller) -> &'a str {
    let any = match listener.family {
        AddressFamily::Ipv4 => listener.traddr == "0.0.0.0",
        AddressFamily::Ipv6 => listener.traddr == "::",
    };
    let reached = controller
        .local_address
        .as_deref()
        .filter(|a| a.contains(':') == (listener.family == AddressFamily::Ipv6));
    reached.filter(|_| any).unwrap_or(&listener.traddr)
}
