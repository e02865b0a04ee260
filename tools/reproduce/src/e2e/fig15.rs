//! Fig. 15b (docs/research/sources.md, E9): transfers that miss their deadlines, under three laws.
//!
//! The source leaves some points open, which are read here as follows:
//!
//! - *The latency* is measured for a transfer, from the time that its sender has it until its last byte is
//!   acknowledged. A packet's own way takes a tenth of a millisecond, and no target of milliseconds would ever be
//!   missed.
//! - *A controller compares the throughput with its target*: the rate that the present transfers need to finish in
//!   time, divided by the flow's rate. This is d of D2TCP's own paper (time needed by time left), and Q of Eq. (1); at
//!   1, the transfer finishes just in time. With the smoothed latency itself (Eq. 2), a flow of QTCP learns that it is
//!   late when it is too late, and slows down to its target while the link has room: three times the misses of DCTCP.
//! - *Controllers aim at half the deadline.* A flow of QTCP that is early gives way until it is
//!   just in time, and just in time is late half of the time.
//! - *Controllers aim at no less than twice an equal part, and no more than the link.* A flow that
//!   has all the time gives way no further, so that little of the link is unused when others are
//!   done.
//! - *A transfer that is late is not aimed for any more.* Otherwise transfers that cannot be in
//!   time keep others from being so.
//! - *Flows with targets grow by Q squared* (`Growth::Quality`). By a packet a round trip, a flow
//!   that gave way needs tens of milliseconds to have its bandwidth back, at deadlines of five.
//!   By a part of the target's window (`Growth::Target`) QTCP misses a third less at loads of
//!   80 %, but half more at 90 %, and on a full link more than DCTCP: targets are then far more
//!   than the link carries, and the steps with them.
//! - *The stressed situation* has equal loads. At 80 % all miss a third of the source's number, at 95 % about as many,
//!   so several loads are printed. Transfers that are not done in the end count as missed once they are late.
//!
//! The orders are the source's up to a load of 90 %, for episodes of [`EPISODE`]. At 95 % QTCP and
//! D2TCP miss two thirds of what DCTCP does, and which of them misses less depends on the seed. On
//! a full link QTCP still misses less than DCTCP, and mostly more than D2TCP; after a second of it
//! QTCP misses most (56 %, DCTCP 51 %): giving way leaves some of the link unused, and the backlog
//! of a law that gives way more grows faster.

use std::fmt::Write as _;
use std::ops::Range;

use crate::models::law::{Growth, Settings};
use qtcp::Rate;
use sluice_sim::claim::{Bound, Claim};
use sluice_sim::report::Chart;

use super::CLASSES;
use crate::figure::{Made, Request};
use crate::net::Network;
use crate::net::bottleneck::{Bottleneck, LINK, Law, offer, settings};
use crate::net::record::Record;
use crate::net::sender::Deadline;
use crate::net::time::{MICRO, MILLI, Time};
use crate::net::traffic::Size;
use crate::plot;

/// The deadlines of High, Medium and Low.
const DEADLINES: [Time; 3] = [5 * MILLI, 6 * MILLI, 8 * MILLI];
/// The part of the deadline in which a transfer is meant to end.
const AIM: Time = 2;
/// The least target throughput, in equal parts of the link.
const LEAST: f64 = 2.0;
/// The length of an episode.
const EPISODE: Time = 300 * MILLI;
/// The number of runs that are added up, and that at reduced length.
const RUNS: u64 = 3;
const RUNS_QUICK: u64 = 1;
/// Flows of each class: one to each of the source's ten servers.
const FLOWS: u32 = 10;
/// The mean size of a transfer in bytes; sizes are exponentially distributed.
const MEAN: f64 = 2e6;

/// A situation: the classes' parts of the load, and the load as a part of the link.
#[derive(Debug)]
struct Situation {
    name: &'static str,
    parts: [f64; 3],
    load: f64,
}

/// The situations of the source.
const NORMAL: Situation = Situation { name: "normal", parts: [0.1, 0.2, 0.7], load: 0.8 };
const STRESSED: Situation = stressed("stressed", 0.8);

/// Higher loads than the source's, which are printed beside its own.
const HIGHER: [Situation; 3] = [
    stressed("stressed, load 90 %", 0.9),
    stressed("stressed, load 95 %", 0.95),
    stressed("stressed, load 100 %", 1.0),
];

const fn stressed(name: &'static str, load: f64) -> Situation {
    Situation { name, parts: [1.0 / 3.0; 3], load }
}

