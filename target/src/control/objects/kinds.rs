//! The list of all kinds of objects.

use sluice_config::fields::Fields;
use sluice_config::network::{new_link, values::name};
use sluice_config::pmem::values::name as region_name;
use sluice_config::qos::values::profile_name;
use sluice_config::{
    Config, LinkConfig, Listener, Network, PmemConfig, Policy, Profile, QosConfig, RegionConfig,
    Session, entry, network, pmem,
};

use super::object::{Batch, Kept, LossOf, Named, Object};
use crate::serve::engine::Loss;

/// An object of a list with its kind.
pub(crate) trait Listed: Object {
    /// The kind.
    const KIND: Kind;
}

/// A visitor of a kind of object that has the generic methods.
pub(crate) trait Visitor {
    /// The result of the visit.
    type Output;

    /// Visits one kind.
    fn visit<T: Named + Listed>(self) -> Self::Output;
}

/// Makes [`Kind`]: each kind with its name in a store. A `kept` kind is of objects of a list; a
/// `named` kind also has the generic methods.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $name:literal $($of:ident $object:ty)?;)*) => {
        /// The kind of an object in a store.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// Returns the kind's name in a store.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// Describes objects of this kind, where the configuration has a list of them.
            pub(crate) fn kept(self) -> Option<&'static Kept> {
                match self {
                    $(Self::$kind => kinds!(@kept $($object)?),)*
                }
            }
        }

        $($(impl Listed for $object {
            const KIND: Kind = Kind::$kind;
        })?)*

        /// Visits the kind of object that has the generic methods and is called `word`.
        pub(crate) fn visit<V: Visitor>(word: &str, visitor: V) -> Option<V::Output> {
            match word {
                $(_ if kinds!(@is word, $($of $object)?) => {
                    kinds!(@visit visitor, $($of $object)?)
                })*
                _ => None,
            }
        }
    };
    (@kept) => { None };
    (@kept $object:ty) => {{
        const KEPT: &Kept = &Kept::of::<$object>();
        Some(KEPT)
    }};
    (@is $word:ident, named $object:ty) => { $word == <$object>::WORD };
    (@is $word:ident, $($other:tt)*) => { false };
    (@visit $visitor:ident, named $object:ty) => { Some($visitor.visit::<$object>()) };
    (@visit $visitor:ident, $($other:tt)*) => { None };
}

kinds! {
    /// A listener of one machine.
    Listener "listener" kept Listener;
    /// A whole subsystem.
    Subsystem "subsystem";
    /// Whether any host may connect to a subsystem.
    AnyHost "any_host";
    /// A host's permission to connect to a subsystem.
    Host "host";
    /// A namespace of a subsystem.
    Namespace "namespace";
    /// `[qos]` of one machine.
    Qos "qos";
    /// A `[[profile]]` of one machine.
    Profile "profile" named Profile;
    /// A QoS session of one machine.
    Session "session" kept Session;
    /// A policy of one machine.
    Policy "policy" kept Policy;
    /// `[network]` of one machine.
    Network "network";
    /// A `[[link]]` of one machine.
    Link "link" named LinkConfig;
    /// A `[[region]]` of one machine.
    Region "region" named RegionConfig;
    /// The state of a namespace's file or device when one machine had it open last.
    Seen "seen";
    /// The UUID of a namespace, or the serial number of a subsystem, on one machine.
    Identity "identity";
    /// A host's use of a subsystem of one machine, through a listener.
    HostPath "host_path";
    /// The identity of a namespace or subsystem of one machine that a live change removed.
    Removed "removed_identity";
    /// The NSIDs of a subsystem of one machine that was removed.
    Retired "retired_nsids";
}

impl Kind {
    /// The kinds of what one machine observed. They are no live changes.
    pub const REMEMBERED: [Self; 5] =
        [Self::Seen, Self::Identity, Self::HostPath, Self::Removed, Self::Retired];

    /// Returns whether objects of this kind are live changes of the configuration.
    #[must_use]
    pub fn is_change(self) -> bool {
        !Self::REMEMBERED.contains(&self)
    }

    /// Returns the batch in which live changes of this kind are taken at the start.
    pub(crate) fn batch(self) -> Batch {
        match self {
            Self::Qos => Batch::Qos,
            Self::Network => Batch::Network,
            other => other.kept().map_or(Batch::Subsystems, |kept| kept.batch),
        }
    }
}

impl Object for Listener {
    const WORD: &'static str = "listener";
    const TITLE: &'static str = "the listener";
    type Group = Vec<Self>;

    fn list(group: &Vec<Self>) -> &[Self] {
        group
    }

    fn list_mut(group: &mut Vec<Self>) -> &mut Vec<Self> {
        group
    }

    fn id(&self) -> String {
        self.endpoint().to_string()
    }

