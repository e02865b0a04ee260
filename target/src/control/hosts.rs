//! Methods that change the hosts which may connect to a subsystem, and from where.

use sluice_schema::answer::{AnyHost, HostName};
use sluice_schema::params;

use super::Control;
use super::change::Answer;
use super::named::{known_subsystem, subsystem};
use super::protocol::Failure;
use crate::config::{AllowedHost, Sources, Subsystem, values};
use crate::engine::{Engine, EngineError, Loss};
use crate::store::ObjectId;
use crate::words::list;

impl Control {
    pub(super) fn host_add(&self, asked: params::HostAdd) -> Answer<HostName> {
        let params::HostAdd { subsystem: nqn, host, addresses, force } = asked;
        let host = AllowedHost { nqn: host, sources: sources(addresses)? };
        let add = |subsystem: &mut Subsystem| {
            if subsystem.hosts.iter().any(|known| known.nqn == host.nqn) {
                let message = format!("host {} is allowed already", host.nqn);
                return Err(Failure::exists(message));
            }
            subsystem.hosts.push(host.clone());
            Ok(())
        };
        let object = ObjectId::Host(nqn.clone(), host.nqn.clone());
        self.change_hosts(&nqn, force, &object, add, |engine| engine.add_host(&nqn, &host))?;
        Ok(self.done(HostName { subsystem: nqn, host: host.nqn }))
    }

    pub(super) fn host_set(&self, asked: params::HostSet) -> Answer<HostName> {
        let params::HostSet { subsystem: nqn, host, addresses, force } = asked;
        let host = AllowedHost { nqn: host, sources: sources(addresses)? };
        let set = |subsystem: &mut Subsystem| {
            let at = place(subsystem, &host.nqn)?;
            if let Some(known) = subsystem.hosts.get_mut(at) {
                known.clone_from(&host);
            }
            Ok(())
        };
        let object = ObjectId::Host(nqn.clone(), host.nqn.clone());
        self.change_hosts(&nqn, force, &object, set, |engine| engine.set_host(&nqn, &host))?;
        Ok(self.done(HostName { subsystem: nqn, host: host.nqn }))
    }

    pub(super) fn host_remove(&self, asked: params::HostRemove) -> Answer<HostName> {
        let params::HostRemove { subsystem: nqn, host, force } = asked;
        let remove = |subsystem: &mut Subsystem| {
            let at = place(subsystem, &host)?;
            subsystem.hosts.remove(at);
            Ok(())
        };
        let object = ObjectId::Host(nqn.clone(), host.clone());
        self.change_hosts(&nqn, force, &object, remove, |engine| engine.remove_host(&nqn, &host))?;
        Ok(self.done(HostName { subsystem: nqn, host }))
    }

    pub(super) fn host_any(&self, asked: params::HostAny) -> Answer<AnyHost> {
        let params::HostAny { subsystem: nqn, allow, force } = asked;
        let set = |subsystem: &mut Subsystem| {
            subsystem.allow_any_host = allow;
            Ok(())
        };
        let object = ObjectId::AnyHost(nqn.clone());
        let act = |engine: &dyn Engine| engine.set_allow_any_host(&nqn, allow);
        self.change_hosts(&nqn, force, &object, set, act)?;
        Ok(self.done(AnyHost { subsystem: nqn, allow_any_host: allow }))
    }

    /// Changes the hosts of a subsystem by `edit`, in the engine by `act`. Refuses a change by which
    /// connected hosts would lose the subsystem, unless the change is forced.
    fn change_hosts<T>(
        &self,
        nqn: &str,
        force: bool,
        object: &ObjectId,
        edit: impl Fn(&mut Subsystem) -> Result<(), Failure>,
        act: impl FnOnce(&dyn Engine) -> Result<T, EngineError>,
    ) -> Result<T, Failure> {
        let mut live = self.live();
        let mut next = known_subsystem(live.current(), nqn)?.clone();
        edit(&mut next)?;
        let loss = Loss::Access { nqn, any: next.allow_any_host, hosts: &next.hosts };
        self.unless_hurt(force, &loss)?;
        self.change(&mut live, object, |config| edit(subsystem(config, nqn)?), act)
    }
}

/// Returns the place of a host in a subsystem's list.
fn place(subsystem: &Subsystem, host: &str) -> Result<usize, Failure> {
    let hosts = &subsystem.hosts;
    hosts.iter().position(|known| known.nqn == host).ok_or_else(|| {
        let known: Vec<String> = hosts.iter().map(|known| known.nqn.clone()).collect();
        let (nqn, known) = (&subsystem.nqn, list(&known));
        let message = format!("host {host} is not allowed by name in {nqn}; allowed are: {known}");
        Failure::not_found(message)
    })
}

/// Reads networks that were checked; `None`: any address.
fn sources(texts: Option<Vec<String>>) -> Result<Sources, Failure> {
    let network = |text: String| {
        let wrong = || Failure::invalid(format!("`addresses` names \"{text}\""));
        values::network(&text).ok_or_else(wrong)
    };
    texts.unwrap_or_default().into_iter().map(network).collect()
}
