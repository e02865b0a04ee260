//! The daemon's command line.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use arbitration::settings::WindowRule;
use clap::{ArgAction, ArgGroup, Parser, ValueEnum};
use sluice_config::{
    Backend, Config, ConfigErrors, Machine, Namespace, Pmem, RegionConfig, SecureChannel,
    format_size,
};

use super::container;
use super::preflight::{self, Findings};
use crate::sys::access;
use crate::sys::version::VERSION_AND_COMMIT;

/// Exit status: the file is valid, and this machine meets its requirements.
const VALID: u8 = 0;
/// Exit status: the file has errors.
const INVALID: u8 = 1;
/// Exit status: the file cannot be read.
const UNREADABLE: u8 = 2;
/// Exit status: the file is valid, but this machine lacks something that it asks for.
const LACKING: u8 = 3;

/// Serves NVMe drives, files and memory to hosts by NVMe over Fabrics.
///
/// Without FILE it serves a 1 GiB memory namespace and a null namespace on 127.0.0.1:4420.
#[derive(Clone, Debug, Parser)]
#[command(name = "sluiced", version = VERSION_AND_COMMIT, max_term_width = 100)]
#[command(group(ArgGroup::new("configuration").args(["file", "config"])))]
pub struct Args {
    /// The configuration to run, or with --check to check
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The configuration, as an option
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check FILE and describe it, check that this machine has what it asks for, and end
    #[arg(long, requires = "configuration")]
    pub check: bool,
    /// With --check: check FILE alone, which may be for another machine
    #[arg(long, requires = "check")]
    pub offline: bool,
    /// What to log: error, warn, info, debug, trace, or a filter such as "sluiced=debug"
    /// [default: $SLUICEGATE_LOG, or info]
    // A variable that clap reads is shown in usage as if it were required.
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// Log more: -v debug, -vv trace
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
    /// Where to log; by default the journal when systemd started the daemon, else stderr
    #[arg(long, value_name = "WHERE", value_enum)]
    pub log: Option<LogTarget>,
    /// Print the manual page sluiced(8)
    #[arg(long, hide = true)]
    pub manual: bool,
}

/// The log's destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogTarget {
    /// The systemd journal, with fields.
    Journald,
    /// Standard error, as text.
    Stderr,
}

impl Args {
    /// Returns the configuration file, however it was named.
    #[must_use]
    pub fn configuration(&self) -> Option<&Path> {
        self.file.as_deref().or(self.config.as_deref())
    }

    /// Returns the configuration to run: the file's, or the embedded one. It comes with notices about
    /// the file.
    ///
    /// # Errors
    /// All faults of the file.
    pub fn load(&self) -> Result<(Config, Vec<String>), ConfigErrors> {
        match self.configuration() {
            Some(file) => Config::load_with_notices(file, &Machine::present(), access::explain),
            None => Config::embedded().map(|config| (config, Vec::new())),
        }
    }

    /// Returns the filter for the log.
    #[must_use]
    pub fn log_filter(&self) -> String {
        let variable = || std::env::var("SLUICEGATE_LOG").ok().filter(|level| !level.is_empty());
        match self.verbose {
            0 => self.log_level.clone().or_else(variable).unwrap_or_else(|| "info".to_owned()),
            1 => "debug".to_owned(),
            _ => "trace".to_owned(),
        }
    }
}

/// Does `--check`: writes to `out` whether `file` is valid and its meaning, and to `errors` its errors and the
/// machine's unmet requirements. With `offline` only the file is checked.
#[must_use]
pub fn check(
    file: &Path,
    offline: bool,
    out: &mut impl Write,
    errors: &mut impl Write,
) -> ExitCode {
    ExitCode::from(check_status(file, offline, out, errors))
}

