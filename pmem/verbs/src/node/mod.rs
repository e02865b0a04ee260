//! A data node: it accepts clients that have a grant, and a monitor hands tokens out to them.
//!
//! The node belongs to one thread, which calls [`Node::turn`] and then [`Node::wait`], repeatedly.
//! The granter of regions answers [`Grants::claim`] for each new client, and learns its fate by
//! [`Node::next_news`].
//!
//! The monitor uses the pool's word through the device, by a connection of the node to itself: few
//! devices order their atomics with the processor's.

mod client;
mod settings;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use fabric_verbs::{
    CompletionQueue, ConnectRequest, Device, Done, Error, Event, EventChannel, Listener, Token,
};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use pmem::admission::Refusal;
use pmem::capacity::{Estimator, Profile, ProfileError};
use pmem::message::ClientId;
use pmem::monitor::{Action, BadInterval, Finding, Monitor};
use pmem::one_sided::OneSided as _;
use pmem::period::Period;
use pmem::token::Tokens;
use thiserror::Error as ThisError;
use units::Nanos;

use crate::connection::{ConnectError, Dial};
use crate::grant::{ControlWords, Grant};
use crate::message::{Message, Sync};
use crate::private_data::{RegionId, Reject, Request, Rights};
use crate::provider::Provider;
use client::{Client, Pair, Unaccepted, accept};

pub use client::{Claim, GrantKey, Grants};
pub use settings::Settings;

/// The names of the listener and of the monitor's own connection; clients have their numbers.
const LISTENER: Token = Token(1 << 32);
const OWN: Token = Token(2 << 32);
/// Connections that may wait to be taken in.
const BACKLOG: u32 = 64;
/// Operations of the monitor under way at once.
const OPERATIONS: u16 = 8;
/// The longest time between two counts of a client's packets. A device that sends 100 million packets
/// in a second has sent 10 million of the 16 million that a count can tell apart.
const COUNT: Duration = Duration::from_millis(100);
/// The time for an address, and for a route, of the node's connection to itself.
const LOOK_UP: Duration = Duration::from_secs(5);

