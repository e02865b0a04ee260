//! One boot of a user-mode kernel with a scenario as its init process.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// The target that the scenarios connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The daemon under test.
    Sluiced,
    /// The kernel's own target, to prove the scenarios themselves.
    Nvmet,
    /// The daemon as it is installed, started by systemd in a system of its own.
    Service,
}

impl Target {
    /// Returns the target that `SLUICEGATE_E2E_TARGET` names; the daemon where it is not set.
    ///
    /// # Errors
    /// A name that is neither `sluiced` nor `nvmet`.
    pub fn from_environment() -> Result<Self> {
        match std::env::var("SLUICEGATE_E2E_TARGET").as_deref() {
            Err(_) | Ok("" | "sluiced") => Ok(Self::Sluiced),
            Ok("nvmet") => Ok(Self::Nvmet),
            Ok(other) => bail!("SLUICEGATE_E2E_TARGET={other}: sluiced or nvmet"),
        }
    }
}

/// The transport that a scenario's host and target use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// NVMe/TCP.
    Tcp,
    /// NVMe/RDMA, on soft RoCE.
    Rdma,
}

/// The time that a machine's clocks show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// The host machine's time, on a kernel with several CPUs.
    Real,
    /// Virtual time, on a kernel with one CPU: idle time is skipped and computing takes no time, so that
    /// results do not depend on the load of the host machine.
    Virtual,
}

impl Time {
    /// Returns the time that a scenario asks for: virtual with a line `# time: virtual` in its file.
    ///
    /// # Errors
    /// There is no such scenario, or its line names another time.
    pub fn of_scenario(script: &str) -> Result<Self> {
        match words_of(script, "time")?.join(" ").as_str() {
            "" => Ok(Self::Real),
            "virtual" => Ok(Self::Virtual),
            other => {
                bail!("{script}.sh says `# time: {other}`: write `# time: virtual`, or nothing")
            }
        }
    }
}

/// Returns the name of a target, a transport or a time in the environment of scenarios and scripts.
fn name_of(value: impl Debug) -> String {
    format!("{value:?}").to_lowercase()
}

/// Returns the user-mode kernel: `SLUICEGATE_UML` (`SLUICEGATE_UML_VIRTUAL` for virtual time), or the kernel that
/// `tests/lab/build-uml` finds or builds, which takes some minutes the first time.
///
/// # Errors
/// `build-uml` fails, with its own message.
pub fn kernel(time: Time) -> Result<PathBuf> {
    static KERNELS: [OnceLock<Result<PathBuf, String>>; 2] = [const { OnceLock::new() }; 2];
    let [real, virtual_time] = &KERNELS;
    let (variable, kernel) = match time {
        Time::Real => ("SLUICEGATE_UML", real),
        Time::Virtual => ("SLUICEGATE_UML_VIRTUAL", virtual_time),
    };
    if let Some(kernel) = std::env::var_os(variable) {
        return Ok(kernel.into());
    }
    let build = || made_by("build-uml", &[&name_of(time)]).map_err(|e| format!("{e:#}"));
    kernel.get_or_init(build).clone().map_err(|e| anyhow!("no user-mode kernel: {e}"))
}

/// Returns the system with systemd that `tests/lab/build-root` finds or installs, which takes some
/// minutes the first time.
///
/// # Errors
/// `build-root` fails, with its own message.
pub fn system() -> Result<PathBuf> {
    static SYSTEM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let system = SYSTEM.get_or_init(|| made_by("build-root", &[]).map_err(|e| format!("{e:#}")));
    system.clone().map_err(|e| anyhow!("no system to boot: {e}"))
}

/// Returns a folder with the programs of the last commit that has an earlier format of the state file, which
/// `tests/lab/build-earlier` finds or builds; none where the checkout lacks that commit.
///
/// # Errors
/// The commit does not build.
pub fn earlier_build() -> Result<Option<PathBuf>> {
    let folder = made_by("build-earlier", &[])?;
    Ok((!folder.as_os_str().is_empty()).then_some(folder))
}