fn check_status(file: &Path, offline: bool, out: &mut impl Write, errors: &mut impl Write) -> u8 {
    let machine = if offline { Machine::any() } else { Machine::present() };
    // Errors of writing are ignored: the reader has closed the output.
    match Config::load_with_notices(file, &machine, access::explain) {
        Ok((config, notices)) => {
            let _ = write!(out, "{}: valid\n{}", file.display(), summary(&config));
            for notice in &notices {
                let _ = writeln!(errors, "{notice}");
            }
            let found = if offline { Findings::default() } else { preflight::look(&config) };
            for warning in &found.warnings {
                let _ = writeln!(errors, "{}: warning: {warning}", file.display());
            }
            let withheld = if offline { Vec::new() } else { container::find_withheld(&config) };
            for resource in withheld {
                let path = file.display();
                let _ = writeln!(errors, "{path}: warning: the container withholds {resource}");
            }
            for lack in &found.lacks {
                let _ = writeln!(errors, "{}: on this machine: {lack}", file.display());
            }
            if found.lacks.is_empty() { VALID } else { LACKING }
        }
        Err(found) => {
            let count = found.errors.len();
            let unread = found.errors.iter().all(|error| error.line == 0);
            let noun = if count == 1 { "error" } else { "errors" };
            let _ = writeln!(errors, "{found}\n{}: {count} {noun}", file.display());
            if unread { UNREADABLE } else { INVALID }
        }
    }
}

/// Describes a configuration to a person.
#[must_use]
pub fn summary(config: &Config) -> String {
    let target = &config.target;
    let mut lines = vec![format!(
        "  reactors on CPU {:?}, {} of I/O buffers each",
        target.cores,
        format_size(target.io_memory)
    )];
    if let Some(reason) = &target.cores_reason {
        lines.push(format!("  these CPUs were chosen: {reason}"));
    }
    if target.require_authentication {
        lines.push("  all hosts must authenticate".into());
    }
    let must = |required: bool| if required { ", authentication required" } else { "" };
    let state = target.state.as_ref().map(|path| path.display().to_string());
    lines.push(format!(
        "  live changes, and hosts that may come back: {}",
        state.map_or("end with the daemon (no `state`)".into(), |path| format!("kept in {path}"))
    ));
    lines.push(format!("  quality of service: {}", qos(config)));
    for session in &config.qos.sessions {
        let reserve = session.reserve.as_ref().map(|reserve| reserve.terms.to_string());
        let reserve = reserve.map_or(String::new(), |terms| format!(", reserves {terms}"));
        lines.push(format!("  session {}{reserve}", session.name));
    }
    if config.listeners.is_empty() {
        lines.push("  no listener: no host can connect until one is added".into());
    }
    for listener in &config.listeners {
        let what = if listener.discovery_only { ", discovery only" } else { "" };
        let class = listener.class.map_or(String::new(), |class| format!(", class {class}"));
        let tls = match listener.tls {
            SecureChannel::Off => "",
            SecureChannel::Allowed => ", TLS allowed",
            SecureChannel::Required => ", TLS required",
        };
        let must = must(listener.require_authentication);
        lines.push(format!("  listener {}{what}{tls}{must}{class}", listener.endpoint()));
    }
    for subsystem in &config.subsystems {
        let who = match (subsystem.allow_any_host, subsystem.hosts.len()) {
            (true, _) => "any host".into(),
            (false, 0) => "no host allowed yet".into(),
            (false, 1) => "1 host".into(),
            (false, count) => format!("{count} hosts"),
        };
        let must = must(subsystem.require_authentication);
        lines.push(format!("  subsystem {}, {who}{must}", subsystem.nqn));
        lines.extend(subsystem.namespaces.iter().map(namespace));
    }
    if !config.pmem.regions.is_empty() {
        lines.push(match &config.pmem.general {
            Pmem { address: Some(address), capacity: Some(capacity), .. } => {
                format!("  clients of regions connect to {address}, {capacity} I/Os per second")
            }
            _ => "  no `address` in [pmem]: no client can connect to regions".into(),
        });
    }
    lines.extend(config.pmem.regions.iter().map(region));
    lines.join("\n") + "\n"
}

/// Describes `[qos]` in a few words.
fn qos(config: &Config) -> String {
    let general = &config.qos.general;
    if !general.enabled {
        return "off".into();
    }
    let weights = general.order.weights;
    let window = match general.window {
        WindowRule::Off => "no window".into(),
        WindowRule::Fixed(n) => format!("window {n}"),
        WindowRule::Adaptive { .. } => "adaptive window".into(),
    };
    let policies = match config.qos.policies.len() {
        1 => "1 policy".into(),
        count => format!("{count} policies"),
    };
    format!("weights {}:{}:{}, {window}, {policies}", weights.high, weights.medium, weights.low)
}

