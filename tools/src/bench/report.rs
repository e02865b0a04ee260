//! What a person, or a program, gets to see.

use std::fmt::Write as _;

use anyhow::ensure;
use fabric::nvme::Status;
use serde::Serialize;

use super::args::{Job, Load};
use super::controller::Controller;
use super::stats::{Direction, JobStats};
use super::units::{show_bytes, show_count, show_latency};

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    address: String,
    nqn: String,
    model: String,
    namespace_bytes: u64,
    block_size: u32,
    verify: bool,
    /// Length of the measurement, seconds.
    seconds: f64,
    pub(crate) jobs: Vec<(Job, JobStats)>,
    /// Bytes that were read back and compared after the run.
    pub(crate) verified_bytes: u64,
}

/// The same as JSON; times in nanoseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Report<'a> {
    address: &'a str,
    nqn: &'a str,
    model: &'a str,
    namespace_bytes: u64,
    block_size: u32,
    seconds: f64,
    jobs: Vec<JobReport<'a>>,
    verified_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
struct JobReport<'a> {
    #[serde(flatten)]
    job: &'a Job,
    reads: Option<Figures>,
    writes: Option<Figures>,
    errors: Vec<Errors>,
}

#[derive(Debug, Serialize)]
struct Errors {
    status: u16,
    text: &'static str,
    count: u64,
}

/// Rates and latencies.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) commands: u64,
    pub(crate) iops: f64,
    pub(crate) bytes_per_second: f64,
    pub(crate) mean_ns: f64,
    pub(crate) p50_ns: u64,
    pub(crate) p90_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) p999_ns: u64,
    pub(crate) max_ns: u64,
}

impl Figures {
    pub(crate) fn of(direction: &Direction, seconds: f64) -> Self {
        Self {
            commands: direction.count(),
            iops: direction.count() as f64 / seconds,
            bytes_per_second: direction.bytes as f64 / seconds,
            mean_ns: direction.latency.mean(),
            p50_ns: direction.quantile(0.5),
            p90_ns: direction.quantile(0.9),
            p99_ns: direction.quantile(0.99),
            p999_ns: direction.quantile(0.999),
            max_ns: direction.latency.max(),
        }
    }

    fn of_any(direction: &Direction, seconds: f64) -> Option<Self> {
        (direction.count() > 0).then(|| Self::of(direction, seconds))
    }

    /// The columns of a table row.
    pub(crate) fn columns(&self) -> String {
        let latencies = [self.p50_ns, self.p90_ns, self.p99_ns, self.p999_ns, self.max_ns];
        let mut row = format!(
            "{:>8} {:>8.0} {:>8}",
            show_count(self.iops),
            self.bytes_per_second / 1e6,
            show_latency(self.mean_ns)
        );
        for latency in latencies {
            let _ = write!(row, " {:>8}", show_latency(latency as f64));
        }
        row
    }
}

/// The head of the columns that [`Figures::columns`] fills.
pub(crate) const COLUMNS: &str =
    "    IOPS     MB/s     mean      p50      p90      p99    p99.9      max";

impl Outcome {
    pub(crate) fn new(load: &Load, controller: &Controller) -> anyhow::Result<Self> {
        let namespace = &controller.namespace;
        let jobs = load.jobs()?.into_iter().map(|job| Ok((job, JobStats::new()?)));
        Ok(Self {
            address: load.address.clone(),
            nqn: load.nqn.clone(),
            model: controller.model.clone(),
            namespace_bytes: namespace.blocks.saturating_mul(u64::from(namespace.block_size)),
            block_size: namespace.block_size,
            verify: load.verify,
            seconds: load.time.as_secs_f64(),
            jobs: jobs.collect::<anyhow::Result<_>>()?,
            verified_bytes: 0,
        })
    }

    /// Adds a thread's figures, one for each job.
    pub(crate) fn add(&mut self, figures: &[JobStats]) -> anyhow::Result<()> {
        self.jobs.iter_mut().zip(figures).try_for_each(|((_, sum), stats)| sum.add(stats))
    }

