//! Methods that tell, and the way from a method's name to what it does.

use serde::Serialize;
use serde_json::{Value, json};

use super::Control;
use super::protocol::{ErrorKind, Failure};
use crate::config::fields::Fields;
use crate::config::{DEFAULT_LINK, Listener, entry, values};
use crate::engine::{Availability, NamespaceState, SubsystemState};
use crate::stats::{HistogramSnapshot, IoSnapshot, OpSnapshot, bucket_end_ns};

type Answer = Result<Value, Failure>;

/// All methods.
pub(crate) const METHODS: [&str; 37] = [
    "status",
    "connections",
    "statistics",
    "reload",
    "shutdown",
    "subsystem.list",
    "subsystem.add",
    "subsystem.remove",
    "namespace.list",
    "namespace.add",
    "namespace.remove",
    "namespace.resize",
    "namespace.retry",
    "listener.list",
    "listener.add",
    "listener.remove",
    "host.list",
    "host.add",
    "host.remove",
    "host.any",
    "qos.show",
    "qos.set",
    "qos.listener",
    "qos.namespace",
    "qos.policy",
    "session.list",
    "session.add",
    "session.set",
    "session.remove",
    "session.reserve",
    "session.release",
    "network.show",
    "network.set",
    "network.listener",
    "link.add",
    "link.set",
    "link.remove",
];

impl Control {
    /// Does what a method says.
    pub(crate) fn call(&self, method: &str, params: &Value) -> Answer {
        let empty = json!({});
        let params = if params.is_null() { &empty } else { params };
        match method {
            "status" => none(params).map(|()| self.status()),
            "connections" => none(params).map(|()| json!(self.engine().connections())),
            "statistics" => with_buckets(params).map(|buckets| self.statistics(buckets)),
            "shutdown" => self.shutdown(params),
            "reload" => self.reload_method(params),
            "subsystem.list" => none(params).map(|()| json!(self.engine().subsystems())),
            "subsystem.add" => self.subsystem_add(params),
            "subsystem.remove" => self.subsystem_remove(params),
            "namespace.list" => self.namespace_list(params),
            "namespace.add" => self.namespace_add(params),
            "namespace.remove" => self.namespace_remove(params),
            "namespace.resize" => self.namespace_resize(params),
            "namespace.retry" => self.namespace_retry(params),
            "listener.list" => none(params).map(|()| self.listener_list()),
            "listener.add" => self.listener_add(params),
            "listener.remove" => self.listener_remove(params),
            "host.list" => self.host_list(params),
            "host.add" => self.host_add(params),
            "host.remove" => self.host_remove(params),
            "host.any" => self.host_any(params),
            "qos.show" => with_buckets(params).map(|buckets| self.qos_show(buckets)),
            "qos.set" => self.qos_set(params),
            "qos.listener" => self.qos_listener(params),
            "qos.namespace" => self.qos_namespace(params),
            "qos.policy" => self.qos_policy(params),
            "session.list" => none(params).map(|()| self.session_list()),
            "session.add" => self.session_add(params),
            "session.set" => self.session_set(params),
            "session.remove" => self.session_remove(params),
            "session.reserve" => self.session_reserve(params),
            "session.release" => self.session_release(params),
            "network.show" => none(params).map(|()| self.network_show()),
            "network.set" => self.network_set(params),
            "network.listener" => self.network_listener(params),
            "link.add" => self.link_add(params),
            "link.set" => self.link_set(params),
            "link.remove" => self.link_remove(params),
            _ => Err(unknown(method)),
        }
    }

