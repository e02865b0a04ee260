//! Lines of the log about sessions: periods in which a reservation was missed, and limits that hold hosts back. Time and
//! the sessions' states are arguments.
//!
//! A session has a line at once, and then one a minute at most. All sessions together have ten lines at each look; lines
//! about further sessions follow at the next looks.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use arbitration::Nanos;
use arbitration::session::SessionLimits;
use sluice_config::Limits;

/// The expected wait in ns from which on a session's hosts wait for long.
pub(crate) const LONG_WAIT: u64 = 5_000_000_000;
/// The expected wait in ns below which they no longer do.
const SHORT_WAIT: u64 = 1_000_000_000;
/// The least time between two lines of one kind about a session.
const APART: Duration = Duration::from_secs(60);
/// The most lines of one look.
const LINES_MAX: usize = 10;

/// The state of a session at a look.
#[derive(Clone, Debug, Default)]
pub(super) struct Pressure {
    /// The session's name.
    pub(super) session: String,
    /// The session's own limits.
    pub(super) limits: SessionLimits,
    /// The time in ns that a command which comes now is expected to wait.
    pub(super) wait: u64,
    /// Commands that were sent back for a later retry since the session was made.
    pub(super) refused: u64,
    /// Its reservation; `None` if no period was missed.
    pub(super) reserve: Option<MissedReserve>,
}

/// The missed periods of a reservation.
#[derive(Clone, Debug, Default)]
pub(super) struct MissedReserve {
    /// NQN/NSID of the namespace.
    pub(super) namespace: String,
    /// Periods in which less than the reservation was complete, since it came into force.
    pub(super) periods: u64,
    /// The cause of the latest one.
    pub(super) cause: &'static str,
    /// The latest one in words.
    pub(super) reason: String,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Periods of a reservation were missed since the last such line about the session.
    Missed { session: String, namespace: String, periods: u64, cause: &'static str, reason: String },
    /// Commands of a session wait for longer than [`LONG_WAIT`].
    Waits { session: String, limits: String, seconds: u64, refused: u64 },
    /// They no longer do.
    Flows { session: String },
}

impl Notice {
    /// Writes the line to the log.
    pub(crate) fn log(&self) {
        match self {
            Self::Missed { session, namespace, periods, cause, reason } => tracing::warn!(
                session,
                namespace,
                periods,
                cause,
                reason,
                "a reservation was missed: `sluice qos show` has its periods"
            ),
            Self::Waits { session, limits, seconds, refused } => tracing::warn!(
                session,
                limits,
                seconds,
                refused,
                "commands of a session wait for long: raise its limits, or lower its load"
            ),
            Self::Flows { session } => {
                tracing::info!(session, "commands of the session no longer wait for long");
            }
        }
    }
}

/// The sessions about which there was a line.
#[derive(Debug, Default)]
pub(super) struct Notices(HashMap<String, Known>);

/// The last lines about a session.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The missed periods of the reservation that lines have reported.
    periods: u64,
    /// The refused commands that lines have reported.
    refused: u64,
    /// The time of the last line about its reservation.
    missed: Option<Nanos>,
    /// The time of the last line about its wait.
    waited: Option<Nanos>,
    /// Whether the last line about its wait reported a long one.
    is_waiting: bool,
}

impl Known {
    /// Returns the time of the session's last line.
    fn last(&self) -> Option<Nanos> {
        self.missed.max(self.waited)
    }
}

fn is_due(now: Nanos, last: Option<Nanos>) -> bool {
    last.is_none_or(|last| now.since(last) >= APART)
}

impl Notices {
    /// Looks at the sessions whose commands wait, or whose reservations were missed. Returns the lines that follow.
    pub(super) fn look(&mut self, now: Nanos, sessions: &[Pressure]) -> Vec<Notice> {
        let mut lines = Vec::new();
        // Sessions without a line, and then those with the oldest one, go first.
        let mut order: Vec<(Option<Nanos>, &Pressure)> = sessions
            .iter()
            .map(|one| (self.0.get(&one.session).and_then(Known::last), one))
            .collect();
        order.sort_by(|(a, one), (b, other)| (a, &one.session).cmp(&(b, &other.session)));
        for (_, one) in order {
            let known = self.0.entry(one.session.clone()).or_default();
            for notice in [missed, waits] {
                if lines.len() < LINES_MAX {
                    lines.extend(notice(now, known, one));
                }
            }
        }
        let present: HashSet<&str> = sessions.iter().map(|one| one.session.as_str()).collect();
        self.0.retain(|session, known| {
            if present.contains(session.as_str()) {
                return true;
            }
            if known.is_waiting && lines.len() < LINES_MAX {
                lines.push(Notice::Flows { session: session.clone() });
                known.is_waiting = false;
            }
            known.is_waiting
        });
        lines
    }
}

