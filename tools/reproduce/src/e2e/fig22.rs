//! Fig. 22 (docs/research/sources.md, E12): the classes of storage beside more accesses to persistent memory, and at
//! 1:12 incast. Whole targets: the [runs](super::pm).

use std::fmt::Write as _;

use sluice_sim::claim::{Bound, Claim, Unit};

use super::fig20::parts;
use super::pm::{LAWS, Run, rates};
use super::{CLASSES, series};
use crate::figure::{Made, Request};
use crate::plot;

/// The scenarios of the figure. In the second one twelve hosts, four of each class, have the loads of three.
const INTENSITIES: &str = include_str!("../../../scenarios/e2e-22.toml");
const INCAST: &str = include_str!("../../../scenarios/e2e-22b.toml");

/// Makes Fig. 22.
///
/// # Errors
///
/// A run cannot be made.
pub(super) fn run(request: Request) -> anyhow::Result<Made> {
    let mut title =
        "End-to-end QoS, Fig. 22 (E12): what High, Medium and Low have of a link of 100 Gb/s, \
         beside more persistent memory,\nin Gb/s:\n"
            .to_owned();
    let cases = [
        ("PM 10 %", INTENSITIES, 10.0, "e2e-22a", None),
        ("PM 15 %", INTENSITIES, 15.0, "e2e-22a-15", None),
        ("1:12, PM 10 %", INCAST, 10.0, "e2e-22b", Some(87.0)),
        ("1:12, PM 20 %", INCAST, 20.0, "e2e-22b-20", None),
    ];
    let (mut claims, mut plots) = (Vec::new(), Vec::new());
    for (case, scenario, pm, file, all) in cases {
        let mut bars = Vec::new();
        for (name, law) in LAWS {
            let run = Run { scenario, writes: false, first: true, law, pm };
            let rates = rates(&run.measure(request)?);
            _ = writeln!(title, "{case}, {name}: {}", series(&rates));
            let what = format!("{case}, {name}");
            claims.extend(parts(&what, law, &rates));
            if let Some(source) = all {
                let (ours, unit) = (rates.iter().sum(), Unit::Of(1, "Gb/s"));
                let of = format!("{what}: all of storage");
                let bound = Bound::Near(source, 0.05);
                let claim = Claim::new(of, format!("{source} Gb/s"), ours, unit, bound);
                claims.push(claim.known(Bound::Near(81.5, 0.1), SMALL));
            }
            bars.push((name, rates));
        }
        plots.push((file, plot::bars(&format!("Gb/s, {case}"), CLASSES, bars)));
    }
    Ok(Made::of(&title, claims, plots))
}

/// The reason why storage has less than the source's.
const SMALL: &str = "Each access to persistent memory is a block of 512 bytes, with headers and requests \
    of its own: 10 % in data is more on the wire. The daemon keeps 5 % of the link empty, too.";