    fn status(&self) -> Value {
        let engine = self.engine();
        let statistics = engine.statistics();
        let subsystems = engine.subsystems();
        let in_state = |state| {
            let namespaces = subsystems.iter().flat_map(|s| &s.namespaces);
            namespaces.filter(|n| n.state == state).count()
        };
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "uptime_seconds": self.started.elapsed().as_secs(),
            "durable": self.durable,
            "listeners": engine.listeners().len(),
            "subsystems": subsystems.len(),
            "namespaces": subsystems.iter().map(|s| s.namespaces.len()).sum::<usize>(),
            "namespaces_unavailable": in_state(Availability::Unavailable),
            "namespaces_with_errors": in_state(Availability::Errors),
            "problems": problems(&subsystems),
            "connections": engine.connections().len(),
            "accepted": statistics.accepted,
            "protocol_errors": statistics.protocol_errors,
            "keep_alive_expired": statistics.keep_alive_expired,
            "reactors": statistics.reactors,
        })
    }

    fn statistics(&self, buckets: bool) -> Value {
        let statistics = self.engine().statistics();
        let io_json = |io| io_json(io, buckets);
        let namespaces: Vec<Value> = statistics
            .namespaces
            .iter()
            .map(|(nqn, nsid, io)| json!({ "subsystem": nqn, "nsid": nsid, "io": io_json(io) }))
            .collect();
        let hosts: Vec<Value> = statistics
            .hosts
            .iter()
            .map(|(host, nqn, io)| json!({ "host": host, "subsystem": nqn, "io": io_json(io) }))
            .collect();
        let queues: Vec<Value> = statistics
            .queues
            .iter()
            .map(|(connection, io)| json!({ "connection": connection, "io": io_json(io) }))
            .collect();
        let reactors: Vec<Value> = statistics
            .reactors
            .iter()
            .map(|r| json!({ "core": r.core, "changes_ns": latency_json(&r.changes, buckets) }))
            .collect();
        json!({ "namespaces": namespaces, "hosts": hosts, "queues": queues, "reactors": reactors })
    }

    fn shutdown(&self, params: &Value) -> Answer {
        let now = read(params, |mut fields| {
            let now = fields.value_or("now", false, values::boolean);
            fields.finish();
            Some(now)
        })?;
        self.told_to_end.store(true, std::sync::atomic::Ordering::Relaxed);
        self.engine().shutdown(now);
        Ok(json!({}))
    }

    fn namespace_list(&self, params: &Value) -> Answer {
        let only = one_subsystem(params)?;
        Ok(self.namespace_rows(|nqn, _| only.as_ref().is_none_or(|only| only == nqn)))
    }

    fn namespace_retry(&self, params: &Value) -> Answer {
        let (nqn, nsid) = read(params, |mut fields| {
            let nqn = fields.get("subsystem", values::nqn).map(|at| at.value);
            let nsid = fields.get("nsid", values::integer(1, u32::MAX.into()));
            fields.finish();
            Some((nqn, nsid.map(|at| at.value)))
        })?;
        if nsid.is_some() && nqn.is_none() {
            return Err(Failure::invalid("`nsid` is of a subsystem: give `subsystem` too"));
        }
        let meant = |known: &str, row: &NamespaceState| {
            nqn.as_ref().is_none_or(|nqn| nqn == known) && nsid.is_none_or(|n| n == row.nsid)
        };
        let subsystems = self.engine().subsystems();
        let named =
            subsystems.iter().flat_map(|s| s.namespaces.iter().map(|n| (s.nqn.as_str(), n)));
        let tried: Vec<(String, u32)> = named
            .clone()
            .filter(|(known, row)| meant(known, row) && row.state == Availability::Unavailable)
            .map(|(known, row)| (known.to_owned(), row.nsid))
            .collect();
        let any = named.into_iter().any(|(known, row)| meant(known, row));
        if let (false, Some(nqn)) = (any, &nqn) {
            let what = nsid.map_or_else(String::new, |nsid| format!(" {nsid}"));
            return Err(Failure::not_found(format!("there is no namespace{what} in {nqn}")));
        }
        self.engine().retry_namespaces(nqn.as_deref(), nsid);
        let was_tried = |nqn: &str, row: &NamespaceState| {
            tried.iter().any(|(known, nsid)| known == nqn && *nsid == row.nsid)
        };
        Ok(self.namespace_rows(was_tried))
    }

    /// The rows of the namespaces that are meant.
    fn namespace_rows(&self, meant: impl Fn(&str, &NamespaceState) -> bool) -> Value {
        let mut rows = Vec::new();
        for subsystem in self.engine().subsystems() {
            for namespace in subsystem.namespaces.iter().filter(|row| meant(&subsystem.nqn, row)) {
                let mut row = json!(namespace);
                if let Some(row) = row.as_object_mut() {
                    row.insert("subsystem".into(), json!(subsystem.nqn));
                }
                rows.push(row);
            }
        }
        Value::Array(rows)
    }

    fn listener_list(&self) -> Value {
        self.engine().listeners().iter().map(listener_json).collect()
    }

    fn host_list(&self, params: &Value) -> Answer {
        let only = one_subsystem(params)?;
        let subsystems = self.engine().subsystems().into_iter();
        let meant = subsystems.filter(|s| only.as_ref().is_none_or(|nqn| *nqn == s.nqn));
        let row = |s: SubsystemState| json!({ "subsystem": s.nqn, "allow_any_host": s.allow_any_host, "hosts": s.hosts });
        Ok(meant.map(row).collect())
    }
}

