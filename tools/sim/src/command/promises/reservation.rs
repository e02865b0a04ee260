//! Reservation kept: Amazon promises that io2 volumes deliver at least 90 % of their IOPS for 99.9 % of the time,
//! NetApp that a floor is missed by 5 % at most. We measure periods of 1 s at 100 %, and the worst of them.

use super::{Antagonist, DRIVE, Setting, series, texts};
use crate::claim::{Bound, Claim};

/// Commands that the tenant reserves in a second: a fifth of the drive's rate.
const RESERVED: u32 = 2000;

/// Measures periods of 1 s of a tenant with a reservation, in the lowest class.
pub(super) fn measure(setting: &Setting) -> anyhow::Result<Vec<Claim>> {
    let mut random = setting.random();
    let antagonists = Antagonist::several(&mut random, 5);
    let hosts = texts(&antagonists, || {
        let class = ["high", "medium", "low"].get(random.usize(0..3)).copied().unwrap_or("high");
        format!("class = '{class}'")
    });
    let tables = format!(
        "[[session]]\nname = 'reserved'\nreserve = {{ commands = {RESERVED}, period = '1 s' }}\n{DRIVE}\
         [[host]]\nname = 'tenant'\nclass = 'low'\nsession = 'reserved'\n[[host.load]]\nprocess = 'closed'\n\
         depth = 16\n{hosts}"
    );
    let periods = series(&setting.run("", &tables, |_| ())?, "tenant")?;
    let parts = || periods.iter().map(|bytes| *bytes as f64 / 4096.0 / f64::from(RESERVED));
    let full = parts().filter(|part| *part >= 1.0).count() as f64 / periods.len().max(1) as f64;
    let least = parts().fold(f64::INFINITY, f64::min);
    let claim = |what, ours, bar| Claim::percent(what, "", ours, Bound::AtLeast(bar));
    Ok(vec![
        claim("periods of 1 s at 100 % or more", full, 0.999),
        claim("lowest period of 1 s", least, 0.95),
    ])
}
