//! Methods that change the running target. A change is stored before it is made. A change that cannot be stored is
//! not made, and a change that the target refuses is removed from the store.

use std::collections::{BTreeSet, HashSet};

use serde_json::Value;
use sluice_config::answer::{
    Changed, ListenerName, NamespaceAdded, NamespaceName, NamespaceResized, SubsystemAdded,
    SubsystemName,
};
use sluice_config::{
    Backend, Config, Listener, NSID_MAX, Namespace, Setting, entry, params, values,
};

use super::Control;
use super::named::{endpoint, known_subsystem, link_is_known, listener, namespace, subsystem};
use super::parameters::read;
use super::protocol::Failure;
use crate::control::store::{Live, ObjectId};
use crate::control::unproved::{self, Unproved};
use crate::serve::engine::{Engine, EngineError, Loss};

pub(super) type Answer<T> = Result<Changed<T>, Failure>;

impl Control {
    /// Stores and makes one change: `edit` changes `object`, and nothing else, in the
    /// configuration; `act` makes the change in the target.
    pub(super) fn change<T>(
        &self,
        live: &mut Live,
        object: &ObjectId,
        edit: impl FnOnce(&mut Config) -> Result<(), Failure>,
        act: impl FnOnce(&dyn Engine) -> Result<T, EngineError>,
    ) -> Result<T, Failure> {
        if self.is_dry_run() {
            return Err(self.plan_only(live, edit));
        }
        let before = self.unproved(live, object);
        let stored = live.store(object, edit)?;
        match act(self.engine()) {
            Ok(value) => {
                let after = self.unproved(live, object);
                for warning in unproved::lines(after.difference(&before)) {
                    tracing::warn!("{warning}");
                }
                Ok(value)
            }
            Err(refused) => {
                let mut failure = Failure::from(refused);
                if let Err(error) = live.undo(stored) {
                    let more = format!("; the next start may make the change: {error}");
                    failure.message.push_str(&more);
                }
                Err(failure)
            }
        }
    }

    /// Finds where secrets and TLS keys of hosts prove nothing now; nothing where a change of `object`
    /// makes no difference to them.
    fn unproved(&self, live: &Live, object: &ObjectId) -> BTreeSet<Unproved> {
        match object {
            ObjectId::Namespace(..) | ObjectId::Qos | ObjectId::Network => BTreeSet::new(),
            _ => unproved::find(live.current(), &self.engine().host_keys()),
        }
    }

    /// Makes the answer of a change: its result, and whether it survives a restart.
    pub(super) fn done<T>(&self, result: T) -> Changed<T> {
        Changed { durable: Some(self.durable), result }
    }

    pub(super) fn subsystem_add(&self, params: &Value) -> Answer<SubsystemAdded> {
        let mut subsystem = read(params, entry::subsystem)?;
        subsystem.namespaces.iter_mut().for_each(make_files);
        let mut live = self.live();
        let nqn = subsystem.nqn.clone();
        let add = |config: &mut Config| {
            if config.subsystems.iter().any(|known| known.nqn == nqn) {
                return Err(Failure::exists(format!("subsystem {nqn} exists already")));
            }
            config.subsystems.push(subsystem.clone());
            Ok(())
        };
        let object = ObjectId::Subsystem(nqn.clone());
        let serial =
            self.change(&mut live, &object, add, |engine| engine.add_subsystem(&subsystem))?;
        Ok(self.done(SubsystemAdded { nqn, serial: Some(serial) }))
    }

    pub(super) fn subsystem_remove(
        &self,
        asked: &params::SubsystemRemove,
    ) -> Answer<SubsystemName> {
        let nqn = asked.nqn.clone();
        let mut live = self.live();
        self.unless_hurt(asked.force, &Loss::Subsystem(&nqn))?;
        let remove = |config: &mut Config| {
            subsystem(config, &nqn)?;
            config.subsystems.retain(|known| known.nqn != nqn);
            Ok(())
        };
        let object = ObjectId::Subsystem(nqn.clone());
        self.change(&mut live, &object, remove, |engine| engine.remove_subsystem(&nqn))?;
        let keep = live.file().subsystems.iter().any(|known| known.nqn == nqn);
        self.engine().forget_identity(&nqn, None, keep);
        Ok(self.done(SubsystemName { nqn }))
    }