/// The end of a data node.
#[derive(Debug, ThisError)]
pub enum NodeError {
    /// RDMA fails, or the machine has none.
    #[error(transparent)]
    Rdma(#[from] Error),
    /// The node cannot connect to itself.
    #[error("the data node's connection to itself: {0}")]
    Own(#[from] ConnectError),
    /// The node's connection to itself has ended, for instance with its device.
    #[error("the data node's connection to itself has ended: is its RDMA device gone?")]
    Lost,
    /// The check interval is impossible.
    #[error(transparent)]
    Interval(#[from] BadInterval),
    /// The device has no atomics.
    #[error("{0} has no atomics, by which clients share the pool of tokens: use another device")]
    NoAtomics(String),
}

/// Events of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    /// The node is ready: its monitor runs.
    Ready,
    /// A client is connected.
    Connected(GrantKey),
    /// A client's connection has ended, and its rights with it.
    Gone(GrantKey),
    /// A connection was refused.
    Refused(IpAddr, Reject),
    /// A client was refused, since the device does not take the memory; in words.
    Unregistered(GrantKey, String),
    /// A client was admitted without its reservation, since the capacity has become too small for it.
    Unreserved(GrantKey, Refusal),
    /// The monitor has found something out; of a client where it names one.
    Finding(Option<GrantKey>, Finding),
    /// The capacity was measured, or could not be.
    Profiled(Result<Profile, ProfileError>),
    /// A client was evicted, since it does not report its I/Os; its connection and rights have ended.
    Evicted(GrantKey),
    /// A client wants the writes that it has sent before to survive: answer with [`Node::synced`].
    Sync(GrantKey, Sync),
}

/// A client's I/Os in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The client's grant.
    pub key: GrantKey,
    /// R_i, in tokens of the period.
    pub reservation: Tokens,
    /// N_i, as the client has reported it last; `None` where nothing was asked for, since nobody wanted
    /// more than its reservation.
    pub completed: Option<Tokens>,
}

/// A data node. See the [module](self).
#[derive(Debug)]
pub struct Node {
    // The fields are dropped in this order: connections before the objects that they use.
    clients: Vec<Option<Client>>,
    own_pair: Option<Pair>,
    provider: Option<Provider>,
    dial: Option<Dial>,
    own_grant: Grant,
    words: ControlWords,
    completions: CompletionQueue,
    monitor: Option<Monitor>,
    /// Time of the next count of packets.
    next_count: Nanos,
    device: Device,
    listener: Listener,
    channel: EventChannel,
    settings: Settings,
    news: VecDeque<News>,
}

impl Node {
    /// Begins to listen. The node accepts clients once it is connected to itself: [`News::Ready`].
    ///
    /// # Errors
    ///
    /// The machine has no RDMA, the address is of no RDMA device or in use, or the device has no atomics.
    pub fn new(settings: Settings) -> Result<Self, NodeError> {
        let channel = EventChannel::new()?;
        let listener = Listener::new(&channel, settings.address, BACKLOG, LISTENER)?;
        let device = listener.device()?;
        if !device.limits().atomics {
            return Err(NodeError::NoAtomics(device.name().to_owned()));
        }
        let own = settings.clients;
        let words = ControlWords::new(own.saturating_add(1))?;
        let own_grant = Grant::monitor(&device, &words, own)?;
        let entries = client::completions(own.saturating_add(1));
        let completions = CompletionQueue::new(&device, entries)?;
        let own = Request { region: OWN_REGION, secret: settings.secret, rights: Rights::Read };
        let address = listener.local_address();
        let dial = Dial::begin(&channel, OWN, address, own, OPERATIONS, LOOK_UP)?;
        let clients = usize::try_from(settings.clients).unwrap_or(usize::MAX);
        Ok(Self {
            clients: (0..clients).map(|_| None).collect(),
            own_pair: None,
            provider: None,
            dial: Some(dial),
            own_grant,
            words,
            completions,
            monitor: None,
            next_count: Nanos::ZERO,
            device,
            listener,
            channel,
            settings,
            news: VecDeque::new(),
        })
    }

    /// Returns the address that the node listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.local_address()
    }

    /// Returns the device.
    #[must_use]
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the capacity of a period as it is estimated now, and the running period's number.
    #[must_use]
    pub fn capacity(&self) -> (Tokens, Period) {
        let monitor = self.monitor.as_ref();
        monitor.map_or((self.settings.profile.mean, Period(0)), |monitor| {
            (monitor.admission().capacity, monitor.period())
        })
    }

    /// Returns each client's I/Os in the last whole period.
    pub fn served(&self) -> impl Iterator<Item = Served> {
        let served = self.monitor.iter().flat_map(Monitor::served);
        served.filter_map(|(client, reservation, completed)| {
            let key = self.client(client)?.key;
            Some(Served { key, reservation, completed })
        })
    }

    /// Returns the next thing that has happened, until there is none.
    pub fn next_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// Runs all due work: handles events and messages, and runs the monitor.
    ///
    /// # Errors
    ///
    /// [`NodeError`] where the node is of no use any more: drop it, and make another one later.
    pub fn turn(&mut self, now: Nanos, grants: &mut dyn Grants) -> Result<(), NodeError> {
        while let Some(event) = self.channel.next()? {
            self.event(event, grants)?;
        }
        self.take_completions()?;
        self.watch(now);
        Ok(())
    }

