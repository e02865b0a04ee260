//! Methods that show and change what classes get of the network: each change makes the new whole of
//! `[network]` and `[[link]]`, and the target takes it at once or not at all.

use std::net::SocketAddr;

use arbitration::PerClass;
use serde_json::{Map, Value, json};

use super::Control;
use super::change::list;
use super::methods::read;
use super::protocol::Failure;
use crate::config::network::values::{name, reference};
use crate::config::{
    Aim, Config, DEFAULT_LINK, Link, Network, entry, format_duration, format_rate, network, values,
};
use crate::engine::{Engine, LinkState};
use crate::store::{Live, ObjectId};

type Answer = Result<Value, Failure>;

impl Control {
    /// Stores and makes a change of the network's settings.
    fn change_network(
        &self,
        live: &mut Live,
        object: &ObjectId,
        edit: impl FnOnce(&mut Network),
    ) -> Result<(), Failure> {
        let mut network = live.current().network.clone();
        edit(&mut network);
        if let Some(reason) = network::wrong(&network, &live.current().listeners) {
            return Err(Failure::invalid(reason));
        }
        let set = |config: &mut Config| {
            config.network = network.clone();
            Ok(())
        };
        self.change(live, object, set, |engine| engine.set_network(&network))
    }

    /// `network.show`.
    pub(super) fn network_show(&self) -> Value {
        let state = self.engine().network();
        let config = self.live().current().clone();
        let links: Vec<Value> = config
            .network
            .all_links()
            .map(|link| {
                let state = state.links.iter().find(|state| state.name == link.name);
                link_state_json(link, state.cloned().unwrap_or_default(), &config)
            })
            .collect();
        let mut answer = network_json(&config.network);
        if let Some(answer) = answer.as_object_mut() {
            answer.insert("base_used".into(), json!(state.base));
            answer.insert("advice".into(), json!(state.advice));
            answer.insert("links".into(), json!(links));
        }
        answer
    }

    pub(super) fn network_set(&self, params: &Value) -> Answer {
        let mut live = self.live();
        let before = live.current().network.clone();
        let next = read(params, |fields| Some(entry::network(fields, before)))?;
        self.change_network(&mut live, &ObjectId::Network, |network| *network = next)?;
        Ok(self.done(network_json(&live.current().network)))
    }

    pub(super) fn network_listener(&self, params: &Value) -> Answer {
        let (address, link) = read(params, |mut fields| {
            let address = fields.require("address", "\"0.0.0.0:4420\"", values::address);
            let example = "\"east\", or null for the default one";
            let link = fields.require("link", example, reference);
            fields.finish();
            Some((address?.value, link?.value))
        })?;
        let mut live = self.live();
        is_known(live.current(), link.as_deref())?;
        let set = |config: &mut Config| {
            let known: Vec<String> =
                config.listeners.iter().map(|l| l.address.to_string()).collect();
            let found = config.listeners.iter_mut().find(|l| l.address == address);
            let missing = || {
                let known = list(&known);
                Failure::not_found(format!("there is no listener {address}; there are: {known}"))
            };
            found.ok_or_else(missing)?.link.clone_from(&link);
            Ok(())
        };
        let object = ObjectId::Listener(address.to_string());
        let act = |engine: &dyn Engine| engine.set_listener_link(address, link.as_deref());
        self.change(&mut live, &object, set, act)?;
        let link = link.as_deref().unwrap_or(DEFAULT_LINK);
        Ok(self.done(json!({ "address": address, "link": link })))
    }

    pub(super) fn link_add(&self, params: &Value) -> Answer {
        let mut live = self.live();
        let network = &live.current().network;
        let base = network::new_link(network);
        let link = read(params, |fields| entry::link(fields, &base))?;
        if !network::unknown(network, Some(&link.name)) {
            return Err(Failure::exists(format!("link {} is there already", link.name)));
        }
        let (object, answer) = (ObjectId::Link(link.name.clone()), link_json(&link));
        self.change_network(&mut live, &object, |network| network.links.push(link))?;
        Ok(self.done(answer))
    }

