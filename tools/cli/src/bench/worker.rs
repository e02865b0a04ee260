//! A thread and its connections.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::time::TimeSpec;
use nix::unistd::Pid;
use sluice_credits::Pool;

use super::io_queue::{Clock, Extent, IoQueue, Phase};
use super::job::Job;
use super::stats::JobStats;
use super::windows::Tally;
use crate::host::access::{HostStyle, QueueKind};
use crate::host::controller::{Association, Namespace};

/// The bytes taken from a socket at once: many responses, which still fit into the cache.
const RECEIVE: usize = 256 * 1024;

/// The longest sleep where a phase has no end of its own.
const CHECK: Duration = Duration::from_millis(100);

/// The time to wait for outstanding commands at the end.
const DRAIN: Duration = Duration::from_secs(30);

/// The plan of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The index of the association.
    pub(crate) controller: usize,
    pub(crate) qid: u16,
    /// The index of the job.
    pub(crate) job: usize,
    pub(crate) extent: Extent,
    pub(crate) seed: u64,
}

/// The part of a run that one thread carries out.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    pub(crate) associations: Vec<Association>,
    /// The namespace of each job.
    pub(crate) namespaces: Vec<Namespace>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) plans: Vec<Plan>,
    pub(crate) core: Option<usize>,
    pub(crate) verify: bool,
    /// Whether a thread without work sleeps in the kernel instead of polling.
    pub(crate) blocking: bool,
    pub(crate) style: HostStyle,
    /// The pool of credits of each job.
    pub(crate) pools: Vec<Option<Arc<Pool>>>,
    pub(crate) warmup: Duration,
    pub(crate) time: Duration,
    /// The length of a window, in which each job's commands are counted.
    pub(crate) window: Duration,
    /// Whether the figures are handed over after each window.
    pub(crate) live: bool,
}

/// A report of a thread.
#[derive(Debug)]
pub(crate) enum Message {
    /// The thread is connected (and has filled its blocks), and waits for the start.
    Ready,
    /// The number of a window, and the tallies of each job in it.
    Window(usize, Vec<Tally>),
    /// The commands of each job since the last report, without warm-up.
    Figures(Vec<JobStats>),
    /// The thread has ended: the bytes that were read back, or what went wrong.
    Done(anyhow::Result<u64>),
}

/// Runs a thread's part from connecting to the end. The thread begins when `start` gives the time
/// from which all threads count.
pub(crate) fn run(orders: &Orders, start: &Receiver<Instant>, reports: &Sender<Message>) {
    let outcome = pin(orders.core).and_then(|()| Worker::new(orders, reports)?.run(start));
    // The main thread may have ended already, with an error of another thread.
    let _ = reports.send(Message::Done(outcome));
}

/// Binds the calling thread to a CPU core.
pub(crate) fn pin(core: Option<usize>) -> anyhow::Result<()> {
    let Some(core) = core else { return Ok(()) };
    let mut set = CpuSet::new();
    set.set(core).with_context(|| {
        format!(
            "there is no core {core}: cores are numbered from 0, and `nproc` prints their number"
        )
    })?;
    sched_setaffinity(Pid::from_raw(0), &set)
        .with_context(|| format!("cannot pin a thread to core {core}: choose a core that exists"))
}

struct Worker<'a> {
    orders: &'a Orders,
    reports: &'a Sender<Message>,
    io_queues: Vec<IoQueue>,
    stats: Vec<JobStats>,
    clock: Clock,
    buffer: Vec<u8>,
}

impl<'a> Worker<'a> {
    fn new(orders: &'a Orders, reports: &'a Sender<Message>) -> anyhow::Result<Self> {
        let io_queues = orders.plans.iter().map(|plan| {
            let job = orders.jobs.get(plan.job).context("no such job")?;
            let namespace = orders.namespaces.get(plan.job).context("no such namespace")?;
            let association = orders.associations.get(plan.controller);
            let association = association.context("no such controller")?;
            let room = (job.depth, job.bs);
            let kind = QueueKind { class: job.prioclass, style: orders.style };
            let connection = association.loaded_queue(plan.qid, room, kind, orders.verify)?;
            let check = (plan.seed, orders.verify);
            let host = (connection, association.facts().clone(), orders.style);
            let pool = orders.pools.get(plan.job).cloned().flatten();
            IoQueue::new(host, (plan.job, job), namespace, plan.extent, check, pool)
        });
        let io_queues = io_queues.collect::<anyhow::Result<_>>()?;
        let stats = orders.jobs.iter().map(|_| JobStats::new()).collect::<anyhow::Result<_>>()?;
        let clock = Clock(Instant::now());
        Ok(Self { orders, reports, io_queues, stats, clock, buffer: vec![0; RECEIVE] })
    }

