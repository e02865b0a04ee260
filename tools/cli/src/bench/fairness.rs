//! Fairness of jobs: their shares beside the configured ones, Jain's index, slowdown beside a run
//! alone, and figures by class.

use std::fmt::Write as _;

use arbitration::Class;
use serde::Serialize;

use super::figures::Figures;
use super::job::Job;
use super::stats::JobStats;
use super::units::show_latency;

/// One job's part of the work of all compared jobs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Part {
    /// The part, 0 to 1.
    pub(crate) share: f64,
    /// The error relative to the configured share: 0.02 means 2 % too much.
    pub(crate) error: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct JobShare {
    pub(crate) name: String,
    pub(crate) class: &'static str,
    /// The configured share, 0 to 1.
    pub(crate) configured: Option<f64>,
    pub(crate) commands: Part,
    pub(crate) bytes: Part,
}

/// The shares of the compared jobs: those with a weight if any job has one, else all.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Shares {
    pub(crate) jobs: Vec<JobShare>,
    /// Jain's index of throughput divided by weight, or of throughput where no job has a weight: 1
    /// is ideal, 1/n the worst.
    pub(crate) jain_commands: f64,
    pub(crate) jain_bytes: f64,
    /// The largest error, either way.
    pub(crate) max_error_commands: Option<f64>,
    pub(crate) max_error_bytes: Option<f64>,
}

/// A job alone, compared with the same job beside the others.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Slowdown {
    pub(crate) name: String,
    pub(crate) alone_iops: f64,
    /// Commands per second alone divided by those beside the others.
    pub(crate) slowdown: f64,
    /// Throughput beside the others, divided by that alone over the number of jobs: 1 is an equal
    /// part.
    pub(crate) f_util: f64,
    pub(crate) alone_p99_ns: u64,
    /// p99 beside the others divided by that alone.
    pub(crate) p99_ratio: f64,
}

/// The figures of all jobs of one class together.
#[derive(Debug, Serialize)]
pub(crate) struct ClassFigures {
    pub(crate) class: &'static str,
    pub(crate) jobs: usize,
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

/// Computes Jain's index of `values`: (sum x)^2 / (n * sum x^2), or 1 where all are zero.
fn jain(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|x| x * x).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (values.len() as f64 * squares) }
}

/// Computes parts of a whole, with errors against what was configured.
fn parts(counts: &[f64], configured: &[Option<f64>]) -> Vec<Part> {
    let total: f64 = counts.iter().sum();
    let part = |(count, configured): (&f64, &Option<f64>)| {
        let share = if total == 0.0 { 0.0 } else { count / total };
        Part { share, error: configured.map(|configured| share / configured - 1.0) }
    };
    counts.iter().zip(configured).map(part).collect()
}

fn worst(parts: &[Part]) -> Option<f64> {
    parts.iter().filter_map(|part| part.error).map(f64::abs).reduce(f64::max)
}

impl Shares {
    /// Computes the shares; `None` for fewer than two jobs.
    pub(crate) fn of(jobs: &[(Job, JobStats)]) -> Option<Self> {
        let any = jobs.iter().any(|(job, _)| job.weight.is_some());
        let compared: Vec<_> =
            jobs.iter().filter(|(job, _)| !any || job.weight.is_some()).collect();
        if compared.len() < 2 {
            return None;
        }
        let weight = |(job, _): &&(Job, JobStats)| job.weight.unwrap_or(1.0);
        let weights: Vec<f64> = compared.iter().map(weight).collect();
        let sum: f64 = weights.iter().sum();
        let configured: Vec<_> = weights.iter().map(|weight| any.then_some(weight / sum)).collect();
        let counts = |count: fn(&JobStats) -> u64| -> Vec<f64> {
            compared.iter().map(|(_, stats)| count(stats) as f64).collect()
        };
        let index = |counts: &[f64]| {
            jain(
                &counts
                    .iter()
                    .zip(&weights)
                    .map(|(count, weight)| count / weight)
                    .collect::<Vec<_>>(),
            )
        };
        let (commands, bytes) = (counts(JobStats::count), counts(JobStats::bytes));
        let (jain_commands, jain_bytes) = (index(&commands), index(&bytes));
        let (commands, bytes) = (parts(&commands, &configured), parts(&bytes, &configured));
        let rows = compared.iter().zip(&configured).zip(commands.iter().zip(&bytes));
        let jobs = rows.map(|(((job, _), configured), (commands, bytes))| JobShare {
            name: job.name.clone(),
            class: job.class_name(),
            configured: *configured,
            commands: *commands,
            bytes: *bytes,
        });
        Some(Self {
            jobs: jobs.collect(),
            jain_commands,
            jain_bytes,
            max_error_commands: worst(&commands),
            max_error_bytes: worst(&bytes),
        })
    }

