//! The configuration: TOML in, typed and checked values out; and the language of the control socket, whose requests
//! set the same keys. The daemon, the command line and the simulator share both.
//!
//! [`keys`] lists the keys with their values and their meaning, a list for each table of the file; [`protocol`] has
//! the requests and answers. `table` binds each key to its field, once for reading, rendering and answers: a key
//! that is not bound does not compile.
//!
//! A reader (`values`) reads a value, and its errors describe valid values; `fields` reads the settings of a table
//! and reports unknown ones; `check` compares values with each other. Errors are collected, so that one run names
//! them all.
#![forbid(unsafe_code)]

mod address;
pub mod amounts;
mod backend;
mod check;
mod cores;
pub mod endpoint;
pub mod entry;
mod errors;
pub mod fields;
mod host;
mod identity;
pub mod keys;
mod lines;
mod listener;
mod machine;
mod namespace;
pub mod network;
pub mod node;
mod parse;
pub mod pmem;
mod polling;
pub mod program;
pub mod protocol;
pub mod qos;
mod render;
pub mod signature;
mod subsystem;
mod syntax;
pub mod table;
mod taken;
mod target;
pub mod values;
mod whole;

use std::path::Path;

use toml::de::DeTable;

pub use address::{ListenAddress, NoAddress};
pub use amounts::{format_duration, format_rate, format_size};
pub use backend::MEMORY_MAX;
pub use backend::{Backend, DeviceModel};
pub use check::{clash, clash_of_listeners, clash_of_serials};
pub use cores::{ChosenCores, parse_cpu_list};
pub use endpoint::{Endpoint, Transport};
pub use errors::did_you_mean;
pub use errors::{ConfigError, ConfigErrors};
pub use fabric::controller::{AllowedHost, HostRights, SecureChannel, Sources};
pub use host::limited_hosts;
pub use identity::serial_of;
pub use identity::{
    DISCOVERY_NQN, NQN_MAX, check_nqn, derived_nguid, derived_serial, derived_uuid, format_nguid,
    uuid_of_data,
};
pub use keys::{ConfigKey, NSID_MAX, RDMA_BEFORE, Values};
pub use lines::{Lines, quote, quote_list};
pub use listener::Listener;
pub use listener::channel_name;
pub use machine::Machine;
pub use namespace::Namespace;
pub use network::{DEFAULT_LINK, Goal, LinkConfig, Network};
pub use pmem::{Pmem, PmemConfig, RegionConfig};
pub use polling::{ClockSource, Poll};
pub use protocol::{
    Call, Method, Parameter, Params, Setting, Verb, answer, call, client, failure, params, schema,
    wire,
};
pub use qos::{
    DeviceQos, Limits, Order, Policy, Profile, Qos, QosConfig, ROOT as ROOT_SESSION, Reserve,
    Session, is_automatic, split_namespace,
};
pub use qos::{LimitedSize, LowestRates, RateLimit};
pub use render::render;
pub use render::{render_subsystem, restart_keys};
pub use subsystem::Subsystem;
pub use taken::{Taken, plain_path};
pub use target::TargetConfig;
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
    fn parse_bytes(
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
            Ok(Some(bytes)) => Self::parse_bytes(&bytes, path, machine),
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
mod documents;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
