//! An interval for programs: rates per second, times in nanoseconds.

use serde_json::{Map, Value, json};
use sluice_config::answer::FlowState;

use super::model::{Model, Pane, Rates, Time, host_key};
use super::sample::Sample;

/// Makes one object for an interval, filtered as [`super::plain::text`] does.
pub(super) fn object(model: &Model, filter: &str) -> Value {
    let Some(sample) = &model.sample else { return json!({}) };
    let daemon = &sample.daemon;
    let busy = model.busy.iter().map(|(core, busy)| json!({ "core": core, "busy": busy }));
    json!({
        "version": daemon.version,
        "pid": daemon.pid,
        "uptime_seconds": daemon.uptime_seconds,
        "iops": model.total.iops,
        "bytes_per_second": model.total.bytes,
        "reactors": busy.collect::<Vec<_>>(),
        "classes": classes(model, sample),
        "sessions": sessions(model, sample, filter),
        "devices": devices(model, sample, filter),
        "hosts": hosts(model, sample, filter),
        "workloads": workloads(model, sample, filter),
        "links": links(model, sample, filter),
        "connections": connections(model, sample, filter),
    })
}

/// Returns whether one of a row's names contains the filter, in upper or lower case.
fn matches(filter: &str, names: &[&str]) -> bool {
    let filter = filter.to_lowercase();
    names.iter().any(|name| name.to_lowercase().contains(&filter))
}

/// Adds the rates and times of commands to `row`.
fn with(row: Value, rates: &Rates) -> Value {
    // Without commands there is no time.
    let known = |ns: f64| Some(ns).filter(|ns| *ns > 0.0);
    let time = |time: Time| json!({ "mean": known(time.mean), "p99": known(time.p99) });
    join(
        row,
        json!({
            "iops": rates.iops,
            "bytes_per_second": rates.bytes,
            "errors_per_second": rates.errors,
            "latency_ns": time(rates.latency),
            "queueing_ns": time(rates.queueing),
            "service_ns": time(rates.service),
        }),
    )
}

/// Adds the measurements of the network to `row`.
fn flowing(row: Value, flow: &FlowState, rates: &Rates) -> Value {
    join(
        row,
        json!({
            "rate": flow.rate,
            "target": flow.target,
            "limit": flow.limit,
            "alpha": flow.alpha,
            "quality": flow.quality,
            "packets_per_second": rates.iops,
            "marks_per_second": rates.errors,
        }),
    )
}

/// Joins the fields of two objects.
fn join(row: Value, more: Value) -> Value {
    let mut all = Map::new();
    for part in [row, more] {
        if let Value::Object(fields) = part {
            all.extend(fields);
        }
    }
    Value::Object(all)
}

fn classes(model: &Model, sample: &Sample) -> Vec<Value> {
    let row = |class: &super::sample::ClassSample| {
        let rates = model.rates(Pane::Classes, &class.name);
        let refused = rates.refused;
        let row = json!({
            "class": class.name, "waiting": class.waiting, "refused_per_second": refused,
        });
        with(row, &rates)
    };
    sample.classes.iter().map(row).collect()
}

fn sessions(model: &Model, sample: &Sample, filter: &str) -> Vec<Value> {
    let shown = sample.sessions.iter().filter(|row| matches(filter, &[&row.name, &row.parent]));
    let row = |session: &super::sample::SessionSample| {
        let rates = model.rates(Pane::Sessions, &session.name);
        let pair = |(used, credits): (u64, u64)| json!({ "used": used, "credits": credits });
        let reserve = session.reserve.as_ref().map(|reserve| {
            let (periods, kept) = (reserve.periods, reserve.kept);
            json!({ "terms": reserve.terms, "periods": periods, "kept": kept })
        });
        let limits = &session.limits;
        let row = json!({
            "name": session.name,
            "parent": Some(&session.parent).filter(|parent| !parent.is_empty()),
            "waiting": session.waiting,
            "refused_per_second": rates.refused,
            "commands": pair(session.operations),
            "payload": pair(session.payload),
            "iops_limit": limits.iops,
            "bandwidth_limit": limits.bandwidth,
            "read_iops_limit": limits.read_iops,
            "read_bandwidth_limit": limits.read_bandwidth,
            "write_iops_limit": limits.write_iops,
            "write_bandwidth_limit": limits.write_bandwidth,
            "reserve": reserve,
        });
        with(row, &rates)
    };
    shown.map(row).collect()
}

fn devices(model: &Model, sample: &Sample, filter: &str) -> Vec<Value> {
    let shown = sample.devices.iter().filter(|row| matches(filter, &[&row.name]));
    let row = |device: &super::sample::DeviceSample| {
        let [urgent, high, medium, low] = device.waiting;
        let row = json!({
            "namespace": device.name,
            "window": device.window,
            "in_use": device.in_use,
            "waiting": { "urgent": urgent, "high": high, "medium": medium, "low": low },
            "reserved": device.reserved,
        });
        with(row, &model.rates(Pane::Devices, &device.name))
    };
    shown.map(row).collect()
}

fn hosts(model: &Model, sample: &Sample, filter: &str) -> Vec<Value> {
    let shown = sample.hosts.iter().filter(|row| matches(filter, &[&row.host, &row.subsystem]));
    let row = |host: &super::sample::HostSample| {
        let rates = model.rates(Pane::Hosts, &host_key(&host.host, &host.subsystem));
        with(json!({ "host": host.host, "subsystem": host.subsystem }), &rates)
    };
    shown.map(row).collect()
}

fn workloads(model: &Model, sample: &Sample, filter: &str) -> Vec<Value> {
    let shown = sample.workloads.iter().filter(|row| matches(filter, &[&row.host, &row.namespace]));
    let row = |workload: &super::sample::WorkloadSample| {
        let row = json!({
            "host": workload.host,
            "namespace": workload.namespace,
            "class": workload.class,
        });
        with(row, &model.rates(Pane::Workloads, &workload.key()))
    };
    shown.map(row).collect()
}

fn links(model: &Model, sample: &Sample, filter: &str) -> Vec<Value> {
    let shown = sample.links.iter().filter(|row| matches(filter, &[&row.link, &row.class]));
    let row = |line: &super::network::LinkClass| {
        let row = json!({
            "link": line.link,
            "direction": line.direction.name(),
            "class": line.class,
            "flows": line.flows,
        });
        flowing(row, &line.flow, &model.rates(Pane::Links, &line.key()))
    };
    shown.map(row).collect()
}

fn connections(model: &Model, sample: &Sample, filter: &str) -> Vec<Value> {
    let shown =
        sample.connections.iter().filter(|row| matches(filter, &[&row.host, &row.subsystem]));
    let row = |line: &super::network::ConnectionSample| {
        let row = json!({
            "id": line.id,
            "host": line.host,
            "subsystem": line.subsystem,
            "queue": line.queue,
            "direction": line.direction.name(),
            "class": line.class,
            "base": line.base,
            "rtt_us": line.rtt_us,
        });
        flowing(row, &line.flow, &model.rates(Pane::Connections, &line.key()))
    };
    shown.map(row).collect()
}