    /// Whether data was verified.
    pub(crate) fn is_verified(&self) -> bool {
        self.verify
    }

    /// All jobs and directions together.
    pub(crate) fn total(&self) -> anyhow::Result<Figures> {
        let mut all = JobStats::new()?;
        self.jobs.iter().try_for_each(|(_, stats)| all.add(stats))?;
        Ok(Figures::of(&all.both()?, self.seconds))
    }

    /// An error if the run did nothing, or commands failed.
    pub(crate) fn ensure_no_errors(&self) -> anyhow::Result<()> {
        for (job, stats) in &self.jobs {
            let failed: u64 = stats.errors.values().sum();
            ensure!(failed == 0, "{}: {failed} commands failed", job.name);
            ensure!(
                stats.count() > 0,
                "{}: no command completed within the measurement: use a longer --time",
                job.name
            );
        }
        Ok(())
    }

    /// For `--json`.
    pub(crate) fn report(&self) -> Report<'_> {
        let jobs = self.jobs.iter().map(|(job, stats)| JobReport {
            job,
            reads: Figures::of_any(&stats.reads, self.seconds),
            writes: Figures::of_any(&stats.writes, self.seconds),
            errors: errors(stats),
        });
        Report {
            address: &self.address,
            nqn: &self.nqn,
            model: &self.model,
            namespace_bytes: self.namespace_bytes,
            block_size: self.block_size,
            seconds: self.seconds,
            jobs: jobs.collect(),
            verified_bytes: self.verify.then_some(self.verified_bytes),
        }
    }

    /// For a person.
    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "{}  {}\n{}, {} in blocks of {}; {:.1} s\n\n{:<12} {:<5} {:>7} {:>7}  {COLUMNS}\n",
            self.address,
            self.nqn,
            self.model,
            show_bytes(self.namespace_bytes),
            show_bytes(u64::from(self.block_size)),
            self.seconds,
            "job",
            "",
            "bs",
            "depth",
        );
        for (job, stats) in &self.jobs {
            for (name, direction) in [("read", &stats.reads), ("write", &stats.writes)] {
                if let Some(figures) = Figures::of_any(direction, self.seconds) {
                    let depth = format!("{}x{}", job.connections, job.depth);
                    let bs = show_bytes(u64::from(job.bs));
                    let columns = figures.columns();
                    let _ =
                        writeln!(text, "{:<12} {name:<5} {bs:>7} {depth:>7}  {columns}", job.name);
                }
            }
            for error in errors(stats) {
                let Errors { status, text: why, count } = error;
                let _ = writeln!(
                    text,
                    "{:<12} {count} commands failed: {why} ({status:#06x})",
                    job.name
                );
            }
        }
        if self.verify {
            let bytes = show_bytes(self.verified_bytes);
            let _ = writeln!(text, "\nverified: every byte of {bytes} read back is right");
        }
        text
    }
}

fn errors(stats: &JobStats) -> Vec<Errors> {
    let errors = stats.errors.iter().map(|(status, count)| Errors {
        status: *status,
        text: Status::from_bits(*status).text(),
        count: *count,
    });
    errors.collect()
}

/// The lines of one second, one for each job.
pub(crate) fn live(
    second: u64,
    jobs: &[(Job, JobStats)],
    figures: &[JobStats],
) -> anyhow::Result<String> {
    let mut text = String::new();
    if second == 1 {
        let _ = writeln!(text, "{:>6}  {:<12}      IOPS     MB/s      p50      p99", "", "job");
    }
    for ((job, _), stats) in jobs.iter().zip(figures) {
        let figures = Figures::of(&stats.both()?, 1.0);
        let failed: u64 = stats.errors.values().sum();
        let failed = if failed > 0 { format!("   {failed} failed") } else { String::new() };
        let _ = writeln!(
            text,
            "{second:>4} s  {:<12}  {:>8} {:>8.0} {:>8} {:>8}{failed}",
            job.name,
            show_count(figures.iops),
            figures.bytes_per_second / 1e6,
            show_latency(figures.p50_ns as f64),
            show_latency(figures.p99_ns as f64)
        );
    }
    Ok(text)
}
