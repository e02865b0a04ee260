//! A paced connection: the poller reads its state from the kernel, and sets the limits of its
//! socket.

use std::os::fd::AsFd;
use std::time::Duration;

use arbitration::{Class, PerClass};
use qtcp::class_split::{ClassFlow, ClassSplit, REST, moves};
use qtcp::lately::Lately;
use qtcp::linux::{Info, Sample, Sampler, options};
use qtcp::pacing::Answers;
use qtcp::{Nanos, Rate};

use super::links::{Direction, Links};
use super::socket::PacedSocket;
use crate::engine::{ConnectionNetwork, FlowState};

/// The shortest time between two looks at a connection.
const SHORTEST: Duration = Duration::from_micros(200);
/// The longest time between two looks at a connection that moves data.
pub(super) const LONGEST: Duration = Duration::from_millis(5);
/// The time between two looks at a connection that rests.
pub(super) const RESTING: Duration = Duration::from_millis(20);
/// The least change of a pacing rate for which the rate is set again, as a part of the rate:
/// setting it costs a system call.
const WORTH: f64 = 0.01;

/// A connection as the poller knows it.
#[derive(Debug)]
pub(super) struct PacedConnection {
    pub(super) of: PacedSocket,
    /// The generation, which tells this connection from earlier ones in the same place of the
    /// poller's table.
    pub(super) generation: u32,
    /// The index of the connection's link.
    pub(super) link: usize,
    sampler: Sampler,
    /// The number of packets that were sent again, at the last look.
    retransmitted: u32,
    /// The name of the kernel's congestion control.
    base: String,
    /// The time at which data last moved.
    moved_at: Nanos,
    lately: Lately,
    out: PerClass<ClassFlow>,
    into: PerClass<ClassFlow>,
    /// The limits on the rates of sending and receiving.
    limits: (Option<Rate>, Option<Rate>),
    /// The pacing rate that was set on the socket.
    paced: Option<Rate>,
    /// The most unsent bytes, as set on the socket.
    unsent: Option<u32>,
}

impl PacedConnection {
    /// Makes the entry of a new connection.
    pub(super) fn new(now: Nanos, of: PacedSocket, generation: u32, link: usize) -> Self {
        let base = options::congestion(of.socket.as_fd()).unwrap_or_default();
        Self {
            link,
            of,
            generation,
            sampler: Sampler::new(),
            retransmitted: 0,
            base,
            moved_at: now,
            lately: Lately::default(),
            out: PerClass::default(),
            into: PerClass::default(),
            limits: (None, None),
            paced: None,
            unsent: None,
        }
    }

    /// Looks at the connection: reads its counters, computes its limits and sets them. Returns the
    /// time until the next look.
    pub(super) fn look(&mut self, now: Nanos, links: &mut Links) -> Duration {
        // The host sends data, or is to be asked for some.
        let writes = moves(&self.of.pacing.into, &self.into);
        if !writes && !moves(&self.of.pacing.out, &self.out) {
            if now.since(self.moved_at) > REST {
                self.leave(links);
                self.lift_limits();
                self.expect_traffic();
                // The first look after the rest measures nothing: the bytes before it have no rate.
                self.sampler = Sampler::new();
                return RESTING;
            }
        } else {
            self.moved_at = now;
        }
        // The connection may be gone; its reactor reports that.
        let Ok(info) = Info::read(self.of.socket.as_fd()) else { return RESTING };
        let mut sample = self.sampler.sample(now, &info);
        if sample.out.interval.is_zero() {
            return SHORTEST;
        }
        self.of.pacing.set_rtt(info.rtt);
        self.infer_marks(&info, &mut sample);
        self.lately.see(now, sample.out.marked > 0 || sample.into.marked > 0, writes);
        let sending = self.of.pacing.is_sending();
        let idle = sample.out.app_limited && !sending;
        let out = ClassSplit { all: &sample.out, idle };
        let limit = links
            .direction(self.link, Direction::Out)
            .and_then(|link| out.observe(now, link, &self.of.pacing.out, &mut self.out));
        self.pace(limit);
        let rate = self.out.values().map(|flow| flow.standing.rate).sum();
        let answers = self.lately.answers(now, rate);
        self.of.pacing.hand_over(answers);
        let unsent = limit.or(match answers {
            // What goes ahead of answers must not wait in the socket. A flow without a limit may become
            // faster until the next look.
            Answers::Pieces(rate) => Some(rate.times(2.0)),
            Answers::All | Answers::Whole(_) => None,
        });
        self.bound_unsent(unsent.map(|rate| unsent_limit(rate, info.rtt)));
        let into = ClassSplit { all: &sample.into, idle: true };
        let grant = links
            .direction(self.link, Direction::Into)
            .and_then(|link| into.observe(now, link, &self.of.pacing.into, &mut self.into));
        self.of.pacing.set_r2t_rate(grant.map(whole));
        self.limits.1 = grant;
        let watched = limit.is_some() || grant.is_some() || self.lately.is_congested(now);
        if watched { info.rtt.clamp(SHORTEST, LONGEST) } else { LONGEST }
    }

