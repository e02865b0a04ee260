//! Messages to systemd.

use sd_notify::NotifyState;

/// Sends a message to systemd; without systemd it does nothing.
pub fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "systemd was not told");
    }
}

/// A guard that tells systemd that the configuration is being read again, as long as the guard
/// lives.
#[derive(Debug)]
pub(crate) struct Reloading(());

impl Reloading {
    pub(crate) fn begin() -> Self {
        // The time tells systemd that this reload, and not an earlier one, is meant.
        match NotifyState::monotonic_usec_now() {
            Ok(now) => tell(&[NotifyState::Reloading, now]),
            Err(_) => tell(&[NotifyState::Reloading]),
        }
        Self(())
    }
}

impl Drop for Reloading {
    fn drop(&mut self) {
        tell(&[NotifyState::Ready]);
    }
}
