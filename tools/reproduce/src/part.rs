//! Scenarios of parts of the system: a scenario that is not of a whole target names its part by the key `model`.

use anyhow::{Context as _, anyhow, bail, ensure};
use sluice_sim::command::{Made, run as whole};
use sluice_sim::progress::Progress;
use sluice_sim::report::Report;
use sluice_sim::scenario::{Scenario, ScenarioError};

use super::net::scenario as packets;
use super::{fahrrad, haechi, intelliqos};

/// A kind of scenario that is not of a whole target.
#[derive(Debug)]
struct Kind {
    /// The value of the key `model`.
    name: &'static str,
    /// Reads and checks a scenario.
    read: fn(&str) -> anyhow::Result<Box<dyn Part>>,
}

/// A scenario of a part of the system, as it was read.
trait Part {
    /// Runs the scenario with a seed; without one, with the scenario's. `progress` hears the part of the run
    /// that is done, where the model can tell.
    ///
    /// # Errors
    ///
    /// The model refuses the scenario.
    fn run(&self, seed: Option<u64>, progress: &mut dyn FnMut(f64)) -> anyhow::Result<Report>;
}

const KINDS: &[Kind] = &[
    Kind { name: "packets", read: |text| Ok(Box::new(packets::Scenario::parse(text)?)) },
    Kind { name: "haechi", read: |text| Ok(Box::new(haechi::scenario::read(text)?)) },
    Kind { name: "disk-reservations", read: |text| Ok(Box::new(fahrrad::Setup::parse(text)?)) },
    Kind { name: "disk-containers", read: |text| Ok(Box::new(intelliqos::Setup::parse(text)?)) },
];

impl Part for packets::Scenario {
    fn run(&self, seed: Option<u64>, progress: &mut dyn FnMut(f64)) -> anyhow::Result<Report> {
        Ok(self.report(seed.unwrap_or(self.seed), progress))
    }
}

impl Part for haechi::scenario::Scenario {
    fn run(&self, seed: Option<u64>, _: &mut dyn FnMut(f64)) -> anyhow::Result<Report> {
        self.run(seed)
    }
}

impl Part for fahrrad::Setup {
    fn run(&self, seed: Option<u64>, progress: &mut dyn FnMut(f64)) -> anyhow::Result<Report> {
        fahrrad::report(self, seed.unwrap_or(self.seed), progress)
    }
}

impl Part for intelliqos::Setup {
    fn run(&self, seed: Option<u64>, progress: &mut dyn FnMut(f64)) -> anyhow::Result<Report> {
        intelliqos::report(self, seed.unwrap_or(self.seed), progress)
    }
}

/// Runs a scenario of a part, or else of a whole target.
///
/// # Errors
///
/// The scenario cannot be read or run, or a file cannot be written.
pub(super) fn run(args: &whole::Args, json: bool) -> anyhow::Result<Made> {
    let path = &args.scenario;
    let of = || format!("in the scenario {}", path.display());
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the scenario {}", path.display()))?;
    let Some(part) = read(&text).with_context(of)? else {
        Scenario::parse(&text).map_err(|error| hint(&text, error)).with_context(of)?;
        return whole::run(args, json);
    };
    ensure!(
        args.seeds == 1,
        "--seeds is for scenarios of whole targets: leave it out, or give --seed"
    );
    let mut progress = Progress::begin();
    let mut report = part.run(args.seed, &mut |done| progress.show(done, "")).with_context(of)?;
    report.scenario = text;
    whole::show(&report, args, json, Vec::new())
}

/// Returns the names of all kinds, as an error shows them.
fn names() -> String {
    KINDS.iter().map(|kind| format!("\"{}\"", kind.name)).collect::<Vec<_>>().join(", ")
}

/// Reads a scenario of a part. Returns `None` for a whole target's scenario, which has no key `model`, and for text
/// that is not TOML, for which the reader of whole targets makes the error.
///
/// # Errors
///
/// There is no such model, or the scenario is wrong.
fn read(text: &str) -> anyhow::Result<Option<Box<dyn Part>>> {
    let Ok(file) = text.parse::<toml::Table>() else { return Ok(None) };
    let Some(model) = file.get("model") else { return Ok(None) };
    let Some(kind) = KINDS.iter().find(|kind| model.as_str() == Some(kind.name)) else {
        bail!("`model` is {model}: choose one of {}, or leave it out for a whole target", names());
    };
    (kind.read)(text).map(Some).with_context(|| format!("a scenario with model = {model}"))
}

