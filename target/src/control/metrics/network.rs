//! The metric families of the network.

use std::fmt::Error;

use prometheus_client::registry::Unit;

use super::families::{Families, Labels, Pick, one};
use super::qos::{PickFraction, ratio};
use crate::serve::engine::{
    ConnectionNetwork, ConnectionState, FlowState, LinkState, NetworkState,
};

impl Families<'_> {
    /// Writes links and their classes, and connections.
    pub(super) fn network(
        &mut self,
        state: &NetworkState,
        connections: &[ConnectionState],
    ) -> Result<(), Error> {
        let help = "1 while classes share the network, 0 while the kernel alone decides";
        self.gauges("network_enabled", help, None, one(u64::from(state.enabled)))?;
        self.links(&state.links)?;
        let known: Vec<(&ConnectionState, &ConnectionNetwork)> = connections
            .iter()
            .filter_map(|connection| Some((connection, connection.network.as_ref()?)))
            .collect();
        let times = known.iter().map(|(connection, network)| {
            (connection_labels(connection, network), network.rtt_us as f64 / 1e6)
        });
        let help = "Smoothed round-trip time of a connection, queues included";
        self.gauges("flow_rtt", help, Some(&Unit::Seconds), times)?;
        let flows = known.iter().flat_map(|(connection, network)| {
            [("out", &network.out), ("in", &network.into)].map(|(direction, flow)| {
                let mut labels = connection_labels(connection, network);
                labels.push(("direction", direction.into()));
                (labels, flow)
            })
        });
        self.flows("flow", &flows.collect::<Vec<_>>())
    }

    fn links(&mut self, links: &[LinkState]) -> Result<(), Error> {
        let label = |link: &LinkState| vec![("link", link.name.clone())];
        let unit = rate();
        let given = links.iter().filter_map(|link| Some((label(link), link.capacity? as f64)));
        let help = "Configured capacity of a link";
        self.gauges("link_capacity", help, Some(&unit), given)?;
        let directions: Vec<_> = links
            .iter()
            .flat_map(|link| {
                [("out", &link.out), ("in", &link.into)].map(|(direction, state)| {
                    (vec![("link", link.name.clone()), ("direction", direction.to_owned())], state)
                })
            })
            .collect();
        let classes = directions.iter().flat_map(|(labels, state)| {
            state.classes.iter().map(|class| {
                let mut labels = labels.clone();
                labels.push(("class", class.class.clone()));
                (labels, class)
            })
        });
        let classes: Vec<_> = classes.collect();
        let flows = classes.iter().map(|(labels, class)| (labels.clone(), u64::from(class.flows)));
        self.gauges("link_flows", "Connections that have something to send", None, flows)?;
        let wants =
            classes.iter().map(|(labels, class)| (labels.clone(), u64::from(class.backlogged)));
        let help = "Whether any of them would take more than it gets (1) or none (0)";
        self.gauges("link_backlogged", help, None, wants)?;
        let totals: Vec<_> =
            classes.iter().map(|(labels, class)| (labels.clone(), &class.total)).collect();
        self.flows("link", &totals)
    }

    /// Writes the families that all flows have: classes on a link and connections in one direction. Their names begin
    /// with `prefix`.
    fn flows(&mut self, prefix: &str, all: &[(Labels, &FlowState)]) -> Result<(), Error> {
        let (rate, ratio) = (rate(), ratio());
        let gauges: [(&str, &str, &Unit, PickFraction<FlowState>); 5] = [
            ("target", "Target rate", &rate, |flow| flow.target),
            ("rate", "Smoothed rate of payload", &rate, |flow| Some(flow.rate)),
            ("limit", "Limit on the rate now", &rate, |flow| flow.limit),
            ("alpha", "Smoothed fraction of marked packets", &ratio, |flow| Some(flow.alpha)),
            ("quality", "The quality factor Q", &ratio, |flow| Some(flow.quality)),
        ];
        for (suffix, help, unit, pick) in gauges {
            let values =
                all.iter().filter_map(|(labels, flow)| Some((labels.clone(), pick(flow)?)));
            self.gauges(&format!("{prefix}_{suffix}"), help, Some(unit), values)?;
        }
        let counters: [(&str, &str, Pick<FlowState>); 2] = [
            ("delivered_packets", "Packets delivered", |flow| flow.delivered),
            ("marked_packets", "Packets that carried a congestion mark", |flow| flow.marked),
        ];
        for (suffix, help, pick) in counters {
            let moved = all.iter().filter(|(_, flow)| pick(flow) > 0);
            let values = moved.map(|(labels, flow)| (labels.clone(), pick(flow)));
            self.counters(&format!("{prefix}_{suffix}"), help, None, values)?;
        }
        Ok(())
    }
}

fn rate() -> Unit {
    Unit::Other("bits_per_second".into())
}

/// Returns a connection's labels; `connection` tells two controllers of one host apart.
fn connection_labels(connection: &ConnectionState, network: &ConnectionNetwork) -> Labels {
    vec![
        ("host", connection.host.clone().unwrap_or_default()),
        ("subsystem", connection.subsystem.clone().unwrap_or_default()),
        ("queue", connection.queue.map(|queue| queue.to_string()).unwrap_or_default()),
        ("connection", connection.id.to_string()),
        ("class", network.class.clone()),
    ]
}
