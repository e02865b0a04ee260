//! The traits of an object of a list, and of the settings to which it belongs.

use sluice_config::entry::read_text;
use sluice_config::fields::Fields;
use sluice_config::table::{self, Table};
use sluice_config::{
    Config, Listener, Network, PmemConfig, QosConfig, clash_of_listeners, network, pmem, qos,
};

use crate::serve::engine::{Engine, EngineError, Loss};

/// An object that the configuration has a list of.
pub(crate) trait Object: Table + Clone + 'static {
    /// The object's name in messages, and before the dot in names of methods: `link`.
    const WORD: &'static str;
    /// The name of the object's text in messages: `the link`.
    const TITLE: &'static str;
    /// The settings to which the object belongs, which change as a whole.
    type Group: Group;

    /// Returns the list.
    fn list(group: &Self::Group) -> &[Self];

    /// Returns the list for a change.
    fn list_mut(group: &mut Self::Group) -> &mut Vec<Self>;

    /// Returns the identifier that tells the object from others of its kind.
    fn id(&self) -> String;

    /// Returns whether the object has this identifier.
    fn is(&self, id: &str) -> bool {
        self.id() == id
    }

    /// Reads the object's whole table, as the state file has it.
    fn read(fields: Fields<'_>) -> Option<Self>;

    /// Writes the object's keys, a line for each.
    fn text(&self) -> String {
        table::text(self)
    }
}

/// An object that the methods `add`, `set` and `remove` change by its name.
pub(crate) trait Named: Object<Group: Settable> {
    /// Reads the key `name`.
    fn read_name(fields: &mut Fields<'_>) -> Option<String>;

    /// Returns an object with the defaults for an addition.
    fn fresh(group: &Self::Group) -> Self;

    /// Reads the object's table; a key that is left out is as in `base`.
    fn read_onto(fields: Fields<'_>, base: &Self) -> Option<Self>;

    /// Returns the names that the message about a missing object lists.
    fn known(group: &Self::Group) -> Vec<String> {
        Self::list(group).iter().map(Object::id).collect()
    }

    /// The objects that may name this one, as a message calls them: `the listeners`.
    const USERS: &'static str;

    /// Returns the objects that name this one, so that it cannot be removed.
    fn users(config: &Config, name: &str) -> Vec<String>;

    /// Returns why the object must not be added, or must not replace `before`, apart from contradictions that
    /// `Group::wrong` finds; `None` if it may.
    fn refused(&self, _config: &Config, _before: Option<&Self>) -> Option<String> {
        None
    }

    /// Returns what connected hosts may lose by a change of the object, or without `to` by its
    /// removal; such methods take `force`. `None` where no change of this kind takes anything.
    const LOSS: Option<LossOf<Self>> = None;
}

/// A function that returns what connected hosts may lose by a change of an object.
pub(crate) type LossOf<T> = for<'a> fn(&'a T, Option<&'a T>) -> Loss<'a>;

/// Settings that change as a whole.
pub(crate) trait Group: Clone + Send + 'static {
    /// The batch in which live changes of the group are taken at the start.
    const BATCH: Batch;

    /// Returns the part of a configuration.
    fn of(config: &Config) -> &Self;

    /// Returns the part of a configuration for a change.
    fn of_mut(config: &mut Config) -> &mut Self;

    /// Describes a contradiction between the group's settings and the configuration; `None` if there is none.
    fn wrong(config: &Config) -> Option<String>;
}

/// Settings that the running target takes as a whole.
pub(crate) trait Settable: Group {
    /// Makes the target take the settings.
    ///
    /// # Errors
    /// The target refuses, and nothing has changed.
    fn set(&self, engine: &dyn Engine) -> Result<(), EngineError>;
}

/// The batches in which live changes are taken, one after the other, since objects name each other:
/// listeners name links, sessions name namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Batch {
    /// Subsystems and what belongs to them; and regions, since a file may have gone from a namespace
    /// to a region, or back.
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

impl Group for PmemConfig {
    const BATCH: Batch = Batch::Subsystems;

    fn of(config: &Config) -> &Self {
        &config.pmem
    }

    fn of_mut(config: &mut Config) -> &mut Self {
        &mut config.pmem
    }

    fn wrong(config: &Config) -> Option<String> {
        pmem::wrong(config)
    }
}

impl Settable for PmemConfig {
    fn set(&self, engine: &dyn Engine) -> Result<(), EngineError> {
        engine.set_regions(&self.regions)
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
        qos::wrong(&config.qos, &config.subsystems, &config.target)
    }
}

impl Settable for QosConfig {
    fn set(&self, engine: &dyn Engine) -> Result<(), EngineError> {
        engine.set_qos(self)
    }
}

/// The functions by which the store, which knows objects as names and texts, handles one kind.
#[derive(Debug)]
pub(crate) struct Kept {
    /// The batch in which live changes of the kind are taken at the start.
    pub(crate) batch: Batch,
    /// Writes the object of this name; `None` where the configuration does not have it.
    pub(crate) text: fn(&Config, &str) -> Option<String>,
    /// Writes a text of the object as this version of the product would.
    pub(crate) canonical: fn(&str) -> Result<String, String>,
    /// Sets the object of this name as the text describes; `None` removes it.
    pub(crate) assign: fn(&mut Config, &str, Option<&str>) -> Result<(), String>,
    /// Describes a contradiction between the settings and the configuration.
    pub(crate) wrong: fn(&Config) -> Option<String>,
    /// Copies the settings to which the object belongs.
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

/// A copy of settings, which can be put back.
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

    /// Puts the copied settings back.
    pub(crate) fn put_back(self, config: &mut Config) {
        (self.0)(config);
    }
}

pub(crate) fn find<'a, T: Object>(group: &'a T::Group, id: &str) -> Option<&'a T> {
    T::list(group).iter().find(|known| known.is(id))
}

/// Replaces, adds or removes the entry of a list for which `is_it` holds.
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
