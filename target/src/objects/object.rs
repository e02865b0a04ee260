//! What an object of a list is, and the settings that it is part of.

use crate::config::entry::read_text;
use crate::config::fields::Fields;
use crate::config::table::Table;
use crate::config::{Config, Listener, Network, QosConfig, clash_of_listeners, network, qos};
use crate::engine::{Engine, EngineError};

/// An object that the configuration has a list of.
pub(crate) trait Object: Clone + 'static {
    /// What it is called in messages, and before the dot in names of methods: `link`.
    const WORD: &'static str;
    /// What a text of it is called in messages: `the link`.
    const TITLE: &'static str;
    /// The settings that it is part of, which change as a whole.
    type Group: Group;

    /// Returns the list.
    fn list(group: &Self::Group) -> &[Self];

    /// Returns the list, to be changed.
    fn list_mut(group: &mut Self::Group) -> &mut Vec<Self>;

    /// Returns what tells it from others of its kind.
    fn id(&self) -> String;

    /// Says whether it is the one that `id` tells.
    fn is(&self, id: &str) -> bool {
        self.id() == id
    }

    /// Reads its table as a whole, as the state file has it.
    fn read(fields: Fields<'_>) -> Option<Self>;

    /// Writes its keys, a line for each.
    fn text(&self) -> String;
}

/// An object that the methods `add`, `set` and `remove` change by its name.
pub(crate) trait Named: Object<Group: Settable> + Table {
    /// Reads the key `name`.
    fn read_name(fields: &mut Fields<'_>) -> Option<String>;

    /// Returns what one that is added has where its keys say nothing.
    fn fresh(group: &Self::Group) -> Self;

    /// Reads its table; what is left out is as in `base`.
    fn read_onto(fields: Fields<'_>, base: &Self) -> Option<Self>;

    /// Returns the names that a message tells where one is not there.
    fn known(group: &Self::Group) -> Vec<String> {
        Self::list(group).iter().map(Object::id).collect()
    }

    /// What may name it, in the words of a message: `the listeners`.
    const USERS: &'static str;

    /// Returns what names it, so that it cannot go.
    fn users(config: &Config, name: &str) -> Vec<String>;
}

/// Settings that change as a whole.
pub(crate) trait Group: Clone + Send + 'static {
    /// When live changes of it are taken at the start.
    const BATCH: Batch;

    /// Returns the part of a configuration.
    fn of(config: &Config) -> &Self;

    /// Returns the part of a configuration, to be changed.
    fn of_mut(config: &mut Config) -> &mut Self;

    /// Says what of it cannot be together with the rest; `None` where all of it can.
    fn wrong(config: &Config) -> Option<String>;
}

/// Settings that the running target takes as a whole.
pub(crate) trait Settable: Group {
    /// Has the target take them.
    ///
    /// # Errors
    /// It refuses, and nothing has changed.
    fn set(&self, engine: &dyn Engine) -> Result<(), EngineError>;
}

/// Live changes are taken in batches, one after the other, since they name each other: listeners
/// name links, sessions name namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Batch {
    /// Subsystems and what belongs to them.
    Subsystems,
    /// The network, and listeners.
    Network,
    /// Quality of service.
    Qos,
}

impl Group for Vec<Listener> {
    const BATCH: Batch = Batch::Network;

    fn of(config: &Config) -> &Self {
        &config.listeners
    }

    fn of_mut(config: &mut Config) -> &mut Self {
        &mut config.listeners
    }

    fn wrong(config: &Config) -> Option<String> {
        clash_of_listeners(config).or_else(|| Network::wrong(config))
    }
}

impl Group for Network {
    const BATCH: Batch = Batch::Network;

    fn of(config: &Config) -> &Self {
        &config.network
    }

    fn of_mut(config: &mut Config) -> &mut Self {
        &mut config.network
    }

    fn wrong(config: &Config) -> Option<String> {
        network::wrong(&config.network, &config.listeners)
    }
}

impl Settable for Network {
    fn set(&self, engine: &dyn Engine) -> Result<(), EngineError> {
        engine.set_network(self)
    }
}

impl Group for QosConfig {
    const BATCH: Batch = Batch::Qos;

    fn of(config: &Config) -> &Self {
        &config.qos
    }

    fn of_mut(config: &mut Config) -> &mut Self {
        &mut config.qos
    }

    fn wrong(config: &Config) -> Option<String> {
        qos::wrong(&config.qos, &config.subsystems)
    }
}

impl Settable for QosConfig {
    fn set(&self, engine: &dyn Engine) -> Result<(), EngineError> {
        engine.set_qos(self)
    }
}

/// What a store needs of a kind of object: each is known by its name and its text.
#[derive(Debug)]
pub(crate) struct Kept {
    /// When live changes of it are taken at the start.
    pub(crate) batch: Batch,
    /// Writes the object of this name; `None` where the configuration does not have it.
    pub(crate) text: fn(&Config, &str) -> Option<String>,
    /// Writes a text of the object as this version of the product would.
    pub(crate) canonical: fn(&str) -> Result<String, String>,
    /// Makes the object of this name what the text says; `None` removes it.
    pub(crate) assign: fn(&mut Config, &str, Option<&str>) -> Result<(), String>,
    /// Says what its settings cannot be together with.
    pub(crate) wrong: fn(&Config) -> Option<String>,
    /// Copies the settings that it is part of.
    pub(crate) copy: fn(&Config) -> Copied,
}

impl Kept {
    /// Describes a kind of object.
    pub(super) const fn of<T: Object>() -> Self {
        Self {
            batch: T::Group::BATCH,
            text: |config, id| find::<T>(T::Group::of(config), id).map(Object::text),
            canonical: |text| read::<T>(text).map(|object| object.text()),
            assign: |config, id, text| {
                let object = text.map(read::<T>).transpose()?;
                put(T::list_mut(T::Group::of_mut(config)), |known| known.is(id), object);
                Ok(())
            },
            wrong: T::Group::wrong,
            copy: Copied::of::<T::Group>,
        }
    }
}

/// Settings as they were, to be put back.
pub(crate) struct Copied(Box<dyn FnOnce(&mut Config) + Send>);

impl std::fmt::Debug for Copied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Copied")
    }
}

impl Copied {
    /// Copies a group of settings.
    pub(crate) fn of<G: Group>(config: &Config) -> Self {
        let before = G::of(config).clone();
        Self(Box::new(move |config| *G::of_mut(config) = before))
    }

    /// Makes the settings what they were.
    pub(crate) fn put_back(self, config: &mut Config) {
        (self.0)(config);
    }
}

/// Finds an object.
pub(crate) fn find<'a, T: Object>(group: &'a T::Group, id: &str) -> Option<&'a T> {
    T::list(group).iter().find(|known| known.is(id))
}

/// Replaces, adds or removes a list's one entry that is meant.
pub(crate) fn put<T>(list: &mut Vec<T>, is_it: impl Fn(&T) -> bool, value: Option<T>) {
    let place = list.iter_mut().find(|entry| is_it(entry));
    match (place, value) {
        (Some(place), Some(value)) => *place = value,
        (None, Some(value)) => list.push(value),
        (_, None) => list.retain(|entry| !is_it(entry)),
    }
}

fn read<T: Object>(text: &str) -> Result<T, String> {
    read_text(text, T::TITLE, T::read)
}
