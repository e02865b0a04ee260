//! The lab's own test: figures on virtual time do not depend on the load of the host machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use e2e::uml::{Outcome, Target, Transport};

/// The output of a machine, and the files of its figures by their names.
struct Seen {
    text: String,
    figures: BTreeMap<PathBuf, Vec<u8>>,
}

/// Runs a scenario, which must pass. Its name is part of the kernel's command line, which seeds random numbers: runs
/// that are compared have one name.
fn run(name: &str, script: &str, arguments: &[&str]) -> Result<Seen> {
    let machine = e2e::machine(Target::Sluiced, Transport::Tcp, script)?;
    let report = machine.run_as(name, script, arguments)?;
    ensure!(report.outcome() == Some(Outcome::Pass), "{name}: {}", report.why_not());
    let mut figures = BTreeMap::new();
    for name in e2e::files(&report.figures)? {
        let content = fs::read(report.figures.join(&name))?;
        figures.insert(name, content);
    }
    let seen = Seen { text: report.text, figures };
    ensure!(!seen.figures.is_empty(), "the scenario kept no figures");
    Ok(seen)
}

/// Runs `work` while a thread on every core of this machine spins.
fn beside_busy_cores<T>(work: impl FnOnce() -> T) -> Result<T> {
    let cores = std::thread::available_parallelism()?.get();
    let is_over = AtomicBool::new(false);
    Ok(std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = work();
        is_over.store(true, Ordering::Relaxed);
        result
    }))
}

/// Compares a scenario on this machine as it is, and beside a busy loop on every core.
fn same_figures(script: &str, arguments: &[&str]) -> Result<()> {
    let name = [&["twice", script], arguments].concat().join("-");
    let idle = run(&name, script, arguments)?;
    let busy = beside_busy_cores(|| run(&name, script, arguments))??;
    for (before, after) in idle.text.lines().zip(busy.text.lines()) {
        ensure!(before == after, "idle: {before}\nbusy: {after}");
    }
    ensure!(idle.text == busy.text, "one run printed more than the other");
    ensure!(idle.figures.keys().eq(busy.figures.keys()), "one run kept other files");
    for (name, figures) in &idle.figures {
        ensure!(busy.figures.get(name) == Some(figures), "{} differs", name.display());
    }
    Ok(())
}

#[test]
fn busy_cores_change_no_figure_of_a_device() -> Result<()> {
    same_figures("qos-classes", &["passthrough"])
}

#[test]
#[ignore = "make test-long: the other test has all that a machine consists of"]
fn busy_cores_change_no_figure_of_a_network() -> Result<()> {
    same_figures("qtcp-shares", &["read", "dctcp"])
}