    pub(super) fn link_set(&self, params: &Value) -> Answer {
        let mut live = self.live();
        // What is not given is as it was, so the name is needed before the rest can be read.
        let only = params.get("name").map_or_else(|| json!({}), |name| json!({ "name": name }));
        let wanted = read_name(&only)?;
        let links = &live.current().network.links;
        let before = links.iter().find(|link| link.name == wanted).cloned();
        let before = before.ok_or_else(|| no_link(live.current(), &wanted))?;
        let link = read(params, |fields| entry::link(fields, &before))?;
        let answer = link_json(&link);
        self.change_network(&mut live, &ObjectId::Link(wanted.clone()), |network| {
            if let Some(place) = network.links.iter_mut().find(|known| known.name == wanted) {
                *place = link;
            }
        })?;
        Ok(self.done(answer))
    }

    pub(super) fn link_remove(&self, params: &Value) -> Answer {
        let wanted = read_name(params)?;
        let mut live = self.live();
        is_known(live.current(), Some(&wanted))?;
        let users = users(live.current(), &wanted);
        if !users.is_empty() {
            let users: Vec<String> = users.iter().map(SocketAddr::to_string).collect();
            return Err(Failure::invalid(format!(
                "link {wanted} is named by the listeners {}; give them another one first",
                list(&users)
            )));
        }
        self.change_network(&mut live, &ObjectId::Link(wanted.clone()), |network| {
            network.links.retain(|known| known.name != wanted);
        })?;
        Ok(self.done(json!({ "name": wanted })))
    }
}

/// The parameter `name`, and no other.
fn read_name(params: &Value) -> Result<String, Failure> {
    read(params, |mut fields| {
        let name = fields.require("name", "\"east\"", name);
        fields.finish();
        Some(name?.value)
    })
}

/// A link is there; `None`: the default one.
pub(super) fn is_known(config: &Config, link: Option<&str>) -> Result<(), Failure> {
    match link.filter(|name| network::unknown(&config.network, Some(name))) {
        Some(name) => Err(no_link(config, name)),
        None => Ok(()),
    }
}

fn no_link(config: &Config, name: &str) -> Failure {
    let known = list(&network::known(&config.network));
    Failure::not_found(format!("there is no link {name}; there are: {known}"))
}

/// The listeners whose connections share a link.
fn users(config: &Config, link: &str) -> Vec<SocketAddr> {
    let named = |name: &Option<String>| name.as_deref().unwrap_or(DEFAULT_LINK) == link;
    config.listeners.iter().filter(|l| named(&l.link)).map(|l| l.address).collect()
}

/// What `[network]` says.
fn network_json(network: &Network) -> Value {
    json!({
        "enabled": network.enabled,
        "writes": network.writes,
        "base": network.base.as_deref().unwrap_or("auto"),
        "capacity": capacity(&network.link),
        "classes": aims_json(&network.link.aims),
    })
}

/// What `[[link]]` says.
fn link_json(link: &Link) -> Value {
    json!({
        "name": link.name,
        "capacity": capacity(link),
        "classes": aims_json(&link.aims),
    })
}

/// What is set for a link, and what it does.
fn link_state_json(link: &Link, state: LinkState, config: &Config) -> Value {
    let mut answer = link_json(link);
    if let Some(answer) = answer.as_object_mut() {
        answer.insert("listeners".into(), json!(users(config, &link.name)));
        answer.insert("out".into(), json!(state.out));
        answer.insert("in".into(), json!(state.into));
    }
    answer
}

fn capacity(link: &Link) -> String {
    link.capacity.map_or_else(|| "auto".into(), format_rate)
}

/// As the configuration has it, so that it can be given back.
fn aims_json(aims: &PerClass<Aim>) -> Value {
    let aim = |aim: &Aim| match *aim {
        Aim::Share(parts) => json!({ "share": parts }),
        Aim::Rate(bits) => json!({ "rate": format_rate(bits) }),
        Aim::Latency(time) => json!({ "latency": format_duration(time) }),
        Aim::Free => json!("free"),
    };
    let aims: Map<String, Value> =
        aims.iter().map(|(class, value)| (class.name().to_owned(), aim(value))).collect();
    Value::Object(aims)
}
