//! What stands in for TLS in builds without it: no listener can have it.

use crate::serve::shared::Shared;

/// Says why no listener can have TLS here.
pub(crate) fn refusal() -> Option<String> {
    Some("this build has no TLS: build it with the feature tls".to_owned())
}

/// Has nothing to do: there are no handshakes.
pub(crate) fn run(_: &Shared, _: impl Fn() -> bool) {}
