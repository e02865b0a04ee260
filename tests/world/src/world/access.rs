//! Hosts that may connect, from their addresses or from others, while this changes.

use std::net::Ipv4Addr;

use fabric::controller::{AllowedHost, Refusal, Sources};
use sluice_core::testing::Seen;

use super::World;
use crate::host::NQN;

/// Longest time after which a host that may not connect any more has its last answer, in ns.
const LAST_ANSWER_NS: u64 = 50_000_000;
/// Networks that no host comes from.
const ELSEWHERE: [&str; 2] = ["10.1.0.0/16", "::1/128"];

impl World {
    /// Checks a Connect that was answered: the host may connect, or may not.
    pub(super) fn check_connect(&mut self, seen: &Seen) {
        let (host, accepted) = match seen {
            Seen::Connected(_, host) => (host, true),
            Seen::Refused(host, Refusal::HostNotAllowed | Refusal::AddressNotAllowed) => {
                (host, false)
            }
            _ => return,
        };
        if self.access.admits(host) != accepted {
            self.breaks(format!("{host} was let in: {accepted}"));
        }
    }

    /// Changes the addresses from which a host may connect, or whether unlisted hosts may connect. The last host
    /// always may.
    pub(super) fn change_access(&mut self) {
        let others = self.hosts.len().saturating_sub(1);
        match self.rng.usize(0..self.hosts.len()) {
            host if host < others => self.change_sources(host),
            _ => self.change_any_host(),
        }
    }

    fn change_any_host(&mut self) {
        let (now, any) = (self.now, self.rng.bool());
        let Some(last) = self.hosts.last().map(|host| host.nqn.clone()) else { return };
        self.trace(|| format!("any host may connect: {any}"));
        self.access.listed_only = !any;
        let known = self.access.listed.insert(last.clone(), true);
        let done = self.shared.with_service(|service| {
            if known.is_none() {
                service.add_host(now, NQN, last)?;
            }
            service.set_allow_any_host(now, NQN, any)
        });
        debug_assert!(done.is_ok(), "{done:?}");
        self.access_changed.fill(now);
    }

    fn change_sources(&mut self, host: usize) {
        let now = self.now;
        let home = Ipv4Addr::new(10, 0, 0, u8::try_from(host).unwrap_or(u8::MAX));
        let (alone, mapped) = (format!("{home}/32"), format!("{}/128", home.to_ipv6_mapped()));
        let [elsewhere, local] = ELSEWHERE;
        let (comes, networks) = match self.rng.u8(0..6) {
            0 => (None, Vec::new()),
            1 => (Some(true), Vec::new()),
            2 => (Some(true), vec![alone.as_str()]),
            3 => (Some(true), vec![mapped.as_str(), elsewhere]),
            4 => (Some(false), vec![elsewhere]),
            _ => (Some(false), vec![elsewhere, local]),
        };
        let sources: Sources = networks.iter().filter_map(|text| text.parse().ok()).collect();
        let nqn = self.hosts[host].nqn.clone();
        self.trace(|| format!("host {host} may come: {comes:?}, from {networks:?}"));
        let listed = &mut self.access.listed;
        let known = match comes {
            Some(comes) => listed.insert(nqn.clone(), comes),
            None => listed.remove(&nqn),
        };
        let done = self.shared.with_service(|service| match (comes, known) {
            (Some(_), None) => service.add_host(now, NQN, AllowedHost { sources, ..nqn.into() }),
            (Some(_), Some(_)) => service.set_host(now, NQN, AllowedHost { sources, ..nqn.into() }),
            (None, Some(_)) => service.remove_host(now, NQN, &nqn),
            (None, None) => Ok(()),
        });
        debug_assert!(done.is_ok(), "{done:?}");
        self.access_changed[host] = now;
    }

    /// Checks that a host whose command was answered may connect, or could a moment ago.
    pub(super) fn check_served(&mut self, host: usize) {
        let since = self.access_changed[host];
        let refused = self.scenario.bound && !self.access.admits(&self.hosts[host].nqn);
        if refused && self.now.ns_since(since) > LAST_ANSWER_NS {
            self.breaks(format!("host {host} is served, and may not connect since {since:?}"));
        }
    }
}
