//! Fig. 18 and 19 (docs/research/sources.md, E2, E11): hosts over RDMA with DCQCN. Transfers that miss their deadlines;
//! hosts over TCP with DCTCP beside them; ratios of flows. Whole targets, with the daemon's stage, and with a quality
//! factor at both ends of one transport: Eq. 5 beside DCQCN, or Eq. 6 beside DCTCP. The source leaves out the two
//! together (its section 4.4).
//!
//! The source's marks are set up for DCQCN, without numbers. Switches mark by DCTCP's step threshold here, and by
//! the ramp of DCQCN's paper where rows say so.

use std::fmt::Write as _;
use std::time::Duration;

use sluice_sim::claim::{Bound, Claim};
use sluice_sim::model::Plan;
use sluice_sim::network::{Marking, RateControl};
use sluice_sim::report::Chart;

use super::deadlines::{LATE, Misses};
use super::{CLASSES, series};
use crate::figure::{Made, Request};
use crate::plot::{self, Line};
use crate::whole;

/// The scenarios of the figures, with the deadlines of Fig. 15b.
const DEADLINES: &str = include_str!("../../../scenarios/e2e-15.toml");
const BESIDE: &str = include_str!("../../../scenarios/e2e-18.toml");
const RATIOS: &str = include_str!("../../../scenarios/e2e-19.toml");

/// The rate of the link in bits per second.
const LINK: u64 = 100_000_000_000;
/// The data that the link carries, in Gb/s.
const GOODPUT: f64 = 94.0;
/// The mean transfer in Gbit.
const MEAN: f64 = 0.016;

/// Computes which parts of the transfers of High, Medium and Low miss their deadlines over RDMA.
fn misses(
    request: Request,
    daemon: bool,
    control: impl Fn(usize) -> RateControl,
) -> anyhow::Result<Misses> {
    Misses::over_seeds(DEADLINES, daemon, request, |plan| {
        for (class, name) in CLASSES.iter().enumerate() {
            whole::over_rdma(plan, name, control(class));
        }
    })
}

/// Makes Fig. 18.
///
/// # Errors
///
/// A run cannot be made.
pub(super) fn run(request: Request) -> anyhow::Result<Made> {
    let dcqcn = misses(request, false, |_| RateControl::dcqcn(LINK))?;
    let daemon = misses(request, true, |_| RateControl::dcqcn(LINK))?;
    // A mean transfer is meant to take half of its time.
    let printed = misses(request, false, |class| {
        let late = LATE.get(class).copied().unwrap_or(1) as f64;
        RateControl::qrdma(LINK, MEAN / (late / 2.0) * 1e12)
    })?;
    let mut claims = Vec::new();
    let laws = [("the daemon", &daemon), ("Eq. 6 as printed", &printed)];
    for ((name, of), known) in laws.into_iter().zip(KNOWN_MISSES) {
        let fewer = 1.0 - of.mean() / dcqcn.mean();
        let what = format!("(a) {name}: fewer misses than DCQCN");
        let claim = Claim::percent(what, "43..80 %", fewer, Bound::Between(0.43, 0.8));
        claims.push(claim.known(known, MISSES));
    }
    let mut plots = Vec::new();
    let bars = [("DCQCN", dcqcn), ("the daemon", daemon), ("Eq. 6 as printed", printed)];
    let mut title = "End-to-end QoS, Fig. 18 (E2, E11). (a) Transfers over RDMA that miss 5, 6 and 8 ms, in per cent \
         of High, Medium and Low:\n"
        .to_owned();
    for (name, of) in &bars {
        _ = writeln!(title, "{name} {}", of.text());
    }
    let bars = bars.map(|(name, of)| (name, of.percent()));
    let chart = plot::bars("per cent of transfers that miss their deadline", CLASSES, bars);
    plots.push(("e2e-18a", chart));
    beside(request, &mut title, &mut claims, &mut plots)?;
    Ok(Made::of(&title, claims, plots))
}

/// The marks of DCQCN's paper, which has them at 40 Gb/s, at the rate of the link.
const RAMP: Marking = Marking::Ramp { from: 12_500, to: 500_000, most: 0.01 };

/// A run of Fig. 18b or 18c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    /// DCTCP and DCQCN.
    Plain,
    /// The same with DCQCN's marks.
    Marks,
    /// The same with the target's stage.
    Daemon,
    /// Eq. 5 in the sockets of TCP, beside DCQCN.
    Qtcp,
    /// The same with DCQCN's marks.
    QtcpMarks,
}