    /// Waits until something has happened, or a descriptor of the caller is readable, or the monitor's
    /// next look is due; `longest` at the most.
    ///
    /// # Errors
    ///
    /// As [`Self::turn`].
    pub fn wait(
        &mut self,
        now: Nanos,
        other: BorrowedFd<'_>,
        longest: Duration,
    ) -> Result<(), NodeError> {
        self.completions.arm()?;
        if let Some(provider) = &mut self.provider {
            provider.arm()?;
        }
        // Earlier events make nothing readable.
        self.take_completions()?;
        let has_words = self.provider.as_mut().is_some_and(|provider| {
            provider.poll();
            !provider.is_idle()
        });
        let next = self.watched().map_or(Nanos::MAX, Monitor::next_tick);
        let wait = next.since(now).min(longest);
        let wait = if has_words || !self.news.is_empty() { Duration::ZERO } else { wait };
        let mut fds: Vec<BorrowedFd<'_>> =
            vec![other, self.channel.as_fd(), self.completions.as_fd()];
        fds.extend(self.provider.as_ref().map(AsFd::as_fd));
        let mut fds: Vec<PollFd<'_>> =
            fds.into_iter().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        // A thread woken by a signal looks again.
        let _ = ppoll(&mut fds, Some(TimeSpec::from_duration(wait)), None);
        drop(fds);
        self.completions.take_events();
        if let Some(provider) = &mut self.provider {
            provider.take_events();
        }
        Ok(())
    }

    /// Ends the rights of a client at once, and its connection. [`News::Gone`] follows where it had one.
    pub fn revoke(&mut self, key: GrantKey) {
        if let Some(number) = self.number_of(key) {
            self.end(number);
        }
    }

    /// Ends the rights of a client at once, and leaves its connection to the device, which ends it with
    /// the next thing that the client tries.
    pub fn revoke_rights(&mut self, key: GrantKey) {
        let Some(number) = self.number_of(key) else { return };
        if let Some(Some(client)) = self.clients.get_mut(number) {
            client.revoke();
        }
        self.forget(number);
    }

    /// Begins to measure the capacity, in so many periods: [`News::Profiled`] follows. Returns false if
    /// there is no client whose I/Os could be counted.
    pub fn begin_profile(&mut self, periods: u32) -> bool {
        let watched = self.watched().is_some();
        if let Some(monitor) = self.monitor.as_mut().filter(|_| watched) {
            monitor.begin_profile(periods);
        }
        watched
    }

    /// Answers a client's [`Sync`]: whether its writes survive.
    pub fn synced(&mut self, key: GrantKey, ticket: u32, done: bool) {
        let Some(number) = self.number_of(key) else { return };
        if let Some(Some(client)) = self.clients.get_mut(number) {
            client.send(Message::Synced { ticket, done });
        }
    }

    /// Stops the monitor, as if it had died; [`Self::restart_monitor`] makes another one.
    pub fn stop_monitor(&mut self) {
        self.monitor = None;
    }

    /// Makes a monitor, which goes on with the pool that another one has left.
    ///
    /// # Errors
    ///
    /// The check interval does not fit into the period.
    pub fn restart_monitor(&mut self) -> Result<(), NodeError> {
        let Some(provider) = &self.provider else { return Ok(()) };
        let settings = self.settings.monitor(provider.accept().pool.at);
        let Settings { profile, increment, history, .. } = self.settings;
        let estimator = Estimator::new(profile, increment, history);
        let mut monitor = Monitor::new(settings, estimator, self.words.pool())?;
        for (number, client) in (0..).zip(&self.clients) {
            if let Some(client) = client.as_ref().filter(|client| client.is_here) {
                let refusal = client.admit(&mut monitor, ClientId(number));
                self.news.extend(refusal.map(|refusal| News::Unreserved(client.key, refusal)));
            }
        }
        self.monitor = Some(monitor);
        Ok(())
    }

    /// Returns the monitor where it has something to watch.
    fn watched(&self) -> Option<&Monitor> {
        let any = self.clients.iter().flatten().any(|client| client.is_here);
        self.monitor.as_ref().filter(|_| any)
    }

    fn client(&self, ClientId(number): ClientId) -> Option<&Client> {
        self.clients.get(usize::try_from(number).ok()?)?.as_ref()
    }

    fn number_of(&self, key: GrantKey) -> Option<usize> {
        self.clients.iter().position(|one| one.as_ref().is_some_and(|client| client.key == key))
    }

