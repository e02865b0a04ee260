//! Methods that change quality of service: each makes a new version of all of `[qos]`,
//! `[[session]]` and `[[policy]]`, and the target takes it as a whole or not at all.

use arbitration::Class;
use serde_json::{Value, json};
use sluice_config::answer::{self, Changed, Name, QosSettings, SessionSettings};
use sluice_config::qos::values::session_name;
use sluice_config::{
    Config, Listener, Policy, QosConfig, ROOT_SESSION, Reserve, Session, entry, is_automatic,
    params, split_namespace, table,
};

use super::Control;
use super::named::{endpoint, known_namespace, known_subsystem, listener, namespace, subsystem};
use super::parameters::read;
use super::protocol::Failure;
use crate::control::objects::Object;
use crate::control::store::{Live, ObjectId};
use crate::serve::engine::Engine;
use crate::sys::words::list;

type Answer<T> = Result<Changed<T>, Failure>;

impl Control {
    pub(super) fn qos_set(&self, params: &Value) -> Answer<QosSettings> {
        let mut live = self.live();
        let before = live.current().qos.general.clone();
        let general = read(params, |fields| Some(entry::general(fields, before)))?;
        self.change_group(&mut live, &ObjectId::Qos, |qos: &mut QosConfig| {
            qos.general = general;
            Ok(())
        })?;
        Ok(self.done(table::show(&live.current().qos.general)))
    }

    pub(super) fn qos_listener(
        &self,
        asked: &params::ListenerClass,
    ) -> Answer<answer::ListenerClass> {
        let (endpoint, class) = (endpoint(&asked.address)?, class(asked.class.as_deref()));
        let mut live = self.live();
        let set = |config: &mut Config| {
            listener(config, endpoint)?.class = class;
            Ok(())
        };
        let object = ObjectId::of::<Listener>(endpoint.to_string());
        let act = |engine: &dyn Engine| engine.set_listener_class(endpoint, class);
        self.change(&mut live, &object, set, act)?;
        let class = class.map(|class| class.name().to_owned());
        Ok(self.done(answer::ListenerClass { address: endpoint.to_string(), class }))
    }

    pub(super) fn qos_namespace(
        &self,
        asked: params::NamespaceClass,
    ) -> Answer<answer::NamespaceClass> {
        let params::NamespaceClass { subsystem: nqn, nsid, class: name } = asked;
        let class = class(name.as_deref());
        let mut live = self.live();
        let set = |config: &mut Config| {
            namespace(subsystem(config, &nqn)?, nsid)?.class = class;
            Ok(())
        };
        let object = ObjectId::Namespace(nqn.clone(), nsid);
        let act = |engine: &dyn Engine| engine.set_namespace_class(&nqn, nsid, class);
        self.change(&mut live, &object, set, act)?;
        let class = class.map(|class| class.name().to_owned());
        Ok(self.done(answer::NamespaceClass { subsystem: nqn, nsid, class }))
    }

    pub(super) fn qos_policy(&self, params: &Value) -> Answer<answer::Policy> {
        let policy = read(params, entry::policy)?;
        let mut live = self.live();
        let removes = policy.says_nothing();
        if !removes {
            policy_is_for_something(live.current(), &policy)?;
        }
        self.change_group(&mut live, &ObjectId::of::<Policy>(policy.id()), |qos: &mut QosConfig| {
            let place = qos.policies.iter_mut().find(|known| known.same_scope(&policy));
            match (place, removes) {
                (Some(place), false) => *place = policy.clone(),
                (None, false) => qos.policies.push(policy.clone()),
                (Some(_), true) => qos.policies.retain(|known| !known.same_scope(&policy)),
                (None, true) => {
                    let known: Vec<String> = qos.policies.iter().map(Policy::scope).collect();
                    let message = format!(
                        "there is no policy for {} to remove; to make one, give class, max_class, \
                         urgent_iops or session; there are policies for: {}",
                        policy.scope(),
                        list(&known)
                    );
                    return Err(Failure::not_found(message));
                }
            }
            Ok(())
        })?;
        let settings = table::show(&policy);
        Ok(self.done(answer::Policy { removed: removes, settings }))
    }

