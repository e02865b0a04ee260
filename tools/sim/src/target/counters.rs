//! The congestion counters of the target's RDMA device, for all its queue pairs together.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use qtcp::poller::Both;
use units::Nanos;

use crate::network::{FlowId, Network};

/// The time for which counters that were read count, as in the daemon.
const LIFESPAN: Duration = Duration::from_millis(10);

/// The counters of a device.
#[derive(Debug)]
pub(super) struct Counters {
    network: Rc<RefCell<Network>>,
    /// The flows of its queue pairs: sending and receiving.
    pub(super) flows: Vec<(FlowId, FlowId)>,
    read: Option<(Nanos, Both<Option<u64>>)>,
}

impl Counters {
    /// Makes the counters of a device without queue pairs.
    pub(super) const fn new(network: Rc<RefCell<Network>>) -> Self {
        Self { network, flows: Vec::new(), read: None }
    }

    /// Returns the number of notifications that slowed down the device's sending, and of packets received with a mark.
    pub(super) fn read(&mut self, now: Nanos) -> Both<Option<u64>> {
        if let Some((at, counts)) = self.read
            && now.since(at) < LIFESPAN
        {
            return counts;
        }
        let network = self.network.borrow();
        let sum = |of: &dyn Fn(&(FlowId, FlowId)) -> u64| Some(self.flows.iter().map(of).sum());
        let counts = Both {
            out: sum(&|(out, _)| network.info(*out).delivered_ce),
            into: sum(&|(_, into)| network.info(*into).received_ce),
        };
        self.read = Some((now, counts));
        counts
    }
}
