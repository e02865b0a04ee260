//! Messages to systemd.

use sd_notify::NotifyState;

/// Sends a message to systemd. Without systemd this does nothing.
pub fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!(%error, "a message to systemd could not be sent");
    }
}

/// A guard that tells systemd that the configuration is being read again, until it is dropped.
#[derive(Debug)]
pub(crate) struct Reloading(());

impl Reloading {
    pub(crate) fn begin() -> Self {
        // By the time systemd knows this reload from an earlier one.
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
