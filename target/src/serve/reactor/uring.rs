//! The driver of a reactor's core in the daemon: sockets and devices on one ring, and queue pairs.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arbitration::{Class, Reactors};
use fabric::Nanos;
use fabric::controller::{
    BackendId, ControllerShared, ListenerId, QueueKind, Refusal, Service, SmartCounters,
};
use fabric::fabrics::{ConnectData, nqn_field};
use fabric::queue::{Either, Fetch, Termination};
use fabric::rdma::wire::TargetQueue;
use fabric::tcp::{Batch, TargetConnection};
use nix::sys::socket::{Shutdown, shutdown};
use qtcp::pacing::Pacing;
use sluice_core::stats::{IoStats, PerReactor};
use sluice_core::{Driver, End, Key, Notice, Origin, Tenancy, TracedCommand, TxData};
use zerocopy::FromBytes;

use super::jobs::{Job, Jobs, Started};
use super::pool::{Buffer, Pool};
use super::queue_pairs::{self, Capsule, QueuePairs};
use super::receive::{DataPlace, Received, Receiving, Rest};
use super::ring::{Completion, Ring};
use super::send::Sending;
use super::tag::Tag;
use crate::disks::devices::OpenDevice;
use crate::serve::hosts::Host;
use crate::serve::network::{NewConnection, Path, SocketPath};
use crate::serve::qos::{Asker, Snapshot};
use crate::serve::shared::Shared;
use crate::serve::tls::{Came, End as TlsEnd, Session};
use crate::serve::workloads::WorkloadKey;
use crate::sys::socket;

/// The target's end of a queue: over TCP, or over RDMA.
pub(super) type QueueEnd =
    Either<TargetConnection<TxData<Buffer>>, TargetQueue<TxData<Buffer>, Capsule>>;

/// A batch that is over, and why its connection is.
type SendEnded = (Batch<TxData<Buffer>>, Option<Cow<'static, str>>);

/// The ring of one reactor, and everything on it.
#[derive(Debug)]
pub(super) struct Uring {
    pub(super) ring: Ring,
    pub(super) jobs: Jobs,
    /// Buffers for what Compare and Verify read. These buffers are apart because a Compare that
    /// waits for one holds its data's buffer meanwhile, and only jobs that run hold these.
    pub(super) scratch: Pool,
    pub(super) shared: Arc<Shared>,
    /// Index of this reactor.
    pub(super) reactor: usize,
    pub(super) pairs: QueuePairs,
    /// Connections by the indexes of their keys.
    links: Vec<Option<Link>>,
}

/// One connection.
#[derive(Debug)]
struct Link {
    generation: u32,
    peer: SocketAddr,
    local: Option<SocketAddr>,
    listener: ListenerId,
    /// The socket; a connection without one has a queue pair.
    socket: Option<Socket>,
}

/// The socket of one connection.
#[derive(Debug)]
struct Socket {
    fd: OwnedFd,
    /// The session's state if the kernel sends and receives TLS records.
    tls: Option<Box<Session>>,
    receiving: Receiving,
    sending: Sending,
}

/// Says why a connection is over after a receive or send that ended with `result`: 0 or less.
fn lost(result: i32) -> Cow<'static, str> {
    match result.checked_neg() {
        Some(0) | None => "it closed the connection".into(),
        Some(error) => {
            format!("the connection was lost: {}", std::io::Error::from_raw_os_error(error)).into()
        }
    }
}

impl Uring {
    pub(super) fn new(ring: Ring, scratch: Pool, shared: Arc<Shared>, reactor: usize) -> Self {
        let (jobs, pairs) = (Jobs::default(), QueuePairs::new(shared.clock.clone()));
        Self { ring, jobs, scratch, shared, reactor, pairs, links: Vec::new() }
    }

    /// Takes a connection with its socket; one without has a queue pair.
    pub(super) fn add(
        &mut self,
        key: Key,
        fd: Option<OwnedFd>,
        (peer, local): (SocketAddr, Option<SocketAddr>),
        listener: ListenerId,
    ) {
        let index = key.index as usize;
        if index >= self.links.len() {
            self.links.resize_with(index + 1, || None);
        }
        let (receiving, sending) = (Receiving::default(), Sending::default());
        let socket = fd.map(|fd| Socket { fd, tls: None, receiving, sending });
        let generation = key.generation;
        if let Some(place) = self.links.get_mut(index) {
            *place = Some(Link { generation, peer, local, listener, socket });
        }
    }

