//! The results of a run.

use std::time::Duration;

use hdrhistogram::Histogram;
use sluice_core::stats::{HistogramSnapshot, IoSnapshot, OpSnapshot};
use units::{Class, Nanos, PerClass};

use crate::network::{PortCounters, PortId};

/// The results of a run, from the end of its warm-up on.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Time that was measured.
    pub time: Duration,
    /// Length of the intervals of all series.
    pub interval: Duration,
    /// The hosts, as the plan has them.
    pub hosts: Vec<HostMeasured>,
    /// Flows that have nothing to do with the target, as the plan has them.
    pub others: Vec<OtherMeasured>,
    /// The target's own statistics, as `sluice statistics` shows them, by host and load: the host's commands of the
    /// load's class to the load's namespace. If several loads of a host have the same class and namespace, the first
    /// has all of them.
    pub statistics: Vec<Vec<IoSnapshot>>,
    /// The observations and decisions of the target's link controller, for each direction of each connection of an I/O
    /// queue.
    pub flows: Vec<FlowMeasured>,
    /// Parts of the measured time that the target's cable carried packets: to the target, and from it.
    pub cable: [f64; 2],
    /// Ports of the network.
    pub ports: Vec<(PortId, PortCounters)>,
    /// Devices, by namespace.
    pub devices: Vec<DeviceMeasured>,
    /// Bytes that hosts have received since the start, with all headers of NVMe/TCP.
    pub bytes_to_hosts: u64,
    /// Bytes that the target has received since the start, with all headers of NVMe/TCP.
    pub bytes_to_target: u64,
    /// Bytes that the target has sent and hosts have not received at the end.
    pub unread_by_hosts: u64,
    /// Bytes that hosts have sent and the target has not received at the end.
    pub unread_by_target: u64,
}

/// A host.
#[derive(Clone, Debug, PartialEq)]
pub struct HostMeasured {
    /// Name.
    pub name: String,
    /// Its loads, as the plan has them.
    pub loads: Vec<LoadMeasured>,
    /// Errors of its connections, in words; empty if there were none.
    pub lost: Vec<String>,
}

/// A load of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadMeasured {
    /// Class that the target gave its commands.
    pub class: Class,
    /// Accesses that the source has wanted since the start.
    pub wanted: u64,
    /// Commands that were submitted since the start, each retry one more.
    pub submitted: u64,
    /// Commands that were answered since the start, with any status.
    pub answered: u64,
    /// Commands that the target answered with an error.
    pub failed: u64,
    /// Commands that are outstanding at the end: `submitted` less `answered`.
    pub outstanding: u64,
    /// Accesses that have ended since the start.
    pub ended: u64,
    /// Accesses that have not ended: `wanted` less `ended`.
    pub unfinished: u64,
    /// Reads.
    pub read: Done,
    /// Writes.
    pub write: Done,
    /// Bytes that its completed commands moved, by interval.
    pub series: Vec<u64>,
}

/// A flow that has nothing to do with the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherMeasured {
    /// Name.
    pub name: String,
    /// Bytes that arrived, by interval.
    pub series: Vec<u64>,
}

/// Commands of a kind that were completed.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    /// Number.
    pub commands: u64,
    /// Bytes of data.
    pub bytes: u64,
    /// Latencies in ns: from the time at which the source wanted the access (of a closed loop: at which
    /// its predecessor ended) to its completion.
    pub latency: Histogram<u64>,
}

/// A direction, seen from the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the target to hosts.
    Out,
    /// From hosts to the target.
    Into,
}

/// One direction of a connection, as the target's controller of the link knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowMeasured {
    /// Index of the host.
    pub host: usize,
    /// The queue's number.
    pub qid: u16,
    /// The direction.
    pub way: Way,
    /// The looks at it, in the order of time.
    pub looks: Vec<QualityPoint>,
}

/// The link controller's view of one class of a connection, at one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QualityPoint {
    /// Time of the look, from the start.
    pub at: Nanos,
    /// The class.
    pub class: Class,
    /// Rate, in bits per second.
    pub rate: f64,
    /// Target of the class's flow, in bits per second; `None` where it has none.
    pub target: Option<f64>,
    /// Limit, in bits per second; `None`: there is none.
    pub limit: Option<f64>,
    /// Marked part of the packets, averaged.
    pub alpha: f64,
    /// Q: the flow's target divided by its rate, so that a flow with less than its target is above 1.
    pub quality: f64,
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceMeasured {
    /// Commands that it has completed.
    pub commands: u64,
    /// Bytes that it has moved.
    pub bytes: u64,
    /// Commands that waited in the target for it at the end, by class.
    pub waiting: PerClass<u64>,
    /// Part of the measured time that its servers were busy, 0.0 to 1.0; `None` where it has none.
    pub used: Option<f64>,
}

impl Done {
    /// Makes the record of nothing.
    #[must_use]
    pub fn new() -> Self {
        #[expect(clippy::expect_used, reason = "three digits are within what histograms can do")]
        let latency = Histogram::new(3).expect("three digits");
        Self { commands: 0, bytes: 0, latency }
    }
}

/// Computes what statistics have counted since `before`.
pub(crate) fn since(now: &IoSnapshot, before: &IoSnapshot) -> IoSnapshot {
    let histogram = |now: &HistogramSnapshot, before: &HistogramSnapshot| HistogramSnapshot {
        counts: now.counts.iter().zip(&before.counts).map(|(n, b)| n.saturating_sub(*b)).collect(),
        sum_ns: now.sum_ns.saturating_sub(before.sum_ns),
    };
    let kind = |now: &OpSnapshot, before: &OpSnapshot| OpSnapshot {
        ops: now.ops.saturating_sub(before.ops),
        bytes: now.bytes.saturating_sub(before.bytes),
        errors: now.errors.saturating_sub(before.errors),
        latency: histogram(&now.latency, &before.latency),
    };
    IoSnapshot {
        read: kind(&now.read, &before.read),
        write: kind(&now.write, &before.write),
        other: kind(&now.other, &before.other),
        queueing: histogram(&now.queueing, &before.queueing),
        service: histogram(&now.service, &before.service),
        lowered: PerClass::from_fn(|asked| {
            now.lowered[asked].saturating_sub(before.lowered[asked])
        }),
    }
}

impl Default for Done {
    fn default() -> Self {
        Self::new()
    }
}
