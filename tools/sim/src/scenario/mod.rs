//! Scenarios: the text that a user writes to ask a question, and the plan that follows from it.
//!
//! A scenario is a TOML file. It describes cables and switches, the target, hosts and their loads; tables that the
//! daemon's configuration has too are spelled as there. An error names the key and the remedy.

mod device;
mod disk;
mod error;
mod file;
mod goal;
mod loads;
mod measurement;
mod outcome;
mod plan;
mod profile;
mod qos;
mod topology;
mod transport;
pub mod value;

use std::path::Path;
use std::time::Duration;

use crate::load::Fault;
use crate::model::Plan;

use self::file::File;

pub use disk::DiskGeometry;
pub use error::ScenarioError;
pub use file::ClassName;
pub use goal::{GoalVerdict, goal_table, worst_of};
pub use measurement::measure;
pub use outcome::{Outcome, Row, Switches, spread};
pub use profile::DeviceProfile;

/// A scenario that was read.
#[derive(Clone, Debug)]
pub struct Scenario {
    file: File,
    text: String,
}

/// A plan, and the faults of the traces in it, which are to be asked for when it has run.
#[derive(Debug)]
pub struct Planned {
    /// Plan.
    pub plan: Plan,
    /// Faults of traces.
    pub faults: Vec<Fault>,
}

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    ///
    /// The text is not TOML, has a key that no scenario has, or lacks one.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let file: File = toml::from_str(text)?;
        Ok(Self { file, text: text.to_owned() })
    }

    /// Returns the seed that the scenario names; 1 where it names none.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.file.seed.unwrap_or(1)
    }

    /// Returns the time from the start to the end of the run, with the warm-up.
    #[must_use]
    pub fn length(&self) -> Duration {
        plan::warmup(&self.file) + self.file.duration.0
    }

    /// Sets whether the target's stage of the network acts, `enabled` in `[network]`.
    pub const fn set_network_classes(&mut self, enabled: bool) {
        self.file.network.enabled = Some(enabled);
    }

    /// Divides the time that is measured by a number; the warm-up stays as long as it is.
    pub fn shorten(&mut self, by: u32) {
        self.file.warmup = Some(value::Time(plan::warmup(&self.file)));
        self.file.duration.0 /= by.max(1);
    }

    /// Makes the plan with a seed. Traces are files beside the scenario, in `folder`.
    ///
    /// # Errors
    ///
    /// A value is out of its range, something is named that is not there, or a trace cannot be read.
    pub fn plan(&self, seed: u64, folder: &Path) -> Result<Planned, ScenarioError> {
        plan::planned(&self.file, seed, folder)
    }
}

#[cfg(test)]
mod tests;
