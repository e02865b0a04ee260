//! The figures of the end-to-end source (docs/research/sources.md, E) that are about QTCP on one bottleneck.
//!
//! [`adapting`], [`deadlines`], [`fig5`], [`fig7`], [`fig7b`], [`fig12`], [`fig16`], [`fig18`], [`fig20`], [`fig22`]
//! and [`fig23`] have whole targets, with the daemon's stages. In rows that name it, sockets have Eq. 5 as printed (Q
//! is [`sluice_sim::control::quality::Quality`], the window the simulated kernel's DCTCP) or queue pairs Eq. 6
//! ([`sluice_sim::control::Qrdma`]). The others are on [`net`](super::net), a network packet by packet, and run
//! [`crate::models::law`]: the law as the source prints it (*Eq. 5 as printed*), and with growth by target. The daemon
//! constructs neither: the kernel keeps the windows there, and `qtcp::link` limits rates.

mod adapting;
mod deadlines;
mod fig10;
mod fig12;
mod fig14;
mod fig15;
mod fig16;
mod fig18;
mod fig20;
mod fig22;
mod fig23;
mod fig5;
mod fig7;
mod fig7b;
mod fig8;
mod fig9;
mod pm;

use super::figure::Figure;

pub(super) const FIGURES: &[Figure] = &[
    Figure::new(
        "e2e-5",
        2,
        "latencies of a drive and of persistent memory, here and over the network (E5, E12)",
        fig5::run,
    ),
    Figure::new(
        "e2e-7",
        10,
        "latencies at the device by class, in three scenarios (E5)",
        |request| Ok(fig7::run(request)?.with(fig7b::run(request)?)),
    ),
    Figure::new("e2e-8", 10, "QTCP: the discrete-time model beside packets (E3)", fig8::run),
    Figure::new(
        "e2e-9",
        10,
        "QTCP: how soon quality factors settle, for three round-trip times (E1)",
        fig9::run,
    ),
    Figure::new(
        "e2e-10",
        10,
        "QTCP and DCTCP: how soon flows that start later have their part (E4)",
        fig10::run,
    ),
    Figure::new(
        "e2e-12",
        10,
        "writes on a congested link: DCTCP, the daemon, Eq. 5 as printed (E7)",
        fig12::writes,
    ),
    Figure::new(
        "e2e-13",
        20,
        "reads and writes on a congested link: DCTCP, the daemon (E7)",
        fig12::mixed,
    ),
    Figure::new(
        "e2e-14",
        10,
        "QTCP: flows that come and go, and DCTCP that interferes (E8)",
        |request| Ok(fig14::run(request)?.with(adapting::run(request)?)),
    ),
    Figure::new(
        "e2e-15",
        40,
        "DCTCP, D2TCP and QTCP: transfers that miss their deadlines (E9)",
        |request| Ok(fig15::run(request).with(deadlines::run(request)?)),
    ),
    Figure::new(
        "e2e-16",
        10,
        "network and storage that do not agree on the class (E10)",
        fig16::coordinated,
    ),
    Figure::new("e2e-17", 10, "tails where both agree on the class (E10)", fig16::tails),
    Figure::new(
        "e2e-18",
        40,
        "RDMA: missed deadlines, and fairness beside DCTCP (E2, E11)",
        fig18::run,
    ),
    Figure::new("e2e-19", 10, "ratios of flows over RDMA and TCP (E11)", fig18::ratios),
    Figure::new(
        "e2e-20",
        25,
        "latencies of persistent memory, with and without Urgent in the network (E12)",
        fig20::latencies,
    ),
    Figure::new(
        "e2e-21",
        20,
        "the ratio of storage classes beside persistent memory (E12)",
        fig20::classes,
    ),
    Figure::new(
        "e2e-22",
        30,
        "the same beside more persistent memory, and at 1:12 incast (E12)",
        fig22::run,
    ),
    Figure::new("e2e-23", 10, "tails of transfers and persistent memory (E12)", fig23::run),
];

/// The classes of the source's runs.
const CLASSES: [&str; 3] = ["High", "Medium", "Low"];

/// Writes numbers with a digit behind the point, one after the other.
fn series(numbers: &[f64]) -> String {
    let each: Vec<String> = numbers.iter().map(|number| format!("{number:.1}")).collect();
    each.join(", ")
}
