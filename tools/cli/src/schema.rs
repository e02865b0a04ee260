//! `sluice schema`: the JSON Schema of the daemon's methods and answers.

use anyhow::{Result, bail};
use sluice_config::program::print;
use sluice_config::{Method, did_you_mean, schema};

/// Arguments of `sluice schema`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The method, such as session.list; where not given, all
    method: Option<String>,
}

/// Prints the schema of a method, or of all.
///
/// # Errors
/// There is no such method.
pub(crate) fn run(args: &Args) -> Result<()> {
    let methods = match &args.method {
        None => Method::ALL.to_vec(),
        Some(name) => match Method::from_name(name) {
            Some(method) => vec![method],
            None => {
                let names: Vec<&'static str> = Method::ALL.iter().map(|of| of.name()).collect();
                match did_you_mean(name, &names) {
                    Some(other) => {
                        bail!("there is no method \"{name}\"; did you mean \"{other}\"?")
                    }
                    None => bail!("there is no method \"{name}\"; there are {}", names.join(", ")),
                }
            }
        },
    };
    print(format!("{:#}\n", schema(&methods)))
}
