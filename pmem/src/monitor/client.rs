//! The monitor's knowledge of one client.

use super::traffic::Traffic;
use crate::period::Period;
use crate::token::Tokens;
use crate::word::ReportWord;

/// A client in the running period, and its results of earlier ones.
#[derive(Clone, Debug)]
pub(super) struct Client {
    /// The reservation that was admitted, for the next periods.
    pub(super) reservation: Tokens,
    /// R_i in the running period.
    pub(super) granted: Tokens,
    /// The last report of the running period, as a word.
    last: Option<u64>,
    /// Reservation tokens left, of the last report.
    residual: Tokens,
    /// N_i: the most that was reported in the running period.
    pub(super) completed: Tokens,
    /// Number of checks since the reports have changed.
    unchanged: u32,
    /// Number of such checks after which the client counts as gone.
    patience: u32,
    /// Whether the reservation is out of reach where all clients want more than theirs.
    pub(super) contended: bool,
    /// Whether the running period's end is out of reach, and was reported to be.
    pub(super) out_of_reach: bool,
    /// Number of periods in a row in which the reservation was not used.
    pub(super) unused: u32,
    /// Number of periods in a row in which no report came.
    pub(super) silent: u32,
    /// R_i and N_i of the last whole period; no N_i where no report was wanted or came.
    pub(super) before: (Tokens, Option<Tokens>),
    /// Its packets, as the device counts them.
    pub(super) traffic: Traffic,
}

/// The limits of a true report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The running period.
    pub(super) period: Period,
    /// The I/Os that a client can have completed by now.
    pub(super) completed: Tokens,
}

impl Client {
    /// Makes a client that has no tokens before the next period.
    pub(super) fn new(reservation: Tokens) -> Self {
        Self {
            reservation,
            granted: Tokens::ZERO,
            last: None,
            residual: Tokens::ZERO,
            completed: Tokens::ZERO,
            unchanged: 0,
            patience: u32::MAX,
            contended: false,
            out_of_reach: false,
            unused: 0,
            silent: 0,
            before: (Tokens::ZERO, None),
            traffic: Traffic::default(),
        }
    }

    /// Begins a period of so many checks. A client that says nothing new in `silence` of them, or
    /// while two of its tokens must decay, counts as gone.
    pub(super) fn begin(&mut self, silence: u32, checks: u64) {
        self.before = (self.granted, self.has_reported().then_some(self.completed));
        self.granted = self.reservation;
        let decay = checks.saturating_mul(2).checked_div(self.granted.0).unwrap_or(0);
        self.patience = silence.max(1).max(u32::try_from(decay).unwrap_or(u32::MAX));
        self.residual = self.granted;
        self.completed = Tokens::ZERO;
        self.last = None;
        (self.unchanged, self.out_of_reach) = (0, false);
        self.traffic.begin();
    }

    /// Returns whether the client has reported in this period.
    pub(super) const fn has_reported(&self) -> bool {
        self.last.is_some()
    }

    /// Returns the reservation tokens that the client may still use: none where it counts as gone.
    pub(super) const fn residual(&self) -> Tokens {
        if self.is_silent() { Tokens::ZERO } else { self.residual }
    }

    /// Returns whether the client counts as gone, since it has said nothing new for so long.
    pub(super) const fn is_silent(&self) -> bool {
        self.unchanged >= self.patience
    }

    /// Handles the client's last word. Returns whether the word is impossible; then the possible part of it counts.
    pub(super) fn take(&mut self, word: u64, bounds: Bounds) -> bool {
        let report = ReportWord::unpack(word);
        if !report.is_of(bounds.period) || self.last == Some(word) {
            self.unchanged = self.unchanged.saturating_add(1);
            return false;
        }
        (self.last, self.unchanged) = (Some(word), 0);
        self.residual = report.residual.min(self.granted);
        let completed = report.completed.min(bounds.completed);
        self.completed = self.completed.max(completed);
        report.residual > self.granted || report.completed > bounds.completed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { period: Period(5), completed: Tokens(300) };

    fn report(period: u16, residual: u64, completed: u64) -> u64 {
        ReportWord::new(Period(period), Tokens(residual), Tokens(completed)).pack()
    }

    fn client() -> Client {
        let mut client = Client::new(Tokens(100));
        client.begin(3, 30);
        client
    }

    #[test]
    fn h2_client_may_use_all_tokens_before_first_report() {
        let mut client = client();
        assert_eq!((client.residual(), client.has_reported()), (Tokens(100), false));
        assert!(!client.take(report(4, 7, 90), BOUNDS));
        assert_eq!((client.residual(), client.has_reported()), (Tokens(100), false), "too late");
        assert!(!client.take(report(5, 60, 40), BOUNDS));
        assert_eq!((client.residual(), client.completed), (Tokens(60), Tokens(40)));
    }

    #[test]
    fn h2_small_reservation_may_stay_unchanged_longer() {
        let mut client = Client::new(Tokens(10));
        client.begin(3, 1000);
        for _ in 0..199 {
            client.take(report(4, 0, 0), BOUNDS);
            assert!(!client.is_silent());
        }
        client.take(report(4, 0, 0), BOUNDS);
        assert!(client.is_silent(), "two tokens decay in 200 checks");
    }

    #[test]
    fn h2_impossible_report_is_clamped() {
        let mut client = client();
        assert!(client.take(report(5, 101, 10), BOUNDS));
        assert_eq!(client.residual(), Tokens(100));
        assert!(client.take(report(5, 0, 301), BOUNDS));
        assert_eq!(client.completed, Tokens(300));
        assert!(!client.take(report(5, 0, 20), BOUNDS));
        assert_eq!(client.completed, Tokens(300), "nothing that was done is undone");
    }
}
