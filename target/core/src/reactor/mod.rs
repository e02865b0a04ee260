//! The state of one reactor: its connections, its agenda, the work of a turn, and the stages S2 to S5 that its
//! commands pass.

pub(crate) mod agenda;
pub(crate) mod changes;
pub(crate) mod connection_table;
pub(crate) mod context;
pub(crate) mod core;
pub(crate) mod device_table;
pub(crate) mod entrance;
pub(crate) mod placement;
pub(crate) mod stages;
pub(crate) mod turns;
