//! Tests of the daemon behind its unit's filter of system calls: the user-mode kernel that the
//! service's tests boot has no such filters.
#![cfg(target_arch = "x86_64")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command};
use std::str::FromStr as _;

use anyhow::{Context, Result, anyhow, ensure};
use e2e::daemon::{Daemon, free_addresses};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
use syscalls::Sysno;

const NQN: &str = "nqn.2026-01.io.sluicegate:sandbox";

/// Returns the groups of system calls that the unit may name, as systemd lists them.
fn groups() -> Result<BTreeMap<String, Vec<String>>> {
    // The program is run by its own loader: this machine may have no systemd, or an older C
    // library.
    let root = e2e::uml::system()?;
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    let mut analyze = Command::new(root.join("usr/lib64/ld-linux-x86-64.so.2"));
    analyze.arg("--library-path").arg(format!("{0}:{0}/systemd", libraries.display()));
    analyze.arg(root.join("usr/bin/systemd-analyze")).args(["--no-pager", "syscall-filter"]);
    let list = e2e::output(&mut analyze)?;
    let mut groups = BTreeMap::<String, Vec<String>>::new();
    let mut group = None;
    for line in list.lines() {
        if line.starts_with('@') {
            group = Some(groups.entry(line.trim().to_owned()).or_default());
        } else if let (Some(group), name) = (&mut group, line.trim())
            && line.starts_with(' ')
            && !name.starts_with('#')
        {
            group.push(name.to_owned());
        }
    }
    Ok(groups)
}

/// Returns the numbers of the system calls that the unit allows.
fn allowed() -> Result<BTreeSet<i64>> {
    let unit = fs::read_to_string(e2e::root().join("systemd/sluiced.service"))?;
    let filter = unit.lines().find_map(|line| line.strip_prefix("SystemCallFilter="));
    let filter = filter.context("the unit has no SystemCallFilter=")?;
    ensure!(!filter.starts_with('~'), "a list of what is refused: this test knows the other kind");
    let groups = groups()?;
    let mut left = filter.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut numbers = BTreeSet::new();
    while let Some(name) = left.pop() {
        if name.starts_with('@') {
            left.extend(groups.get(&name).with_context(|| format!("no group {name}"))?.clone());
        } else if let Ok(call) = Sysno::from_str(&name) {
            // Other names are of other machines.
            numbers.insert(i64::from(call.id()));
        }
    }
    ensure!(numbers.len() > 200, "{} system calls cannot be all", numbers.len());
    Ok(numbers)
}

/// Makes the program that refuses all other calls, as `SystemCallErrorNumber=EPERM` says.
fn program(allowed: &BTreeSet<i64>) -> Result<BpfProgram> {
    let rules = allowed.iter().map(|&number| (number, Vec::new())).collect();
    let refuse = SeccompAction::Errno(u32::try_from(nix::libc::EPERM)?);
    Ok(SeccompFilter::new(rules, refuse, SeccompAction::Allow, TargetArch::x86_64)?.try_into()?)
}

/// Runs a command behind a filter: processes inherit the filter of the thread that starts them.
fn spawn(mut command: Command, filter: BpfProgram) -> Result<Child> {
    let thread = std::thread::spawn(move || -> Result<Child> {
        seccompiler::apply_filter(&filter)?;
        Ok(command.spawn()?)
    });
    thread.join().map_err(|_| anyhow!("the thread has panicked"))?
}

/// Starts a daemon that may make these system calls, with its files in a folder.
fn start(calls: &BTreeSet<i64>, folder: &Path) -> Result<(Daemon, SocketAddr)> {
    let [address, metrics] = free_addresses()?;
    let at = |name: &str| folder.join(name).display().to_string();
    let target = format!("state = \"{}\"\nmetrics = \"{metrics}\"", at("state.redb"));
    let rest = format!(
        "[[listener]]\naddress = \"{address}\"\n[[subsystem]]\nnqn = \"{NQN}\"\n\
         allow_any_host = true\n[[subsystem.namespace]]\nbackend = \"file\"\npath = \"{}\"\n\
         size = \"64 MiB\"\ncreate = true\n",
        at("disk.img")
    );
    let filter = program(calls)?;
    Ok((Daemon::start_by(&target, &rest, |command| spawn(command, filter))?, address))
}

#[test]
fn the_daemon_runs_with_the_system_calls_of_its_unit() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (daemon, address) = start(&allowed()?, folder.path())?;
    for line in [
        format!("bench -a {address} -n {NQN} --rw randrw --time 500ms"),
        format!("namespace add {NQN} --backend memory --size 32MiB"),
        "connections".to_owned(),
    ] {
        daemon.sluice(&line.split(' ').collect::<Vec<_>>())?;
    }
    let (status, log) = daemon.end()?;
    ensure!(status.success() && !log.contains("not permitted"), "{status}: {log}");
    Ok(())
}

#[test]
fn the_unit_lets_keys_be_looked_up_in_the_kernels_keyring() -> Result<()> {
    let calls = allowed()?;
    for call in [Sysno::keyctl, Sysno::request_key] {
        ensure!(calls.contains(&i64::from(call.id())), "{call} is refused");
    }
    Ok(())
}

#[test]
fn a_filter_without_io_uring_is_named() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut calls = allowed()?;
    ensure!(calls.remove(&i64::from(Sysno::io_uring_setup.id())), "the unit lets it through");
    let error = start(&calls, folder.path()).err().context("it goes on")?.to_string();
    // The remedy depends on whether this test runs in a container.
    let said = error.contains("(exit status: 1)") && error.contains("(seccomp) forbids it");
    ensure!(said, "{error}");
    Ok(())
}
