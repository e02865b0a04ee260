//! Congestion control as the kernel runs it (Linux 6.12): `tcp_dctcp.c`, `tcp_cubic.c`,
//! `tcp_cong.c`.
//!
//! Left out are what only measures a link before it is full (HyStart), and CUBIC's and Reno's
//! undoing of reductions that turn out to have been for nothing.

use super::quality::{LEAST, QualityFactor};
use crate::network::time::{Picos, SECOND};

/// The congestion control of a sender with a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// NewReno (RFC 5681), which Linux calls `reno`.
    Reno {
        /// Whether it reacts to marks (RFC 3168), as to losses.
        ecn: bool,
    },
    /// CUBIC (RFC 9438), the default of Linux.
    Cubic {
        /// Whether it reacts to marks (RFC 3168), as to losses.
        ecn: bool,
    },
    /// DCTCP (RFC 8257).
    Dctcp,
    /// QTCP as its source prints it (docs/research/sources.md, E1; Eq. 5): DCTCP that shrinks a window by Q, too,
    /// where a flow has more than its target. No kernel has it: figures compare the daemon with it.
    Qtcp {
        /// The target of a flow, in bytes per second.
        target: u64,
    },
}

impl Control {
    /// Returns whether the control reacts to marks.
    #[must_use]
    pub const fn ecn(self) -> bool {
        match self {
            Self::Reno { ecn } | Self::Cubic { ecn } => ecn,
            Self::Dctcp | Self::Qtcp { .. } => true,
        }
    }
}

/// The gain of DCTCP as a shift: 1/16.
const SHIFT: u32 = 4;
/// Alpha of DCTCP where everything is marked.
const ALL: u32 = 1024;
/// CUBIC's factor of a reduction, of 1024: 0.7.
const BETA: u64 = 717;
/// CUBIC's C, in packets per second cubed.
const C: f64 = 0.4;

/// The state of a control.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    Reno,
    Cubic(Cubic),
    Dctcp(Dctcp),
    Qtcp(Dctcp, QualityFactor),
}

impl State {
    pub(super) fn new(control: Control) -> Self {
        match control {
            Control::Reno { .. } => Self::Reno,
            Control::Cubic { .. } => Self::Cubic(Cubic::default()),
            // The careful alpha of RFC 8257, section 3.3: the first mark halves the window.
            Control::Dctcp => Self::Dctcp(Dctcp { alpha: ALL, ..Dctcp::default() }),
            // Alpha begins at 0, as in the source's law (E1): the first marks shrink windows by Q.
            Control::Qtcp { target } => Self::Qtcp(Dctcp::default(), QualityFactor::new(target)),
        }
    }

    /// Computes the window after a mark, in packets.
    pub(super) fn marked(&mut self, window: u32) -> u32 {
        match self {
            Self::Reno => (window / 2).max(LEAST),
            Self::Cubic(cubic) => cubic.reduced(window),
            Self::Dctcp(dctcp) => dctcp.reduced(window),
            Self::Qtcp(dctcp, quality) => quality.reduced(dctcp.reduced(window)),
        }
    }

    /// Computes the window after a loss, in packets.
    pub(super) fn lost(&mut self, window: u32) -> u32 {
        match self {
            Self::Reno | Self::Dctcp(_) | Self::Qtcp(..) => (window / 2).max(LEAST),
            Self::Cubic(cubic) => cubic.reduced(window),
        }
    }

    /// Resets the state that a time-out invalidates.
    pub(super) fn timed_out(&mut self) {
        if let Self::Cubic(cubic) = self {
            *cubic = Cubic::default();
        }
    }

    /// Handles an acknowledgement: the number of packets delivered so far, and of marked ones among them, the place up
    /// to which the stream is acknowledged, and the place up to which it is sent.
    #[inline]
    pub(super) fn acknowledged(
        &mut self,
        now: Picos,
        (delivered, marked): (u64, u64),
        (una, sent_to): (u64, u64),
    ) {
        match self {
            Self::Dctcp(dctcp) => _ = dctcp.acknowledged(delivered, marked, una, sent_to),
            Self::Qtcp(dctcp, quality) => {
                if dctcp.acknowledged(delivered, marked, una, sent_to) {
                    quality.round_ends(now, una);
                }
            }
            Self::Reno | Self::Cubic(_) => {}
        }
    }

