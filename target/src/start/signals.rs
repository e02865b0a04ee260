//! The daemon's reactions to signals.
//!
//! | signal | effect | |---|---|
//! | SIGTERM, SIGINT | drains and ends; the second one ends at once |
//! | SIGQUIT | ends at once |
//! | SIGHUP | reads the configuration file again; from a terminal that goes away: as SIGTERM |
//! | SIGUSR1, SIGUSR2, SIGIO, SIGPWR, SIGSTKFLT | nothing, with a line in the log |
//! | SIGALRM, SIGVTALRM, SIGPROF | nothing, with a line in the log |
//! | SIGXFSZ | nothing: a write beyond a limit on file sizes is an error of that write |
//! | SIGXCPU | nothing, with a warning: the limit on CPU time ends the process soon |
//! | SIGPIPE | nothing: Rust programs ignore it, and a write to a closed pipe is an error |
//!
//! Signals of a defect (SIGSEGV, SIGABRT and the like), real-time signals and job control (SIGTSTP) have their
//! default effects.

use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::SignalFd;

/// The signals that are taken; every other one has its default.
const TAKEN: [Signal; 14] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGIO,
    Signal::SIGPWR,
    Signal::SIGSTKFLT,
    Signal::SIGXFSZ,
    Signal::SIGXCPU,
];

/// The code of a signal that the kernel, not a process, has sent (`SI_KERNEL`).
const FROM_KERNEL: i32 = 0x80;

/// The meaning of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To drain and end.
    End,
    /// To end at once.
    EndNow,
    /// To read the configuration file again.
    Reload,
    /// To do nothing.
    Nothing,
    /// To do nothing but warn: the limit on CPU time is reached.
    CpuTime,
}

/// Returns the meaning of a signal; with `kernel`, the kernel sent it.
#[must_use]
pub fn meaning(signal: Signal, kernel: bool) -> Asked {
    match signal {
        Signal::SIGTERM | Signal::SIGINT => Asked::End,
        Signal::SIGQUIT => Asked::EndNow,
        // The daemon's terminal is gone, and nobody could end it from there.
        Signal::SIGHUP if kernel => Asked::End,
        Signal::SIGHUP => Asked::Reload,
        Signal::SIGXCPU => Asked::CpuTime,
        _ => Asked::Nothing,
    }
}

/// The actions of signals on the daemon.
pub trait Daemon {
    /// Drains and ends; with `now`, ends at once.
    fn end(&self, now: bool);
    /// Reads the configuration file again.
    fn reload(&self);
}

/// The signals of this process, from the moment when they were taken.
#[derive(Debug)]
pub struct Signals {
    queue: SignalFd,
}

impl Signals {
    /// Takes the signals. Call this before any thread is started: then all threads leave the signals to the thread
    /// that waits for them, and no signal is lost.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn take() -> nix::Result<Self> {
        let set = SigSet::from_iter(TAKEN);
        set.thread_block()?;
        Ok(Self { queue: SignalFd::new(&set)? })
    }

    /// Does what signals ask for, until the process ends.
    pub fn obey(&self, target: &impl Daemon) {
        let mut ending = false;
        loop {
            let info = match self.queue.read_signal() {
                Ok(Some(info)) => info,
                Ok(None) | Err(nix::errno::Errno::EINTR) => continue,
                Err(error) => {
                    tracing::error!(%error, "signals cannot be read any more");
                    return;
                }
            };
            let number = i32::try_from(info.ssi_signo).unwrap_or_default();
            let Ok(signal) = Signal::try_from(number) else { continue };
            let kernel = info.ssi_code == FROM_KERNEL;
            let sender = match kernel {
                true => "the kernel".to_owned(),
                false => format!("process {} of user {}", info.ssi_pid, info.ssi_uid),
            };
            match meaning(signal, kernel) {
                asked @ (Asked::End | Asked::EndNow) => {
                    let now = ending || asked == Asked::EndNow;
                    let how = if now { "at once" } else { "as soon as commands are done" };
                    tracing::info!(%signal, at_once = now, "a signal from {sender}: ending {how}");
                    target.end(now);
                    if now {
                        // A device that does not answer does not delay the end.
                        std::thread::sleep(Duration::from_secs(1));
                        std::process::exit(1);
                    }
                    ending = true;
                }
                Asked::Reload if ending => {
                    tracing::info!(
                        %signal,
                        "a signal from {sender}: no reload, since the daemon is ending"
                    );
                }
                Asked::Reload => {
                    tracing::info!(
                        %signal,
                        "a signal from {sender}: reading the configuration again"
                    );
                    target.reload();
                }
                Asked::Nothing => tracing::info!(%signal, "a signal from {sender}: nothing to do"),
                Asked::CpuTime => tracing::warn!(
                    "the soft limit on CPU time is reached, and at the hard limit the kernel ends \
                     the daemon: raise both (LimitCPU=, ulimit -t)"
                ),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks all signals whose default ends a process, and that are neither a defect nor SIGKILL.
    #[test]
    fn no_signal_that_somebody_may_send_has_its_default() {
        use Signal::{
            SIGABRT, SIGBUS, SIGCHLD, SIGCONT, SIGFPE, SIGILL, SIGKILL, SIGPIPE, SIGSEGV, SIGSTOP,
            SIGSYS, SIGTRAP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH,
        };
        let defects = [SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP];
        // The last one is ignored by the standard library.
        let untakeable = [SIGKILL, SIGSTOP, SIGPIPE];
        let stop_or_ignored = [SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGCHLD, SIGURG, SIGWINCH];
        let left = [&defects[..], &untakeable, &stop_or_ignored].concat();
        for signal in Signal::iterator() {
            assert!(TAKEN.contains(&signal) != left.contains(&signal), "{signal}");
        }
    }

    #[test]
    fn a_hangup_of_the_terminal_ends_and_one_that_was_sent_reloads() {
        assert_eq!(meaning(Signal::SIGHUP, false), Asked::Reload);
        assert_eq!(meaning(Signal::SIGHUP, true), Asked::End);
        assert_eq!(meaning(Signal::SIGUSR1, false), Asked::Nothing);
        assert_eq!(meaning(Signal::SIGTERM, false), Asked::End);
    }
}