    /// Notes that a connection is over TLS, before anything is sent or received.
    pub(super) fn is_over_tls(&mut self, key: Key, session: Box<Session>) {
        if let Some(socket) = self.socket_mut(key) {
            socket.tls = Some(session);
            socket.sending.send_what_fits();
            socket.receiving.try_first();
        }
    }

    /// Describes why a connection is over after a receive that ended with `result`, 0 or less; `None`: a new key
    /// has come over TLS, and more may be received. Faults of a peer over TLS are logged.
    pub(super) fn why_over(&mut self, key: Key, result: i32) -> Option<Cow<'static, str>> {
        let now = self.shared.clock.now();
        let Some(Socket { fd, tls: Some(session), sending, .. }) = self.socket_mut(key) else {
            return Some(lost(result));
        };
        match session.came(now, fd, result.saturating_neg()) {
            Came::KeyUpdate { requested } => {
                if requested {
                    sending.change_key();
                }
                None
            }
            Came::Over(TlsEnd::Closed) => Some(lost(0)),
            Came::Over(TlsEnd::Lost) => Some(lost(result)),
            Came::Over(TlsEnd::Fault(why)) => Some(self.ended_over_tls(key, why)),
        }
    }

    /// Logs why a connection over TLS is over.
    fn ended_over_tls(&self, key: Key, why: Cow<'static, str>) -> Cow<'static, str> {
        if let Some(peer) = self.peer_to_log(key) {
            tracing::warn!(%peer, %why, "a connection over TLS is ended");
        }
        why
    }

    fn link(&self, key: Key) -> Option<&Link> {
        let link = self.links.get(key.index as usize)?.as_ref()?;
        (link.generation == key.generation).then_some(link)
    }

    #[inline]
    fn socket_mut(&mut self, key: Key) -> Option<&mut Socket> {
        let link = self.links.get_mut(key.index as usize)?.as_mut()?;
        link.socket.as_mut().filter(|_| link.generation == key.generation)
    }

    /// Finds a connection that has not ended.
    fn open_link(&self, key: Key) -> Option<&Link> {
        let link = self.link(key);
        debug_assert!(link.is_some(), "a connection is here until it has ended");
        link
    }

    /// Finds the socket of a connection that has not ended; `None` where it has a queue pair.
    #[inline]
    fn open_socket(&self, key: Key) -> Option<&Socket> {
        self.open_link(key)?.socket.as_ref()
    }

    /// Finds the socket of a connection that has not ended.
    #[inline]
    fn open_socket_mut(links: &mut [Option<Link>], key: Key) -> Option<&mut Socket> {
        let link = links.get_mut(key.index as usize).and_then(Option::as_mut);
        debug_assert!(link.is_some(), "a connection is here until it has ended");
        link?.socket.as_mut()
    }

    /// Takes the completion of a send. Returns the batch, if it is over, and why the connection is,
    /// where not all of the batch was sent.
    pub(super) fn send_ended(&mut self, key: Key, result: i32) -> Option<SendEnded> {
        self.ring.send_ended();
        let Self { links, ring, .. } = self;
        let socket = links.get_mut(key.index as usize)?.as_mut()?.socket.as_mut()?;
        let (fd, tag) = (socket.fd.as_raw_fd(), Tag::Send(key).encode());
        let (Some(sent), Some(session)) = (socket.sending.key_changed(result), &mut socket.tls)
        else {
            let batch = socket.sending.ended(result, fd, tag, ring)?;
            return Some((batch, (result < 0).then(|| lost(result))));
        };
        if result < 0 {
            return Some((socket.sending.give_up()?, Some(lost(result))));
        }
        let why = match sent {
            true => session.update_sending(&socket.fd).err(),
            false => Some("a part of a record was sent".to_owned()),
        };
        let Some(why) = why else {
            socket.sending.submit(fd, tag, ring);
            return None;
        };
        let batch = socket.sending.give_up()?;
        Some((batch, Some(self.ended_over_tls(key, why.into()))))
    }

    /// Takes the completion of a receive of one message.
    pub(super) fn receive_ended(&mut self, key: Key, completion: &Completion) -> Option<Received> {
        self.socket_mut(key)?.receiving.ended(completion)
    }

    /// Keeps the room that a receive had beside a command's buffer for the next one.
    pub(super) fn keep(&mut self, key: Key, rest: Rest) {
        if let Some(socket) = self.socket_mut(key) {
            socket.receiving.keep(rest);
        }
    }

    /// Registers a queue of a controller, with a line for the host's admin queue; discovery
    /// controllers come and go by the minute and make none.
    fn connected(
        &self,
        key: Key,
        kind: QueueKind,
        qid: u16,
        shared: &ControllerShared,
        digests: (bool, bool),
    ) {
        let (id, controller) = (key.id(self.reactor), shared.id.0);
        self.shared.connections.update(id, |state| {
            state.host = Some(shared.host_nqn.clone());
            state.subsystem = Some(shared.subsystem_nqn.clone());
            state.controller = Some(controller);
            state.queue = Some(qid);
            state.digests = digests;
        });
        if let Some(gauges) = self.shared.gauges(self.reactor) {
            gauges.waiting.fetch_sub(1, Ordering::Relaxed);
            let io = u64::from(matches!(kind, QueueKind::Io));
            gauges.io_queues.fetch_add(io, Ordering::Relaxed);
        }
        let Some(link) = self.open_link(key) else { return };
        tracing::debug!(
            peer = %link.peer, host = shared.host_nqn, subsystem = shared.subsystem_nqn,
            controller, queue = qid, "a queue is connected"
        );
        self.shared.tell_of_hosts(|hosts, now| match kind {
            QueueKind::Admin => {
                let (host, subsystem) = (shared.host_nqn.clone(), shared.subsystem_nqn.clone());
                let address = link.peer;
                Some(hosts.connected(now, Host { host, subsystem, address, controller }))
            }
            QueueKind::Io => {
                hosts.queue_connected(controller);
                None
            }
            QueueKind::Discovery => None,
        });
        let local = link.local.filter(|_| !matches!(kind, QueueKind::Io));
        if let Some(address) = local {
            self.shared.with_service(|service| service.local_address(id, address));
        }
    }

    fn refused(&self, key: Key, data: &[u8], reason: Refusal) {
        let name =
            |field: Option<&[u8; 256]>| field.and_then(nqn_field).unwrap_or_default().to_owned();
        let data = ConnectData::ref_from_bytes(data).ok();
        let host = name(data.map(|data| &data.hostnqn));
        let subsystem = name(data.map(|data| &data.subnqn));
        let Some(address) = self.peer(key) else { return };
        self.shared.events.refused(reason);
        self.shared
            .tell_of_hosts(|hosts, now| hosts.refused(now, (host, subsystem), address, reason));
    }

    fn peer(&self, key: Key) -> Option<SocketAddr> {
        self.open_link(key).map(|link| link.peer)
    }

    /// Returns the peer of a connection that a line of the log is about, unless the peer has caused
    /// too many lines.
    fn peer_to_log(&self, key: Key) -> Option<SocketAddr> {
        self.peer(key).filter(|peer| self.shared.may_log(peer.ip()))
    }
}

