//! The table of each pane, from the model.

use sluice_config::answer::FlowState;

use super::model::{Model, Pane, Rates, host_key};
use super::sample::{DeviceSample, Sample, SessionSample};
use super::table::{Cell, Row, Table};
use crate::bench::show_count;
use crate::control::table::size;

/// The number of credits, in commands or KiB, from which on there is no limit.
const NO_LIMIT: u64 = u32::MAX as u64;

/// The last columns of tables of commands, before the history.
const MEASURED: [&str; 6] = ["LATENCY", "LATENCY P99", "WAIT", "WAIT P99", "DEVICE", "DEVICE P99"];

/// The last columns of links and connections, before the history.
const FLOWING: [&str; 7] = ["RATE", "TARGET", "LIMIT", "ALPHA", "Q", "MARKS/s", "PACKETS/s"];

/// Makes a pane's table.
pub(super) fn table(model: &Model, pane: Pane) -> Table {
    let Some(sample) = &model.sample else { return Table::new(&[], Vec::new()) };
    match pane {
        Pane::Classes => classes(model, sample),
        Pane::Sessions => sessions(model, sample),
        Pane::Devices => devices(model, sample),
        Pane::Hosts => hosts(model, sample),
        Pane::Workloads => workloads(model, sample),
        Pane::Links => links(model, sample),
        Pane::Connections => connections(model, sample),
    }
}

/// Makes a row that ends with its times and history.
fn row(mut cells: Vec<Cell>, rates: Rates, waiting: u64) -> Row {
    for time in [rates.latency, rates.queueing, rates.service] {
        cells.extend([Cell::latency(time.mean), Cell::latency(time.p99)]);
    }
    cells.push(Cell::History(rates.history));
    let idle = rates.iops == 0.0 && rates.refused == 0.0 && waiting == 0;
    Row { cells, idle, class: String::new() }
}