fn namespace(namespace: &Namespace) -> String {
    let nsid = namespace.id();
    let what = match &namespace.backend {
        Backend::Null { size, .. } => format!("null, {}", format_size(*size)),
        Backend::Memory { size, .. } => format!("memory, {}", format_size(*size)),
        Backend::File { path, size, .. } => {
            let size = size.map_or("the size it has".into(), format_size);
            format!("{}, {size}", path.display())
        }
        Backend::Pmem { path, size, .. } => {
            let size = size.map_or("the size it has".into(), format_size);
            format!("{}, {size}, persistent memory", path.display())
        }
        Backend::Nvme { device, .. } => format!("{}, passthrough", device.display()),
    };
    let mode = if namespace.read_only { ", read only" } else { "" };
    let class = namespace.class.map_or(String::new(), |class| format!(", class {class}"));
    format!("    namespace {nsid}: {what}{mode}{class}")
}

fn region(region: &RegionConfig) -> String {
    let path = region.path.as_ref().map_or("memory".into(), |path| path.display().to_string());
    let size = region.size.map_or("the size it has".into(), format_size);
    let mode = if region.read_only { ", read only" } else { "" };
    let who = match region.hosts.len() {
        0 => "no host allowed yet".into(),
        1 => "1 host".into(),
        count => format!("{count} hosts"),
    };
    format!("    region {}: {path}, {size}{mode}, {who}", region.name)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn the_version_has_the_commit() {
        let text = Args::command().render_version();
        let commit = text.trim_end().strip_suffix(')').and_then(|text| text.split_once("(commit "));
        let Some((_, commit)) = commit else { panic!("{text}") };
        assert_eq!(commit, crate::sys::version::COMMIT);
        assert!(!commit.is_empty() && commit.len() <= 40, "{text}");
    }

    /// Checks a configuration in a file. Returns the status, the output and the errors.
    fn check(folder: &TempDir, text: &str, offline: bool) -> (u8, String, String) {
        let (mut out, mut errors) = (Vec::new(), Vec::new());
        let file = folder.path().join("a.toml");
        std::fs::write(&file, text).unwrap();
        let status = check_status(&file, offline, &mut out, &mut errors);
        (status, String::from_utf8(out).unwrap(), String::from_utf8(errors).unwrap())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
        let args = Args::parse_from(["sluiced", "-vv", "--log", "stderr"]);
        assert_eq!((args.log_filter().as_str(), args.log), ("trace", Some(LogTarget::Stderr)));
        assert!(args.configuration().is_none());
        let parse =
            |words: &str| Args::try_parse_from(["sluiced"].into_iter().chain(words.split(' ')));
        for wrong in
            ["--check a --config b", "--check", "a b", "a -c b", "--offline", "--offline a"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        for right in [
            "--check a --offline",
            "--check --offline a",
            "--offline --check a",
            "-c a --check --offline",
        ] {
            let args = parse(right).unwrap();
            assert!(args.check && args.offline, "{right}");
            assert_eq!(args.configuration(), Some(Path::new("a")), "{right}");
        }
        for run in ["a", "-c a", "--config a", "a --log-level warn"] {
            let args = parse(run).unwrap();
            assert!(!args.check, "{run}");
            assert_eq!(args.configuration(), Some(Path::new("a")), "{run}");
        }
    }

    #[test]
    fn check_tells_valid_from_wrong_from_unreadable() {
        let folder = tempfile::tempdir().unwrap();
        let embedded = sluice_config::render(&Config::embedded().unwrap());
        let (status, out, errors) = check(&folder, &embedded, true);
        assert_eq!((status, errors.as_str()), (0, ""));
        let valid = format!("{}: valid\n", folder.path().join("a.toml").display());
        assert!(out.starts_with(&valid), "{out}");
        let regions = "[[region]]\nname = \"a\"\npath = \"/dev/dax0.0\"\nread_only = true\n\
                       [[region]]\nname = \"b\"\nsize = \"1 MiB\"\nhosts = [\"nqn.2026-01.io.x:h\"]\n";
        let pmem = "[pmem]\naddress = \"10.0.0.1:4430\"\ncapacity = 500\n";
        let required = "require_authentication = true\n";
        let required = format!(
            "[target]\n{required}[[listener]]\naddress = \"10.0.0.1:4420\"\n{required}\
             [[subsystem]]\nnqn = \"nqn.2026-01.io.x:s\"\n{required}"
        );
        for (text, lines) in [
            (embedded.as_str(), &["namespace 1: memory, 1 GiB"][..]),
            (
                regions,
                &[
                    "  no `address` in [pmem]: no client can connect",
                    "    region a: /dev/dax0.0, the size it has, read only, no host allowed yet\n",
                    "    region b: memory, 1 MiB, 1 host\n",
                ],
            ),
            (&(pmem.to_owned() + regions), &["connect to 10.0.0.1:4430, 500 I/Os per second\n"]),
            (
                &required,
                &[
                    "  all hosts must authenticate\n",
                    "  listener 10.0.0.1:4420, authentication required\n",
                    "  subsystem nqn.2026-01.io.x:s, no host allowed yet, authentication required\n",
                ],
            ),
        ] {
            let (_, out, _) = check(&folder, text, true);
            assert!(lines.iter().all(|line| out.contains(line)), "{lines:?}: {out}");
        }
        let former = "[qos]\noperations = 64\n\n[[session]]\nname = \"gold\"\npayload = \"5 %\"\n";
        let (status, _, errors) = check(&folder, former, true);
        assert_eq!(status, 0);
        for line in [
            "a.toml:2: `operations` of [qos] is called `credits` now; the former name still works\n",
            "a.toml:6: `payload` of [[session]] is called `payload_share` now",
        ] {
            assert!(errors.contains(line), "{errors}");
        }
        let (status, out, errors) = check(&folder, "[target]\ncoers = [0]\n", true);
        assert_eq!((status, out.as_str()), (1, ""));
        assert!(errors.contains("a.toml:2:1: unknown key") && errors.ends_with(": 1 error\n"));
        let none = folder.path().join("none");
        assert_eq!(check_status(&none, true, &mut Vec::new(), &mut Vec::new()), 2);
    }

    #[test]
    fn check_warns_of_a_tls_key_that_proves_nothing() {
        use std::os::unix::fs::OpenOptionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let keys = folder.path().join("keys");
        std::fs::create_dir(&keys).unwrap();
        let host = "nqn.2026-01.io.x:h";
        let (_, key) = crate::serve::host_keys::tests::key_file(host, false, true);
        let mut options = std::fs::OpenOptions::new();
        let to = options.write(true).create_new(true).mode(0o600).open(keys.join("h.key"));
        to.unwrap().write_all(key.text().as_bytes()).unwrap();
        let text = format!(
            "[target]\ncontrol = \"{}\"\nhost_keys = \"{}\"\n\
             [[listener]]\naddress = \"127.0.41.87:4420\"\n\
             [[subsystem]]\nnqn = \"nqn.2026-01.io.x:s\"\nhosts = [\"{host}\"]\n",
            folder.path().join("control.sock").display(),
            keys.display()
        );
        let (status, _, errors) = check(&folder, &text, false);
        let warning = "a.toml: warning: the TLS key of host nqn.2026-01.io.x:h ";
        assert!(status == VALID && errors.contains(warning), "{errors}");
        assert_eq!(check(&folder, &text, true).2, "", "the keys of another machine are not here");
        let text = text.replace(host, "nqn.2026-01.io.x:other");
        let (status, _, errors) = check(&folder, &text, false);
        assert!(status == LACKING && errors.contains("no subsystem allows it"), "{errors}");
        let state = format!("state = \"{}\"\nhost_keys", folder.path().join("a.redb").display());
        let (status, _, errors) = check(&folder, &text.replacen("host_keys", &state, 1), false);
        let warning = "warning: host nqn.2026-01.io.x:h has";
        assert!(status == VALID && errors.contains(warning), "{errors}");
    }

    #[test]
    fn check_looks_at_this_machine_unless_the_file_is_for_another() {
        let folder = tempfile::tempdir().unwrap();
        let control = folder.path().join("control.sock");
        let text = format!("[target]\ncontrol = \"{}\"\n", control.display());
        assert_eq!(check(&folder, &text, false).0, VALID);
        let listener = "[[listener]]\naddress = \"192.0.2.1:4420\"\n";
        let cores = format!("{text}cores = [9999]\n{listener}");
        let (status, _, errors) = check(&folder, &cores, false);
        assert_eq!(status, INVALID, "{errors}");
        assert_eq!(check(&folder, &cores, true).0, VALID);
        let text = text + listener;
        let (status, out, errors) = check(&folder, &text, false);
        assert!(status == LACKING && out.contains(": valid\n"), "{out}{errors}");
        assert!(errors.contains("a.toml: on this machine: cannot listen on 192.0.2.1:4420"));
        let (status, _, errors) = check(&folder, &text, true);
        assert_eq!((status, errors.as_str()), (VALID, ""));
    }
}
