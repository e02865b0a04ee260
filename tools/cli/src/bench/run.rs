//! A whole run: with `--alone` each job alone, then all jobs together.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use sluice_config::program::{print, print_line};

use super::args::Load;
use super::content;
use super::job::Job;
use super::report::{self, Outcome};
use super::stats::JobStats;
use super::tenants::Tenants;
use super::windows::Windows;
use super::worker::{self, Message, Orders};

/// The most windows in a run, so that memory holds their counts.
const MAX_WINDOWS: u128 = 1_000_000;

/// Runs the load and prints the report.
pub(crate) fn run(load: &Load) -> anyhow::Result<()> {
    let outcome = whole(load, load.live && !load.json)?;
    if load.json {
        print_line(serde_json::to_string_pretty(&outcome.report()?)?)?;
    } else {
        let gap = if load.live { "\n" } else { "" };
        print(format_args!("{gap}{}", outcome.table()?))?;
    }
    outcome.ensure_no_errors()
}

/// Runs everything that the load asks for; `live` prints lines while the jobs run together.
pub(crate) fn whole(load: &Load, live: bool) -> anyhow::Result<Outcome> {
    let jobs = load.jobs()?;
    content::ensure_nothing_is_lost(load, &jobs)?;
    let mut alone = Vec::new();
    let apart = load.alone && jobs.len() > 1;
    if apart {
        // A refusal by the target shows before the first job has run.
        Tenants::connect(load, &jobs)?.shutdown()?;
    }
    for job in jobs.iter().filter(|_| apart) {
        if live {
            print_line(format_args!("{} alone ...", job.name))?;
        }
        let outcome = together(load, std::slice::from_ref(job), false)?;
        outcome.ensure_no_errors()?;
        alone.push(outcome.total()?);
    }
    let mut outcome = together(load, &jobs, live)?;
    outcome.alone = alone;
    Ok(outcome)
}

/// Runs all jobs at once.
pub(crate) fn once(load: &Load, live: bool) -> anyhow::Result<Outcome> {
    together(load, &load.jobs()?, live)
}

fn together(load: &Load, jobs: &[Job], live: bool) -> anyhow::Result<Outcome> {
    ensure!(load.threads > 0, "--threads must be at least 1");
    ensure!(!load.time.is_zero(), "--time must be more than 0");
    let window = window(load)?;
    let mut tenants = Tenants::connect(load, jobs)?;
    let plans = tenants.plan(load, jobs)?;
    let mut outcome = Outcome::new(load, jobs, &tenants, window)?;
    let orders: Vec<Orders> = (0..load.threads)
        .map(|thread| Orders {
            associations: tenants.associations(),
            namespaces: tenants.jobs.iter().map(|(_, namespace)| *namespace).collect(),
            jobs: jobs.to_vec(),
            plans: plans.iter().copied().skip(thread).step_by(load.threads).collect(),
            core: load.core.get(thread % load.core.len().max(1)).copied(),
            verify: load.verify,
            blocking: load.blocking,
            style: load.host,
            pools: tenants.pools.clone(),
            warmup: load.warmup,
            time: load.time,
            window,
            live,
        })
        .filter(|orders| !orders.plans.is_empty())
        .collect();
    thread::scope(|scope| {
        let (reports, incoming) = mpsc::channel();
        let mut starts = Vec::new();
        for orders in &orders {
            let (start, word) = mpsc::channel();
            starts.push(start);
            let reports = reports.clone();
            scope.spawn(move || worker::run(orders, &word, &reports));
        }
        drop(reports);
        let mut conductor = Conductor { threads: orders.len(), tenants: &mut tenants, incoming };
        // On an error the channels close, which ends the threads.
        conductor.conduct(starts, &mut outcome, live)
    })?;
    tenants.shutdown()?;
    Ok(outcome)
}

/// Computes the length of a window.
fn window(load: &Load) -> anyhow::Result<Duration> {
    let Some(window) = load.window else { return Ok(load.time.min(Duration::from_secs(1))) };
    ensure!(!window.is_zero() && window <= load.time, "--window is more than 0 and at most --time");
    ensure!(
        load.time.as_nanos() / window.as_nanos() <= MAX_WINDOWS,
        "--time holds more than {MAX_WINDOWS} windows: use a larger --window"
    );
    Ok(window)
}

/// The main thread's part: starts the threads together, keeps the controllers alive and adds up.
struct Conductor<'a> {
    threads: usize,
    tenants: &'a mut Tenants,
    incoming: Receiver<Message>,
}

impl Conductor<'_> {
    fn conduct(
        &mut self,
        starts: Vec<Sender<Instant>>,
        outcome: &mut Outcome,
        live: bool,
    ) -> anyhow::Result<()> {
        if live && outcome.is_verified() {
            print_line("filling the blocks with stamped data ...")?;
        }
        for _ in 0..self.threads {
            match self.next()? {
                Message::Ready => {}
                Message::Done(result) => {
                    result?;
                    bail!("a thread ended before the start");
                }
                _ => bail!("a thread reported before the start"),
            }
        }
        let now = Instant::now();
        for start in &starts {
            start.send(now).context("a thread has ended")?;
        }
        self.collect(outcome, live)
    }

    fn collect(&mut self, outcome: &mut Outcome, live: bool) -> anyhow::Result<()> {
        let mut ended = 0;
        let mut round = Round::default();
        while ended < self.threads {
            match self.next()? {
                Message::Ready => {}
                Message::Done(result) => {
                    outcome.verified_bytes += result?;
                    ended += 1;
                }
                Message::Window(index, tallies) => outcome.windows.add(index, &tallies),
                Message::Figures(figures) => {
                    outcome.add(&figures)?;
                    round.add(&figures)?;
                    if live && round.reported == self.threads {
                        print(round.finish(outcome)?)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Waits for the next message, and keeps the controllers alive meanwhile.
    fn next(&mut self) -> anyhow::Result<Message> {
        loop {
            self.tenants.keep_alive()?;
            match self.incoming.recv_timeout(Duration::from_millis(500)) {
                Ok(message) => return Ok(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("a thread ended without a result"),
            }
        }
    }
}

/// The figures of one window that threads report while they run, until all have reported.
#[derive(Default)]
struct Round {
    number: u32,
    reported: usize,
    sum: Vec<JobStats>,
}

impl Round {
    fn add(&mut self, figures: &[JobStats]) -> anyhow::Result<()> {
        self.reported += 1;
        if self.sum.is_empty() {
            self.sum = figures.to_vec();
            return Ok(());
        }
        self.sum.iter_mut().zip(figures).try_for_each(|(sum, stats)| sum.add(stats))
    }

    /// Writes the lines of this round, when all threads have reported.
    fn finish(&mut self, outcome: &Outcome) -> anyhow::Result<String> {
        let Windows { length, .. } = outcome.windows;
        let begin = length.saturating_mul(self.number).as_secs_f64();
        let seconds = length.as_secs_f64().min(outcome.seconds - begin);
        let text = report::live((begin, seconds), &outcome.jobs, &self.sum)?;
        *self = Self { number: self.number + 1, ..Self::default() };
        Ok(text)
    }
}
