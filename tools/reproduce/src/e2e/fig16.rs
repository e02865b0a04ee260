//! Fig. 16 and 17 (docs/research/sources.md, E10): three applications that write more than network and drives can do,
//! where both agree on the classes and where they do not.
//!
//! A command has one class in the daemon, at the network and at the device: the two cannot disagree there. Fig. 16a
//! shows a target without the network's stage, whose classes are in reverse order of the classes that its sockets have
//! by Eq. 5 as printed.

use std::fmt::Write as _;
use std::time::Duration;

use sluice_sim::claim::{Bound, Claim, Unit};
use sluice_sim::model::Plan;
use sluice_sim::report::Chart;
use units::Class;

use super::pm::{GOODPUT, with};
use super::series;
use crate::figure::{Made, Request};
use crate::net::bottleneck::{SHARES, part};
use crate::plot;
use crate::whole::{self, Latency, PERCENTS};

/// The scenarios of the figures.
const COORDINATED: &str = include_str!("../../../scenarios/e2e-16.toml");
const TAILS: &str = include_str!("../../../scenarios/e2e-17.toml");

const APPS: [&str; 3] = ["App1", "App2", "App3"];
/// The time that is measured at reduced length.
const QUICK: Duration = Duration::from_millis(80);

/// The network's treatment of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Law {
    Dctcp,
    Daemon,
    Printed,
}

/// The latencies of App1, App2 and App3.
#[derive(Clone, Copy, Debug)]
struct Latencies {
    /// Their writes, from the time at which they are wanted to their end.
    whole: [Latency; 3],
    drives: [Latency; 3],
}

/// Sets the time that is measured at reduced length. An episode takes 1 to 5 s in the source.
fn shorten(plan: &mut Plan, request: Request) {
    if request.quick {
        plan.duration = QUICK;
    }
}

/// Runs the storage end alone: over a network that takes no time, without its stage.
fn storage(request: Request) -> anyhow::Result<[Latency; 3]> {
    let scenario = with(TAILS, "rate = \"100 Gbit/s\"", "rate = \"1000 Gbit/s\"")?;
    let scenario = with(&scenario, "delay = \"2 us\"", "delay = \"0 ns\"")?;
    let measured = whole::measure(&scenario, false, request, |plan| shorten(plan, request))?;
    let [one, two, three] = APPS.map(|app| whole::latency(&measured, app, Duration::ZERO));
    Ok([one?, two?, three?])
}

/// Runs a scenario; where `agree` is false, the target's classes are the other way round.
fn latencies(scenario: &str, law: Law, agree: bool, request: Request) -> anyhow::Result<Latencies> {
    let change = |plan: &mut Plan| {
        shorten(plan, request);
        if law == Law::Printed {
            for (app, share) in APPS.iter().zip(SHARES) {
                whole::by_eq_5(plan, app, GOODPUT * part(share));
            }
        }
        if !agree {
            let classes = [Class::Low, Class::Medium, Class::High];
            for (host, class) in plan.hosts.iter_mut().zip(classes) {
                // Their connections' marks would name the class that the network has.
                (host.class, host.dscp) = (Some(class), 0);
            }
        }
    };
    let measured = whole::measure(scenario, law == Law::Daemon, request, change)?;
    let [one, two, three] = APPS.map(|app| whole::latency(&measured, app, Duration::ZERO));
    let [first, second, third] = APPS.map(|app| whole::in_device(&measured, app));
    Ok(Latencies { whole: [one?, two?, three?], drives: [first?, second?, third?] })
}

