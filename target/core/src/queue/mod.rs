//! A connection and its queue: what arrives, the states of its commands, and their way to the
//! answer. Each connection has its own.

pub(crate) mod admin_queue;
pub(crate) mod admission;
pub(crate) mod arrival;
pub(crate) mod commands;
pub(crate) mod completion;
pub(crate) mod connection;
pub(crate) mod dispatch;
pub(crate) mod fetch;
pub(crate) mod flow_cache;
pub(crate) mod io_queue;
pub(crate) mod progress;
pub(crate) mod receiver;
pub(crate) mod sender;
pub(crate) mod sliced;
pub(crate) mod state;
