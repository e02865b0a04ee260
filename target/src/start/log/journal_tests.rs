//! Tests of the entries that the journal receives, at a socket that stands in for it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IoSliceMut, Read, Seek, SeekFrom};
use std::os::fd::FromRawFd;
use std::sync::Arc;

use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, recvmsg};
use tracing_subscriber::layer::SubscriberExt;

use super::*;
use crate::control::events::EventRing;
use crate::start::log::events::Events;

/// The fields of one entry.
type Fields = BTreeMap<String, String>;

/// A socket that stands in for the journal's.
struct Receiver {
    socket: UnixDatagram,
    folder: tempfile::TempDir,
}

impl Receiver {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("socket")).unwrap();
        socket.set_nonblocking(true).unwrap();
        Self { socket, folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Returns the entries of `log`, as the journal reads them.
    fn receive(&self, log: impl FnOnce()) -> Vec<Fields> {
        let journal = Journal::connect(&self.path()).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(journal), log);
        self.entries()
    }

    fn entries(&self) -> Vec<Fields> {
        let entries = std::iter::from_fn(|| self.datagram());
        entries.filter(|entry| !entry.is_empty()).map(|entry| parse(&entry)).collect()
    }

    /// Receives the next datagram, or the file that it carries.
    fn datagram(&self) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 1 << 20];
        let mut space = cmsg_space!(std::os::fd::RawFd);
        let (length, file) = {
            let mut parts = [IoSliceMut::new(&mut buffer)];
            let socket = self.socket.as_raw_fd();
            let message =
                recvmsg::<UnixAddr>(socket, &mut parts, Some(&mut space), MsgFlags::empty())
                    .ok()?;
            let file = message.cmsgs().unwrap().find_map(|message| match message {
                // SAFETY: the kernel has just made this descriptor for us, and nobody else has it.
                ControlMessageOwned::ScmRights(fds) => Some(unsafe { File::from_raw_fd(fds[0]) }),
                _ => None,
            });
            (message.bytes, file)
        };
        buffer.truncate(length);
        if let Some(mut file) = file {
            let seals = fcntl(file.as_fd(), FcntlArg::F_GET_SEALS).unwrap();
            let wanted = SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW;
            assert!(SealFlag::from_bits_truncate(seals).contains(wanted), "or journald refuses it");
            file.seek(SeekFrom::Start(0)).unwrap();
            file.read_to_end(&mut buffer).unwrap();
        }
        Some(buffer)
    }
}

/// Reads an entry as journald does: `NAME=value` and the end of the line; or `NAME`, the end of
/// the line, 64 bits of length, the value, and the end of the line.
fn parse(mut entry: &[u8]) -> Fields {
    let mut fields = Fields::new();
    while !entry.is_empty() {
        let end = entry.iter().position(|byte| *byte == b'\n').unwrap();
        let line = std::str::from_utf8(&entry[..end]).unwrap();
        entry = &entry[end + 1..];
        let (name, value) = match line.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => {
                let length = u64::from_le_bytes(entry[..8].try_into().unwrap());
                let (value, rest) = entry[8..].split_at(usize::try_from(length).unwrap());
                assert_eq!(rest[0], b'\n');
                entry = &rest[1..];
                (line, String::from_utf8(value.to_vec()).unwrap())
            }
        };
        let right = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        assert!(name.chars().all(right) && name.len() <= 64 && !name.starts_with('_'), "{name}");
        assert_eq!(fields.insert(name.to_owned(), value), None, "{name} twice");
    }
    fields
}

#[test]
fn a_message_carries_its_fields_and_each_is_one_of_its_own() {
    let nqn = "nqn.2026-01.io.x:a";
    let error = "cannot open /srv/1.img";
    let seen = Receiver::new().receive(|| {
        tracing::error!(subsystem = nqn, nsid = 7, %error, "namespace left out");
        tracing::info!("{}", "serving");
    });
    assert_eq!(seen.len(), 2);
    let first = &seen[0];
    assert_eq!(
        first["MESSAGE"],
        "namespace left out subsystem=\"nqn.2026-01.io.x:a\" nsid=7 error=cannot open /srv/1.img"
    );
    assert_eq!(first["SLUICEGATE_SUBSYSTEM"], nqn);
    assert_eq!(first["SLUICEGATE_NSID"], "7");
    assert_eq!(first["SLUICEGATE_ERROR"], error);
    assert_eq!(first["SYSLOG_IDENTIFIER"], "sluiced");
    assert_eq!(first["SLUICEGATE_MODULE"], module_path!());
    assert!(first["CODE_FILE"].ends_with("journal_tests.rs"));
    assert_eq!(seen[1]["MESSAGE"], "serving");
}

#[test]
fn the_message_is_what_standard_error_shows() {
    let event = || tracing::warn!(peer = %"10.0.0.1:9", total = 3u64, why = "a \"b\"", "refused");
    let seen = Receiver::new().receive(event);
    let mut written = tempfile::tempfile().unwrap();
    let text = tracing_subscriber::fmt::layer().with_ansi(false).without_time();
    let text = text.with_target(false).with_level(false);
    let text = text.with_writer(Arc::new(written.try_clone().unwrap()));
    tracing::subscriber::with_default(tracing_subscriber::registry().with(text), event);
    written.rewind().unwrap();
    let line = std::io::read_to_string(written).unwrap();
    assert_eq!(seen[0]["MESSAGE"], line.trim());
}

