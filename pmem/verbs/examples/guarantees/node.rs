//! The data node: it grants rights, and a monitor hands out tokens.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use fabric::rdma::verbs::{
    ActivePair, CompletionQueue, ConnectRequest, ConnectionParams, Device, Event, EventChannel,
    Listener, QueuePair, QueuePairSize, SharedMemory, Token, Work,
};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use pmem::capacity::{Estimator, Profile};
use pmem::message::ClientId;
use pmem::monitor::{self, Action, Monitor};
use pmem::one_sided::{Address, OneSided as _};
use pmem::token::{Iops, Tokens};
use pmem_verbs::connection::Dial;
use pmem_verbs::grant::{ControlWords, Grant, Terms};
use pmem_verbs::message::Message;
use pmem_verbs::private_data::{Reject, Request, Rights};
use pmem_verbs::provider::Provider;
use units::Nanos;

use crate::common::{BLOCK, Clock, LENGTH, REGION, request};

/// READs and atomics of a client that are answered at once.
const READS: u8 = 16;
/// Messages that may be on their way to a client; those beyond are dropped.
const MESSAGES: u16 = 16;
/// The names of listener and of the monitor's own connection; clients have their numbers.
const LISTENER: Token = Token(1 << 32);
const OWN: Token = Token(2 << 32);

/// A client.
struct Host {
    reservation: Tokens,
    /// Its rights, while it has any.
    grant: Option<Grant>,
    pair: Option<ActivePair<Vec<u8>, Vec<u8>>>,
}

struct Node {
    clock: Clock,
    channel: EventChannel,
    device: Device,
    completions: CompletionQueue,
    words: ControlWords,
    data: Arc<SharedMemory>,
    terms: Terms,
    capacity: u64,
    hosts: Vec<Host>,
    /// The number of the monitor's own words: behind all clients.
    own: u32,
    own_grant: Option<Grant>,
    own_pair: Option<ActivePair<Vec<u8>, Vec<u8>>>,
    dial: Option<Dial>,
    provider: Option<Provider>,
    monitor: Option<Monitor>,
}

/// Serves until it is told to end.
pub(crate) fn serve(
    address: SocketAddr,
    capacity: u64,
    interval: u64,
    batch: u64,
    reserved: Vec<u64>,
) {
    let channel = EventChannel::new().unwrap();
    let listener = Listener::new(&channel, address, 64, LISTENER).unwrap();
    let device = listener.device().unwrap();
    let data = SharedMemory::new(LENGTH).unwrap();
    for block in 0..LENGTH / BLOCK {
        assert!(data.store(block * BLOCK, (block * BLOCK) as u64));
    }
    let own = u32::try_from(reserved.len()).unwrap();
    let host = |reservation| Host { reservation: Tokens(reservation), grant: None, pair: None };
    let mut node = Node {
        clock: Clock::begin(),
        completions: CompletionQueue::new(&device, 1000).unwrap(),
        words: ControlWords::new(own + 1).unwrap(),
        data: Arc::new(data),
        terms: Terms {
            period: Duration::from_secs(1),
            interval: Duration::from_millis(interval),
            batch: Tokens(batch),
            limit: None,
        },
        capacity,
        hosts: reserved.into_iter().map(host).collect(),
        own,
        own_grant: None,
        own_pair: None,
        dial: None,
        provider: None,
        monitor: None,
        channel,
        device,
    };
    node.own_grant = Some(Grant::monitor(&node.device, &node.words, own).unwrap());
    let time = Duration::from_secs(5);
    node.dial = Some(Dial::begin(&node.channel, OWN, address, request(own), 8, time).unwrap());
    println!("node listens on {}", listener.local_address());
    let mut input = BufReader::new(std::io::stdin());
    while node.turn(&mut input) {}
    println!("node ends");
}

impl Node {
    /// Does what is due, and waits for more. Returns false at the end.
    fn turn(&mut self, input: &mut BufReader<std::io::Stdin>) -> bool {
        while let Some(event) = self.channel.next().unwrap() {
            self.event(event);
        }
        self.take_completions();
        self.watch();
        self.completions.arm().unwrap();
        if let Some(provider) = &mut self.provider {
            provider.arm().unwrap();
        }
        // What came before the queues were armed makes nothing readable.
        self.take_completions();
        let words = self.provider.as_mut().is_some_and(|provider| {
            provider.poll();
            !provider.is_idle()
        });
        let next = self.monitor.as_ref().map_or(Nanos::MAX, Monitor::next_tick);
        let wait = next.since(self.clock.now()).min(Duration::from_millis(100));
        let wait = if words { Duration::ZERO } else { wait };
        let stdin = std::io::stdin();
        let mut fds: Vec<&dyn AsFd> = vec![&self.channel, &self.completions, &stdin];
        fds.extend(self.provider.as_ref().map(|provider| provider as &dyn AsFd));
        let readable = ready(&fds, wait);
        self.completions.take_events();
        if let Some(provider) = &mut self.provider {
            provider.take_events();
        }
        !readable[2] || self.command(input)
    }