    pub(super) fn session_add(&self, params: &Value) -> Answer<SessionSettings> {
        let session = read(params, entry::session)?;
        let name = session.name.clone();
        let mut live = self.live();
        if exists(live.current(), &name) {
            let message = match is_automatic(&name) {
                true => format!(
                    "session {name} exists with its subsystem or namespace: change it with \
                     session.set"
                ),
                false => format!("session {name} exists already"),
            };
            return Err(Failure::exists(message));
        }
        names_are_known(live.current(), &session)?;
        self.set_session(&mut live, session)
    }

    pub(super) fn session_set(&self, params: &Value) -> Answer<SessionSettings> {
        let mut live = self.live();
        let name = read_name(params, "name")?;
        let before = present(live.current(), &name)?;
        let session = read(params, |fields| entry::session_onto(fields, before))?;
        names_are_known(live.current(), &session)?;
        self.set_session(&mut live, session)
    }

    pub(super) fn session_remove(&self, asked: params::SessionRemove) -> Answer<Name> {
        let name = asked.name;
        let mut live = self.live();
        let config = live.current();
        if !config.qos.sessions.iter().any(|known| known.name == name) {
            return Err(match exists(config, &name) {
                true => Failure::invalid(format!(
                    "session {name} exists with its subsystem or namespace, and has no settings of \
                     its own to remove"
                )),
                false => no_session(config, &name),
            });
        }
        unused(config, &name)?;
        self.change_group(
            &mut live,
            &ObjectId::of::<Session>(name.clone()),
            |qos: &mut QosConfig| {
                qos.sessions.retain(|known| known.name != name);
                Ok(())
            },
        )?;
        Ok(self.done(Name { name }))
    }

    pub(super) fn session_reserve(&self, params: &Value) -> Answer<SessionSettings> {
        let mut live = self.live();
        let (name, reserve) = read(params, |mut fields| {
            let name = fields.require("session", "\"gold\"", session_name);
            let reserve = entry::reserve(fields);
            Some((name?.value, reserve?))
        })?;
        let session = Session { reserve: Some(reserve), ..present(live.current(), &name)? };
        names_are_known(live.current(), &session)?;
        let mut answer = self.set_session(&mut live, session)?;
        let sessions = self.engine().qos().sessions;
        let reserve = sessions.into_iter().find(|row| row.name == name).and_then(|row| row.reserve);
        let floors = reserve.map(|reserve| reserve.floors).filter(|floors| !floors.is_empty());
        answer.result = answer.result.with("floors", floors);
        Ok(answer)
    }

    pub(super) fn session_release(
        &self,
        asked: &params::SessionRelease,
    ) -> Answer<SessionSettings> {
        let name = &asked.session;
        let mut live = self.live();
        let session = present(live.current(), name)?;
        if session.reserve.is_none() {
            let message = format!("session {name} has no reservation");
            return Err(Failure::not_found(message));
        }
        self.set_session(&mut live, Session { reserve: None, ..session })
    }

    /// Stores a session and makes it in the target.
    fn set_session(&self, live: &mut Live, session: Session) -> Answer<SessionSettings> {
        let name = session.name.clone();
        let answer = table::show(&session);
        // An automatic session without settings of its own has no entry.
        let bare = Session { name: name.clone(), ..Session::default() };
        let gone = session == bare && is_automatic(&name);
        self.change_group(live, &ObjectId::of::<Session>(name.clone()), |qos: &mut QosConfig| {
            match qos.sessions.iter_mut().find(|known| known.name == name) {
                Some(place) => *place = session,
                None => qos.sessions.push(session),
            }
            qos.sessions.retain(|known| !gone || known.name != name);
            Ok(())
        })?;
        Ok(self.done(answer))
    }
}

/// Returns the class of a name that was checked.
fn class(name: Option<&str>) -> Option<Class> {
    Class::ALL.into_iter().find(|class| Some(class.name()) == name)
}

