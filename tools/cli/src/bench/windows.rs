//! Throughput window by window, which shows whether shares and reservations hold at all times, and
//! not only in the mean.

use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::job::Job;
use super::units::show_count;

/// The part of a reservation that a window may lack and still count as kept, for commands that end
/// just behind its edge.
const TOLERANCE: f64 = 0.01;

/// The commands of a job in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// The number of commands that succeeded.
    pub(crate) commands: u64,
    pub(crate) bytes: u64,
    /// The number of commands that were due or outstanding at the end of the window.
    pub(crate) waiting: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.commands += other.commands;
        self.bytes += other.bytes;
        self.waiting += other.waiting;
    }
}

/// All windows of a run.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    pub(crate) length: Duration,
    /// The tallies, window by window and job by job.
    tallies: Vec<Vec<Tally>>,
}

/// The windows in which a reservation was kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Attained {
    /// The reserved commands per second.
    reserved: f64,
    /// The number of windows in which the job asked for all that it had reserved.
    windows: usize,
    /// The number of these windows in which the job got its reservation, to 1 %.
    kept: usize,
    /// The least part of the reservation in any of these windows; 1.0 means all of it.
    least: Option<f64>,
}

/// The windows of one job, for `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct JobWindows<'a> {
    name: &'a str,
    /// Commands per second in each window.
    iops: Vec<f64>,
    bytes_per_second: Vec<f64>,
    /// The share of all jobs' commands in each window, 0 to 1.
    share: Vec<f64>,
    reservation: Option<Attained>,
}

/// The windows of all jobs, for `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct WindowsReport<'a> {
    seconds: f64,
    jobs: Vec<JobWindows<'a>>,
}

impl Windows {
    pub(crate) fn new(length: Duration) -> Self {
        Self { length, tallies: Vec::new() }
    }

    /// Adds the tallies of a thread in a window, job by job.
    pub(crate) fn add(&mut self, window: usize, tallies: &[Tally]) {
        if self.tallies.len() <= window {
            self.tallies.resize(window + 1, vec![Tally::default(); tallies.len()]);
        }
        let known = self.tallies.get_mut(window).into_iter().flatten();
        known.zip(tallies).for_each(|(sum, tally)| sum.add(*tally));
    }

