//! The results of a scenario's run.

use std::time::Duration;

use sluice_sim::report::{Report, Series};

use super::super::disk::Shown;
use super::setup::Setup;
use super::simulation::{Got, simulate, total};
use super::workload::Stream;

/// Runs a scenario with a seed, and makes the report. `progress` hears the part of the run that is done.
///
/// # Errors
///
/// A reservation does not fit the disk.
pub(crate) fn report(
    setup: &Setup,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> anyhow::Result<Report> {
    let got = simulate(setup, seed, progress)?;
    let window = Duration::from_nanos(setup.window);
    let row = |(stream, got): (&Stream, &Got)| {
        let numbers = [stream.reserves, got.mean(), got.least(), got.late, got.lost];
        std::iter::once(stream.name.clone()).chain(numbers.map(|of| of.to_string())).collect()
    };
    let line = |(stream, got): (&Stream, &Got)| Series {
        name: stream.name.clone(),
        points: (0_u32..)
            .zip(&got.served)
            .map(|(at, served)| {
                let (at, window) = (f64::from(at) + 0.5, window.as_secs_f64());
                (at * window, *served as f64 / window)
            })
            .collect(),
    };
    let columns = [
        ("stream", ""),
        ("reserved", "per s"),
        ("mean", "per s"),
        ("least in any window", "per s"),
        ("late", ""),
        ("lost", ""),
    ];
    let streams = || setup.streams.iter().zip(&got);
    let shown = Shown {
        title: &setup.title,
        about: format!(
            "One disk for {} windows of {window:?}, seed {seed}, with the scheduler \"{}\".",
            setup.windows,
            setup.scheduler.name()
        ),
        table: "Requests of each stream",
        columns: &columns,
        rows: streams().map(row).collect(),
        note: format!(
            "{} in a second together; late: requests served after they were due by the \
             reservation; lost: requests that found `room` others waiting",
            total(&got)
        ),
        chart: "Requests per second",
        axes: ["time, s", "requests per second"],
        lines: streams().map(line).collect(),
    };
    Ok(shown.report())
}

#[cfg(test)]
mod tests {
    use sluice_sim::report::{Chart, Kind};

    use super::*;
    use crate::scenario::changed;

    const SCENARIO: &str = include_str!("../../../scenarios/fahrrad-3.toml");

    /// Runs the figure's scenario, shortened, with changes; returns the cells of each stream's row.
    fn rows(changes: &[(&str, &str)]) -> Vec<Vec<u64>> {
        let short = changed(SCENARIO, &[("windows = 100", "windows = 8")]);
        let setup = Setup::parse(&changed(&short, changes)).unwrap();
        let report = report(&setup, 1, &mut |_| ()).unwrap();
        let [table] = &report.tables[..] else { panic!("one table: {report:?}") };
        assert!(matches!(&report.charts[..], [Chart { kind: Kind::Lines(lines), .. }]
            if lines.iter().all(|line| line.points.len() == 8)));
        let numbers = |row: &Vec<String>| row[1..].iter().map(|of| of.parse().unwrap()).collect();
        table.rows.iter().map(numbers).collect()
    }

    #[test]
    fn reservations_are_kept_and_without_them_streams_are_late() {
        let kept = rows(&[]);
        assert_eq!(kept.iter().map(|row| row[0]).collect::<Vec<_>>(), [400, 200, 20, 10]);
        assert!(kept.iter().all(|row| row[3..] == [0, 0]), "{kept:?}");
        let deadline = rows(&[("\"reservations\"\n", "\"deadline\"\n")]);
        assert!(deadline[0][3] > 1000 && deadline[0][4] > 1000, "late and lost: {deadline:?}");
    }

    #[test]
    fn each_key_changes_what_streams_get() {
        // The reservation, which comes first, only repeats the scenario.
        let results = |changes: &[(&str, &str)]| -> Vec<Vec<u64>> {
            rows(changes).into_iter().map(|row| row[1..].to_vec()).collect()
        };
        let before = rows(&[]);
        for change in [
            ("reserves = 20", "reserves = 10"),
            ("reserves = 10", "reserves = 0"),
            ("rate = 200", "rate = 250"),
            ("rate = 20,", "rate = 10,"),
            ("count = 100", "count = 10"),
            ("depth = 384", "depth = 1"),
            ("size = \"32 KiB\"", "size = \"16 KiB\""),
            ("places = \"sequential\"\narea = { from = \"10 %\" }", "places = \"random\""),
            ("area = { from = \"25 %\", span = \"25 %\" }", "area = { span = \"1 GB\" }"),
            ("\n[[stream]]", "\nseed = 1\n[disk]\nrpm = 15_000\n[[stream]]"),
        ] {
            // So much of the disk is not reserved that random or larger requests fit, too.
            let room = ("reserves = 400", "reserves = 10");
            assert_ne!(results(&[room, change]), results(&[room]), "{change:?}");
        }
        // A request that finds `room` others waiting is lost.
        let deadline = ("\"reservations\"\n", "\"deadline\"\n");
        let lost = |change| rows(&[deadline, change])[0][4];
        assert!(lost(("room = 800", "room = 80")) > lost(("room = 800", "room = 800")));
        assert_eq!(lost((", room = 800", "")), 0);
        assert_eq!(rows(&[]), before, "the same each time");
    }

    #[test]
    fn who_reserves_nothing_is_never_late_and_gets_what_is_left() {
        let rows = rows(&[("reserves = 10", "reserves = 0")]);
        assert!(rows[3][1] > 10 && rows.iter().all(|row| row[3] == 0), "{rows:?}");
    }

    #[test]
    fn no_extreme_of_any_key_ends_in_anything_but_a_report() {
        let disk = "\n[disk]\nrpm = 30_000\nheads = 1\ncylinders = 10\nzones = 10\nouter_sectors = 100_000\n\
                    inner_sectors = 100_000\nseek_min = '0 s'\nseek_mean = '0 s'\nseek_max = '0 s'\n\
                    head_switch = '0 s'\nsettle_spread = '0 s'\noverhead = '0 s'\nread_ahead = 0\n";
        let short = ("window = \"5 s\"", "window = \"1 ms\"");
        for change in [
            ("depth = 384", "depth = 65_536"),
            ("count = 100", "count = 65_536"),
            ("rate = 400, room = 800", "rate = 1_000_000"),
            ("rate = 20,", "rate = 1_000_000,"),
            ("reserves = 10", "reserves = 0"),
            ("\n[[stream]]", &format!("{disk}[[stream]]")),
        ] {
            let deadline = ("\"reservations\"\n", "\"deadline\"\n");
            rows(&[short, change]);
            rows(&[short, deadline, change]);
        }
    }
}
