//! From the configuration that runs to another one, without a restart: what has to change, in an
//! order in which nothing stands in the way of anything, and how to take it back.

mod change;
mod harm;
mod order;
mod plan;
mod run;

pub(crate) use change::Change;
pub(crate) use harm::harm;
pub(crate) use plan::plan;
pub(crate) use run::run;

#[cfg(test)]
mod tests;
