//! Methods that change the running target. Each is stored first and made then: a change that
//! cannot be stored is not made, and one that the target refuses is taken out of the store again.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Control;
use super::force::force;
use super::methods::read;
use super::network::is_known as link_is_known;
use super::protocol::Failure;
use crate::config::fields::Fields;
use crate::config::{
    Backend, Config, Namespace, SIZE_MAX, Subsystem, entry, resolve_namespaces, values,
};
use crate::engine::{Engine, EngineError, Loss};
use crate::store::{Live, ObjectId};

type Answer = Result<Value, Failure>;

impl Control {
    /// Stores and makes one change: `edit` makes it in the configuration, of which it changes
    /// `object` alone, `act` in the target.
    pub(super) fn change<T>(
        &self,
        live: &mut Live,
        object: &ObjectId,
        edit: impl FnOnce(&mut Config) -> Result<(), Failure>,
        act: impl FnOnce(&dyn Engine) -> Result<T, EngineError>,
    ) -> Result<T, Failure> {
        let stored = live.store(object, edit)?;
        match act(self.engine()) {
            Ok(value) => Ok(value),
            Err(refused) => {
                let mut failure = Failure::from(refused);
                if let Err(error) = live.undo(stored) {
                    let more = format!("; besides, the next start may try it again: {error}");
                    failure.message.push_str(&more);
                }
                Err(failure)
            }
        }
    }

    /// What an answer to a change holds, with whether it survives a restart.
    pub(super) fn done(&self, mut result: Value) -> Value {
        if let Some(object) = result.as_object_mut() {
            object.insert("durable".into(), json!(self.durable));
        }
        result
    }

    pub(super) fn subsystem_add(&self, params: &Value) -> Answer {
        let mut subsystem = read(params, entry::subsystem)?;
        subsystem.namespaces.iter_mut().for_each(make_files);
        let mut live = self.live();
        let nqn = subsystem.nqn.clone();
        let add = |config: &mut Config| {
            if config.subsystems.iter().any(|known| known.nqn == nqn) {
                return Err(Failure::exists(format!("subsystem {nqn} is there already")));
            }
            config.subsystems.push(subsystem.clone());
            Ok(())
        };
        let object = ObjectId::Subsystem(nqn.clone());
        self.change(&mut live, &object, add, |engine| engine.add_subsystem(&subsystem))?;
        Ok(self.done(json!({ "nqn": nqn, "serial": subsystem.serial })))
    }

    pub(super) fn subsystem_remove(&self, params: &Value) -> Answer {
        let (nqn, force) = read(params, |mut fields| {
            let nqn = fields.require("nqn", "the subsystem's NQN", values::nqn);
            let force = force(&mut fields);
            fields.finish();
            Some((nqn?.value, force))
        })?;
        let mut live = self.live();
        self.unless_hurt(force, &Loss::Subsystem(&nqn))?;
        let remove = |config: &mut Config| {
            subsystem(config, &nqn)?;
            config.subsystems.retain(|known| known.nqn != nqn);
            Ok(())
        };
        let object = ObjectId::Subsystem(nqn.clone());
        self.change(&mut live, &object, remove, |engine| engine.remove_subsystem(&nqn))?;
        Ok(self.done(json!({ "nqn": nqn })))
    }

    pub(super) fn namespace_add(&self, params: &Value) -> Answer {
        let (nqn, mut namespace) = read(params, |mut fields| {
            let nqn = fields.require("subsystem", "the subsystem's NQN", values::nqn);
            let namespace = entry::namespace(fields);
            Some((nqn?.value, namespace?))
        })?;
        let mut live = self.live();
        let known = &known_subsystem(live.current(), &nqn)?.namespaces;
        if let Some(nsid) = namespace.nsid
            && known.iter().any(|other| other.nsid == Some(nsid))
        {
            let message = format!("namespace {nsid} of {nqn} is there already");
            return Err(Failure::exists(message));
        }
        namespace.nsid = namespace.nsid.or_else(|| lowest_free(known));
        resolve_namespaces(&nqn, BTreeSet::new(), vec![&mut namespace]);
        make_files(&mut namespace);
        let nsid = namespace.nsid.unwrap_or_default();
        if nsid > crate::config::NSID_MAX {
            let message = format!("{nqn} has as many namespaces as there can be; remove one first");
            return Err(Failure::invalid(message));
        }
        let add = |config: &mut Config| {
            subsystem(config, &nqn)?.namespaces.push(namespace.clone());
            Ok(())
        };
        let object = ObjectId::Namespace(nqn.clone(), nsid);
        self.change(&mut live, &object, add, |engine| engine.add_namespace(&nqn, &namespace))?;
        let uuid = namespace.uuid.map(|uuid| uuid.to_string());
        Ok(self.done(json!({ "subsystem": nqn, "nsid": nsid, "uuid": uuid })))
    }