/// Reads a session's name alone, before its other parameters are looked at.
fn read_name(params: &Value, key: &str) -> Result<String, Failure> {
    let name = params.get(key).cloned().unwrap_or(Value::Null);
    let only = match name {
        Value::Null => json!({}),
        name => json!({ "name": name }),
    };
    read(&only, |mut fields| {
        let name = fields.require("name", "\"gold\"", session_name);
        fields.finish();
        Some(name?.value)
    })
}

/// Returns whether a session exists: by an entry, or with a subsystem or namespace.
fn exists(config: &Config, name: &str) -> bool {
    let entry = config.qos.sessions.iter().any(|known| known.name == name);
    entry || config.subsystems.iter().any(|known| known.nqn == name) || is_namespace(config, name)
}

/// Returns whether NQN/NSID names an existing namespace.
fn is_namespace(config: &Config, name: &str) -> bool {
    let Some((nqn, nsid)) = split_namespace(name) else { return false };
    let mut subsystems = config.subsystems.iter().filter(|known| known.nqn == nqn);
    subsystems.any(|known| known.namespaces.iter().any(|n| n.nsid == Some(nsid)))
}

/// Returns the settings of an existing session.
fn present(config: &Config, name: &str) -> Result<Session, Failure> {
    if !exists(config, name) {
        return Err(no_session(config, name));
    }
    let entry = config.qos.sessions.iter().find(|known| known.name == name);
    Ok(entry.cloned().unwrap_or_else(|| Session { name: name.into(), ..Session::default() }))
}

fn no_session(config: &Config, name: &str) -> Failure {
    let mut known: Vec<String> = config.qos.sessions.iter().map(|s| s.name.clone()).collect();
    let automatic = config.subsystems.iter().map(|subsystem| subsystem.nqn.clone());
    known.extend(automatic.filter(|nqn| !config.qos.sessions.iter().any(|s| s.name == *nqn)));
    Failure::not_found(format!(
        "there is no session {name}; there are: {}, and NQN/NSID for each namespace",
        list(&known)
    ))
}

/// Checks that the objects which a session names exist.
fn names_are_known(config: &Config, session: &Session) -> Result<(), Failure> {
    let Session { name, parent, reserve, .. } = session;
    if is_automatic(name) && !exists(config, name) {
        return Err(no_session(config, name));
    }
    if let Some(parent) = parent.as_ref().filter(|p| *p != ROOT_SESSION && !exists(config, p)) {
        return Err(no_session(config, parent));
    }
    if let Some(Reserve { namespace: Some(namespace), .. }) = reserve
        && !is_namespace(config, namespace)
    {
        return Err(Failure::not_found(format!("there is no namespace {namespace}")));
    }
    Ok(())
}

/// Checks that no other session and no policy names a session that is removed.
fn unused(config: &Config, name: &str) -> Result<(), Failure> {
    if is_automatic(name) {
        // The automatic session stays; only its settings are removed.
        return Ok(());
    }
    let children = config.qos.sessions.iter().filter(|s| s.parent.as_deref() == Some(name));
    let children: Vec<String> = children.map(|s| s.name.clone()).collect();
    let policies = config.qos.policies.iter().filter(|p| p.session.as_deref() == Some(name));
    let policies: Vec<String> = policies.map(Policy::scope).collect();
    let message = match (&children[..], &policies[..]) {
        ([], []) => return Ok(()),
        ([], policies) => format!(
            "session {name} is named by the policies for {}; change them first",
            list(policies)
        ),
        (children, _) => {
            format!("session {name} is the parent of {}; move them first", list(children))
        }
    };
    Err(Failure::invalid(message))
}

/// Checks that the objects which a policy names exist.
fn policy_is_for_something(config: &Config, policy: &Policy) -> Result<(), Failure> {
    if let Some(nqn) = &policy.subsystem {
        let subsystem = known_subsystem(config, nqn)?;
        if let Some(nsid) = policy.nsid {
            known_namespace(subsystem, nsid)?;
        }
    }
    match &policy.session {
        Some(name) if !exists(config, name) => Err(no_session(config, name)),
        _ => Ok(()),
    }
}