impl Driver for Uring {
    type Transport = QueueEnd;
    type Memory = Pool;
    type Device = OpenDevice;
    type Policies = Snapshot;

    fn receive(&mut self, key: Key) {
        match self.open_socket(key).map(|socket| socket.fd.as_raw_fd()) {
            Some(fd) => self.ring.receive(fd, Tag::Receive(key).encode()),
            None => self.pairs.receive(key),
        }
    }

    fn receive_chunk(&mut self, key: Key) {
        match self.open_socket(key).map(|socket| socket.fd.as_raw_fd()) {
            Some(fd) => self.ring.receive_chunk(fd, Tag::Receive(key).encode()),
            None => self.pairs.receive_chunk(key),
        }
    }

    fn stop_receiving(&mut self, key: Key) {
        match self.open_socket(key) {
            Some(_) => self.ring.cancel(Tag::Receive(key).encode(), Tag::Cancel.encode()),
            None => self.pairs.stop_receiving(key),
        }
    }

    #[inline]
    fn receive_once(&mut self, key: Key, place: Option<DataPlace>) {
        let Self { links, ring, pairs, .. } = self;
        let Some(socket) = Self::open_socket_mut(links, key) else {
            debug_assert!(place.is_none(), "data of queue pairs is fetched");
            return pairs.receive_once(key);
        };
        let (fd, tag) = (socket.fd.as_raw_fd(), Tag::ReceiveOnce(key).encode());
        socket.receiving.start(place, fd, tag, ring);
    }

