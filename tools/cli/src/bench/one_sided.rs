//! One client of a region under load: as many I/Os outstanding as the depth, each with a token.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use fabric::nvme::region::RegionGrant;
use fabric_verbs::Part;
use pmem::one_sided::Ticket;
use pmem_verbs::client::Client;
use pmem_verbs::gate::Pace;

use super::io_queue::Clock;
use super::region_load::RegionLoad;
use super::region_periods::Periods;
use super::region_report::Measured;
use super::source::Source;
use super::stats::JobStats;
use super::verify::{self, Stamp};
use super::worker;
use crate::pmem::connect;

/// Idle turns after which a polling client sleeps.
const IDLE_TURNS: u32 = 256;
/// The longest sleep.
const SLEEP: Duration = Duration::from_millis(100);
/// The time to wait for outstanding I/Os at the end.
const DRAIN: Duration = Duration::from_secs(30);

/// Loads a region for the times of the warm-up and of the measurement.
///
/// # Errors
///
/// The region cannot be used, or its data node ends the connection.
pub(crate) fn drive(
    load: &RegionLoad,
    grant: &RegionGrant,
    (warmup, time): (Duration, Duration),
    core: Option<usize>,
) -> anyhow::Result<Measured> {
    worker::pin(core)?;
    let window = load.job.depth;
    let pace = match load.bare {
        true => Pace::Bare { window },
        false => Pace::Tokens { window, best_effort_window: load.best_effort },
    };
    let client = connect::open(load.region, grant, pace)?;
    let period = client.accept().period;
    let mut driver = Driver::new(client, load)?;
    driver.run(warmup, &mut Periods::default())?;
    driver.stats.clear();
    let mut periods = Periods::new(load.bare.then_some(period));
    driver.run(time, &mut periods)?;
    let stats = driver.stats.clone();
    driver.drain()?;
    Ok(Measured { time, stats, period, periods: periods.had() })
}

/// An I/O of one slot.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    start: u64,
    write: bool,
}

struct Driver {
    client: Client,
    source: Source,
    /// Buffers of slots without an I/O.
    free: Vec<(usize, Part)>,
    /// The I/Os, by the tickets that are their slots' numbers.
    slots: Vec<Outstanding>,
    /// The next I/O, where it had no token yet: whether it writes, and its unit.
    next: Option<(bool, u64)>,
    bs: u32,
    /// Idle turns after which the client sleeps.
    idle_turns: u32,
    clock: Clock,
    stats: JobStats,
}

impl Driver {
    fn new(mut client: Client, load: &RegionLoad) -> anyhow::Result<Self> {
        let job = &load.job;
        let units = load.units(client.accept().length)?;
        let buffers = client.buffers(job.depth, job.bs.try_into()?).context(
            "cannot register memory with the RDMA device: use a smaller --depth or --bs, or raise \
             the limit of locked memory (ulimit -l)",
        )?;
        let mut free: Vec<(usize, Part)> = buffers.into_iter().enumerate().collect();
        for (slot, buffer) in &mut free {
            let stamp = Stamp { seed: 0, lba: u64::try_from(*slot)?, generation: 0 };
            verify::fill(buffer.bytes_mut(), stamp);
        }
        // Not for as many as are outstanding: those that wait keep their reserved tokens.
        client.want(u64::MAX);
        Ok(Self {
            // Clients of one data node have numbers of their own.
            source: Source::new(job, units, client.accept().client.into()),
            client,
            free,
            slots: vec![Outstanding { start: 0, write: false }; job.depth.into()],
            next: None,
            bs: job.bs,
            idle_turns: if load.blocking { 1 } else { IDLE_TURNS },
            clock: Clock(Instant::now()),
            stats: JobStats::new()?,
        })
    }

    /// Drives the load for some time.
    fn run(&mut self, time: Duration, periods: &mut Periods) -> anyhow::Result<()> {
        let begin = Instant::now();
        let mut idle = 0;
        loop {
            let elapsed = begin.elapsed();
            periods.passed(elapsed, self.stats.count());
            if elapsed >= time {
                return Ok(());
            }
            idle = if self.turn(true)? { 0 } else { idle + 1 };
            while let Some(end) = self.client.period_ended() {
                periods.ended(end);
            }
            if idle >= self.idle_turns {
                idle = self.idle_turns;
                self.client.wait(SLEEP.min(time.saturating_sub(elapsed)))?;
            } else if idle > 0 {
                // The data node may run on the same core.
                std::thread::yield_now();
            }
        }
    }

    /// Takes what has completed, and with `posts` posts what may go. Returns whether anything had
    /// completed.
    fn turn(&mut self, posts: bool) -> anyhow::Result<bool> {
        let polled = self.client.poll();
        let now = self.clock.now();
        let mut came = false;
        while let Some(transfer) = self.client.transferred() {
            let slot = usize::try_from(transfer.ticket.0)?;
            let io = self.slots.get(slot).context("no such slot")?;
            if transfer.result.is_ok() {
                came = true;
                self.stats.record(io.write, now.saturating_sub(io.start), self.bs);
            }
            self.free.push((slot, transfer.buffer));
        }
        polled?;
        while posts && let Some((slot, buffer)) = self.free.pop() {
            let (write, unit) = self.next.take().unwrap_or_else(|| self.source.next());
            let (ticket, offset) = (Ticket(slot.try_into()?), unit.saturating_mul(self.bs.into()));
            let kept = match write {
                true => self.client.write(ticket, offset, buffer)?,
                false => self.client.read(ticket, offset, buffer)?,
            };
            if let Some(buffer) = kept {
                self.free.push((slot, buffer));
                self.next = Some((write, unit));
                break;
            }
            if let Some(io) = self.slots.get_mut(slot) {
                *io = Outstanding { start: now, write };
            }
        }
        Ok(came)
    }

    /// Waits for what is outstanding.
    fn drain(&mut self) -> anyhow::Result<()> {
        self.client.want_no_more();
        let begin = Instant::now();
        while self.free.len() < self.slots.len() {
            ensure!(begin.elapsed() < DRAIN, "outstanding I/Os did not complete within 30 s");
            self.turn(false)?;
            self.client.wait(SLEEP)?;
        }
        Ok(())
    }
}
