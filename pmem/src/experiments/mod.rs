//! The experiments of the paper, Fig. 6 to 19, on the model of [`crate::simulation`]
//! (docs/sources.md, H5). Each function says what the paper has and where ours differs.
//! [`variation`] has other clients, exponents and periods than the paper.
//!
//! A figure that shows the same runs as another has no function of its own: Fig. 11 and 10, 12 and 9,
//! 14 and 13, 17 to 19 and 16. All results are in I/Os of a period at the paper's size, whatever the
//! scale of the simulation.

mod estimation;
mod patterns;
mod profiling;
mod reservations;
mod system;
mod variation;

pub use estimation::{CHANGE, fig16};
pub use patterns::{Latencies, fig13, fig15};
pub use profiling::{fig6, fig7, fig8, profile};
pub use reservations::{fig9, fig10};
pub use system::{
    AGGREGATE, CLIENTS, Distribution, LOCAL, Outcome, System, Testbed, clients, data_node, measure,
    zipf,
};
pub use variation::{Variation, VariationError, variation};

#[cfg(test)]
mod tests {
    /// Tells whether a number is as expected, but for a part of it.
    pub(super) fn near(number: f64, expected: f64, tolerance: f64) -> bool {
        (number - expected).abs() <= expected * tolerance
    }
}
