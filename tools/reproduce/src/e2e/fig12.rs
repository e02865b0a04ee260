//! Fig. 12 and 13 (docs/research/sources.md, E7): three classes on a congested link, with DCTCP alone, with the
//! daemon's stage, and with Eq. 5 as printed.
//!
//! DCTCP and the daemon are a [whole target](crate::whole), without the network's stage and with it.
//! Eq. 5 is the packet simulation of Fig. 8, which has the same loads.

use sluice_sim::claim::{Bound, Claim, Unit};

use super::{CLASSES, fig8, series};
use crate::figure::{Made, Request};
use crate::net::bottleneck::{SHARES, part};
use crate::plot;
use crate::whole;

/// The scenarios of the figures.
const WRITES: &str = include_str!("../../../scenarios/e2e-12.toml");
const MIXED: &str = include_str!("../../../scenarios/e2e-13.toml");

/// The source's numbers of Fig. 12, in Gb/s.
const DCTCP: [f64; 3] = [33.0, 33.0, 30.0];
const QTCP: [f64; 3] = [48.0, 31.0, 17.0];

/// The reason why the daemon's classes have less than the source's.
const HEADROOM: &str = "The daemon takes 95 % of the capacity for payload, and holds flows that have more \
    than their part to it: 90 of the 96 Gb/s that the link carries are used. The parts are nearer to \
    3:2:1 than the source's.";

/// Makes Fig. 12: writes.
///
/// # Errors
///
/// A scenario cannot be run.
pub(super) fn writes(request: Request) -> anyhow::Result<Made> {
    let dctcp = whole::run(WRITES, false, request)?.writes;
    let daemon = whole::run(WRITES, true, request)?.writes;
    let printed = fig8::rates(request)?.to_vec();
    let mut claims = Vec::new();
    for (name, rates, source) in [("DCTCP", &dctcp, DCTCP), ("the daemon", &daemon, QTCP)] {
        for ((class, ours), source) in CLASSES.iter().zip(rates).zip(source) {
            let what = format!("{name}: {class}");
            let (unit, bound) = (Unit::Of(1, "Gb/s"), Bound::Near(source, 0.1));
            let claim = Claim::new(what, format!("{source} Gb/s"), *ours, unit, bound);
            claims.push(match name {
                "DCTCP" => claim,
                _ => claim.known(Bound::Between(source * 0.8, source * 0.9), HEADROOM),
            });
        }
    }
    claims.extend(parts("the daemon", &daemon));
    claims.extend(parts("Eq. 5 as printed", &printed));
    let title = format!(
        "End-to-end QoS, Fig. 12 (E7): High, Medium and Low offer 90, 60 and 30 Gb/s of writes to a link \
         of 100, round trip 98 us.\nGb/s of data: DCTCP {}; the daemon {}; Eq. 5 as printed {}",
        series(&dctcp),
        series(&daemon),
        series(&printed)
    );
    let laws = [("DCTCP", dctcp), ("the daemon", daemon), ("Eq. 5 as printed", printed)];
    Ok(Made::of(&title, claims, [("e2e-12", plot::bars("Gb/s of writes", CLASSES, laws))]))
}

/// Makes Fig. 13: reads and writes.
///
/// # Errors
///
/// A scenario cannot be run.
pub(super) fn mixed(request: Request) -> anyhow::Result<Made> {
    let dctcp = whole::run(MIXED, false, request)?;
    let daemon = whole::run(MIXED, true, request)?;
    let mut claims = Vec::new();
    for (way, of) in [("writes", &dctcp.writes), ("reads", &dctcp.reads)] {
        let [high, medium, ..] = of.as_slice() else { continue };
        claims.push(Claim::times(
            format!("DCTCP, {way}: High, of Medium"),
            "High suffers most",
            high / medium,
            // It offers half more.
            Bound::AtMost(1.1),
        ));
    }
    for (way, of) in [("writes", &daemon.writes), ("reads", &daemon.reads)] {
        claims.extend(parts(&format!("the daemon, {way}"), of));
    }
    let title = format!(
        "End-to-end QoS, Fig. 13 (E7): High, Medium and Low offer 90, 60 and 30 Gb/s of writes, and as \
         much of reads, to a link of\n100, round trip 98 us. Gb/s of data: DCTCP {} written and {} read; \
         the daemon {} and {}",
        series(&dctcp.writes),
        series(&dctcp.reads),
        series(&daemon.writes),
        series(&daemon.reads)
    );
    let writes = [("DCTCP", dctcp.writes), ("the daemon", daemon.writes)];
    let reads = [("DCTCP", dctcp.reads), ("the daemon", daemon.reads)];
    let plots = [
        ("e2e-13a", plot::bars("Gb/s of writes", CLASSES, writes)),
        ("e2e-13c", plot::bars("Gb/s of reads", CLASSES, reads)),
    ];
    Ok(Made::of(&title, claims, plots))
}

/// Claims that classes have their parts of what all have.
pub(super) fn parts(name: &str, rates: &[f64]) -> Vec<Claim> {
    let total: f64 = rates.iter().sum();
    let each = CLASSES.iter().zip(rates).zip(SHARES);
    let claim = |((class, rate), share): ((&&str, &f64), f64)| {
        Claim::percent(
            format!("{name}: {class}, of what all have"),
            format!("{:.1} %", part(share) * 100.0),
            rate / total,
            Bound::Near(part(share), 0.1),
        )
    };
    each.map(claim).collect()
}