/// Returns the path that a script of `tests/lab/` prints.
fn made_by(script: &str, arguments: &[&str]) -> Result<PathBuf> {
    let path = crate::root().join("tests/lab").join(script);
    let path = crate::output(Command::new(path).args(arguments))?;
    Ok(path.trim().into())
}

/// Returns the command of a script of `tests/lab/` that boots a machine. It ends with this thread: it has a process group
/// of its own, and would take a processor for as long as its scenario runs.
fn boots(script: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(crate::root().join("tests/lab").join(script));
    command
}

/// The settings of a boot.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The user-mode kernel.
    pub kernel: PathBuf,
    /// The folder with `sluiced` and `sluice`, `/run/bin` inside.
    pub binaries: PathBuf,
    /// A folder with the same programs of another build, `/run/other` inside, for scenarios that change from
    /// one to the other.
    pub other_binaries: Option<PathBuf>,
    /// The target that the scenario connects to.
    pub target: Target,
    /// The transport.
    pub transport: Transport,
    /// The time that its clocks show, which the kernel must be built for.
    pub time: Time,
    /// Time after which the machine is killed.
    pub time_limit: Duration,
}

impl Machine {
    /// Runs a scenario as [`Self::run_as`] does, under the name of its script, its arguments and its transport.
    ///
    /// # Errors
    /// The same as of [`Self::run_as`].
    pub fn run(&self, script: &str, arguments: &[&str]) -> Result<Report> {
        let over = (self.transport == Transport::Rdma).then_some("rdma");
        let name = over.into_iter().chain([script]).chain(arguments.iter().copied());
        self.run_as(&name.collect::<Vec<_>>().join("-"), script, arguments)
    }

    /// Boots and runs `tests/scenarios/SCRIPT.sh ARGUMENTS` until the machine powers off. The output is
    /// kept in `build/e2e/NAME.log`, the files that the scenario puts into `/run/figures` in
    /// `build/e2e/NAME.figures/`.
    ///
    /// # Errors
    /// The files beside the log could not be written, or the kernel could not be started.
    pub fn run_as(&self, name: &str, script: &str, arguments: &[&str]) -> Result<Report> {
        let folder = crate::root().join("build/e2e");
        fs::create_dir_all(&folder)?;
        let figures = folder.join(format!("{name}.figures"));
        match fs::remove_dir_all(&figures) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => fs::create_dir_all(&figures)?,
        }
        let cpus = words_of(script, "cpus")?.join(" ");
        let mut command = if self.target == Target::Service {
            self.service(script, arguments)?
        } else {
            let init = folder.join(format!("{name}.init"));
            let init = self.write_init(&init, &figures, script, arguments)?;
            let mut command = boots("run-uml");
            command.args([&self.kernel, &init]).env("UML_TIME", name_of(self.time));
            command
        };
        if !cpus.is_empty() {
            command.env("UML_CPUS", cpus);
        }
        if let Ok(seed) = std::env::var("PROPTEST_RNG_SEED") {
            command.arg(format!("sluicegate.seed={seed}"));
        }
        let log = folder.join(format!("{name}.log"));
        let output = File::create(&log)?;
        let mut machine = command
            .args(words_of(script, "kernel")?)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .context("cannot boot the machine")?;
        let ended = wait(&mut machine, self.time_limit)?;
        // The kernel is many processes, which are killed as a group.
        kill_group(&machine);
        machine.wait()?;
        Ok(Report { text: read(&log)?, log, figures, timed_out: ended.is_none() })
    }

    /// Boots a system with systemd, where the scenario is a unit.
    fn service(&self, script: &str, arguments: &[&str]) -> Result<Command> {
        let mut command = boots("run-service");
        command.args([&self.kernel, &system()?, &self.binaries]);
        command.arg(script).args(arguments).arg("--");
        Ok(command)
    }

    /// Writes the script that the kernel starts first. Only /run is covered here: the repository
    /// and the build may be anywhere, also below a folder that the scenario covers with tmpfs.
    fn write_init(
        &self,
        path: &Path,
        figures: &Path,
        script: &str,
        arguments: &[&str],
    ) -> Result<PathBuf> {
        let mut mounts = String::new();
        if let Some(folder) = &self.other_binaries {
            let mount =
                format!("mkdir /run/other\nmount --bind '{}' /run/other\n", folder.display());
            mounts.push_str(&mount);
        }
        for made in words_of(script, "mount")? {
            let folder = made_by(&made, &[])?;
            let mount =
                format!("mkdir /run/{made}\nmount --bind '{}' /run/{made}\n", folder.display());
            mounts.push_str(&mount);
        }
        let text = format!(
            "#!/bin/bash\n\
             export PATH=/usr/sbin:/usr/bin:/sbin:/bin\n\
             mount -t tmpfs tmpfs /run\n\
             mkdir -p /run/scenarios /run/formats /run/bin /run/figures\n\
             mount --bind '{}' /run/scenarios\n\
             mount --bind '{}' /run/formats\n\
             mount --bind '{}' /run/bin\n\
             mount --bind '{}' /run/figures\n\
             {mounts}\
             export LAB_TARGET={} LAB_TRANSPORT={} LAB_TIME={}\n\
             exec bash /run/scenarios/{script}.sh {}\n",
            crate::root().join("tests/scenarios").display(),
            crate::root().join("target/src/control/store/formats").display(),
            self.binaries.display(),
            figures.display(),
            name_of(self.target),
            name_of(self.transport),
            name_of(self.time),
            arguments.join(" "),
        );
        fs::write(path, text)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
        Ok(path.into())
    }
}

