//! Methods that show and change the settings of the network: each change makes a new version of all
//! of `[network]` and `[[link]]`, and the target takes it as a whole or not at all.

use serde_json::Value;
use sluice_config::answer::{self, Changed, NetworkSettings};
use sluice_config::{Config, DEFAULT_LINK, LinkConfig, Listener, Network, entry, params, table};

use super::Control;
use super::named::{endpoint, link_is_known, listener};
use super::parameters::read;
use super::protocol::Failure;
use crate::control::store::ObjectId;
use crate::serve::engine::{Engine, LinkState};

type Answer<T> = Result<Changed<T>, Failure>;

impl Control {
    /// Answers `network.show`.
    pub(super) fn network_show(&self) -> answer::Network {
        let state = self.engine().network();
        let config = self.live().current().clone();
        let objects = self.live_objects();
        let links = config.network.all_links().map(|link| {
            let state = state.links.iter().find(|state| state.name == link.name);
            let live = match link.name.as_str() {
                DEFAULT_LINK => objects.has(&ObjectId::Network),
                name => objects.has(&ObjectId::of::<LinkConfig>(name)),
            };
            let row = link_state(link, state.cloned().unwrap_or_default(), &config);
            answer::LinkRow { live, ..row }
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
        self.change_group(&mut live, &ObjectId::Network, |network: &mut Network| {
            *network = next;
            Ok(())
        })?;
        Ok(self.done(table::show(&live.current().network)))
    }

    pub(super) fn network_listener(
        &self,
        asked: &params::ListenerLink,
    ) -> Answer<answer::ListenerLink> {
        let (endpoint, link) = (endpoint(&asked.address)?, asked.link.clone());
        let mut live = self.live();
        link_is_known(live.current(), link.as_deref())?;
        let set = |config: &mut Config| {
            listener(config, endpoint)?.link.clone_from(&link);
            Ok(())
        };
        let object = ObjectId::of::<Listener>(endpoint.to_string());
        let act = |engine: &dyn Engine| engine.set_listener_link(endpoint, link.as_deref());
        self.change(&mut live, &object, set, act)?;
        let link = link.unwrap_or_else(|| DEFAULT_LINK.to_owned());
        Ok(self.done(answer::ListenerLink { address: endpoint.to_string(), link }))
    }
}

/// Returns the listeners whose connections share a link.
fn users(config: &Config, link: &str) -> Vec<String> {
    let named = |name: &Option<String>| name.as_deref().unwrap_or(DEFAULT_LINK) == link;
    config.listeners.iter().filter(|l| named(&l.link)).map(|l| l.endpoint().to_string()).collect()
}

/// Shows the settings of a link, and its traffic.
fn link_state(link: &LinkConfig, state: LinkState, config: &Config) -> answer::LinkRow {
    answer::LinkRow {
        settings: table::show(link),
        listeners: users(config, &link.name),
        out: state.out,
        into: state.into,
        live: false,
    }
}
