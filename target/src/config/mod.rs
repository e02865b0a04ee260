//! The configuration: TOML in, typed and checked values out.
//!
//! A value is read by a reader (`values`) that says what would be right; `fields` takes the
//! settings out of a table and reports the unknown ones; `check` compares values with each other.
//! Errors are collected, so that one run names them all.

mod address;
mod backend;
mod check;
pub(crate) mod endpoint;
pub(crate) mod entry;
mod errors;
pub(crate) mod fields;
mod host;
mod identity;
mod lines;
mod listener;
mod machine;
mod namespace;
pub(crate) mod network;
pub(crate) mod node;
mod parse;
pub(crate) mod pmem;
pub(crate) mod qos;
mod render;
mod subsystem;
mod syntax;
pub(crate) mod table;
mod taken;
mod target;
pub(crate) mod values;
mod whole;

use std::path::Path;

use toml::de::DeTable;

pub use address::{ListenAddress, NoAddress};
pub(crate) use backend::MEMORY_MAX;
pub use backend::{Backend, DeviceModel};
pub(crate) use check::{clash, clash_of_listeners, clash_of_serials};
pub use endpoint::{Endpoint, Transport};
pub(crate) use errors::did_you_mean;
pub use errors::{ConfigError, ConfigErrors};
pub use fabric::controller::{AllowedHost, HostRights, SecureChannel, Sources};
pub(crate) use host::limited_hosts;
pub(crate) use identity::serial_of;
pub use identity::{
    DISCOVERY_NQN, NQN_MAX, check_nqn, derived_nguid, derived_serial, derived_uuid, format_nguid,
    uuid_of_data,
};
pub use listener::Listener;
pub(crate) use listener::channel_name;
pub use machine::Machine;
pub use namespace::Namespace;
pub use network::{DEFAULT_LINK, Goal, LinkConfig, Network};
pub use pmem::{Pmem, PmemConfig, RegionConfig};
pub use qos::{
    DeviceQos, Limits, Order, Policy, Profile, Qos, QosConfig, ROOT as ROOT_SESSION, Reserve,
    Session, is_automatic, split_namespace,
};
pub(crate) use qos::{LimitedSize, LowestRates, RateLimit};
pub use render::render;
pub(crate) use render::{render_subsystem, restart_keys};
pub use sluice_schema::amounts::{format_duration, format_rate, format_size};
pub use sluice_schema::keys::NSID_MAX;
pub use subsystem::Subsystem;
pub(crate) use taken::{Taken, plain_path};
pub use target::{ClockSource, Poll, TargetConfig};
pub use whole::Config;

use errors::Problem;
use fields::Problems;
use node::Node;

/// Largest configuration file in bytes.
const FILE_MAX: u64 = 4 << 20;
/// Writes the error of reading a path, with advice where there is some.
pub type Explain = fn(&std::io::Error, &Path) -> String;

/// The configuration that runs without a file.
const EMBEDDED: &str = include_str!("embedded.toml");

impl Config {
    /// Parses a configuration for this machine. Errors name `file`. All namespaces have NSIDs;
    /// UUIDs, NGUIDs and serial numbers are `None` where they are not given.
    ///
    /// # Errors
    /// All faults, with places and remedies.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigErrors> {
        Self::parse_for(text, file, &Machine::present())
    }

    /// Parses a configuration for a machine.
    ///
    /// # Errors
    /// As [`Config::parse`].
    pub fn parse_for(text: &str, file: &Path, machine: &Machine) -> Result<Self, ConfigErrors> {
        Self::parse_with_notices(text, file, machine).map(|(config, _)| config)
    }

    /// Parses a configuration for a machine. Returns it with a notice for each key that is given by
    /// its former name, with the file and the line.
    ///
    /// # Errors
    /// As [`Config::parse`].
    pub fn parse_with_notices(
        text: &str,
        file: &Path,
        machine: &Machine,
    ) -> Result<(Self, Vec<String>), ConfigErrors> {
        let (root, syntax) = DeTable::parse_recoverable(text);
        let problems = if syntax.is_empty() {
            let problems = Problems::default();
            let config = parse::config(&Node::from_toml(&root), machine, &problems);
            let notices = problems.take_notices();
            let problems = problems.into_vec();
            if problems.is_empty() {
                let notices = notices.into_iter().map(|notice| notice.locate(text));
                let line = |ConfigError { line, message, .. }| {
                    format!("{}:{line}: {message}", file.display())
                };
                return Ok((config, notices.map(line).collect()));
            }
            problems
        } else {
            syntax::problems(&syntax, text)
        };
        let errors = problems.into_iter().map(|problem| problem.locate(text)).collect();
        Err(ConfigErrors { file: file.into(), errors })
    }

    /// Parses bytes, which need not be text.
    ///
    /// # Errors
    /// As [`Config::parse`].
    pub fn parse_bytes(bytes: &[u8], file: &Path) -> Result<Self, ConfigErrors> {
        Self::parse_bytes_for(bytes, file, &Machine::present()).map(|(config, _)| config)
    }

    fn parse_bytes_for(
        bytes: &[u8],
        file: &Path,
        machine: &Machine,
    ) -> Result<(Self, Vec<String>), ConfigErrors> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::parse_with_notices(text, file, machine),
            Err(error) => {
                let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
                let good = String::from_utf8_lossy(good);
                let problem = Problem {
                    span: good.len()..good.len(),
                    path: String::new(),
                    message: "this is not UTF-8 text".into(),
                    remedy: "save the file as UTF-8".into(),
                };
                Err(ConfigErrors { file: file.into(), errors: vec![problem.locate(&good)] })
            }
        }
    }

    /// Reads and parses a configuration file. `explain` says why a file cannot be read.
    ///
    /// # Errors
    /// As [`Config::parse`]; or the file cannot be read.
    pub fn load(path: &Path, explain: Explain) -> Result<Self, ConfigErrors> {
        Self::load_with_notices(path, &Machine::present(), explain).map(|(config, _)| config)
    }

    /// Reads and parses a configuration file for a machine. Returns it with the notices of
    /// [`Config::parse_with_notices`].
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load_with_notices(
        path: &Path,
        machine: &Machine,
        explain: Explain,
    ) -> Result<(Self, Vec<String>), ConfigErrors> {
        let unread = |message: String, remedy: &str| ConfigErrors {
            file: path.into(),
            errors: vec![ConfigError {
                line: 0,
                column: 0,
                text: String::new(),
                width: 0,
                message,
                remedy: remedy.into(),
            }],
        };
        let limit = format!("the file is larger than {}", format_size(FILE_MAX));
        match machine::read_limited(path, FILE_MAX) {
            Ok(Some(bytes)) => Self::parse_bytes_for(&bytes, path, machine),
            Ok(None) => Err(unread(limit, "is this the right file?")),
            Err(error) => Err(unread(
                format!("cannot read the configuration: {}", explain(&error, path)),
                "check the path and its permissions",
            )),
        }
    }

    /// Returns the configuration that runs without a file: one subsystem on the loopback address
    /// with a memory and a null namespace, for any host.
    ///
    /// # Errors
    /// None in practice: the text is part of the program and a test parses it.
    pub fn embedded() -> Result<Self, ConfigErrors> {
        Self::parse(EMBEDDED, Path::new("<embedded>"))
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
