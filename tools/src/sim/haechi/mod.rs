//! The figures of Haechi (docs/sources.md, H): the experiments of [`pmem::experiments`], with what the
//! paper says of each number, and whether ours holds or differs as it is declared.
//!
//! - [`profiling`]: Fig. 6 to 8; [`reservations`]: Fig. 9 to 12; [`patterns`]: Fig. 13 to 15;
//!   [`estimation`]: Fig. 16 to 19.
//! - [`variation`]: the same with other clients, exponents and periods: `sluice sim haechi`.
//! - [`claim`]: a number of the paper's beside ours; [`show`]: what the figures share.

mod claim;
mod estimation;
mod patterns;
mod profiling;
mod reservations;
mod show;
pub(super) mod variation;

use super::figure::{Figure, Run};

/// All figures of Haechi.
pub(super) const FIGURES: &[Figure] = &[
    Figure {
        name: "haechi-6",
        about: "what each of ten clients does alone",
        run: Run::Claims(|request| Ok(profiling::six(request))),
    },
    Figure {
        name: "haechi-7",
        about: "what 1 to 10 clients do together; the data node's profile",
        run: Run::Claims(profiling::seven),
    },
    Figure {
        name: "haechi-8",
        about: "uniform and spike demands without Haechi",
        run: Run::Claims(|request| Ok(profiling::eight(request))),
    },
    Figure {
        name: "haechi-9",
        about: "90 % reserved, uniform and Zipf: who gets what, and what Haechi costs",
        run: Run::Claims(|request| Ok(reservations::nine(request))),
    },
    Figure {
        name: "haechi-10",
        about: "two clients want less than they have reserved",
        run: Run::Claims(|request| Ok(reservations::ten(request))),
    },
    Figure {
        name: "haechi-11",
        about: "throughput of the same: token conversion against Basic Haechi",
        run: Run::Claims(|request| Ok(reservations::eleven(request))),
    },
    Figure {
        name: "haechi-12",
        about: "throughput with 50 to 90 % reserved",
        run: Run::Claims(|request| Ok(reservations::twelve(request))),
    },
    Figure {
        name: "haechi-13",
        about: "a spike reservation, with bursts and at a constant rate",
        run: Run::Claims(|request| Ok(patterns::thirteen(request))),
    },
    Figure {
        name: "haechi-14",
        about: "throughput of the same",
        run: Run::Claims(|request| Ok(patterns::fourteen(request))),
    },
    Figure {
        name: "haechi-15",
        about: "latencies of the same",
        run: Run::Claims(|request| Ok(patterns::fifteen(request))),
    },
    Figure {
        name: "haechi-16",
        about: "the estimate of the capacity where congestion begins",
        run: Run::Claims(|request| Ok(estimation::sixteen(request))),
    },
    Figure {
        name: "haechi-17",
        about: "the client with the largest reservation in the same",
        run: Run::Claims(|request| Ok(estimation::seventeen(request))),
    },
    Figure {
        name: "haechi-18",
        about: "the estimate of the capacity where congestion ends",
        run: Run::Claims(|request| Ok(estimation::eighteen(request))),
    },
    Figure {
        name: "haechi-19",
        about: "the client with the largest reservation in the same",
        run: Run::Claims(|request| Ok(estimation::nineteen(request))),
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
    pub(super) fn holds(figure: impl Fn(Request) -> Made, expected: &[&str]) {
        check(&figure(Request { seed: 1, scale: 8 }), expected);
    }
}