/// Returns the words in a line `# WHAT: WORDS` of a scenario: arguments of the kernel for `kernel`; the
/// number of CPUs for `cpus`, which is two where the line is missing; the time for `time`; for `mount` scripts
/// of `tests/lab/`, each of which prints a folder that is mounted at `/run/SCRIPT`.
fn words_of(script: &str, what: &str) -> Result<Vec<String>> {
    let path = crate::root().join("tests/scenarios").join(format!("{script}.sh"));
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let begin = format!("# {what}: ");
    let line = text.lines().find_map(|line| line.strip_prefix(&begin)).unwrap_or_default();
    Ok(line.split_whitespace().map(str::to_owned).collect())
}

/// Waits for a process's end; none: the time limit came first.
pub(crate) fn wait(machine: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = machine.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= end {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn kill_group(machine: &Child) {
    if let Ok(group) = i32::try_from(machine.id()) {
        // Nothing left to kill is the usual case.
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
}

fn read(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).replace('\r', ""))
}

/// The output of a machine.
#[derive(Clone, Debug)]
pub struct Report {
    /// The whole output.
    pub text: String,
    /// The file in which the output is kept.
    pub log: PathBuf,
    /// The folder of the files that the scenario put into `/run/figures`.
    pub figures: PathBuf,
    /// Whether the machine was killed at the time limit.
    pub timed_out: bool,
}

/// The end of a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// `RESULT pass`.
    Pass,
    /// `RESULT fail`, with the reason.
    Fail(String),
}

impl Report {
    /// Returns the scenario's result; none where the scenario ended without one.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        let lines = self.text.lines();
        let result = lines.filter_map(|line| line.strip_prefix("RESULT ")).next_back()?;
        match result.strip_prefix("fail ") {
            Some(reason) => Some(Outcome::Fail(reason.into())),
            None => (result.trim_end() == "pass").then_some(Outcome::Pass),
        }
    }

    /// Returns the step that was begun last.
    #[must_use]
    pub fn last_step(&self) -> Option<&str> {
        self.text.lines().filter_map(|line| line.strip_prefix("STEP ")).next_back()
    }

    /// Describes why the scenario did not pass: its own reason, or the step during which it ended.
    #[must_use]
    pub fn why_not(&self) -> String {
        if let Some(Outcome::Fail(reason)) = self.outcome() {
            return reason;
        }
        let why = if self.timed_out { "time limit reached" } else { "ended without a result" };
        match self.last_step() {
            Some(step) => format!("{why}, during: {step}"),
            None => format!("{why}, the kernel did not reach the first step"),
        }
    }

    /// Returns the last `count` lines.
    #[must_use]
    pub fn tail(&self, count: usize) -> String {
        let lines = self.text.lines().collect::<Vec<_>>();
        let first = lines.len().saturating_sub(count);
        lines.get(first..).unwrap_or_default().join("\n")
    }
}
