//! The change from the running configuration to another one, without a restart: the single changes,
//! an order in which none stands in the way of another, and their undo.

mod change;
mod harm;
mod order;
mod plan;
mod regions;
mod run;

pub(crate) use change::Change;
pub(crate) use harm::harm;
pub(crate) use plan::plan;
pub(crate) use run::run;

#[cfg(test)]
mod tests;
