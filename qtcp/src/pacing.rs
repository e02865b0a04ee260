//! The values of one connection that two threads share: the thread that moves its data, and the
//! thread that watches the network.
//!
//! All values are independent of each other, and each has one writer, so they need no ordering
//! among each other: the watching thread looks again soon, and a value that is one look old does no
//! harm.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use core::time::Duration;

use units::{Class, PerClass};

use crate::Rate;

/// One connection, as both threads know it.
#[derive(Debug)]
pub struct Pacing {
    /// Data that the target sends, written by the thread that moves it.
    pub out: PerClass<Traffic>,
    /// Data that the host sends, written by the thread that receives it.
    pub into: PerClass<Traffic>,
    /// The number of the connection's class.
    class: AtomicUsize,
    /// Whether the kernel has not accepted all data handed to it.
    sending: AtomicBool,
    /// Whether answers are limited.
    held: AtomicBool,
    /// The bytes of answers with data that may be ahead of the connection's next messages;
    /// [`UNLIMITED`]: no limit.
    ahead: AtomicU64,
    /// The bytes of one answer that are handed over at once; [`UNLIMITED`]: no limit.
    piece: AtomicU64,
    /// The round-trip time in microseconds; 0: not known yet.
    rtt_us: AtomicU32,
    /// The rate at which R2Ts and READs may ask the host for data, in bytes per second;
    /// [`UNLIMITED`]: no limit.
    r2t_rate: AtomicU64,
    /// The bytes that the host may be asked for and not have sent yet; [`UNLIMITED`]: no limit.
    asked: AtomicU64,
    /// The rate at which answers with data are handed over, in bytes per second, where nobody behind
    /// the target keeps to one; [`UNLIMITED`]: no limit.
    out_rate: AtomicU64,
}

/// The answers with data that a connection hands over ahead of its next messages: R2Ts, and answers
/// without data.
#[derive(Clone, Copy, Debug)]
pub enum Answers {
    /// All waiting answers.
    All,
    /// Whole answers: as many as the connection sends in 10 ms at this rate, and 64 KiB at least.
    Whole(Rate),
    /// Answers in pieces, for a host that writes over a full link: as much as the connection sends
    /// in 10 ms at this rate, and 16 KiB at least.
    Pieces(Rate),
    /// Answers in pieces of half of these bytes (at least 16 KiB), which bound the data in flight.
    /// For transports that report their data in flight.
    Window(u64),
}

/// The least bytes of whole answers that are handed over at once.
const LEAST_WHOLE: u64 = 64 << 10;
/// The least bytes of a piece of an answer.
const LEAST_PIECE: u64 = 16 << 10;
/// The time for which answers that are handed over keep a connection busy.
const AHEAD: Duration = Duration::from_millis(10);

impl Answers {
    /// Computes the bytes that are handed over at once. More would only wait in the connection, and
    /// the next messages to the host would wait behind it: a host that reads much would be asked
    /// for the data of its writes too late.
    #[must_use]
    pub fn ahead(self) -> u64 {
        let (rate, least) = match self {
            Self::All => return UNLIMITED,
            Self::Whole(rate) => (rate, LEAST_WHOLE),
            Self::Pieces(rate) => (rate, LEAST_PIECE),
            Self::Window(bytes) => return bytes.max(LEAST_PIECE),
        };
        rate.bytes_in(AHEAD).max(least)
    }

    /// Computes the most bytes of one answer that are handed over at once.
    #[must_use]
    pub fn piece(self) -> u64 {
        match self {
            Self::All | Self::Whole(_) => UNLIMITED,
            Self::Pieces(_) => self.ahead(),
            Self::Window(_) => self.ahead() / 2,
        }
    }
}

/// The value of a rate without a limit.
const UNLIMITED: u64 = u64::MAX;

/// The data of one class in one direction.
#[derive(Debug, Default)]
pub struct Traffic {
    moved: AtomicU64,
    waiting: AtomicU64,
}

impl Traffic {
    /// Returns the bytes that have moved (handed to the kernel, or received) and the waiting ones:
    /// answers that the target holds back, or data that the host has not sent yet.
    #[must_use]
    #[inline]
    pub fn read(&self) -> (u64, u64) {
        (self.moved.load(Relaxed), self.waiting.load(Relaxed))
    }

