//! The way of a TCP connection's data: the socket's state tells of the network, and the socket keeps
//! to the limits.

use core::fmt;
use core::time::Duration;

use super::look::{AllowedTraffic, LookObservations};
use crate::linux::{Info, Sample, Sampler};
use crate::pacing::{Answers, Pacing};
use crate::{Nanos, Rate};

/// The least change of a pacing rate for which the rate is set again, as a part of the rate:
/// setting it costs a system call.
const WORTH: f64 = 0.01;

/// A TCP socket of Linux.
pub trait Socket: fmt::Debug {
    /// Returns the kernel's information on the connection (`TCP_INFO`); `None` if it is gone.
    fn info(&self) -> Option<Info>;
    /// Sets the rate at which the socket may send (`SO_MAX_PACING_RATE`); `None` lifts it. Returns
    /// false where that failed.
    fn set_pacing_rate(&mut self, limit: Option<Rate>) -> bool;
    /// Sets the bytes that the socket may hold unsent (`TCP_NOTSENT_LOWAT`); `None` lifts the bound.
    /// Returns false where that failed.
    fn set_notsent_lowat(&mut self, unsent: Option<u32>) -> bool;
}

/// The way of a TCP connection's data.
#[derive(Debug)]
pub struct SocketPath<S> {
    socket: S,
    sampler: Sampler,
    /// The number of packets that were sent again, at the last look.
    retransmitted: u32,
    /// The pacing rate that was set on the socket.
    paced: Option<Rate>,
    /// The most unsent bytes, as set on the socket.
    unsent: Option<u32>,
}

impl<S: Socket> SocketPath<S> {
    /// Makes the way of a socket.
    #[must_use]
    pub const fn new(socket: S) -> Self {
        Self { socket, sampler: Sampler::new(), retransmitted: 0, paced: None, unsent: None }
    }

    /// Returns the socket.
    #[must_use]
    pub const fn socket(&self) -> &S {
        &self.socket
    }

    /// Makes the observations since the last look.
    pub fn look(&mut self, now: Nanos, pacing: &Pacing) -> Option<LookObservations> {
        let info = self.socket.info()?;
        let mut sample = self.sampler.sample(now, &info);
        if !sample.out.interval.is_zero() {
            self.infer_marks(&info, &mut sample);
        }
        let idle = sample.out.app_limited && !pacing.is_sending();
        let Sample { out, into, .. } = sample;
        Some(LookObservations { out, into, rtt: info.rtt, idle, asked: true, local: false })
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

    /// Sets the socket's limits, the rate of R2Ts, and which answers are handed over at once.
    pub fn allow(&mut self, pacing: &Pacing, allowed: &AllowedTraffic<'_>) {
        let AllowedTraffic { now, limits, rates, rtt, lately, .. } = *allowed;
        self.pace(pacing, limits.out);
        let answers = lately.answers(now, rates.out);
        pacing.hand_over(answers);
        let unsent = limits.out.or(match answers {
            // Messages ahead of answers must not wait in the socket. A flow without a limit may
            // become faster until the next look.
            Answers::Pieces(rate) => Some(rate.times(2.0)),
            Answers::All | Answers::Whole(_) | Answers::Window(_) => None,
        });
        self.bound_unsent(unsent.map(|rate| unsent_limit(rate, rtt)));
        pacing.set_r2t_rate(limits.into.map(Rate::whole));
    }

    /// Sets the rate at which the socket may send.
    fn pace(&mut self, pacing: &Pacing, limit: Option<Rate>) {
        let same = match (limit, self.paced) {
            (None, None) => true,
            (Some(new), Some(old)) => (new.bytes() / old.bytes() - 1.0).abs() < WORTH,
            _ => false,
        };
        if same || !self.socket.set_pacing_rate(limit) {
            return;
        }
        self.paced = limit;
        pacing.set_held(limit.is_some());
    }

    /// Sets the bytes that the socket may hold unsent.
    fn bound_unsent(&mut self, unsent: Option<u32>) {
        let differs = match (unsent, self.unsent) {
            (Some(new), Some(old)) => new > old * 2 || new < old / 2,
            (new, old) => new != old,
        };
        if differs && self.socket.set_notsent_lowat(unsent) {
            self.unsent = unsent;
        }
    }

    /// Restricts the answers handed over at once until the connection's sending rate is known.
    pub fn rest(&mut self, pacing: &Pacing) {
        self.sampler = Sampler::new();
        pacing.hand_over(Answers::Whole(Rate::ZERO));
    }

    /// Lifts all limits.
    pub fn lift(&mut self, pacing: &Pacing) {
        pacing.set_r2t_rate(None);
        pacing.set_held(false);
        pacing.hand_over(Answers::All);
        if self.paced.take().is_some() {
            self.socket.set_pacing_rate(None);
        }
        if self.unsent.take().is_some() {
            self.socket.set_notsent_lowat(None);
        }
    }
}

/// Computes the bytes that a socket may hold unsent at a limit: as many as it sends until it is
/// filled again.
fn unsent_limit(limit: Rate, rtt: Duration) -> u32 {
    let time = rtt.clamp(Duration::from_millis(2), Duration::from_millis(10));
    u32::try_from(limit.bytes_in(time)).unwrap_or(u32::MAX).clamp(16_384, 262_144)
}