    fn read(fields: Fields<'_>) -> Option<Self> {
        entry::listener(fields)
    }
}

impl Named for Profile {
    fn read_name(fields: &mut Fields<'_>) -> Option<String> {
        fields.require("name", "\"gold\"", profile_name).map(|at| at.value)
    }

    fn fresh(_: &QosConfig) -> Self {
        Self::default()
    }

    fn read_onto(fields: Fields<'_>, base: &Self) -> Option<Self> {
        entry::profile(fields, base)
    }

    const USERS: &'static str = "the sessions";

    fn users(config: &Config, profile: &str) -> Vec<String> {
        let named = |session: &&Session| session.profile.as_deref() == Some(profile);
        config.qos.sessions.iter().filter(named).map(|session| session.name.clone()).collect()
    }
}

/// Describes kinds of objects that have a name, and are in this list of their group.
macro_rules! objects_with_names {
    ($($object:ident $word:literal in $group:ident.$list:ident, |$fields:ident| $read:expr;)*) => {$(
        impl Object for $object {
            const WORD: &'static str = $word;
            const TITLE: &'static str = concat!("the ", $word);
            type Group = $group;

            fn list(group: &$group) -> &[Self] {
                &group.$list
            }

            fn list_mut(group: &mut $group) -> &mut Vec<Self> {
                &mut group.$list
            }

            fn id(&self) -> String {
                self.name.clone()
            }

            fn is(&self, id: &str) -> bool {
                self.name == id
            }

            fn read($fields: Fields<'_>) -> Option<Self> {
                $read
            }
        }
    )*};
}

objects_with_names! {
    Session "session" in QosConfig.sessions, |fields| entry::session(fields);
    Profile "profile" in QosConfig.profiles, |fields| entry::profile(fields, &Self::default());
    LinkConfig "link" in Network.links, |fields| entry::link(fields, &Self::default());
    RegionConfig "region" in PmemConfig.regions, |fields| entry::region(fields, &Self::default());
}

impl Object for Policy {
    const WORD: &'static str = "policy";
    const TITLE: &'static str = "the policy";
    type Group = QosConfig;

    fn list(group: &QosConfig) -> &[Self] {
        &group.policies
    }

    fn list_mut(group: &mut QosConfig) -> &mut Vec<Self> {
        &mut group.policies
    }

    fn id(&self) -> String {
        // NQNs contain no spaces.
        let nsid = self.nsid.map(|nsid| nsid.to_string());
        let word = |word: &Option<String>| word.clone().unwrap_or_else(|| "*".into());
        let id = format!("{} {} {}", word(&self.host), word(&self.subsystem), word(&nsid));
        self.addresses.texts().fold(id, |id, network| format!("{id} {network}"))
    }

    fn read(fields: Fields<'_>) -> Option<Self> {
        entry::policy(fields)
    }
}

impl Named for LinkConfig {
    fn read_name(fields: &mut Fields<'_>) -> Option<String> {
        fields.require("name", "\"east\"", name).map(|at| at.value)
    }

    fn fresh(group: &Network) -> Self {
        new_link(group)
    }

    fn read_onto(fields: Fields<'_>, base: &Self) -> Option<Self> {
        entry::link(fields, base)
    }

    fn known(group: &Network) -> Vec<String> {
        network::known(group)
    }

    const USERS: &'static str = "the listeners";

    fn users(config: &Config, link: &str) -> Vec<String> {
        let named = |listener: &&Listener| listener.link.as_deref() == Some(link);
        config
            .listeners
            .iter()
            .filter(named)
            .map(|listener| listener.endpoint().to_string())
            .collect()
    }
}

impl Named for RegionConfig {
    fn read_name(fields: &mut Fields<'_>) -> Option<String> {
        fields.require("name", "\"log\"", region_name).map(|at| at.value)
    }

    fn fresh(_: &PmemConfig) -> Self {
        Self::default()
    }

    fn read_onto(fields: Fields<'_>, base: &Self) -> Option<Self> {
        entry::region(fields, base)
    }

    const USERS: &'static str = "nothing";

    fn users(_: &Config, _: &str) -> Vec<String> {
        Vec::new()
    }

    fn refused(&self, config: &Config, before: Option<&Self>) -> Option<String> {
        let fixed = before.map(|before| before.fixed_differing(self)).unwrap_or_default();
        match &fixed[..] {
            [] => pmem::refused(self, &config.pmem.general),
            keys => Some(format!(
                "`{}` of a region cannot change while it exists: remove it and add it again; \
                 `size`, `hosts`, `reserve` and `limit` can change",
                keys.join("`, `")
            )),
        }
    }

    const LOSS: Option<LossOf<Self>> = Some(|region, to| Loss::Region(region, to));
}