/// Makes Fig. 16: applications whose classes network and storage agree on, and not.
///
/// # Errors
///
/// A run cannot be made.
pub(super) fn coordinated(request: Request) -> anyhow::Result<Made> {
    let apart = latencies(COORDINATED, Law::Printed, false, request)?.whole;
    let printed = latencies(COORDINATED, Law::Printed, true, request)?.whole;
    let daemon = latencies(COORDINATED, Law::Daemon, true, request)?.whole;
    let mut claims = Vec::new();
    let ratio = |one: Latency, other: Latency| one.mean / other.mean;
    let [one, two, three] = apart;
    for (what, ours, known) in
        [("App1, of App3", ratio(one, three), 0.15), ("App2, of App3", ratio(two, three), 0.37)]
    {
        let what = format!("(a) storage the other way round, Eq. 5 as printed: {what}");
        let claim = Claim::times(what, "worse", ours, Bound::AtLeast(1.0));
        claims.push(claim.known(Bound::Near(known, 0.25), NETWORK));
    }
    for (name, [one, two, three]) in [("the daemon", daemon), ("Eq. 5 as printed", printed)] {
        for (what, ours) in
            [("App1, of App2", ratio(one, two)), ("App2, of App3", ratio(two, three))]
        {
            let what = format!("(b) {name}: {what}");
            claims.push(Claim::times(what, "respected", ours, Bound::AtMost(0.95)));
        }
    }
    let kinds = [
        ("storage the other way round, Eq. 5 as printed", apart),
        ("agreed, the daemon", daemon),
        ("agreed, Eq. 5 as printed", printed),
    ];
    let mut title =
        "End-to-end QoS, Fig. 16 (E10): App1, App2 and App3 (High, Medium, Low in the network) \
         write 40 Gb/s each to ten drives\nover a link of 100. Mean latencies in ms:\n"
            .to_owned();
    let mut bars = Vec::new();
    for (kind, of) in kinds {
        let means = of.map(|latency| latency.mean / 1e3);
        _ = writeln!(title, "{kind}: {}", series(&means));
        bars.push((kind, means));
    }
    let chart = plot::bars("ms that a write takes, mean", APPS, bars);
    Ok(Made::of(&title, claims, [("e2e-16", chart)]))
}

/// Makes Fig. 17: tails, with DCTCP in the network and with classes.
///
/// # Errors
///
/// A run cannot be made.
pub(super) fn tails(request: Request) -> anyhow::Result<Made> {
    let laws =
        [("DCTCP", Law::Dctcp), ("the daemon", Law::Daemon), ("Eq. 5 as printed", Law::Printed)];
    let alone = storage(request)?;
    let mut title =
        "End-to-end QoS, Fig. 17 (E10): the same, p50, p90 and p99 of High, Medium and Low in \
         ms:\n"
            .to_owned();
    let (mut claims, mut plots) = (Vec::new(), Vec::new());
    let alone = alone.map(|of| of.percentiles.map(|us| us / 1e3));
    let [high, medium, low] = alone;
    _ = writeln!(
        title,
        "(a) the storage end alone: {} | {} | {}",
        series(&high),
        series(&medium),
        series(&low)
    );
    claims.extend(end(alone, request));
    plots.push(("e2e-17a", tails_of("the storage end alone", alone)));
    for ((name, law), file) in laws.into_iter().zip(["e2e-17b", "e2e-17c", "e2e-17c-eq-5"]) {
        let run = latencies(TAILS, law, true, request)?;
        let of = run.whole.map(|of| of.percentiles.map(|us| us / 1e3));
        let [high, medium, low] = of;
        _ = writeln!(title, "{name}: {} | {} | {}", series(&high), series(&medium), series(&low));
        for (place, percent) in PERCENTS.iter().enumerate() {
            let at = |of: [f64; 3]| of.get(place).copied().unwrap_or(f64::NAN);
            let what = format!("{name}, {percent}");
            let of_medium = at(high) / at(medium);
            let of_low = at(medium) / at(low);
            if law == Law::Dctcp {
                let of = format!("{what}: High, of Medium");
                let claim = Claim::times(of, "20 % worse", of_medium, Bound::Near(1.2, 0.15));
                let known = if request.quick { (0.82, 0.95) } else { (0.58, 0.82) };
                claims.push(claim.known(Bound::Between(known.0, known.1), STORAGE));
                let of = format!("{what}: Low, of Medium");
                let (low, worst) = (1.0 / of_low, Bound::AtLeast(1.02));
                claims.push(Claim::times(of, "the worst", low, worst));
            } else {
                let known = if request.quick { KNOWN_HIGH_QUICK } else { KNOWN_HIGH };
                let (least, most) = known.get(place).copied().unwrap_or_default();
                let printed_high = Bound::Between(0.28, 0.35);
                let printed_medium = Bound::Between(0.13, 0.26);
                for (classes, ours, known, printed) in [
                    ("High, of Medium", of_medium, Bound::Between(least, most), printed_high),
                    ("Medium, of Low", of_low, Bound::Near(0.3, 0.16), printed_medium),
                ] {
                    let of = format!("{what}: {classes}");
                    let half = Bound::Within(0.5, 0.15);
                    let claim = Claim::times(of, "50 % better", ours, half);
                    claims.push(match law {
                        Law::Daemon => claim.known(known, OVERLOAD),
                        Law::Dctcp | Law::Printed => claim.known(printed, OVERLOAD),
                    });
                }
            }
        }
        let [high, _, low] = run.drives.map(|of| of.percentiles);
        let [high, low] = [high, low].map(|of| of.first().copied().unwrap_or(f64::NAN));
        if law != Law::Dctcp {
            let what = format!("(a) {name}, in the drives, 50 %: Low, of High");
            let claim = Claim::times(what, "12 x", low / high, Bound::Near(12.0, 0.2));
            claims.push(claim.known(Bound::Between(0.5, 1.1), BUFFER));
        }
        plots.push((file, tails_of(name, of)));
    }
    Ok(Made::of(&title, claims, plots))
}