    /// Publishes how many bytes have moved since the connection came, and how many wait.
    #[inline]
    pub fn publish(&self, moved: u64, waiting: u64) {
        self.moved.store(moved, Relaxed);
        self.waiting.store(waiting, Relaxed);
    }
}

impl Default for Pacing {
    /// Makes a connection that has moved nothing, with no limit.
    fn default() -> Self {
        Self {
            out: PerClass::default(),
            into: PerClass::default(),
            class: AtomicUsize::new(Class::default().number()),
            sending: AtomicBool::default(),
            held: AtomicBool::default(),
            ahead: AtomicU64::new(UNLIMITED),
            piece: AtomicU64::new(UNLIMITED),
            rtt_us: AtomicU32::default(),
            r2t_rate: AtomicU64::new(UNLIMITED),
            asked: AtomicU64::new(UNLIMITED),
            out_rate: AtomicU64::new(UNLIMITED),
        }
    }
}

impl Pacing {
    /// Returns the class of the connection, which applies to commands that name none.
    #[must_use]
    pub fn class(&self) -> Class {
        Class::ALL.get(self.class.load(Relaxed)).copied().unwrap_or_default()
    }

    /// Publishes the class of the connection.
    pub fn set_class(&self, class: Class) {
        self.class.store(class.number(), Relaxed);
    }

    /// Returns whether the kernel has not accepted all data handed to it.
    #[must_use]
    #[inline]
    pub fn is_sending(&self) -> bool {
        self.sending.load(Relaxed)
    }

    /// Publishes whether the kernel has not accepted all data handed to it.
    #[inline]
    pub fn set_sending(&self, sending: bool) {
        // This runs with each turn; the other thread's copy of the line stays valid if nothing
        // changed.
        if self.is_sending() != sending {
            self.sending.store(sending, Relaxed);
        }
    }

    /// Returns whether answers are limited: they wait in the target, in order of class.
    #[must_use]
    #[inline]
    pub fn is_held(&self) -> bool {
        self.held.load(Relaxed)
    }

    /// Publishes whether answers are limited.
    pub fn set_held(&self, held: bool) {
        self.held.store(held, Relaxed);
    }

    /// Returns the bytes of answers with data that may be ahead of the connection's next messages:
    /// behind them R2Ts would wait.
    #[must_use]
    #[inline]
    pub fn ahead(&self) -> usize {
        usize::try_from(self.ahead.load(Relaxed)).unwrap_or(usize::MAX)
    }

    /// Returns the most bytes of one answer that may be handed over at once.
    #[must_use]
    #[inline]
    pub fn piece(&self) -> usize {
        usize::try_from(self.piece.load(Relaxed)).unwrap_or(usize::MAX)
    }

    /// Publishes which answers the connection may hand over at once.
    pub fn hand_over(&self, answers: Answers) {
        self.ahead.store(answers.ahead(), Relaxed);
        self.piece.store(answers.piece(), Relaxed);
    }

    /// Returns the round-trip time in whole microseconds; zero while it is not known.
    #[must_use]
    #[inline]
    pub fn rtt(&self) -> Duration {
        Duration::from_micros(u64::from(self.rtt_us.load(Relaxed)))
    }

    /// Publishes the round-trip time, at most 71 minutes.
    pub fn set_rtt(&self, rtt: Duration) {
        self.rtt_us.store(u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX), Relaxed);
    }

    /// Returns the rate at which R2Ts and READs may ask the host for data, in bytes per second;
    /// `None`: there is no limit.
    #[must_use]
    #[inline]
    pub fn r2t_rate(&self) -> Option<u64> {
        read_limit(&self.r2t_rate)
    }

    /// Publishes the rate at which R2Ts and READs may ask the host for data, in bytes per second, at
    /// least 1.
    pub fn set_r2t_rate(&self, rate: Option<u64>) {
        publish_limit(&self.r2t_rate, rate);
    }

    /// Returns the bytes that the host may be asked for and not have sent yet; `None`: there is no
    /// limit.
    #[must_use]
    #[inline]
    pub fn asked(&self) -> Option<u64> {
        read_limit(&self.asked)
    }

    /// Publishes the bytes that the host may be asked for and not have sent yet.
    pub fn set_asked(&self, bytes: Option<u64>) {
        publish_limit(&self.asked, bytes);
    }

    /// Returns the rate at which the target hands answers with data over, in bytes per second; `None`:
    /// there is no limit, or somebody behind the target keeps to it (a socket's own pacing).
    #[must_use]
    #[inline]
    pub fn out_rate(&self) -> Option<u64> {
        read_limit(&self.out_rate)
    }

    /// Publishes the rate at which the target hands answers with data over, in bytes per second, at
    /// least 1.
    pub fn set_out_rate(&self, rate: Option<u64>) {
        publish_limit(&self.out_rate, rate);
    }
}

