//! Base load beside bursts: BurstCBS keeps the base rate of a tenant while others burst.

use super::{Antagonist, DRIVE, SERVERS, Setting, series, texts, time_of};
use crate::claim::{Bound, Claim};

/// Measures seconds of a tenant that wants four fifths of an equal part of the device's time.
pub(super) fn measure(setting: &Setting) -> anyhow::Result<Vec<Claim>> {
    let antagonists = Antagonist::several(&mut setting.random(), 6);
    let base = (1e6 / time_of(false, 4) * SERVERS / (antagonists.len() as f64 + 1.0) * 0.8).floor();
    let tables = format!(
        "{DRIVE}window = 32\n[[host]]\nname = 'base'\ndepth = 64\n[[host.load]]\nprocess = 'constant'\n\
         rate = {base}\n{}",
        texts(&antagonists, String::new)
    );
    let seconds = series(&setting.run("unit = 'bytes'", &tables, |_| ())?, "base")?;
    let least = seconds.iter().min().copied().unwrap_or(0) as f64 / 4096.0 / base;
    Ok(vec![Claim::percent("lowest second of the base load", "", least, Bound::AtLeast(0.98))])
}
