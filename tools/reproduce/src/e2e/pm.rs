//! Persistent memory beside storage on whole targets: the runs of Fig. 20 to 23 (docs/research/sources.md, E12).
//!
//! Storage is over TCP, persistent memory over RDMA. The classes of storage have the daemon's stage, or Eq. 5 as
//! printed in their sockets. Persistent memory is not throttled, as the source's section 2.3 requires: with DCQCN, and
//! without Urgent in the network, notifications of the congestion that storage makes hold its queue pair below its
//! load, and accesses pile up for as long as the run takes.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use sluice_sim::model::{Measured, Plan};

use super::CLASSES;
use crate::figure::Request;
use crate::net::bottleneck::{SHARES, part};
use crate::whole::{self, Latency};

/// The data of TCP that 100 Gb/s carry, in Gb/s.
pub(super) const GOODPUT: f64 = 100.0 * 1448.0 / 1538.0;

/// The controllers that figures have side by side.
pub(super) const LAWS: [(&str, Law); 2] =
    [("the daemon", Law::Daemon), ("Eq. 5 as printed", Law::Printed)];

/// The law that divides the link among the classes of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Law {
    /// The target's stage of the network.
    Daemon,
    /// Eq. 5 in the sockets of both ends.
    Printed,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Run<'a> {
    pub(super) scenario: &'a str,
    /// Whether all hosts write.
    pub(super) writes: bool,
    /// Whether switches send Urgent first.
    pub(super) first: bool,
    pub(super) law: Law,
    /// The accesses to persistent memory, in Gb/s; 0: none.
    pub(super) pm: f64,
}

impl Run<'_> {
    /// Makes the run. Eq. 5 settles in milliseconds, the daemon in hundreds: it has less time.
    pub(super) fn measure(&self, request: Request) -> anyhow::Result<Measured> {
        let reads = if self.writes { "0 %" } else { "100 %" };
        let scenario = with(self.scenario, "reads = \"100 %\"", &format!("reads = \"{reads}\""))?;
        let first = format!("urgent_first = {}", self.first);
        let scenario = with(&scenario, "urgent_first = true", &first)?;
        let scenario = accessing(&scenario, self.pm.max(0.001))?;
        let daemon = self.law == Law::Daemon;
        whole::measure(&scenario, daemon, request, |plan| self.change(plan))
    }

    fn change(&self, plan: &mut Plan) {
        if self.law == Law::Printed {
            plan.warmup = Duration::from_millis(20);
            for (class, share) in CLASSES.iter().zip(SHARES) {
                whole::by_eq_5(plan, class, (GOODPUT - self.pm) * part(share));
            }
        }
    }
}

/// Replaces a part of a scenario.
///
/// # Errors
///
/// The scenario has no such part.
pub(super) fn with(scenario: &str, part: &str, by: &str) -> anyhow::Result<String> {
    ensure!(scenario.contains(part), "the scenario has no {part}");
    Ok(scenario.replace(part, by))
}

/// Sets the accesses of persistent memory, whose host is the last of a scenario, in Gb/s.
fn accessing(scenario: &str, pm: f64) -> anyhow::Result<String> {
    let (before, rate) = scenario.rsplit_once("rate = \"").context("the last host has no rate")?;
    let (_, after) = rate.split_once('"').context("a rate ends")?;
    Ok(format!("{before}rate = \"{:.0} bit/s\"{after}", pm * 1e9))
}

/// Computes the latencies of persistent memory.
pub(super) fn latency(measured: &Measured) -> anyhow::Result<Latency> {
    whole::latency(measured, "PM", Duration::ZERO)
}

/// Computes the throughput of the classes of storage, in Gb/s.
pub(super) fn rates(measured: &Measured) -> [f64; 3] {
    CLASSES.map(|class| whole::rate(measured, class))
}