    /// Writes a line for each job, and Jain's index.
    pub(crate) fn table(&self) -> String {
        let mut text = format!(
            "\n{:<12} {:<7} {:>10} {:>11} {:>8} {:>11} {:>8}\n",
            "share", "class", "configured", "of commands", "error", "of bytes", "error"
        );
        for job in &self.jobs {
            let configured = job.configured.map_or("-".to_owned(), percent);
            let cells =
                |part: Part| (percent(part.share), part.error.map_or("-".to_owned(), signed));
            let ((commands, by_commands), (bytes, by_bytes)) =
                (cells(job.commands), cells(job.bytes));
            let _ = writeln!(
                text,
                "{:<12} {:<7} {configured:>10} {commands:>11} {by_commands:>8} {bytes:>11} \
                 {by_bytes:>8}",
                job.name, job.class
            );
        }
        let _ = writeln!(
            text,
            "Jain's index of throughput over weight: {:.4} by commands, {:.4} by bytes",
            self.jain_commands, self.jain_bytes
        );
        if let (Some(commands), Some(bytes)) = (self.max_error_commands, self.max_error_bytes) {
            let (commands, bytes) = (percent(commands), percent(bytes));
            let _ = writeln!(text, "largest error: {commands} by commands, {bytes} by bytes");
        }
        text
    }
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

fn signed(error: f64) -> String {
    format!("{:+.1} %", 100.0 * error)
}

impl Slowdown {
    /// Compares a job's figures alone with those beside `count - 1` others.
    pub(crate) fn of(name: &str, alone: &Figures, together: &Figures, count: usize) -> Self {
        let part = together.iops / alone.iops;
        Self {
            name: name.to_owned(),
            alone_iops: alone.iops,
            slowdown: 1.0 / part,
            f_util: part * count as f64,
            alone_p99_ns: alone.p99_ns,
            p99_ratio: together.p99_ns as f64 / alone.p99_ns as f64,
        }
    }

    /// Writes a line for each job.
    pub(crate) fn table(rows: &[Self]) -> String {
        let mut text = format!(
            "\n{:<12} {:>10} {:>9} {:>7} {:>10} {:>9}\n",
            "alone", "IOPS", "slowdown", "f-util", "p99", "p99 grew"
        );
        for row in rows {
            let _ = writeln!(
                text,
                "{:<12} {:>10.0} {:>8.2}x {:>7.2} {:>10} {:>8.2}x",
                row.name,
                row.alone_iops,
                row.slowdown,
                row.f_util,
                show_latency(row.alone_p99_ns as f64),
                row.p99_ratio
            );
        }
        text
    }
}

/// Computes the figures of each class that a job is counted under, the most urgent first.
pub(crate) fn classes(jobs: &[(Job, JobStats)], seconds: f64) -> anyhow::Result<Vec<ClassFigures>> {
    let all = Class::ALL.into_iter().map(Some).chain([None]);
    let mut classes = Vec::new();
    for class in all {
        let mut sum = JobStats::new()?;
        let members = jobs.iter().filter(|(job, _)| job.class == class);
        let mut count = 0;
        for (_, stats) in members {
            sum.add(stats)?;
            count += 1;
        }
        if count > 0 {
            let figures = Figures::of(&sum.both()?, seconds);
            classes.push(ClassFigures {
                class: class.map_or("none", Class::name),
                jobs: count,
                figures,
            });
        }
    }
    Ok(classes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, weight: Option<f64>, (commands, bytes): (u64, u32)) -> (Job, JobStats) {
        let mut stats = JobStats::new().unwrap();
        (0..commands).for_each(|_| stats.record(false, 1000, bytes));
        (Job { name: name.to_owned(), weight, ..Job::example() }, stats)
    }

    #[test]
    fn exact_shares_have_no_error_and_an_index_of_one() {
        let jobs = [
            job("a", Some(3.0), (300, 4096)),
            job("b", Some(2.0), (200, 4096)),
            job("c", Some(1.0), (100, 4096)),
            job("urgent", None, (77, 512)),
        ];
        let shares = Shares::of(&jobs).unwrap();
        assert_eq!(shares.jobs.len(), 3, "a job without a weight is not compared");
        assert!((shares.jain_commands - 1.0).abs() < 1e-12);
        assert!(shares.max_error_commands.unwrap() < 1e-12);
        assert_eq!(shares.jobs[0].commands.share, 0.5);
    }

    #[test]
    fn commands_and_bytes_are_told_apart() {
        // Half of the commands each, but one moves three times the bytes.
        let jobs = [job("large", Some(3.0), (10, 3000)), job("small", Some(1.0), (10, 1000))];
        let shares = Shares::of(&jobs).unwrap();
        assert!(shares.max_error_bytes.unwrap() < 1e-12);
        assert!((shares.max_error_commands.unwrap() - 1.0).abs() < 1e-12, "0.5 for 0.25");
        assert!((shares.jobs[0].commands.error.unwrap() + 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn jains_index_is_one_nth_where_one_gets_all() {
        assert!((jain(&[5.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
        assert!((jain(&[]) - 1.0).abs() < 1e-12);
        assert!(Shares::of(&[job("a", None, (1, 1))]).is_none());
        let equal = Shares::of(&[job("a", None, (1, 1)), job("b", None, (3, 1))]).unwrap();
        assert!((equal.jain_commands - 0.8).abs() < 1e-12);
        assert_eq!(equal.jobs[0].configured, None);
    }
}
