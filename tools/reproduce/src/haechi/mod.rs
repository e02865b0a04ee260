//! The figures of Haechi (docs/research/sources.md, H): the experiments of [`crate::models::experiments`], with the paper's
//! numbers, and whether ours hold or differ as declared.
//!
//! - [`profiling`]: Fig. 6 to 8; [`reservations`]: Fig. 9 to 12; [`patterns`]: Fig. 13 to 15; [`estimation`]: Fig. 16
//!   to 19.
//! - [`variation`]: the same with other clients, exponents and periods: `reproduce haechi`.
//! - [`scenario`]: set-ups as files: each figure's is `tools/scenarios/haechi-N.toml`, from which it makes its runs.
//! - [`show`]: common parts of the figures.

mod estimation;
mod patterns;
mod profiling;
mod reservations;
pub(super) mod scenario;
mod show;
pub(super) mod variation;

use super::figure::{Figure, Made, Request};

/// All figures of Haechi.
pub(super) const FIGURES: &[Figure] = &[
    figure("haechi-6", "what each of ten clients does alone", profiling::six),
    figure(
        "haechi-7",
        "what 1 to 10 clients do together; the data node's profile",
        profiling::seven,
    ),
    figure("haechi-8", "uniform and spike demands without Haechi", profiling::eight),
    figure(
        "haechi-9",
        "90 % reserved, uniform and Zipf: who gets what, and what Haechi costs",
        reservations::nine,
    ),
    figure("haechi-10", "two clients want less than they have reserved", reservations::ten),
    figure(
        "haechi-11",
        "throughput of the same: token conversion against Basic Haechi",
        reservations::eleven,
    ),
    figure("haechi-12", "throughput with 50 to 90 % reserved", reservations::twelve),
    figure(
        "haechi-13",
        "a spike reservation, with bursts and at a constant rate",
        patterns::thirteen,
    ),
    figure("haechi-14", "throughput of the same", patterns::fourteen),
    figure("haechi-15", "latencies of the same", patterns::fifteen),
    figure(
        "haechi-16",
        "the estimate of the capacity where congestion begins",
        estimation::sixteen,
    ),
    figure(
        "haechi-17",
        "the client with the largest reservation in the same",
        estimation::seventeen,
    ),
    figure("haechi-18", "the estimate of the capacity where congestion ends", estimation::eighteen),
    figure(
        "haechi-19",
        "the client with the largest reservation in the same",
        estimation::nineteen,
    ),
];

/// Describes a figure: its capacities can be divided, and each takes about 10 s.
const fn figure(
    name: &'static str,
    about: &'static str,
    run: fn(Request) -> anyhow::Result<Made>,
) -> Figure {
    Figure { name, about, run, weight: 10, scales: true }
}