    fn event(&mut self, event: Event, grants: &mut dyn Grants) -> Result<(), NodeError> {
        match event {
            Event::Request(request) => return self.requested(request, grants),
            Event::AddressResolved(OWN) | Event::RouteResolved(OWN) => return self.dialled(event),
            Event::Established(OWN, ref said) if !said.is_empty() => return self.dialled(event),
            Event::Rejected(OWN, ..) | Event::Failed(OWN, _) => return self.dialled(event),
            Event::Disconnected(OWN) | Event::DeviceRemoved(_) => return Err(NodeError::Lost),
            Event::Established(token, _) => self.established(token),
            Event::Disconnected(token) | Event::Rejected(token, ..) | Event::Failed(token, _) => {
                if let Ok(number) = usize::try_from(token.0) {
                    self.end(number);
                }
            }
            Event::AddressResolved(_)
            | Event::RouteResolved(_)
            | Event::AddressChanged(_)
            | Event::Over(_) => {}
        }
        Ok(())
    }

    /// Handles an event of the node's connection to itself.
    fn dialled(&mut self, event: Event) -> Result<(), NodeError> {
        let Some(dial) = &mut self.dial else { return Ok(()) };
        if let Some((provider, _)) = dial.event(event)? {
            self.dial = None;
            self.provider = Some(provider);
            self.restart_monitor()?;
            self.news.push_back(News::Ready);
        }
        Ok(())
    }

    /// Notes that a client's connection stands: it is one of the monitor's from now on.
    fn established(&mut self, token: Token) {
        let Ok(number) = u32::try_from(token.0) else { return };
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        let Some(Some(client)) = self.clients.get_mut(index) else { return };
        client.is_here = true;
        if let Some(monitor) = &mut self.monitor {
            let refusal = client.admit(monitor, ClientId(number));
            self.news.extend(refusal.map(|refusal| News::Unreserved(client.key, refusal)));
        }
        self.news.push_back(News::Connected(client.key));
    }

    /// Ends a client: its rights first.
    fn end(&mut self, index: usize) {
        let Some(client) = self.clients.get_mut(index).and_then(Option::take) else { return };
        let key = client.key;
        client.end();
        self.forget(index);
        self.news.push_back(News::Gone(key));
    }

    /// Releases a client's share of the monitor.
    fn forget(&mut self, index: usize) {
        let Ok(number) = u32::try_from(index) else { return };
        if let Some(monitor) = &mut self.monitor {
            monitor.remove(ClientId(number));
        }
        self.words.clear(number);
    }

    /// Accepts a client, or the node itself, or refuses it.
    fn requested(
        &mut self,
        asked: ConnectRequest,
        grants: &mut dyn Grants,
    ) -> Result<(), NodeError> {
        let terms = self.settings.terms;
        let wanted = Request::parse(&asked.private_data).map_err(|_| Reject::NotUnderstood);
        if let Ok(own) = wanted
            && own.region == OWN_REGION
            && own.secret == self.settings.secret
            && self.own_pair.is_none()
        {
            self.own_pair = Some(accept(asked, OWN, &self.own_grant, &self.completions, terms)?);
            return Ok(());
        }
        let (index, number, (key, claim)) =
            match wanted.and_then(|wanted| self.admit(&wanted, grants)) {
                Ok(admitted) => admitted,
                Err(reason) => {
                    self.news.push_back(News::Refused(asked.id.peer_address().ip(), reason));
                    asked.reject(&reason.emit());
                    return Ok(());
                }
            };
        let of = (&self.device, &self.words, number);
        match Client::accept(of, (key, claim), asked, &self.completions, terms) {
            Ok(client) => {
                if let Some(place) = self.clients.get_mut(index) {
                    *place = Some(client);
                }
            }
            Err(Unaccepted::Memory(error)) => {
                self.news.push_back(News::Unregistered(key, error.to_string()));
            }
            Err(Unaccepted::Connection) => self.news.push_back(News::Gone(key)),
        }
        Ok(())
    }

