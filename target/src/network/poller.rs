//! The poller: looks at every connection about once for each round trip, and says how fast it may
//! send and be asked for data. One thread for all of them, beside the reactors.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arbitration::{Class, PerClass};
use fabric::controller::{ConnectionId, ListenerId};
use qtcp::link::{FlowId, Link, Standing};
use qtcp::linux::{Info, Sample, Sampler, options};
use qtcp::{Nanos, Observation, Rate};

use super::flow::{Flow, Traffic};
use super::links::{Direction, Links};
use crate::config::Network;

/// Between these stays the time from one look at a connection to the next.
const SHORTEST: Duration = Duration::from_micros(200);
const LONGEST: Duration = Duration::from_millis(5);
/// A connection on which nothing moves for so long is left alone, but for a look at what its
/// reactor says of it.
const REST: Duration = Duration::from_secs(1);
/// How often that is.
const RESTING: Duration = Duration::from_millis(20);
/// What one look costs, and the part of a core that all looks together may take while some are
/// oftener than they must be.
const LOOK_COST: Duration = Duration::from_nanos(1500);
const CORE_PART: u32 = 20;
/// A pacing rate that changes by less is not set anew: its socket has it nearly, and setting it
/// costs a system call.
const WORTH: f64 = 0.01;

/// One direction of one class of one connection.
#[derive(Debug, Default)]
struct Half {
    flow: Option<FlowId>,
    /// What had moved at the last look.
    moved: u64,
    /// The part of the connection's bytes that were of this class when any were.
    part: f64,
    /// When it last had something to move.
    busy: Nanos,
    standing: Standing,
    delivered: u64,
    marked: u64,
}

/// What the poller knows of one connection.
#[derive(Debug)]
struct Tracked {
    flow: Arc<Flow>,
    generation: u32,
    link: usize,
    sampler: Sampler,
    retransmitted: u32,
    base: String,
    rtt: Duration,
    /// When something last moved, and when something was last marked.
    moved_at: Nanos,
    marked_at: Option<Nanos>,
    out: PerClass<Half>,
    into: PerClass<Half>,
    /// What the socket was told.
    paced: Option<Rate>,
    kept: Option<u32>,
}

/// All connections that are looked at.
#[derive(Debug, Default)]
pub(super) struct Poller {
    pub(super) links: Links,
    version: u64,
    enabled: bool,
    tracked: Vec<Option<Tracked>>,
    free: Vec<u32>,
    places: HashMap<ConnectionId, u32>,
    due: BinaryHeap<Reverse<(Nanos, u32, u32)>>,
    generation: u32,
    /// Connections that were looked at in the last round of the longest interval.
    busy: u32,
    busy_since: Nanos,
    busy_next: u32,
}

impl Poller {
    /// Takes settings that have changed.
    pub(super) fn configure(
        &mut self,
        version: u64,
        config: &Network,
        listeners: &HashMap<u32, String>,
    ) {
        if version == self.version {
            return;
        }
        self.version = version;
        let begun = config.enabled && !self.enabled;
        self.enabled = config.enabled;
        let links = &mut self.links;
        for tracked in self.tracked.iter_mut().flatten() {
            tracked.leave(links);
            if !config.enabled {
                tracked.let_go();
            }
        }
        links.configure(config);
        for tracked in self.tracked.iter_mut().flatten() {
            tracked.link = link_of(links, listeners, tracked.flow.listener);
        }
        if !self.enabled {
            self.due.clear();
        } else if begun {
            let all = (0_u32..).zip(&self.tracked);
            let all = all.filter_map(|(index, one)| Some((index, one.as_ref()?.generation)));
            self.due.extend(all.map(|(index, generation)| Reverse((Nanos(0), index, generation))));
        }
    }