/// Returns the line about periods that were missed since the last one.
fn missed(now: Nanos, known: &mut Known, one: &Pressure) -> Option<Notice> {
    let reserve = one.reserve.as_ref()?;
    // Another reservation counts from 0.
    let new = reserve.periods.checked_sub(known.periods).unwrap_or(reserve.periods);
    if new == 0 || !is_due(now, known.missed) {
        return None;
    }
    (known.periods, known.missed) = (reserve.periods, Some(now));
    Some(Notice::Missed {
        session: one.session.clone(),
        namespace: reserve.namespace.clone(),
        periods: new,
        cause: reserve.cause,
        reason: reserve.reason.clone(),
    })
}

/// Returns the line about a session whose hosts wait for long, or no longer do.
fn waits(now: Nanos, known: &mut Known, one: &Pressure) -> Option<Notice> {
    let session = one.session.clone();
    if one.wait > LONG_WAIT && is_due(now, known.waited) {
        let refused = one.refused.checked_sub(known.refused).unwrap_or(one.refused);
        (known.refused, known.waited, known.is_waiting) = (one.refused, Some(now), true);
        let (limits, seconds) = (written(&one.limits), one.wait / 1_000_000_000);
        return Some(Notice::Waits { session, limits, seconds, refused });
    }
    if one.wait < SHORT_WAIT && known.is_waiting {
        known.is_waiting = false;
        return Some(Notice::Flows { session });
    }
    None
}

/// Writes the limits of a session on rates, separated by commas; nothing if it has none.
pub(crate) fn written(limits: &SessionLimits) -> String {
    let SessionLimits { total, reads, writes, .. } = *limits;
    let limits = Limits { total, reads, writes, ..Limits::default() };
    let limits: Vec<String> = limits.rate_limits(None).map(|limit| limit.written()).collect();
    limits.join(", ")
}

#[cfg(test)]
mod tests {
    use sluice_config::testing::rates;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(seconds: u64) -> Nanos {
        Nanos(seconds * SECOND)
    }

    fn missed_periods(session: &str, periods: u64) -> Pressure {
        let reason = "each command waited 2ms for others to go first".to_owned();
        let reserve = MissedReserve { namespace: "n/1".into(), periods, cause: "order", reason };
        Pressure { session: session.into(), reserve: Some(reserve), ..Pressure::default() }
    }

    fn waiting(session: &str, seconds: u64, refused: u64) -> Pressure {
        let limits = SessionLimits { total: rates(Some(10), None), ..SessionLimits::default() };
        let wait = seconds * SECOND;
        Pressure { session: session.into(), limits, wait, refused, reserve: None }
    }

    /// Returns the sessions and the periods of lines about missed periods.
    fn missed(lines: Vec<Notice>) -> impl Iterator<Item = (String, u64)> {
        lines.into_iter().map(|line| match line {
            Notice::Missed { session, periods, .. } => (session, periods),
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn missed_periods_have_line_at_most_each_minute() {
        let mut notices = Notices::default();
        for (seconds, periods, told) in [
            (0, 0, None),
            (10, 2, Some(2)),
            (20, 7, None),
            (70, 9, Some(7)),
            (200, 9, None),
            // A new reservation counts from 0.
            (300, 1, Some(1)),
        ] {
            let lines = notices.look(at(seconds), &[missed_periods("gold", periods)]);
            assert!(missed(lines).map(|(_, periods)| periods).eq(told), "at {seconds} s");
        }
    }

    #[test]
    fn long_waits_begin_and_end_with_line() {
        let mut notices = Notices::default();
        assert_eq!(notices.look(at(0), &[waiting("db", 5, 0)]), [], "not longer than 5 s");
        let waits = |seconds, refused| {
            [Notice::Waits { session: "db".into(), limits: "iops = 10".into(), seconds, refused }]
        };
        assert_eq!(notices.look(at(10), &[waiting("db", 8, 3)]), waits(8, 3));
        assert_eq!(notices.look(at(20), &[waiting("db", 9, 5)]), []);
        assert_eq!(notices.look(at(30), &[waiting("db", 2, 5)]), [], "neither long nor short");
        assert_eq!(notices.look(at(70), &[waiting("db", 9, 7)]), waits(9, 4), "after a minute");
        let flows = [Notice::Flows { session: "db".into() }];
        assert_eq!(notices.look(at(80), &[waiting("db", 0, 7)]), flows);
        assert_eq!(notices.look(at(90), &[waiting("db", 0, 7)]), []);
        notices.look(at(200), &[waiting("db", 9, 7)]);
        assert_eq!(notices.look(at(210), &[]), flows, "idle sessions are not looked at");
        assert!(notices.0.is_empty());
    }

    #[test]
    fn many_sessions_have_their_lines_in_turn() {
        let mut notices = Notices::default();
        let all: Vec<Pressure> =
            (0..35).map(|number| missed_periods(&format!("s{number:02}"), 1)).collect();
        let mut seen = Vec::new();
        for look in 0..5 {
            let lines = notices.look(at(10 * look), &all);
            assert!(lines.len() <= LINES_MAX, "{lines:?}");
            seen.extend(missed(lines).map(|(session, _)| session));
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), all.len());
    }
}
