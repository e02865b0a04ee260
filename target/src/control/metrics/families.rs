//! The metric families: the name, unit, labels and source of each. docs/reference/metrics.md describes them
//! all.

use std::borrow::Borrow;
use std::fmt::Error;

use arbitration::Class;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::serve::engine::{
    Availability, ConnectionState, FileSystem, ListenerState, ReactorState, Statistics,
    SubsystemState,
};
use crate::serve::workloads::WorkloadKey;
use crate::sys::version::{COMMIT, VERSION};
use sluice_core::stats::{BUCKETS, HistogramSnapshot, IoSnapshot, OpSnapshot, bucket_end_ns};

/// The labels of a series.
pub(super) type Labels = Vec<(&'static str, String)>;

/// Exponents of the histograms' bounds: 2^11 ns (2 us) to 2^33 ns (8.6 s), each a bound of
/// [`sluice_core::stats::Histogram`], so that no event is counted on the wrong side.
const BOUNDS: std::ops::RangeInclusive<u32> = 11..=33;

/// A function that picks one number.
pub(super) type Pick<T> = fn(&T) -> u64;

/// A writer of metric families.
#[derive(Debug)]
pub(super) struct Families<'a> {
    pub(super) encoder: DescriptorEncoder<'a>,
}

/// An object with operations of its own: its labels, and its operations.
pub(super) struct Source<'a> {
    pub(super) labels: Labels,
    pub(super) io: &'a IoSnapshot,
}

impl Source<'_> {
    /// Returns each kind of operation with its labels.
    fn operations(&self) -> [(Labels, &OpSnapshot); 3] {
        let io = self.io;
        [("read", &io.read), ("write", &io.write), ("other", &io.other)].map(|(name, op)| {
            let mut labels = self.labels.clone();
            labels.push(("operation", name.to_owned()));
            (labels, op)
        })
    }
}

