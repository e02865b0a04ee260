//! Figures, and what they show in text and in plots.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::plot::bars::{self, Bars};
use super::plot::{self, Chart};

/// A figure that can be reproduced.
#[derive(Debug)]
pub(super) struct Figure {
    /// The name on the command line.
    pub(super) name: &'static str,
    /// The description in one line.
    pub(super) about: &'static str,
    /// How it is made.
    pub(super) run: Run,
}

/// The ways to make a figure.
#[derive(Debug)]
pub(super) enum Run {
    /// On a seed, as text: the source's numbers beside ours.
    Text(fn(u64) -> anyhow::Result<String>),
    /// On a seed and a scale, with plots and claims.
    Claims(fn(Request) -> anyhow::Result<Made>),
}

impl Figure {
    /// Makes the figure. Without a scale it has the source's size.
    ///
    /// # Errors
    ///
    /// A model refuses its scenario, or a scale is given to a figure that has none.
    pub(super) fn make(&self, seed: u64, scale: Option<u64>) -> anyhow::Result<Made> {
        match (&self.run, scale) {
            (Run::Text(run), None) => run(seed).map(Made::from),
            (Run::Text(_), Some(_)) => {
                anyhow::bail!("{} has no scale: leave --scale out", self.name)
            }
            (Run::Claims(run), scale) => run(Request { seed, scale: scale.unwrap_or(1) }),
        }
    }
}

/// What a figure is made with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// The seed of all that is random.
    pub(super) seed: u64,
    /// The number by which capacities are divided.
    pub(super) scale: u64,
}

/// A figure that was made.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// The source's numbers beside ours.
    pub(super) text: String,
    /// The plots, each with the name of its file.
    pub(super) plots: Vec<(String, Plot)>,
    /// The results that are neither the source's nor differ as it is declared, one on a line.
    pub(super) off: Vec<String>,
}

/// A plot of a figure.
#[derive(Debug)]
pub(super) enum Plot {
    Lines(Chart<'static>),
    Bars(Bars),
}

impl From<String> for Made {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

impl Made {
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
            match plot {
                Plot::Lines(chart) => plot::svg(&path, chart)?,
                Plot::Bars(chart) => bars::svg(&path, chart)?,
            }
            Ok(path)
        });
        each.collect()
    }
}
