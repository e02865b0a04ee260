//! The terminal: its keys, the drawing of screens, and its end.
//!
//! A terminal can go away (its window is closed, the network to it breaks) while the program waits
//! for a key, or for room to write. Neither wait may outlast a signal.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::terminal::disable_raw_mode;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::draw::{Theme, draw};
use super::poll::Poller;
use super::state::{Action, State};

/// The time to wait for a key before looking for the daemon's updates, in milliseconds.
const PATIENCE_MS: u16 = 100;
/// The time for which the parser of keys reads the terminal, also where the terminal has gone.
const MOMENT: Duration = Duration::from_millis(1);
/// The time that the screen may take to end after a signal: longer than a wait for a key.
const GRACE: Duration = Duration::from_secs(1);
/// The sequence that leaves the second screen and shows the cursor.
const LEAVE: &[u8] = b"\x1b[?1049l\x1b[?25h";
/// The flags of a terminal that is opened for writing without waits.
const AT_ONCE: OFlag = OFlag::O_NONBLOCK.union(OFlag::O_NOCTTY);
/// The error if there is no terminal, or the terminal lacks a needed feature.
const NO_TERMINAL: &str = "the terminal cannot be used: try --once";
/// The error where the terminal cannot be read or written any more.
const GONE: &str = "the terminal has gone";

/// Shows the screen until the user leaves it.
///
/// # Errors
/// The terminal cannot be used, or goes away.
pub(super) fn run(
    socket: PathBuf,
    (interval, patience): (Duration, Duration),
    filter: &str,
    colours: bool,
) -> anyhow::Result<()> {
    let mut screen = Screen {
        keyboard: keyboard().context(NO_TERMINAL)?,
        poller: Poller::start(&socket, interval, patience),
        state: State::new(interval, filter),
        theme: Theme { colours },
        signal: watch_signals()?,
    };
    // The terminal is restored in any case, a panic included.
    let mut terminal = ratatui::try_init().context(NO_TERMINAL)?;
    let outcome = screen.run(&mut terminal);
    let _ = terminal.show_cursor();
    // Dropping the screen would write to standard error where the terminal has gone, and panic if
    // that has gone too.
    std::mem::forget(terminal);
    // If the terminal has gone, a message would have no reader.
    let restored = ratatui::try_restore();
    outcome.and_then(|()| restored.context(GONE))
}

/// Starts a thread that takes the signals that end a program. It stores the first one, and ends the
/// process itself where the screen does not do so soon, since that waits for the terminal.
fn watch_signals() -> io::Result<Arc<AtomicI32>> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGQUIT, SIGHUP])?;
    let first = Arc::new(AtomicI32::new(0));
    let shared = Arc::clone(&first);
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        // This waits until a signal comes.
        let Some(signal) = signals.forever().next() else { return };
        shared.store(signal, Relaxed);
        std::thread::sleep(GRACE);
        leave_now();
        // Output that the screen has not written yet is not flushed: that would wait.
        signal_hook::low_level::exit(i32::from(signal == SIGHUP));
    })?;
    Ok(first)
}

/// Restores the terminal without waiting for it.
fn leave_now() {
    let _ = disable_raw_mode();
    // The terminal is opened again: a flag of standard output would hold for the screen, which may be
    // in a write, and for other programs, such as the shell. A terminal of another user opens only by
    // its second name.
    let open = |path| OpenOptions::new().write(true).custom_flags(AT_ONCE.bits()).open(path);
    if let Ok(mut terminal) = open("/proc/self/fd/1").or_else(|_| open("/dev/tty")) {
        let _ = terminal.write(LEAVE);
    }
}

/// Opens the terminal that keys come from.
fn keyboard() -> io::Result<OwnedFd> {
    let stdin = io::stdin();
    match stdin.is_terminal() {
        true => stdin.as_fd().try_clone_to_owned(),
        false => Ok(File::open("/dev/tty")?.into()),
    }
}

struct Screen {
    keyboard: OwnedFd,
    poller: Poller,
    state: State,
    theme: Theme,
    /// The number of the signal that ends the program; 0 before it comes.
    signal: Arc<AtomicI32>,
}

impl Screen {
    fn run(&mut self, terminal: &mut DefaultTerminal) -> anyhow::Result<()> {
        let mut changed = true;
        // The notice on the last line, as it was drawn.
        let mut notice = None;
        loop {
            match self.signal.load(Relaxed) {
                0 => {}
                SIGHUP => bail!(GONE),
                _ => return Ok(()),
            }
            let now = Instant::now();
            let present = self.state.notice(now).map(str::to_owned);
            if changed || notice != present {
                notice = present;
                let drawn = terminal.draw(|frame| draw(frame, &mut self.state, self.theme, now));
                drawn.context(GONE)?;
            }
            changed = match self.event()? {
                Some(Action::Quit) => return Ok(()),
                Some(Action::Interval(interval)) => {
                    self.poller.set_interval(interval);
                    true
                }
                Some(Action::Redraw) => true,
                None => false,
            };
            changed |= self.news()?;
        }
    }

    /// Handles a key, or a new size of the terminal.
    fn event(&mut self) -> anyhow::Result<Option<Action>> {
        self.wait()?;
        let wanted = match event::poll(MOMENT) {
            Ok(true) => event::read().context(GONE)?,
            Ok(false) => return Ok(None),
            // A signal came; the loop handles it.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
            Err(error) => return Err(error).context(GONE),
        };
        Ok(match wanted {
            Event::Key(key) if key.kind != KeyEventKind::Release => Some(self.state.key(key)),
            Event::Resize(..) => {
                self.state.forget_widths();
                Some(Action::Redraw)
            }
            _ => None,
        })
    }

    /// Waits for input for a short time.
    fn wait(&self) -> anyhow::Result<()> {
        let mut keyboard = [PollFd::new(self.keyboard.as_fd(), PollFlags::POLLIN)];
        match poll(&mut keyboard, PollTimeout::from(PATIENCE_MS)) {
            // This also happens at a signal, such as one of a new size.
            Err(Errno::EINTR) => return Ok(()),
            outcome => outcome.context(GONE)?,
        };
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        let [keyboard] = keyboard;
        match keyboard.revents() {
            Some(events) if events.intersects(gone) => bail!(GONE),
            _ => Ok(()),
        }
    }

    /// Handles the daemon's answers. Returns whether there was one.
    fn news(&mut self) -> anyhow::Result<bool> {
        match self.poller.updates.try_recv() {
            Ok(update) => {
                self.state.update(update, Instant::now());
                Ok(true)
            }
            Err(TryRecvError::Empty) => Ok(false),
            Err(TryRecvError::Disconnected) => bail!("the thread that asks the daemon has ended"),
        }
    }
}