    /// A connection has come.
    pub(super) fn add(&mut self, now: Nanos, flow: Arc<Flow>, listeners: &HashMap<u32, String>) {
        self.generation = self.generation.wrapping_add(1);
        let base = options::congestion(flow.socket.as_fd()).unwrap_or_default();
        let id = flow.id;
        let tracked = Tracked {
            link: link_of(&self.links, listeners, flow.listener),
            flow,
            generation: self.generation,
            sampler: Sampler::new(),
            retransmitted: 0,
            base,
            rtt: Duration::ZERO,
            moved_at: now,
            marked_at: None,
            out: PerClass::default(),
            into: PerClass::default(),
            paced: None,
            kept: None,
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.tracked.push(None);
            u32::try_from(self.tracked.len() - 1).unwrap_or(u32::MAX)
        });
        if self.enabled {
            self.due.push(Reverse((now, index, tracked.generation)));
        }
        if let Some(place) = self.tracked.get_mut(index as usize) {
            *place = Some(tracked);
        }
        self.places.insert(id, index);
    }

    /// A connection has gone.
    pub(super) fn remove(&mut self, id: ConnectionId) {
        let Some(index) = self.places.remove(&id) else { return };
        let Some(mut tracked) = self.tracked.get_mut(index as usize).and_then(Option::take) else {
            return;
        };
        tracked.leave(&mut self.links);
        self.free.push(index);
    }

    /// Whether there is anything to look at.
    pub(super) fn is_idle(&self) -> bool {
        !self.enabled || self.places.is_empty()
    }

    /// Looks at the connections whose time has come; when the next is due.
    pub(super) fn poll(&mut self, now: Nanos) -> Option<Nanos> {
        while let Some(&Reverse((at, index, generation))) = self.due.peek() {
            if at > now {
                return Some(at);
            }
            self.due.pop();
            let place = self.tracked.get_mut(index as usize).and_then(Option::as_mut);
            let Some(tracked) = place.filter(|tracked| tracked.generation == generation) else {
                continue;
            };
            let wait = tracked.look(now, &mut self.links);
            let at = if wait >= RESTING {
                together(now + wait)
            } else {
                self.busy_next += 1;
                now + wait.max(LOOK_COST * CORE_PART * self.busy).min(wait.max(LONGEST))
            };
            self.due.push(Reverse((at, index, generation)));
            if now.since(self.busy_since) > LONGEST {
                // Looks in the time of one longest interval, as if all were that rare.
                let known = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
                self.busy = self.busy_next.min(known);
                (self.busy_since, self.busy_next) = (now, 0);
            }
        }
        None
    }

    /// What each connection gets: its identifier and everything else of its state.
    pub(super) fn connection(&self, id: ConnectionId) -> Option<crate::engine::ConnectionNetwork> {
        let index = *self.places.get(&id)?;
        let tracked = self.tracked.get(index as usize)?.as_ref()?;
        self.enabled.then(|| tracked.state(&self.links))
    }

    /// The smoothed rate, alpha and Q of a class on a link, over its connections that move
    /// something.
    pub(super) fn class_standing(&self, link: usize, class: Class, out: bool) -> (u32, Standing) {
        let mut sum = Standing { quality: 0.0, ..Standing::default() };
        let (mut flows, mut limited) = (0_u32, true);
        let here = self.tracked.iter().flatten().filter(|tracked| tracked.link == link);
        for half in here.map(|t| if out { &t.out[class] } else { &t.into[class] }) {
            if half.flow.is_none() {
                continue;
            }
            flows += 1;
            let standing = half.standing;
            sum.rate = sum.rate + standing.rate;
            sum.alpha += standing.alpha;
            sum.quality += standing.quality;
            match standing.limit {
                Some(limit) => sum.limit = Some(sum.limit.unwrap_or_default() + limit),
                None => limited = false,
            }
        }
        let count = f64::from(flows.max(1));
        (sum.alpha, sum.quality) = (sum.alpha / count, sum.quality / count);
        if flows == 0 {
            sum.quality = 1.0;
        }
        sum.limit = sum.limit.filter(|_| limited);
        (flows, sum)
    }
}

/// The time at which all connections that rest are looked at: one wake-up for all of them.
fn together(at: Nanos) -> Nanos {
    let step = u64::try_from(RESTING.as_nanos()).unwrap_or(u64::MAX);
    Nanos(at.0.checked_next_multiple_of(step).unwrap_or(at.0))
}

fn link_of(links: &Links, listeners: &HashMap<u32, String>, listener: ListenerId) -> usize {
    links.find(listeners.get(&listener.0).map(String::as_str))
}

