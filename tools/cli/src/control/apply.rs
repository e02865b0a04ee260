//! `sluice apply`: makes the target run a configuration, after it has shown what changes.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::Value;
use sluice_config::answer::Reloaded;
use sluice_config::failure::{Failure, INVALID};
use sluice_config::program::print;
use sluice_config::{call, params};

use super::request::Request;
use super::view;

/// `sluice apply`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ApplyArgs {
    /// The configuration, as `sluiced --config` takes it; - reads it from standard input
    file: PathBuf,
    /// Make the changes without asking
    #[arg(short, long)]
    yes: bool,
    /// Make the changes even if hosts lose access to objects in use
    #[arg(long)]
    force: bool,
}

impl ApplyArgs {
    /// Makes the request that applies a text, or only checks it.
    fn request_for(&self, text: String, check: bool) -> Request {
        let force = self.force && !check;
        Request::of::<call::ConfigApply>(&params::ConfigApply { text, force, check })
    }

    /// Makes the request of an empty configuration, which shows the form of all.
    pub(super) fn request(&self) -> Request {
        self.request_for(String::new(), false)
    }

    fn text(&self) -> Result<String> {
        if self.file == Path::new("-") {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
            return Ok(text);
        }
        let name = self.file.display();
        std::fs::read_to_string(&self.file).with_context(|| format!("cannot read {name}"))
    }
}

/// Shows the changes that lead to a configuration, and makes them unless `only_shows`.
///
/// # Errors
/// The file cannot be read, the daemon refuses, or nobody agreed.
pub(super) fn run(
    args: &ApplyArgs,
    (as_json, only_shows): (bool, bool),
    ask: impl Fn(&Request) -> Result<Value, Failure>,
) -> Result<()> {
    let text = args.text()?;
    let named = |mut failure: Failure| {
        if failure.kind == INVALID {
            let name = args.file.display().to_string();
            failure.message = failure.message.replace("the configuration:", &format!("{name}:"));
        }
        failure
    };
    let answer = ask(&args.request_for(text.clone(), true)).map_err(named)?;
    let planned = view::of::<call::ConfigApply>(&answer)?;
    let is_nothing = planned.changes.is_empty();
    if !as_json {
        print(plan(&planned))?;
    }
    if only_shows || is_nothing {
        return if as_json { print(format!("{answer:#}\n")) } else { Ok(()) };
    }
    if !args.yes {
        agree()?;
    }
    let answer = ask(&args.request_for(text, false)).map_err(named)?;
    let applied = view::of::<call::ConfigApply>(&answer)?;
    print(if as_json { format!("{answer:#}\n") } else { done(&applied) })
}

/// Writes the changes that a configuration would make.
fn plan(planned: &Reloaded) -> String {
    let Reloaded { changes, needs_restart, .. } = planned;
    let same = "The target already runs this configuration; nothing changes.\n";
    let nothing = if changes.is_empty() && needs_restart.is_empty() { same } else { "" };
    nothing.to_owned() + &view::plan(planned)
}

fn done(applied: &Reloaded) -> String {
    let count = super::cells::count(applied.changes.len(), "change");
    let more = match applied.live_changes {
        0 => "The configuration file has them already.\n".to_owned(),
        live => super::config_view::on_top(live) + "Into the file: sluice config save\n",
    };
    format!("Made {count}. {more}")
}

/// Asks whether the changes are to be made.
fn agree() -> Result<()> {
    if !io::stdin().is_terminal() {
        bail!(
            "nothing was changed: standard input is no terminal; --yes makes the changes without asking"
        );
    }
    let mut error = io::stderr();
    let _ = write!(error, "Make these changes? [y/N] ");
    let _ = error.flush();
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => bail!("nothing was changed"),
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::answer::Difference;

    use super::*;

    #[test]
    fn plan_has_changes_restarts_and_notes() {
        let planned = Reloaded {
            changes: vec!["add session gold".into()],
            needs_restart: vec!["target.cores: [0], [1]".into()],
            warnings: vec!["host h has no key".into()],
            live_changes: 1,
            objects: vec![Difference {
                object: "session gold".into(),
                running: Some("iops = 7\n".into()),
                ..Difference::default()
            }],
        };
        assert_eq!(
            plan(&planned),
            "session gold: changed\n  + iops = 7\nSteps:\n  add session gold\n\
             Needs a restart to take effect:\n  target.cores: [0], [1]\n\
             Note:\n  host h has no key\n"
        );
        assert!(plan(&Reloaded::default()).contains("nothing changes"));
        assert_eq!(
            done(&planned),
            "Made 1 change. 1 live change on top of the file: sluice config diff\n\
             Into the file: sluice config save\n"
        );
    }
}
