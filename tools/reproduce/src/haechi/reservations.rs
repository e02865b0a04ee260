//! Fig. 9 to 12 (docs/research/sources.md, H2, H5): reservations, and tokens that are converted.

use crate::models::experiments::{AGGREGATE, Experiment, Outcome, System};
use sluice_sim::claim::{Bound, Claim};

use super::scenario;
use super::show::{
    THIRTY, bars, by_client, in_30_s, least, lines, most, run, short, uniform, with,
};
use crate::figure::{Made, Request};

/// The reason why C1 and C2 miss their reservations with Zipf's distribution.
const OUT_OF_REACH: &str = "\
    On a node that serves in order of arrival all ten get equal parts until the pool is empty.
    \
    Then C1 and C2 have more left than one client can do (Definition 2, Example 2), and the
    \
    monitor names them. With a low priority for global tokens they have their reservations, or
    \
    99.7 % of them where 90 % are reserved.";

/// The reason why C1 and C2 lack a little with a low priority for global tokens, too.
const LAST_PART: &str = "\
    C1 and C2 lack 0.3 %. Alone at the end they do what one client can do, and each I/O that others
    \
    have under way beyond their reservations took a part of theirs before. Admission names both.";

/// Makes Fig. 9: all clients want more than their reservations (90 %). Always at the paper's size: the overhead matters
/// there, and a window of 1 is as much less than the others.
///
/// # Errors
///
/// The scenario is refused.
pub(super) fn nine(request: Request) -> anyhow::Result<Made> {
    let request = Request { scale: 1, ..request };
    let zipf = scenario::read(include_str!("../../../scenarios/haechi-9.toml"))?.experiment;
    let equal = uniform(&zipf);
    let run = |set_up, system| run(&with(set_up, system), request);
    let (bare, haechi) = (run(&equal, System::Bare)?, run(&equal, System::Haechi)?);
    let (bare_zipf, haechi_zipf) = (run(&zipf, System::Bare)?, run(&zipf, System::Haechi)?);
    let low = run(&zipf, System::LowPriority)?;
    let first = |outcome: &Outcome| outcome.means.first().copied().unwrap_or_default() * THIRTY;
    let cost = |with: &Outcome, without: &Outcome| 1.0 - with.total / without.total;
    let later = haechi_zipf.means.iter().zip(&bare_zipf.means).skip(4);
    let expense = most(later.map(|(haechi, bare)| haechi / bare));
    let none = Bound::AtMost(0.0);
    let claims = vec![
        Claim::count("uniform, Haechi: clients below their reservation", "0", short(&haechi), none),
        Claim::count("uniform, bare: clients below their reservation", "0", short(&bare), none),
        Claim::percent(
            "uniform: throughput that Haechi costs",
            "less than 0.1 %",
            cost(&haechi, &bare),
            Bound::AtMost(0.001),
        ),
        Claim::percent(
            "uniform: operations on words for each I/O",
            "not given",
            haechi.words,
            Bound::AtMost(0.002),
        ),
        Claim::kilo(
            "Zipf, bare: C1 in 30 s",
            "4742 K",
            first(&bare_zipf),
            Bound::Near(4742e3, 0.01),
        ),
        Claim::kilo(
            "Zipf, Haechi: C1 in 30 s",
            "7080 K",
            first(&haechi_zipf),
            Bound::Near(7080e3, 0.005),
        )
        .known(Bound::Near(5880e3, 0.01), OUT_OF_REACH),
        Claim::kilo(
            "Zipf, low priority for global tokens: C1 in 30 s",
            "7080 K",
            first(&low),
            Bound::Near(7080e3, 0.005),
        ),
        Claim::count("Zipf, low priority: clients below their reservation", "0", short(&low), none)
            .known(Bound::Near(2.0, 0.0), LAST_PART),
        Claim::percent(
            "Zipf, low priority: least part of a reservation",
            "100 %",
            least(low.least.iter().zip(&low.reserved).map(|(least, reserved)| least / reserved)),
            Bound::AtLeast(0.995),
        ),
        Claim::times(
            "Zipf, Haechi: C5 to C10, relative to the bare system",
            "less",
            expense,
            Bound::AtMost(1.0),
        ),
    ];
    let plot = |title, bare: &Outcome, haechi: &Outcome, low: Option<&Outcome>| {
        let reserved = haechi.reserved.iter().map(|reserved| reserved * THIRTY).collect();
        let mut series = vec![("reserved", reserved), ("Haechi", in_30_s(haechi))];
        series.push(("bare system", in_30_s(bare)));
        series.extend(low.map(|low| ("low priority", in_30_s(low))));
        by_client(title, &series)
    };
    let title = "Haechi, Fig. 9 (H5): 90 % reserved, each client wants more, bursts";
    Ok(Made::of(
        title,
        claims,
        [
            ("haechi-9a", plot("uniform: thousand I/Os in 30 s", &bare, &haechi, None)),
            (
                "haechi-9b",
                plot("Zipf: thousand I/Os in 30 s", &bare_zipf, &haechi_zipf, Some(&low)),
            ),
        ],
    ))
}

