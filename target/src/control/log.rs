//! The log as the control plane uses it: its latest lines, and its level.

use std::fmt;
use std::sync::{Arc, Mutex};

use super::events::EventRing;
use crate::sys::sync::lock;

/// Puts another level in force; the error describes the fault of a level that is none.
type SetLevel = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// The log of the daemon.
pub struct Log {
    /// The latest lines.
    pub events: Arc<EventRing>,
    level: Mutex<String>,
    set: SetLevel,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("level", &self.level()).finish_non_exhaustive()
    }
}

impl Default for Log {
    /// Makes the log of a daemon whose lines are nowhere.
    fn default() -> Self {
        Self::new(Arc::default(), "info", Box::new(|_| Ok(())))
    }
}

impl Log {
    /// Makes a log of this level, which `set` changes.
    #[must_use]
    pub fn new(events: Arc<EventRing>, level: &str, set: SetLevel) -> Self {
        Self { events, level: Mutex::new(level.to_owned()), set }
    }

    /// Returns the level.
    #[must_use]
    pub fn level(&self) -> String {
        lock(&self.level).clone()
    }

    /// Puts another level in force until the daemon ends. Returns the level before.
    ///
    /// # Errors
    /// The level is not valid, as the text says.
    pub fn set_level(&self, level: &str) -> Result<String, String> {
        let mut present = lock(&self.level);
        (self.set)(level)?;
        Ok(std::mem::replace(&mut *present, level.to_owned()))
    }
}