impl Tracked {
    /// One look: what moved, what that makes of its limits, and how long until the next.
    fn look(&mut self, now: Nanos, links: &mut Links) -> Duration {
        let flow = Arc::clone(&self.flow);
        if self.is_quiet(&flow) {
            if now.since(self.moved_at) > REST {
                self.leave(links);
                self.let_go();
                // The first look after the rest begins anew: what came before has no rate.
                self.sampler = Sampler::new();
                return RESTING;
            }
        } else {
            self.moved_at = now;
        }
        // The connection may be gone; then its reactor will say so.
        let Ok(info) = Info::read(flow.socket.as_fd()) else { return RESTING };
        let mut sample = self.sampler.sample(now, &info);
        if sample.out.interval.is_zero() {
            return SHORTEST;
        }
        self.rtt = info.rtt;
        flow.set_rtt(info.rtt);
        self.judge(&info, &mut sample);
        if sample.out.marked > 0 || sample.into.marked > 0 {
            self.marked_at = Some(now);
        }
        let sending = flow.sending.load(Ordering::Relaxed);
        let idle = sample.out.app_limited && !sending;
        let out = Split { all: &sample.out, idle, direction: Direction::Out };
        let limit = out.observe(now, links, self.link, &flow.out, &mut self.out);
        self.pace(limit, &info);
        let into = Split { all: &sample.into, idle: true, direction: Direction::Into };
        let grant = into.observe(now, links, self.link, &flow.into, &mut self.into);
        flow.set_grant_rate(grant.map(whole));
        let watched = limit.is_some()
            || grant.is_some()
            || self.marked_at.is_some_and(|at| now.since(at) < REST);
        if watched { info.rtt.clamp(SHORTEST, LONGEST) } else { LONGEST }
    }

    /// Whether nothing has moved since the last look, and nothing is to.
    fn is_quiet(&self, flow: &Flow) -> bool {
        let still = |traffic: &PerClass<Traffic>, halves: &PerClass<Half>| {
            traffic.iter().all(|(class, traffic)| {
                let (moved, waiting) = traffic.read();
                moved == halves[class].moved && waiting == 0
            })
        };
        still(&flow.out, &self.out) && still(&flow.into, &self.into)
    }

    /// Adds to the marks what else tells of congestion: packets that were sent again; and on a
    /// connection without ECN, or where the kernel does not count the marks of what came, the
    /// time that packets stand in queues.
    fn judge(&mut self, info: &Info, sample: &mut Sample) {
        let again = info.total_retrans.saturating_sub(self.retransmitted);
        self.retransmitted = info.total_retrans;
        sample.out.marked = sample.out.marked.saturating_add(again);
        sample.out.delivered = sample.out.delivered.max(sample.out.marked.min(again));
        let empty = info.min_rtt.unwrap_or(info.rtt);
        let queued = info.rtt > 2 * empty + Duration::from_millis(1);
        if queued && !info.ecn {
            sample.out.marked = sample.out.delivered;
        }
        if queued && (!info.ecn || !sample.marks_known) {
            sample.into.marked = sample.into.delivered;
        }
    }

    /// Tells the socket what it may send at most, and how much of it to take in advance.
    fn pace(&mut self, limit: Option<Rate>, info: &Info) {
        /// Headers that the kernel's pacing counts for each packet, in bytes.
        const HEADERS: f64 = 60.0;
        let mss = f64::from(info.snd_mss.max(1));
        let limit = limit.map(|limit| limit.times((mss + HEADERS) / mss));
        let same = match (limit, self.paced) {
            (None, None) => true,
            (Some(new), Some(old)) => (new.bytes() / old.bytes() - 1.0).abs() < WORTH,
            _ => false,
        };
        if same {
            return;
        }
        let fd = self.flow.socket.as_fd();
        if let Err(error) = options::set_pacing_rate(fd, limit) {
            tracing::debug!(%error, "a connection is not paced");
            return;
        }
        self.paced = limit;
        self.flow.held.store(limit.is_some(), Ordering::Relaxed);
        let keep = limit.map(|limit| unsent(limit, info.rtt));
        let differs = match (keep, self.kept) {
            (Some(new), Some(old)) => new > old * 2 || new < old / 2,
            (new, old) => new != old,
        };
        if differs && options::set_notsent_lowat(fd, keep).is_ok() {
            self.kept = keep;
        }
    }

    /// Takes it out of its link.
    fn leave(&mut self, links: &mut Links) {
        for class in Class::ALL {
            for (half, direction) in
                [(&mut self.out[class], Direction::Out), (&mut self.into[class], Direction::Into)]
            {
                half.leave(links.link(self.link, direction));
            }
        }
    }

