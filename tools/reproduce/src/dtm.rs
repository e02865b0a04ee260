//! `reproduce dtm`: the discrete-time model of QTCP on a scenario.

mod scenario;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::models::dtm::{ClassState, Model};
use anyhow::Context as _;

use self::scenario::Scenario;
use super::plot::{self, Line};

/// Rows of the printed table.
const ROWS: usize = 20;
/// The most slots of a run: a year of a link's time is a mistake in the scenario.
const SLOTS: u64 = 20_000_000;

/// Arguments of `reproduce dtm`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The scenario: a TOML file with a link and its classes (share/doc/sluicegate/use/sim.md).
    scenario: PathBuf,
    /// Write plots of window, Q, throughput, queue and latency over time (SVG) to this folder.
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
    /// Random seed, in place of the scenario's own.
    #[arg(long)]
    seed: Option<u64>,
}

/// The model after a slot.
#[derive(Debug)]
struct Sample {
    /// Seconds since the start.
    time: f64,
    /// Packets in the queue.
    queue: f64,
    classes: Vec<ClassState>,
}

/// Runs the scenario. Returns its tables, and writes plots.
///
/// # Errors
///
/// The scenario cannot be read or modelled, or the plots cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<String> {
    let mut scenario = Scenario::read(&args.scenario)?;
    scenario.setup.seed = args.seed.unwrap_or(scenario.setup.seed);
    let samples = samples(&scenario)?;
    let mut text = over_time(&scenario, &samples) + "\n" + &in_the_mean(&scenario, &samples);
    if let Some(folder) = &args.plot {
        let files = draw(&scenario, &samples, folder)?;
        _ = writeln!(text, "\nwrote {} to {}", files.join(", "), folder.display());
    }
    Ok(text)
}

/// Runs the model. Returns every slot of the scenario.
fn samples(scenario: &Scenario) -> anyhow::Result<Vec<Sample>> {
    let mut model = Model::new(scenario.setup.clone())?;
    let mut samples = Vec::new();
    while model.time() < scenario.duration.as_secs_f64() {
        model.step();
        let (time, queue, classes) = (model.time(), model.queue(), model.classes().to_vec());
        samples.push(Sample { time, queue, classes });
        anyhow::ensure!(
            model.slot() < SLOTS,
            "more than {SLOTS} round trips: make the duration shorter or the delays longer"
        );
    }
    Ok(samples)
}

/// Writes throughput, quality and the queue at some times.
fn over_time(scenario: &Scenario, samples: &[Sample]) -> String {
    let mut text = format!("{:>9} {:>8}", "time/ms", "queue");
    for name in &scenario.names {
        _ = write!(text, " | {:>17}", format!("{name} Gbit/s, Q"));
    }
    text.push('\n');
    for part in samples.chunks(samples.len().div_ceil(ROWS).max(1)) {
        let Some(last) = part.last() else { continue };
        let mean = |value: &dyn Fn(&Sample) -> f64| {
            part.iter().map(value).sum::<f64>() / part.len().max(1) as f64
        };
        _ = write!(text, "{:9.3} {:8.0}", last.time * 1e3, mean(&|sample| sample.queue));
        for class in 0..scenario.names.len() {
            let rate = mean(&|sample| of(sample, class, |class| class.carried));
            let quality = mean(&|sample| of(sample, class, |class| class.quality));
            let gigabits = rate * scenario.packet_bits / 1e9;
            _ = write!(text, " | {gigabits:10.2} {quality:6.2}");
        }
        text.push('\n');
    }
    text
}

