//! The memory of hosts that do not honour Command Retry Delays (Host Behavior Support, ACRE).
//!
//! The target cannot send the commands of such a host back when a limit makes them wait. All
//! commands in its queues must be carried out before its timeout, which needs smaller queues. But a
//! host sets ACRE after it has read CAP.MQES: the bound follows from the host's last controller.

use std::collections::BTreeMap;

/// The most hosts that are remembered. Beyond it, another one is forgotten, and may have queues of
/// full size again.
const HOSTS_MAX: usize = 1024;

/// The hosts that did not honour Command Retry Delays when they last connected an I/O queue.
#[derive(Debug, Default)]
pub(super) struct HostsWithoutAcre {
    /// The most I/O queues that a host had at one controller, by its NQN.
    queues: BTreeMap<String, u16>,
}

impl HostsWithoutAcre {
    /// Notes that a host has connected an I/O queue, after which its controller has `queues` of them.
    pub(super) fn connected(&mut self, host: &str, acre: bool, queues: u16) {
        if acre {
            self.queues.remove(host);
            return;
        }
        if let Some(known) = self.queues.get_mut(host) {
            *known = queues.max(*known);
            return;
        }
        if self.queues.len() >= HOSTS_MAX {
            self.queues.pop_first();
        }
        self.queues.insert(host.to_owned(), queues);
    }

    /// Returns the most I/O queues that a host had at one controller; `None` for a host that honours
    /// the delays, or is not known.
    pub(super) fn queues(&self, host: &str) -> Option<u16> {
        self.queues.get(host).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_end_take_no_memory_without_end() {
        let mut hosts = HostsWithoutAcre::default();
        for number in 0..3 * HOSTS_MAX {
            hosts.connected(&format!("nqn.2026-01.io.x:{number}"), false, 1);
        }
        assert_eq!(hosts.queues.len(), HOSTS_MAX);
    }
}