    #[inline]
    fn send(&mut self, key: Key, batch: Either<Batch<TxData<Buffer>>, queue_pairs::Batch>) {
        let Self { links, ring, pairs, .. } = self;
        match (batch, Self::open_socket_mut(links, key)) {
            (Either::Left(batch), Some(socket)) => {
                let (fd, tag) = (socket.fd.as_raw_fd(), Tag::Send(key).encode());
                socket.sending.start(batch, fd, tag, ring);
            }
            (Either::Right(batch), None) => pairs.send(key, batch),
            _ => debug_assert!(false, "a batch is of its connection's transport"),
        }
    }

    fn reaches(&self, key: Key, bytes: &[u8]) -> bool {
        self.pairs.reaches(key, bytes)
    }

    fn fetch(&mut self, key: Key, fetch: Fetch, place: Option<DataPlace>) {
        self.pairs.fetch(key, fetch, place);
    }

    fn begin_fetches(&mut self, key: Key) {
        self.pairs.post_fetches(key);
    }

    fn shut_down(&mut self, key: Key) {
        match self.open_socket(key) {
            // This fails only where the peer has gone already.
            Some(socket) => drop(shutdown(socket.fd.as_raw_fd(), Shutdown::Both)),
            None => self.pairs.shut_down(key),
        }
    }

    fn set_dscp(&mut self, key: Key, dscp: u8, priority: i32) -> bool {
        let Some(link) = self.open_link(key) else { return false };
        let Some(socket) = &link.socket else {
            // A queue pair is marked when its connection is accepted, once.
            return true;
        };
        match socket::set_dscp(&socket.fd, link.peer.is_ipv6(), dscp, priority) {
            Ok(()) => true,
            Err(error) => {
                if let Some(peer) = self.peer_to_log(key) {
                    tracing::warn!(%peer, %error, "answers are not marked");
                }
                false
            }
        }
    }

    fn join_network(&mut self, key: Key, pacing: &Arc<Pacing>) -> bool {
        let Some(link) = self.open_link(key) else { return false };
        let (id, listener, pacing) = (key.id(self.reactor), link.listener, Arc::clone(pacing));
        let path = match &link.socket {
            Some(socket) => {
                let own = socket.fd.as_fd().try_clone_to_owned();
                own.map(|own| Some(Path::Socket(Box::new(SocketPath::new(own)))))
            }
            None => Ok(self.pairs.meter(key).map(|path| Path::QueuePair(Box::new(path)))),
        };
        match path {
            Ok(Some(path)) => {
                self.shared.network.came(NewConnection { id, listener, pacing, path });
                true
            }
            Ok(None) => false,
            Err(error) => {
                if let Some(peer) = self.peer_to_log(key) {
                    tracing::warn!(%peer, %error, "the connection is not paced");
                }
                false
            }
        }
    }

    fn launch(&mut self, job: Job) -> Started {
        self.jobs.start(job, &mut self.ring, &self.scratch)
    }

    fn device(&mut self, id: BackendId) -> Option<Arc<OpenDevice>> {
        self.shared.devices.get(id)
    }

    #[inline]
    fn policies_version(&self) -> u64 {
        self.shared.qos.version()
    }

    fn policies(&self) -> Arc<Snapshot> {
        self.shared.qos.snapshot()
    }

    fn resolve(
        &self,
        policies: &Snapshot,
        origin: &Origin,
        host: &str,
        subsystem: &str,
        nsid: Option<u32>,
    ) -> Tenancy {
        let own = nsid.and_then(|nsid| self.shared.qos.namespace(subsystem, nsid));
        let asker = Asker { host, address: origin.address };
        policies.resolve(&asker, subsystem, nsid, own)
    }

    #[inline]
    fn class_stats(&self, class: Class) -> Option<&IoStats> {
        Some(&self.shared.qos.classes.get(self.reactor)?[class])
    }

