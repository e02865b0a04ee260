//! A daemon of its own for a test, as a process of this machine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Time that a daemon may take to start.
const START: Duration = Duration::from_secs(20);

/// Time that a daemon may take to end.
const END: Duration = Duration::from_secs(60);

/// The name of the file with the daemon's log.
const LOG: &str = "sluiced.log";

/// A running daemon, which ends when this value is dropped.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    folder: tempfile::TempDir,
    binaries: PathBuf,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The test harness shows this for a test that fails.
        eprint!("{}", self.log());
    }
}

/// Returns `N` different addresses of this machine at which nobody listens.
///
/// # Errors
/// The system has no free port.
pub fn free_addresses<const N: usize>() -> Result<[SocketAddr; N]> {
    let mut addresses = [SocketAddr::from(([0; 4], 0)); N];
    for address in &mut addresses {
        *address = hostile::free_address()?;
    }
    Ok(addresses)
}

impl Daemon {
    /// Starts a daemon. `target`: lines of its table `[target]`; `rest`: all other tables.
    ///
    /// # Errors
    /// The binaries do not build, or the daemon does not come up.
    pub fn start(target: &str, rest: &str) -> Result<Self> {
        Self::start_by(target, rest, |mut command| Ok(command.spawn()?))
    }

    /// Starts a daemon as [`Self::start`] does, whose process `spawn` makes.
    ///
    /// # Errors
    /// The same as of [`Self::start`].
    pub fn start_by(
        target: &str,
        rest: &str,
        spawn: impl FnOnce(Command) -> Result<Child>,
    ) -> Result<Self> {
        let binaries = crate::binaries::built()?;
        let folder = tempfile::tempdir()?;
        let control = folder.path().join("control.sock");
        let config = folder.path().join("sluiced.toml");
        let control = control.display();
        // On virtual time a reactor that polls lets no time pass, and the CPU's counter counts real time.
        let time = if crate::is_on_virtual_time() {
            "clock = \"monotonic\"\npoll = \"never\"\n"
        } else {
            ""
        };
        std::fs::write(
            &config,
            format!("[target]\ncontrol = \"{control}\"\n{time}{target}\n{rest}"),
        )?;
        let mut command = Command::new(binaries.join("sluiced"));
        command.args(["--log-level", "warn", "--log", "stderr", "--config"]).arg(&config);
        command.stderr(std::fs::File::create(folder.path().join(LOG))?);
        let child = spawn(command).context("cannot run sluiced")?;
        let mut daemon = Self { child, folder, binaries };
        let start = Instant::now();
        while !daemon.socket().exists() {
            if let Some(status) = daemon.child.try_wait()? {
                bail!("the daemon ended ({status}):\n{}", daemon.log());
            }
            ensure!(start.elapsed() < START, "the daemon does not come up:\n{}", daemon.log());
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(daemon)
    }

    /// Ends the daemon by SIGTERM. Returns its status and its log.
    ///
    /// # Errors
    /// The daemon does not end.
    pub fn end(mut self) -> Result<(ExitStatus, String)> {
        kill(Pid::from_raw(i32::try_from(self.child.id())?), Signal::SIGTERM)?;
        let status = crate::uml::wait(&mut self.child, END)?.context("the daemon does not end")?;
        Ok((status, self.log()))
    }

    /// Returns the daemon's log.
    fn log(&self) -> String {
        let bytes = std::fs::read(self.folder.path().join(LOG)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the path of the control socket.
    fn socket(&self) -> PathBuf {
        self.folder.path().join("control.sock")
    }

    /// Returns the memory that the daemon has in use (VmRSS), in bytes.
    ///
    /// # Errors
    /// The daemon has ended.
    pub fn resident(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.context("the daemon has ended")?.trim().trim_end_matches(" kB");
        Ok(kib.parse::<u64>()? << 10)
    }

    /// Returns the command `sluice ARGUMENTS`.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.binaries.join("sluice"));
        command.args(arguments).env("SLUICEGATE_CONTROL", self.socket());
        command
    }

    /// Returns the command `sluice bench` for jobs, as `--job` takes them, of hosts that use a subsystem.
    #[must_use]
    pub fn bench(&self, nqn: &str, time: &str, jobs: &[String]) -> Command {
        let mut bench = Command::new(self.binaries.join("sluice"));
        bench.args(["bench", "--json", "--nqn", nqn, "--time", time, "--warmup", "500ms"]);
        if crate::is_on_virtual_time() {
            // A thread that polls lets no time pass.
            bench.arg("--blocking");
        }
        bench.args(jobs.iter().flat_map(|job| ["--job", job]));
        bench
    }

    /// Returns the answer of `sluice ARGUMENTS --json`.
    ///
    /// # Errors
    /// The command fails, with the text that it printed.
    pub fn sluice(&self, arguments: &[&str]) -> Result<Value> {
        Ok(serde_json::from_str(&crate::output(self.command(arguments).arg("--json"))?)?)
    }
}