    fn run(mut self, start: &Receiver<Instant>) -> anyhow::Result<u64> {
        if self.orders.verify {
            self.finish(Phase::Fill, None).context("filling")?;
        }
        self.reports.send(Message::Ready)?;
        let warm = start.recv()? + self.orders.warmup;
        self.enter(Phase::Mix);
        while Instant::now() < warm {
            self.turns(warm)?;
        }
        self.stats.iter_mut().for_each(JobStats::clear);
        self.measure(warm)?;
        self.finish(Phase::Drain, Some(DRAIN))?;
        if !self.orders.verify {
            return Ok(0);
        }
        self.stats.iter_mut().for_each(JobStats::clear);
        self.finish(Phase::ReadBack, None).context("reading back")?;
        Ok(self.stats.iter().map(|stats| stats.reads.bytes).sum())
    }

    /// Runs the pattern for the time of the measurement and reports window by window.
    fn measure(&mut self, begin: Instant) -> anyhow::Result<()> {
        let Orders { time, window, live, .. } = *self.orders;
        let end = begin + time;
        let mut before = vec![Tally::default(); self.stats.len()];
        for number in 0.. {
            let next = begin + window.saturating_mul(number + 1);
            let until = end.min(next);
            while Instant::now() < until {
                self.turns(until)?;
            }
            if next <= end {
                let tallies = self.tallies(&mut before);
                self.reports.send(Message::Window(usize::try_from(number)?, tallies))?;
            }
            if live || until == end {
                self.hold_back();
                self.reports.send(Message::Figures(self.stats.clone()))?;
                self.stats.iter_mut().for_each(JobStats::clear);
                before.fill(Tally::default());
            }
            if until == end {
                break;
            }
        }
        Ok(())
    }

    /// Computes what each job did since `before`, and brings `before` up to date.
    fn tallies(&self, before: &mut [Tally]) -> Vec<Tally> {
        let now = self.clock.now();
        let mut tallies = vec![Tally::default(); self.stats.len()];
        for ((tally, stats), before) in tallies.iter_mut().zip(&self.stats).zip(before) {
            let (commands, bytes) = (stats.count(), stats.bytes());
            tally.commands = commands.saturating_sub(before.commands);
            tally.bytes = bytes.saturating_sub(before.bytes);
            *before = Tally { commands, bytes, waiting: 0 };
        }
        for io_queue in &self.io_queues {
            if let Some(tally) = tallies.get_mut(io_queue.job) {
                tally.waiting += io_queue.held_back(now) + io_queue.outstanding() as u64;
            }
        }
        tallies
    }

    /// Counts the commands that are due and not submitted.
    fn hold_back(&mut self) {
        let now = self.clock.now();
        for io_queue in &self.io_queues {
            if let Some(stats) = self.stats.get_mut(io_queue.job) {
                stats.held_back += io_queue.held_back(now);
            }
        }
    }

    /// Enters a phase that ends by itself, and runs it to its end.
    fn finish(&mut self, phase: Phase, limit: Option<Duration>) -> anyhow::Result<()> {
        self.enter(phase);
        let begun = Instant::now();
        while !self.io_queues.iter().all(IoQueue::is_done) {
            self.turns(Instant::now() + CHECK)?;
            ensure!(
                limit.is_none_or(|limit| begun.elapsed() < limit)
                    || self.io_queues.iter().any(IoQueue::has_retries),
                "outstanding commands did not complete within 30 s"
            );
        }
        Ok(())
    }

    fn enter(&mut self, phase: Phase) {
        let now = self.clock.now();
        self.io_queues.iter_mut().for_each(|io_queue| io_queue.enter(phase, now));
    }

    /// Polls all I/O queues several times, so that the clock is not read too often. A thread that may sleep
    /// does so where nothing came, until `end` at the latest.
    fn turns(&mut self, end: Instant) -> anyhow::Result<()> {
        let mut came = false;
        for _ in 0..if self.orders.blocking { 1 } else { 8 } {
            for io_queue in &mut self.io_queues {
                if let Some(stats) = self.stats.get_mut(io_queue.job) {
                    came |= io_queue.poll(self.clock, &mut self.buffer, stats)?;
                }
            }
        }
        if !came && self.orders.blocking {
            self.sleep(end)?;
        } else if !came {
            // The target may run on the same core.
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Sleeps until something comes, a command is due, or `end`.
    fn sleep(&mut self, end: Instant) -> anyhow::Result<()> {
        let due = self.io_queues.iter().filter_map(IoQueue::next_due).min();
        let due = due.map(|due| self.clock.0 + Duration::from_nanos(due));
        let time = due.unwrap_or(end).min(end).saturating_duration_since(Instant::now());
        let mut fds = Vec::with_capacity(self.io_queues.len());
        for io_queue in &mut self.io_queues {
            let Some((fd, is_full)) = io_queue.arm()? else { return Ok(()) };
            let flags = PollFlags::POLLIN;
            fds.push(PollFd::new(fd, if is_full { flags | PollFlags::POLLOUT } else { flags }));
        }
        match ppoll(&mut fds, Some(TimeSpec::from_duration(time)), None) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno).context("ppoll"),
        }
    }
}