    fn workload_stats(
        &self,
        now: Nanos,
        host: &str,
        subsystem: &str,
        (nsid, class): (u32, Class),
    ) -> Arc<PerReactor> {
        let (host, subsystem) = (host.to_owned(), subsystem.to_owned());
        self.shared.workloads.stats_of(now, WorkloadKey { host, subsystem, nsid, class })
    }

    fn service<R>(&mut self, use_it: impl FnOnce(&mut Service) -> R) -> R {
        self.shared.with_service(use_it)
    }

    fn smart(&self, devices: &[BackendId]) -> SmartCounters {
        self.shared.smart(devices)
    }

    fn wake(&mut self, reactors: Reactors) {
        for reactor in reactors {
            if let Some(mailbox) = self.shared.mailbox(reactor as usize) {
                mailbox.wake();
            }
        }
    }

    fn notice(&mut self, key: Key, notice: Notice<'_, Self::Transport>) {
        let events = &self.shared.events;
        match notice {
            Notice::Connected { kind, qid, shared, transport } => {
                let digests = match transport {
                    Either::Left(connection) => connection.digests(),
                    Either::Right(_) => (false, false),
                };
                self.connected(key, kind, qid, shared, digests);
            }
            Notice::Refused { data, reason } => self.refused(key, data, reason),
            Notice::BrokeProtocol(violation) => {
                events.protocol_errors.fetch_add(1, Ordering::Relaxed);
                if let Some(peer) = self.peer_to_log(key) {
                    tracing::warn!(%peer, %violation, "the host broke the protocol");
                }
            }
            Notice::Terminated(Termination { code: fes, information: fei }) => {
                if let Some(peer) = self.peer_to_log(key) {
                    tracing::warn!(%peer, fes, fei, "the host ended the connection");
                }
            }
            Notice::KeepAliveExpired => {
                events.keep_alive_expired.fetch_add(1, Ordering::Relaxed);
            }
            Notice::NoConnect => {
                if let Some(peer) = self.peer_to_log(key) {
                    tracing::info!(%peer, "the host sent no Connect within 10 s: closing");
                }
            }
            Notice::TooSlow(why) => {
                if let Some(peer) = self.peer_to_log(key) {
                    tracing::warn!(%peer, why, "the host is too slow: closing");
                }
            }
            Notice::Ending(reason) => {
                self.jobs.end_connection(key);
                let peer = self.peer(key).map(tracing::field::display);
                tracing::debug!(peer, reason, "a connection is ended");
                if self.pairs.has_failed(key)
                    && let Some(peer) = self.peer_to_log(key)
                {
                    tracing::warn!(
                        %peer, reason,
                        "an RDMA connection is ended: a call for it has failed"
                    );
                }
            }
        }
    }

    /// Takes a connection out of everything that is shared.
    fn traced(&mut self, command: TracedCommand) {
        self.shared.traces.add(self.reactor, command);
    }

    fn ended(&mut self, key: Key, End { id, reason }: End<'_>) {
        self.jobs.connection_ended(key);
        let (shared, now) = (&self.shared, self.shared.clock.now());
        let link = self.links.get_mut(key.index as usize).and_then(Option::take);
        match link.map(|link| link.socket) {
            Some(Some(socket)) => self.ring.close(socket.fd, Tag::Close.encode()),
            Some(None) => self.pairs.end(shared, key),
            None => {}
        }
        let shut_down = shared.with_service(|service| {
            let shut_down = service.is_shut_down(id);
            service.disconnected(now, id);
            shut_down
        });
        shared.network.went(id);
        let state = shared.connections.remove(now, id);
        if let Some(gauges) = shared.gauges(self.reactor) {
            gauges.connections.fetch_sub(1, Ordering::Relaxed);
            match state.as_ref().and_then(|state| state.queue) {
                Some(0) => {}
                Some(_) => drop(gauges.io_queues.fetch_sub(1, Ordering::Relaxed)),
                None => drop(gauges.waiting.fetch_sub(1, Ordering::Relaxed)),
            }
        }
        let queue = state.and_then(|state| state.queue.zip(state.controller));
        if let Some((0, controller)) = queue {
            let reason = if shut_down { "it shut the controller down" } else { reason };
            shared.tell_of_hosts(|hosts, now| hosts.left(now, controller, reason.to_owned()));
        }
    }
}
