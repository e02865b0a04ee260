//! Figures, and their results in text and in plots.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sluice_sim::claim::{self, Claim};
use sluice_sim::command;
use sluice_sim::report::Chart;

use super::plot;

/// A figure that can be reproduced.
#[derive(Debug)]
pub(super) struct Figure {
    /// The name: the source, and the figure's number there.
    pub(super) name: &'static str,
    /// The description in one line.
    pub(super) about: &'static str,
    /// The way to make it.
    pub(super) run: fn(Request) -> anyhow::Result<Made>,
    /// The time that it takes in seconds on one processor, roughly.
    pub(super) weight: u32,
    /// Whether the figure's capacities can be divided.
    pub(super) scales: bool,
}

impl Figure {
    /// Describes a figure whose capacities cannot be divided.
    pub(super) const fn new(
        name: &'static str,
        weight: u32,
        about: &'static str,
        run: fn(Request) -> anyhow::Result<Made>,
    ) -> Self {
        Self { name, about, run, weight, scales: false }
    }

    /// Makes the figure.
    ///
    /// # Errors
    ///
    /// A model refuses its scenario, or a scale is given to a figure that has none.
    pub(super) fn make(&self, length: &Length) -> anyhow::Result<Made> {
        anyhow::ensure!(
            self.scales || length.scale.is_none(),
            "{} has no scale: leave --scale out",
            self.name
        );
        (self.run)(Request {
            seed: length.seed,
            scale: length.scale.unwrap_or(if length.quick { QUICK_SCALE } else { 1 }),
            quick: length.quick,
        })
    }
}

/// The number by which capacities are divided at reduced length.
const QUICK_SCALE: u64 = 8;

/// The length of runs that a user asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length {
    /// The seed of all random numbers.
    pub(super) seed: u64,
    /// The number by which capacities are divided, where it is given.
    pub(super) scale: Option<u64>,
    /// Whether runs are of reduced length.
    pub(super) quick: bool,
}

/// The parameters of a figure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// The seed of all random numbers.
    pub(super) seed: u64,
    /// The number by which capacities are divided.
    pub(super) scale: u64,
    /// Whether runs are of reduced length.
    pub(super) quick: bool,
}

/// A figure that was made.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// The text that is printed: the source's numbers beside ours, or a scenario's results.
    pub(super) text: String,
    /// The numbers of the source beside ours; none for a user's own scenario.
    pub(super) claims: Vec<Claim>,
    /// The plots, each with the name of its file.
    pub(super) plots: Vec<(&'static str, Chart)>,
    /// The results that are neither the source's nor differ as it is declared, one on a line.
    pub(super) off: Vec<String>,
}

impl From<command::Made> for Made {
    fn from(made: command::Made) -> Self {
        Self { text: made.text, off: made.off, ..Self::default() }
    }
}

impl From<String> for Made {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl Made {
    /// Puts a figure together: its title with the text below it, its claims and its plots.
    pub(super) fn of(
        title: &str,
        claims: Vec<Claim>,
        plots: impl IntoIterator<Item = (&'static str, Chart)>,
    ) -> Self {
        let plots = plots.into_iter().collect();
        let text = format!("{}\n\n{}", title.trim_end(), claim::table(&claims));
        Self { text, plots, off: claim::off(&claims), claims }
    }

    /// Adds another part of the same figure.
    pub(super) fn with(mut self, other: Self) -> Self {
        self.text = format!("{}\n{}", self.text, other.text);
        self.claims.extend(other.claims);
        self.plots.extend(other.plots);
        self.off.extend(other.off);
        self
    }

    /// Writes the plots to a folder, which is made. Returns their paths.
    ///
    /// # Errors
    ///
    /// A file cannot be written.
    pub(super) fn draw(&self, folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let each = self.plots.iter().map(|(name, plot)| {
            let path = folder.join(format!("{name}.svg"));
            plot::write(&path, plot)?;
            Ok(path)
        });
        each.collect()
    }
}
