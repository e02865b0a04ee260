//! The results of a scenario's run.

use arbitration::container::Scheduler;
use sluice_sim::report::{Report, Series};

use super::super::disk::Shown;
use super::need::Needs;
use super::readers::{Seen, simulate};
use super::setup::{Setup, Stream};

/// Runs a scenario with a seed, and makes the report. `progress` hears the part of the run that is done.
///
/// # Errors
///
/// The disk cannot be.
pub(crate) fn report(
    setup: &Setup,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> anyhow::Result<Report> {
    let needs = Needs::measure(setup, seed)?;
    let seen = simulate(setup, seed, progress)?;
    let scheduler = match setup.scheduler {
        Scheduler::Containers => "containers".to_owned(),
        Scheduler::Vanilla => "vanilla".to_owned(),
        Scheduler::Batch(size) => format!("batches of {size}"),
    };
    let row = |(stream, seen): (&Stream, &Seen)| {
        vec![
            stream.name.clone(),
            format!("{:.0}", stream.promised as f64 / 1024.0),
            format!("{:.0}", seen.mean()),
            format!("{:.0}", seen.worst()),
            format!("{:.1}", seen.violations()),
        ]
    };
    let line = |(stream, seen): (&Stream, &Seen)| Series {
        name: stream.name.clone(),
        points: (1_u32..)
            .zip(&seen.told)
            .map(|(at, told)| (f64::from(at), *told as f64 / 1024.0))
            .collect(),
    };
    let columns = [
        ("stream", ""),
        ("promised", "KiB/s"),
        ("mean", "KiB/s"),
        ("worst output", "KiB/s"),
        ("outputs below", "%"),
    ];
    let streams = || setup.streams.iter().zip(&seen);
    let shown = Shown {
        title: &setup.title,
        about: format!(
            "{} outputs of each stream, {} in a second, seed {seed}, with the scheduler: {scheduler}.",
            setup.counted, setup.outputs_per_second
        ),
        table: "Throughput that the user of each stream sees",
        columns: &columns,
        rows: streams().map(row).collect(),
        note: "an output reports the data read since the previous output".to_owned(),
        chart: "Throughput that outputs tell",
        axes: ["outputs", "throughput, KiB/s"],
        lines: streams().map(line).collect(),
    };
    let mut report = shown.report();
    report.about.extend(needs.warning());
    report.tables.push(needs.table());
    Ok(report)
}

#[cfg(test)]
mod tests {
    use sluice_sim::report::{Chart, Kind};

    use super::*;
    use crate::scenario::changed;

    const SCENARIO: &str = include_str!("../../../scenarios/intelliqos-2.toml");

    /// Runs the figure's scenario, shortened, with changes; returns the numbers of each stream's row.
    fn rows(changes: &[(&str, &str)]) -> Vec<Vec<f64>> {
        let short = changed(SCENARIO, &[("counted = 250", "counted = 40")]);
        let setup = Setup::parse(&changed(&short, changes)).unwrap();
        let report = report(&setup, 1, &mut |_| ()).unwrap();
        let [table, _] = &report.tables[..] else { panic!("two tables: {report:?}") };
        assert!(matches!(&report.charts[..], [Chart { kind: Kind::Lines(lines), .. }]
            if lines.iter().all(|line| line.points.len() == 40)));
        let numbers = |row: &Vec<String>| row[1..].iter().map(|of| of.parse().unwrap()).collect();
        table.rows.iter().map(numbers).collect()
    }

    #[test]
    fn containers_keep_the_promise_and_batches_do_not() {
        for row in rows(&[]) {
            assert!(row[0] == 200.0 && row[1] > 300.0, "{row:?}");
            assert!(row[2] >= 200.0 && row[3] == 0.0, "{row:?}");
        }
        let batches = rows(&[("\"containers\" ", "\"batches\"\nbatch = 16\n")]);
        assert!(batches.iter().all(|row| row[2] < 200.0 && row[3] > 0.0), "{batches:?}");
    }

    /// A third stream like the two of the figure, as far from the second as that is from the first.
    const THIRD: &str = "\n[[stream]]\nname = 'third'\ndepth = 100\npace = '50 us'\nthink = '200 us'\n\
        area = { from = '171119476736 B', span = '128 MiB' }\nlatency = '20 ms'\npromised = '200 KiB'\n";

    #[test]
    fn i3_promises_beyond_the_disk_are_named_and_those_within_it_are_not() {
        for (outputs, third, least, most) in
            [(1, false, 50.0, 75.0), (8, false, 65.0, 90.0), (8, true, 105.0, 140.0)]
        {
            let short = changed(SCENARIO, &[("counted = 250", "counted = 40")]);
            let text = changed(&short, &[("outputs = 1 ", &format!("outputs = {outputs} "))]);
            let text = text + if third { THIRD } else { "" };
            let report = report(&Setup::parse(&text).unwrap(), 1, &mut |_| ()).unwrap();
            let need = &report.tables[1];
            let all: f64 = need.rows.last().unwrap()[4].parse().unwrap();
            assert!(need.file == "need" && (least..most).contains(&all), "{need:?}");
            let late = report.tables[0].rows.iter().any(|row| row[4].parse::<f64>().unwrap() > 5.0);
            let warning = report.about.iter().find(|line| line.starts_with("Warning"));
            assert_eq!((warning.is_some(), late), (third, third), "{:?}", report.about);
            let Some(warning) = warning else { continue };
            let share = warning.split(" % of the disk").next().unwrap();
            let share: f64 = share.rsplit(' ').next().unwrap().parse().unwrap();
            assert!((share - all).abs() < 1.0, "{warning}");
            for fits in ["outputs in a second", "of the promised rates"] {
                assert!(warning.contains(fits), "{warning}");
            }
        }
    }

    #[test]
    fn each_key_changes_what_users_see() {
        // The promise, which comes first, only repeats the scenario.
        let rows = |changes: &[(&str, &str)]| -> Vec<Vec<f64>> {
            rows(changes).into_iter().map(|row| row[1..].to_vec()).collect()
        };
        let before = rows(&[]);
        for change in [
            ("\"containers\" ", "\"vanilla\" "),
            ("\"containers\" ", "\"batches\" "),
            ("outputs = 1 ", "outputs = 5 "),
            ("learning = 10 ", "learning = 0 "),
            ("depth = 100 ", "depth = 10 "),
            ("\"50 us\"", "\"5 ms\""),
            ("\"200 us\"", "\"200 ms\""),
            ("\"4 KiB\"", "\"8 KiB\""),
            ("\"102.4 GB\"", "\"10.24 GB\""),
            ("\"20 ms\"", "\"40 ms\""),
            ("\"200 KiB\"", "\"800 KiB\""),
            ("\n[[stream]]", "\n[disk]\nseek_min = '100 us'\n[[stream]]"),
        ] {
            assert_ne!(rows(&[change]), before, "{change:?}");
        }
        assert_eq!(rows(&[]), before, "the same each time");
    }

    #[test]
    fn no_extreme_of_any_key_ends_in_anything_but_a_report() {
        for change in [
            ("depth = 100 ", "depth = 4096 "),
            ("\"50 us\"", "\"1 h\""),
            ("\"200 us\"", "\"1 h\""),
            ("think = \"200 us\"", ""),
            ("\"4 KiB\"", "\"16 MiB\""),
            ("area = { from = \"102.4 GB\", span = \"128 MiB\" }", ""),
            ("\"20 ms\"", "\"0 s\""),
            ("\"200 KiB\"", "\"15 EiB\""),
        ] {
            rows(&[change]);
        }
    }
}