/// Adds the times and the history to `titles`.
fn titles(titles: &[&'static str]) -> Vec<&'static str> {
    titles.iter().copied().chain(MEASURED).chain(["<IOPS OVER TIME"]).collect()
}

fn classes(model: &Model, sample: &Sample) -> Table {
    let rates: Vec<_> =
        sample.classes.iter().map(|row| model.rates(Pane::Classes, &row.name)).collect();
    let all: f64 = rates.iter().map(|rates| rates.iops).sum();
    let rows = sample.classes.iter().zip(rates).map(|(class, rates)| {
        let share = if all > 0.0 { rates.iops / all } else { 0.0 };
        let cells = vec![
            Cell::Text(class.name.clone()),
            Cell::count(rates.iops),
            Cell::percent(share),
            Cell::megabytes(rates.bytes),
            Cell::whole(class.waiting),
            Cell::count(rates.refused),
        ];
        Row { class: class.name.clone(), ..row(cells, rates, class.waiting) }
    });
    let head = titles(&["<CLASS", "IOPS", "SHARE", "MB/s", "WAITING", "REFUSED/s"]);
    Table::new(&head, rows.collect())
}

fn sessions(model: &Model, sample: &Sample) -> Table {
    let rows = sample.sessions.iter().map(|session| {
        let rates = model.rates(Pane::Sessions, &session.name);
        let cells = session_cells(session, &rates);
        row(cells, rates, session.waiting)
    });
    let head = titles(&[
        "<SESSION",
        "<IN",
        "IOPS",
        "IOPS LIMIT",
        "MB/s",
        "MB/s LIMIT",
        "WAITING",
        "REFUSED/s",
        "COMMANDS",
        "PAYLOAD",
        "=RESERVED",
        "KEPT",
    ]);
    Table::new(&head, rows.collect())
}

fn session_cells(session: &SessionSample, rates: &Rates) -> Vec<Cell> {
    let reserve = session.reserve.as_ref();
    let kept = reserve.filter(|reserve| reserve.periods > 0);
    let limits = &session.limits;
    vec![
        Cell::Text(session.name.clone()),
        Cell::Text(session.parent.clone()),
        Cell::count(rates.iops),
        limit([limits.iops, limits.read_iops, limits.write_iops], 1.0),
        Cell::megabytes(rates.bytes),
        limit([limits.bandwidth, limits.read_bandwidth, limits.write_bandwidth], 1e6),
        Cell::whole(session.waiting),
        Cell::count(rates.refused),
        Cell::used(session.operations, NO_LIMIT, |count| count.to_string()),
        Cell::used(session.payload, NO_LIMIT << 10, size),
        Cell::Text(reserve.map_or("-".to_owned(), |reserve| reserve.terms.clone())),
        kept.map_or(Cell::Number(-1.0, "-".to_owned()), |reserve| {
            Cell::percent(reserve.kept as f64 / reserve.periods as f64)
        }),
    ]
}

/// Shows the limit on all commands, then those on reads (`r`) and writes (`w`); sorts by the first.
fn limit(limits: [Option<u64>; 3], unit: f64) -> Cell {
    let limits = ["", "r ", "w "].into_iter().zip(limits);
    let limits: Vec<_> = limits.filter_map(|(of, limit)| Some((of, limit? as f64))).collect();
    let shown = limits.iter().map(|(of, limit)| format!("{of}{}", show_count(limit / unit)));
    let shown: Vec<String> = shown.collect();
    match limits.first() {
        Some((_, first)) => Cell::Number(*first, shown.join(", ")),
        None => Cell::Number(-1.0, "-".to_owned()),
    }
}

fn devices(model: &Model, sample: &Sample) -> Table {
    let rows = sample.devices.iter().map(|device| {
        let rates = model.rates(Pane::Devices, &device.name);
        let waiting = device.waiting.iter().sum();
        let cells = device_cells(device, &rates);
        row(cells, rates, waiting)
    });
    let head = titles(&[
        "<NAMESPACE",
        "IOPS",
        "MB/s",
        "ERRORS/s",
        "IN DEVICE",
        "URGENT",
        "HIGH",
        "MEDIUM",
        "LOW",
        "READ",
        "WRITE",
        "RESERVED",
    ]);
    Table::new(&head, rows.collect())
}

fn device_cells(device: &DeviceSample, rates: &Rates) -> Vec<Cell> {
    let in_device = match (device.known, device.window) {
        (false, _) => "-".to_owned(),
        (true, None) => format!("{:.0}", device.in_use),
        (true, Some(window)) => format!("{:.0}/{window:.0}", device.in_use),
    };
    let mut cells = vec![
        Cell::Text(device.name.clone()),
        Cell::count(rates.iops),
        Cell::megabytes(rates.bytes),
        Cell::count(rates.errors),
        Cell::Number(device.in_use, in_device),
    ];
    cells.extend(device.waiting.map(Cell::whole));
    cells.push(Cell::latency(device.mean_ns.0 as f64));
    cells.push(Cell::latency(device.mean_ns.1 as f64));
    cells.push(Cell::percent(device.reserved));
    cells
}

fn hosts(model: &Model, sample: &Sample) -> Table {
    let rows = sample.hosts.iter().map(|host| {
        let rates = model.rates(Pane::Hosts, &host_key(&host.host, &host.subsystem));
        let cells = vec![
            Cell::Text(host.host.clone()),
            Cell::Text(host.subsystem.clone()),
            Cell::count(rates.iops),
            Cell::megabytes(rates.bytes),
            Cell::count(rates.errors),
        ];
        row(cells, rates, 0)
    });
    let head = titles(&["<HOST", "<SUBSYSTEM", "IOPS", "MB/s", "ERRORS/s"]);
    Table::new(&head, rows.collect())
}

fn workloads(model: &Model, sample: &Sample) -> Table {
    let rows = sample.workloads.iter().map(|workload| {
        let rates = model.rates(Pane::Workloads, &workload.key());
        let cells = vec![
            Cell::Text(workload.host.clone()),
            Cell::Text(workload.namespace.clone()),
            Cell::Text(workload.class.clone()),
            Cell::count(rates.iops),
            Cell::megabytes(rates.bytes),
            Cell::count(rates.errors),
        ];
        Row { class: workload.class.clone(), ..row(cells, rates, 0) }
    });
    let head = titles(&["<HOST", "<NAMESPACE", "<CLASS", "IOPS", "MB/s", "ERRORS/s"]);
    Table::new(&head, rows.collect())
}

/// Makes a row that ends with the measurements of the network.
fn flowing_row(mut cells: Vec<Cell>, class: &str, flow: &FlowState, rates: Rates) -> Row {
    cells.extend([
        Cell::rate(Some(flow.rate)),
        Cell::rate(flow.target),
        Cell::rate(flow.limit),
        Cell::percent(flow.alpha),
        Cell::factor(flow.quality),
        Cell::count(rates.errors),
        Cell::count(rates.iops),
    ]);
    let idle = rates.iops == 0.0;
    cells.push(Cell::History(rates.history));
    Row { cells, idle, class: class.to_owned() }
}

/// Adds the measurements of the network and the history to `titles`.
fn flowing_titles(titles: &[&'static str]) -> Vec<&'static str> {
    titles.iter().copied().chain(FLOWING).chain(["<PACKETS OVER TIME"]).collect()
}

/// Makes the table of links and classes.
fn links(model: &Model, sample: &Sample) -> Table {
    let rows = sample.links.iter().map(|line| {
        let cells = vec![
            Cell::Text(line.link.clone()),
            Cell::Text(line.direction.name().to_owned()),
            Cell::Text(line.class.clone()),
            Cell::whole(line.flows),
        ];
        flowing_row(cells, &line.class, &line.flow, model.rates(Pane::Links, &line.key()))
    });
    Table::new(&flowing_titles(&["<LINK", "<WAY", "<CLASS", "FLOWS"]), rows.collect())
}

fn connections(model: &Model, sample: &Sample) -> Table {
    let rows = sample.connections.iter().map(|line| {
        let cells = vec![
            Cell::Text(line.host.clone()),
            Cell::Text(line.subsystem.clone()),
            Cell::whole(line.queue),
            Cell::Text(line.direction.name().to_owned()),
            Cell::Text(line.class.clone()),
            Cell::Text(line.base.clone()),
            Cell::latency(line.rtt_us as f64 * 1e3),
        ];
        flowing_row(cells, &line.class, &line.flow, model.rates(Pane::Connections, &line.key()))
    });
    let head = flowing_titles(&["<HOST", "<SUBSYSTEM", "QUEUE", "<WAY", "<CLASS", "<BASE", "RTT"]);
    Table::new(&head, rows.collect())
}
