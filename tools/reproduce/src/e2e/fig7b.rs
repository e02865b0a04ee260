//! Fig. 7b and 7c (docs/research/sources.md, E5): three applications at a drive, of which Low is the most intense. The
//! protocol is a whole target, as in [`fig7`](super::fig7).
//!
//! The source's text describes the case as (b), and the effect of its scenarios as (c). It gives no number, but three
//! statements: classes in the protocol are enough, classes in the drive change nothing about that, and latencies are
//! not as 3:2:1.

use std::fmt::Write as _;

use sluice_sim::claim::{Bound, Claim};

use super::fig7::{Means, means, scenarios};
use super::pm::with;
use super::{CLASSES, series};
use crate::figure::{Made, Request};
use crate::plot;

/// The scenario of the figure.
const SCENARIO: &str = include_str!("../../../scenarios/e2e-7b.toml");

/// The reason why classes in the protocol change nothing.
const NOTHING_WAITS: &str = "No command waits in the target, where the order of classes is: the \
    window of 128 commands is never full. A window of 64 has the same medians and 99 %. High has \
    the fewest commands, and is as fast as Medium or faster for that alone. With a window of 16 \
    commands do wait, and the rows of that window have what classes do then. The traces are not \
    here: the reason why the source's commands wait is not known.";

/// The reason why classes in the drive do change latencies.
const INSIDE: &str = "Commands wait only in the drive here, for dies that program: classes in the \
    drive's queues separate the applications.";

/// Makes Fig. 7b and 7c.
///
/// # Errors
///
/// A run cannot be made.
pub(super) fn run(request: Request) -> anyhow::Result<Made> {
    let mut title = "Fig. 7b and 7c (E5): the same, with Low the most intense:\n".to_owned();
    let [one, two, three] = scenarios(SCENARIO)?;
    let narrow = with(&two, "unit = \"commands\"", "window = 16\nunit = \"commands\"")?;
    let narrow = means(&narrow, request)?;
    let all = [means(&one, request)?, means(&two, request)?, means(&three, request)?];
    let named = ["1", "2", "3"].into_iter().zip(&all).chain([("2, a window of 16", &narrow)]);
    for (name, Means { latencies, waits }) in named {
        let (latencies, waits) = (series(latencies), series(waits));
        _ = writeln!(title, "scenario {name}: {latencies}; before the drive: {waits}");
    }
    let all = all.map(|of| of.latencies);
    let mut claims = Vec::new();
    let [[high, _, low], [high_2, medium_2, low_2], [high_3, medium_3, low_3]] = all;
    let better = Bound::AtMost(0.95);
    for (what, ours) in [
        ("2, the daemon: High, of Medium", high_2 / medium_2),
        ("2, the daemon: Medium, of Low", medium_2 / low_2),
        ("3, the daemon and the drive: High, of Medium", high_3 / medium_3),
        ("3, the daemon and the drive: Medium, of Low", medium_3 / low_3),
    ] {
        let what = format!("(c) {what}");
        let claim = Claim::times(what, "differentiated", ours, better);
        claims.push(claim.known(Bound::Between(0.95, 1.05), NOTHING_WAITS));
    }
    let [before, apart, both] = [high / low, high_2 / low_2, high_3 / low_3];
    let more = "(c) 2, the daemon: High, of Low, by scenario 1";
    let claim = Claim::times(more, "enough", apart / before, better);
    claims.push(claim.known(Bound::Between(0.98, 1.02), NOTHING_WAITS));
    let [high_n, medium_n, low_n] = narrow.latencies;
    for (what, source, ours) in [
        ("High, of Medium", "differentiated", high_n / medium_n),
        ("Medium, of Low", "differentiated", medium_n / low_n),
        ("High, of Low, by scenario 1", "enough", high_n / low_n / before),
    ] {
        let what = format!("(c) 2, the daemon, a window of 16: {what}");
        claims.push(Claim::times(what, source, ours, better));
    }
    let ratio = "(c) 2, the daemon: High, of Low";
    claims.push(Claim::times(ratio, "not 0.33 x", apart, Bound::AtLeast(0.35)));
    let same = "(c) 3, the daemon and the drive: High, of Low, by scenario 2";
    let claim = Claim::times(same, "not affected", both / apart, Bound::Near(1.0, 0.1));
    claims.push(claim.known(Bound::Within(0.57, 0.12), INSIDE));
    let bars = |from: usize, to: usize, title: &str| {
        let some = (1..).zip(&all).take(to).skip(from);
        let some = some.map(|(number, of): (usize, _)| (format!("scenario {number}"), *of));
        plot::bars(title, CLASSES, some)
    };
    let plots = [
        ("e2e-7b", bars(0, 1, "us that an access takes, mean, no classes")),
        ("e2e-7c", bars(1, 3, "us that an access takes, mean, with classes")),
    ];
    Ok(Made::of(&title, claims, plots))
}