/// Adds Fig. 18b and 18c: DCTCP and DCQCN on one link, and with a quality factor on one of them.
fn beside(
    request: Request,
    title: &mut String,
    claims: &mut Vec<Claim>,
    plots: &mut Vec<(&'static str, Chart)>,
) -> anyhow::Result<()> {
    title.push_str("(b), (c) Gb/s of a host over TCP, and of one over RDMA:\n");
    let runs = [
        ("(b) DCTCP and DCQCN", "e2e-18b", Beside::Plain),
        ("(b) the same, DCQCN's marks", "e2e-18b-ramp", Beside::Marks),
        ("(c) the daemon", "e2e-18c", Beside::Daemon),
        ("(c) QTCP (Eq. 5) and DCQCN", "e2e-18c-eq-5", Beside::Qtcp),
        ("(c) the same, DCQCN's marks", "e2e-18c-eq-5-ramp", Beside::QtcpMarks),
    ];
    for (name, file, run) in runs {
        let daemon = run == Beside::Daemon;
        let change = |plan: &mut Plan| {
            whole::over_rdma(plan, "RDMA", RateControl::dcqcn(LINK));
            if matches!(run, Beside::Qtcp | Beside::QtcpMarks) {
                whole::by_eq_5(plan, "TCP", GOODPUT / 2.0);
            }
            if matches!(run, Beside::Marks | Beside::QtcpMarks) {
                plan.topology.mark(Some(RAMP));
            }
            if daemon {
                // The stage finds the parts in hundreds of milliseconds.
                plan.warmup = Duration::from_millis(800);
            }
        };
        let measured = whole::measure(BESIDE, daemon, request, change)?;
        let [tcp, rdma] = ["TCP", "RDMA"].map(|name| whole::rate(&measured, name));
        _ = writeln!(title, "{name}: {}", series(&[tcp, rdma]));
        let part = tcp / (tcp + rdma);
        let what = format!("{name}: TCP, of both");
        claims.push(if matches!(run, Beside::Plain | Beside::Marks) {
            Claim::percent(what, "most", part, Bound::AtLeast(0.55))
        } else {
            let claim = Claim::percent(what, "equal", part, Bound::Near(0.5, 0.1));
            claim.known(Bound::Near(0.72, 0.1), MIX)
        });
        let lines = ["TCP", "RDMA"]
            .map(|name| Line { name: name.to_owned(), points: whole::over_time(&measured, name) });
        plots.push((file, plot::lines("Gb/s of data", "ms", lines.into())));
    }
    Ok(())
}

/// The flows of Fig. 19, with their parts of the ratio.
const FLOWS: [(&str, f64); 4] = [("A", 3.0), ("B", 2.0), ("C", 1.5), ("D", 1.0)];

/// A host of Fig. 19b and 19c that has no target, over the other transport than the flows with ratios.
const OTHERS: &str = r#"
[[host]]
name = "Others"
queues = 2
[[host.load]]
process = "closed"
depth = 250
size = "128 KiB"
reads = "0 %"
"#;

/// A run of Fig. 19.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ratios {
    /// The target's stage, with A and C over RDMA, B and D over TCP.
    Daemon,
    /// Eq. 5 in the sockets of all flows, beside DCQCN.
    Qtcp,
    /// The same with DCQCN's marks.
    QtcpMarks,
    /// Eq. 6 in the adapters of all flows, beside DCTCP.
    Qrdma,
    /// The same with DCQCN's marks.
    QrdmaMarks,
}

impl Ratios {
    /// Changes the plan. Flows with targets are to have half of the link, as TCP has in Fig. 18c.
    fn change(self, plan: &mut Plan) {
        for (flow, share) in FLOWS {
            let target = GOODPUT / 2.0 * share / 7.5;
            match self {
                Self::Daemon if matches!(flow, "A" | "C") => {
                    whole::over_rdma(plan, flow, RateControl::dcqcn(LINK));
                }
                Self::Daemon => {}
                Self::Qtcp | Self::QtcpMarks => whole::by_eq_5(plan, flow, target),
                Self::Qrdma | Self::QrdmaMarks => {
                    // Each of its two queue pairs has half of it.
                    let control = RateControl::qrdma(LINK, target * 1e9 / 2.0);
                    whole::over_rdma(plan, flow, control);
                }
            }
        }
        if matches!(self, Self::QtcpMarks | Self::QrdmaMarks) {
            plan.topology.mark(Some(RAMP));
        }
        if matches!(self, Self::Qtcp | Self::QtcpMarks) {
            whole::over_rdma(plan, "Others", RateControl::dcqcn(LINK));
        }
        if self != Self::Daemon {
            plan.warmup = Duration::from_millis(100);
        }
    }
}

