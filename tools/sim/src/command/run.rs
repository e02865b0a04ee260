//! `sluice sim run`: a scenario of a user's own, on the target that ships.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, ensure};
use units::{Nanos, nanos};

use super::made::Made;
use crate::jobs;
use crate::model::Model;
use crate::report::Report;
use crate::scenario::{Outcome, Planned, Scenario, ScenarioError, goal_table, spread, worst_of};

/// Arguments of `sluice sim run`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The scenario: a TOML file (docs/use/sim.md).
    pub scenario: PathBuf,
    /// Random seed: the same seed gives the same numbers. Without it the scenario's counts.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Run this number of seeds, on all processors, and show the mean and the spread, too.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub seeds: u16,
    /// Write the tables (CSV) to this folder.
    #[arg(long, value_name = "DIR")]
    pub csv: Option<PathBuf>,
    /// Write the charts (SVG) to this folder.
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,
    /// Write all of it as one page that needs no network to this file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Runs a scenario.
///
/// # Errors
///
/// The scenario cannot be read or run, or a file cannot be written.
pub fn run(args: &Args, json: bool) -> anyhow::Result<Made> {
    let path = &args.scenario;
    let of = || format!("in the scenario {}", path.display());
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the scenario {}", path.display()))?;
    let scenario = Scenario::parse(&text).map_err(|error| hint(&text, error)).with_context(of)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let first = args.seed.unwrap_or(scenario.seed());
    let seeds: Vec<u64> = (0..u64::from(args.seeds)).map(|more| first.wrapping_add(more)).collect();
    let outcomes = all(&scenario, folder, &seeds).with_context(of)?;
    let Some(outcome) = outcomes.first() else { return Err(anyhow!("no seed was run")) };
    let mut report = outcome.report(&scenario, first);
    if outcomes.len() > 1 {
        report.tables.insert(0, spread(&outcomes));
    }
    let goals = worst_of(outcomes.iter().map(|outcome| outcome.goals.as_slice()));
    if let Some(table) = goal_table(&goals)
        && outcomes.len() > 1
    {
        report.tables.retain(|of| of.file != table.file);
        report.tables.insert(0, table);
    }
    let missed = goals.iter().filter(|goal| !goal.is_met());
    show(&report, args, json, missed.map(|goal| format!("goal missed: {}", goal.text())).collect())
}

/// Adds a hint about scenarios with a `model` to an error in a scenario. Text that is not TOML gets no hint.
fn hint(text: &str, error: ScenarioError) -> anyhow::Error {
    if text.parse::<toml::Table>().is_err() {
        return error.into();
    }
    anyhow!(
        "{}\nA scenario without a key `model` is of a whole target. `reproduce run` runs a scenario with one, \
         `reproduce dtm` one of the discrete-time model.",
        error.to_string().trim_end()
    )
}

/// Writes the files that are asked for, and the report as text or JSON. `off` names the goals that were missed.
///
/// # Errors
///
/// A file cannot be written.
pub fn show(report: &Report, args: &Args, json: bool, off: Vec<String>) -> anyhow::Result<Made> {
    let written = write(report, args)?;
    let text = if json { format!("{:#}\n", report.json()) } else { report.text() + &written };
    Ok(Made { text, off })
}

/// Runs all seeds, on all processors.
fn all(scenario: &Scenario, folder: &Path, seeds: &[u64]) -> anyhow::Result<Vec<Outcome>> {
    let run = |seed: &u64, show: &mut dyn FnMut(f64)| one(scenario, folder, *seed, show);
    jobs::run_all(seeds, |_| 1, |_| "", run)?.into_iter().collect()
}

/// Runs one seed. `progress` hears the part of it that is done.
fn one(
    scenario: &Scenario,
    folder: &Path,
    seed: u64,
    progress: &mut dyn FnMut(f64),
) -> anyhow::Result<Outcome> {
    let Planned { plan, faults } = scenario.plan(seed, folder)?;
    let end = Nanos(nanos(scenario.length()));
    let mut model = Model::new(plan)?;
    model.run(end, &mut |now| progress(now.0 as f64 / end.0.max(1) as f64));
    if let Some(fault) = faults.iter().find_map(crate::load::Fault::get) {
        return Err(fault.into());
    }
    Ok(Outcome::of(scenario, &model.report()))
}

