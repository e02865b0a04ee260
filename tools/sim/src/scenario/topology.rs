//! Cables and switches.

use std::time::Duration;

use super::error::{ScenarioError, value};
use super::file::{File, TopologyKind};
use super::value::Bits;
use crate::model::Transport;
use crate::network::{FatTree, Link, Marking, NodeId, Packets, Pause, Switch, Topology};

/// Makes the topology. Returns it with the nodes of hosts and of the target.
pub(super) fn topology(
    file: &File,
    hosts: u32,
) -> Result<(Topology, Vec<NodeId>, NodeId), ScenarioError> {
    let of = &file.topology;
    let delay = of.delay.map_or(Duration::from_micros(1), |delay| delay.0);
    let link = |Bits(rate): Bits| Link { rate, delay };
    let packets = Packets { mtu: of.mtu.unwrap_or(1500), ..Packets::default() };
    let default = Switch::default();
    let switch = Switch {
        buffer: of.buffer.map_or(default.buffer, |buffer| buffer.0),
        marking: match of.threshold {
            Some(0) => None,
            Some(packets) => Some(Marking::Packets(packets)),
            None => default.marking,
        },
        priority: of.urgent_first.unwrap_or(false),
        reserved: of.urgent_buffer.map_or(0, |buffer| buffer.0),
        pause: of.pause.map(|pause| Pause {
            pause: pause.0,
            resume: of.resume.map_or(pause.0 / 2, |resume| resume.0),
        }),
        loss: of.loss.map_or(0.0, |loss| loss.0),
        ..default
    };
    let target_rate = of.target_rate.unwrap_or(of.rate);
    if of.kind != TopologyKind::Dumbbell && of.between.is_some() {
        return Err(value("topology.between", "given", "only a dumbbell has it: leave it out"));
    }
    if of.kind != TopologyKind::FatTree && of.pods.is_some() {
        return Err(value("topology.pods", "given", "only a fat tree has them: leave it out"));
    }
    if of.kind == TopologyKind::FatTree && of.target_rate.is_some() {
        let must = "all cables of a fat tree are alike: leave it out";
        return Err(value("topology.target_rate", "given", must));
    }
    if of.pause.is_none() && of.resume.is_some() {
        return Err(value("topology.resume", "given", "only pauses end there: give `pause`, too"));
    }
    for host in file.hosts.iter().filter(|host| host.rate.is_some()) {
        let key = format!("host {}.rate", host.name);
        if of.kind == TopologyKind::FatTree {
            return Err(value(key, "given", "all cables of a fat tree are alike: leave it out"));
        }
        if host.transport == Transport::Rdma {
            let must = "adapters of hosts over RDMA have `topology.rate`: leave it out";
            return Err(value(key, "given", must));
        }
    }
    let rates = file.hosts.iter().flat_map(|host| {
        let rate = host.rate.unwrap_or(of.rate);
        (0..host.count.unwrap_or(1)).map(move |_| rate)
    });
    let mut nodes: Vec<NodeId>;
    let target;
    let topology = match of.kind {
        TopologyKind::Rack => {
            let mut topology = Topology::new(packets);
            nodes = (0..hosts).map(|_| topology.host()).collect();
            target = topology.host();
            let middle = topology.switch(switch);
            nodes
                .iter()
                .zip(rates)
                .for_each(|(node, rate)| topology.link(*node, middle, link(rate)));
            topology.link(target, middle, link(target_rate));
            topology
        }
        TopologyKind::Dumbbell => {
            let mut topology = Topology::new(packets);
            nodes = (0..hosts).map(|_| topology.host()).collect();
            target = topology.host();
            let ends = [topology.switch(switch), topology.switch(switch)];
            nodes
                .iter()
                .zip(rates)
                .for_each(|(node, rate)| topology.link(*node, ends[0], link(rate)));
            topology.link(target, ends[1], link(target_rate));
            topology.link(ends[0], ends[1], link(of.between.unwrap_or(of.rate)));
            topology
        }
        TopologyKind::FatTree => {
            let tree = FatTree {
                pods: of.pods.unwrap_or(4),
                hosts: None,
                edge: link(of.rate),
                inner: link(of.rate),
                switch,
                packets,
            };
            let topology = tree.build()?;
            // The target is the last host, as far from most others as can be.
            nodes = topology.hosts().collect();
            let room = nodes.len().saturating_sub(1);
            let Some(last) = nodes.pop().filter(|_| hosts as usize <= room) else {
                let must = format!("the fat tree has places for {room}: take more `pods`");
                return Err(value("host.count", format!("{hosts} in all"), must));
            };
            target = last;
            nodes.truncate(hosts as usize);
            topology
        }
    };
    topology.check()?;
    Ok((topology, nodes, target))
}
