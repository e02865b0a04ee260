//! Events of a connection over TLS other than data.

use std::borrow::Cow;

/// The event on a connection over TLS when a receive has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// The peer sends with a new key, by which is received from now on.
    KeyUpdate {
        /// Whether it wants data to come with a new key too.
        requested: bool,
    },
    /// Nothing more: the connection is over.
    Over(End),
}

/// Why a connection over TLS is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The peer has closed it (close_notify).
    Closed,
    /// The peer has done something that no host does, in words.
    Fault(Cow<'static, str>),
    /// The socket has failed.
    Lost,
}
