//! The network's stage (S6): the daemon's poller, on the sockets of a simulated network.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use qtcp::Rate;
use qtcp::completions::LinkLoad;
use qtcp::linux::Info;
use qtcp::pacing::Pacing;
use qtcp::poller::{
    AllowedTraffic, Both, Direction, LinkSettings, LookObservations, PacedConnection, Poller,
    QueuePairPath, QueuePairTraffic, SHORTEST_REST, Settings, Socket, SocketPath,
    WatchedConnection,
};
use units::{Class, Nanos};

use super::counters::Counters;
use crate::measured::{FlowMeasured, QualityPoint, Way};
use crate::network::{FlowId, FlowInfo, Network, Sender};
use crate::plan::StagePlan;

/// A socket of the target.
#[derive(Debug)]
struct SimulatedSocket {
    network: Rc<RefCell<Network>>,
    clock: Rc<Cell<Nanos>>,
    out: FlowId,
    into: FlowId,
    /// Whether both ends react to marks.
    ecn: bool,
}

impl Socket for SimulatedSocket {
    fn info(&self) -> Option<Info> {
        let network = self.network.borrow();
        Some(info(&network.info(self.out), &network.info(self.into), self.ecn))
    }

    fn set_pacing_rate(&mut self, limit: Option<Rate>) -> bool {
        let now = self.clock.get();
        self.network.borrow_mut().set_pacing(now, self.out, limit.map(Rate::whole));
        true
    }

    fn set_notsent_lowat(&mut self, unsent: Option<u32>) -> bool {
        self.network.borrow_mut().set_notsent_lowat(self.out, unsent.map(u64::from));
        true
    }
}

/// The way of a connection's data.
#[derive(Debug)]
enum Path {
    Socket(Box<SocketPath<SimulatedSocket>>),
    QueuePair(Box<QueuePairPath>, Option<Rc<RefCell<Counters>>>),
}

/// A connection that the poller looks at.
#[derive(Debug)]
struct SimulatedConnection {
    index: usize,
    pacing: Arc<Pacing>,
    path: Path,
}

impl WatchedConnection for SimulatedConnection {
    type Id = usize;

    fn id(&self) -> usize {
        self.index
    }

    fn pacing(&self) -> &Pacing {
        &self.pacing
    }

    fn look(&mut self, now: Nanos, link: &Both<LinkLoad>) -> Option<LookObservations> {
        match &mut self.path {
            Path::Socket(path) => path.look(now, &self.pacing),
            Path::QueuePair(path, counters) => {
                let counted = counters.as_ref().map(|counters| counters.borrow_mut().read(now));
                Some(path.look(now, link, counted))
            }
        }
    }

    fn allow(&mut self, allowed: &AllowedTraffic<'_>) {
        match &mut self.path {
            Path::Socket(path) => path.allow(&self.pacing, allowed),
            Path::QueuePair(path, _) => path.allow(&self.pacing, allowed),
        }
    }

    fn rest(&mut self, start: &Both<u64>) {
        match &mut self.path {
            Path::Socket(path) => path.rest(&self.pacing),
            Path::QueuePair(path, _) => path.rest(&self.pacing, start),
        }
    }

