//! Connections that hosts ask for, and what becomes of them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fabric::controller::ListenerId;
use fabric::rdma::wire::private_data::{self, QueueLimits, RejectReason};
use fabric::rdma::wire::{COMMAND_BYTES, QueueParams};
use fabric_verbs::{
    ConnectRequest, ConnectionParams, Device, DeviceEvent, Error, Event, Memory, QueuePair,
    QueuePairSize, Token,
};
use zerocopy::IntoBytes as _;

use super::NewQueuePair;
use super::devices::ReactorDevice;
use super::watch::Watch;
use crate::serve::gauges::ReactorGauges;
use crate::serve::reactor::mailbox::Message;
use crate::serve::shared::Shared;

/// RDMA READs that a queue pair has out at once at the most.
const READS: u8 = 16;
/// Work requests for each command of a queue: its data's, in two parts, and its response's.
const POSTS: u32 = 3;
/// Most bytes of one RDMA READ or WRITE.
const MOST: u32 = 1 << 30;
/// How often packets are sent again that are not acknowledged, and that find no receive buffer.
const RETRIES: u8 = 7;

/// The first name of a connection; listeners have those below.
const FIRST: u64 = 1 << 32;

/// A connection that has a reactor.
#[derive(Clone, Copy, Debug)]
struct Connected {
    reactor: usize,
    /// Number of its completion queue, and its part of it.
    completions: (usize, u32),
    queue_pair: u32,
    peer: IpAddr,
}

/// The connections of all reactors.
#[derive(Debug, Default)]
pub(super) struct Connector {
    connections: HashMap<Token, Connected>,
    devices: HashMap<usize, Vec<ReactorDevice>>,
    /// Number of names that were given.
    given: u64,
    /// Number of completion queues that each reactor has.
    queues: HashMap<usize, usize>,
    watch: Watch,
}

impl Connector {
    pub(super) fn take(&mut self, shared: &Shared, event: Event) {
        match event {
            Event::Request(request) => self.request(shared, request),
            Event::Disconnected(token) => self.lost(shared, token, "it closed the connection"),
            Event::Failed(token, why) => self.lost(shared, token, &why),
            Event::Rejected(token, ..) => self.lost(shared, token, "it refuses the connection"),
            Event::DeviceRemoved(token) if token.0 < FIRST => {
                shared.rdma.lose(ListenerId(u32::try_from(token.0).unwrap_or(0)));
            }
            Event::DeviceRemoved(token) => {
                let device = self.connections.get(&token).and_then(|one| self.device_of(one));
                if let Some(device) = device.cloned() {
                    self.lose_device(shared, &device);
                }
            }
            Event::Established(..)
            | Event::AddressResolved(_)
            | Event::RouteResolved(_)
            | Event::AddressChanged(_)
            | Event::Over(_) => {}
        }
    }

    /// Tells a connection's reactor that the connection is over.
    fn lost(&self, shared: &Shared, token: Token, reason: &str) {
        let Some(connected) = self.connections.get(&token) else { return };
        if let Some(mailbox) = shared.mailbox(connected.reactor) {
            mailbox.post(Message::QueuePairLost { token, reason: reason.to_owned() });
        }
    }

    /// Drops queue pairs that are over.
    pub(super) fn ended(&mut self, shared: &Shared, ended: Vec<(Token, QueuePair)>) {
        if ended.is_empty() {
            return;
        }
        for (token, pair) in ended {
            drop(pair);
            let Some(Connected { reactor, completions: (number, part), .. }) =
                self.connections.remove(&token)
            else {
                continue;
            };
            for one in self.devices.get_mut(&reactor).into_iter().flatten() {
                one.give_back(number, part);
            }
        }
        self.free(shared);
    }

    /// Returns the device of a connection.
    fn device_of(&self, one: &Connected) -> Option<&Device> {
        let devices = self.devices.get(&one.reactor)?;
        Some(devices.iter().find(|device| device.has(one.completions.0))?.device())
    }

    /// Reads the events of devices from now on.
    pub(super) fn watch(&mut self, devices: &[Device]) {
        devices.iter().for_each(|device| self.watch.add(device));
    }