/// Writes the means of the second half, when windows have settled.
fn in_the_mean(scenario: &Scenario, samples: &[Sample]) -> String {
    let half = samples.get(samples.len() / 2..).unwrap_or_default();
    let mean = |class: usize, value: &dyn Fn(&ClassState) -> f64| {
        half.iter().map(|sample| of(sample, class, value)).sum::<f64>() / half.len().max(1) as f64
    };
    let mut text = format!(
        "in the second half:\n{:12} {:>9} {:>9} {:>8} {:>9} {:>9} {:>9}\n",
        "class", "Gbit/s", "of all", "Q", "window", "queue", "us"
    );
    let rate = |class| mean(class, &|class| class.carried) * scenario.packet_bits / 1e9;
    let total: f64 = (0..scenario.names.len()).map(rate).sum();
    for (class, name) in scenario.names.iter().enumerate() {
        let share = rate(class) / total.max(f64::MIN_POSITIVE) * 100.0;
        _ = writeln!(
            text,
            "{name:12} {:9.2} {share:7.1} % {:8.3} {:9.1} {:9.1} {:9.1}",
            rate(class),
            mean(class, &|class| class.quality),
            mean(class, &|class| class.window),
            mean(class, &|class| class.queue),
            mean(class, &|class| class.latency) * 1e6,
        );
    }
    text
}

fn of(sample: &Sample, class: usize, value: impl Fn(&ClassState) -> f64) -> f64 {
    sample.classes.get(class).map_or(0.0, value)
}

/// A plot: the file's name, its title, and the value of a class.
type Plot = (&'static str, &'static str, fn(&ClassState, packet_bits: f64) -> f64);

const PLOTS: [Plot; 5] = [
    ("window", "Window of a flow (packets)", |class, _| class.window),
    ("quality", "Quality factor Q", |class, _| class.quality),
    ("throughput", "Throughput (Gbit/s)", |class, bits| class.carried * bits / 1e9),
    ("queue", "Packets in the queue", |class, _| class.queue),
    ("latency", "Latency of a packet, one way (us)", |class, _| class.latency * 1e6),
];

/// Writes the plots. Returns their files' names.
fn draw(scenario: &Scenario, samples: &[Sample], folder: &Path) -> anyhow::Result<Vec<String>> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    PLOTS
        .iter()
        .map(|(file, title, value)| {
            let line = |(class, name): (usize, &String)| Line {
                name: name.clone(),
                points: samples
                    .iter()
                    .map(|sample| {
                        let y = of(sample, class, |class| value(class, scenario.packet_bits));
                        (sample.time * 1e3, y)
                    })
                    .collect(),
            };
            let lines = scenario.names.iter().enumerate().map(line).collect();
            let name = format!("{file}.svg");
            plot::write(&folder.join(&name), &plot::lines(title, "time (ms)", lines))?;
            Ok(name)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(name)
    }

    #[test]
    fn e3_the_scenarios_that_ship_run_and_plot() {
        for (name, classes) in [
            ("congestion.toml", ["High", "Medium", "Low"]),
            ("latency.toml", ["database", "files", "backup"]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let plot = Some(folder.path().to_owned());
            let text = run(&Args { scenario: shipped(name), plot, seed: None }).unwrap();
            assert!(classes.iter().all(|class| text.contains(class)), "{text}");
            for (file, title, _) in PLOTS {
                let svg = folder.path().join(format!("{file}.svg"));
                let svg = std::fs::read_to_string(svg).unwrap();
                assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
                assert!(svg.contains(title), "{file}");
                assert!(classes.iter().all(|class| svg.contains(class)), "{file}");
            }
        }
    }

    #[test]
    fn e3_shares_show_in_the_table() {
        let scenario = Scenario::read(&shipped("congestion.toml")).unwrap();
        let text = in_the_mean(&scenario, &samples(&scenario).unwrap());
        for (name, percent) in [("High", 50.0), ("Medium", 33.3), ("Low", 16.7)] {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            let shown: f64 = line.split_whitespace().nth(2).unwrap().parse().unwrap();
            assert!((shown - percent).abs() < 2.0, "{text}");
        }
    }

    #[test]
    fn a_scenario_that_is_not_there_is_named() {
        let args = Args { scenario: "/nowhere/none.toml".into(), plot: None, seed: None };
        let error = format!("{:#}", run(&args).unwrap_err());
        assert!(error.contains("/nowhere/none.toml"), "{error}");
    }
}
