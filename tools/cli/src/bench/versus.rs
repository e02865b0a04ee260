//! Two targets in turn, A B A B ...: on a machine whose speed drifts, only runs right after each
//! other can be compared.

use anyhow::{bail, ensure};
use serde::Serialize;
use sluice_config::program::print_line;

use super::args::Load;
use super::content;
use super::figures::Figures;
use super::units::{show_count, show_latency};
use crate::host::access::Transport;

/// One pair of runs.
#[derive(Debug, Serialize)]
pub(crate) struct Pair {
    a: Figures,
    b: Figures,
    /// The IOPS of A divided by those of B.
    ratio: f64,
}

/// All pairs.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    a: String,
    b: String,
    pairs: Vec<Pair>,
    median_ratio: f64,
    min_ratio: f64,
    max_ratio: f64,
}

/// Runs `--pairs` pairs and prints the ratio of each, the median and the spread.
pub(crate) fn run(load: &Load) -> anyhow::Result<()> {
    if load.json {
        return print_line(serde_json::to_string_pretty(&compare(load, |_, _| Ok(()))?)?);
    }
    let other = other(load);
    let (a, b) = (endpoint(load), endpoint(&other));
    print_line(format_args!("A {a}  {}\nB {b}  {}\n", load.nqn, other.nqn))?;
    print_line("pair     A IOPS   B IOPS     A/B    A mean   B mean    A p99    B p99")?;
    let comparison = compare(load, |number, pair| print_line(pair.row(number)))?;
    let Comparison { median_ratio, min_ratio, max_ratio, .. } = comparison;
    print_line(format_args!(
        "\nA does {median_ratio:.3} x the IOPS of B (median; {min_ratio:.3} to {max_ratio:.3}, \
         spread {:.1} %)",
        (max_ratio - min_ratio) / median_ratio * 100.0
    ))
}

/// Runs the pairs and hands each to `show` with its number.
pub(crate) fn compare(
    load: &Load,
    show: impl Fn(usize, &Pair) -> anyhow::Result<()>,
) -> anyhow::Result<Comparison> {
    ensure!(load.pairs > 0, "--pairs must be at least 1");
    let jobs = load.jobs()?;
    let elsewhere = jobs.iter().find(|job| {
        let access = &job.access;
        access.endpoint() != endpoint(load) || access.nqn != load.nqn
    });
    if let Some(job) = elsewhere {
        bail!("{}: with --vs no job has a transport=, address= or nqn= of its own", job.name);
    }
    let other = other(load);
    content::ensure_nothing_is_lost(load, &jobs)?;
    content::ensure_nothing_is_lost(&other, &other.jobs()?)?;
    let mut pairs = Vec::new();
    for number in 1..=load.pairs {
        let pair = Pair::measure(load, &other)?;
        show(number, &pair)?;
        pairs.push(pair);
    }
    Ok(Comparison::of(load, &other, pairs))
}

/// Writes the address of a load's target.
fn endpoint(load: &Load) -> String {
    load.job.transport.endpoint(&load.address)
}

/// Makes the same load on the target that `--vs [TRANSPORT:]ADDRESS[,NQN]` names.
fn other(load: &Load) -> Load {
    let text = load.vs.as_deref().unwrap_or_default();
    let (address, nqn) = text.split_once(',').unwrap_or((text, &load.nqn));
    let (transport, address) = Transport::of_endpoint(address);
    let mut job = load.job.clone();
    job.transport = transport.unwrap_or(job.transport);
    Load { address: address.to_owned(), nqn: nqn.to_owned(), job, ..load.clone() }
}

impl Pair {
    fn measure(a: &Load, b: &Load) -> anyhow::Result<Self> {
        let measure = |load| {
            let outcome = super::run::once(load, false)?;
            outcome.ensure_no_errors()?;
            outcome.total()
        };
        let (a, b) = (measure(a)?, measure(b)?);
        let ratio = a.iops / b.iops;
        Ok(Self { a, b, ratio })
    }

    fn row(&self, number: usize) -> String {
        let Self { a, b, ratio } = self;
        format!(
            "{number:>4}   {:>8} {:>8}  {ratio:>6.3}  {:>8} {:>8} {:>8} {:>8}",
            show_count(a.iops),
            show_count(b.iops),
            show_latency(a.mean_ns),
            show_latency(b.mean_ns),
            show_latency(a.p99_ns as f64),
            show_latency(b.p99_ns as f64)
        )
    }
}

impl Comparison {
    fn of(a: &Load, b: &Load, pairs: Vec<Pair>) -> Self {
        let mut ratios: Vec<f64> = pairs.iter().map(|pair| pair.ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let (low, high) = (ratios.get((ratios.len() - 1) / 2), ratios.get(ratios.len() / 2));
        let edge = |ratio: Option<&f64>| ratio.copied().unwrap_or(f64::NAN);
        Self {
            a: format!("{},{}", endpoint(a), a.nqn),
            b: format!("{},{}", endpoint(b), b.nqn),
            pairs,
            median_ratio: (edge(low) + edge(high)) / 2.0,
            min_ratio: edge(ratios.first()),
            max_ratio: edge(ratios.last()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::parse;

    #[test]
    fn the_second_target_may_have_another_transport() {
        for (transport, vs, want) in [
            ("tcp", "b:1", ("b:1", "nqn")),
            ("tcp", "rdma:b:1,other", ("rdma:b:1", "other")),
            ("rdma", "b:1,other", ("rdma:b:1", "other")),
            ("rdma", "tcp:b:1", ("b:1", "nqn")),
            ("tcp", "rdma:1", ("rdma:1", "nqn")),
        ] {
            let load: Load = parse(&format!("bench -n nqn -t {transport} --vs {vs}")).unwrap();
            let other = other(&load);
            assert_eq!((&endpoint(&other)[..], &other.nqn[..]), want, "-t {transport} --vs {vs}");
        }
    }
}
