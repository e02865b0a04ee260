//! The terminal: keys in, screens out.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use signal_hook::consts::{SIGHUP, SIGTERM};

use super::draw::{Theme, draw};
use super::poll::Poller;
use super::state::{Action, State};

/// How long to wait for a key before looking for news of the daemon.
const PATIENCE: Duration = Duration::from_millis(100);

/// Shows the screen until the person leaves it.
///
/// # Errors
/// The terminal cannot be used.
pub(super) fn run(
    socket: PathBuf,
    interval: Duration,
    filter: &str,
    colours: bool,
) -> anyhow::Result<()> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ended))?;
    }
    let mut screen = Screen {
        poller: Poller::start(&socket, interval),
        state: State::new(interval, filter),
        theme: Theme { colours },
        ended,
    };
    // Whatever happens, a panic included, the terminal is given back as it was.
    let mut terminal = ratatui::try_init().context("the terminal cannot be used: try --once")?;
    let outcome = screen.run(&mut terminal);
    ratatui::restore();
    outcome
}

struct Screen {
    poller: Poller,
    state: State,
    theme: Theme,
    /// Set by a signal.
    ended: Arc<AtomicBool>,
}

impl Screen {
    fn run(&mut self, terminal: &mut DefaultTerminal) -> anyhow::Result<()> {
        let mut changed = true;
        // The notice on the last line, as it was drawn.
        let mut notice = None;
        while !self.ended.load(Relaxed) {
            let now = Instant::now();
            let present = self.state.notice(now).map(str::to_owned);
            if changed || notice != present {
                notice = present;
                terminal.draw(|frame| draw(frame, &mut self.state, self.theme, now))?;
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
        Ok(())
    }

    /// What a key, or another size of the terminal, asks for.
    fn event(&mut self) -> anyhow::Result<Option<Action>> {
        let wanted = match event::poll(PATIENCE) {
            Ok(true) => event::read()?,
            Ok(false) => return Ok(None),
            // A signal: the loop looks at it.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
            Err(error) => return Err(error).context("the terminal has gone"),
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