    /// Carries out a line of the input. Returns false at the end.
    fn command(&mut self, input: &mut BufReader<std::io::Stdin>) -> bool {
        let mut line = String::new();
        // A line comes as a whole.
        if input.by_ref().read_line(&mut line).unwrap() == 0 {
            return false;
        }
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["revoke", number] => {
                let number: usize = number.parse().unwrap();
                self.hosts[number].grant = None;
                self.remove(number);
                println!("node has revoked {number}");
            }
            ["stop"] => self.monitor = None,
            ["start"] => self.start(),
            ["end"] => return false,
            _ => panic!("{line}"),
        }
        true
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Request(request) => self.requested(request),
            Event::AddressResolved(OWN) | Event::RouteResolved(OWN) => self.dialled(event),
            Event::Established(OWN, ref said) if !said.is_empty() => self.dialled(event),
            // The other end of the node's connection to itself.
            Event::Established(OWN, _) => {}
            Event::Established(Token(number), _) => {
                println!("node: client {number} is here");
                let (id, index) = (client(number), usize::try_from(number).unwrap());
                if let (Some(monitor), Some(host)) = (&mut self.monitor, self.hosts.get(index)) {
                    monitor.admit(id, host.reservation).unwrap();
                }
            }
            Event::Disconnected(OWN) | Event::Rejected(OWN, ..) => panic!("{event:?}"),
            Event::Disconnected(Token(number)) | Event::Rejected(Token(number), ..) => {
                let index = usize::try_from(number).unwrap();
                let Some(host) = self.hosts.get_mut(index) else { return };
                if let Some(pair) = host.pair.take() {
                    let _ = pair.pair().id().disconnect();
                    drop(pair.destroy());
                }
                host.grant = None;
                self.remove(index);
                println!("node: client {number} is gone");
            }
            Event::Over(_) => {}
            other => println!("node: {other:?}"),
        }
    }

    fn remove(&mut self, index: usize) {
        if let Some(monitor) = &mut self.monitor {
            monitor.remove(client(index as u64));
        }
        self.words.clear(u32::try_from(index).unwrap());
    }

    /// Takes an event of the node's connection to itself.
    fn dialled(&mut self, event: Event) {
        let Some(dial) = &mut self.dial else { return };
        if let Some((provider, _)) = dial.event(event).unwrap() {
            self.provider = Some(provider);
            self.start();
            println!("node is ready");
        }
    }

    /// Begins with a monitor, where there is a capacity to divide.
    fn start(&mut self) {
        if self.capacity == 0 {
            return;
        }
        let pool = self.provider.as_ref().unwrap().accept().pool.at;
        let Terms { period, interval, .. } = self.terms;
        let settings = monitor::Settings {
            period,
            interval,
            // Clients that wait for a processor are not gone yet.
            silence: 20,
            ..monitor::Settings::new(Iops(self.capacity), Address(pool.0))
        };
        // The capacity stays as it is given: what a link carries is known here.
        let profile = Profile { mean: Tokens(self.capacity), sigma: 0.0 };
        let estimator = Estimator::new(profile, Tokens::ZERO, 5);
        let mut monitor = Monitor::new(settings, estimator, self.words.pool()).unwrap();
        for (number, host) in (0..).zip(&self.hosts) {
            if host.pair.is_some() {
                monitor.admit(client(number), host.reservation).unwrap();
            }
        }
        self.monitor = Some(monitor);
    }

    /// Accepts a client, or the node itself, or refuses it.
    fn requested(&mut self, asked: ConnectRequest) {
        let wanted = match Request::parse(&asked.private_data) {
            Ok(wanted) => wanted,
            Err(error) => {
                println!("node: {error}");
                return asked.reject(&Reject::NotUnderstood.emit());
            }
        };
        let known = |number: &u32| request(*number).secret == wanted.secret;
        let number = (0..=self.own).find(known).filter(|_| wanted.region == REGION);
        // The last client may write, too.
        let may = |number: &u32| wanted.rights == Rights::Read || number + 1 == self.own;
        let Some(number) = number.filter(may) else {
            return asked.reject(&Reject::NoGrant.emit());
        };
        if number == self.own {
            let grant = self.own_grant.as_ref().unwrap();
            let pair = accept(asked, OWN, grant, &self.completions, self.terms);
            self.own_pair = Some(pair);
            return;
        }
        let host = &mut self.hosts[number as usize];
        if host.pair.is_some() {
            return asked.reject(&Reject::InUse.emit());
        }
        let part = (self.data.clone() as Arc<_>, 0..LENGTH);
        let grant = Grant::new(&self.device, &self.words, number, part, wanted.rights).unwrap();
        let token = Token(number.into());
        host.pair = Some(accept(asked, token, &grant, &self.completions, self.terms));
        host.grant = Some(grant);
    }

    /// Takes messages that have gone out.
    fn take_completions(&mut self) {
        let mut taken = Vec::new();
        while self.completions.poll(&mut taken).unwrap() {}
        let pairs = self.hosts.iter_mut().filter_map(|host| host.pair.as_mut());
        let pairs = pairs.chain(&mut self.own_pair);
        let mut pairs: BTreeMap<u32, _> = pairs.map(|pair| (pair.pair().number(), pair)).collect();
        for completion in taken {
            if let Some(pair) = pairs.get_mut(&completion.queue_pair()) {
                pair.complete(completion, |_| {});
            }
        }
    }

    /// Lets the monitor look, and does what it wants.
    fn watch(&mut self) {
        let (Some(monitor), Some(provider)) = (&mut self.monitor, &mut self.provider) else {
            return;
        };
        while let Some(completion) = provider.completed() {
            monitor.completed(completion);
        }
        let before = monitor.period();
        monitor.tick(self.clock.now(), |ClientId(number)| self.words.report(number));
        if monitor.period() != before {
            println!("node period {} capacity {}", monitor.period().0, monitor.capacity());
        }
        while let Some(finding) = monitor.next_finding() {
            println!("node finds: {finding}");
        }
        while let Some(action) = monitor.next_action() {
            match action {
                Action::Push(ClientId(number), push) => {
                    send(&mut self.hosts[number as usize], Message::Push(push));
                }
                Action::Ask(ClientId(number), ask) => {
                    send(&mut self.hosts[number as usize], Message::Ask(ask));
                }
                Action::Grant(ClientId(number), grant) => {
                    assert!(self.words.set_grant(number, grant));
                }
                Action::Post(ticket, operation) => {
                    if provider.post(ticket, operation).is_err() {
                        monitor.not_posted(ticket);
                    }
                }
                Action::Evict(ClientId(number)) => {
                    let host = &mut self.hosts[number as usize];
                    host.grant = None;
                    if let Some(pair) = &host.pair {
                        let _ = pair.pair().id().disconnect();
                    }
                }
            }
        }
    }
}

