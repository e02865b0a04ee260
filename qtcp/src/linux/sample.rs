//! Observations of both directions of a connection, made of two readings of the kernel's counters.

use core::time::Duration;

use super::Info;
use crate::{Nanos, Observation};

/// Observations of one connection since the sample before, in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The observation of sent data.
    pub out: Observation,
    /// Observation of received data. The round-trip time is the connection's; whether the peer had
    /// more to send cannot be seen from here, so `app_limited` is always false.
    pub into: Observation,
    /// Whether the kernel counts the marks of received packets (Linux 6.18); otherwise
    /// `into.marked` is 0 and meaningless.
    pub marks_known: bool,
}

/// The counters at the last reading.
#[derive(Clone, Copy, Debug)]
struct Before {
    at: Nanos,
    info: Info,
}

/// Makes the samples of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sampler {
    before: Option<Before>,
}

impl Sampler {
    /// Makes a sampler that has not seen its connection yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { before: None }
    }

    /// Makes the sample from the last one to `now`, when `info` was read.
    ///
    /// The first sample, and one at the time of the last or before it, has an interval of zero and
    /// counts nothing; what happened meanwhile counts in the next. Counters of 32 bits may wrap
    /// once between two samples (2^31 packets at most: minutes at any rate there is). A counter
    /// that went backward, because the descriptor now is of another connection, counts as no
    /// growth.
    #[inline]
    pub fn sample(&mut self, now: Nanos, info: &Info) -> Sample {
        let Some(before) = self.before else {
            self.before = Some(Before { at: now, info: *info });
            return between(info, info, Duration::ZERO);
        };
        let interval = now.since(before.at);
        if interval.is_zero() {
            return between(info, info, Duration::ZERO);
        }
        self.before = Some(Before { at: now, info: *info });
        between(&before.info, info, interval)
    }
}

#[inline]
fn between(before: &Info, info: &Info, interval: Duration) -> Sample {
    let rwnd_limited = info.rwnd_limited.saturating_sub(before.rwnd_limited);
    let marks = before.received_ce.zip(info.received_ce);
    Sample {
        out: Observation {
            interval,
            delivered: grown(before.delivered, info.delivered),
            marked: grown(before.delivered_ce, info.delivered_ce),
            bytes: info.bytes_acked.saturating_sub(before.bytes_acked),
            rtt: info.rtt,
            mss: info.snd_mss,
            app_limited: idle(info) || (!interval.is_zero() && rwnd_limited * 2 > interval),
        },
        into: Observation {
            interval,
            delivered: grown(before.data_segs_in, info.data_segs_in),
            marked: marks.map_or(0, |(before, now)| grown(before, now)),
            bytes: info.bytes_received.saturating_sub(before.bytes_received),
            rtt: info.rtt,
            mss: info.rcv_mss,
            app_limited: false,
        },
        marks_known: marks.is_some(),
    }
}

/// Returns whether the sender had less to send than it might have sent. The kernel's bit tells of
/// the best recent measurement of the delivery rate; an empty queue shows a sender that has gone
/// quiet since.
#[inline]
fn idle(info: &Info) -> bool {
    info.app_limited || (info.notsent_bytes == 0 && info.unacked < info.snd_cwnd)
}