/// The names of the distributions of Fig. 10 and 11.
const BOTH: [&str; 2] = ["uniform", "Zipf"];

/// Runs the scenario of Fig. 10 or 11, of each distribution with Basic Haechi and Haechi.
fn insufficient(set_up: &Experiment, request: Request) -> anyhow::Result<[[Outcome; 2]; 2]> {
    let of = |set_up: &Experiment| -> anyhow::Result<[Outcome; 2]> {
        let run = |system| run(&with(set_up, system), request);
        Ok([run(System::Basic)?, run(System::Haechi)?])
    };
    Ok([of(&uniform(set_up))?, of(set_up)?])
}

/// Makes Fig. 10: C1 and C2 want half of their reservations.
///
/// # Errors
///
/// The scenario is refused.
pub(super) fn ten(request: Request) -> anyhow::Result<Made> {
    let zipf = scenario::read(include_str!("../../../scenarios/haechi-10.toml"))?.experiment;
    let outcomes = insufficient(&zipf, request)?;
    let (mut claims, mut plots) = (Vec::new(), Vec::new());
    let files = ["haechi-10a", "haechi-10b"];
    for ((name, [basic, haechi]), file) in BOTH.into_iter().zip(outcomes).zip(files) {
        let gain =
            haechi.means.iter().zip(&basic.means).map(|(haechi, basic)| haechi / basic - 1.0);
        let gain: Vec<f64> = gain.collect();
        let wanted =
            haechi.means.iter().zip(&haechi.reserved).map(|(mean, reserved)| mean / reserved);
        let wanted: Vec<f64> = wanted.take(2).collect();
        let met = (2..10).filter(|client| !haechi.keeps(*client, 0.0)).count() as f64;
        claims.push(Claim::percent(
            format!("{name}: C1, C2 have of their reservation"),
            "their demand",
            most(wanted),
            Bound::Near(0.5, 0.005),
        ));
        claims.push(Claim::count(
            format!("{name}: C3 to C10 below their reservation"),
            "0",
            met,
            Bound::AtMost(0.0),
        ));
        claims.push(Claim::percent(
            format!("{name}: C3 to C10 more than with Basic Haechi"),
            "higher",
            least(gain.into_iter().skip(2)),
            Bound::AtLeast(0.05),
        ));
        let reserved = haechi.reserved.iter().map(|reserved| reserved * THIRTY).collect();
        let title = format!("{name}: thousand I/Os in 30 s, C1 and C2 want half");
        let series =
            [("reserved", reserved), ("Basic", in_30_s(&basic)), ("Haechi", in_30_s(&haechi))];
        plots.push((file, by_client(&title, &series)));
    }
    let title = "Haechi, Fig. 10 (H2): C1 and C2 want half of their reservations (the paper does \
                 not say\nhow much of them); 90 % are reserved";
    Ok(Made::of(title, claims, plots))
}