    pub(super) fn namespace_remove(&self, params: &Value) -> Answer {
        let (nqn, nsid, force) = read(params, |mut fields| {
            let nqn = fields.require("subsystem", "the subsystem's NQN", values::nqn);
            let nsid = fields.require("nsid", "1", values::integer(1, u32::MAX.into()));
            let force = force(&mut fields);
            fields.finish();
            Some((nqn?.value, nsid?.value, force))
        })?;
        let mut live = self.live();
        self.unless_hurt(force, &Loss::Namespace(&nqn, nsid))?;
        let remove = |config: &mut Config| {
            let subsystem = subsystem(config, &nqn)?;
            namespace(subsystem, nsid)?;
            subsystem.namespaces.retain(|known| known.nsid != Some(nsid));
            Ok(())
        };
        let object = ObjectId::Namespace(nqn.clone(), nsid);
        self.change(&mut live, &object, remove, |engine| engine.remove_namespace(&nqn, nsid))?;
        Ok(self.done(json!({ "subsystem": nqn, "nsid": nsid })))
    }

    pub(super) fn namespace_resize(&self, params: &Value) -> Answer {
        let (nqn, nsid, size, force) = read(params, |mut fields| {
            let nqn = fields.require("subsystem", "the subsystem's NQN", values::nqn);
            let nsid = fields.require("nsid", "1", values::integer(1, u32::MAX.into()));
            let size = fields.get("size", values::size_within(4096, SIZE_MAX)).map(|at| at.value);
            let force = force(&mut fields);
            fields.finish();
            Some((nqn?.value, nsid?.value, size, force))
        })?;
        let mut live = self.live();
        self.unless_hurt(force, &Loss::Size(&nqn, nsid, size))?;
        let resize = |config: &mut Config| {
            set_size(&mut namespace(subsystem(config, &nqn)?, nsid)?.backend, size)
        };
        let object = ObjectId::Namespace(nqn.clone(), nsid);
        let act = |engine: &dyn Engine| engine.resize_namespace(&nqn, nsid, size);
        let size = self.change(&mut live, &object, resize, act)?;
        Ok(self.done(json!({ "subsystem": nqn, "nsid": nsid, "size": size })))
    }

    pub(super) fn listener_add(&self, params: &Value) -> Answer {
        let listener = read(params, entry::listener)?;
        let mut live = self.live();
        let add = |config: &mut Config| {
            for nqn in listener.subsystems.iter().flatten() {
                subsystem(config, nqn)?;
            }
            if config.listeners.iter().any(|known| known.address == listener.address) {
                let message = format!("listener {} is there already", listener.address);
                return Err(Failure::exists(message));
            }
            link_is_known(config, listener.link.as_deref())?;
            config.listeners.push(listener.clone());
            Ok(())
        };
        let object = ObjectId::Listener(listener.address.to_string());
        self.change(&mut live, &object, add, |engine| engine.add_listener(&listener))?;
        Ok(self.done(json!({ "address": listener.address })))
    }

