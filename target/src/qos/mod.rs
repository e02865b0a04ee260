//! Quality of service in the daemon: what the configuration and live changes say, made into a
//! [`Snapshot`] for the reactors, and what the stages do, for whoever asks.
//!
//! - [`shared`]: what other threads call; [`control`]: the state behind it.
//! - [`served`]: the subsystems and namespaces that are there; [`wanted`]: the sessions that follow
//!   from them and from the configuration; [`reserve`]: what is reserved.
//! - [`snapshot`]: what all connections need to know; [`published`]: what those of one namespace do.
//! - [`view`]: what the control socket and the metrics show.

mod control;
mod published;
mod reserve;
mod served;
mod shared;
mod snapshot;
#[cfg(test)]
mod tests;
mod view;
mod wanted;

pub(crate) use shared::QosShared;
pub(crate) use snapshot::Snapshot;
