//! Price of sharing: FairDB's delta. A tenant that wants less than its share, or returns, is served as if it were
//! alone on its share, but for a stated time.

use fastrand::Rng;
use units::Nanos;

use super::{Antagonist, DRIVE, SERVERS, Setting, percentile, texts, time_of};
use crate::claim::{Bound, Claim, Unit};
use crate::load::{Access, Arrival, Source};

/// Commands that the device holds.
const WINDOW: u32 = 32;
/// Size of a tenant's command in KiB.
const KIB: u32 = 4;
/// Commands that come at once when the tenant returns.
const RETURN: u32 = 32;

/// Computes delta in ms: two windows of reads of 64 KiB.
fn delta() -> f64 {
    2.0 * f64::from(WINDOW) * time_of(false, 64) / SERVERS / 1e3
}

/// Measures the waiting times of a tenant with a steady load below its share, and of a repeatedly returning tenant,
/// beside antagonists.
pub(super) fn measure(setting: &Setting) -> anyhow::Result<Vec<Claim>> {
    let antagonists = Antagonist::several(&mut setting.random(), 5);
    let tenants = antagonists.len() as f64 + 2.0;
    // A third of an equal part of the device's time.
    let rate = 1e6 / time_of(false, KIB) * SERVERS / tenants / 3.0;
    let own = format!(
        "{DRIVE}window = {WINDOW}\n[[host]]\nname = 'steady'\n[[host.load]]\nprocess = 'poisson'\nrate = {rate}\n\
         [[host]]\nname = 'returning'\n[[host.load]]\nprocess = 'closed'\n"
    );
    let run = |tables: &str| {
        setting.run("unit = 'bytes'", tables, |plan| {
            let returning = plan.hosts.iter_mut().filter(|host| host.name == "returning");
            for load in returning.flat_map(|host| &mut host.loads) {
                load.source = Box::new(Returns::new(setting.seed));
            }
        })
    };
    let beside = run(&(own.clone() + &texts(&antagonists, String::new)))?;
    let alone = run(&own)?;
    let more = |name: &str| {
        Ok::<_, anyhow::Error>(percentile(&beside, name, 99.9)? - percentile(&alone, name, 99.9)?)
    };
    // While the tenant's commands are served, each other one moves as many bytes, in whole commands.
    let others =
        antagonists.iter().map(|one| f64::from((RETURN * KIB).div_ceil(one.kib)) * one.time());
    let share = others.sum::<f64>() / SERVERS / 1e3;
    let bar = Bound::AtMost(delta());
    let claim = |what, ours| Claim::new(what, "", ours, Unit::Of(2, "ms"), bar);
    Ok(vec![
        claim("p99.9 of a steady tenant beyond alone", more("steady")?),
        claim("p99.9 of a return beyond its share", more("returning")? - share),
    ])
}

/// A source that wants [`RETURN`] reads at once after each pause. A pause is longer than a return takes.
#[derive(Debug)]
struct Returns {
    random: Rng,
    at: Nanos,
    /// Reads of this return that are still to come.
    left: u32,
}

impl Returns {
    fn new(seed: u64) -> Self {
        Self { random: Rng::with_seed(seed), at: Nanos::ZERO, left: 0 }
    }
}

impl Source for Returns {
    fn next(&mut self, _: Nanos) -> Arrival {
        if self.left == 0 {
            self.left = RETURN;
            self.at = self.at.after(self.random.u64(200_000_000..400_000_000));
        }
        self.left -= 1;
        let offset = self.random.u64(0..1 << 20) * 4096;
        Arrival::At(self.at, Access { write: false, offset, length: KIB * 1024 })
    }
}