    /// Returns the descriptors that become readable when devices have events.
    pub(super) fn device_fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.watch.fds()
    }

    /// Takes what devices say of themselves.
    pub(super) fn take_device_events(&mut self, shared: &Shared) {
        while let Some((device, event)) = self.watch.next() {
            let name = device.name();
            match event {
                DeviceEvent::PortDown(port) => {
                    tracing::error!(device = name, port, "a port of an RDMA device is down");
                }
                DeviceEvent::PortUp(port) => {
                    tracing::info!(device = name, port, "a port of an RDMA device is up");
                }
                DeviceEvent::Failed => {
                    tracing::error!(device = name, "an RDMA device is gone or has failed");
                    self.lose_device(shared, &device);
                }
                DeviceEvent::CompletionQueueFailed => {
                    // The event does not name the queue, and the results of its work requests are lost: everything
                    // made on the device is made again.
                    tracing::error!(
                        device = name,
                        "a completion queue of an RDMA device has failed"
                    );
                    self.lose_device(shared, &device);
                }
                DeviceEvent::QueuePairFailed(number, why) => {
                    self.queue_pair_failed(shared, (&device, number), why);
                }
                DeviceEvent::Other(what) => {
                    tracing::debug!(device = name, what, "an event of an RDMA device");
                }
            }
        }
    }

    /// Ends the connection of a queue pair that is in error.
    fn queue_pair_failed(&self, shared: &Shared, (device, number): (&Device, u32), why: &str) {
        let mut connections = self.connections.iter();
        let found = connections
            .find(|(_, one)| one.queue_pair == number && self.device_of(one) == Some(device));
        let Some((&token, &Connected { peer, .. })) = found else { return };
        if shared.may_log(peer) {
            let device = device.name();
            tracing::warn!(device, queue_pair = number, %peer, why, "a queue pair is in error");
        }
        self.lost(shared, token, why);
    }

    /// Closes the connections and listeners of a device that is gone or has failed.
    fn lose_device(&mut self, shared: &Shared, device: &Device) {
        self.watch.remove(device);
        shared.rdma.lose_all_on(device);
        for (token, one) in &self.connections {
            if self.device_of(one) == Some(device)
                && let Some(mailbox) = shared.mailbox(one.reactor)
            {
                mailbox.post(Message::RdmaDeviceGone(*token));
            }
        }
        self.devices.values_mut().flatten().for_each(|one| one.lose(device));
        self.free(shared);
    }

    /// Registers the memory of the present namespaces, on the devices that can send from there.
    pub(super) fn look_after_memory(&mut self, shared: &Shared) {
        if self.devices.is_empty() {
            return;
        }
        let memories: Vec<_> =
            shared.devices.memories().map(|one| one as Arc<dyn Memory>).collect();
        self.devices.values_mut().flatten().for_each(|device| device.set_blocks(&memories));
    }

    /// Frees what reactors have of devices that are gone, once no connection uses it.
    fn free(&mut self, shared: &Shared) {
        for (reactor, devices) in &mut self.devices {
            for over in devices.extract_if(.., |one| one.is_over()) {
                for number in over.known() {
                    if let Some(mailbox) = shared.mailbox(*reactor) {
                        mailbox.post(Message::CompletionsUnused(number));
                    }
                }
            }
        }
    }

    /// Takes in a connection that a host asks for, or refuses it.
    fn request(&mut self, shared: &Shared, request: ConnectRequest) {
        let listener = ListenerId(u32::try_from(request.listener.0).unwrap_or(0));
        let peer = request.id.peer_address();
        shared.events.accepted.fetch_add(1, Ordering::Relaxed);
        let refused = if !shared.rdma.listens(listener) {
            (request, RejectReason::NoResources, "the listener is gone".to_owned())
        } else if !shared.has_room() {
            (request, RejectReason::NoResources, "there are as many as may be".to_owned())
        } else {
            match Wanted::of(shared, &request) {
                Err(reason) => (request, reason, reason.to_string()),
                Ok(wanted) => match self.make(shared, request, wanted, listener) {
                    Ok(()) => return,
                    Err(error) => {
                        if shared.may_log(peer.ip()) {
                            tracing::warn!(%peer, %error, "a host's queue pair cannot be made");
                        }
                        return;
                    }
                },
            }
        };
        let (request, reason, why) = refused;
        shared.events.waiting_closed.fetch_add(1, Ordering::Relaxed);
        if shared.may_log(peer.ip()) {
            tracing::warn!(%peer, %why, "a connection was refused");
        }
        request.reject(reason.private_data().as_bytes());
    }

    /// Makes a queue pair, and gives it to the reactor that has the least to do.
    fn make(
        &mut self,
        shared: &Shared,
        mut request: ConnectRequest,
        Wanted { queue, accept }: Wanted,
        listener: ListenerId,
    ) -> Result<(), Error> {
        let device = request.id.device()?;
        self.watch.add(&device);
        let port = (device.name().to_owned(), request.id.port());
        let loads = shared.gauges.iter().map(ReactorGauges::load);
        let reactor = sluice_core::place(loads, None).unwrap_or(0);
        let devices = self.devices.entry(reactor).or_default();
        let known = devices.iter().position(|one| one.serves(&device));
        let index = match known {
            Some(index) => index,
            None => {
                let memory = shared.rdma.memory_of(reactor);
                devices.push(ReactorDevice::new(&device, memory)?);
                devices.len() - 1
            }
        };
        let Some(device) = devices.get_mut(index) else { return Ok(()) };
        let sends = u32::from(queue.posts) + u32::from(queue.reads);
        let part = sends + u32::from(queue.entries);
        let next = self.queues.entry(reactor).or_default();
        let (number, completions) = device.promise(part, *next)?;
        *next = (*next).max(number + 1);
        let size = QueuePairSize {
            sends,
            receives: queue.entries,
            receive_bytes: COMMAND_BYTES + queue.in_capsule_data as usize,
            send_payloads: false,
            flushes: false,
        };
        self.given += 1;
        let token = Token(FIRST + self.given);
        request.id.set_token(token);
        let (peer, tos) = (request.id.peer_address(), request.id.traffic_class());
        let made = QueuePair::new(request.id, device.regions(), &completions, size);
        let pair = made.inspect_err(|_| device.give_back(number, part))?;
        if let Some(gauges) = shared.gauges(reactor) {
            gauges.connections.fetch_add(1, Ordering::Relaxed);
            gauges.waiting.fetch_add(1, Ordering::Relaxed);
        }
        let queue_pair = pair.number();
        let connected =
            Connected { reactor, completions: (number, part), queue_pair, peer: peer.ip() };
        self.connections.insert(token, connected);
        if let Some(mailbox) = shared.mailbox(reactor) {
            let completions = (number, device.hand_over(number));
            mailbox.post(Message::QueuePair(Box::new(NewQueuePair {
                token,
                pair,
                queue,
                accept,
                listener,
                port,
                peer,
                tos,
                completions,
            })));
        }
        Ok(())
    }
}