    /// Finds a place for a client, and its grant.
    fn admit(
        &self,
        wanted: &Request,
        grants: &mut dyn Grants,
    ) -> Result<(usize, u32, (GrantKey, Claim)), Reject> {
        let (key, claim) = grants.claim(wanted)?;
        if self.number_of(key).is_some() {
            return Err(Reject::InUse);
        }
        let index = self.clients.iter().position(Option::is_none).ok_or(Reject::NoRoom)?;
        let number = u32::try_from(index).map_err(|_| Reject::NoRoom)?;
        Ok((index, number, (key, claim)))
    }

    /// Handles messages from clients, and completions of sent messages.
    fn take_completions(&mut self) -> Result<(), NodeError> {
        let mut taken = Vec::new();
        while self.completions.poll(&mut taken)? {}
        for completion in taken {
            let number = completion.queue_pair();
            if let Some(pair) = self.own_pair.as_mut().filter(|pair| pair.pair().number() == number)
            {
                pair.complete(completion, |_| {});
                continue;
            }
            let mut clients = self.clients.iter_mut().flatten();
            let Some(client) = clients.find(|client| client.queue_pair() == number) else {
                continue;
            };
            let (key, news) = (client.key, &mut self.news);
            client.complete(completion, |done| {
                if let Done::Received(bytes) = done {
                    news.extend(Sync::parse(&bytes).map(|sync| News::Sync(key, sync)));
                }
            });
        }
        Ok(())
    }

    /// Runs the monitor, and carries out its actions.
    fn watch(&mut self, now: Nanos) {
        let watched = self.watched().is_some();
        let (Some(monitor), Some(provider)) = (&mut self.monitor, &mut self.provider) else {
            return;
        };
        while let Some(completion) = provider.completed() {
            monitor.completed(completion);
        }
        if watched {
            if now >= self.next_count.min(monitor.period_end()) {
                self.next_count = now + COUNT;
                let io_bytes = self.settings.terms.io_bytes;
                for (number, client) in (0..).zip(&self.clients) {
                    let client = client.as_ref().filter(|client| client.is_here);
                    if let Some(arrivals) = client.and_then(|client| client.arrivals(io_bytes)) {
                        monitor.arrived(ClientId(number), arrivals);
                    }
                }
            }
            monitor.tick(now, |ClientId(number)| self.words.report(number));
        }
        if let Some(profiled) = monitor.take_profile() {
            // A monitor that restarts begins with it.
            self.settings.profile = profiled.unwrap_or(self.settings.profile);
            self.news.push_back(News::Profiled(profiled));
        }
        let clients = &mut self.clients;
        let place = |ClientId(number): ClientId| usize::try_from(number).unwrap_or(usize::MAX);
        while let Some(finding) = monitor.next_finding() {
            let client = finding.client().and_then(|id| clients.get(place(id))?.as_ref());
            self.news.push_back(News::Finding(client.map(|client| client.key), finding));
        }
        let mut send = |id: ClientId, message: Message| {
            if let Some(Some(client)) = clients.get_mut(place(id)) {
                client.send(message);
            }
        };
        let mut evicted = Vec::new();
        while let Some(action) = monitor.next_action() {
            match action {
                Action::Evict(id) => evicted.push(place(id)),
                Action::Push(id, push) => send(id, Message::Push(push)),
                Action::Ask(id, ask) => send(id, Message::Ask(ask)),
                Action::Grant(ClientId(number), grant) => {
                    self.words.set_grant(number, grant);
                }
                Action::Post(ticket, operation) => {
                    if provider.post(ticket, operation).is_err() {
                        monitor.not_posted(ticket);
                    }
                }
            }
        }
        for index in evicted {
            let key = self.clients.get(index).and_then(Option::as_ref).map(|client| client.key);
            self.end(index);
            self.news.extend(key.map(News::Evicted));
        }
    }
}

/// The region that the node asks itself for: no name of a region is all zeroes.
const OWN_REGION: RegionId = RegionId(0);
