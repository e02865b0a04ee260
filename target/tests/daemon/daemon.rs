//! A daemon in a process of its own.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use sluice_config::Method;
use sluice_config::client::Connection;
use sluice_config::failure::Failure;

use crate::client::{NQN, free_address};

/// The longest time that a test waits.
const PATIENCE: Duration = Duration::from_secs(100);

/// A folder with a configuration, and a free address.
pub(crate) struct Setup {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) address: SocketAddr,
}

impl Setup {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        Self { folder, address: free_address() }
    }

    /// Writes a configuration with one memory namespace, and more lines at its end.
    pub(crate) fn with(more: &str) -> Self {
        let setup = Self::new();
        setup.write(&setup.text(more));
        setup
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a configuration with one memory namespace, and more lines at its end.
    pub(crate) fn text(&self, more: &str) -> String {
        let (control, state) = (self.path("control.sock"), self.path("state.redb"));
        format!(
            "[target]\ncores = [0]\npoll = \"never\"\nio_memory = \"2 MiB\"\n\
             drain_time = \"5 s\"\ncontrol = \"{}\"\nstate = \"{}\"\n\
             [[listener]]\naddress = \"{}\"\n\
             [[subsystem]]\nnqn = \"{NQN}\"\nallow_any_host = true\n\
             [[subsystem.namespace]]\nnsid = 1\nbackend = \"memory\"\nsize = \"64 MiB\"\n{more}",
            control.display(),
            state.display(),
            self.address
        )
    }

    pub(crate) fn write(&self, text: &str) {
        std::fs::write(self.path("a.toml"), text).unwrap();
    }

    /// Returns a command that starts the daemon.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluiced"));
        command.args(["--log", "stderr", "--config"]).arg(self.path("a.toml"));
        command
    }

    /// Starts the daemon with a limit on the sizes of files, as options of `ulimit`, and waits until it serves.
    pub(crate) fn start_limited(&self, limit: &str) -> Daemon {
        let (command, mut limited) = (self.command(), Command::new("sh"));
        limited.args(["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\"")]);
        limited.arg(command.get_program()).args(command.get_args());
        let daemon = Daemon::spawn(limited, self.path("control.sock"));
        daemon.logged("serving");
        daemon
    }

    /// Starts the daemon, and waits until it serves.
    pub(crate) fn start(&self) -> Daemon {
        // The kernel closes the listener of a daemon that was killed with its ring, which may be
        // after the process has been waited for.
        let start = Instant::now();
        while TcpListener::bind(self.address).is_err() {
            assert!(start.elapsed() < PATIENCE, "{} is not given back", self.address);
            std::thread::sleep(Duration::from_millis(5));
        }
        let daemon = Daemon::spawn(self.command(), self.path("control.sock"));
        daemon.logged("serving");
        daemon
    }
}

/// A running daemon; it is killed when the test ends before it does.
pub(crate) struct Daemon {
    child: Child,
    control: PathBuf,
    log: Arc<Mutex<String>>,
}

impl Daemon {
    pub(crate) fn spawn(mut command: Command, control: PathBuf) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (lines, into) = (BufReader::new(child.stderr.take().unwrap()), Arc::clone(&log));
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                into.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        Self { child, control, log }
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits for a line of the log that has these words. Returns the line.
    pub(crate) fn logged(&self, words: &str) -> String {
        let start = Instant::now();
        loop {
            let log = self.log();
            if let Some(line) = log.lines().find(|line| line.contains(words)) {
                return line.to_owned();
            }
            assert!(start.elapsed() < PATIENCE, "no \"{words}\" in:\n{log}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns how many lines of the log have these words.
    pub(crate) fn count(&self, words: &str) -> usize {
        self.log().lines().filter(|line| line.contains(words)).count()
    }

    pub(crate) fn id(&self) -> i32 {
        self.child.id().try_into().unwrap()
    }

    pub(crate) fn send(&self, signal: Signal) {
        kill(Pid::from_raw(self.id()), signal).unwrap();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits until the daemon has ended. Returns its status, none where a signal ended it.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(start.elapsed() < PATIENCE, "it does not end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Calls a method over the control socket.
    pub(crate) fn call(&self, method: &str, params: Value) -> Result<Value, Failure> {
        let mut connection = Connection::open(&self.control, PATIENCE)?;
        connection.call(Method::from_name(method).unwrap(), &params)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