    /// Lifts its limits.
    fn let_go(&mut self) {
        self.flow.set_grant_rate(None);
        self.flow.held.store(false, Ordering::Relaxed);
        let fd = self.flow.socket.as_fd();
        if self.paced.take().is_some() {
            let _ = options::set_pacing_rate(fd, None);
        }
        if self.kept.take().is_some() {
            let _ = options::set_notsent_lowat(fd, None);
        }
    }

    fn state(&self, links: &Links) -> crate::engine::ConnectionNetwork {
        let class = Class::ALL
            .into_iter()
            .find(|&class| self.out[class].flow.is_some() || self.into[class].flow.is_some());
        crate::engine::ConnectionNetwork {
            link: links.name(self.link).to_owned(),
            class: class.unwrap_or_default().name().to_owned(),
            base: self.base.clone(),
            rtt_us: u64::try_from(self.rtt.as_micros()).unwrap_or(u64::MAX),
            out: state(&self.out),
            into: state(&self.into),
        }
    }
}

/// What a socket may hold unsent at a limit, in bytes: what it sends until it is filled again.
fn unsent(limit: Rate, rtt: Duration) -> u32 {
    let time = rtt.clamp(Duration::from_millis(2), Duration::from_millis(10));
    let bytes = limit.bytes() * time.as_secs_f64();
    if bytes > 262_144.0 {
        262_144
    } else {
        u32::try_from(whole(Rate::new(bytes))).unwrap_or(0).max(16_384)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "never negative")]
fn whole(rate: Rate) -> u64 {
    rate.bytes() as u64
}

/// A connection's classes together.
fn state(halves: &PerClass<Half>) -> crate::engine::FlowState {
    let mut sum = crate::engine::FlowState::default();
    let (mut active, mut target, mut limit) = (0.0, Some(0.0), Some(0.0));
    for (_, half) in halves.iter() {
        (sum.delivered, sum.marked) = (sum.delivered + half.delivered, sum.marked + half.marked);
        if half.flow.is_none() {
            continue;
        }
        let standing = half.standing;
        active += 1.0;
        sum.rate += standing.rate.bits();
        sum.alpha += standing.alpha;
        sum.quality += standing.quality;
        target = target.zip(standing.target).map(|(sum, rate)| sum + rate.bits());
        limit = limit.zip(standing.limit).map(|(sum, rate)| sum + rate.bits());
    }
    if active > 0.0 {
        (sum.alpha, sum.quality) = (sum.alpha / active, sum.quality / active);
        (sum.target, sum.limit) = (target, limit);
    } else {
        sum.quality = 1.0;
    }
    sum
}

impl Half {
    fn leave(&mut self, link: Option<&mut Link>) {
        if let (Some(flow), Some(link)) = (self.flow.take(), link) {
            link.remove(flow);
        }
        self.standing = Standing::default();
    }
}

/// One direction of a connection, to be divided among the classes that it carries.
struct Split<'a> {
    all: &'a Observation,
    /// Nothing is held up below the target: a class has more only if some of it waits here.
    idle: bool,
    direction: Direction,
}

impl Split<'_> {
    /// Lets each class that the connection carries see its part; what they may have together.
    /// None: one of them is not limited, or there are none.
    fn observe(
        &self,
        now: Nanos,
        links: &mut Links,
        index: usize,
        traffic: &PerClass<Traffic>,
        halves: &mut PerClass<Half>,
    ) -> Option<Rate> {
        let moved =
            PerClass::from_fn(|class| traffic[class].read().0.saturating_sub(halves[class].moved));
        let all: u64 = moved.iter().map(|(_, moved)| moved).sum();
        let mut limit = Some(Rate::ZERO);
        let mut any = false;
        for class in Class::ALL {
            let half = &mut halves[class];
            let waiting = traffic[class].read().1;
            half.moved += moved[class];
            if moved[class] > 0 || waiting > 0 {
                half.busy = now;
            } else if half.flow.is_none() || now.since(half.busy) > REST {
                half.leave(links.link(index, self.direction));
                continue;
            }
            if all > 0 {
                half.part = part(moved[class], all);
            }
            let part = half.part;
            let idle = waiting == 0 && (self.idle || moved[class] == 0);
            let seen = self.seen(part, idle);
            half.delivered += u64::from(seen.delivered);
            half.marked += u64::from(seen.marked);
            links.count(index, self.direction, class, &seen);
            let Some(link) = links.link(index, self.direction) else { continue };
            let number = Links::class_number(class);
            let flow = *half.flow.get_or_insert_with(|| link.add(number));
            half.standing = link.observe(flow, now, &seen);
            any = true;
            limit = limit.zip(half.standing.limit).map(|(sum, one)| sum + one);
        }
        limit.filter(|_| any)
    }

    fn seen(&self, part: f64, idle: bool) -> Observation {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a part of a number of 32 bits"
        )]
        let of = |count: u32| (f64::from(count) * part).ceil() as u32;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a part of the bytes of one interval"
        )]
        let bytes = (self.all.bytes as f64 * part) as u64;
        Observation {
            delivered: of(self.all.delivered),
            marked: of(self.all.marked),
            bytes,
            app_limited: idle,
            ..*self.all
        }
    }
}