    pub(super) fn listener_remove(&self, params: &Value) -> Answer {
        let (address, force) = read(params, |mut fields| {
            let address = fields.require("address", "\"0.0.0.0:4420\"", values::address);
            let force = force(&mut fields);
            fields.finish();
            Some((address?.value, force))
        })?;
        let mut live = self.live();
        self.unless_hurt(force, &Loss::Listener(address))?;
        let remove = |config: &mut Config| {
            let before = config.listeners.len();
            config.listeners.retain(|known| known.address != address);
            if config.listeners.len() < before {
                return Ok(());
            }
            let known: Vec<String> =
                config.listeners.iter().map(|l| l.address.to_string()).collect();
            Err(Failure::not_found(format!(
                "there is no listener {address}; there are: {}",
                list(&known)
            )))
        };
        let object = ObjectId::Listener(address.to_string());
        self.change(&mut live, &object, remove, |engine| engine.remove_listener(address))?;
        Ok(self.done(json!({ "address": address })))
    }

    pub(super) fn host_add(&self, params: &Value) -> Answer {
        let (nqn, host) = read(params, |mut fields| {
            let both = subsystem_and_host(&mut fields);
            fields.finish();
            both
        })?;
        let mut live = self.live();
        let add = |config: &mut Config| {
            let subsystem = subsystem(config, &nqn)?;
            if subsystem.hosts.contains(&host) {
                return Err(Failure::exists(format!("host {host} is allowed already")));
            }
            subsystem.hosts.push(host.clone());
            Ok(())
        };
        let object = ObjectId::Host(nqn.clone(), host.clone());
        self.change(&mut live, &object, add, |engine| engine.add_host(&nqn, &host))?;
        Ok(self.done(json!({ "subsystem": nqn, "host": host })))
    }

    pub(super) fn host_remove(&self, params: &Value) -> Answer {
        let ((nqn, host), force) = read(params, |mut fields| {
            let both = subsystem_and_host(&mut fields);
            let force = force(&mut fields);
            fields.finish();
            Some((both?, force))
        })?;
        let mut live = self.live();
        self.unless_hurt(force, &Loss::Host(&nqn, &host))?;
        let remove = |config: &mut Config| {
            let subsystem = subsystem(config, &nqn)?;
            if !subsystem.hosts.contains(&host) {
                let message = format!(
                    "host {host} is not allowed by name in {nqn}; allowed are: {}",
                    list(&subsystem.hosts)
                );
                return Err(Failure::not_found(message));
            }
            subsystem.hosts.retain(|known| *known != host);
            Ok(())
        };
        let object = ObjectId::Host(nqn.clone(), host.clone());
        self.change(&mut live, &object, remove, |engine| engine.remove_host(&nqn, &host))?;
        Ok(self.done(json!({ "subsystem": nqn, "host": host })))
    }

    pub(super) fn host_any(&self, params: &Value) -> Answer {
        let (nqn, allow, force) = read(params, |mut fields| {
            let nqn = fields.require("subsystem", "the subsystem's NQN", values::nqn);
            let allow = fields.require("allow", "true or false", values::boolean);
            let force = force(&mut fields);
            fields.finish();
            Some((nqn?.value, allow?.value, force))
        })?;
        let mut live = self.live();
        if !allow {
            self.unless_hurt(force, &Loss::UnlistedHosts(&nqn))?;
        }
        let set = |config: &mut Config| {
            subsystem(config, &nqn)?.allow_any_host = allow;
            Ok(())
        };
        let object = ObjectId::AnyHost(nqn.clone());
        self.change(&mut live, &object, set, |engine| engine.set_allow_any_host(&nqn, allow))?;
        Ok(self.done(json!({ "subsystem": nqn, "allow_any_host": allow })))
    }
}

fn subsystem_and_host(fields: &mut Fields<'_>) -> Option<(String, String)> {
    let nqn = fields.require("subsystem", "the subsystem's NQN", values::nqn);
    let host = fields.require("host", "the host's NQN", values::nqn);
    Some((nqn?.value, host?.value))
}

/// The subsystem of an NQN.
pub(super) fn known_subsystem<'a>(config: &'a Config, nqn: &str) -> Result<&'a Subsystem, Failure> {
    let found = config.subsystems.iter().find(|known| known.nqn == nqn);
    found.ok_or_else(|| {
        let known: Vec<String> = config.subsystems.iter().map(|s| s.nqn.clone()).collect();
        let message = format!("there is no subsystem {nqn}; there are: {}", list(&known));
        Failure::not_found(message)
    })
}

