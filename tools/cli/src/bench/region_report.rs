//! The report of a load on a region, for people and for programs.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use pmem::admission::{most_of_window, window_for};
use pmem::token::Iops;
use serde::Serialize;

use super::figures::{COLUMNS, Figures};
use super::job::Job;
use super::stats::JobStats;
use super::units::{show_bytes, show_count, show_latency};

/// What a load has measured.
#[derive(Debug)]
pub(crate) struct Measured {
    /// The length of the measurement.
    pub(crate) time: Duration,
    pub(crate) stats: JobStats,
    /// T: length of a period.
    pub(crate) period: Duration,
    /// The whole periods within the measurement.
    pub(crate) periods: Vec<Had>,
}

/// What a client had in one period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Had {
    /// The period's number, or the number of the window where there are no tokens.
    pub(crate) period: u64,
    /// R_i: I/Os that were reserved.
    pub(crate) reserved: u64,
    /// N_i: I/Os that completed.
    pub(crate) had: u64,
}

impl Had {
    /// Tells whether the client had what it had reserved, but for `depth` I/Os that were under way at the
    /// end; `None` where it had reserved nothing.
    fn is_met(self, depth: u16) -> Option<bool> {
        (self.reserved > 0).then(|| self.had.saturating_add(depth.into()) >= self.reserved)
    }
}

/// The region under load, as its grant has it.
#[derive(Debug, Serialize)]
pub(crate) struct LoadedRegion {
    pub(crate) region: String,
    pub(crate) data_node: SocketAddr,
    pub(crate) bytes: u64,
    pub(crate) rights: &'static str,
    pub(crate) survives: &'static str,
    /// The reservation that was admitted, in I/Os per second.
    pub(crate) reservation: u32,
    /// The most I/Os per second; `None` for no limit.
    pub(crate) limit: Option<u32>,
    /// Whether I/Os went without tokens.
    pub(crate) bare: bool,
}

/// The report as JSON, with times in nanoseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Report<'a> {
    #[serde(flatten)]
    region: &'a LoadedRegion,
    seconds: f64,
    job: &'a Job,
    reads: Option<Figures>,
    writes: Option<Figures>,
    period_seconds: f64,
    periods: &'a [Had],
    /// The number of whole periods in which the reservation was met; `None` without a reservation.
    met: Option<usize>,
    /// The depth that the reservation needs at the least, where the job's cannot reach it.
    depth_needed: Option<u64>,
    /// The least latency of an I/O; zero where there was none.
    #[serde(skip)]
    least: Duration,
}

impl<'a> Report<'a> {
    pub(crate) fn of(region: &'a LoadedRegion, job: &'a Job, measured: &'a Measured) -> Self {
        let Measured { time, stats, period, periods } = measured;
        let seconds = time.as_secs_f64();
        let met = periods.iter().filter_map(|had| had.is_met(job.depth));
        let is_reserved = region.reservation > 0 && !region.bare;
        let latencies = [&stats.reads, &stats.writes].into_iter().filter(|of| of.count() > 0);
        let least = latencies.map(|of| of.latency.min()).min().unwrap_or(0);
        let least = Duration::from_nanos(least);
        let needed = window_for(Iops(region.reservation.into()), least);
        Self {
            region,
            seconds,
            job,
            reads: Figures::of_any(&stats.reads, seconds),
            writes: Figures::of_any(&stats.writes, seconds),
            period_seconds: period.as_secs_f64(),
            periods,
            met: is_reserved.then(|| met.filter(|met| *met).count()),
            depth_needed: (is_reserved && needed > job.depth.into()).then_some(needed),
            least,
        }
    }

