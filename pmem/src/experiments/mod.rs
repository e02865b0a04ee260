//! The experiments.

mod estimation;
mod patterns;
mod profiling;
mod reservations;
mod system;

pub use estimation::{CHANGE, fig16};
pub use patterns::{Latencies, fig13, fig15};
pub use profiling::{fig6, fig7, fig8, profile};
pub use reservations::{fig9, fig10};
pub use system::{
    AGGREGATE, CLIENTS, Distribution, LOCAL, Outcome, Scale, System, clients, data_node, measure,
};

#[cfg(test)]
mod tests {
    /// Tells whether a number is as expected, but for a part of it.
    pub(super) fn near(number: f64, expected: f64, tolerance: f64) -> bool {
        (number - expected).abs() <= expected * tolerance
    }
}
