//! Flows that have nothing to do with the target's connections, on the same network: the target notices only their
//! effect on its own flows.

use units::{Nanos, nanos};

use crate::host::Window;
use crate::measured::OtherMeasured;
use crate::network::{Event, FlowId, FlowSpec, Network};
use crate::plan::OtherPlan;

/// A flow, its results, and its number while it exists.
#[derive(Debug)]
struct Other {
    plan: OtherPlan,
    flow: Option<FlowId>,
    /// Bytes that arrived, by interval.
    series: Vec<u64>,
}

/// All such flows.
#[derive(Debug)]
pub(crate) struct Others(Vec<Other>);

impl Others {
    pub(crate) fn new(plans: Vec<OtherPlan>) -> Self {
        let other = |plan| Other { plan, flow: None, series: Vec::new() };
        Self(plans.into_iter().map(other).collect())
    }

    /// Lists the times at which a flow comes or goes, with its index.
    pub(crate) fn changes(&self) -> Vec<(Nanos, usize)> {
        let times = |of: &Other| [of.plan.begins, of.plan.ends].map(|at| Nanos(nanos(at)));
        let each = (0..).zip(&self.0).flat_map(|(index, of)| times(of).map(|at| (at, index)));
        each.collect()
    }

    /// Opens a flow, or closes it if it is open.
    pub(crate) fn change(&mut self, now: Nanos, index: usize, network: &mut Network) {
        let Some(other) = self.0.get_mut(index) else { return };
        if let Some(flow) = other.flow.take() {
            network.close(now, flow);
            return;
        }
        let OtherPlan { from, to, sender, .. } = other.plan;
        // It has more to send than a run can take.
        let spec =
            FlowSpec { from, to, dscp: 0, sender, send_buffer: u64::MAX, notsent_lowat: None };
        let flow = network.open(now, spec);
        network.write(now, flow, 1 << 60);
        other.flow = Some(flow);
    }

    /// Counts what arrives. Returns whether the event is of one of these flows.
    pub(crate) fn hear(&mut self, event: Event, window: &Window) -> bool {
        let Some(other) = self.0.iter_mut().find(|other| other.flow == Some(event.flow())) else {
            return false;
        };
        if let Event::Arrived { at, bytes, .. } = event
            && let Some(place) = window.place(at)
        {
            if other.series.len() <= place {
                other.series.resize(place.saturating_add(1), 0);
            }
            if let Some(of) = other.series.get_mut(place) {
                *of += bytes;
            }
        }
        true
    }

    pub(crate) fn measured(&self) -> Vec<OtherMeasured> {
        let of = |other: &Other| OtherMeasured {
            name: other.plan.name.clone(),
            series: other.series.clone(),
        };
        self.0.iter().map(of).collect()
    }
}
