//! The systemd journal, by its native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL): an entry is a
//! datagram of fields. `MESSAGE` is the whole line as standard error has it, with the event's
//! fields, since `journalctl` shows nothing else; each field is also a field of the entry, so that
//! it can be searched. The crate `tracing-journald` leaves the fields out of the message and fixes
//! the socket's path.

use std::fmt::{Debug, Write as _};
use std::fs::File;
use std::io::{self, IoSlice, Write as _};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{ControlMessage, MsgFlags, UnixAddr, sendmsg};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
use tracing_subscriber::layer::Context;

/// The socket at which the journal takes entries.
pub(super) const SOCKET: &str = "/run/systemd/journal/socket";
/// The daemon's name in the journal (`journalctl -t`).
const IDENTIFIER: &str = "sluiced";
/// The prefix of an event's own fields in the journal.
const PREFIX: &str = "SLUICEGATE_";
/// The longest name that the journal takes, in bytes.
const NAME_MAX: usize = 64;

/// A layer that writes events to the journal.
#[derive(Debug)]
pub(super) struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
    /// The number of entries that the journal refused since it last accepted one.
    lost: AtomicU64,
}

impl Journal {
    /// Connects to the journal that listens on `path`.
    ///
    /// # Errors
    /// Nobody listens there.
    pub(super) fn connect(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        // A journal that is stuck must not stop a reactor that logs.
        socket.set_nonblocking(true)?;
        // The journal drops an entry without fields.
        socket.send_to(&[], path)?;
        Ok(Self { socket, path: path.to_owned(), lost: AtomicU64::new(0) })
    }

    fn send(&self, entry: &[u8]) -> io::Result<()> {
        match self.socket.send_to(entry, &self.path) {
            Ok(_) => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => self.send_large(entry),
            Err(error) => Err(error),
        }
    }

    /// Sends an entry that is larger than a datagram as a file in memory, which is sealed so that
    /// the journal may map it.
    fn send_large(&self, entry: &[u8]) -> io::Result<()> {
        let flags = MFdFlags::MFD_ALLOW_SEALING | MFdFlags::MFD_CLOEXEC;
        let mut file = File::from(memfd_create(c"sluiced-journal", flags)?);
        file.write_all(entry)?;
        let seals = SealFlag::F_SEAL_SHRINK
            | SealFlag::F_SEAL_GROW
            | SealFlag::F_SEAL_WRITE
            | SealFlag::F_SEAL_SEAL;
        fcntl(file.as_fd(), FcntlArg::F_ADD_SEALS(seals))?;
        let descriptors = [file.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&descriptors)];
        let address = UnixAddr::new(&self.path)?;
        let nothing: [IoSlice<'_>; 0] = [];
        let socket = self.socket.as_raw_fd();
        sendmsg(socket, &nothing, &rights, MsgFlags::empty(), Some(&address))?;
        Ok(())
    }
}

impl<S: Subscriber> Layer<S> for Journal {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let lost = self.lost.load(Ordering::Relaxed);
        if self.send(&entry(event, lost)).is_ok() {
            self.lost.fetch_sub(lost, Ordering::Relaxed);
        } else {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Writes an event in the journal's form; `lost` is the number of entries before it that were
/// refused.
fn entry(event: &Event<'_>, lost: u64) -> Vec<u8> {
    let mut message = String::new();
    // Writing to a string cannot fail.
    let _ = DefaultFields::new().format_fields(Writer::new(&mut message), event);
    if lost > 0 {
        let _ = write!(message, " (the journal did not take {lost} messages before this one)");
    }
    let meta = event.metadata();
    let mut entry = Entry::default();
    entry.field("MESSAGE", &message);
    entry.field("PRIORITY", priority(*meta.level()));
    entry.field("SYSLOG_IDENTIFIER", IDENTIFIER);
    if let (Some(file), Some(line)) = (meta.file(), meta.line()) {
        entry.field("CODE_FILE", file);
        entry.field("CODE_LINE", &line.to_string());
    }
    entry.field("SLUICEGATE_MODULE", meta.target());
    event.record(&mut entry);
    entry.0
}

/// Returns the priority of a level: err, warning, info and debug.
fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "3",
        Level::WARN => "4",
        Level::INFO => "6",
        _ => "7",
    }
}

/// The fields of an entry, in the journal's form.
#[derive(Debug, Default)]
struct Entry(Vec<u8>);

impl Entry {
    /// Adds a field. A value of several lines has its length before it; the others end with their
    /// line.
    fn field(&mut self, name: &str, value: &str) {
        self.0.extend_from_slice(name.as_bytes());
        if value.contains('\n') {
            self.0.push(b'\n');
            self.0.extend_from_slice(&(value.len() as u64).to_le_bytes());
        } else {
            self.0.push(b'=');
        }
        self.0.extend_from_slice(value.as_bytes());
        self.0.push(b'\n');
    }

    fn own(&mut self, field: &Field, value: &str) {
        if field.name() != "message" {
            self.field(&journal_name(field.name()), value);
        }
    }
}

/// Returns the journal's name of a field: capitals, digits and `_`.
fn journal_name(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    PREFIX.chars().chain(name.chars().map(allowed)).take(NAME_MAX).collect()
}

impl Visit for Entry {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.own(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.own(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