/// Makes the claims of Fig. 17a from the percentiles of High, Medium and Low in ms.
fn end([high, medium, low]: [[f64; 3]; 3], request: Request) -> Vec<Claim> {
    let [[high, ..], [medium, ..], [low, _, tail]] = [high, medium, low];
    // Low waits for longer the longer the run takes.
    let [known, known_tail] = if request.quick { [88.0, 126.0] } else { [199.0, 338.0] };
    let ms = Unit::Of(2, "ms");
    let rows = [
        ("High, 50 %", "close to 60 us", 0.06, high, 13.5),
        ("Medium, 50 %", "close to 100 us", 0.1, medium, 13.7),
        ("Low, 50 %", "0.7 ms", 0.7, low, known),
        ("Low, 99 %", "1.5 ms", 1.5, tail, known_tail),
    ];
    let rows = rows.map(|(what, source, bound, ours, known)| {
        let what = format!("(a) the storage end alone, {what}");
        let claim = Claim::new(what, source, ours, ms, Bound::Near(bound, 0.15));
        claim.known(Bound::Near(known, 0.2), BUFFER)
    });
    let what = "(a) the storage end alone, 50 %: Low, of Medium";
    let suffers = Claim::times(what, "suffers", low / medium, Bound::AtLeast(1.02));
    rows.into_iter().chain([suffers]).collect()
}

/// Draws percentiles of High, Medium and Low in ms.
fn tails_of(name: &str, [high, medium, low]: [[f64; 3]; 3]) -> Chart {
    let bars = [("High", high), ("Medium", medium), ("Low", low)];
    plot::bars(&format!("ms that a write takes, {name}"), PERCENTS, bars)
}

/// The reason why the drives are not the source's.
const BUFFER: &str = "120 Gb/s are more than ten such drives program. A write ends in its drive's \
    buffer, which takes writes in order of arrival: the 128 commands that the target hands to a \
    drive wait 13 ms for it, in every class. Low waits in the target besides, for as long as the \
    run takes. The source's drives are not full: it says neither how large their buffers are nor \
    how full.";

/// The known ratios of High's to Medium's percentiles with the daemon.
const KNOWN_HIGH: [(f64, f64); 3] = [(0.02, 0.09), (0.05, 0.14), (0.08, 0.16)];

/// The same at reduced length.
const KNOWN_HIGH_QUICK: [(f64, f64); 3] = [(0.09, 0.24), (0.18, 0.33), (0.22, 0.36)];

/// The reason why the storage's order does not reverse the network's.
const NETWORK: &str = "The offered load is 28 % more than the link carries, and waits at the \
    hosts: the network alone decides how long. Drives reorder arrived commands only while these \
    wait for flash.";

/// The reason why latencies under DCTCP differ from the source's.
const STORAGE: &str = "Classes have their order at the drives, which are full, too: High and \
    Medium pass Low there, and wait less.";

/// The reason why classes are further apart than in the source.
const OVERLOAD: &str = "The offered loads are more than the link carries. The hosts' queues of \
    Medium and Low grow for as long as the run takes, and the queues of High do not. A ratio of \
    times depends on the length of an episode: half a second here with the warm-up (200 ms at \
    reduced length), 1 to 5 s in the source.";
