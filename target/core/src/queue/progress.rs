//! The progress of a host: with data that was requested or has begun to arrive, and with receiving its answers.
//! Both keep buffers that others wait for.

use std::time::Duration;

use fabric::Nanos;

/// Time for which a host may send nothing while it owes data, and over which its rate counts.
const INTERVAL: Duration = Duration::from_secs(30);
/// Minimum rate at which a host sends owed data and receives its answers, in bytes per second.
const RATE: u64 = 64 << 10;
/// Time for which a host may owe the data of one command, at any rate.
const COMMAND: Duration = Duration::from_secs(120);

/// The data that a host owes at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owed {
    /// Data of all commands for which the host was asked, in bytes.
    pub(crate) bytes: u64,
    /// Time at which the host was asked for the first of them.
    pub(crate) since: Option<Nanos>,
}

/// The progress of a host with the data that it owes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// Time of the last arrival, or of the R2T before which the host owed nothing.
    heard: Nanos,
    /// Begin of the present interval.
    began: Nanos,
    /// Least number of bytes that the host must send in the interval.
    wanted: u64,
    /// Number of bytes that the host has sent in the interval.
    came: u64,
}

impl Progress {
    /// Makes the progress of a host that owes nothing.
    pub(crate) fn new(now: Nanos) -> Self {
        Self { heard: now, began: now, wanted: 0, came: 0 }
    }

    /// Notes that something has arrived, or that the host was asked for data.
    #[inline]
    pub(crate) fn hear(&mut self, now: Nanos) {
        self.heard = now;
    }

    /// Counts data that has come for a command, in bytes.
    #[inline]
    pub(crate) fn data_came(&mut self, bytes: usize) {
        self.came = self.came.saturating_add(bytes as u64);
    }

    /// Begins again: the host owes nothing, or cannot send because it is not received from.
    pub(crate) fn excuse(&mut self, now: Nanos) {
        *self = Self::new(now);
    }

    /// Returns the reason if a host that owes data is too slow. `owed` is called when an interval is over.
    pub(crate) fn fault(
        &mut self,
        now: Nanos,
        owed: impl FnOnce() -> Owed,
    ) -> Option<&'static str> {
        if now.since(self.heard) > INTERVAL {
            return Some("it owes data for 30 s");
        }
        if self.wanted > 0 && now.since(self.began) < INTERVAL {
            return None;
        }
        if self.came < self.wanted {
            return Some("it sends data that it owes at less than 64 KiB a second");
        }
        let Owed { bytes, since } = owed();
        if since.is_some_and(|since| now.since(since) > COMMAND) {
            return Some("it owes the data of a command for two minutes");
        }
        let most = INTERVAL.as_secs() * RATE;
        (self.began, self.wanted, self.came) = (now, bytes.min(most), 0);
        None
    }
}

/// Returns the time by which a host must have taken `bytes` bytes that are sent from now on.
pub(crate) fn taken_by(now: Nanos, bytes: usize) -> Nanos {
    now + INTERVAL + Duration::from_secs(bytes as u64 / RATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Nanos {
        Nanos(second * 1_000_000_000)
    }

    /// Simulates a host that sends `bytes` every `every` seconds while it owes `owed` bytes. Returns the second at
    /// which it is found too slow.
    fn fault(every: u64, bytes: usize, owed: u64, seconds: u64) -> Option<(u64, &'static str)> {
        let mut progress = Progress::new(at(0));
        (0..seconds).find_map(|second| {
            if second % every == 0 {
                progress.hear(at(second));
                progress.data_came(bytes);
            }
            let owed = || Owed { bytes: owed, since: Some(at(second.saturating_sub(1))) };
            progress.fault(at(second), owed).map(|why| (second, why))
        })
    }

    #[test]
    fn a_host_that_sends_a_little_now_and_then_is_too_slow() {
        assert_eq!(fault(20, 4, 1 << 20, 1000).map(|(second, _)| second), Some(30));
        assert_eq!(fault(1, (64 << 10) - 1, 1 << 30, 1000).map(|(second, _)| second), Some(30));
        assert_eq!(fault(1, 64 << 10, 1 << 30, 1000), None, "at the least rate");
        assert_eq!(fault(1, 4096, 4096, 1000), None, "it sends what it owes");
        assert_eq!(fault(40, 1 << 20, 4096, 1000).map(|(second, _)| second), Some(30));
        let mut silent = Progress::new(at(0));
        let owed = || Owed::default();
        assert_eq!(silent.fault(at(30), owed), None);
        assert_eq!(silent.fault(at(31), owed), Some("it owes data for 30 s"), "part of a PDU");
    }

    #[test]
    fn the_data_of_one_command_comes_within_two_minutes() {
        let mut progress = Progress::new(at(0));
        let owed = || Owed { bytes: 1 << 30, since: Some(at(0)) };
        let found = (0..1000).find(|second| {
            progress.hear(at(*second));
            progress.data_came(1 << 20);
            progress.fault(at(*second), owed).is_some()
        });
        assert_eq!(found, Some(150), "looked at every 30 s");
    }

    #[test]
    fn who_is_not_received_from_is_not_slow() {
        let mut progress = Progress::new(at(0));
        let owed = || Owed { bytes: 1 << 20, since: Some(at(100)) };
        assert_eq!(progress.fault(at(1), owed), None);
        progress.excuse(at(100));
        assert_eq!(progress.fault(at(100), owed), None);
        assert_eq!(progress.fault(at(129), owed), None);
        progress.hear(at(129));
        assert!(progress.fault(at(130), owed).is_some());
    }

    #[test]
    fn large_answers_may_take_longer() {
        assert_eq!(taken_by(at(5), 0), at(35));
        assert_eq!(taken_by(at(5), 1 << 20), at(51));
    }
}
