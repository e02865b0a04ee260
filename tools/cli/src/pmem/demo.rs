//! `sluice pmem demo`: a data node with reservations, its monitor and its clients' engines, within this
//! process: no device and no privileges are needed.
//!
//! Time is simulated ([`pmem::simulation`]), so that the result does not depend on how busy the machine is. Engines,
//! monitor and admission are the code of real data nodes and clients.

use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use anyhow::ensure;
use pmem::capacity::Profile;
use pmem::in_process::Nics;
use pmem::simulation::{
    ClientSetup, Faults, Kind, Record, Setup, Workload, run as simulate, time_of_io,
};
use pmem::token::{Iops, Tokens};
use serde::Serialize;
use sluice_config::program::{print, print_line};

const PERIODS: usize = 6;
/// T: length of a period.
const PERIOD: Duration = Duration::from_secs(1);
/// C_G: the data node's capacity, in I/Os per second.
const CAPACITY: u64 = 100_000;
/// C_L: what one client can do, in I/Os per second.
const LOCAL: u64 = 45_000;
/// B: tokens of a batch.
const BATCH: u64 = 100;
/// The I/Os that a client has under way at once.
const WINDOW: u32 = 32;
/// The I/Os of a client that are under way at once beyond its reservation: fewer, so that they give way to
/// reserved ones on a node that serves in order of arrival.
const BEST_EFFORT_WINDOW: u32 = 2;

/// Arguments of `sluice pmem demo`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Args {
    /// Random seed: the same seed gives the same numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A client of the demo.
#[derive(Clone, Debug)]
struct Tenant {
    name: &'static str,
    /// R_i: its reservation, in I/Os of a period.
    reserved: u64,
    /// The I/Os that it wants in each period in which it is active.
    wants: Workload,
    /// The periods in which it wants them, counted from 0.
    active: Range<usize>,
}

impl Tenant {
    /// Returns the I/Os that the client wants in a period.
    fn wanted(&self, period: usize) -> u64 {
        if self.active.contains(&period) { self.wants.requests() } else { 0 }
    }
}

/// Makes the clients.
fn tenants() -> [Tenant; 5] {
    const ALWAYS: Range<usize> = 0..usize::MAX;
    let tenant = |name, reserved, wants, active| Tenant { name, reserved, wants, active };
    [
        tenant("database", 32_000, Workload::Burst(CAPACITY), ALWAYS),
        tenant("log", 15_000, Workload::Constant(15_000), ALWAYS),
        tenant("reports", 20_000, Workload::Burst(CAPACITY), 2..4),
        tenant("backup", 10_000, Workload::Burst(CAPACITY), ALWAYS),
        tenant("scrub", 0, Workload::Burst(CAPACITY), ALWAYS),
    ]
}

/// Makes the data node with its clients, all with engines or all without.
fn setup(tenants: &[Tenant], kind: Kind, seed: u64) -> Setup {
    let client = |tenant: &Tenant| ClientSetup {
        kind,
        reservation: (kind == Kind::Engine).then_some(Tokens(tenant.reserved)),
        active: tenant.active.clone(),
        window: WINDOW,
        best_effort_window: BEST_EFFORT_WINDOW,
        ..ClientSetup::new(Tokens(tenant.reserved), tenant.wants)
    };
    Setup {
        nics: Nics {
            io_at_node: time_of_io(CAPACITY),
            io_at_client: time_of_io(LOCAL),
            word: Duration::from_nanos(20),
            travel: Duration::from_micros(2),
            jitter: 5,
        },
        local: Iops(LOCAL),
        period: PERIOD,
        interval: Duration::from_millis(1),
        batch: Tokens(BATCH),
        conversion: true,
        counts_packets: true,
        profile: Profile { mean: Iops(CAPACITY).in_time(PERIOD), sigma: 0.0 },
        increment: Tokens::ZERO,
        history: 5,
        clients: tenants.iter().map(client).collect(),
        faults: Faults::default(),
        monitor_down: None,
        latencies: 0,
        seed,
    }
}

/// The I/Os of one client in one period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Row {
    client: &'static str,
    reserved: u64,
    wanted: u64,
    had: u64,
    /// The client's I/Os on a system without tokens.
    without_tokens: u64,
}

impl Row {
    /// Returns whether the client completed its reservation, as far as it wanted it; `None` if it reserved or wanted
    /// nothing.
    fn is_met(&self, had: u64) -> Option<bool> {
        let due = self.reserved.min(self.wanted);
        // I/Os that were under way at the end count in the next period.
        (due > 0).then(|| had.saturating_add(WINDOW.into()) >= due)
    }

    /// Returns the same in a word.
    fn verdict(&self) -> &'static str {
        match self.is_met(self.had) {
            Some(true) => "yes",
            Some(false) => "no",
            None if self.reserved > 0 => "idle",
            None => "-",
        }
    }
}

/// The demo's results.
#[derive(Debug, Serialize)]
struct Report {
    /// C_G and C_L, in I/Os per second.
    capacity: u64,
    client_capacity: u64,
    /// The clients' rows in each period.
    periods: Vec<Vec<Row>>,
    /// The number of reservations that were to be met, one for each client and period.
    reservations: usize,
    met: usize,
    met_without_tokens: usize,
}

