//! Operations and their latencies, as answers show them.

use std::collections::BTreeMap;

use super::Control;
use sluice_config::answer::{
    HostIo, Io, Latency, NamespaceIo, Operations, QueueIo, ReactorChanges, Statistics, WorkloadIo,
};
use sluice_core::stats::{HistogramSnapshot, IoSnapshot, OpSnapshot, bucket_end_ns};

impl Control {
    /// Answers `statistics`.
    pub(super) fn statistics(&self, buckets: bool) -> Statistics {
        let statistics = self.engine().statistics();
        let namespaces = statistics.namespaces.into_iter().map(|(subsystem, nsid, io)| {
            NamespaceIo { subsystem, nsid, io: operations(&io, buckets) }
        });
        let hosts = statistics.hosts.into_iter().map(|(host, subsystem, io)| HostIo {
            host,
            subsystem,
            io: operations(&io, buckets),
            lowered: lowered(&io),
        });
        let queues = statistics
            .queues
            .into_iter()
            .map(|(connection, io)| QueueIo { connection, io: operations(&io, buckets) });
        let workloads = statistics.workloads.into_iter().map(|(key, io)| WorkloadIo {
            host: key.host,
            subsystem: key.subsystem,
            nsid: key.nsid,
            class: key.class.name().to_owned(),
            io: operations(&io, buckets),
        });
        let reactors = statistics.reactors.iter().map(|reactor| ReactorChanges {
            core: reactor.core,
            changes_ns: latency(&reactor.changes, buckets),
        });
        Statistics {
            namespaces: namespaces.collect(),
            hosts: hosts.collect(),
            queues: queues.collect(),
            workloads: workloads.collect(),
            reactors: reactors.collect(),
        }
    }
}

/// Shows operations and where their time went, with the histograms' buckets where they are wanted.
pub(super) fn operations(io: &IoSnapshot, buckets: bool) -> Io {
    Io {
        read: of_kind(&io.read, buckets),
        write: of_kind(&io.write, buckets),
        other: of_kind(&io.other, buckets),
        queueing: latency(&io.queueing, buckets),
        service: latency(&io.service, buckets),
    }
}

/// Returns the classes that commands asked for and did not get, with the numbers of these commands.
fn lowered(io: &IoSnapshot) -> BTreeMap<String, u64> {
    let asked = io.lowered.iter().filter(|(_, count)| **count > 0);
    asked.map(|(class, count)| (class.name().to_owned(), *count)).collect()
}

fn of_kind(op: &OpSnapshot, buckets: bool) -> Operations {
    Operations {
        operations: op.ops,
        bytes: op.bytes,
        errors: op.errors,
        latency_ns: latency(&op.latency, buckets),
    }
}

fn latency(histogram: &HistogramSnapshot, buckets: bool) -> Latency {
    let filled = || {
        let counts = histogram.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.flat_map(|(index, count)| [bucket_end_ns(index), *count]).collect()
    };
    Latency {
        sum: histogram.sum_ns,
        mean: histogram.sum_ns.checked_div(histogram.count()).unwrap_or(0),
        p50: histogram.quantile_ns(0.5),
        p90: histogram.quantile_ns(0.9),
        p99: histogram.quantile_ns(0.99),
        p999: histogram.quantile_ns(0.999),
        buckets: buckets.then(filled),
    }
}
