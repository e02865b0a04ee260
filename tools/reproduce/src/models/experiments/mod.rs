//! The experiments of the paper, Fig. 6 to 19, and others like them, on the model of
//! [`pmem::simulation`] (docs/research/sources.md, H5).
//!
//! An [`Experiment`] is a set-up: a data node, its clients, their reservations and demands. The
//! default is the paper's Experiment 2A. The figures' set-ups are the scenarios `haechi-6` to
//! `haechi-19` in `tools/scenarios/`, which state the paper's results and our differences. All
//! results are in I/Os of a period at full size, at any scale of the simulation.

mod experiment;
mod outcome;
#[cfg(test)]
mod tests;

pub use experiment::{
    AGGREGATE, Background, CLIENTS, Client, DataNode, Demand, Distribution, Experiment,
    ExperimentError, LOCAL, System, Testbed,
};
pub use outcome::{Latencies, Outcome, measure};