/// Writes the files that are asked for. Returns a line with their names.
fn write(report: &Report, args: &Args) -> anyhow::Result<String> {
    let mut files: Vec<(PathBuf, String)> = Vec::new();
    if let Some(folder) = &args.csv {
        let tables = report.tables.iter();
        files.extend(tables.map(|of| (folder.join(format!("{}.csv", of.file)), of.csv())));
    }
    if let Some(folder) = &args.plot {
        let charts = report.charts.iter();
        files.extend(charts.map(|of| (folder.join(format!("{}.svg", of.file)), of.svg())));
    }
    files.extend(args.html.iter().map(|path| (path.clone(), report.html())));
    for folder in [&args.csv, &args.plot].into_iter().flatten() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    }
    for (path, text) in &files {
        ensure!(!path.is_dir(), "{} is a folder: name a file in it", path.display());
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let names: Vec<String> = files.iter().map(|(path, _)| path.display().to_string()).collect();
    Ok(if names.is_empty() { String::new() } else { format!("\nwrote {}\n", names.join(", ")) })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn shipped(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(name)
    }

    fn run(args: &Args) -> anyhow::Result<Made> {
        super::run(args, false)
    }

    fn args(scenario: PathBuf) -> Args {
        Args { scenario, seed: None, seeds: 1, csv: None, plot: None, html: None }
    }

    /// Writes a scenario that ships with shorter times to a folder.
    fn shortened(name: &str, folder: &Path) -> PathBuf {
        let text = std::fs::read_to_string(shipped(name)).unwrap();
        let text = text.replace("\"1 s\"", "\"50 ms\"").replace("\"500 ms\"", "\"20 ms\"");
        let text = text.replace("\"300 ms\"", "\"50 ms\"").replace("\"800 ms\"", "\"20 ms\"");
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    #[test]
    fn the_scenarios_that_ship_run_the_same_each_time_and_write_their_files() {
        for (name, hosts) in [
            ("backup.toml", &["database", "files", "backup"][..]),
            ("urgent.toml", &["index", "high", "medium", "low"][..]),
            ("tenants.toml", &["tenant"][..]),
            ("transports.toml", &["database", "files", "backup"][..]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            let read = |name: &str| std::fs::read_to_string(at(name)).unwrap();
            let path = shortened(name, folder.path());
            let plain = run(&args(path.clone())).unwrap().text;
            let [csv, plot, html] = ["csv", "plot", "page.html"].map(|name| Some(at(name)));
            let text = run(&Args { csv, plot, html, ..args(path) }).unwrap().text;
            assert!(text.starts_with(&plain), "the same numbers: {plain}\n{text}");
            let (table, page) = (read("csv/hosts.csv"), read("page.html"));
            for host in hosts {
                let row = text.lines().find(|line| line.starts_with(host)).unwrap();
                assert!(row.ends_with(" 0"), "no errors: {row}");
                assert!(table.contains(host) && page.contains(host), "{name}: {host}");
            }
            for chart in ["plot/throughput.svg", "plot/latency.svg"] {
                assert!(read(chart).starts_with("<svg"), "{name}: {chart}");
            }
        }
    }

    #[test]
    fn several_seeds_have_a_mean_and_each_is_what_it_is_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = shortened("urgent.toml", folder.path());
        let text = run(&Args { seeds: 3, ..args(path.clone()) }).unwrap().text;
        assert!(text.contains("Mean and standard deviation of 3 seeds"), "{text}");
        let alone = run(&args(path.clone())).unwrap().text;
        let row = alone.lines().find(|line| line.starts_with("index")).unwrap();
        assert!(text.contains(row), "{row}\n{text}");
        let other = run(&Args { seed: Some(2), ..args(path) }).unwrap().text;
        assert!(!other.contains(row), "another seed has other numbers");
    }

    #[test]
    fn missed_goal_fails_the_command_and_json_has_its_verdict() {
        let folder = tempfile::tempdir().unwrap();
        let path = shortened("tenants.toml", folder.path());
        assert!(run(&args(path.clone())).unwrap().off.is_empty(), "24 tenants fit");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace("\"1 ms\"", "\"10 us\"")).unwrap();
        for seeds in [1, 2] {
            let made = super::run(&Args { seeds, ..args(path.clone()) }, true).unwrap();
            let [off] = &made.off[..] else { panic!("one goal: {:?}", made.off) };
            assert!(off.contains("tenant: p99_9") && off.contains("at most 10 us"), "{off}");
            let json: Value = serde_json::from_str(&made.text).unwrap();
            let goals = json["tables"]["goals"].as_array().unwrap();
            assert_eq!((goals.len(), &goals[0]["verdict"]), (1, &Value::from("missed")), "{json}");
            assert!(goals[0]["measured"].as_f64().unwrap() > 10.0, "{json}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_scenario_is_told_with_its_file() {
        let error = format!("{:#}", run(&args("/nowhere/none.toml".into())).unwrap_err());
        assert!(error.contains("/nowhere/none.toml"), "{error}");
        for of_a_part in ["congestion.toml", "e2e-9.toml"] {
            let error = format!("{:#}", run(&args(shipped(of_a_part))).unwrap_err());
            for says in [of_a_part, "`model`", "`reproduce run`", "`reproduce dtm`"] {
                assert!(error.contains(says), "{says}: {error}");
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let path = shortened("urgent.toml", folder.path());
        let text = std::fs::read_to_string(&path).unwrap();
        let trace = "process = 'trace'\nfile = 'trace.csv'\nformat = 'msr'";
        let text = text.replacen("process = \"closed\"\ndepth = 16\nsize = \"64 KiB\"", trace, 1);
        std::fs::write(&path, text).unwrap();
        std::fs::write(folder.path().join("trace.csv"), "1,h,0,Read,0,512,1\n2,h,0,Rea\n").unwrap();
        let error = format!("{:#}", run(&args(path)).unwrap_err());
        assert!(error.contains("urgent.toml") && error.contains("line 2"), "{error}");
    }
}
