//! Methods that change the hosts which may connect to a subsystem, their source addresses and their rights.

use serde_json::Value;
use sluice_config::answer::{AnyHost, HostName};
use sluice_config::{AllowedHost, Subsystem, entry, params, values};

use super::Control;
use super::change::Answer;
use super::named::{known_subsystem, subsystem};
use super::parameters::read;
use super::protocol::Failure;
use crate::control::store::{Live, ObjectId};
use crate::serve::engine::{Engine, EngineError, Loss};
use crate::sys::words::list;

impl Control {
    pub(super) fn host_add(&self, params: &Value) -> Answer<HostName> {
        let Asked { nqn, host: name, force } = Asked::read(params, &AllowedHost::default())?.0;
        let (_, host) = Asked::read(params, &AllowedHost::from(name))?;
        let add = |subsystem: &mut Subsystem| {
            if subsystem.hosts.iter().any(|known| known.nqn == host.nqn) {
                let message = format!(
                    "host {} is allowed already; change it with `sluice host set`",
                    host.nqn
                );
                return Err(Failure::exists(message));
            }
            subsystem.hosts.push(host.clone());
            Ok(())
        };
        let object = ObjectId::Host(nqn.clone(), host.nqn.clone());
        let mut live = self.live();
        let act = |engine: &dyn Engine| engine.add_host(&nqn, &host);
        self.change_hosts(&mut live, (&nqn, force), &object, add, act)?;
        Ok(self.done(HostName { subsystem: nqn, host: host.nqn }))
    }

    pub(super) fn host_set(&self, params: &Value) -> Answer<HostName> {
        let Asked { nqn, host: name, force } = Asked::read(params, &AllowedHost::default())?.0;
        let mut live = self.live();
        let known = known_subsystem(live.current(), &nqn)?;
        // Settings that are not given stay as they are.
        let before = known.hosts.get(place(known, &name)?).cloned().unwrap_or_default();
        let (_, host) = Asked::read(params, &before)?;
        let set = |subsystem: &mut Subsystem| {
            let at = place(subsystem, &name)?;
            if let Some(known) = subsystem.hosts.get_mut(at) {
                known.clone_from(&host);
            }
            Ok(())
        };
        let object = ObjectId::Host(nqn.clone(), name.clone());
        let act = |engine: &dyn Engine| engine.set_host(&nqn, &host);
        self.change_hosts(&mut live, (&nqn, force), &object, set, act)?;
        Ok(self.done(HostName { subsystem: nqn, host: name }))
    }

    pub(super) fn host_remove(&self, asked: params::HostRemove) -> Answer<HostName> {
        let params::HostRemove { subsystem: nqn, host, force } = asked;
        let remove = |subsystem: &mut Subsystem| {
            let at = place(subsystem, &host)?;
            subsystem.hosts.remove(at);
            Ok(())
        };
        let object = ObjectId::Host(nqn.clone(), host.clone());
        let mut live = self.live();
        let act = |engine: &dyn Engine| engine.remove_host(&nqn, &host);
        self.change_hosts(&mut live, (&nqn, force), &object, remove, act)?;
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
        let mut live = self.live();
        self.change_hosts(&mut live, (&nqn, force), &object, set, act)?;
        Ok(self.done(AnyHost { subsystem: nqn, allow_any_host: allow }))
    }

    /// Changes the hosts of a subsystem by `edit`, in the engine by `act`. Refuses a change by which
    /// hosts would lose something, unless the change is forced.
    fn change_hosts<T>(
        &self,
        live: &mut Live,
        (nqn, force): (&str, bool),
        object: &ObjectId,
        edit: impl Fn(&mut Subsystem) -> Result<(), Failure>,
        act: impl FnOnce(&dyn Engine) -> Result<T, EngineError>,
    ) -> Result<T, Failure> {
        let mut next = known_subsystem(live.current(), nqn)?.clone();
        edit(&mut next)?;
        let loss = Loss::Access { nqn, any: next.allow_any_host, hosts: &next.hosts };
        self.unless_hurt(force, &loss)?;
        self.change(live, object, |config| edit(subsystem(config, nqn)?), act)
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

/// The names in a request about a host, and whether it is forced.
struct Asked {
    nqn: String,
    host: String,
    force: bool,
}

impl Asked {
    /// Reads a request. Its settings start from the host's present ones.
    fn read(params: &Value, before: &AllowedHost) -> Result<(Self, AllowedHost), Failure> {
        read(params, |mut fields| {
            let nqn = fields.require("subsystem", "the subsystem's NQN", values::nqn);
            let host = fields.require("host", "the host's NQN", values::nqn);
            let force = fields.value_or("force", false, values::boolean);
            let settings = entry::host_onto(&mut fields, before);
            fields.finish();
            Some((Self { nqn: nqn?.value, host: host?.value, force }, settings?))
        })
    }
}
