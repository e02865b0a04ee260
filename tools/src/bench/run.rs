//! A whole run against one target.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use super::args::{Job, Load};
use super::controller::{Controller, Namespace};
use super::lane::Extent;
use super::report::{self, Outcome};
use super::stats::JobStats;
use super::units::show_bytes;
use super::worker::{self, Message, Orders, Plan};

/// What each connection uses with data verification, unless said otherwise, bytes.
const VERIFIED_SPAN: u64 = 64 << 20;

/// Runs the load once and prints what came of it.
pub(crate) fn run(load: &Load) -> anyhow::Result<()> {
    let outcome = once(load, load.live && !load.json)?;
    if load.json {
        println!("{}", serde_json::to_string_pretty(&outcome.report())?);
    } else {
        print!("{}", outcome.table());
    }
    outcome.ensure_no_errors()
}

/// Runs the load once; `live` prints a line each second.
pub(crate) fn once(load: &Load, live: bool) -> anyhow::Result<Outcome> {
    let jobs = load.jobs()?;
    let connections = jobs.iter().try_fold(0u16, |sum, job| sum.checked_add(job.connections));
    let connections = connections.context("at most 65535 connections in all")?;
    ensure!(load.threads > 0, "--threads must be at least 1");
    ensure!(!load.time.is_zero(), "--time must be more than 0");
    let mut controller = Controller::connect(load, connections)?;
    let namespace = controller.namespace;
    for job in &jobs {
        check_job(job, &namespace)?;
    }
    let plans = plan(load, &jobs, &namespace)?;
    let mut outcome = Outcome::new(load, &controller)?;
    let orders: Vec<Orders> = (0..load.threads)
        .map(|thread| Orders {
            association: controller.association.clone(),
            namespace,
            jobs: jobs.clone(),
            plans: plans.iter().copied().skip(thread).step_by(load.threads).collect(),
            core: load.core.get(thread % load.core.len().max(1)).copied(),
            verify: load.verify,
            warmup: load.warmup,
            time: load.time,
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
        let mut conductor =
            Conductor { threads: orders.len(), controller: &mut controller, incoming };
        // On an error the channels close, which ends the threads.
        conductor.conduct(starts, &mut outcome, live)
    })?;
    controller.shutdown()?;
    Ok(outcome)
}

fn check_job(job: &Job, namespace: &Namespace) -> anyhow::Result<()> {
    let Namespace { block_size, max_transfer, nsid, .. } = *namespace;
    let bs = u64::from(job.bs);
    ensure!(
        job.bs.is_multiple_of(block_size),
        "{}: --bs {} is not a multiple of the namespace's block size, {block_size} bytes",
        job.name,
        job.bs
    );
    ensure!(
        max_transfer == 0 || bs <= max_transfer,
        "{}: the controller takes at most {} in one command (MDTS): use a smaller --bs",
        job.name,
        show_bytes(max_transfer)
    );
    ensure!(
        job.bs / block_size <= 1 << 16,
        "{}: a command has at most 65536 blocks: use a smaller --bs",
        job.name
    );
    let size = namespace.blocks.saturating_mul(u64::from(block_size));
    ensure!(bs <= size, "{}: namespace {nsid} is smaller than one command", job.name);
    Ok(())
}

/// Deals the namespace out to the connections. Random patterns without data verification all use
/// the same range; others get ranges of their own.
fn plan(load: &Load, jobs: &[Job], namespace: &Namespace) -> anyhow::Result<Vec<Plan>> {
    let block = u64::from(namespace.block_size);
    let size = namespace.blocks.saturating_mul(block);
    let total: u64 = jobs.iter().map(|job| u64::from(job.connections)).sum();
    // Whole commands and whole blocks, so that every range starts where commands are aligned.
    let grain = jobs.iter().map(|job| u64::from(job.bs)).max().unwrap_or(block);
    let share = size / total.max(1) / grain * grain;
    let own =
        if load.verify { load.span.unwrap_or(VERIFIED_SPAN) } else { load.span.unwrap_or(size) };
    let mut plans = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        for _ in 0..job.connections {
            let number = u64::try_from(plans.len())?;
            let apart = load.verify || !job.rw.is_random();
            let (start, length) =
                if apart { (number * share, own.min(share)) } else { (0, own.min(size)) };
            let (slba, units) = (start / block, length / u64::from(job.bs));
            ensure!(
                units > 0 && (!load.verify || units >= u64::from(job.depth)),
                "{}: {} for each connection hold fewer blocks of {} than the depth: use a larger \
                 --span or namespace, a smaller --depth, or fewer --connections",
                job.name,
                show_bytes(length),
                show_bytes(u64::from(job.bs))
            );
            let qid = u16::try_from(number + 1)?;
            let extent = Extent { slba, units };
            plans.push(Plan { qid, job: index, extent, seed: number });
        }
    }
    Ok(plans)
}

/// The main thread's part: starts the others together, keeps the controller alive, adds up.
struct Conductor<'a> {
    threads: usize,
    controller: &'a mut Controller,
    incoming: Receiver<Message>,
}

impl Conductor<'_> {
    fn conduct(
        &mut self,
        starts: Vec<Sender<()>>,
        outcome: &mut Outcome,
        live: bool,
    ) -> anyhow::Result<()> {
        if live && outcome.is_verified() {
            println!("filling the blocks with stamped data ...");
        }
        for _ in 0..self.threads {
            match self.next()? {
                Message::Ready => {}
                Message::Done(result) => {
                    result?;
                    bail!("a thread ended before the start");
                }
                Message::Figures(_) => bail!("a thread reported before the start"),
            }
        }
        for start in &starts {
            start.send(()).context("a thread has ended")?;
        }
        self.collect(outcome, live)
    }

    fn collect(&mut self, outcome: &mut Outcome, live: bool) -> anyhow::Result<()> {
        let mut ended = 0;
        let (mut second, mut reported) = (Vec::<JobStats>::new(), 0);
        let mut elapsed = 0;
        while ended < self.threads {
            match self.next()? {
                Message::Ready => {}
                Message::Done(result) => {
                    outcome.verified_bytes += result?;
                    ended += 1;
                }
                Message::Figures(figures) => {
                    outcome.add(&figures)?;
                    if !live {
                        continue;
                    }
                    merge(&mut second, &figures)?;
                    reported += 1;
                    if reported == self.threads {
                        elapsed += 1;
                        print!("{}", report::live(elapsed, &outcome.jobs, &second)?);
                        (second, reported) = (Vec::new(), 0);
                    }
                }
            }
        }
        Ok(())
    }

    /// The next message; keeps the controller alive while waiting.
    fn next(&mut self) -> anyhow::Result<Message> {
        loop {
            self.controller.keep_alive()?;
            match self.incoming.recv_timeout(Duration::from_millis(500)) {
                Ok(message) => return Ok(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("a thread ended without a word"),
            }
        }
    }
}

fn merge(sum: &mut Vec<JobStats>, figures: &[JobStats]) -> anyhow::Result<()> {
    if sum.is_empty() {
        *sum = figures.to_vec();
        return Ok(());
    }
    sum.iter_mut().zip(figures).try_for_each(|(sum, stats)| sum.add(stats))
}
