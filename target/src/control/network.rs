//! Methods that show and change what classes get of the network: each change makes the new whole of
//! `[network]` and `[[link]]`, and the target takes it at once or not at all.

use std::net::SocketAddr;

use serde_json::{Value, json};
use sluice_schema::answer::{self, Changed, LinkSettings, Name, NetworkSettings};
use sluice_schema::params;

use super::Control;
use super::methods::read;
use super::named::{address, link_is_known, list, listener, no_link};
use super::protocol::Failure;
use crate::config::network::values::name;
use crate::config::{Config, DEFAULT_LINK, Link, Network, entry, network, table};
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
            settings: table::show(&config.network),
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
        Ok(self.done(table::show(&live.current().network)))
    }

    pub(super) fn network_listener(
        &self,
        asked: &params::ListenerLink,
    ) -> Answer<answer::ListenerLink> {
        let (address, link) = (address(&asked.address)?, asked.link.clone());
        let mut live = self.live();
        link_is_known(live.current(), link.as_deref())?;
        let set = |config: &mut Config| {
            listener(config, address)?.link.clone_from(&link);
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
        let (object, answer) = (ObjectId::Link(link.name.clone()), table::show(&link));
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
        let answer = table::show(&link);
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
        link_is_known(live.current(), Some(&wanted))?;
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

/// The listeners whose connections share a link.
fn users(config: &Config, link: &str) -> Vec<SocketAddr> {
    let named = |name: &Option<String>| name.as_deref().unwrap_or(DEFAULT_LINK) == link;
    config.listeners.iter().filter(|l| named(&l.link)).map(|l| l.address).collect()
}

/// Shows what is set for a link, and what it does.
fn link_state(link: &Link, state: LinkState, config: &Config) -> answer::Link {
    answer::Link {
        settings: table::show(link),
        listeners: users(config, &link.name).iter().map(SocketAddr::to_string).collect(),
        out: state.out,
        into: state.into,
    }
}
