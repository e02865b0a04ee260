//! A small deterministic model of a bottleneck: flows share one queue, which marks what leaves it
//! while it is longer than a threshold. Packets are fluid; delays are exact.

use std::collections::VecDeque;
use std::time::Duration;

use qtcp::{Nanos, Observation, Rate};
use sluice_sim::control::{Controller, FlowTarget};

/// Bytes of payload in a packet.
pub(crate) const MSS: u32 = 1500;

/// A step of the model in microseconds.
const TICK_US: u64 = 1;

/// The packets of one flow in one tick, and how many of them were marked.
#[derive(Clone, Copy, Default)]
struct Batch {
    packets: f64,
    marked: f64,
}

/// A flow through the bottleneck.
pub(crate) struct Flow {
    pub(crate) controller: Box<dyn Controller>,
    /// Whether the flow sends.
    pub(crate) active: bool,
    /// The time between two steps of the controller of a flow with a rate, and any amount in flight; `None`: the flow
    /// has a window, and a step in each round trip.
    period_us: Option<u64>,
    base_us: u64,
    in_flight: f64,
    queued: f64,
    /// The packets that left the queue and are on their way to the receiver and back.
    returning: VecDeque<Batch>,
    seen: Batch,
    stepped_us: u64,
    /// Packets that were delivered since the start.
    delivered: f64,
    /// Quality after each step.
    pub(crate) qualities: Vec<f64>,
    /// Window after each step.
    pub(crate) windows: Vec<f64>,
}

impl Flow {
    /// Makes a flow with a round trip of `base_us` without queues.
    pub(crate) fn new(controller: Box<dyn Controller>, base_us: u64) -> Self {
        let ticks = usize::try_from(base_us / TICK_US).unwrap();
        Self {
            controller,
            active: true,
            period_us: None,
            base_us,
            in_flight: 0.0,
            queued: 0.0,
            returning: vec![Batch::default(); ticks].into(),
            seen: Batch::default(),
            stepped_us: 0,
            delivered: 0.0,
            qualities: Vec::new(),
            windows: Vec::new(),
        }
    }

    /// Creates a flow at a fixed rate, whose controller steps in this period.
    pub(crate) fn paced(controller: Box<dyn Controller>, base_us: u64, period_us: u64) -> Self {
        Self { period_us: Some(period_us), ..Self::new(controller, base_us) }
    }

    /// Computes the packets that the flow sends in a tick.
    fn sends(&self) -> f64 {
        let decision = self.controller.decision();
        match self.period_us {
            _ if !self.active => 0.0,
            None => (decision.window - self.in_flight).max(0.0),
            Some(_) => decision.rate.bytes() / f64::from(MSS) * TICK_US as f64 / 1e6,
        }
    }

    /// Handles the acknowledgements that return to the sender now.
    fn receive(&mut self) {
        let batch = self.returning.pop_front().unwrap();
        self.in_flight -= batch.packets;
        self.delivered += batch.packets;
        self.seen.packets += batch.packets;
        self.seen.marked += batch.marked;
    }

    /// Removes the whole packets seen since the last step; the rest of a packet counts next time.
    fn observe(&mut self, now_us: u64, queue_us: f64) -> Observation {
        let (delivered, marked) = (self.seen.packets.floor(), self.seen.marked.round());
        self.seen = Batch { packets: self.seen.packets - delivered, marked: 0.0 };
        Observation {
            interval: Duration::from_micros(now_us - self.stepped_us),
            delivered: whole(delivered),
            marked: whole(marked),
            bytes: u64::from(whole(delivered)) * u64::from(MSS),
            rtt: Duration::from_secs_f64((self.base_us as f64 + queue_us) / 1e6),
            mss: MSS,
            app_limited: false,
        }
    }

    fn step(&mut self, now_us: u64, queue_us: f64) {
        let round_trip = self.base_us + u64::from(whole(queue_us));
        if !self.active || now_us - self.stepped_us < self.period_us.unwrap_or(round_trip) {
            return;
        }
        let seen = self.observe(now_us, queue_us);
        let decision = self.controller.step(Nanos(now_us * 1000), &seen);
        self.stepped_us = now_us;
        self.qualities.push(self.controller.report().quality);
        self.windows.push(decision.window);
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of floating-point numbers saturates"
)]
fn whole(number: f64) -> u32 {
    number as u32
}

/// The bottleneck and its flows.
pub(crate) struct Bottleneck {
    /// Packets in a tick.
    capacity: f64,
    /// The queue in packets above which what leaves is marked.
    threshold: f64,
    pub(crate) flows: Vec<Flow>,
    now_us: u64,
}

impl Bottleneck {
    pub(crate) fn new(capacity: Rate, threshold: f64, flows: Vec<Flow>) -> Self {
        let capacity = capacity.bytes() / f64::from(MSS) * TICK_US as f64 / 1e6;
        Self { capacity, threshold, flows, now_us: 0 }
    }

    pub(crate) fn run(&mut self, for_us: u64) {
        for _ in 0..for_us / TICK_US {
            self.tick();
        }
    }

    fn tick(&mut self) {
        self.now_us += TICK_US;
        for flow in &mut self.flows {
            flow.receive();
            let sent = flow.sends();
            flow.in_flight += sent;
            flow.queued += sent;
        }
        let queue: f64 = self.flows.iter().map(|flow| flow.queued).sum();
        let served = if queue > self.capacity { self.capacity / queue } else { 1.0 };
        let left = queue * (1.0 - served);
        let marks = if left > self.threshold { 1.0 } else { 0.0 };
        for flow in &mut self.flows {
            let packets = flow.queued * served;
            flow.queued -= packets;
            flow.returning.push_back(Batch { packets, marked: packets * marks });
        }
        let queue_us = left / self.capacity * TICK_US as f64;
        for flow in &mut self.flows {
            flow.step(self.now_us, queue_us);
        }
    }

    /// Runs on. Returns each flow's throughput meanwhile as a part of the capacity.
    pub(crate) fn shares(&mut self, for_us: u64) -> Vec<f64> {
        let before: Vec<f64> = self.flows.iter().map(|flow| flow.delivered).collect();
        self.run(for_us);
        let all = self.capacity * (for_us / TICK_US) as f64;
        let flows = self.flows.iter().zip(before);
        flows.map(|(flow, before)| (flow.delivered - before) / all).collect()
    }

    /// Aims each flow at its part of the capacity.
    pub(crate) fn set_target(&mut self, capacity: Rate, parts: &[f64]) {
        for (flow, part) in self.flows.iter_mut().zip(parts) {
            flow.controller.set_target(FlowTarget::Throughput(capacity.times(*part)));
        }
    }
}
