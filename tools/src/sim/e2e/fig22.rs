//! Fig. 22 (docs/sources.md, E12): the classes of storage beside more accesses to persistent memory, and at
//! 1:12 incast. Whole targets: the [runs](super::pm).

use std::fmt::Write as _;

use super::fig20::{SCENARIO, parts};
use super::pm::{LAWS, Run, rates, with};
use super::{CLASSES, series};
use crate::sim::claim::{Bound, Claim, Unit};
use crate::sim::figure::{Made, Plot, Request};
use crate::sim::plot::bars::{Bars, Series};

/// Returns the scenario with twelve hosts, four of each class, which have the loads of three.
fn incast() -> anyhow::Result<String> {
    let scenario = with(SCENARIO, "queues = 4", "count = 4\nqueues = 1")?;
    let scenario = with(&scenario, "\"90 Gbit/s\"", "\"22.5 Gbit/s\"")?;
    let scenario = with(&scenario, "\"60 Gbit/s\"", "\"15 Gbit/s\"")?;
    with(&scenario, "\"30 Gbit/s\"", "\"7.5 Gbit/s\"")
}

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
    let incast = incast()?;
    let cases = [
        ("PM 10 %", SCENARIO, 10.0, "e2e-22a"),
        ("PM 15 %", SCENARIO, 15.0, "e2e-22a-15"),
        ("1:12, PM 10 %", &incast, 10.0, "e2e-22b"),
        ("1:12, PM 20 %", &incast, 20.0, "e2e-22b-20"),
    ];
    let (mut claims, mut plots) = (Vec::new(), Vec::new());
    for (case, scenario, pm, file) in cases {
        let mut bars = Vec::new();
        for (name, law) in LAWS {
            let run = Run { scenario, writes: false, first: true, law, pm };
            let rates = rates(&run.measure(request)?);
            _ = writeln!(title, "{case}, {name}: {}", series(&rates));
            let what = format!("{case}, {name}");
            claims.extend(parts(&what, law, &rates));
            if file == "e2e-22b" {
                let (all, unit) = (rates.iter().sum(), Unit::Of(1, "Gb/s"));
                let of = format!("{what}: all of storage");
                let claim = Claim::new(of, "87 Gb/s", all, unit, Bound::Near(87.0, 0.05));
                claims.push(claim.known(Bound::Near(81.5, 0.1), SMALL));
            }
            bars.push(Series { name: name.to_owned(), heights: rates.to_vec() });
        }
        let (groups, title) = (CLASSES.map(str::to_owned).to_vec(), format!("Gb/s, {case}"));
        plots.push((file, Plot::Bars(Bars { title, groups, series: bars })));
    }
    Ok(Made::of(&title, claims, plots))
}

/// The reason why storage has less than the source's.
const SMALL: &str = "Each access to persistent memory is a block of 512 bytes, with headers and requests \
    of its own: 10 % in data is more on the wire. The daemon keeps 5 % of the link empty, too.";