/// Makes Fig. 11: the throughput of the runs of Fig. 10.
///
/// # Errors
///
/// The scenario is refused.
pub(super) fn eleven(request: Request) -> anyhow::Result<Made> {
    let zipf = scenario::read(include_str!("../../../scenarios/haechi-11.toml"))?.experiment;
    let bare = |set_up: &Experiment| run(&with(set_up, System::Bare), request);
    let bare = [bare(&uniform(&zipf))?.total, bare(&zipf)?.total];
    let outcomes = insufficient(&zipf, request)?;
    let mut claims = Vec::new();
    let mut heights = [Vec::new(), Vec::new(), Vec::new()];
    for ((name, bare), outcomes) in BOTH.into_iter().zip(bare).zip(outcomes) {
        let [basic, haechi] = outcomes.each_ref().map(|outcome| outcome.total);
        claims.push(Claim::percent(
            format!("{name}: Haechi, of the bare system"),
            "comparable",
            haechi / bare,
            Bound::Near(1.0, 0.002),
        ));
        claims.push(Claim::percent(
            format!("{name}: Basic Haechi, of the bare system"),
            "less",
            basic / bare,
            Bound::AtMost(0.92),
        ));
        for (column, total) in heights.iter_mut().zip([basic, haechi, bare]) {
            column.push(total);
        }
    }
    let names = BOTH.map(str::to_owned).to_vec();
    let [basic, haechi, bare] = heights;
    let series = [("Basic Haechi", basic), ("Haechi", haechi), ("bare system", bare)];
    let plot = bars("thousand I/Os per second where C1 and C2 want half", names, &series);
    let title = "Haechi, Fig. 11 (H2): throughput where C1 and C2 want half of their reservations";
    Ok(Made::of(title, claims, [("haechi-11", plot)]))
}

/// Makes Fig. 12: throughput where 50 to 90 % are reserved.
///
/// # Errors
///
/// The scenario is refused.
pub(super) fn twelve(request: Request) -> anyhow::Result<Made> {
    let set_up = scenario::read(include_str!("../../../scenarios/haechi-12.toml"))?.experiment;
    let percents = [50_u32, 60, 70, 80, 90];
    let mut claims = Vec::new();
    let mut totals = [Vec::new(), Vec::new()];
    for percent in percents {
        let zipf = Experiment { reserved: f64::from(percent) / 100.0, ..set_up.clone() };
        let (uniform, zipf) = (run(&uniform(&zipf), request)?, run(&zipf, request)?);
        claims.push(Claim::kilo(
            format!("{percent} % reserved, uniform: throughput"),
            "1570 K",
            uniform.total,
            Bound::Near(AGGREGATE as f64, 0.001),
        ));
        let none = Bound::AtMost(0.0);
        let below = "below their reservation";
        let what = format!("{percent} %, uniform: clients {below}");
        claims.push(Claim::count(what, "0", short(&uniform), none));
        let what = format!("{percent} %, Zipf: clients {below}");
        let claim = Claim::count(what, "0", short(&zipf), none);
        // Above 60 % the reservation of C1 and C2 is more than an equal part of the node.
        claims.push(if percent > 60 {
            claim.known(Bound::Near(2.0, 0.0), OUT_OF_REACH)
        } else {
            claim
        });
        for (column, outcome) in totals.iter_mut().zip([uniform, zipf]) {
            column.push((f64::from(percent), outcome.total));
        }
    }
    let [uniform, zipf] = totals;
    let rises =
        |two: &[(f64, f64)]| matches!(two, [(_, before), (_, after)] if *after > before * 1.0001);
    let rising = zipf.windows(2).filter(|two| rises(two)).count() as f64;
    let what = "Zipf: steps in which throughput rises";
    claims.push(Claim::count(what, "it falls", rising, Bound::AtMost(0.0)));
    let part =
        |points: &[(f64, f64)]| points.last().map_or(0.0, |(_, total)| total / AGGREGATE as f64);
    let what = "Zipf, 90 % reserved: throughput, of uniform's";
    let ours = part(&zipf) / part(&uniform);
    claims.push(Claim::percent(what, "drops", ours, Bound::AtMost(0.97)));
    let plot = lines(
        "thousand I/Os per second",
        "percent of the capacity that are reserved",
        vec![("uniform".to_owned(), uniform), ("Zipf".to_owned(), zipf)],
    );
    let title = "Haechi, Fig. 12 (H5): throughput where 50 to 90 % are reserved";
    Ok(Made::of(title, claims, [("haechi-12", plot)]))
}