/// The subsystem of an NQN, to be changed.
pub(super) fn subsystem<'a>(
    config: &'a mut Config,
    nqn: &str,
) -> Result<&'a mut Subsystem, Failure> {
    let Some(at) = config.subsystems.iter().position(|known| known.nqn == nqn) else {
        return Err(known_subsystem(config, nqn).err().unwrap_or_else(|| Failure::not_found(nqn)));
    };
    config.subsystems.get_mut(at).ok_or_else(|| Failure::not_found(nqn))
}

/// The namespace of an NSID.
pub(super) fn known_namespace(subsystem: &Subsystem, nsid: u32) -> Result<&Namespace, Failure> {
    let found = subsystem.namespaces.iter().find(|known| known.nsid == Some(nsid));
    found.ok_or_else(|| {
        let all = subsystem.namespaces.iter();
        let known: Vec<String> = all.filter_map(|n| Some(n.nsid?.to_string())).collect();
        let (nqn, known) = (&subsystem.nqn, list(&known));
        Failure::not_found(format!("there is no namespace {nsid} in {nqn}; there are: {known}"))
    })
}

/// The namespace of an NSID, to be changed.
pub(super) fn namespace(subsystem: &mut Subsystem, nsid: u32) -> Result<&mut Namespace, Failure> {
    let Some(at) = subsystem.namespaces.iter().position(|known| known.nsid == Some(nsid)) else {
        let missing = known_namespace(subsystem, nsid).err();
        return Err(missing.unwrap_or_else(|| Failure::not_found(nsid.to_string())));
    };
    subsystem.namespaces.get_mut(at).ok_or_else(|| Failure::not_found(nsid.to_string()))
}

/// The lowest NSID that none of these has.
fn lowest_free(namespaces: &[Namespace]) -> Option<u32> {
    let mut taken = vec![false; namespaces.len() + 1];
    for nsid in namespaces.iter().filter_map(|namespace| namespace.nsid) {
        if let Some(place) = taken.get_mut((nsid as usize).saturating_sub(1)) {
            *place = true;
        }
    }
    let free = taken.iter().position(|taken| !taken)?;
    u32::try_from(free + 1).ok()
}

/// Names for a message: not more than a person reads.
pub(super) fn list(names: &[String]) -> String {
    match names {
        [] => "none".into(),
        names if names.len() > 8 => {
            let first: Vec<&str> = names.iter().take(8).map(String::as_str).collect();
            format!("{} and {} more", first.join(", "), names.len() - 8)
        }
        names => names.join(", "),
    }
}

/// Lets a namespace that is added with a size have its file made: whoever asks for it is there, and
/// sees what becomes of it.
fn make_files(namespace: &mut Namespace) {
    if let Backend::File { size: Some(_), create, .. } = &mut namespace.backend {
        *create = !namespace.read_only;
    }
}

/// Sets a backend's size; `None`: the size that its file or device has.
fn set_size(backend: &mut Backend, new: Option<u64>) -> Result<(), Failure> {
    let (whole, block) = match backend {
        Backend::Null { size, block_size, .. } | Backend::Memory { size, block_size } => {
            let Some(new) = new else {
                return Err(Failure::invalid(
                    "a namespace in memory has no device to ask; give a size",
                ));
            };
            *size = new;
            (new, *block_size)
        }
        Backend::File { size, block_size, create, .. } => {
            *size = new;
            *create &= new.is_some();
            (new.unwrap_or(0), block_size.unwrap_or(512))
        }
        Backend::Nvme { .. } if new.is_some() => {
            let message = "the size is the device's own; resize the device, then ask again without \
                           a size";
            return Err(Failure::invalid(message));
        }
        Backend::Nvme { .. } => (0, 512),
    };
    if whole.is_multiple_of(block.into()) {
        return Ok(());
    }
    Err(Failure::invalid(format!("{whole} bytes are not whole blocks of {block}")))
}