    pub(super) fn namespace_add(&self, params: &Value) -> Answer<NamespaceAdded> {
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
            let message = format!("namespace {nsid} of {nqn} exists already");
            return Err(Failure::exists(message));
        }
        let removed = || self.engine().removed_nsids(&nqn);
        namespace.nsid = namespace.nsid.or_else(|| free_nsid(known, &removed()));
        make_files(&mut namespace);
        let Some(nsid) = namespace.nsid else {
            let message = format!("{nqn} can have no more namespaces; remove one first");
            return Err(Failure::invalid(message));
        };
        let add = |config: &mut Config| {
            subsystem(config, &nqn)?.namespaces.push(namespace.clone());
            Ok(())
        };
        let object = ObjectId::Namespace(nqn.clone(), nsid);
        let act = |engine: &dyn Engine| engine.add_namespace(&nqn, &namespace);
        let uuid = Some(self.change(&mut live, &object, add, act)?.to_string());
        let warnings = self.engine().namespace_warnings(&nqn, nsid);
        Ok(self.done(NamespaceAdded { subsystem: nqn, nsid, uuid, warnings }))
    }

    pub(super) fn namespace_remove(
        &self,
        asked: &params::NamespaceRemove,
    ) -> Answer<NamespaceName> {
        let (nqn, nsid) = (asked.subsystem.clone(), asked.nsid);
        let mut live = self.live();
        self.unless_hurt(asked.force, &Loss::Namespace(&nqn, nsid))?;
        let remove = |config: &mut Config| {
            let subsystem = subsystem(config, &nqn)?;
            namespace(subsystem, nsid)?;
            subsystem.namespaces.retain(|known| known.nsid != Some(nsid));
            Ok(())
        };
        let object = ObjectId::Namespace(nqn.clone(), nsid);
        self.change(&mut live, &object, remove, |engine| engine.remove_namespace(&nqn, nsid))?;
        let of_file = live.file().subsystems.iter().find(|known| known.nqn == nqn);
        let mut of_file = of_file.into_iter().flat_map(|known| &known.namespaces);
        let keep = of_file.any(|known| known.nsid == Some(nsid));
        self.engine().forget_identity(&nqn, Some(nsid), keep);
        Ok(self.done(NamespaceName { subsystem: nqn, nsid }))
    }

    pub(super) fn namespace_resize(
        &self,
        asked: &params::NamespaceResize,
    ) -> Answer<NamespaceResized> {
        let (nqn, nsid) = (asked.subsystem.clone(), asked.nsid);
        let size = asked.size.as_ref().map(bytes).transpose()?;
        let mut live = self.live();
        self.unless_hurt(asked.force, &Loss::Size(&nqn, nsid, size))?;
        let resize = |config: &mut Config| {
            set_size(&mut namespace(subsystem(config, &nqn)?, nsid)?.backend, size)
        };
        let object = ObjectId::Namespace(nqn.clone(), nsid);
        let act = |engine: &dyn Engine| engine.resize_namespace(&nqn, nsid, size);
        let size = self.change(&mut live, &object, resize, act)?;
        let warnings = self.engine().namespace_warnings(&nqn, nsid);
        Ok(self.done(NamespaceResized { subsystem: nqn, nsid, size, warnings }))
    }

    pub(super) fn listener_add(&self, params: &Value) -> Answer<ListenerName> {
        let listener = read(params, entry::listener)?;
        let mut live = self.live();
        let add = |config: &mut Config| {
            for nqn in listener.subsystems.iter().flatten() {
                subsystem(config, nqn)?;
            }
            if config.listeners.iter().any(|known| known.endpoint() == listener.endpoint()) {
                let message = format!("listener {} exists already", listener.endpoint());
                return Err(Failure::exists(message));
            }
            link_is_known(config, listener.link.as_deref())?;
            config.listeners.push(listener.clone());
            Ok(())
        };
        let object = ObjectId::of::<Listener>(listener.endpoint().to_string());
        self.change(&mut live, &object, add, |engine| engine.add_listener(&listener))?;
        Ok(self.done(ListenerName { address: listener.endpoint().to_string() }))
    }

    pub(super) fn listener_remove(&self, asked: &params::ListenerRemove) -> Answer<ListenerName> {
        let endpoint = endpoint(&asked.address)?;
        let mut live = self.live();
        self.unless_hurt(asked.force, &Loss::Listener(endpoint))?;
        let remove = |config: &mut Config| {
            listener(config, endpoint)?;
            config.listeners.retain(|known| known.endpoint() != endpoint);
            Ok(())
        };
        let object = ObjectId::of::<Listener>(endpoint.to_string());
        self.change(&mut live, &object, remove, |engine| engine.remove_listener(endpoint))?;
        Ok(self.done(ListenerName { address: endpoint.to_string() }))
    }
}

/// Returns the bytes of a size that was checked.
fn bytes(size: &Setting) -> Result<u64, Failure> {
    match size {
        Setting::Number(bytes) => Ok(*bytes),
        Setting::Text(text) => Err(Failure::invalid(format!("`size` is \"{text}\", not bytes"))),
    }
}

/// Returns the lowest NSID that is neither in use nor removed, else the lowest NSID that is not in use; `None` if
/// all are in use.
fn free_nsid(namespaces: &[Namespace], removed: &BTreeSet<u32>) -> Option<u32> {
    let taken: HashSet<u32> = namespaces.iter().filter_map(|namespace| namespace.nsid).collect();
    let free = |nsid: &u32| !taken.contains(nsid);
    (1..=NSID_MAX).find(|nsid| free(nsid) && !removed.contains(nsid)).or((1..=NSID_MAX).find(free))
}

/// Lets a namespace that is added with a size create its file: the operator who adds it sees the
/// result.
fn make_files(namespace: &mut Namespace) {
    if let Backend::File { size: Some(_), .. } | Backend::Pmem { size: Some(_), .. } =
        namespace.backend
    {
        namespace.backend.set_create(!namespace.read_only);
    }
}

/// Sets a backend's size in bytes; `None` stands for the size of its file or device.
fn set_size(backend: &mut Backend, new: Option<u64>) -> Result<(), Failure> {
    let (whole, block) = match backend {
        Backend::Null { size, block_size, .. } | Backend::Memory { size, block_size } => {
            let Some(new) = new else {
                return Err(Failure::invalid(
                    "a memory or null namespace has no device that tells its size: give `size`",
                ));
            };
            *size = new;
            (new, *block_size)
        }
        Backend::File { size, block_size, create, .. }
        | Backend::Pmem { size, block_size, create, .. } => {
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