#[inline]
fn read_limit(place: &AtomicU64) -> Option<u64> {
    let rate = place.load(Relaxed);
    (rate != UNLIMITED).then_some(rate)
}

fn publish_limit(place: &AtomicU64, rate: Option<u64>) {
    place.store(rate.map_or(UNLIMITED, |rate| rate.clamp(1, UNLIMITED - 1)), Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_reads_the_other_sides_values() {
        let pacing = Pacing::default();
        assert_eq!((pacing.is_sending(), pacing.is_held()), (false, false));
        assert_eq!(pacing.class(), Class::Low);
        pacing.set_sending(true);
        assert_eq!((pacing.is_sending(), pacing.is_held()), (true, false));
        pacing.set_held(true);
        pacing.set_sending(false);
        assert_eq!((pacing.is_sending(), pacing.is_held()), (false, true));
        for class in Class::ALL {
            pacing.set_class(class);
            assert_eq!(pacing.class(), class);
        }
        pacing.out.high.publish(5, 7);
        assert_eq!(pacing.out.high.read(), (5, 7));
        assert_eq!(pacing.into.high.read(), (0, 0));
    }

    #[test]
    fn missing_rate_means_no_limit() {
        let pacing = Pacing::default();
        assert_eq!(pacing.r2t_rate(), None);
        pacing.set_r2t_rate(Some(0));
        assert_eq!(pacing.r2t_rate(), Some(1), "no rate stops a host for good");
        pacing.set_r2t_rate(Some(u64::MAX));
        assert_eq!(pacing.r2t_rate(), Some(u64::MAX - 1), "the greatest rate is one, too");
        pacing.set_r2t_rate(None);
        assert_eq!(pacing.r2t_rate(), None);
        assert_eq!((pacing.out_rate(), pacing.asked()), (None, None));
        pacing.set_out_rate(Some(5));
        pacing.set_asked(Some(7));
        assert_eq!((pacing.out_rate(), pacing.asked()), (Some(5), Some(7)));
    }

    #[test]
    fn answers_cover_ten_milliseconds_or_are_split() {
        let pacing = Pacing::default();
        let both = || (pacing.ahead(), pacing.piece());
        assert_eq!(both(), (usize::MAX, usize::MAX), "no stage says anything");
        for (rate, whole, piece) in
            [(0.0, 65_536, 16_384), (3e6, 65_536, 30_000), (1e9, 10_000_000, 10_000_000)]
        {
            pacing.hand_over(Answers::Whole(Rate::new(rate)));
            assert_eq!(both(), (whole, usize::MAX), "{rate}");
            pacing.hand_over(Answers::Pieces(Rate::new(rate)));
            assert_eq!(both(), (piece, piece), "{rate}");
        }
        for (window, ahead, piece) in [(0, 16_384, 8192), (1 << 20, 1 << 20, 1 << 19)] {
            pacing.hand_over(Answers::Window(window));
            assert_eq!(both(), (ahead, piece), "{window}");
        }
        pacing.hand_over(Answers::All);
        assert_eq!(both(), (usize::MAX, usize::MAX));
    }

    #[test]
    fn a_round_trip_time_is_kept_in_microseconds() {
        let pacing = Pacing::default();
        assert_eq!(pacing.rtt(), Duration::ZERO);
        pacing.set_rtt(Duration::from_nanos(1_234_567));
        assert_eq!(pacing.rtt(), Duration::from_micros(1234));
        pacing.set_rtt(Duration::MAX);
        assert_eq!(pacing.rtt(), Duration::from_micros(u64::from(u32::MAX)));
    }
}
