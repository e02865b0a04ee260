//! The choice of the reactor that serves a new connection.
//!
//! The first reactor accepts for all. SO_REUSEPORT would distribute connections by hash, unevenly for
//! the few connections of one host.

/// The connections of a reactor, including connections on their way to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Connections that are I/O queues.
    pub io_queues: u64,
    /// Connections that have sent no Connect that succeeded: any of them may become an I/O queue.
    pub waiting: u64,
    /// All connections.
    pub connections: u64,
}

impl Load {
    /// Returns the number of I/O queues and of connections that may become one. Only these make work.
    const fn queues(&self) -> u64 {
        self.io_queues.saturating_add(self.waiting)
    }
}

/// Chooses the reactor for a new connection: the one with the fewest I/O queues and connections that
/// may become one. Among equals it is `near`, the reactor on the CPU that receives the connection's
/// packets, else the reactor with the fewest connections, else the first.
/// `None` where there are no reactors.
pub fn place(loads: impl IntoIterator<Item = Load>, near: Option<usize>) -> Option<usize> {
    let rank =
        |(index, load): &(usize, Load)| (load.queues(), near != Some(*index), load.connections);
    loads.into_iter().enumerate().min_by_key(rank).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A host that connects its admin queue, and its I/O queues once that is there.
    #[derive(Clone, Copy, Debug)]
    enum Host {
        /// The host has not come, or its admin queue is connected and these I/O queues are to come.
        Comes { admin: bool, queues: u32 },
        /// A connection to this reactor has sent no Connect yet.
        Waits { reactor: usize, admin: bool, queues: u32 },
    }

    /// Connects hosts with `queues` I/O queues each to two reactors. Each of `steps` names the host that makes the
    /// next step. Returns the I/O queues of both reactors.
    fn connect(hosts: usize, queues: u32, steps: &[usize], near: Option<usize>) -> [u64; 2] {
        let mut loads = [Load::default(); 2];
        let mut hosts = vec![Host::Comes { admin: true, queues }; hosts];
        let mut step = |host: &mut Host| match *host {
            Host::Comes { admin: false, queues: 0 } => {}
            Host::Comes { admin, queues } => {
                let reactor = place(loads, near).unwrap();
                loads[reactor].waiting += 1;
                loads[reactor].connections += 1;
                *host = Host::Waits { reactor, admin, queues };
            }
            Host::Waits { reactor, admin, queues } => {
                loads[reactor].waiting -= 1;
                loads[reactor].io_queues += u64::from(!admin);
                *host = Host::Comes { admin: false, queues: queues - u32::from(!admin) };
            }
        };
        for at in steps {
            let count = hosts.len();
            step(&mut hosts[at % count]);
        }
        for host in &mut hosts {
            (0..2 * (queues + 1)).for_each(|_| step(host));
        }
        assert_eq!((loads[0].waiting, loads[1].waiting), (0, 0));
        loads.map(|load| load.io_queues)
    }

    #[test]
    fn the_fewest_queues_count_and_then_the_fewest_connections() {
        let load = |io_queues, waiting, connections| Load { io_queues, waiting, connections };
        for (loads, near, chosen) in [
            (vec![load(2, 0, 2), load(1, 0, 9)], None, Some(1)),
            // A waiting connection may become a queue.
            (vec![load(1, 1, 2), load(1, 0, 9)], None, Some(1)),
            (vec![load(1, 0, 3), load(0, 1, 2), load(1, 0, 2)], None, Some(1)),
            (vec![load(1, 0, 2); 3], None, Some(0)),
            (vec![load(1, 0, 2), load(1, 0, 9), load(1, 0, 1)], Some(1), Some(1)),
            (vec![load(1, 0, 2), load(2, 0, 2)], Some(1), Some(0)),
            (vec![], Some(0), None),
        ] {
            assert_eq!(place(loads.clone(), near), chosen, "{loads:?} {near:?}");
        }
    }

    proptest! {
        /// Two reactors get equally many I/O queues, in any order of connecting hosts, if each host connects its
        /// admin queue before its I/O queues.
        #[test]
        fn two_reactors_have_as_many_io_queues(
            hosts in 1usize..17,
            queues in 1u32..9,
            steps in proptest::collection::vec(0usize..16, 0..200),
            near in proptest::option::of(0usize..2),
        ) {
            let [one, other] = connect(hosts, queues, &steps, near);
            prop_assert!(one.abs_diff(other) <= 1, "{} and {}", one, other);
        }
    }
}
