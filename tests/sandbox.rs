//! Tests of the daemon behind its unit's filter of system calls: the user-mode kernel that the
//! service's tests boot has no such filters.
#![cfg(target_arch = "x86_64")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::str::FromStr as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};
use syscalls::Sysno;

const NQN: &str = "nqn.2026-01.io.sluicegate:sandbox";

/// Returns the groups of system calls that the unit may name, as systemd lists them.
fn groups() -> Result<BTreeMap<String, Vec<String>>> {
    // The program is run by its own loader: this machine may have no systemd, or an older C
    // library.
    let root = e2e::uml::system()?;
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    let output = Command::new(root.join("usr/lib64/ld-linux-x86-64.so.2"))
        .arg("--library-path")
        .arg(format!("{0}:{0}/systemd", libraries.display()))
        .arg(root.join("usr/bin/systemd-analyze"))
        .args(["--no-pager", "syscall-filter"])
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut groups = BTreeMap::<String, Vec<String>>::new();
    let mut group = None;
    for line in String::from_utf8(output.stdout)?.lines() {
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

/// A daemon that is started in a folder of its own.
struct Daemon {
    folder: tempfile::TempDir,
    binaries: PathBuf,
    address: SocketAddr,
}

impl Daemon {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let free = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
        let [address, metrics] = [free[0].local_addr()?, free[1].local_addr()?];
        drop(free);
        let at = |name: &str| folder.path().join(name).display().to_string();
        let config = format!(
            "[target]\ncontrol = \"{}\"\nstate = \"{}\"\nmetrics = \"{}\"\n\
             [[listener]]\naddress = \"{address}\"\n[[subsystem]]\nnqn = \"{NQN}\"\n\
             allow_any_host = true\n[[subsystem.namespace]]\nbackend = \"file\"\npath = \"{}\"\n\
             size = \"64 MiB\"\ncreate = true\n",
            at("control.sock"),
            at("state.redb"),
            metrics,
            at("disk.img")
        );
        fs::write(folder.path().join("sluiced.toml"), config)?;
        Ok(Self { folder, binaries: e2e::binaries::built()?, address })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self) -> Result<Command> {
        let mut command = Command::new(self.binaries.join("sluiced"));
        let log = File::create(self.path("log"))?;
        command.args(["--log", "stderr", "--config"]).arg(self.path("sluiced.toml"));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(command)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    fn sluice(&self, arguments: &[&str]) -> Result<Output> {
        let mut sluice = Command::new(self.binaries.join("sluice"));
        let control = self.path("control.sock");
        Ok(sluice.args(arguments).env("SLUICEGATE_CONTROL", control).output()?)
    }

    fn does(&self, arguments: &[&str]) -> Result<()> {
        let output = self.sluice(arguments)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "sluice {arguments:?}: {said}\n{}", self.log());
        Ok(())
    }
}

/// Returns the exit status of a process that ends within a minute.
fn ended(child: &mut Child) -> Result<Option<i32>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        if start.elapsed() > Duration::from_secs(60) {
            child.kill()?;
            return Err(anyhow!("it does not end"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn eventually(path: &Path, child: &mut Child, daemon: &Daemon) -> Result<()> {
    let start = Instant::now();
    while !path.exists() {
        ensure!(child.try_wait()?.is_none(), "the daemon has ended: {}", daemon.log());
        ensure!(start.elapsed() < Duration::from_secs(60), "it does not come up: {}", daemon.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[test]
fn the_daemon_runs_with_the_system_calls_of_its_unit() -> Result<()> {
    let daemon = Daemon::new()?;
    let mut child = spawn(daemon.command()?, program(&allowed()?)?)?;
    eventually(&daemon.path("control.sock"), &mut child, &daemon)?;
    let address = daemon.address.to_string();
    let bench = ["bench", "-a", &address, "-n", NQN, "--rw", "randrw", "--time", "500ms"];
    let lived = daemon
        .does(&bench)
        .and_then(|()| {
            daemon.does(&["namespace", "add", NQN, "--backend", "memory", "--size", "32MiB"])
        })
        .and_then(|()| daemon.does(&["connections"]));
    kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGTERM)?;
    let code = ended(&mut child)?;
    lived?;
    ensure!(code == Some(0), "status {code:?}: {}", daemon.log());
    ensure!(!daemon.log().contains("not permitted"), "{}", daemon.log());
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
    let daemon = Daemon::new()?;
    let mut calls = allowed()?;
    ensure!(calls.remove(&i64::from(Sysno::io_uring_setup.id())), "the unit lets it through");
    let mut child = spawn(daemon.command()?, program(&calls)?)?;
    ensure!(ended(&mut child)? == Some(1), "it goes on: {}", daemon.log());
    // The remedy depends on whether this test runs in a container.
    ensure!(daemon.log().contains("(seccomp) forbids it"), "{}", daemon.log());
    Ok(())
}
