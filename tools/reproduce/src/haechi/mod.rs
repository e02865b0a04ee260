//! The figures of Haechi (docs/research/sources.md, H): the experiments of [`pmem::experiments`], with the paper's
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

use super::figure::Figure;

/// All figures of Haechi.
pub(super) const FIGURES: &[Figure] = &[
    Figure {
        name: "haechi-6",
        about: "what each of ten clients does alone",
        run: profiling::six,
        weight: 10,
        scales: true,
    },
    Figure {
        name: "haechi-7",
        about: "what 1 to 10 clients do together; the data node's profile",
        run: profiling::seven,
        weight: 10,
        scales: true,
    },
    Figure {
        name: "haechi-8",
        about: "uniform and spike demands without Haechi",
        run: profiling::eight,
        weight: 10,
        scales: true,
    },
    Figure {
        name: "haechi-9",
        about: "90 % reserved, uniform and Zipf: who gets what, and what Haechi costs",
        run: reservations::nine,
        weight: 10,
        scales: true,
    },
    Figure {
        name: "haechi-10",
        about: "two clients want less than they have reserved",
        run: reservations::ten,
        weight: 10,
        scales: true,
    },
    Figure {
        name: "haechi-11",
        about: "throughput of the same: token conversion against Basic Haechi",
        run: reservations::eleven,
        weight: 10,
        scales: true,
    },
    Figure {
        name: "haechi-12",
        about: "throughput with 50 to 90 % reserved",
        run: reservations::twelve,
        weight: 10,
        scales: true,
    },
    Figure {
        name: "haechi-13",
        about: "a spike reservation, with bursts and at a constant rate",
        run: patterns::thirteen,
        weight: 10,
        scales: true,
    },
    Figure {
        name: "haechi-14",
        about: "throughput of the same",
        run: patterns::fourteen,
        weight: 10,
        scales: true,
    },
    Figure {
        name: "haechi-15",
        about: "latencies of the same",
        run: patterns::fifteen,
        weight: 10,
        scales: true,
    },
    Figure {
        name: "haechi-16",
        about: "the estimate of the capacity where congestion begins",
        run: estimation::sixteen,
        weight: 10,
        scales: true,
    },
    Figure {
        name: "haechi-17",
        about: "the client with the largest reservation in the same",
        run: estimation::seventeen,
        weight: 10,
        scales: true,
    },
    Figure {
        name: "haechi-18",
        about: "the estimate of the capacity where congestion ends",
        run: estimation::eighteen,
        weight: 10,
        scales: true,
    },
    Figure {
        name: "haechi-19",
        about: "the client with the largest reservation in the same",
        run: estimation::nineteen,
        weight: 10,
        scales: true,
    },
];

#[cfg(test)]
mod tests {
    use super::super::figure::{Made, Request};

    fn check(made: &Made, expected: &[&str]) {
        assert_eq!(made.off, [] as [&str; 0], "{}", made.text);
        for text in expected {
            assert!(made.text.contains(text), "no {text:?} in\n{}", made.text);
        }
        let folder = tempfile::tempdir().unwrap();
        let paths = made.draw(folder.path()).unwrap();
        assert!(!paths.is_empty() && paths.iter().all(|path| path.exists()), "{paths:?}");
    }

    /// Makes a figure at an eighth of the paper's size. Each claim must hold or differ as declared.
    pub(super) fn holds(figure: impl Fn(Request) -> anyhow::Result<Made>, expected: &[&str]) {
        check(&figure(Request { seed: 1, scale: 8, quick: true }).unwrap(), expected);
    }
}
