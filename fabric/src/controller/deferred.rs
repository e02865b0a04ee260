//! The deferred commands of a queue, to which the service's completions belong, for the transport.

/// The deferred commands of one admin queue: Asynchronous Event Requests, and Aborts under way.
///
/// The service names them by identifier, and its completions take a while to reach the transport.
/// Meanwhile the host may have used the identifier of an event request for another command (some
/// hosts give their requests up and tell nobody): a completion of the request must then not be
/// taken for the answer to that command.
#[derive(Debug)]
pub struct DeferredCommands<P> {
    waiting: Vec<Waiting<P>>,
    /// The identifiers of requests that were given up while their completion was on its way.
    stale: Vec<u16>,
}

#[derive(Debug)]
struct Waiting<P> {
    cid: u16,
    event_request: bool,
    /// The transport's name for the command.
    place: P,
}

impl<P> Default for DeferredCommands<P> {
    fn default() -> Self {
        Self { waiting: Vec::new(), stale: Vec::new() }
    }
}

impl<P> DeferredCommands<P> {
    /// Notes that the service has deferred a command; `place` is the transport's name for it.
    pub fn deferred(&mut self, cid: u16, event_request: bool, place: P) {
        self.waiting.push(Waiting { cid, event_request, place });
    }

    /// Notes that a command has arrived, whose data may still be missing. If the command reuses the
    /// identifier of an event request, returns that request's place, to be freed without a
    /// completion. `withdraw` asks the service for the request back and returns whether it was
    /// there ([`super::Service::withdraw_event_request`]).
    pub fn arrived(&mut self, cid: u16, withdraw: impl FnOnce() -> bool) -> Option<P> {
        let at = self.waiting.iter().position(|w| w.event_request && w.cid == cid)?;
        if !withdraw() {
            self.stale.push(cid);
        }
        Some(self.waiting.swap_remove(at).place)
    }

    /// Handles a completion of the service. Returns the place of the command that the completion answers; `None` if
    /// that command was given up.
    pub fn completed(&mut self, cid: u16) -> Option<P> {
        if let Some(at) = self.stale.iter().position(|&c| c == cid) {
            self.stale.remove(at);
            return None;
        }
        let at = self.waiting.iter().position(|w| w.cid == cid)?;
        Some(self.waiting.swap_remove(at).place)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    /// A step on an admin queue whose service answers late.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// The host sends an event request.
        Request(u16),
        /// The host sends a command that is answered at once.
        Ordinary(u16),
        /// An event completes the oldest request: the completion begins its way.
        Event,
        /// The oldest completion arrives.
        Deliver,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0u16..4).prop_map(Step::Request),
            2 => (0u16..4).prop_map(Step::Ordinary),
            2 => Just(Step::Event),
            2 => Just(Step::Deliver),
        ]
    }

    proptest! {
        #[test]
        fn completion_matches_its_request_or_none(
            steps in prop::collection::vec(step(), 0..200)
        ) {
            let mut commands = DeferredCommands::default();
            // Requests by the number of their command, as the service has them.
            let mut service: VecDeque<(u16, usize)> = VecDeque::new();
            let mut on_their_way: VecDeque<(u16, usize)> = VecDeque::new();
            let mut open: Vec<(u16, usize)> = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                if let Step::Request(cid) | Step::Ordinary(cid) = step {
                    let at = service.iter().position(|s| s.0 == cid);
                    let freed = commands.arrived(cid, || at.is_some());
                    if freed.is_some() {
                        service.retain(|s| s.0 != cid);
                    }
                    let expected = open.iter().position(|o| o.0 == cid);
                    prop_assert_eq!(freed, expected.map(|at| open.remove(at).1));
                }
                match step {
                    Step::Request(cid) => {
                        commands.deferred(cid, true, number);
                        service.push_back((cid, number));
                        open.push((cid, number));
                    }
                    Step::Ordinary(_) => {}
                    Step::Event => on_their_way.extend(service.pop_front()),
                    Step::Deliver => {
                        let Some((cid, number)) = on_their_way.pop_front() else { continue };
                        let at = open.iter().position(|o| *o == (cid, number));
                        prop_assert_eq!(commands.completed(cid), at.map(|at| open.remove(at).1));
                    }
                }
            }
            prop_assert!(commands.stale.len() <= on_their_way.len(), "nothing is kept in vain");
        }
    }

    #[test]
    fn an_abort_under_way_keeps_its_identifier() {
        let mut commands = DeferredCommands::default();
        commands.deferred(7, false, "abort");
        assert_eq!(commands.arrived(7, || unreachable!()), None);
        assert_eq!(commands.completed(7), Some("abort"));
        assert_eq!(commands.completed(7), None);
    }
}
