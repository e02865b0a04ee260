//! The report of a run, for people and for programs.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::ensure;
use fabric::nvme::Status;
use serde::Serialize;

use super::args::Load;
use super::fairness::{self, ClassFigures, Shares, Slowdown};
use super::figures::{COLUMNS, Figures};
use super::job::Job;
use super::stats::JobStats;
use super::tenants::Tenants;
use super::units::{show_bytes, show_count, show_latency};
use super::windows::{Windows, WindowsReport};

/// The results of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    targets: Vec<LoadedNamespace>,
    verify: bool,
    /// The length of the measurement in seconds.
    pub(crate) seconds: f64,
    pub(crate) jobs: Vec<(Job, JobStats)>,
    /// The figures of each job by itself, where they were measured.
    pub(crate) alone: Vec<Figures>,
    pub(crate) windows: Windows,
    /// Whether the report shows the windows.
    show_windows: bool,
    /// Bytes that were read back and compared after the run.
    pub(crate) verified_bytes: u64,
}

/// A namespace under load.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct LoadedNamespace {
    address: String,
    nqn: String,
    nsid: u32,
    model: String,
    namespace_bytes: u64,
    block_size: u32,
}

/// The report as JSON, with times in nanoseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Report<'a> {
    targets: &'a [LoadedNamespace],
    seconds: f64,
    jobs: Vec<JobReport<'a>>,
    classes: Vec<ClassFigures>,
    shares: Option<Shares>,
    alone: Vec<Slowdown>,
    windows: Option<WindowsReport<'a>>,
    verified_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
struct JobReport<'a> {
    #[serde(flatten)]
    job: &'a Job,
    reads: Option<Figures>,
    writes: Option<Figures>,
    errors: Vec<Errors>,
    /// Commands that were due but not submitted at the end: the depth was too small for the rate.
    held_back: u64,
}

#[derive(Debug, Serialize)]
struct Errors {
    status: u16,
    text: &'static str,
    count: u64,
}

impl Outcome {
    pub(crate) fn new(
        load: &Load,
        jobs: &[Job],
        tenants: &Tenants,
        window: Duration,
    ) -> anyhow::Result<Self> {
        let mut targets = Vec::new();
        for (index, (job, (_, namespace))) in jobs.iter().zip(&tenants.jobs).enumerate() {
            let target = LoadedNamespace {
                address: job.access.endpoint(),
                nqn: job.access.nqn.clone(),
                nsid: job.nsid,
                model: tenants.model(index).to_owned(),
                namespace_bytes: namespace.blocks.saturating_mul(namespace.block_size.into()),
                block_size: namespace.block_size,
            };
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
        let jobs = jobs.iter().map(|job| Ok((job.clone(), JobStats::new()?)));
        Ok(Self {
            targets,
            verify: load.verify,
            seconds: load.time.as_secs_f64(),
            jobs: jobs.collect::<anyhow::Result<_>>()?,
            alone: Vec::new(),
            windows: Windows::new(window),
            show_windows: load.window.is_some(),
            verified_bytes: 0,
        })
    }

    /// Adds a thread's figures, one for each job.
    pub(crate) fn add(&mut self, figures: &[JobStats]) -> anyhow::Result<()> {
        self.jobs.iter_mut().zip(figures).try_for_each(|((_, sum), stats)| sum.add(stats))
    }

    /// Says whether data was verified.
    pub(crate) fn is_verified(&self) -> bool {
        self.verify
    }

    /// Adds up all jobs and directions.
    pub(crate) fn total(&self) -> anyhow::Result<Figures> {
        let mut all = JobStats::new()?;
        self.jobs.iter().try_for_each(|(_, stats)| all.add(stats))?;
        Ok(Figures::of(&all.both()?, self.seconds))
    }

    /// Fails if the run did nothing, or commands failed.
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

    fn slowdowns(&self) -> anyhow::Result<Vec<Slowdown>> {
        let pairs = self.jobs.iter().zip(&self.alone);
        let rows = pairs.map(|((job, stats), alone)| {
            let together = Figures::of(&stats.both()?, self.seconds);
            Ok(Slowdown::of(&job.name, alone, &together, self.jobs.len()))
        });
        rows.collect()
    }

    /// Makes the report of `--json`.
    pub(crate) fn report(&self) -> anyhow::Result<Report<'_>> {
        let jobs = self.jobs.iter().map(|(job, stats)| JobReport {
            job,
            reads: Figures::of_any(&stats.reads, self.seconds),
            writes: Figures::of_any(&stats.writes, self.seconds),
            errors: errors(stats),
            held_back: stats.held_back,
        });
        let names = self.jobs.iter().map(|(job, _)| job);
        let wanted = self.show_windows || names.clone().any(|job| job.reserve.is_some());
        Ok(Report {
            targets: &self.targets,
            seconds: self.seconds,
            jobs: jobs.collect(),
            classes: fairness::classes(&self.jobs, self.seconds)?,
            shares: Shares::of(&self.jobs),
            alone: self.slowdowns()?,
            windows: wanted.then(|| self.windows.report(names)),
            verified_bytes: self.verify.then_some(self.verified_bytes),
        })
    }

