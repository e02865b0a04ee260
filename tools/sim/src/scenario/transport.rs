//! The transports of hosts: what limits sockets and queue pairs at both ends.

use super::error::{ScenarioError, value};
use super::file::{File, RdmaControl, TcpControl};
use super::value::Bits;
use crate::model::Transport;
use crate::network::{Control, RateControl, Sender};

/// The limits at the ends of all connections of a scenario.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transports {
    /// The sockets of hosts and target.
    pub(super) sockets: Sender,
    /// The queue pairs of hosts.
    pairs: Sender,
    /// The target's ends of them.
    answers: Sender,
}

impl Transports {
    /// Makes the limits.
    ///
    /// # Errors
    ///
    /// A table is given whose transport no host has, or DCQCN where no switch marks.
    pub(super) fn new(file: &File) -> Result<Self, ScenarioError> {
        for (table, given, name) in [
            ("tcp", file.tcp.is_some(), Transport::Tcp),
            ("rdma", file.rdma.is_some(), Transport::Rdma),
        ] {
            if given && file.hosts.iter().all(|host| host.transport != name) {
                let must = format!(
                    "no host has `transport = \"{table}\"`: leave it out, or give it to a [[host]]"
                );
                return Err(value(table, "given", must));
            }
        }
        let control = file.rdma.unwrap_or_default().control;
        let over_rdma = file.hosts.iter().any(|host| host.transport == Transport::Rdma);
        if over_rdma && control == RdmaControl::Dcqcn && file.topology.threshold == Some(0) {
            let must = "switches mark nothing, which `topology.threshold` says: write \"line\", or a \
                        threshold of 1 or more";
            return Err(value("rdma.control", "\"dcqcn\"", must));
        }
        let pair = |Bits(line): Bits| Sender::Rate {
            control: match control {
                RdmaControl::Dcqcn => RateControl::dcqcn(line),
                RdmaControl::Line => RateControl::Line,
            },
        };
        let of = &file.topology;
        let target = of.target_rate.unwrap_or(of.rate);
        Ok(Self { sockets: sockets(file), pairs: pair(of.rate), answers: pair(target) })
    }

    /// Returns what limits the ends of a host, and what limits the target's; `None`: what limits the target's
    /// sockets.
    pub(super) fn of(&self, transport: Transport) -> (Sender, Option<Sender>) {
        match transport {
            Transport::Tcp => (self.sockets, None),
            Transport::Rdma => (self.pairs, Some(self.answers)),
        }
    }
}

/// Makes the kernels' sender.
fn sockets(file: &File) -> Sender {
    let of = file.tcp.unwrap_or_default();
    let ecn = of.ecn.unwrap_or(false);
    let control = match of.control {
        TcpControl::Dctcp => Control::Dctcp,
        TcpControl::Cubic => Control::Cubic { ecn },
        TcpControl::Reno => Control::Reno { ecn },
    };
    Sender::Window { control }
}