/// Adds a hint about the other kinds of scenarios to an error from the reader of whole targets. Text that is not TOML
/// gets no hint.
fn hint(text: &str, error: ScenarioError) -> anyhow::Error {
    if text.parse::<toml::Table>().is_err() {
        return error.into();
    }
    anyhow!(
        "{}\nWithout a key `model` a scenario is of a whole target. Parts of the system have one: {}. A scenario \
         of the discrete-time model is for `reproduce dtm`.",
        error.to_string().trim_end(),
        names()
    )
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::figures;
    use crate::scenario::changed;

    /// The path of a scenario that ships.
    fn shipped(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(name)
    }

    #[test]
    fn every_figure_has_a_scenario_of_its_name() {
        for name in figures::all().map(|figure| figure.name) {
            let text = std::fs::read_to_string(shipped(&format!("{name}.toml"))).expect(name);
            if read(&text).expect(name).is_none() {
                Scenario::parse(&text).expect(name).plan(1, &shipped("")).expect(name);
            }
        }
    }

    /// Runs a scenario, and checks its progress. Returns its report.
    fn reported(text: &str, seed: Option<u64>) -> Report {
        let mut parts = Vec::new();
        let part = read(text).unwrap().unwrap();
        let report = part.run(seed, &mut |done| parts.push(done)).unwrap();
        assert!(parts.len() > 5 && parts.is_sorted(), "{parts:?}");
        assert_eq!(parts.last(), Some(&1.0), "all of it is done");
        report
    }

    #[test]
    fn each_has_a_seed_and_a_title_of_its_own_or_one_in_words() {
        for (name, long, short, title) in [
            ("e2e-8", "counted = 1000", "counted = 50", "Classes on one link, packet by packet"),
            ("fahrrad-3", "windows = 100", "windows = 8", "Streams on one disk"),
            ("intelliqos-2", "counted = 250", "counted = 40", "One disk as its users see it"),
        ] {
            let text = std::fs::read_to_string(shipped(&format!("{name}.toml"))).unwrap();
            let text = changed(&text, &[(long, short)]);
            let (first, second) = (reported(&text, None), format!("seed = 2\n{text}"));
            assert_eq!(reported(&second, Some(1)), first, "the seed of the command goes before");
            let second = reported(&second, None);
            assert_eq!(second, reported(&text, Some(2)));
            assert_ne!(second.tables, first.tables, "{title}");
            let line = text.lines().find(|line| line.starts_with("title = ")).unwrap();
            assert_eq!(line, format!("title = \"{}\"", first.title));
            assert_eq!(reported(&text.replace(line, ""), None).title, title);
        }
    }

    #[test]
    fn a_model_that_is_not_there_is_refused_and_none_is_a_whole_target() {
        let error = read("model = 'weather'").err().unwrap().to_string();
        assert!(error.contains("\"weather\"") && error.contains("whole target"), "{error}");
        for wrong in ["3", "[]", "{ name = 'packets' }", "''"] {
            let error = read(&format!("model = {wrong}")).err().unwrap().to_string();
            assert!(error.contains("choose one of \"packets\", \"haechi\""), "{wrong}: {error}");
        }
        assert!(read("title = 'a rack'").unwrap().is_none());
        assert!(read("no TOML").unwrap().is_none());
    }

    fn args(scenario: PathBuf) -> whole::Args {
        whole::Args { scenario, seed: None, seeds: 1, csv: None, plot: None, html: None }
    }

    #[test]
    fn scenarios_of_figures_run_by_themselves() {
        let apps = &["App1", "App2", "App3"][..];
        let classes = &["High", "Medium", "Low"][..];
        let folder = tempfile::tempdir().unwrap();
        for (name, hosts, more) in [
            ("e2e-8.toml", classes, &[][..]),
            ("e2e-9.toml", classes, &[]),
            ("e2e-10.toml", classes, &[]),
            ("e2e-16.toml", apps, &[]),
            ("e2e-17.toml", apps, &[]),
            ("e2e-20.toml", classes, &["PM"]),
            ("e2e-21.toml", classes, &["PM"]),
            ("e2e-22.toml", classes, &["PM"]),
            ("e2e-22b.toml", classes, &["PM"]),
            ("e2e-23.toml", apps, &["PM"]),
        ] {
            let text = std::fs::read_to_string(shipped(name)).unwrap();
            let brief = |line: &str| match line.split(" = ").next() {
                Some("duration") => "duration = '4 ms'\n".to_owned(),
                Some("warmup") => "warmup = '4 ms'\n".to_owned(),
                Some("counted") => "counted = 50\n".to_owned(),
                _ => format!("{line}\n"),
            };
            let path = folder.path().join(name);
            std::fs::write(&path, text.lines().map(brief).collect::<String>()).unwrap();
            let shown =
                run(&args(path), false).unwrap_or_else(|error| panic!("{name}: {error:#}")).text;
            for host in hosts.iter().chain(more) {
                assert!(shown.lines().any(|line| line.starts_with(host)), "{name}: {shown}");
            }
        }
    }

    #[test]
    fn what_is_wrong_with_a_scenario_is_told_with_its_file() {
        let error = format!("{:#}", run(&args(shipped("congestion.toml")), false).unwrap_err());
        for says in ["congestion.toml", "`class`", "reproduce dtm", "`model`", "\"packets\""] {
            assert!(error.contains(says), "{says}: {error}");
        }
        let several = whole::Args { seeds: 2, ..args(shipped("e2e-9.toml")) };
        let error = format!("{:#}", run(&several, false).unwrap_err());
        assert!(error.contains("leave it out, or give --seed"), "{error}");
    }
}