impl Ratios {
    /// Returns which parts flows are known to have, and why.
    const fn known(self) -> Option<([f64; 4], &'static str)> {
        match self {
            Self::Daemon => None,
            Self::Qtcp | Self::QtcpMarks => Some(([0.32, 0.25, 0.225, 0.204], PACKETS)),
            Self::Qrdma | Self::QrdmaMarks => Some(([0.25, 0.25, 0.255, 0.235], EQUAL)),
        }
    }
}

/// Makes Fig. 19: ratios of 3:2:1.5:1.
///
/// # Errors
///
/// A run cannot be made.
pub(super) fn ratios(request: Request) -> anyhow::Result<Made> {
    let mut title = "End-to-end QoS, Fig. 19 (E11): flows of 3:2:1.5:1 on a link of 100 Gb/s, over RDMA, TCP, RDMA and \
         TCP\nwith the daemon, and all over one transport beside a host over the other, in Gb/s:\n"
        .to_owned();
    let with_others = format!("{RATIOS}{OTHERS}");
    let (mut claims, mut bars) = (Vec::new(), Vec::new());
    let runs = [
        ("the daemon", Ratios::Daemon, RATIOS),
        ("(b) QTCP (Eq. 5) beside DCQCN", Ratios::Qtcp, &with_others),
        ("(b) the same, DCQCN's marks", Ratios::QtcpMarks, &with_others),
        ("(c) QRDMA (Eq. 6) beside DCTCP", Ratios::Qrdma, &with_others),
        ("(c) the same, DCQCN's marks", Ratios::QrdmaMarks, &with_others),
    ];
    for (name, run, scenario) in runs {
        let known = run.known();
        let daemon = run == Ratios::Daemon;
        let measured = whole::measure(scenario, daemon, request, |plan| run.change(plan))?;
        let rates = FLOWS.map(|(flow, _)| whole::rate(&measured, flow));
        let others = whole::rate(&measured, "Others");
        let total: f64 = rates.iter().sum();
        _ = writeln!(title, "{name}: {}; others {others:.1}", series(&rates));
        for (place, ((flow, share), rate)) in FLOWS.into_iter().zip(rates).enumerate() {
            let part = share / 7.5;
            let what = format!("{name}: {flow}, of what all four have");
            let source = format!("{:.1} %", part * 100.0);
            let claim = Claim::percent(what, source, rate / total, Bound::Near(part, 0.15));
            claims.push(match known {
                Some((parts, why)) => {
                    let part = parts.get(place).copied().unwrap_or_default();
                    claim.known(Bound::Near(part, 0.15), why)
                }
                None => claim,
            });
        }
        if matches!(run, Ratios::Qtcp | Ratios::QtcpMarks) {
            let what = format!("{name}: the others, of all");
            let part = others / (others + total);
            let claim = Claim::percent(what, "QTCP makes way", part, Bound::AtLeast(0.1));
            claims.push(claim.known(Bound::Near(0.017, 0.2), MIX));
        }
        bars.push((name, rates));
    }
    let chart = plot::bars("Gb/s of data", FLOWS.map(|(flow, _)| flow), bars);
    Ok(Made::of(&title, claims, [("e2e-19", chart)]))
}

/// The known reduction of misses by the daemon and by Eq. 6, compared with DCQCN.
const KNOWN_MISSES: [Bound; 2] = [Bound::Between(-0.12, 0.05), Bound::Between(0.12, 0.3)];

/// The reason why misses are not the source's.
const MISSES: &str = "The daemon's goals are about round trips (Eq. 2), which are far below \
    milliseconds here, not about transfers: the daemon changes only how much of a queue pair's \
    data is under way. Eq. 6 has a target for the throughput, of which a mean transfer takes half \
    its time: the source does not say which latency it compares. Four runs are added up, which \
    differ by more than the daemon from DCQCN: of DCQCN, 34 to 70 % are late.";

/// The reason why the mix has not the source's parts.
const MIX: &str = "Q only takes from flows that have more than their targets. DCTCP grows by a packet in each round \
    trip of some 20 us, DCQCN by 40 Mbit/s in each 55 us, and is cut by up to half at a mark: what QTCP gives \
    back, its windows have again before DCQCN has come back. With the marks of DCQCN's paper, which the source \
    may have, DCQCN has more than with the step of DCTCP, and not half.";

/// The reason why flows of QTCP are closer to each other than their targets.
const PACKETS: &str = "DCQCN leaves QTCP more than its targets. By Eq. 5 every flow grows by the same packet a round \
    trip, which is more of a small window than of a large one: see e2e-9.";

/// The reason why flows of QRDMA are equal.
const EQUAL: &str = "DCTCP has seven to nine tenths of the link, so that all flows of QRDMA have \
    less than their targets, which add up to half of it: Q takes from nobody, and they are equal \
    as with DCQCN. The source gives neither the rates of the other flows in Fig. 19 nor the sum of \
    the targets.";