    /// Grows a window beyond slow start for acknowledged packets. `least` is the shortest round trip.
    #[inline]
    pub(super) fn grow(&mut self, window: &mut Window, packets: u32, now: Picos, least: Picos) {
        let every = match self {
            Self::Reno | Self::Dctcp(_) | Self::Qtcp(..) => window.size,
            Self::Cubic(cubic) => cubic.every(window.size, packets, now, least),
        };
        window.add(every, packets);
    }
}

/// A window in packets, and the part of the next one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) size: u32,
    /// Packets that were acknowledged towards the next one.
    towards: u32,
}

/// The largest window in packets.
pub(super) const LARGEST: u32 = 1_000_000;

impl Window {
    pub(super) const fn new(size: u32) -> Self {
        Self { size, towards: 0 }
    }

    /// Grows by a packet for `every` packets that are acknowledged (`tcp_cong_avoid_ai`).
    #[inline]
    fn add(&mut self, every: u32, packets: u32) {
        let every = every.max(1);
        if self.towards >= every {
            self.towards = 0;
            self.size += 1;
        }
        self.towards += packets;
        if self.towards >= every {
            self.size += self.towards / every;
            self.towards %= every;
        }
        self.size = self.size.min(LARGEST);
    }
}

/// DCTCP: alpha, the smoothed part of marked packets, of 1024.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dctcp {
    alpha: u32,
    /// Packets that were delivered, and marked ones, when the round trip began.
    delivered: u64,
    marked: u64,
    /// The place in the stream at whose acknowledgement the round trip ends.
    ends: u64,
}

impl Dctcp {
    /// Computes the window after a mark, in packets.
    fn reduced(&self, window: u32) -> u32 {
        let less = (u64::from(window) * u64::from(self.alpha)) >> 11;
        window.saturating_sub(u32::try_from(less).unwrap_or(u32::MAX)).max(LEAST)
    }

    /// Handles an acknowledgement. Returns whether a round trip ends with it.
    #[inline]
    fn acknowledged(&mut self, delivered: u64, marked: u64, una: u64, sent_to: u64) -> bool {
        if una < self.ends {
            return false;
        }
        let new = marked - self.marked;
        // `min_not_zero`: an alpha below 16 would never come down.
        let decay = self.alpha >> SHIFT;
        self.alpha -= if decay == 0 { self.alpha } else { decay };
        if new > 0 {
            let of = (delivered - self.delivered).max(1);
            let part = (new << (10 - SHIFT)) / of;
            self.alpha = (self.alpha + u32::try_from(part).unwrap_or(ALL)).min(ALL);
        }
        (self.delivered, self.marked, self.ends) = (delivered, marked, sent_to);
        true
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cubic {
    /// The window before the last reduction, with fast convergence; 0 before the first.
    last_max: u32,
    /// The curve since then.
    epoch: Option<Epoch>,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    began: Picos,
    /// The window at the plateau of the curve.
    origin: f64,
    /// Seconds until the plateau (K).
    until: f64,
    /// The window that Reno would have.
    reno: u32,
    /// Packets that were acknowledged towards that window's next one.
    towards: u32,
}

impl Cubic {
    fn reduced(&mut self, window: u32) -> u32 {
        self.epoch = None;
        let part = |of: u64| u32::try_from(u64::from(window) * of / 2048).unwrap_or(u32::MAX);
        // Fast convergence: a flow that did not get back to where it was leaves more to others.
        self.last_max = if window < self.last_max { part(1024 + BETA) } else { window };
        part(2 * BETA).max(LEAST)
    }

    /// Computes for how many acknowledged packets the window grows by one (`bictcp_update`).
    fn every(&mut self, window: u32, packets: u32, now: Picos, least: Picos) -> u32 {
        let size = f64::from(window);
        let last_max = f64::from(self.last_max);
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            began: now,
            origin: size.max(last_max),
            until: ((last_max - size).max(0.0) / C).cbrt(),
            reno: window,
            towards: 0,
        });
        epoch.towards = epoch.towards.saturating_add(packets);
        let time = (now - epoch.began + least) as f64 / SECOND as f64;
        let target = epoch.origin + C * (time - epoch.until).powi(3);
        let mut every = if target > size { size / (target - size) } else { 100.0 * size };
        if self.last_max == 0 {
            every = every.min(20.0);
        }
        // Follows Reno if that is faster: it grows by 3(1 - beta)/(1 + beta) packets a round trip.
        let step = (window * 15 / 8).max(1);
        epoch.reno += epoch.towards / step;
        epoch.towards %= step;
        if epoch.reno > window {
            every = every.min(f64::from(window / (epoch.reno - window)));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "2 or more")]
        let every = every.max(2.0) as u32;
        every
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::time::MILLI;