/// A class's part of what moved.
fn part(moved: u64, all: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let part = moved as f64 / all as f64;
    part
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;

    use super::*;

    fn flows(count: u64) -> Vec<Arc<Flow>> {
        flows_of(&pair().0, count)
    }

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (here, listener.accept().unwrap().0)
    }

    fn flows_of(socket: &TcpStream, count: u64) -> Vec<Arc<Flow>> {
        let flow = |id| {
            let socket = OwnedFd::from(socket.try_clone().unwrap());
            Arc::new(Flow::new(ConnectionId(id), ListenerId(0), socket))
        };
        (0..count).map(flow).collect()
    }

    fn poller(enabled: bool) -> Poller {
        let mut poller = Poller::default();
        let config = Network { enabled, ..Network::default() };
        poller.configure(1, &config, &HashMap::new());
        poller
    }

    /// Rounds of looks from one time to another.
    fn rounds(poller: &mut Poller, mut now: Nanos, end: Nanos) -> u32 {
        let mut rounds = 0;
        while now < end {
            let next = poller.poll(now).unwrap();
            now = Nanos(next.0.max(now.0 + 50_000));
            rounds += 1;
        }
        rounds
    }

    #[test]
    fn e1_connections_that_rest_are_looked_at_together() {
        let mut poller = poller(true);
        for (index, flow) in flows(200).into_iter().enumerate() {
            poller.add(Nanos(index as u64 * 97_000), flow, &HashMap::new());
        }
        rounds(&mut poller, Nanos(0), Nanos(2_000_000_000));
        let rounds = rounds(&mut poller, Nanos(2_000_000_000), Nanos(3_000_000_000));
        assert!(rounds <= 51, "the thread wakes up {rounds} times in a second");
    }

    #[test]
    fn what_comes_and_goes_while_the_stage_is_off_leaves_nothing_behind() {
        let mut poller = poller(false);
        let all = flows(4);
        for round in 0..1000 {
            for flow in &all {
                poller.add(Nanos(round), Arc::clone(flow), &HashMap::new());
            }
            all.iter().for_each(|flow| poller.remove(flow.id));
        }
        assert_eq!((poller.due.len(), poller.tracked.len()), (0, 4));
        poller.add(Nanos(0), Arc::clone(all.first().unwrap()), &HashMap::new());
        poller.configure(2, &Network::default(), &HashMap::new());
        assert!(poller.poll(Nanos(5)).is_some(), "on again, it is looked at");
    }

    #[test]
    fn e1_a_connection_that_has_rested_has_its_rate_at_once() {
        let (mut here, mut there) = pair();
        let flow = flows_of(&here, 1).remove(0);
        let mut poller = poller(true);
        poller.add(Nanos(0), Arc::clone(&flow), &HashMap::new());
        rounds(&mut poller, Nanos(0), Nanos(10_000_000_000));
        let mut now = Nanos(10_000_000_000);
        for _ in 0..3 {
            here.write_all(&[0; 100_000]).unwrap();
            there.read_exact(&mut [0; 100_000]).unwrap();
            flow.out.high.moved.fetch_add(100_000, Ordering::Relaxed);
            now = now + Duration::from_millis(20);
            poller.poll(now).unwrap();
        }
        let rate = poller.connection(flow.id).unwrap().out.rate;
        assert!(rate > 8.0 * 4e6, "{rate} bit/s of 40 Mbit/s");
    }
}
