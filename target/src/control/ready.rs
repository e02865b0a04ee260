//! Whether the target serves hosts, for probes and metrics.

use crate::serve::engine::{Engine, ListenerState};

/// Returns whether the target serves hosts: all its listeners are open, and it is not ending.
///
/// # Errors
/// It does not, with the reason.
pub(crate) fn check(engine: &dyn Engine) -> Result<(), String> {
    if engine.is_ending() {
        return Err("the daemon is ending: it accepts no new commands".to_owned());
    }
    let listeners = engine.listeners();
    let closed: Vec<String> = listeners.iter().filter_map(closed).collect();
    if closed.is_empty() { Ok(()) } else { Err(closed.join("; ")) }
}

/// Describes a listener that is not open; `None` if it is.
pub(crate) fn closed(state: &ListenerState) -> Option<String> {
    let (endpoint, why) = (state.listener.endpoint(), state.closed.as_ref()?);
    Some(format!("listener {endpoint}: closed: {why}"))
}
