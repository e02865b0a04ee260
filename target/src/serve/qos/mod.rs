//! Quality of service in the daemon: the configuration and live changes, made into a [`Snapshot`] for the reactors,
//! and the state of the stages, for answers and metrics.
//!
//! - [`shared`]: the methods for other threads; [`control`]: the state behind them.
//! - [`served`]: the present subsystems and namespaces; [`wanted`]: the sessions that follow from them and from the
//!   configuration; [`reserve`]: the reservations.
//! - [`snapshot`]: the settings that all connections need; [`published`]: one namespace's settings.
//! - [`patience`]: the limits with which hosts without retry delays would time out.
//! - [`nodes`]: the parts of sessions that client nodes have.
//! - [`view`]: the state that the control socket and the metrics show.
//! - [`notices`]: lines of the log about missed reservations and long waits.

mod control;
mod nodes;
pub(crate) mod notices;
mod patience;
mod published;
mod reserve;
mod served;
mod shared;
mod snapshot;
#[cfg(test)]
mod tests;
mod view;
mod wanted;

pub(crate) use nodes::Nodes;
pub(crate) use shared::{LimitChange, QosShared};
pub(crate) use snapshot::{Asker, Snapshot};