/// Computes by how much a counter of 32 bits grew, across a wrap; 0 where it went backward.
#[inline]
const fn grown(before: u32, now: u32) -> u32 {
    let grown = now.wrapping_sub(before);
    if grown > u32::MAX / 2 { 0 } else { grown }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use proptest::prelude::*;

    use super::super::info::tests::{fill, pair, send};
    use super::*;

    fn info() -> Info {
        Info::read(pair().0.as_fd()).unwrap()
    }

    const AFTER: Nanos = Nanos(5_000_000);

    #[test]
    fn e1_sample_of_real_connection_counts_bytes() {
        let (mut here, mut there) = pair();
        let (mut sender, mut receiver) = (Sampler::new(), Sampler::new());
        let read = |socket: &std::net::TcpStream| Info::read(socket.as_fd()).unwrap();
        sender.sample(Nanos(1), &read(&here));
        receiver.sample(Nanos(1), &read(&there));
        send(&mut here, &mut there, 500_000);
        let info = read(&here);
        let out = sender.sample(AFTER, &info).out;
        assert_eq!(out.bytes, 500_000);
        assert!(u64::from(out.delivered) >= 500_000 / u64::from(info.snd_mss));
        assert_eq!(out.interval, Duration::from_nanos(4_999_999));
        assert_eq!((out.rtt, out.mss), (info.rtt, info.snd_mss));
        assert!(out.app_limited, "nothing is left to send");
        let sample = receiver.sample(AFTER, &read(&there));
        assert_eq!(sample.into.bytes, 500_000);
        assert!(sample.into.delivered > 0);
        assert_eq!(sample.out.bytes, 1, "the answer");
        assert_eq!(sample.into.marked, 0, "the loopback device marks nothing");
    }

    #[test]
    fn e1_backlogged_sender_is_not_app_limited() {
        let (here, _there) = pair();
        fill(&here);
        let mut now = Info::read(here.as_fd()).unwrap();
        now.app_limited = false;
        assert!(!Sampler::new().sample(AFTER, &now).out.app_limited);
        // The peer reads nothing: its window, not the network, is what bounds this one.
        let mut sampler = Sampler::new();
        sampler.sample(Nanos(0), &now);
        now.rwnd_limited += Duration::from_millis(4);
        assert!(sampler.sample(AFTER, &now).out.app_limited);
    }

    #[test]
    fn e1_the_first_sample_counts_nothing() {
        let (mut here, mut there) = pair();
        send(&mut here, &mut there, 100_000);
        let first = Sampler::new().sample(AFTER, &Info::read(here.as_fd()).unwrap());
        assert_eq!((first.out.bytes, first.out.delivered, first.out.marked), (0, 0, 0));
        assert_eq!(first.out.interval, Duration::ZERO);
    }

    #[test]
    fn e1_no_time_loses_no_packets() {
        let (mut one, mut sampler) = (info(), Sampler::new());
        sampler.sample(AFTER, &one);
        one.bytes_acked += 1000;
        for early in [AFTER, Nanos(0)] {
            let sample = sampler.sample(early, &one);
            assert_eq!((sample.out.interval, sample.out.bytes), (Duration::ZERO, 0));
        }
        assert_eq!(sampler.sample(Nanos(6_000_000), &one).out.bytes, 1000);
    }

    #[test]
    fn e1_received_marks_are_counted_if_reported() {
        let (mut one, mut sampler) = (info(), Sampler::new());
        one.received_ce = Some(u32::MAX);
        sampler.sample(Nanos(0), &one);
        (one.received_ce, one.data_segs_in) = (Some(2), one.data_segs_in + 9);
        let sample = sampler.sample(AFTER, &one);
        assert_eq!((sample.into.marked, sample.into.delivered, sample.marks_known), (3, 9, true));
        one.received_ce = None;
        let sample = sampler.sample(Nanos(6_000_000), &one);
        assert_eq!((sample.into.marked, sample.marks_known), (0, false));
    }

    proptest! {
        #[test]
        fn e1_counters_grow_across_a_wrap_and_never_backward(
            before in any::<u32>(), growth in 0..u32::MAX / 2, back in 1..u32::MAX / 2,
        ) {
            prop_assert_eq!(grown(before, before.wrapping_add(growth)), growth);
            prop_assert_eq!(grown(before, before.wrapping_sub(back)), 0);
        }

        #[test]
        fn e1_samples_add_up_to_total(
            start in any::<u32>(), steps in proptest::collection::vec((0_u32..5000, 0_u64..4), 1..50),
        ) {
            let (mut one, mut sampler) = (info(), Sampler::new());
            (one.delivered, one.delivered_ce) = (start, start);
            sampler.sample(Nanos(0), &one);
            let (mut now, mut seen, mut sent) = (Nanos(0), 0, 0);
            for (packets, time) in steps {
                one.delivered = one.delivered.wrapping_add(packets);
                one.delivered_ce = one.delivered;
                now = Nanos(now.0 + time);
                let out = sampler.sample(now, &one).out;
                prop_assert_eq!(out.marked, out.delivered);
                (seen, sent) = (seen + out.delivered, sent + packets);
            }
            seen += sampler.sample(Nanos(now.0 + 1), &one).out.delivered;
            prop_assert_eq!(seen, sent);
        }
    }
}