    /// Counts other signs of congestion as ECN marks. Packets that were sent again are one sign. On
    /// a connection without ECN, and where the kernel does not count the marks of received packets,
    /// the time that packets stand in queues is another. Slow hosts and targets make round trips
    /// long as well. So the time in queues counts for sent data only while the data waits for the
    /// network, and for received data only where it is clearly longer.
    fn infer_marks(&mut self, info: &Info, sample: &mut Sample) {
        const QUEUED_OUT: Duration = Duration::from_millis(1);
        const QUEUED_IN: Duration = Duration::from_millis(5);
        let again = info.total_retrans.saturating_sub(self.retransmitted);
        self.retransmitted = info.total_retrans;
        sample.out.marked = sample.out.marked.saturating_add(again);
        sample.out.delivered = sample.out.delivered.max(sample.out.marked.min(again));
        let empty = info.min_rtt.unwrap_or(info.rtt);
        let queued = info.rtt.saturating_sub(2 * empty);
        if queued > QUEUED_OUT && !info.ecn && !sample.out.app_limited {
            sample.out.marked = sample.out.delivered;
        }
        if queued > QUEUED_IN && (!info.ecn || !sample.marks_known) {
            sample.into.marked = sample.into.delivered;
        }
    }

    /// Sets the rate at which the socket may send.
    fn pace(&mut self, limit: Option<Rate>) {
        self.limits.0 = limit;
        let same = match (limit, self.paced) {
            (None, None) => true,
            (Some(new), Some(old)) => (new.bytes() / old.bytes() - 1.0).abs() < WORTH,
            _ => false,
        };
        if same {
            return;
        }
        let fd = self.of.socket.as_fd();
        if let Err(error) = options::set_pacing_rate(fd, limit) {
            tracing::debug!(%error, "a connection is not paced");
            return;
        }
        self.paced = limit;
        self.of.pacing.set_held(limit.is_some());
    }

    /// Sets the bytes that the socket may hold unsent.
    fn bound_unsent(&mut self, unsent: Option<u32>) {
        let differs = match (unsent, self.unsent) {
            (Some(new), Some(old)) => new > old * 2 || new < old / 2,
            (new, old) => new != old,
        };
        let fd = self.of.socket.as_fd();
        if differs && options::set_notsent_lowat(fd, unsent).is_ok() {
            self.unsent = unsent;
        }
    }

    /// Returns the flows of the connection's classes in one direction.
    pub(super) const fn flows(&self, direction: Direction) -> &PerClass<ClassFlow> {
        match direction {
            Direction::Out => &self.out,
            Direction::Into => &self.into,
        }
    }

    /// Takes the connection's flows off their link.
    pub(super) fn leave(&mut self, links: &mut Links) {
        for (flows, direction) in
            [(&mut self.out, Direction::Out), (&mut self.into, Direction::Into)]
        {
            for flow in flows.values_mut() {
                let link = links.direction(self.link, direction);
                flow.leave(link.and_then(|direction| direction.paced()));
            }
        }
    }

    /// Lets few answers be handed over at once until it is known what the connection sends.
    pub(super) fn expect_traffic(&self) {
        self.of.pacing.hand_over(Answers::Whole(Rate::ZERO));
    }

    /// Lifts the connection's limits.
    pub(super) fn lift_limits(&mut self) {
        self.limits = (None, None);
        self.of.pacing.set_r2t_rate(None);
        self.of.pacing.set_held(false);
        self.of.pacing.hand_over(Answers::All);
        let fd = self.of.socket.as_fd();
        if self.paced.take().is_some() {
            let _ = options::set_pacing_rate(fd, None);
        }
        if self.unsent.take().is_some() {
            let _ = options::set_notsent_lowat(fd, None);
        }
    }

    /// Makes the connection's state for the control socket.
    pub(super) fn state(&self, links: &Links) -> ConnectionNetwork {
        let class = Class::ALL
            .into_iter()
            .find(|&class| self.out[class].id.is_some() || self.into[class].id.is_some());
        ConnectionNetwork {
            link: links.name(self.link).to_owned(),
            class: class.unwrap_or_default().name().to_owned(),
            base: self.base.clone(),
            rtt_us: u64::try_from(self.of.pacing.rtt().as_micros()).unwrap_or(u64::MAX),
            out: state(&self.out, self.limits.0),
            into: state(&self.into, self.limits.1),
        }
    }
}

/// Computes the bytes that a socket may hold unsent at a limit: those that it sends until it is
/// filled again.
fn unsent_limit(limit: Rate, rtt: Duration) -> u32 {
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

/// Adds up a connection's classes in one direction.
fn state(flows: &PerClass<ClassFlow>, limit: Option<Rate>) -> FlowState {
    let mut sum = FlowState::default();
    let (mut active, mut target) = (0.0, Some(0.0));
    for flow in flows.values() {
        (sum.delivered, sum.marked) = (sum.delivered + flow.delivered, sum.marked + flow.marked);
        if flow.id.is_none() {
            continue;
        }
        let standing = flow.standing;
        active += 1.0;
        sum.rate += standing.rate.bits();
        sum.alpha += standing.alpha;
        sum.quality += standing.quality;
        target = target.zip(standing.target).map(|(sum, rate)| sum + rate.bits());
    }
    if active > 0.0 {
        (sum.alpha, sum.quality) = (sum.alpha / active, sum.quality / active);
        (sum.target, sum.limit) = (target, limit.map(Rate::bits));
    } else {
        sum.quality = 1.0;
    }
    sum
}