fn client(number: u64) -> ClientId {
    ClientId(u32::try_from(number).unwrap())
}

/// Sends a message, unless too many are on their way: the client does not look.
fn send(host: &mut Host, message: Message) {
    let Some(pair) = &mut host.pair else { return };
    if pair.posted() < usize::from(MESSAGES) {
        let _ = pair.post([Work::send(&message.emit(), None)]);
    }
}

/// Accepts a connection with the rights of a grant.
fn accept(
    mut asked: ConnectRequest,
    token: Token,
    grant: &Grant,
    completions: &CompletionQueue,
    terms: Terms,
) -> ActivePair<Vec<u8>, Vec<u8>> {
    asked.id.set_token(token);
    let params = ConnectionParams {
        responder_resources: asked.responder_resources.min(READS),
        initiator_depth: 0,
        retries: 7,
        not_ready_retries: 7,
    };
    let size = QueuePairSize {
        sends: MESSAGES.into(),
        receives: 1,
        receive_bytes: 64,
        send_payloads: false,
    };
    let pair = QueuePair::new(asked.id, grant.regions(), completions, size).unwrap();
    pair.accept(params, &grant.accept(terms).emit(), None).unwrap();
    pair.activate()
}

/// Waits until some descriptors are readable, for `wait` at the most. Returns which are.
fn ready(descriptors: &[&dyn AsFd], wait: Duration) -> Vec<bool> {
    let fds = descriptors.iter().map(|one| PollFd::new(one.as_fd(), PollFlags::POLLIN));
    let mut fds: Vec<PollFd<'_>> = fds.collect();
    // Whoever is woken by a signal looks again.
    let _ = ppoll(&mut fds, Some(TimeSpec::from_duration(wait)), None);
    fds.iter().map(|fd| fd.any().unwrap_or(true)).collect()
}