#[test]
fn events_in_memory_are_the_journals_records() {
    let receiver = Receiver::new();
    let journal = Journal::connect(&receiver.path()).unwrap();
    let ring: Arc<EventRing> = Arc::default();
    let events = Events(Arc::clone(&ring));
    let registry = tracing_subscriber::registry().with(events).with(journal);
    tracing::subscriber::with_default(registry, || {
        tracing::info!(host = "nqn.h", nsid = 3, "a host has left");
        tracing::warn!(error = %"gone", why = ?Some("a b"), "lines\nof {}", "text");
        tracing::debug!("for developers");
    });
    let mut entries = receiver.entries();
    entries.retain(|entry| entry["PRIORITY"] != "7");
    let records = ring.after(0).records;
    assert_eq!((entries.len(), records.len()), (2, 2));
    for (entry, record) in entries.iter().zip(&records) {
        assert_eq!(entry["MESSAGE"], record.line.as_str());
        assert_eq!(entry["PRIORITY"], priority(record.level));
        assert_eq!(entry["SLUICEGATE_MODULE"], record.module);
        for (name, value) in record.fields() {
            assert_eq!(entry[&journal_name(name)], value, "{name}");
        }
        let own = entry.keys().filter(|name| name.starts_with(PREFIX)).count();
        assert_eq!(own, record.fields().count() + 1, "the module is no field of a record");
    }
}

#[test]
fn levels_are_the_journals_priorities() {
    let seen = Receiver::new().receive(|| {
        tracing::error!("e");
        tracing::warn!("w");
        tracing::info!("i");
        tracing::debug!("d");
    });
    let priorities: Vec<&str> = seen.iter().map(|entry| entry["PRIORITY"].as_str()).collect();
    assert_eq!(priorities, ["3", "4", "6", "7"]);
}

#[test]
fn values_of_several_lines_and_of_any_length_arrive_whole() {
    let lines = "first=1\nsecond\n\nPRIORITY=0\n";
    let long = "x".repeat(1 << 20);
    let seen = Receiver::new().receive(|| {
        tracing::warn!(why = lines, "{lines}");
        tracing::warn!(reason = long.as_str(), "long");
    });
    assert_eq!(seen[0]["SLUICEGATE_WHY"], lines);
    assert!(seen[0]["MESSAGE"].starts_with(lines));
    assert_eq!(seen[0]["PRIORITY"], "4", "a value cannot pretend to be a field");
    assert_eq!(seen[1]["SLUICEGATE_REASON"], long);
    assert!(seen[1]["MESSAGE"].ends_with(&format!("{long}\"")));
}

#[test]
fn a_journal_that_is_stuck_holds_nobody_up_and_the_loss_is_told() {
    let receiver = Receiver::new();
    let journal = Journal::connect(&receiver.path()).unwrap();
    let registry = tracing_subscriber::registry().with(journal);
    tracing::subscriber::with_default(registry, || {
        for _ in 0..100_000 {
            tracing::info!("nobody reads this");
        }
        let lost = 100_001 - std::iter::from_fn(|| receiver.datagram()).count();
        assert!(lost > 0);
        tracing::info!("again");
        let entry = parse(&receiver.datagram().unwrap());
        let words = format!("again (the journal did not take {lost} messages before this one)");
        assert_eq!(entry["MESSAGE"], words);
    });
}

#[test]
fn names_are_such_as_the_journal_takes() {
    assert_eq!(journal_name("at_once"), "SLUICEGATE_AT_ONCE");
    assert_eq!(journal_name("error.kind"), "SLUICEGATE_ERROR_KIND");
    assert_eq!(journal_name(&"é".repeat(100)).len(), NAME_MAX);
}

#[test]
fn nobody_at_the_socket_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Journal::connect(&folder.path().join("none")).is_err());
}

/// Returns the names of the fields in one invocation of a macro of `tracing`: they stand before its
/// text.
fn fields_of(arguments: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let (mut depth, mut item) = (0, String::new());
    for c in arguments.chars() {
        match c {
            '"' if item.trim().is_empty() => break,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => break,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                let name = item.split('=').next().unwrap_or_default();
                names.insert(name.trim().trim_start_matches(['%', '?']).to_owned());
                item.clear();
                continue;
            }
            _ => {}
        }
        item.push(c);
    }
    names
}

fn sources(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|end| end == "rs")
            && !path.to_string_lossy().ends_with("tests.rs")
        {
            text.push_str(&std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// Operators search the journal by these names.
#[test]
fn every_field_is_documented() {
    let mut text = String::new();
    sources(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut text);
    let mut used = BTreeSet::from(["SLUICEGATE_MODULE".to_owned()]);
    for level in ["error", "warn", "info", "debug", "trace"] {
        for call in text.split(&format!("tracing::{level}!(")).skip(1) {
            used.extend(fields_of(call).iter().map(|name| journal_name(name)));
        }
    }
    let rows = include_str!("../../../../docs/reference/log.md").lines();
    let rows = rows.filter_map(|line| line.strip_prefix("| `SLUICEGATE_")?.split('`').next());
    let documented: BTreeSet<String> = rows.map(|name| format!("{PREFIX}{name}")).collect();
    assert_eq!(documented, used, "the table in docs/reference/log.md");
    let fields = ["a", "b", "c", "d"].map(str::to_owned);
    assert_eq!(fields_of("%a, b = f(1, 2), c, ?d, \"{x}, {y}\", z)"), fields.into());
    assert_eq!(fields_of("\"text {x}\", y = 1)"), BTreeSet::new());
}