    /// Makes the report for people.
    pub(crate) fn table(&self) -> anyhow::Result<String> {
        let mut text = String::new();
        for target in &self.targets {
            let LoadedNamespace { address, nqn, nsid, model, namespace_bytes, block_size } = target;
            let (size, block) = (show_bytes(*namespace_bytes), show_bytes(u64::from(*block_size)));
            let _ = writeln!(
                text,
                "{address}  {nqn}\n{model}, namespace {nsid}, {size} in blocks of {block}"
            );
        }
        let _ = writeln!(
            text,
            "{:.1} s\n\n{:<12} {:<5} {:>7} {:>7}  {COLUMNS}",
            self.seconds, "job", "", "bs", "depth"
        );
        self.jobs.iter().for_each(|(job, stats)| text += &self.rows(job, stats));
        if self.jobs.len() > 1 {
            text += &self.by_class()?;
        }
        text += &Shares::of(&self.jobs).map(|shares| shares.table()).unwrap_or_default();
        if !self.alone.is_empty() {
            text += &Slowdown::table(&self.slowdowns()?);
        }
        let jobs = || self.jobs.iter().map(|(job, _)| job);
        if self.show_windows {
            text += &self.windows.table(jobs());
        }
        if jobs().any(|job| job.reserve.is_some()) {
            text += "\n";
            text += &self.windows.reservations(jobs());
        }
        if self.verify {
            let bytes = show_bytes(self.verified_bytes);
            let _ = writeln!(text, "\nverified: every byte of {bytes} read back is right");
        }
        Ok(text)
    }

    /// Writes the lines of one job.
    fn rows(&self, job: &Job, stats: &JobStats) -> String {
        let mut text = String::new();
        for (name, direction) in [("read", &stats.reads), ("write", &stats.writes)] {
            if let Some(figures) = Figures::of_any(direction, self.seconds) {
                let depth = format!("{}x{}", job.connections, job.depth);
                let bs = show_bytes(u64::from(job.bs));
                let columns = figures.columns();
                let _ = writeln!(text, "{:<12} {name:<5} {bs:>7} {depth:>7}  {columns}", job.name);
            }
        }
        for Errors { status, text: why, count } in errors(stats) {
            let name = &job.name;
            let _ = writeln!(text, "{name:<12} {count} commands failed: {why} ({status:#06x})");
        }
        if stats.held_back > 0 {
            let _ = writeln!(
                text,
                "{:<12} {} commands were due but not sent at the end: the target was slower than \
                 the rate, or the depth is too small for it",
                job.name, stats.held_back
            );
        }
        text
    }

    /// Writes a line for each class, where a class has several jobs.
    fn by_class(&self) -> anyhow::Result<String> {
        let classes = fairness::classes(&self.jobs, self.seconds)?;
        if classes.len() == self.jobs.len() || classes.iter().all(|row| row.class == "none") {
            return Ok(String::new());
        }
        let mut text = format!("\n{:<12} {:<21}  {COLUMNS}\n", "class", "");
        for ClassFigures { class, jobs, figures } in classes {
            let jobs = if jobs == 1 { "1 job".to_owned() } else { format!("{jobs} jobs") };
            let _ = writeln!(text, "{class:<12} {jobs:<21}  {}", figures.columns());
        }
        Ok(text)
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

/// Writes the lines of one round, one for each job; begin and length are in seconds.
pub(crate) fn live(
    (begin, seconds): (f64, f64),
    jobs: &[(Job, JobStats)],
    figures: &[JobStats],
) -> anyhow::Result<String> {
    let mut text = String::new();
    if begin == 0.0 {
        let _ =
            writeln!(text, "{:>9}  {:<12}      IOPS   share     MB/s      p50      p99", "", "job");
    }
    let all: u64 = figures.iter().map(JobStats::count).sum();
    for ((job, _), stats) in jobs.iter().zip(figures) {
        let figures = Figures::of(&stats.both()?, seconds);
        let failed: u64 = stats.errors.values().sum();
        let failed = if failed > 0 { format!("   {failed} failed") } else { String::new() };
        let _ = writeln!(
            text,
            "{:>7.2} s  {:<12}  {:>8} {:>5.1} % {:>8.0} {:>8} {:>8}{failed}",
            begin + seconds,
            job.name,
            show_count(figures.iops),
            100.0 * stats.count() as f64 / all.max(1) as f64,
            figures.bytes_per_second / 1e6,
            show_latency(figures.p50_ns as f64),
            show_latency(figures.p99_ns as f64)
        );
    }
    Ok(text)
}
