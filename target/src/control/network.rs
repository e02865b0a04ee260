//! Methods that show and change what classes get of the network: each change makes the new whole of
//! `[network]` and `[[link]]`, and the target takes it at once or not at all.

use std::net::SocketAddr;

use arbitration::PerClass;
use serde_json::{Map, Value, json};
use sluice_schema::answer::{self, Changed, LinkSettings, Name, NetworkSettings};
use sluice_schema::params;

use super::Control;
use super::change::{address, list};
use super::methods::read;
use super::protocol::Failure;
use crate::config::network::values::name;
use crate::config::{
    Aim, Config, DEFAULT_LINK, Link, Network, entry, format_duration, format_rate, network,
};
use crate::engine::{Engine, LinkState};
use crate::store::{Live, ObjectId};

type Answer<T> = Result<Changed<T>, Failure>;

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

    /// Answers `network.show`.
    pub(super) fn network_show(&self) -> answer::Network {
        let state = self.engine().network();
        let config = self.live().current().clone();
        let links = config.network.all_links().map(|link| {
            let state = state.links.iter().find(|state| state.name == link.name);
            link_state(link, state.cloned().unwrap_or_default(), &config)
        });
        answer::Network {
            settings: settings(&config.network),
            base_used: state.base,
            advice: state.advice,
            links: links.collect(),
        }
    }

    pub(super) fn network_set(&self, params: &Value) -> Answer<NetworkSettings> {
        let mut live = self.live();
        let before = live.current().network.clone();
        let next = read(params, |fields| Some(entry::network(fields, before)))?;
        self.change_network(&mut live, &ObjectId::Network, |network| *network = next)?;
        Ok(self.done(settings(&live.current().network)))
    }

    pub(super) fn network_listener(
        &self,
        asked: &params::ListenerLink,
    ) -> Answer<answer::ListenerLink> {
        let (address, link) = (address(&asked.address)?, asked.link.clone());
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
        let link = link.unwrap_or_else(|| DEFAULT_LINK.to_owned());
        Ok(self.done(answer::ListenerLink { address: address.to_string(), link }))
    }

    pub(super) fn link_add(&self, params: &Value) -> Answer<LinkSettings> {
        let mut live = self.live();
        let network = &live.current().network;
        let base = network::new_link(network);
        let link = read(params, |fields| entry::link(fields, &base))?;
        if !network::unknown(network, Some(&link.name)) {
            return Err(Failure::exists(format!("link {} is there already", link.name)));
        }
        let (object, answer) = (ObjectId::Link(link.name.clone()), link_settings(&link));
        self.change_network(&mut live, &object, |network| network.links.push(link))?;
        Ok(self.done(answer))
    }

    pub(super) fn link_set(&self, params: &Value) -> Answer<LinkSettings> {
        let mut live = self.live();
        // What is not given is as it was, so the name is needed before the rest can be read.
        let only = params.get("name").map_or_else(|| json!({}), |name| json!({ "name": name }));
        let wanted = read_name(&only)?;
        let links = &live.current().network.links;
        let before = links.iter().find(|link| link.name == wanted).cloned();
        let before = before.ok_or_else(|| no_link(live.current(), &wanted))?;
        let link = read(params, |fields| entry::link(fields, &before))?;
        let answer = link_settings(&link);
        self.change_network(&mut live, &ObjectId::Link(wanted.clone()), |network| {
            if let Some(place) = network.links.iter_mut().find(|known| known.name == wanted) {
                *place = link;
            }
        })?;
        Ok(self.done(answer))
    }

    pub(super) fn link_remove(&self, asked: params::LinkRemove) -> Answer<Name> {
        let wanted = asked.name;
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
        Ok(self.done(Name { name: wanted }))
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

/// Shows what `[network]` says.
fn settings(network: &Network) -> NetworkSettings {
    NetworkSettings::default()
        .with("enabled", Some(network.enabled))
        .with("writes", Some(network.writes))
        .with("base", Some(network.base.as_deref().unwrap_or("auto")))
        .with("capacity", Some(capacity(&network.link)))
        .with("classes", Some(aims(&network.link.aims)))
}

/// Shows what `[[link]]` says.
fn link_settings(link: &Link) -> LinkSettings {
    LinkSettings::default()
        .with("name", Some(link.name.as_str()))
        .with("capacity", Some(capacity(link)))
        .with("classes", Some(aims(&link.aims)))
}

/// Shows what is set for a link, and what it does.
fn link_state(link: &Link, state: LinkState, config: &Config) -> answer::Link {
    answer::Link {
        name: link.name.clone(),
        capacity: capacity(link),
        classes: aims(&link.aims).into_iter().collect(),
        listeners: users(config, &link.name).iter().map(SocketAddr::to_string).collect(),
        out: state.out,
        into: state.into,
    }
}

fn capacity(link: &Link) -> String {
    link.capacity.map_or_else(|| "auto".into(), format_rate)
}

/// Shows the classes' aims as the configuration has them, so that they can be given back.
fn aims(aims: &PerClass<Aim>) -> Map<String, Value> {
    let aim = |aim: &Aim| match *aim {
        Aim::Share(parts) => json!({ "share": parts }),
        Aim::Rate(bits) => json!({ "rate": format_rate(bits) }),
        Aim::Latency(time) => json!({ "latency": format_duration(time) }),
        Aim::Free => json!("free"),
    };
    aims.iter().map(|(class, value)| (class.name().to_owned(), aim(value))).collect()
}
