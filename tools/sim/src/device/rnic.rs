//! The adapters between clients and one-sided memory: each client's own, and the shared one of the data node. Both
//! serve in order of arrival. The model is the one in `pmem` ([`Node`]), with the capacities of Haechi's Fig. 6 and 7
//! (docs/research/sources.md, H3): 400 K I/Os per second for a client, 1570 K for all.

use core::time::Duration;
use std::collections::VecDeque;

use pmem::in_process::{Memory, Nics, Node, PortId};
use pmem::one_sided::{OneSided, Ticket};
use units::Nanos;

use super::interface::{Device, Request};

/// The adapters of a data node and its clients.
#[derive(Debug)]
pub struct Rnic {
    node: Node,
    clients: Vec<PortId>,
    /// Requests that their connection did not take, with the time.
    refused: VecDeque<(Nanos, u64)>,
}

/// The capacities that Haechi's paper measured.
#[must_use]
pub const fn haechi() -> Nics {
    Nics {
        // 1 / 1570 K, 1 / 400 K.
        io_at_node: Duration::from_nanos(637),
        io_at_client: Duration::from_nanos(2500),
        word: Duration::from_nanos(20),
        travel: Duration::from_nanos(1000),
        jitter: 0,
    }
}

impl Rnic {
    /// Makes the adapters of a data node and of so many clients; `seed` decides how times vary.
    #[must_use]
    pub fn new(nics: Nics, clients: usize, seed: u64) -> Self {
        let mut node = Node::new(nics, Memory::new(1), seed);
        let clients = (0..clients).map(|_| node.connect(true)).collect();
        Self { node, clients, refused: VecDeque::new() }
    }

    /// Submits a request of a client. A request of a client that does not exist ends at once.
    pub fn submit_of(&mut self, now: Nanos, client: usize, request: Request) {
        let taken = self
            .clients
            .get(client)
            .is_some_and(|port| self.node.port(*port, now).io(Ticket(request.id)).is_ok());
        if !taken {
            self.refused.push_back((now, request.id));
        }
    }
}

impl Device for Rnic {
    /// Submits a request of the first client.
    fn submit(&mut self, now: Nanos, request: Request) {
        self.submit_of(now, 0, request);
    }

    fn next(&self) -> Option<Nanos> {
        let event = Some(self.node.next_event()).filter(|at| *at != Nanos::MAX);
        let refused = self.refused.front().map(|(at, _)| *at);
        event.into_iter().chain(refused).min()
    }

    fn advance(&mut self, until: Nanos, done: &mut Vec<(Nanos, u64)>) {
        while let Some(now) = Device::next(self).filter(|at| *at <= until) {
            done.extend(self.refused.pop_front_if(|(at, _)| *at <= now));
            self.node.advance(now);
            while let Some(port) = self.node.ready(now) {
                if let Some(completion) = self.node.port(port, now).completed() {
                    done.push((now, completion.ticket.0));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use units::Class;

    use super::*;
    use crate::device::Kind;

    /// Keeps 64 I/Os of each client under way. Returns how many each has done in a tenth of a
    /// second.
    fn done_by(clients: usize) -> Vec<u64> {
        let mut rnic = Rnic::new(haechi(), clients, 1);
        let request =
            |id| Request { id, kind: Kind::Read, offset: 0, length: 4096, class: Class::Low };
        for client in 0..clients {
            (0..64).for_each(|_| rnic.submit_of(Nanos(0), client, request(client as u64)));
        }
        let (mut counts, mut done) = (vec![0; clients], Vec::new());
        while let Some(now) = rnic.next().filter(|at| at.0 <= 100_000_000) {
            rnic.advance(now, &mut done);
            for (at, id) in done.drain(..) {
                let client = usize::try_from(id).unwrap();
                counts[client] += 1;
                rnic.submit_of(at, client, request(id));
            }
        }
        counts
    }

    #[test]
    fn h3_one_client_does_400_k_and_many_together_1570_k() {
        let one = done_by(1);
        assert!((39_900..40_100).contains(&one[0]), "{one:?}");
        let ten = done_by(10);
        let all = ten.iter().sum::<u64>();
        assert!((156_500..157_500).contains(&all), "{ten:?}");
        assert!(ten.iter().all(|count| count.abs_diff(all / 10) < 200), "equal parts: {ten:?}");
    }

    #[test]
    fn a_client_that_does_not_exist_waits_for_nothing() {
        let mut rnic = Rnic::new(haechi(), 1, 1);
        let request = Request { id: 7, kind: Kind::Read, offset: 0, length: 1, class: Class::Low };
        rnic.submit_of(Nanos(5), 3, request);
        let mut done = Vec::new();
        rnic.advance(Nanos(5), &mut done);
        assert_eq!((done, rnic.next()), (vec![(Nanos(5), 7)], None));
    }
}
