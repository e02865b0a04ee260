//! A daemon with given answers, for tests of the whole program.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "helpers of tests fail as tests do"
)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// The socket of such a daemon, in a folder that is removed when this is dropped.
pub(crate) struct Daemon {
    folder: tempfile::TempDir,
}

impl Daemon {
    /// Answers each request of each client with what `answer` makes of its method and parameters:
    /// an object with `result` or `error`; nothing at all where it is `null`.
    pub(crate) fn start(answer: impl Fn(&str, &Value) -> Value + Send + 'static) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("control.sock")).unwrap();
        std::thread::spawn(move || {
            // Clients that got no answer stay connected.
            let mut held = Vec::new();
            for stream in listener.incoming().map_while(Result::ok) {
                let mut writer = stream.try_clone().unwrap();
                for line in BufReader::new(&stream).lines().map_while(Result::ok) {
                    let request: Value = serde_json::from_str(&line).unwrap();
                    let mut answer =
                        answer(request["method"].as_str().unwrap(), &request["params"]);
                    if answer.is_null() {
                        break;
                    }
                    answer["id"] = request["id"].clone();
                    // The client may have seen enough.
                    let _ = writer.write_all(format!("{answer}\n").as_bytes());
                }
                held.push(stream);
            }
        });
        Self { folder }
    }

    /// Makes a socket path on which nothing listens.
    pub(crate) fn none() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("control.sock")
    }

    /// Makes the command `sluice` with arguments and this daemon's socket.
    pub(crate) fn sluice(&self, line: &str) -> Command {
        let mut sluice = Command::new(env!("CARGO_BIN_EXE_sluice"));
        sluice.args(line.split(' ')).env("SLUICEGATE_CONTROL", self.socket());
        sluice.env_remove("NO_COLOR");
        sluice
    }
}

/// Runs a command. Returns the exit status, standard output and standard error.
pub(crate) fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}