impl<'a> Families<'a> {
    pub(super) fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Self { encoder }
    }

    /// Writes the families of the process.
    pub(super) fn process(&mut self, started_seconds: f64) -> Result<(), Error> {
        let labels = [("version", VERSION), ("commit", COMMIT)];
        let help = "The version that runs, and the commit of its source; always 1";
        let kind = MetricType::Info;
        self.encoder.encode_descriptor("build", help, None, kind)?.encode_info(&labels)?;
        let help = "When the target started, in seconds since 1970";
        let unit = Some(&Unit::Seconds);
        let kind = MetricType::Gauge;
        self.encoder
            .encode_descriptor("start_time", help, unit, kind)?
            .encode_gauge(&started_seconds)
    }

    /// Writes whether the target serves hosts, its listeners, and the number of kinds of data that are not stored.
    pub(super) fn readiness(
        &mut self,
        is_ready: bool,
        listeners: &[ListenerState],
        unstored: usize,
    ) -> Result<(), Error> {
        let help = "1 while all listeners are open and the target does not end, otherwise 0";
        self.gauges("ready", help, None, one(u64::from(is_ready)))?;
        let up = listeners.iter().map(|state| {
            let label = ("listener", state.listener.endpoint().to_string());
            (vec![label], u64::from(state.closed.is_none()))
        });
        self.gauges("listener_up", "1 while a listener is open, otherwise 0", None, up)?;
        let help = "Kinds of data that could not be stored and that a restart would lose";
        self.gauges("unstored", help, None, one(unstored as u64))
    }

    /// Writes the counters of the whole target.
    pub(super) fn totals(
        &mut self,
        all: &Statistics,
        connections: &[ConnectionState],
    ) -> Result<(), Error> {
        let over_tls = connections.iter().filter(|one| one.tls.is_some()).count();
        let proved = connections.iter().filter(|one| one.authenticated).count();
        for (name, help, count) in [
            ("connections", "Connections now, all listeners together", connections.len()),
            ("connections_tls", "Connections over TLS now", over_tls),
            (
                "connections_authenticated",
                "Connections of hosts that have proved themselves",
                proved,
            ),
        ] {
            self.encoder
                .encode_descriptor(name, help, None, MetricType::Gauge)?
                .encode_gauge(&u64::try_from(count).unwrap_or(u64::MAX))?;
        }
        let help = "Hosts that did not shut down and may come back";
        self.encoder
            .encode_descriptor("hosts_lost", help, None, MetricType::Gauge)?
            .encode_gauge(&u64::try_from(all.hosts_lost).unwrap_or(u64::MAX))?;
        self.total("connections_accepted", "Connections accepted", all.accepted)?;
        let help = "Connections ended because the peer broke the protocol";
        self.total("protocol_errors", help, all.protocol_errors)?;
        let help = "Connections closed because too many had sent no Connect";
        self.total("connections_crowded_out", help, all.waiting_closed)?;
        let help = "Connections refused before they were served, on listeners with TLS";
        self.total("tls_refused", help, all.tls_refused)?;
        let help = "Connect commands that were refused";
        let refused = all.connects_refused.iter();
        let refused =
            refused.map(|(reason, count)| (vec![("reason", reason.name().into())], *count));
        self.counters("connects_refused", help, None, refused)?;
        let help = "Lines about peers that were left out of the log";
        self.total("log_lines_left_out", help, all.lines_left_out)?;
        let help = "Controllers ended because their keep-alive timer expired";
        self.total("keep_alive_expired", help, all.keep_alive_expired)?;
        self.reactors(&all.reactors)?;
        let namespaces = all.namespaces.iter().map(|(nqn, nsid, io)| Source {
            labels: vec![("subsystem", nqn.clone()), ("nsid", nsid.to_string())],
            io,
        });
        self.operations(&NAMESPACE, &namespaces.collect::<Vec<_>>())?;
        let hosts = all.hosts.iter().map(|(host, nqn, io)| Source {
            labels: vec![("host", host.clone()), ("subsystem", nqn.clone())],
            io,
        });
        self.operations(&HOST, &hosts.collect::<Vec<_>>())?;
        self.lowered(&all.hosts)?;
        let queues =
            all.queues.iter().map(|(queue, io)| Source { labels: queue_labels(queue), io });
        self.operations(&QUEUE, &queues.collect::<Vec<_>>())?;
        self.workloads(&all.workloads)
    }

    /// Writes the commands of each host that did not get the class that they asked for.
    fn lowered(&mut self, hosts: &[(String, String, IoSnapshot)]) -> Result<(), Error> {
        let help =
            "Commands that asked for the class and have a lower one, the highest of their host";
        let lowered = hosts.iter().flat_map(|(host, subsystem, io)| {
            // Nothing is lower than Low.
            let lowered =
                io.lowered.iter().filter(|(class, count)| *class != Class::Low && **count > 0);
            lowered.map(move |(class, count)| {
                let labels = vec![
                    ("host", host.clone()),
                    ("subsystem", subsystem.clone()),
                    ("class", class.name().to_owned()),
                ];
                (labels, *count)
            })
        });
        self.counters("host_lowered_operations", help, None, lowered)
    }

    /// Writes the families of workloads. Each has a latency of all its operations together: there
    /// may be many.
    fn workloads(&mut self, workloads: &[(WorkloadKey, IoSnapshot)]) -> Result<(), Error> {
        let sources: Vec<Source<'_>> =
            workloads.iter().map(|(key, io)| Source { labels: workload_labels(key), io }).collect();
        self.ended(&WORKLOAD, &sources)?;
        let help = "Time from a command's arrival to its completion being queued for sending";
        let used = sources.iter().filter(|source| source.io.operations() > 0);
        let times = used.map(|Source { labels, io }| {
            let mut all = io.read.latency.clone();
            all.merge(&io.write.latency);
            all.merge(&io.other.latency);
            (labels.clone(), all)
        });
        self.histograms("workload_latency", help, times)?;
        self.waits(&WORKLOAD, &sources)
    }

    /// Writes the families of subsystems and namespaces.
    pub(super) fn objects(&mut self, subsystems: &[SubsystemState]) -> Result<(), Error> {
        let all = || {
            subsystems.iter().flat_map(|subsystem| {
                subsystem.namespaces.iter().map(|namespace| {
                    let labels: Labels = vec![
                        ("subsystem", subsystem.nqn.clone()),
                        ("nsid", namespace.nsid.to_string()),
                        ("backend", namespace.backend.clone()),
                    ];
                    (labels, namespace)
                })
            })
        };
        let sizes = all().map(|(labels, namespace)| (labels, namespace.size));
        self.gauges("namespace_size", "Size", Some(&Unit::Bytes), sizes)?;
        let serves = all().map(|(labels, namespace)| {
            (labels, u64::from(namespace.state != Availability::Unavailable))
        });
        let help = "1 while the namespace is served, 0 while its device is not available";
        self.gauges("namespace_up", help, None, serves)?;
        let help = "Commands that the device answered with an error";
        let errors = all().map(|(labels, namespace)| (labels, namespace.errors));
        self.counters("namespace_device_errors", help, None, errors)
    }

    fn reactors(&mut self, reactors: &[ReactorState]) -> Result<(), Error> {
        let label = |reactor: &ReactorState| vec![("core", reactor.core.to_string())];
        let help = "Time that a reactor spent working";
        let busy = reactors.iter().map(|reactor| (label(reactor), seconds(reactor.busy_ns)));
        self.counters("reactor_busy", help, Some(&Unit::Seconds), busy)?;
        let bytes = Some(&Unit::Bytes);
        let counters: [(&str, &str, Option<&Unit>, Pick<ReactorState>); 6] = [
            ("reactor_turns", "Turns of a reactor's loop", None, |r| r.turns),
            ("reactor_system_calls", "System calls of a reactor's loop", None, |r| r.calls),
            ("reactor_receives", "Receives from TCP sockets", None, |r| r.receives.0),
            ("reactor_received", "Received from TCP sockets", bytes, |r| r.receives.1),
            ("reactor_sends", "Sends to TCP sockets", None, |r| r.sends.0),
            ("reactor_sent", "Sent to TCP sockets", bytes, |r| r.sends.1),
        ];
        for (name, help, unit, pick) in counters {
            let shown = reactors.iter().filter(|r| pick(r) > 0 || name == "reactor_turns");
            self.counters(name, help, unit, shown.map(|r| (label(r), pick(r))))?;
        }
        let help = "CPU time that a reactor spent on a change of the configuration in one turn";
        let changed = reactors.iter().filter(|reactor| reactor.changes.count() > 0);
        let changes = changed.map(|reactor| (label(reactor), &reactor.changes));
        self.histograms("reactor_change", help, changes)?;
        let gauges: [(&str, &str, Option<&Unit>, Pick<ReactorState>); 3] = [
            ("reactor_connections", "Connections of a reactor", None, |r| r.connections),
            ("reactor_buffer_used", "I/O buffers in use", Some(&Unit::Bytes), |r| r.buffer_used),
            ("reactor_buffer", "I/O buffers in all", Some(&Unit::Bytes), |r| r.buffer_total),
        ];
        for (name, help, unit, pick) in gauges {
            self.gauges(name, help, unit, reactors.iter().map(|r| (label(r), pick(r))))?;
        }
        let commands = reactors.iter().flat_map(|reactor| {
            let count = move |(state, count): &(&'static str, u64)| {
                let mut labels = label(reactor);
                labels.push(("state", (*state).to_owned()));
                (labels, *count)
            };
            reactor.states.iter().map(count)
        });
        let help = "Commands in a reactor that were not completed at once, by state";
        self.gauges("reactor_commands", help, None, commands)
    }

    /// Writes the families of the file systems that files of namespaces are on.
    pub(super) fn file_systems(&mut self, all: &[FileSystem]) -> Result<(), Error> {
        let each = |pick: Pick<FileSystem>| {
            all.iter().map(move |of| (vec![("mount", of.mount.clone())], pick(of)))
        };
        for (name, help, pick) in [
            (
                "file_system_free",
                "Free space of a file system that files of namespaces and regions are on, or of memory",
                (|of| of.free) as Pick<FileSystem>,
            ),
            (
                "file_system_overcommit",
                "Space that namespaces and regions may still take beyond the free space",
                |of| of.overcommit,
            ),
        ] {
            self.gauges(name, help, Some(&Unit::Bytes), each(pick))?;
        }
        Ok(())
    }

    fn total(&mut self, name: &str, help: &str, value: u64) -> Result<(), Error> {
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, u64, f64>(&value, None)
    }

    /// Writes a family of histograms of times, in seconds.
    pub(super) fn histograms(
        &mut self,
        name: &str,
        help: &str,
        times: impl Iterator<Item = (Labels, impl Borrow<HistogramSnapshot>)>,
    ) -> Result<(), Error> {
        let (unit, kind) = (Some(&Unit::Seconds), MetricType::Histogram);
        let mut family = self.encoder.encode_descriptor(name, help, unit, kind)?;
        for (labels, times) in times {
            histogram(family.encode_family(&labels)?, times.borrow())?;
        }
        Ok(())
    }

    /// Writes a family of counters.
    pub(super) fn counters<V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        values: impl Iterator<Item = (Labels, V)>,
    ) -> Result<(), Error> {
        let mut family = self.encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
        for (labels, value) in values {
            let mut metric = family.encode_family(&labels)?;
            metric.encode_counter::<NoLabelSet, V, f64>(&value, None)?;
        }
        Ok(())
    }

    /// Writes a family of gauges.
    pub(super) fn gauges<V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        values: impl Iterator<Item = (Labels, V)>,
    ) -> Result<(), Error> {
        let mut family = self.encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        for (labels, value) in values {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// Writes the families that every object with operations has.
    pub(super) fn operations(
        &mut self,
        names: &Names,
        sources: &[Source<'_>],
    ) -> Result<(), Error> {
        self.ended(names, sources)?;
        if names.has_latency {
            let name = format!("{}_latency", names.prefix);
            let help = "Time from a command's arrival to its completion being queued for sending";
            let used = sources.iter().flat_map(Source::operations).filter(|(_, op)| op.ops > 0);
            self.histograms(&name, help, used.map(|(labels, op)| (labels, &op.latency)))?;
        }
        self.waits(names, sources)
    }

    /// Writes the numbers of operations, bytes and errors. An object has no series of a kind of
    /// operation that it never had, except errors where `names` says so.
    fn ended(&mut self, names: &Names, sources: &[Source<'_>]) -> Result<(), Error> {
        let errors = "Operations that ended with an error";
        let counters: [(&str, &str, Option<&Unit>, Pick<OpSnapshot>); 3] = [
            ("operations", "Operations that ended", None, |op| op.ops),
            ("transferred", "Bytes moved", Some(&Unit::Bytes), |op| op.bytes),
            ("errors", errors, None, |op| op.errors),
        ];
        for (suffix, help, unit, pick) in counters {
            let from_start = suffix == "errors" && names.errors_from_start;
            let name = format!("{}_{suffix}", names.prefix);
            let all = sources.iter().flat_map(Source::operations);
            let shown = all.filter(|(_, op)| from_start || op.ops > 0);
            self.counters(&name, help, unit, shown.map(|(labels, op)| (labels, pick(op))))?;
        }
        Ok(())
    }
}

/// The families of an object with operations.
pub(super) struct Names {
    /// The beginning of the families' names.
    pub(super) prefix: &'static str,
    /// Whether errors have series before the first operation, so that an alert on their rate sees the
    /// first error.
    pub(super) errors_from_start: bool,
    /// Whether there is a latency for each kind of operation.
    pub(super) has_latency: bool,
    /// Whether there are the times of waiting in the target and in the device.
    pub(super) has_waits: bool,
}

const NAMESPACE: Names =
    Names { prefix: "namespace", errors_from_start: true, has_latency: true, has_waits: true };
const HOST: Names = Names { prefix: "host", ..NAMESPACE };
const QUEUE: Names =
    Names { prefix: "queue", errors_from_start: false, has_latency: true, has_waits: false };
const WORKLOAD: Names =
    Names { prefix: "workload", errors_from_start: false, has_latency: false, has_waits: true };

fn workload_labels(key: &WorkloadKey) -> Labels {
    vec![
        ("host", key.host.clone()),
        ("subsystem", key.subsystem.clone()),
        ("nsid", key.nsid.to_string()),
        ("class", key.class.name().to_owned()),
    ]
}

fn queue_labels(queue: &ConnectionState) -> Labels {
    let number = |value: Option<u16>| value.map(|value| value.to_string()).unwrap_or_default();
    vec![
        ("host", queue.host.clone().unwrap_or_default()),
        ("subsystem", queue.subsystem.clone().unwrap_or_default()),
        ("controller", number(queue.controller)),
        ("queue", number(queue.queue)),
        ("connection", queue.id.to_string()),
        ("reactor", queue.reactor.to_string()),
    ]
}

/// Returns one value without labels.
pub(super) fn one<V>(value: V) -> impl Iterator<Item = (Labels, V)> {
    std::iter::once((Labels::new(), value))
}

pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Writes a histogram in seconds, its buckets gathered into powers of two.
fn histogram(mut metric: MetricEncoder<'_>, latency: &HistogramSnapshot) -> Result<(), Error> {
    let mut bounds = BOUNDS.map(|exponent| 1u64 << exponent).peekable();
    let mut buckets: Vec<(f64, u64)> = Vec::new();
    let mut gathered = 0;
    for (index, count) in latency.counts.iter().enumerate() {
        // The last bucket also holds times beyond its bound.
        let end = if index + 1 < BUCKETS { bucket_end_ns(index) } else { u64::MAX };
        while let Some(bound) = bounds.next_if(|bound| *bound < end) {
            buckets.push((seconds(bound), std::mem::take(&mut gathered)));
        }
        gathered += count;
    }
    buckets.extend(bounds.map(|bound| (seconds(bound), 0)));
    buckets.push((f64::INFINITY, gathered));
    let (sum, count) = (seconds(latency.sum_ns), latency.count());
    metric.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
}
