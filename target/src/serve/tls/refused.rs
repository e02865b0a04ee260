//! Connections that are closed before they are served.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use crate::serve::shared::Shared;

/// Notes that a connection was closed before it was served.
pub(crate) fn refuse(shared: &Shared, peer: SocketAddr, why: &dyn Display) {
    shared.events.tls_refused.fetch_add(1, Ordering::Relaxed);
    if shared.may_log(peer.ip()) {
        tracing::warn!(%peer, %why, "a connection was refused where TLS is in use");
    }
}
