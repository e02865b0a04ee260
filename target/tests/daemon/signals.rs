//! Signals, and the daemon's end.

use fabric::nvme::opcode;
use nix::sys::signal::Signal::{
    SIGALRM, SIGINT, SIGIO, SIGPIPE, SIGPROF, SIGPWR, SIGQUIT, SIGSTKFLT, SIGTERM, SIGUSR1,
    SIGUSR2, SIGVTALRM, SIGXCPU, SIGXFSZ,
};
use serde_json::json;

use crate::client::{connected, io, on, pattern};
use crate::daemon::{Daemon, Setup};

#[test]
fn signals_that_ask_for_nothing_harm_nobody() {
    let setup = Setup::with("");
    let mut daemon = setup.start();
    let (_admin, [mut queue]) = connected(setup.address);
    for signal in [
        SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSTKFLT, SIGXFSZ, SIGXCPU,
        SIGPIPE,
    ] {
        daemon.send(signal);
        if !matches!(signal, SIGPIPE | SIGXCPU) {
            let line = daemon.logged(&format!("signal={signal}"));
            let own = format!("process {}", std::process::id());
            assert!(line.contains("INFO") && line.contains(&own), "{line}");
        }
        queue.write(1, 3, pattern(3, 1, 1));
    }
    assert!(daemon.is_running());
    daemon.send(SIGTERM);
    assert_eq!(daemon.ended(), Some(0));
}

/// A device that takes half a second for each command.
const SLOW: &str = "[[subsystem.namespace]]\nnsid = 2\nbackend = \"null\"\nsize = \"1 MiB\"\n\
    service_time = \"500 ms\"\n";

#[test]
fn sigterm_lets_commands_finish_and_is_no_failure() {
    for signal in [SIGTERM, SIGINT] {
        let setup = Setup::with(SLOW);
        let mut daemon = setup.start();
        let (_admin, [mut queue]) = connected(setup.address);
        let slow = queue.submit(on(2, io(opcode::io::READ, 0, 1)), None, 4096);
        // This command is answered after the slow one has arrived: both came on the same
        // connection.
        queue.read(1, 0, 1);
        daemon.send(signal);
        assert!(queue.wait(slow).0.is_success(), "{signal}");
        assert_eq!(daemon.ended(), Some(0), "{signal}");
        let line = daemon.logged("as soon as commands are done");
        assert!(line.contains(signal.as_str()), "{line}");
    }
}

#[test]
fn a_second_sigterm_and_sigquit_do_not_wait() {
    let slow = SLOW.replace("500 ms", "10 s");
    for signals in [&[SIGTERM, SIGTERM][..], &[SIGQUIT]] {
        let setup = Setup::with(&slow);
        let mut daemon = setup.start();
        let (_admin, [mut queue]) = connected(setup.address);
        queue.submit(on(2, io(opcode::io::READ, 0, 1)), None, 4096);
        queue.read(1, 0, 1);
        for signal in signals {
            daemon.send(*signal);
            daemon.logged(&format!("signal={signal}"));
        }
        daemon.ended();
        assert!(daemon.log().contains("at once"), "{}", daemon.log());
        assert!(!daemon.log().contains("drain_time"), "{}", daemon.log());
    }
}

#[test]
fn the_exit_status_tells_who_asked_for_the_end() {
    let setup = Setup::with("");
    for now in [false, true] {
        let mut daemon = setup.start();
        daemon.call("shutdown", json!({ "now": now })).unwrap();
        assert_eq!(daemon.ended(), Some(150));
    }
    // A signal that comes while the daemon shuts down on request is not the reason of the end.
    let mut daemon = setup.start();
    daemon.call("shutdown", json!({})).unwrap();
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(daemon.id()), SIGTERM);
    assert!(matches!(daemon.ended(), Some(150 | 1)), "{}", daemon.log());
    setup.write("[target]\ncoers = [0]\n");
    let mut daemon = Daemon::spawn(setup.command(), setup.path("control.sock"));
    assert_eq!(daemon.ended(), Some(78));
}

/// A limit on file sizes (`ulimit -f`, `LimitFSIZE=`) sends SIGXFSZ, which ends a process without a
/// handler.
#[test]
fn a_limit_on_file_sizes_is_an_error_and_does_not_end_the_daemon() {
    let setup = Setup::with("");
    let mut daemon = setup.start_limited("-f 0");
    let line = daemon.logged("state.redb");
    assert!(line.contains("ERROR") && line.contains("no space left"), "{line}");
    let error = daemon.call("subsystem.add", json!({ "nqn": "nqn.2026-01.io.x:new" })).unwrap_err();
    assert_eq!(error.kind, "store", "{error}");
    let (_admin, [mut queue]) = connected(setup.address);
    queue.read(1, 0, 1);
    assert!(daemon.is_running());
    daemon.send(SIGTERM);
    assert_eq!(daemon.ended(), Some(0));
}