/// What is not as it should be, a line for each thing.
fn problems(subsystems: &[SubsystemState]) -> Vec<String> {
    let lines = subsystems.iter().flat_map(|subsystem| {
        let wrong = subsystem.namespaces.iter().filter(|n| n.state != Availability::Ready);
        wrong.map(|namespace| {
            let reason = namespace.reason.as_deref().unwrap_or("no reason is known");
            let (nsid, state) = (namespace.nsid, namespace.state.name());
            format!("namespace {nsid} of {}: {state}: {reason}", subsystem.nqn)
        })
    });
    lines.collect()
}

/// Reads parameters.
pub(crate) fn read<T>(
    params: &Value,
    read: impl FnOnce(Fields<'_>) -> Option<T>,
) -> Result<T, Failure> {
    entry::read_json(params, "the parameters", read).map_err(Failure::invalid)
}

/// No parameters.
fn none(params: &Value) -> Result<(), Failure> {
    read(params, |fields| {
        fields.finish();
        Some(())
    })
}

/// Whether the buckets of histograms are wanted.
fn with_buckets(params: &Value) -> Result<bool, Failure> {
    read(params, |mut fields| {
        let buckets = fields.value_or("buckets", false, values::boolean);
        fields.finish();
        Some(buckets)
    })
}

/// The parameter `subsystem`, which may be left out.
fn one_subsystem(params: &Value) -> Result<Option<String>, Failure> {
    read(params, |mut fields| {
        let nqn = fields.get("subsystem", values::nqn).map(|at| at.value);
        fields.finish();
        Some(nqn)
    })
}

fn unknown(method: &str) -> Failure {
    let method = crate::config::fields::quoted(method);
    let message = match crate::config::did_you_mean(&method, &METHODS) {
        Some(name) => format!("there is no method \"{method}\"; did you mean \"{name}\"?"),
        None => format!("there is no method \"{method}\"; there are {}", METHODS.join(", ")),
    };
    Failure::new(ErrorKind::UnknownMethod, message)
}

/// A listener as an answer shows it.
pub(crate) fn listener_json(listener: &Listener) -> Value {
    json!({
        "transport": "tcp",
        "address": listener.address,
        "advertise": listener.advertise,
        "discovery_only": listener.discovery_only,
        "subsystems": listener.subsystems,
        "class": listener.class.map(arbitration::Class::name),
        "link": listener.link.as_deref().unwrap_or(DEFAULT_LINK),
    })
}

/// Operations, and where their time went; with the histograms' buckets where they are wanted.
pub(super) fn io_json(io: &IoSnapshot, buckets: bool) -> Value {
    json!({
        "read": op_json(&io.read, buckets),
        "write": op_json(&io.write, buckets),
        "other": op_json(&io.other, buckets),
        "queueing": latency_json(&io.queueing, buckets),
        "service": latency_json(&io.service, buckets),
    })
}

fn op_json(op: &OpSnapshot, buckets: bool) -> Value {
    json!({
        "operations": op.ops,
        "bytes": op.bytes,
        "errors": op.errors,
        "latency_ns": latency_json(&op.latency, buckets),
    })
}

/// A latency histogram's summary, in nanoseconds.
#[derive(Serialize)]
struct Latency {
    /// Of all operations together: the difference of two tells the mean in between.
    sum: u64,
    mean: u64,
    p50: u64,
    p90: u64,
    p99: u64,
    p999: u64,
    /// End and count of each bucket that has some, in turn: the difference of two tells the
    /// percentiles in between.
    #[serde(skip_serializing_if = "Option::is_none")]
    buckets: Option<Vec<u64>>,
}

fn latency_json(histogram: &HistogramSnapshot, buckets: bool) -> Value {
    let filled = || {
        let counts = histogram.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.flat_map(|(index, count)| [bucket_end_ns(index), *count]).collect()
    };
    json!(Latency {
        sum: histogram.sum_ns,
        mean: histogram.sum_ns.checked_div(histogram.count()).unwrap_or(0),
        p50: histogram.quantile_ns(0.5),
        p90: histogram.quantile_ns(0.9),
        p99: histogram.quantile_ns(0.99),
        p999: histogram.quantile_ns(0.999),
        buckets: buckets.then(filled),
    })
}
