//! The figures of the end-to-end source (docs/research/sources.md, E) that are about QTCP on one bottleneck.
//!
//! [`adapting`], [`deadlines`], [`fig5`], [`fig7`], [`fig7b`], [`fig12`], [`fig16`], [`fig18`], [`fig20`], [`fig22`]
//! and [`fig23`] have whole targets, with the daemon's stages. In rows that name it, sockets have Eq. 5 as printed (Q
//! is [`qtcp::control::quality::Quality`], the window the simulated kernel's DCTCP) or queue pairs Eq. 6
//! ([`qtcp::control::Qrdma`]). The others are on [`net`](super::net), a network packet by packet, and run
//! `qtcp::control`: the law as the source prints it (*Eq. 5 as printed*), and with growth by target. The daemon
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
    Figure {
        name: "e2e-5",
        about: "latencies of a drive and of persistent memory, here and over the network (E5, E12)",
        run: fig5::run,
        weight: 2,
        scales: false,
    },
    Figure {
        name: "e2e-7",
        about: "latencies at the device by class, in three scenarios (E5)",
        run: |request| Ok(fig7::run(request)?.with(fig7b::run(request)?)),
        weight: 10,
        scales: false,
    },
    Figure {
        name: "e2e-8",
        about: "QTCP: the discrete-time model beside packets (E3)",
        run: fig8::run,
        weight: 10,
        scales: false,
    },
    Figure {
        name: "e2e-9",
        about: "QTCP: how soon quality factors settle, for three round-trip times (E1)",
        run: fig9::run,
        weight: 10,
        scales: false,
    },
    Figure {
        name: "e2e-10",
        about: "QTCP and DCTCP: how soon flows that start later have their part (E4)",
        run: fig10::run,
        weight: 10,
        scales: false,
    },
    Figure {
        name: "e2e-12",
        about: "writes on a congested link: DCTCP, the daemon, Eq. 5 as printed (E7)",
        run: fig12::writes,
        weight: 10,
        scales: false,
    },
    Figure {
        name: "e2e-13",
        about: "reads and writes on a congested link: DCTCP, the daemon (E7)",
        run: fig12::mixed,
        weight: 20,
        scales: false,
    },
    Figure {
        name: "e2e-14",
        about: "QTCP: flows that come and go, and DCTCP that interferes (E8)",
        run: |request| Ok(fig14::run(request)?.with(adapting::run(request)?)),
        weight: 10,
        scales: false,
    },
    Figure {
        name: "e2e-15",
        about: "DCTCP, D2TCP and QTCP: transfers that miss their deadlines (E9)",
        run: |request| Ok(fig15::run(request).with(deadlines::run(request)?)),
        weight: 40,
        scales: false,
    },
    Figure {
        name: "e2e-16",
        about: "network and storage that do not agree on the class (E10)",
        run: fig16::coordinated,
        weight: 10,
        scales: false,
    },
    Figure {
        name: "e2e-17",
        about: "tails where both agree on the class (E10)",
        run: fig16::tails,
        weight: 10,
        scales: false,
    },
    Figure {
        name: "e2e-18",
        about: "RDMA: missed deadlines, and fairness beside DCTCP (E2, E11)",
        run: fig18::run,
        weight: 40,
        scales: false,
    },
    Figure {
        name: "e2e-19",
        about: "ratios of flows over RDMA and TCP (E11)",
        run: fig18::ratios,
        weight: 10,
        scales: false,
    },
    Figure {
        name: "e2e-20",
        about: "latencies of persistent memory, with and without Urgent in the network (E12)",
        run: fig20::latencies,
        weight: 25,
        scales: false,
    },
    Figure {
        name: "e2e-21",
        about: "the ratio of storage classes beside persistent memory (E12)",
        run: fig20::classes,
        weight: 20,
        scales: false,
    },
    Figure {
        name: "e2e-22",
        about: "the same beside more persistent memory, and at 1:12 incast (E12)",
        run: fig22::run,
        weight: 30,
        scales: false,
    },
    Figure {
        name: "e2e-23",
        about: "tails of transfers and persistent memory (E12)",
        run: fig23::run,
        weight: 10,
        scales: false,
    },
];

/// The classes of the source's runs.
const CLASSES: [&str; 3] = ["High", "Medium", "Low"];

/// Writes numbers with a digit behind the point, one after the other.
fn series(numbers: &[f64]) -> String {
    let each: Vec<String> = numbers.iter().map(|number| format!("{number:.1}")).collect();
    each.join(", ")
}