impl Report {
    /// Puts what happened with tokens beside what happened without.
    fn of(tenants: &[Tenant], with: &Record, without: &Record) -> Self {
        let had = |record: &Record, period: usize, client: usize| {
            let period = record.periods.get(period);
            period.and_then(|period| period.completed.get(client)).copied().unwrap_or(0)
        };
        let rows = |period: usize| {
            let rows = tenants.iter().enumerate().map(|(client, tenant)| Row {
                client: tenant.name,
                reserved: tenant.reserved,
                wanted: tenant.wanted(period),
                had: had(with, period, client),
                without_tokens: had(without, period, client),
            });
            rows.collect()
        };
        let periods: Vec<Vec<Row>> = (0..PERIODS).map(rows).collect();
        let met = |row: &Row| row.is_met(row.had);
        let met_without = |row: &Row| row.is_met(row.without_tokens);
        let count =
            |met: &dyn Fn(&Row) -> bool| periods.iter().flatten().filter(|row| met(row)).count();
        Self {
            capacity: CAPACITY,
            client_capacity: LOCAL,
            reservations: count(&|row| met(row).is_some()),
            met: count(&|row| met(row) == Some(true)),
            met_without_tokens: count(&|row| met_without(row) == Some(true)),
            periods,
        }
    }

    /// Writes the results for people.
    fn text(&self) -> String {
        let mut text = format!(
            "A data node does {CAPACITY} I/Os per second, in order of arrival; one client alone does \
             {LOCAL}.\n{PERIODS} periods of {PERIOD:?}, on simulated time, with the code of real data nodes \
             and clients.\n\n\
             period  client      reserved    wanted       had  met   without tokens\n"
        );
        for (number, rows) in (1..).zip(&self.periods) {
            for row in rows {
                let Row { client, reserved, wanted, had, without_tokens } = row;
                // Writing to a string does not fail.
                let _ = writeln!(
                    text,
                    "{number:>6}  {client:<10}{reserved:>10}{wanted:>10}{had:>10}  {:<4}\
                     {without_tokens:>16}",
                    row.verdict()
                );
            }
            let sum = |of: fn(&Row) -> u64| rows.iter().map(of).sum::<u64>();
            let (reserved, had) = (sum(|row| row.reserved), sum(|row| row.had));
            let without = sum(|row| row.without_tokens);
            let _ = writeln!(
                text,
                "{number:>6}  {:<10}{reserved:>10}{:>10}{had:>10}  {:<4}{without:>16}\n",
                "all", "", ""
            );
        }
        let Self { reservations, met, met_without_tokens, .. } = self;
        let _ = writeln!(
            text,
            "reservations met with tokens: {met} of {reservations}\n\
             reservations met without tokens: {met_without_tokens} of {reservations}\n\
             (up to {WINDOW} I/Os that were under way at a period's end count in the next one)"
        );
        text
    }

    /// Fails if a reservation was not met, for the exit status.
    fn conclude(&self) -> anyhow::Result<()> {
        let Self { reservations, met, .. } = self;
        ensure!(met == reservations, "only {met} of {reservations} reservations were met");
        Ok(())
    }
}

/// Runs the demo with tokens, and without.
fn report(seed: u64) -> Report {
    let tenants = tenants();
    let [with, without] =
        [Kind::Engine, Kind::Bare].map(|kind| simulate(setup(&tenants, kind, seed), PERIODS));
    Report::of(&tenants, &with, &without)
}

/// Runs the demo, and prints the I/Os of each client.
///
/// # Errors
///
/// A reservation was not met.
pub(crate) fn run(args: Args, as_json: bool) -> anyhow::Result<()> {
    let report = report(args.seed);
    if as_json {
        print_line(serde_json::to_string_pretty(&report)?)?;
    } else {
        print(report.text())?;
    }
    report.conclude()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h1_h2_the_demo_meets_all_reservations_and_a_system_without_tokens_does_not() {
        for seed in [1, 7] {
            let report = report(seed);
            let text = report.text();
            report.conclude().unwrap_or_else(|error| panic!("{error}:\n{text}"));
            assert!(text.contains("reservations met with tokens: 20 of 20\n"), "{text}");
            assert!(report.met_without_tokens < 20, "{text}");
            for (period, rows) in report.periods.iter().enumerate() {
                let database = &rows[0];
                assert_eq!(database.is_met(database.without_tokens), Some(false), "{text}");
                let reports = if (2..4).contains(&period) { "yes" } else { "idle" };
                assert_eq!(rows[2].verdict(), reports, "{text}");
            }
            // Others use the reservation of an idle client.
            for rows in &report.periods {
                let had: u64 = rows.iter().map(|row| row.had).sum();
                assert!(had > CAPACITY * 95 / 100, "{text}");
            }
        }
        assert_eq!(report(3).text(), report(3).text());
    }

    #[test]
    fn one_reservation_that_is_missed_fails_the_demo() {
        let tenants = tenants();
        let mut record = simulate(setup(&tenants, Kind::Engine, 1), PERIODS);
        record.periods[4].completed[1] = 15_000 - u64::from(WINDOW) - 1;
        let report = Report::of(&tenants, &record, &record);
        let error = report.conclude().unwrap_err().to_string();
        assert_eq!(error, "only 19 of 20 reservations were met");
        let row = "     5  log            15000     15000     14967  no             14967";
        assert!(report.text().lines().any(|line| line == row), "{}", report.text());
    }
}
