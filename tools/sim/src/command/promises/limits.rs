//! Limits: a session's throughput in any second and in any 10 ms, under constant load and in bursts.

use std::time::Duration;

use super::{Antagonist, Setting, series, texts};
use crate::claim::{Bound, Claim, Unit};

/// The step by which spans are moved: an interval of series.
const STEP: Duration = Duration::from_millis(1);

/// A drive that is fast enough for the limits to decide: 20,000 reads of 4 KiB in a second.
const DRIVE: &str = "[[namespace]]\ndevice = 'profile'\nwindow = 16\n\
     profile = { parallelism = 8, read = { mean = '400 us', per_kib = '4 us' } }\n";

/// Measures a limit on commands and one on bytes.
pub(super) fn measure(setting: &Setting) -> anyhow::Result<Vec<Claim>> {
    let mut random = setting.random();
    let (iops, kib) = (random.u32(500..=2000), 16_u32);
    let bandwidth = u64::from(random.u32(10..=40)) * 1_000_000;
    let antagonists = [Antagonist::draw(&mut random, true), Antagonist::draw(&mut random, false)];
    // A burst is served at the limit before the next one comes, except when chance places two bursts close together.
    let bursts = random.u32(60..=250);
    let tables = format!(
        "[[session]]\nname = 'steady'\niops = {iops}\n[[session]]\nname = 'bursts'\nbandwidth = '{bandwidth} B/s'\n\
         {DRIVE}\
         [[host]]\nname = 'steady'\nsession = 'steady'\n[[host.load]]\nprocess = 'closed'\ndepth = 100\n\
         [[host]]\nname = 'bursts'\nsession = 'bursts'\nqueues = 2\n[[host.load]]\nprocess = 'burst'\n\
         rate = {}\ncount = {bursts}\nsize = '{kib} KiB'\n{}",
        bandwidth / u64::from(kib) / 1024 / 2,
        texts(&antagonists, String::new)
    );
    let measured = setting.run("", &tables, |plan| plan.interval = STEP)?;
    let steady = Limited {
        series: series(&measured, "steady")?,
        rate: f64::from(iops) * 4096.0,
        command: 4096.0,
    };
    let bursts = Limited {
        series: series(&measured, "bursts")?,
        rate: bandwidth as f64,
        command: f64::from(kib) * 1024.0,
    };
    let most =
        |ms, beyond: fn(f64, f64) -> f64| steady.most(ms, beyond).max(bursts.most(ms, beyond));
    let claim = |what, ours, bar| Claim::new(what, "", ours * 100.0, Unit::Of(2, "%"), bar);
    Ok(vec![
        claim(
            "most in any second, of the limit and 2 % or one command",
            most(1000, |limit, command| (limit * 0.02).max(command)),
            Bound::AtMost(100.0),
        ),
        claim("least in any second with work", steady.least(1000), Bound::AtLeast(98.0)),
        claim(
            "most in any 10 ms, of the limit, 10 % and one command",
            most(10, |limit, command| limit * 0.1 + command),
            Bound::AtMost(100.0),
        ),
    ])
}

/// The throughput of a host with a limit.
#[derive(Debug)]
struct Limited {
    /// Bytes by interval.
    series: Vec<u64>,
    /// Limit in bytes per second.
    rate: f64,
    /// Bytes of a command.
    command: f64,
}

impl Limited {
    /// Computes the bytes of every span of so many ms.
    fn spans(&self, ms: usize) -> impl Iterator<Item = f64> {
        let mut sum = 0;
        self.series.iter().enumerate().filter_map(move |(place, bytes)| {
            sum += bytes;
            if let Some(before) = place.checked_sub(ms) {
                sum -= self.series.get(before).copied().unwrap_or(0);
            }
            (place + 1 >= ms).then_some(sum as f64)
        })
    }

    /// Computes the most of any span, as a part of the limit and the bytes `beyond` it, which are computed from the
    /// limit and a command.
    fn most(&self, ms: usize, beyond: impl Fn(f64, f64) -> f64) -> f64 {
        let limit = self.rate * ms as f64 / 1e3;
        self.spans(ms).fold(0.0, f64::max) / (limit + beyond(limit, self.command))
    }

    fn least(&self, ms: usize) -> f64 {
        self.spans(ms).fold(f64::INFINITY, f64::min) / (self.rate * ms as f64 / 1e3)
    }
}