/// The queue that a host wants.
#[derive(Debug)]
struct Wanted {
    queue: QueueParams,
    accept: ConnectionParams,
}

impl Wanted {
    fn of(shared: &Shared, request: &ConnectRequest) -> Result<Self, RejectReason> {
        let limits = shared.with_service(|service| {
            let config = service.config();
            let (admin_entries, io_entries) = (config.admin_queue_entries, config.queue_entries);
            QueueLimits { admin_entries, io_entries }
        });
        let asked = private_data::ConnectRequest::parse(&request.private_data, limits)?;
        let Ok(device) = request.id.device() else { return Err(RejectReason::NoResources) };
        let device = device.limits();
        let reads = request.initiator_depth.min(device.reads).min(READS);
        if reads == 0 {
            return Err(RejectReason::ResponderResources);
        }
        let entries = asked.entries();
        let posts = (POSTS * u32::from(entries)).min(device.work_requests.saturating_sub(32));
        let is_admin = asked.qid.get() == 0;
        let queue = QueueParams {
            qid: asked.qid.get(),
            entries,
            in_capsule_data: if is_admin { 0 } else { shared.settings.rdma_in_capsule_data },
            reads: reads.into(),
            max_read: MOST,
            posts: u16::try_from(posts).unwrap_or(u16::MAX),
        };
        let accept = ConnectionParams {
            responder_resources: request.responder_resources.min(device.reads_answered),
            initiator_depth: reads,
            retries: RETRIES,
            not_ready_retries: RETRIES,
        };
        Ok(Self { queue, accept })
    }
}
