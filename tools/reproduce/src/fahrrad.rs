//! Fig. 3 of Fahrrad (docs/research/sources.md, F3): reservations on a disk, and the same streams without.
//!
//! - [`setup`]: a scenario of streams on a disk, as TOML; [`simulation`]: its run, under the [`stages`] or the
//!   [`deadline`] scheduler; [`show`]: its results. [`workload`]: the streams.

mod deadline;
mod setup;
mod show;
mod simulation;
mod stages;
mod workload;

use std::fmt::Write as _;
use std::time::Duration;

use sluice_sim::claim::{Bound, Claim};

use self::setup::SchedulerName;
use self::simulation::{Got, simulate, total};
use super::figure::{Made, Request};
use super::plot;

pub(super) use self::setup::Setup;
pub(super) use self::show::report;

const SCENARIO: &str = include_str!("../../scenarios/fahrrad-3.toml");

/// The part of the figure's windows that is run at reduced length, and for each background.
const QUICK: u64 = 5;
/// The number of seeds of the runs with reservations, from the requested one on; and at reduced length.
const SEEDS: u64 = 24;
const SEEDS_QUICK: u64 = 4;

/// Runs the streams with a scheduler.
fn with(setup: &Setup, scheduler: SchedulerName, seed: u64) -> anyhow::Result<Vec<Got>> {
    simulate(&Setup { scheduler, ..setup.clone() }, seed, &mut |_| ())
}

/// Runs the streams without reservations and with them.
fn both(setup: &Setup, seed: u64) -> anyhow::Result<[Vec<Got>; 2]> {
    let of = |scheduler| with(setup, scheduler, seed);
    Ok([of(SchedulerName::Deadline)?, of(SchedulerName::Reservations)?])
}

/// Makes the figure.
///
/// # Errors
///
/// A reservation does not fit the disk.
pub(super) fn figure(request: Request) -> anyhow::Result<Made> {
    let mut setup = Setup::parse(SCENARIO)?;
    if request.quick {
        setup.windows /= QUICK;
    }
    let runs = both(&setup, request.seed)?;
    let [linux, fahrrad] = &runs;
    let failed = |got: &[Got]| got.iter().map(Got::failed).max().unwrap_or(0) as f64 / 1000.0;
    let seeds = if request.quick { SEEDS_QUICK } else { SEEDS };
    let mut worst = failed(fahrrad);
    for seed in (request.seed..).skip(1).zip(1..seeds).map(|(seed, _)| seed) {
        worst = worst.max(failed(&with(&setup, SchedulerName::Reservations, seed)?));
    }
    let more = total(fahrrad) as f64 - total(linux) as f64;
    let claims = vec![
        Claim::percent(
            "Fahrrad: requests late or lost, any stream, worst of all seeds",
            "guarantees met",
            worst,
            Bound::AtMost(0.0),
        ),
        Claim::percent(
            "deadline scheduler: requests late or lost, media",
            "not met",
            failed(linux.get(..2).unwrap_or_default()),
            Bound::AtLeast(0.2),
        ),
        Claim::count(
            "Fahrrad: I/Os per second more than without",
            "about 200",
            more,
            Bound::Within(200.0, 75.0),
        ),
    ];
    let means = |got: &[Got]| got.iter().map(|got| got.mean() as f64).collect::<Vec<_>>();
    let reserved: Vec<f64> = setup.streams.iter().map(|stream| stream.reserves as f64).collect();
    let bars =
        [("reserved", reserved), ("deadline scheduler", means(linux)), ("Fahrrad", means(fahrrad))];
    let names = setup.streams.iter().map(|stream| &stream.name);
    let chart = plot::bars("I/Os per second of each stream", names, bars);
    let title = table(&setup, &runs) + &by_background(&setup, request.seed)?;
    Ok(Made::of(&title, claims, [("fahrrad-3", chart)]))
}

/// Writes the results of each stream.
fn table(setup: &Setup, [linux, fahrrad]: &[Vec<Got>; 2]) -> String {
    let window = Duration::from_nanos(setup.window).as_secs();
    let mut text = format!(
        "Fahrrad, Fig. 3 (F3): I/Os per second over {} s: the mean, and the least of any {window} s; requests in \
         1000 that were\nlate by the reservation, or lost because their buffer was full. The background \
         stream has {} requests\noutstanding.\n\n\
         {:21} |  deadline scheduler  |       Fahrrad\n\
         stream       reserved |   mean  least failed |   mean  least failed\n",
        setup.windows * window,
        setup.depth(),
        "",
    );
    for (stream, got) in setup.streams.iter().zip(linux.iter().zip(fahrrad)) {
        let [linux, fahrrad] = [got.0, got.1]
            .map(|got| format!("{:6} {:6} {:6}", got.mean(), got.least(), got.failed()));
        let _ = writeln!(text, "{:13}{:8} | {linux} | {fahrrad}", stream.name, stream.reserves);
    }
    let [linux, fahrrad] = [linux, fahrrad].map(|got| total(got));
    let _ = writeln!(text, "{:21} | {linux:6} {:13} | {fahrrad:6}", "total", "");
    text
}

/// Writes how the totals differ, by the outstanding requests of the background stream.
fn by_background(setup: &Setup, seed: u64) -> anyhow::Result<String> {
    let mut text = String::from(
        "\nBy the outstanding requests of the background stream (with few, the scheduler without \
         promises has the longer\nsweeps):\n",
    );
    let mut shorter = Setup { windows: setup.windows / QUICK, ..setup.clone() };
    for background in [64, 128, 256, setup.depth(), 512] {
        shorter.set_depth(background);
        let [linux, fahrrad] = both(&shorter, seed)?.map(|got| total(&got));
        let more = i128::from(fahrrad) - i128::from(linux);
        let _ = writeln!(text, "{background:6}: {linux} and {fahrrad}, {more:+} per second");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the figure's scenario with other windows, and requests of the background stream.
    fn setup(windows: u64, background: u64) -> Setup {
        let mut setup = Setup { windows, ..Setup::parse(SCENARIO).unwrap() };
        setup.set_depth(background);
        setup
    }

    #[test]
    fn f3_figure_3_guarantees_are_met_and_more_is_served() {
        let setup = setup(20, 384);
        let [linux, fahrrad] = both(&setup, 1).expect("all reservations fit");
        for (stream, got) in setup.streams.iter().zip(&fahrrad) {
            assert_eq!(got.failed(), 0, "{}: {got:?}", stream.name);
        }
        assert!(linux.iter().take(2).all(|media| media.failed() > 200), "{linux:?}");
        let more = total(&fahrrad).saturating_sub(total(&linux));
        assert!((150..300).contains(&more), "{more} per second more");
    }

    #[test]
    fn f3_a_stream_that_falls_behind_catches_up() {
        // With these seeds both media streams are behind by a part of a second at times.
        for seed in [3, 4, 9] {
            let got = simulate(&setup(100, 384), seed, &mut |_| ()).expect("all reservations fit");
            assert!(got.iter().all(|got| got.failed() == 0), "{seed}: {got:?}");
            assert!(total(&got) > 640, "the disk is used: {got:?}");
        }
    }

    #[test]
    fn f3_a_stream_that_presses_harder_hurts_only_itself() {
        for background in [1, 64, 1024] {
            let [_, got] = both(&setup(10, background), 2).expect("all reservations fit");
            assert!(got.iter().all(|got| got.failed() == 0), "{background}: {got:?}");
        }
    }
}