const LAWS: [(&str, Law); 3] = [("DCTCP", Law::Dctcp), ("D2TCP", Law::D2tcp), ("QTCP", Law::Qtcp)];

/// The transfers of a class: how many have completed or are overdue, and how many of these are late.
#[derive(Clone, Copy, Debug, Default)]
struct Transfers {
    done: u32,
    late: u32,
}

impl Transfers {
    fn missed(self) -> f64 {
        f64::from(self.late) / f64::from(self.done.max(1)) * 100.0
    }
}

fn bottleneck() -> Bottleneck {
    let settings = Settings { gamma: 0.5, growth: Growth::Quality, ..settings() };
    let (rtt, shares) = (98 * MICRO, Vec::new());
    Bottleneck { rate: LINK, threshold: 140, rtt, shares, targets: 1.0, settings }
}

impl std::iter::Sum for Transfers {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, more| Self {
            done: sum.done + more.done,
            late: sum.late + more.late,
        })
    }
}

/// Makes the deadline of a class's flows.
fn aimed(bottleneck: &Bottleneck, late: Time) -> Deadline {
    let most = Rate::from_bits(bottleneck.goodput());
    let flows = f64::from(FLOWS) * DEADLINES.len() as f64;
    Deadline { late, intended: late / AIM, least: most.times(LEAST / flows), most }
}

/// Counts the transfers of each class in a run.
fn transfers(situation: &Situation, law: Law, seed: u64) -> [Transfers; 3] {
    let bottleneck = bottleneck();
    let mut network = bottleneck.network(Record::new(EPISODE, EPISODE));
    let mut seeds = seed.wrapping_mul(3)..;
    let classes = [0, 1, 2].map(|class| {
        let deadline = DEADLINES.get(class).map(|&late| aimed(&bottleneck, late));
        let flows = bottleneck.flows(&mut network, law, Some(class), FLOWS, deadline);
        flows.clone().for_each(|flow| network.start(flow, false, 0));
        let part = situation.parts.get(class).copied().unwrap_or(0.0);
        let bits = bottleneck.rate as f64 * situation.load * part;
        let source = offer(bits, Size::Exponential(MEAN), flows.clone());
        network.source(source, seeds.next().unwrap_or(seed), 0);
        flows
    });
    network.run(EPISODE);
    let mut deadlines = DEADLINES.into_iter();
    classes.map(|flows| counted(&network, &flows, deadlines.next().unwrap_or(0)))
}

/// Counts the finished transfers of these flows, and the unfinished late transfers.
fn counted(network: &Network, flows: &Range<u32>, deadline: Time) -> Transfers {
    let one = |took: Time| Transfers { done: 1, late: u32::from(took > deadline) };
    let completions = network.record().completions.iter();
    let done = completions.filter(|done| flows.contains(&done.flow));
    let waiting = flows.clone().flat_map(|flow| network.waiting(flow));
    let late = waiting.map(|given| EPISODE - given).filter(|&took| took > deadline);
    done.map(|done| one(done.time - done.given)).chain(late.map(one)).sum()
}

/// The missed transfers of a law's classes in a situation, as parts of their transfers.
#[derive(Debug)]
struct Missed {
    classes: [f64; 3],
    all: f64,
}

/// Runs a situation under each law.
fn missed(situation: &Situation, request: Request) -> [Missed; 3] {
    let count = if request.quick { RUNS_QUICK } else { RUNS };
    LAWS.map(|(_, law)| {
        let runs: Vec<[Transfers; 3]> = (0..count)
            .map(|run| transfers(situation, law, request.seed.wrapping_add(run)))
            .collect();
        let of_class = |class: usize| runs.iter().filter_map(move |run| run.get(class).copied());
        let part = |sum: Transfers| sum.missed() / 100.0;
        Missed {
            classes: [0, 1, 2].map(|class| part(of_class(class).sum())),
            all: part(runs.iter().flatten().copied().sum()),
        }
    })
}

/// The reason why sizes are not the source's in the normal situation.
const NORMAL_SIZES: &str = "At 80 % of the link, some transfers of an exponential distribution \
    with a mean of 2 MB are long and meet others; the source defines neither its latency nor the \
    distribution of sizes. How many meet is chance: runs of 0.3 s differ by a factor of two. The \
    order of the laws is the source's.";

/// The reason why sizes are not the source's in the stressed situation.
const STRESSED_SIZES: &str = "At the source's load of 80 % each law has at most a third of the \
    source's misses. At 95 to 100 % DCTCP misses as much, but then QTCP misses more than the \
    source's, too: no load has all of its numbers.";

