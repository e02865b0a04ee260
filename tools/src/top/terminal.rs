//! The terminal: keys in, screens out, and its end.
//!
//! A terminal can go away (its window is closed, the network to it breaks) while something waits
//! for it: for a key, or for room to write. Neither may outlast a signal.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::terminal::disable_raw_mode;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::draw::{Theme, draw};
use super::poll::Poller;
use super::state::{Action, State};

/// How long to wait for a key before looking for news of the daemon, in milliseconds.
const PATIENCE_MS: u16 = 100;
/// How long to look whether what came is a key. The parser of keys looks at the terminal as long as
/// it is told to, whether or not there is one.
const MOMENT: Duration = Duration::from_millis(1);
/// How long the screen may take to end after a signal: longer than a wait for a key.
const GRACE: Duration = Duration::from_secs(1);
/// Leaves the second screen and shows the cursor.
const LEAVE: &[u8] = b"\x1b[?1049l\x1b[?25h";
/// There is none, or it cannot do what a screen needs.
const NO_TERMINAL: &str = "the terminal cannot be used: try --once";
/// The terminal cannot be read or written any more.
const GONE: &str = "the terminal has gone";

/// Shows the screen until the person leaves it.
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
    // Whatever happens, a panic included, the terminal is given back as it was.
    let mut terminal = ratatui::try_init().context(NO_TERMINAL)?;
    let outcome = screen.run(&mut terminal);
    let _ = terminal.show_cursor();
    // Its end would write to standard error where the terminal has gone, and panic if that has too.
    std::mem::forget(terminal);
    // Without a word where it has gone: nobody would read it.
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
        // It waits until there is one.
        let Some(signal) = signals.forever().next() else { return };
        shared.store(signal, Relaxed);
        std::thread::sleep(GRACE);
        leave_now();
        std::process::exit(i32::from(signal == SIGHUP));
    })?;
    Ok(first)
}

/// Gives the terminal back without waiting for it.
fn leave_now() {
    let _ = disable_raw_mode();
    let stdout = io::stdout();
    let stdout = stdout.as_fd();
    let Ok(flags) = fcntl(stdout, FcntlArg::F_GETFL).map(OFlag::from_bits_truncate) else { return };
    if fcntl(stdout, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).is_ok() {
        let _ = nix::unistd::write(stdout, LEAVE);
        // Others may share it: the shell, above all.
        let _ = fcntl(stdout, FcntlArg::F_SETFL(flags));
    }
}

/// The terminal that keys come from.
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
    /// The signal that asked to end; 0: none.
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

    /// What a key, or another size of the terminal, asks for.
    fn event(&mut self) -> anyhow::Result<Option<Action>> {
        self.wait()?;
        let wanted = match event::poll(MOMENT) {
            Ok(true) => event::read().context(GONE)?,
            Ok(false) => return Ok(None),
            // A signal: the loop looks at it.
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

    /// Waits for input, not for long.
    fn wait(&self) -> anyhow::Result<()> {
        let mut keyboard = [PollFd::new(self.keyboard.as_fd(), PollFlags::POLLIN)];
        match poll(&mut keyboard, PollTimeout::from(PATIENCE_MS)) {
            // Among others for a signal that says that the size is another.
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

    /// Takes in what the daemon has answered; whether there was anything.
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