    fn of_job(&self, job: usize) -> impl Iterator<Item = Tally> {
        self.tallies.iter().map(move |window| window.get(job).copied().unwrap_or_default())
    }

    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.length.as_secs_f64()
    }

    /// Counts the windows in which a job's reservation was kept, if it has one.
    ///
    /// A job without a rate always asks for more. A job with a rate asked for what it got and for
    /// what still waited at the window's end.
    pub(crate) fn attained(&self, index: usize, job: &Job) -> Option<Attained> {
        let reserved = job.reserve?;
        let promised = reserved * self.length.as_secs_f64();
        let asked = |tally: &Tally| {
            job.rate.is_none() || (tally.commands + tally.waiting) as f64 >= promised
        };
        let got = self.of_job(index).filter(asked).map(|tally| tally.commands as f64 / promised);
        let got: Vec<f64> = got.collect();
        Some(Attained {
            reserved,
            windows: got.len(),
            kept: got.iter().filter(|got| **got >= 1.0 - TOLERANCE).count(),
            least: got.iter().copied().reduce(f64::min),
        })
    }

    /// Makes the report of `--json`.
    pub(crate) fn report<'a>(&self, jobs: impl Iterator<Item = &'a Job>) -> WindowsReport<'a> {
        let total: Vec<u64> =
            self.tallies.iter().map(|jobs| jobs.iter().map(|job| job.commands).sum()).collect();
        let jobs = jobs.enumerate().map(|(index, job)| JobWindows {
            name: &job.name,
            iops: self.of_job(index).map(|tally| self.per_second(tally.commands)).collect(),
            bytes_per_second: self
                .of_job(index)
                .map(|tally| self.per_second(tally.bytes))
                .collect(),
            share: self.of_job(index).zip(&total).map(|(tally, all)| share(tally, *all)).collect(),
            reservation: self.attained(index, job),
        });
        WindowsReport { seconds: self.length.as_secs_f64(), jobs: jobs.collect() }
    }

    /// Writes a line for each window: each job's throughput, and its share of all commands.
    pub(crate) fn table<'a>(&self, jobs: impl Iterator<Item = &'a Job>) -> String {
        let mut text = format!("\n{:>10}", "window");
        for job in jobs {
            let _ = write!(text, "  {:>18}", job.name);
        }
        text.push('\n');
        for (window, tallies) in self.tallies.iter().enumerate() {
            let end = self.length.as_secs_f64() * (window + 1) as f64;
            let _ = write!(text, "{end:>8.2} s");
            let total: u64 = tallies.iter().map(|tally| tally.commands).sum();
            for tally in tallies {
                let iops = show_count(self.per_second(tally.commands));
                let share = 100.0 * share(*tally, total);
                let _ = write!(text, "  {:>18}", format!("{iops}  {share:5.1} %"));
            }
            text.push('\n');
        }
        text
    }

    /// Writes a line for each job with a reservation.
    pub(crate) fn reservations<'a>(&self, jobs: impl Iterator<Item = &'a Job>) -> String {
        let mut text = String::new();
        for (index, job) in jobs.enumerate() {
            let Some(Attained { reserved, windows, kept, least }) = self.attained(index, job)
            else {
                continue;
            };
            let of = format!("{} of {windows} windows of {:?}", kept, self.length);
            let least = least.map_or_else(
                || "the job never asked for as many".to_owned(),
                |least| format!("at least {:.1} % of it", 100.0 * least),
            );
            let reserved = show_count(reserved);
            let _ = writeln!(
                text,
                "{:<12} reserved {reserved} commands/s: kept in {of} with demand, {least}",
                job.name
            );
        }
        text
    }
}

fn share(tally: Tally, all: u64) -> f64 {
    if all == 0 { 0.0 } else { tally.commands as f64 / all as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(commands: u64, waiting: u64) -> Tally {
        Tally { commands, bytes: commands * 4096, waiting }
    }

    fn windows(of: &[Tally]) -> Windows {
        let mut windows = Windows::new(Duration::from_millis(500));
        of.iter().enumerate().for_each(|(index, tally)| windows.add(index, &[*tally]));
        windows
    }

    #[test]
    fn a_window_in_which_less_was_asked_for_breaks_no_reservation() {
        // 1000 per second are 500 in a window.
        let seen = windows(&[tally(500, 0), tally(100, 0), tally(450, 60), tally(497, 3)]);
        let open = Job { reserve: Some(1000.0), rate: Some(1000.0), ..Job::example() };
        let attained = seen.attained(0, &open).unwrap();
        assert_eq!((attained.windows, attained.kept), (3, 2));
        assert!((attained.least.unwrap() - 0.9).abs() < 1e-9);
        let closed = Job { rate: None, ..open };
        assert_eq!(seen.attained(0, &closed).unwrap().windows, 4, "always wants more");
        assert_eq!(seen.attained(0, &Job::example()), None);
    }

    #[test]
    fn threads_add_up_whatever_order_they_report_in() {
        let mut windows = Windows::new(Duration::from_secs(1));
        for (window, count) in [(1, 10), (0, 1), (0, 2), (1, 20)] {
            windows.add(window, &[tally(count, 0), tally(count, 0)]);
        }
        let jobs = [Job::example(), Job::example()];
        let report = serde_json::to_value(windows.report(jobs.iter())).unwrap();
        assert_eq!(report["jobs"][1]["iops"], serde_json::json!([3.0, 30.0]));
        assert_eq!(report["jobs"][0]["share"], serde_json::json!([0.5, 0.5]));
    }
}