    /// Makes the report for people.
    pub(crate) fn table(&self) -> String {
        let LoadedRegion { region, data_node, bytes, rights, survives, .. } = self.region;
        let mut text = format!(
            "{}  {}\nregion {region} of {data_node}, {}, {rights}, survives {survives}\n",
            self.job.access.endpoint(),
            self.job.access.nqn,
            show_bytes(*bytes),
        );
        text += &self.terms();
        let (job, seconds) = (self.job, self.seconds);
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{seconds:.1} s\n\n{:<12} {:<5} {:>7} {:>7}  {COLUMNS}",
            "one-sided", "", "bs", "depth"
        );
        for (name, figures) in [("read", &self.reads), ("write", &self.writes)] {
            if let Some(figures) = figures {
                let (bs, depth) = (show_bytes(u64::from(job.bs)), job.depth);
                let columns = figures.columns();
                let _ = writeln!(text, "{:<12} {name:<5} {bs:>7} {depth:>7}  {columns}", job.name);
            }
        }
        let _ = writeln!(text, "\n{:>6}  {:>10}  {:>10}  met", "period", "reserved", "had");
        for row in self.periods {
            let Had { period, reserved, had } = row;
            let met = match row.is_met(job.depth) {
                Some(true) => "yes",
                Some(false) => "no",
                None => "-",
            };
            let _ = writeln!(text, "{period:>6}  {reserved:>10}  {had:>10}  {met}");
        }
        if let Some(met) = self.met {
            let (count, period) =
                (self.periods.len(), Duration::from_secs_f64(self.period_seconds));
            let _ = writeln!(text, "reservation met in {met} of {count} periods of {period:?}");
        }
        if let Some(needed) = self.depth_needed {
            let depth = job.depth;
            let most = show_count(most_of_window(depth.into(), self.least).0 as f64);
            let _ = writeln!(
                text,
                "the reservation is out of reach: a depth of {depth} does at most {most} I/Os per second, \
                 since an I/O takes {} or more; give --depth {needed} or more, or reserve less",
                show_latency(self.least.as_nanos() as f64)
            );
        }
        text
    }

    /// Says by what rules the I/Os went.
    fn terms(&self) -> String {
        let LoadedRegion { reservation, limit, bare, .. } = self.region;
        if *bare {
            return "without tokens: while this runs nobody has a reservation\n".to_owned();
        }
        let reserved = match reservation {
            0 => "nothing reserved".to_owned(),
            some => format!("reserved {} I/Os per second", show_count(f64::from(*some))),
        };
        let limit = limit.map_or_else(
            || "no limit".to_owned(),
            |most| format!("limit {} I/Os per second", show_count(f64::from(most))),
        );
        format!("{reserved}, {limit}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(reservation: u32, bare: bool) -> LoadedRegion {
        LoadedRegion {
            region: "log".to_owned(),
            data_node: "10.0.0.1:4430".parse().unwrap(),
            bytes: 1 << 20,
            rights: "read",
            survives: "a power cut",
            reservation,
            limit: Some(200_000),
            bare,
        }
    }

    fn measured(periods: &[(u64, u64)]) -> Measured {
        let mut stats = JobStats::new().unwrap();
        (0..100).for_each(|_| stats.record(false, 12_000, 4096));
        let had = |(number, (reserved, had)): (u64, &(u64, u64))| Had {
            period: number,
            reserved: *reserved,
            had: *had,
        };
        Measured {
            time: Duration::from_secs(2),
            stats,
            period: Duration::from_secs(1),
            periods: (7..).zip(periods).map(had).collect(),
        }
    }

    #[test]
    fn a_reservation_is_met_but_for_what_was_under_way_at_the_end() {
        let job = Job { depth: 8, ..Job::example() };
        let (region, measured) = (region(1000, false), measured(&[(1000, 992), (1000, 991)]));
        let report = Report::of(&region, &job, &measured);
        let text = report.table();
        for line in [
            "region log of 10.0.0.1:4430, 1 MiB, read, survives a power cut",
            "reserved 1.00 k I/Os per second, limit 200 k I/Os per second",
            "     7        1000         992  yes",
            "     8        1000         991  no",
            "reservation met in 1 of 2 periods of 1s",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}:\n{text}");
        }
        assert!(text.contains("read    4 KiB       8        50"), "{text}");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!((&json["met"], &json["region"]), (&1.into(), &"log".into()));
        assert_eq!(json["periods"][1]["had"], 991);
        assert!(json["writes"].is_null() && json["reads"]["p99_ns"].as_u64().unwrap() >= 12_000);
    }

    #[test]
    fn h3_a_depth_that_cannot_reach_the_reservation_is_named_with_one_that_can() {
        // Each I/O takes 12 us or a little less, by the histogram's resolution.
        let (job, measured) = (Job { depth: 1, ..Job::example() }, measured(&[(100_000, 83_000)]));
        let region = region(100_000, false);
        let report = Report::of(&region, &job, &measured);
        let text = report.table();
        let line = text.lines().last().unwrap();
        assert!(
            line.starts_with("the reservation is out of reach: a depth of 1 does at most 83.")
                && line.ends_with("give --depth 2 or more, or reserve less"),
            "{text}"
        );
        assert_eq!(serde_json::to_value(&report).unwrap()["depth_needed"], 2);
        let deeper = Job { depth: 2, ..Job::example() };
        let report = Report::of(&region, &deeper, &measured);
        assert!(!report.table().contains("out of reach"), "others may have been faster");
        assert!(serde_json::to_value(&report).unwrap()["depth_needed"].is_null());
    }

    #[test]
    fn without_tokens_there_is_nothing_to_be_met() {
        let (job, measured) = (Job::example(), measured(&[(0, 50)]));
        for region in [region(0, false), region(0, true)] {
            let report = Report::of(&region, &job, &measured);
            let text = report.table();
            assert!(text.contains("     7           0          50  -\n"), "{text}");
            assert!(!text.contains("reservation met"), "{text}");
            assert_eq!(text.contains("without tokens"), region.bare);
            assert!(serde_json::to_value(&report).unwrap()["met"].is_null());
        }
    }
}
