//! The measurements of all flows, printed as a line for a table.

use std::time::Duration;

use qtcp::Observation;
use qtcp::linux::Info;

/// Sums of one flow.
#[derive(Clone, Debug, Default)]
struct Sums {
    weight: f64,
    bytes: f64,
    second: f64,
    delivered: f64,
    marked: f64,
    rtt: f64,
    looks: f64,
    retrans: (Option<u32>, u32),
}

/// The throughput of all flows in the time that is measured.
#[derive(Debug)]
pub(crate) struct Measure {
    flows: Vec<Sums>,
    verbose: bool,
    seconds: u64,
}

impl Measure {
    pub(crate) fn new(weights: &[f64], verbose: bool) -> Self {
        let flows = weights.iter().map(|&weight| Sums { weight, ..Sums::default() }).collect();
        Self { flows, verbose, seconds: 0 }
    }

    pub(crate) fn add(&mut self, index: usize, at: Duration, seen: &Observation, info: &Info) {
        if at.as_secs() > self.seconds {
            self.second();
        }
        let Some(flow) = self.flows.get_mut(index) else { return };
        let bytes = seen.bytes as f64;
        flow.bytes += bytes;
        flow.second += bytes;
        flow.delivered += f64::from(seen.delivered);
        flow.marked += f64::from(seen.marked);
        flow.rtt += info.rtt.as_secs_f64();
        flow.looks += 1.0;
        flow.retrans = (flow.retrans.0.or(Some(info.total_retrans)), info.total_retrans);
    }

    /// Prints the rate of each flow in the last second, in Mbit/s.
    fn second(&mut self) {
        self.seconds += 1;
        let rates = self.flows.iter_mut().map(|flow| std::mem::take(&mut flow.second) * 8e-6);
        let rates = rates.map(|rate| format!("{rate:6.1}")).collect::<Vec<_>>();
        if self.verbose {
            eprintln!("{:3} s  {}", self.seconds, rates.join(" "));
        }
    }

    /// Prints one line, of which a script makes a table.
    pub(crate) fn print(&self, base: &str, control: &str, time: Duration) {
        let sum = |of: fn(&Sums) -> f64| self.flows.iter().map(of).sum::<f64>();
        let (bytes, weights) = (sum(|flow| flow.bytes), sum(|flow| flow.weight));
        let error = |flow: &Sums| (flow.bytes / bytes * weights / flow.weight - 1.0).abs();
        let rates = self.flows.iter().map(|flow| flow.bytes * 8e-6 / time.as_secs_f64());
        println!(
            "base={base} control={control} rates={} total={:.1} error={:.1} rtt={:.2} marks={:.2} retrans={}",
            rates.map(|rate| format!("{rate:.1}")).collect::<Vec<_>>().join(":"),
            bytes * 8e-6 / time.as_secs_f64(),
            self.flows.iter().map(error).fold(0.0, f64::max) * 100.0,
            sum(|flow| flow.rtt) / sum(|flow| flow.looks) * 1e3,
            sum(|flow| flow.marked) / sum(|flow| flow.delivered) * 100.0,
            self.flows.iter().map(|flow| flow.retrans.1 - flow.retrans.0.unwrap_or(0)).sum::<u32>(),
        );
    }
}
