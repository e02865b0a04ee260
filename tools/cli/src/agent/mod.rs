//! `sluice agent`: keeps all processes of a client node within the node's credits (docs/research/sources.md, D6, F5, F6).
//!
//! - [`sysfs`]: the subsystems that the kernel host is connected to, with their disks.
//! - [`link`]: the association with a target, which reports the node's backlog and reads its credits.
//! - [`node`]: one subsystem's part of the agent, in a thread of its own.
//! - [`division`]: how a session's rates are divided among control groups; [`cgroups`]: their counts and limits.
//! - [`pools`]: the pools of sessions; [`shared`]: the state of all threads.
//!
//! Programs of the client library take credits from a segment of shared memory for each session (`sluice-credits`).

mod cgroups;
mod division;
mod link;
mod node;
mod notes;
pub(crate) mod pools;
mod shared;
mod sysfs;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use signal_hook::consts::{SIGINT, SIGTERM};
use sluice_config::program;
use sluice_credits::Pool;

use cgroups::ControlGroups;
use node::NodeSubsystem;
use notes::note;
use pools::POOL;
use shared::{Shared, lock};
use sysfs::{Names, Subsystem};

/// The list of limits that were written into control groups, in the folder of credits.
const LIST: &str = "limits.list";
/// Time after which the agent looks for new subsystems.
const LOOK: Duration = Duration::from_secs(2);

/// Keep all processes of this machine within the credits that Sluicegate targets give it.
///
/// The agent runs beside the kernel's NVMe host. It learns from each connected target what this machine may have
/// outstanding, and tells it what waits here. Programs that use the client library share a pool of credits for each
/// session; all others are limited by `io.max` of their slices and pods. SIGTERM ends it, and its limits
/// with it.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Folder, in a tmpfs, with the pools of credits. New pools have its group if its set-group-ID bit is set.
    #[arg(long, global = true, value_name = "FOLDER", default_value = "/run/sluice-agent")]
    credits: PathBuf,
    /// Mount point of control groups (cgroup v2).
    #[arg(long, global = true, value_name = "FOLDER", default_value = "/sys/fs/cgroup")]
    cgroups: PathBuf,
    /// Set no `io.max`: only programs of the client library are kept within the credits.
    #[arg(long)]
    no_cgroups: bool,
    /// Mount point of sysfs.
    #[arg(long, hide = true, default_value = "/sys")]
    sysfs: PathBuf,
}

#[derive(Clone, Copy, Debug, Subcommand)]
enum Action {
    /// Show the pools of credits.
    Status,
    /// Remove the limits that an agent set and could not remove.
    Undo,
}

/// Runs the agent until a signal ends it, or another action.
///
/// # Errors
/// Folders or control groups cannot be used, with the remedy.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    match args.action {
        Some(Action::Status) => status(&args.credits),
        Some(Action::Undo) => cgroups::undo(&args.cgroups, &args.credits.join(LIST)),
        None => serve(args),
    }
}

fn serve(args: &Args) -> anyhow::Result<()> {
    let folder = &args.credits;
    let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(folder);
    made.with_context(|| {
        format!(
            "the folder {} cannot be made: run the agent as root, or name another with --credits",
            folder.display()
        )
    })?;
    let groups = (!args.no_cgroups).then(|| {
        let opened = ControlGroups::open(&args.cgroups, &folder.join(LIST));
        opened.context("control groups (--no-cgroups does without)")
    });
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let shared = Arc::new(Shared {
        stop,
        sysfs: args.sysfs.clone(),
        credits: folder.clone(),
        groups: groups.transpose()?.map(Mutex::new),
    });
    let mut threads: BTreeMap<Names, JoinHandle<()>> = BTreeMap::new();
    note(&"the agent is ready");
    while !shared.is_stopping() {
        threads.retain(|_, thread| !thread.is_finished());
        match sysfs::subsystems(&shared.sysfs) {
            Ok(found) => {
                for Subsystem { names, .. } in found {
                    if threads.contains_key(&names) {
                        continue;
                    }
                    let node = NodeSubsystem::new(Arc::clone(&shared), names.clone());
                    let thread = std::thread::Builder::new().name("subsystem".to_owned());
                    threads.insert(names, thread.spawn(move || node.run())?);
                }
            }
            Err(error) => note(&format_args!("cannot list NVMe controllers: {error}")),
        }
        shared.sleep(LOOK);
    }
    for (_, thread) in threads {
        let _ = thread.join();
    }
    match &shared.groups {
        Some(groups) => lock(groups).undo(),
        None => Ok(()),
    }
}

/// Prints the pools of a folder.
fn status(folder: &Path) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder)
        .with_context(|| format!("no agent uses {}: start one, sluice agent", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    program::print_line(format_args!(
        "{:<40} {:>11} {:>12}  ENFORCED",
        "SESSION", "COMMANDS", "PAYLOAD KiB"
    ))?;
    for path in paths.iter().filter(|path| path.extension().is_some_and(|end| end == POOL)) {
        let pool = match Pool::attach(path) {
            Ok(pool) => pool,
            Err(error) => {
                note(&error);
                continue;
            }
        };
        let allowance = pool.allowance();
        let operations = Some(allowance.operations).filter(|most| *most != u32::MAX);
        let payload = Some(allowance.payload).filter(|most| *most != u64::MAX);
        let shown =
            |most: Option<u64>| most.map_or_else(|| "-".to_owned(), |most| most.to_string());
        program::print_line(format_args!(
            "{:<40} {:>11} {:>12}  {}",
            pool.session(),
            shown(operations.map(u64::from)),
            shown(payload),
            if pool.is_enforced() { "yes" } else { "no" }
        ))?;
    }
    Ok(())
}