/// Makes the figure.
pub(super) fn run(request: Request) -> Made {
    let (normal, stressed) = (missed(&NORMAL, request), missed(&STRESSED, request));
    let mut claims = Vec::new();
    let situations = [
        (&NORMAL, &normal, NORMAL_LIKE, NORMAL_SIZES),
        (&STRESSED, &stressed, STRESSED_LIKE, STRESSED_SIZES),
    ];
    for (situation, of, sizes, why) in situations {
        for ((law, _), (of, like)) in LAWS.into_iter().zip(of.iter().zip(sizes)) {
            let ([high, ..], all) = (of.classes, of.all);
            let (of, ours) =
                if like.high { ("transfers of High", high) } else { ("transfers", all) };
            let what = format!("{}, {law}: {of} that miss", situation.name);
            let claim = Claim::percent(what, like.source, ours, like.bound);
            claims.push(claim.known(like.ours, why));
        }
        let [dctcp, d2tcp, qtcp] = of;
        for (law, less, more) in
            [("D2TCP, of DCTCP", d2tcp, dctcp), ("QTCP, of D2TCP", qtcp, d2tcp)]
        {
            claims.push(Claim::times(
                format!("{}, {law}", situation.name),
                "fewer misses",
                less.all / more.all,
                Bound::AtMost(0.95),
            ));
        }
    }
    let [dctcp, _, qtcp] = &stressed;
    claims.push(
        Claim::percent(
            "stressed: fewer misses with QTCP than with DCTCP",
            "about 71 %",
            1.0 - qtcp.all / dctcp.all,
            Bound::Within(0.71, 0.03),
        )
        .known(Bound::Between(0.74, 1.0), STRESSED_SIZES),
    );
    let mut title = format!(
        "End-to-end QoS, Fig. 15b (E9): transfers (mean 2 MB, Poisson, 80 % of 100 Gb/s) that take longer \
         than 5, 6 and 8 ms,\n{FLOWS} flows a class, RTT 98 us, runs of 0.3 s. Per cent of High, Medium, \
         Low:\n"
    );
    lines(&mut title, "normal", &normal);
    lines(&mut title, "stressed", &stressed);
    if request.quick {
        title += "loads of 90 to 100 % are left out at reduced length";
    } else {
        for situation in &HIGHER {
            lines(&mut title, situation.name, &missed(situation, request));
        }
    }
    let plots = [
        ("e2e-15b-normal", plot("normal", &normal)),
        ("e2e-15b-stressed", plot("stressed", &stressed)),
    ];
    Made::of(&title, claims, plots)
}

/// The source's statement about a law.
#[derive(Clone, Copy, Debug)]
struct Like {
    source: &'static str,
    /// Whether it is of High alone.
    high: bool,
    bound: Bound,
    /// The bounds within which ours differs.
    ours: Bound,
}

const fn like(source: &'static str, bound: Bound, ours: Bound) -> Like {
    Like { source, high: false, bound, ours }
}

/// The source's numbers of DCTCP, D2TCP and QTCP.
const NORMAL_LIKE: [Like; 3] = [
    like("5..8 %", Bound::Between(0.05, 0.08), Bound::Between(0.03, 0.16)),
    like("0 %", Bound::AtMost(0.001), Bound::Between(0.01, 0.08)),
    like("about 0 %", Bound::AtMost(0.005), Bound::Between(0.005, 0.03)),
];
const STRESSED_LIKE: [Like; 3] = [
    like("30..65 %", Bound::Between(0.3, 0.65), Bound::Between(0.05, 0.17)),
    Like { high: true, ..like("35 %", Bound::Between(0.3, 0.4), Bound::Between(0.03, 0.14)) },
    like("15..18 %", Bound::Between(0.15, 0.18), Bound::Between(0.001, 0.045)),
];

/// Writes the misses of each law's classes on a line.
fn lines(text: &mut String, name: &str, missed: &[Missed; 3]) {
    _ = write!(text, "{name:21}");
    for ((law, _), missed) in LAWS.into_iter().zip(missed) {
        let [high, medium, low] = missed.classes.map(|part| part * 100.0);
        _ = write!(text, "  {law} {high:4.1}, {medium:4.1}, {low:4.1}");
    }
    text.push('\n');
}

fn plot(name: &str, missed: &[Missed; 3]) -> Chart {
    let bars = LAWS.into_iter().zip(missed);
    let bars = bars.map(|((law, _), missed)| (law, missed.classes.map(|part| part * 100.0)));
    let title = format!("{name}: per cent of transfers that miss their deadline");
    plot::bars(&title, CLASSES, bars)
}