    #[test]
    fn dctcp_halves_at_first_and_then_gives_way_by_the_part_that_was_marked() {
        let mut state = State::new(Control::Dctcp);
        assert_eq!(state.marked(100), 50, "alpha begins at 1");
        let alpha = |state: &State| match state {
            State::Dctcp(dctcp) => dctcp.alpha,
            _ => unreachable!(),
        };
        // A round trip without marks takes a sixteenth: 1024 - 64.
        state.acknowledged(0, (10, 0), (10, 20));
        assert_eq!(alpha(&state), 960);
        state.acknowledged(0, (15, 5), (15, 25));
        assert_eq!(alpha(&state), 960, "once in a round trip");
        // Of ten packets five were marked: 960 - 60 + 1024 / 16 / 2.
        state.acknowledged(0, (20, 5), (20, 30));
        assert_eq!(alpha(&state), 932);
        assert_eq!(state.marked(100), 100 - 45, "932 / 2048 of it");
        assert_eq!(state.lost(100), 50, "a loss is half, whatever alpha is");
        for round in 3..200 {
            state.acknowledged(0, (round * 10, 5), (round * 10, round * 10 + 10));
        }
        assert_eq!((alpha(&state), state.marked(100)), (0, 100), "it comes down to nothing");
        assert_eq!(State::new(Control::Dctcp).marked(3), 2, "two packets are the least");
    }

    #[test]
    fn cubic_keeps_seven_tenths_and_comes_back_to_its_plateau() {
        let mut state = State::new(Control::Cubic { ecn: true });
        assert_eq!(state.marked(1000), 700);
        let mut window = Window::new(700);
        // The plateau is (300 / 0.4)^(1/3) = 9.086 s away. A round trip takes 100 ms.
        let mut sizes = Vec::new();
        for round in 0..120 {
            sizes.push(window.size);
            for _ in 0..window.size {
                state.grow(&mut window, 1, round * 100 * MILLI, 100 * MILLI);
            }
        }
        assert!(sizes[45].abs_diff(1000 - 300 / 8) < 10, "half of the way: {}", sizes[45]);
        assert!(sizes[90].abs_diff(1000) < 10, "{}", sizes[90]);
        assert!(sizes[119] > 1005, "and beyond: {}", sizes[119]);
        assert_eq!(state.marked(1000), 700);
        assert_eq!(state.marked(900), 630);
        let State::Cubic(cubic) = state else { unreachable!() };
        // A window that shrinks leaves more to others.
        assert_eq!(cubic.last_max, 900 * 1741 / 2048);
    }

    #[test]
    fn reno_grows_by_a_packet_a_round_trip() {
        let mut state = State::new(Control::Reno { ecn: false });
        let mut window = Window::new(state.lost(100));
        for _ in 0..3 {
            (0..window.size).for_each(|_| state.grow(&mut window, 1, 0, 0));
        }
        assert_eq!(window.size, 53);
    }
}
