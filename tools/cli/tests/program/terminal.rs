//! Tests on terminals of several widths, and on terminals that go away.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::daemon::{Daemon, output};
use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::sys::termios::{FlowArg, LocalFlags, Termios, tcflow, tcgetattr};
use nix::unistd::Pid;
use rustix::termios::Winsize;
use serde_json::json;

/// A time within which everything happens that should.
const LONG: Duration = Duration::from_secs(60);

/// A terminal of 80 columns with a program, whose errors go elsewhere.
struct Screen {
    master: Option<PtyMaster>,
    slave: OwnedFd,
    before: Termios,
    child: Child,
    seen: Vec<u8>,
}

impl Screen {
    /// Runs `sluice` with its arguments; where it is not `flowing` the terminal takes no output.
    fn run(daemon: &Daemon, line: &str, flowing: bool) -> Self {
        Self::with_errors(daemon, line, flowing, |_| Stdio::piped())
    }

    /// Runs `sluice` with standard error where `errors` says, which gets the terminal.
    fn with_errors(
        daemon: &Daemon,
        line: &str,
        flowing: bool,
        errors: impl Fn(&OwnedFd) -> Stdio,
    ) -> Self {
        // This does not use openpty: a program of another test that inherits the master keeps the
        // terminal.
        let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let master = posix_openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let terminal = open(ptsname_r(&master).unwrap().as_str(), flags, Mode::empty()).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&terminal, size).unwrap();
        let before = tcgetattr(&terminal).unwrap();
        if !flowing {
            tcflow(&terminal, FlowArg::TCOOFF).unwrap();
        }
        let slave = || Stdio::from(terminal.try_clone().unwrap());
        let mut sluice = daemon.sluice(line);
        sluice.env("TERM", "xterm").stdin(slave()).stdout(slave()).stderr(errors(&terminal));
        let child = sluice.spawn().unwrap();
        Self { master: Some(master), slave: terminal, before, child, seen: Vec::new() }
    }

    /// Reads the output of a tenth of a second.
    fn read(&mut self) {
        let master = self.master.as_ref().unwrap();
        let mut waited = [PollFd::new(master.as_fd(), PollFlags::POLLIN)];
        poll(&mut waited, PollTimeout::from(100u16)).unwrap();
        if waited[0].any() == Some(true) {
            let mut chunk = [0; 4096];
            let length = nix::unistd::read(master, &mut chunk).unwrap_or(0);
            self.seen.extend_from_slice(&chunk[..length]);
        }
    }

    /// Waits until the output contains `text`.
    fn until(&mut self, text: &str) {
        let begun = Instant::now();
        while !String::from_utf8_lossy(&self.seen).contains(text) {
            assert!(begun.elapsed() < LONG, "{}", String::from_utf8_lossy(&self.seen));
            self.read();
        }
    }

    /// Waits until keys reach the program one by one.
    fn until_raw(&self) {
        let begun = Instant::now();
        while tcgetattr(&self.slave).unwrap().local_flags.contains(LocalFlags::ICANON) {
            assert!(begun.elapsed() < LONG);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    /// Waits until the program has ended.
    fn end(&mut self) -> (ExitStatus, String) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if begun.elapsed() > LONG {
                self.child.kill().unwrap();
                panic!("it does not end");
            }
            match self.master {
                Some(_) => self.read(),
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let errors = self.child.stderr.take().map(std::io::read_to_string);
        (status, errors.transpose().unwrap().unwrap_or_default())
    }

    fn assert_restored(&self) {
        assert_eq!(tcgetattr(&self.slave).unwrap(), self.before);
    }
}

#[test]
fn top_ends_with_an_error_when_its_terminal_goes_away() {
    let daemon = Daemon::none();
    let mut screen = Screen::run(&daemon, "top", true);
    screen.until("No answer");
    drop(screen.master.take());
    let (status, errors) = screen.end();
    assert_eq!(status.code(), Some(1), "{errors}");
    assert!(errors.starts_with("sluice: the terminal has gone"), "{errors}");
}

#[test]
fn top_ends_with_an_error_when_nothing_can_be_said_any_more() {
    let daemon = Daemon::none();
    let on_terminal = |terminal: &OwnedFd| Stdio::from(terminal.try_clone().unwrap());
    let mut screen = Screen::with_errors(&daemon, "top", true, on_terminal);
    screen.until("No answer");
    drop(screen.master.take());
    assert_eq!(screen.end().0.code(), Some(1), "no panic");
}

#[test]
fn top_gives_the_terminal_back_when_a_signal_ends_it() {
    for (signal, code, message) in [
        (Signal::SIGTERM, 0, ""),
        (Signal::SIGINT, 0, ""),
        (Signal::SIGHUP, 1, "sluice: the terminal has gone"),
    ] {
        let daemon = Daemon::none();
        let mut screen = Screen::run(&daemon, "top", true);
        screen.until("\x1b[?1049h");
        screen.until("No answer");
        screen.signal(signal);
        let (status, errors) = screen.end();
        assert_eq!(status.code(), Some(code), "{signal}: {errors}");
        assert!(errors.starts_with(message), "{signal}: {errors}");
        assert_eq!(errors.is_empty(), code == 0, "{signal}: {errors}");
        screen.until("\x1b[?1049l");
        screen.assert_restored();
    }
}

#[test]
fn top_ends_on_a_terminal_that_takes_no_output() {
    let daemon = Daemon::none();
    let mut screen = Screen::run(&daemon, "top", false);
    screen.until_raw();
    screen.signal(Signal::SIGTERM);
    let (status, errors) = screen.end();
    assert_eq!((status.code(), errors.as_str()), (Some(0), ""));
    screen.assert_restored();
}

#[test]
fn tables_fit_into_the_terminal_unless_they_are_to_be_whole() {
    let host = "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
    let daemon = Daemon::start(move |_, _| {
        json!({"result": [{"id": 72_057_594_037_927_937u64, "peer": "192.0.2.17:54321",
            "host": host, "subsystem": "nqn.2026-01.com.example:disk2", "controller": 1,
            "queue": 1, "in_flight": 0, "reactor": 0, "digests": [true, true]}]})
    });
    let lines = |line: &str| {
        let mut screen = Screen::run(&daemon, line, true);
        screen.end();
        screen.until("disk2");
        let text = String::from_utf8_lossy(&screen.seen).into_owned();
        text.lines().map(|line| line.trim_end().chars().count()).max().unwrap_or(0)
    };
    assert!(lines("connections") <= 80);
    assert!(lines("connections --wide") > 120);
    let piped = |line: &str| output(&mut daemon.sluice(line)).1;
    let narrow = piped("connections");
    assert!(narrow.contains(host) && narrow.contains("--wide shows all"), "{narrow}");
    assert!(narrow.lines().all(|line| line.chars().count() <= 120), "{narrow}");
    let whole = piped("connections --wide");
    assert!(whole.contains("header, data") && !whole.contains("not shown"), "{whole}");
}