    fn lift(&mut self) {
        match &mut self.path {
            Path::Socket(path) => path.lift(&self.pacing),
            Path::QueuePair(path, _) => path.lift(&self.pacing),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Stage {
    poller: Poller<SimulatedConnection>,
    network: Rc<RefCell<Network>>,
    clock: Rc<Cell<Nanos>>,
    /// Whether the target's sockets react to marks.
    ecn: bool,
    /// The counters of the target's device.
    counters: Rc<RefCell<Counters>>,
    /// Results of looks, if they are recorded: both directions of each connection, in the order of the connections.
    records: Option<Vec<(usize, [FlowMeasured; 2])>>,
}

impl Stage {
    /// Makes the stage; `record` says whether what looks have found is kept.
    pub(crate) fn new(
        plan: &StagePlan,
        sender: Sender,
        network: Rc<RefCell<Network>>,
        record: bool,
    ) -> Self {
        let mut poller = Poller::default();
        let link = LinkSettings {
            name: "default".to_owned(),
            capacity: plan.link.capacity,
            goals: plan.link.goals,
        };
        let settings = Settings { enabled: plan.enabled, writes: plan.writes, links: vec![link] };
        poller.configure(&settings, |_, _| 0);
        let ecn = matches!(sender, Sender::Window { control } if control.ecn());
        let counters = Rc::new(RefCell::new(Counters::new(Rc::clone(&network))));
        let records = record.then(Vec::new);
        Self { poller, network, clock: Rc::default(), ecn, counters, records }
    }

    /// Adds a connection to the stage: its index, its host and queue, and its flows from and to the target. `told` has
    /// the completions' counters of a queue pair.
    pub(crate) fn join(
        &mut self,
        now: Nanos,
        (index, host, qid): (usize, usize, u16),
        (out, into): (FlowId, FlowId),
        pacing: Arc<Pacing>,
        told: Option<Arc<QueuePairTraffic>>,
    ) {
        self.clock.set(now);
        let path = match told {
            None => {
                let (network, clock) = (Rc::clone(&self.network), Rc::clone(&self.clock));
                let socket = SimulatedSocket { network, clock, out, into, ecn: self.ecn };
                Path::Socket(Box::new(SocketPath::new(socket)))
            }
            Some(told) => {
                let FlowInfo { mss, rate, .. } = self.network.borrow().info(out);
                // A device that keeps to no rate counts no notifications.
                let counters = rate.map(|_| Rc::clone(&self.counters));
                self.counters.borrow_mut().flows.push((out, into));
                Path::QueuePair(Box::new(QueuePairPath::new(told, mss)), counters)
            }
        };
        if let Some(records) = &mut self.records {
            let flow = |way| FlowMeasured { host, qid, way, looks: Vec::new() };
            let place = records.partition_point(|(known, _)| *known < index);
            records.insert(place, (index, [flow(Way::Out), flow(Way::Into)]));
        }
        self.poller.add(now, SimulatedConnection { index, pacing, path }, 0);
    }

    /// Removes a connection.
    pub(crate) fn leave(&mut self, index: usize) {
        self.poller.remove(index);
    }

    /// Looks at the connections whose time has come. Returns the time of the next look; `None` if there is nothing to
    /// look at.
    pub(crate) fn poll(&mut self, now: Nanos) -> Option<Nanos> {
        if self.poller.is_idle() {
            return None;
        }
        self.clock.set(now);
        let records = &mut self.records;
        let next = self.poller.poll_with(now, |connection| {
            if let Some(records) = records {
                record(now, records, connection);
            }
        });
        next.map(|at| at.max(now + SHORTEST_REST))
    }

    /// Returns what looks have found.
    pub(crate) fn flows(&self) -> Vec<FlowMeasured> {
        let records = self.records.iter().flatten();
        records.flat_map(|(_, flows)| flows.iter().cloned()).collect()
    }
}

/// Records the results of a look at a connection.
fn record(
    at: Nanos,
    records: &mut [(usize, [FlowMeasured; 2])],
    connection: &PacedConnection<SimulatedConnection>,
) {
    let of = |(index, _): &(usize, _)| *index;
    let Ok(place) = records.binary_search_by_key(&connection.of.index, of) else { return };
    let Some((_, [out, into])) = records.get_mut(place) else { return };
    for (flow, direction) in [(out, Direction::Out), (into, Direction::Into)] {
        for class in Class::ALL {
            let one = &connection.flows(direction)[class];
            if one.id.is_some() {
                let standing = one.standing;
                flow.looks.push(QualityPoint {
                    at,
                    class,
                    rate: standing.rate.bits(),
                    target: standing.target.map(Rate::bits),
                    limit: standing.limit.map(Rate::bits),
                    alpha: standing.alpha,
                    quality: standing.quality,
                });
            }
        }
    }
}

/// Makes a socket's information as the kernel returns it, from the network's counts of both directions; `ecn` is
/// whether sent and received packets may be marked.
fn info(out: &FlowInfo, into: &FlowInfo, ecn: bool) -> Info {
    let whole = |number: u64| u32::try_from(number & u64::from(u32::MAX)).unwrap_or(0);
    Info {
        ecn,
        app_limited: out.app_limited,
        snd_mss: out.mss,
        rcv_mss: into.mss,
        unacked: out.in_flight,
        rtt: out.srtt,
        min_rtt: (!out.min_rtt.is_zero()).then_some(out.min_rtt),
        snd_cwnd: out.cwnd,
        total_retrans: whole(out.retransmitted),
        pacing_rate: None,
        bytes_acked: out.delivered_bytes,
        // Bytes that the peer knows to have arrived: half a round trip old.
        bytes_received: into.delivered_bytes,
        notsent_bytes: u32::try_from(out.unsent).unwrap_or(u32::MAX),
        data_segs_in: whole(into.delivered),
        rwnd_limited: Duration::ZERO,
        delivered: whole(out.delivered),
        delivered_ce: whole(out.delivered_ce),
        received_ce: ecn.then(|| whole(into.delivered_ce)),
    }
}
