//! What systemd is told.

use sd_notify::NotifyState;

/// Tells systemd something; without systemd nothing happens.
pub fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "systemd was not told");
    }
}

/// Says that the configuration is being read again, as long as it lives.
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
