//! The methods: one list, from which their names, their types and their documentation come.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A method with the types of its parameters and of its answer.
pub trait Call {
    /// The method.
    const METHOD: Method;
    /// The parameters as the command line sends them.
    type Params: Serialize + JsonSchema;
    /// The answer.
    type Answer: Serialize + DeserializeOwned + JsonSchema;
}

/// Makes [`Method`] and the types in [`crate::protocol::call`].
macro_rules! methods {
    ($($name:ident $text:literal $kind:ident ($params:ty)
        -> $answer:ty, $takes:literal, $gives:literal;)*) => {
        /// A method of the control socket.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Method {
            $(#[doc = concat!("`", $text, "`.")] $name,)*
        }

        impl Method {
            /// All methods, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Returns the method's name in a request.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Returns whether the method changes something, which may take long.
            #[must_use]
            pub const fn changes(self) -> bool {
                match self { $(Self::$name => methods!(@$kind),)* }
            }

            /// Returns whether the method changes the configuration, so that it has a dry run.
            #[must_use]
            pub const fn changes_configuration(self) -> bool {
                match self { $(Self::$name => methods!(@configures $kind),)* }
            }

            /// Returns the verb of a generic method, which adds, sets or removes an object by its name.
            const fn verb(self) -> Option<Verb> {
                match self { $(Self::$name => methods!(@verb $kind),)* }
            }

            /// Describes the parameters, in the words of docs/reference/control.md.
            #[must_use]
            pub const fn takes(self) -> &'static str {
                match self { $(Self::$name => $takes,)* }
            }

            /// Makes the schemas of the parameters and of the answer.
            pub(super) fn schemas(
                self,
                params: &mut SchemaGenerator,
                answers: &mut SchemaGenerator,
            ) -> (Schema, Schema) {
                use crate::protocol::call;
                match self {
                    $(Self::$name => (
                        params.subschema_for::<<call::$name as Call>::Params>(),
                        answers.subschema_for::<<call::$name as Call>::Answer>(),
                    ),)*
                }
            }

            /// Describes the answer, in the words of docs/reference/control.md.
            #[must_use]
            pub const fn gives(self) -> &'static str {
                match self { $(Self::$name => $gives,)* }
            }
        }

        /// The types of the methods, which name their parameters and their answers.
        pub mod calls {
            use super::{Call, Method};
            use crate::protocol::{answer, params};

            $(
                #[doc = concat!("The method `", $text, "`.")]
                #[derive(Clone, Copy, Debug)]
                pub struct $name;

                impl Call for $name {
                    const METHOD: Method = Method::$name;
                    type Params = $params;
                    type Answer = $answer;
                }
            )*
        }
    };
    (@shows) => { false };
    (@$changes:ident) => { true };
    (@configures shows) => { false };
    (@configures acts) => { false };
    (@configures $changes:ident) => { true };
    (@verb adds) => { Some(Verb::Add) };
    (@verb sets) => { Some(Verb::Set) };
    (@verb removes) => { Some(Verb::Remove) };
    (@verb $other:ident) => { None };
}

methods! {
    Status "status" shows (params::Nothing) -> answer::Status,
        "",
        "Version, `commit` (of the source; `unknown` if the build did not know it), process, \
         uptime, numbers of objects, reactors. `durable`: whether changes survive a restart. \
         `live_changes`: the number of objects that differ from the configuration file. \
         `namespaces_unavailable`, `namespaces_with_errors`: numbers of namespaces in these \
         states. `problems`: a line for each. `file_systems`: the file systems of the namespaces' \
         files, with `mount` and `files`. `may_take`, `free` and `overcommit` are in bytes: the \
         possible further growth of the files, the free space, and the growth beyond the free \
         space.";
    Connections "connections" shows (params::Nothing) -> Vec<answer::Connection>,
        "",
        "One object for each connection.";
    Statistics "statistics" shows (params::Buckets) -> answer::Statistics,
        "`buckets` (boolean, default false)",
        "Operations, bytes, errors and latency (sum, mean, percentiles in nanoseconds) for each \
         namespace, host, workload (a host in a class at a namespace) and queue. For each reactor, \
         the CPU time that the reactor spent on a change of the configuration in one turn \
         (`changes_ns`). With `buckets`, the counts behind the percentiles, see below.";
    EventList "event.list" shows (params::EventList) -> answer::Events,
        "`after` (number, default 0)",
        "The latest lines of the log of level info and above: the journal's records, at most 4096, \
         and 4 MiB. `events`: at most 500 that follow the event with the number `after`. Each has \
         `number`, `time_ms` (milliseconds since 1970), `level`, `module`, `message` (the line) and \
         `fields` (an object). Long texts are cut, with `…` at their end. `more`: whether later ones \
         follow. `lost`: the number of events after `after` that the daemon no longer has. \
         `started_ms`: the daemon's start; the numbers begin at 1 with each start.";
    TraceStart "trace.start" acts (params::TraceStart) -> answer::TraceStarted,
        "`host`, `subsystem`, `nsid`, `class`, `slower_than_ns` (all may be left out)",
        "`trace`: the number of the trace. From now on the daemon keeps the parts of the time of selected commands. \
         These are of the given host, subsystem, namespace and class, and took the given time in the target or \
         longer. One trace runs at a time. It ends 5 s after its last `trace.read`.";
    TraceRead "trace.read" shows (params::TraceRead) -> answer::Trace,
        "`trace` (the number), `stop` (boolean, default false: end the trace)",
        "The commands since the last call whose answers were sent. `commands`: each has `host`, `subsystem`, `nsid`, \
         `class`, `operation`, `lba`, `bytes`, `status`, `reactor`, `connection`, `queue` and `cid`. `time_ms` \
         counts from 1970, `start_ns` by the daemon's clock. `total_ns` is the command's whole time. \
         `parts_ns` has the time of each [part](../use/operating.md#time-of-commands-by-its-parts); their sum \
         is `total_ns`. `session`: the session whose limits or credits delayed the command most (`null`: none). \
         `lost`: the number of traced commands that were not read in time. `skipped`: the number of selected \
         commands that were not traced, since a reactor traces at most 50,000 per second.";
    LogLevel "log.level" acts (params::LogLevel) -> answer::LogLevel,
        "`level`, as `--log-level` of `sluiced` (may be left out: change nothing)",
        "`level`: the level of the log from now on, until the daemon ends; `before`: the level before.";
    Reload "reload" changes (params::Reload) -> answer::Reloaded,
        "`check` (boolean, default false: change nothing), `force` (boolean, default false)",
        "Three lists of lines for people, and a number. `changes`: the changes in their order. \
         `needs_restart`: the keys that only a restart changes, each with its present and its next \
         value. `warnings`: live changes that no longer count, and with `check` the losses of \
         hosts. `live_changes`: the number of objects that differ from the file afterwards.";
    ConfigShow "config.show" shows (params::Nothing) -> answer::Configuration,
        "",
        "`text`: the configuration that runs now, with live changes, as a file that `sluiced --config` \
         takes.";
    ConfigDiff "config.diff" shows (params::Nothing) -> answer::ConfigDiff,
        "",
        "`objects`: the objects that differ from the file by live changes. Each has `object` (its \
         name), `change` (`added`, `changed`, `removed`), `file`, `running` and `keys`. `file` and \
         `running` are its keys, a line for each (`null` where it is missing). `keys` are the \
         different keys: `key`, `file`, `running`. The other fields are `file`, `file_changed` and \
         `needs_restart`. `file` is the path (`null`: the daemon runs without a file). \
         `file_changed` is the reason why the file is not the version that the daemon read last \
         (`null`: it is). `needs_restart` is as for `reload`.";
    ConfigRevert "config.revert" changes (params::Settings) -> answer::Changed<answer::Reverted>,
        "`object` (left out: all), a name that `config.diff` lists; `force` (boolean, default false)",
        "`objects`: the names of the objects that are as in the file again; `changes`, `warnings` \
         as of `reload`";
    ConfigApply "config.apply" changes (params::ConfigApply) -> answer::Reloaded,
        "`text` (the content of a configuration file), `check` (boolean, default false: change nothing), `force` \
         (boolean, default false)",
        "As of `reload`; `objects`: the objects that change, as in `config.diff`. The target runs this configuration afterwards, except for `needs_restart`; what differs from \
         the configuration file is live changes.";
    ConfigMerge "config.merge" shows (params::Nothing) -> answer::ConfigMerged,
        "",
        "`text`: the configuration file with the live changes in it. `before`: the file as it is. \
         `file`: its path. `live_changes`: the number of objects that differ. Writes nothing.";
    Shutdown "shutdown" acts (params::Shutdown) -> answer::Nothing,
        "`now` (boolean, default false)",
        "Nothing; the daemon drains and ends, with `now` at once. Its exit status is 150, so that \
         systemd does not start it again.";
    SubsystemList "subsystem.list" shows (params::Nothing) -> Vec<answer::Subsystem>,
        "",
        "The subsystems with their hosts, as in `host.list`, and their namespaces.";
    SubsystemAdd "subsystem.add" changes (params::Settings)
        -> answer::Changed<answer::SubsystemAdded>,
        "as `[[subsystem]]`; `namespace`: list of namespaces",
        "`nqn`, `serial`";
    SubsystemRemove "subsystem.remove" changes (params::SubsystemRemove)
        -> answer::Changed<answer::SubsystemName>,
        "`nqn`, `force`",
        "`nqn`";
    NamespaceList "namespace.list" shows (params::OfSubsystem) -> Vec<answer::NamespaceRow>,
        "`subsystem` (may be left out)",
        "The namespaces, each with `subsystem`; `state`, `reason` and `errors` are explained \
         below.";
    NamespaceAdd "namespace.add" changes (params::Settings)
        -> answer::Changed<answer::NamespaceAdded>,
        "`subsystem`, and as `[[subsystem.namespace]]`; a missing file with a `size` is created. \
         `force`: a device that holds a file system or other data is served",
        "`subsystem`, `nsid`, `uuid`; `warnings`: limitations of the file or device, left out if \
         there are none";
    NamespaceRemove "namespace.remove" changes (params::NamespaceRemove)
        -> answer::Changed<answer::NamespaceName>,
        "`subsystem`, `nsid`, `force`",
        "`subsystem`, `nsid`";
    NamespaceResize "namespace.resize" changes (params::NamespaceResize)
        -> answer::Changed<answer::NamespaceResized>,
        "`subsystem`, `nsid`, `size` (left out: the present size of the file or device), `force`",
        "`subsystem`, `nsid`, `size` in bytes, `warnings` as of `namespace.add`";
    NamespaceRetry "namespace.retry" acts (params::NamespaceRetry) -> Vec<answer::NamespaceRow>,
        "`subsystem`, `nsid` (both may be left out: all)",
        "The namespaces that were not available, as in `namespace.list`, after another try to \
         open their devices.";
    ListenerList "listener.list" shows (params::Nothing) -> Vec<answer::Listener>,
        "",
        "The listeners.";
    ListenerAdd "listener.add" changes (params::Settings) -> answer::Changed<answer::ListenerName>,
        "as `[[listener]]`",
        "`address`";
    ListenerRemove "listener.remove" changes (params::ListenerRemove)
        -> answer::Changed<answer::ListenerName>,
        "`address`, `force`",
        "`address`";
    HostList "host.list" shows (params::OfSubsystem) -> Vec<answer::Hosts>,
        "`subsystem` (may be left out)",
        "`subsystem`, `allow_any_host`, `hosts`. `addresses`: an object with the addresses and networks of each host that may come from these only. `rights`: an object with the rights of each host without full rights (`namespaces`, `read_only`, `max_class`). `authentication`: an object with the keys of each host in the daemon's files (`secret`, `tls_key`, `both`, `none`). `lost`: the hosts that did not shut down and may come back, with `host`, `listener`, `address`, `lost_seconds` and `left_seconds`. `lost_seconds` counts from the end of the connection, or with `restored` from the daemon's start";
    HostAdd "host.add" changes (params::Settings) -> answer::Changed<answer::HostName>,
        "`subsystem`, `host`, and as `[[subsystem.host]]`, without `nqn`; `force`",
        "`subsystem`, `host`";
    HostSet "host.set" changes (params::Settings) -> answer::Changed<answer::HostName>,
        "`subsystem`, `host`, and keys of `[[subsystem.host]]`; a key that is not given stays, `null` resets a setting; `force`",
        "`subsystem`, `host`";
    HostRemove "host.remove" changes (params::HostRemove) -> answer::Changed<answer::HostName>,
        "`subsystem`, `host`, `force`",
        "`subsystem`, `host`";
    HostAny "host.any" changes (params::HostAny) -> answer::Changed<answer::AnyHost>,
        "`subsystem`, `allow` (boolean), `force`",
        "`subsystem`, `allow_any_host`";
    HostKeys "host.keys" shows (params::OfHost) -> answer::HostKeys,
        "`host` (may be left out: all hosts with keys)",
        "`folder`: the `host_keys` that the daemon reads (`null`: none). `unreadable`: why the files cannot be read now, left out if they can. `changes`: a line for each change that a reload would make. `hosts`: for each host `host`, `secret`, `controller_secret`, `tls_key` and `allowed`. The booleans `secret`, `controller_secret` and `tls_key` report whether the daemon has it, from files and systemd credentials. `allowed` reports whether a subsystem allows the host, or any host. No secret is ever shown";
    QosShow "qos.show" shows (params::Buckets) -> answer::Qos,
        "`buckets`, as in `statistics`",
        "The settings of `[qos]`, and `classes`, `sessions`, `devices`, `policies`: see below.";
    QosSet "qos.set" changes (params::Settings) -> answer::Changed<answer::QosSettings>,
        "keys of `[qos]`; a key that is not given stays",
        "The settings of `[qos]`";
    QosListener "qos.listener" changes (params::ListenerClass)
        -> answer::Changed<answer::ListenerClass>,
        "`address`, `class` (`null` for none)",
        "`address`, `class`";
    QosNamespace "qos.namespace" changes (params::NamespaceClass)
        -> answer::Changed<answer::NamespaceClass>,
        "`subsystem`, `nsid`, `class` (`null` for none)",
        "`subsystem`, `nsid`, `class`";
    QosPolicy "qos.policy" changes (params::Settings) -> answer::Changed<answer::Policy>,
        "as `[[policy]]`; without `class`, `max_class`, `urgent_iops` and `session` the policy is \
         removed",
        "The policy; `removed`";
    SessionList "session.list" shows (params::Nothing) -> Vec<answer::Session>,
        "",
        "The sessions, as in `qos.show`.";
    SessionAdd "session.add" adds (params::Settings) -> answer::Changed<answer::SessionSettings>,
        "as `[[session]]`",
        "The settings of the session";
    SessionSet "session.set" sets (params::Settings) -> answer::Changed<answer::SessionSettings>,
        "`name`, and keys of `[[session]]`; a key that is not given stays, `null` resets a setting",
        "The settings of the session";
    SessionRemove "session.remove" removes (params::SessionRemove) -> answer::Changed<answer::Name>,
        "`name`; of an automatic session only the settings are removed",
        "`name`";
    SessionReserve "session.reserve" changes (params::Settings)
        -> answer::Changed<answer::SessionSettings>,
        "`session`, and as `reserve`",
        "The settings of the session. `floors`: the tenant's minimum rate by its depth, in words; \
         left out while the rate is unknown (the device is not measured yet)";
    SessionRelease "session.release" changes (params::SessionRelease)
        -> answer::Changed<answer::SessionSettings>,
        "`session`",
        "The settings of the session";
    ProfileList "profile.list" shows (params::Nothing) -> Vec<answer::ProfileSettings>,
        "",
        "The profiles, each with the keys of `[[profile]]` and `live`";
    ProfileAdd "profile.add" adds (params::Settings) -> answer::Changed<answer::ProfileSettings>,
        "as `[[profile]]`",
        "The settings of the profile";
    ProfileSet "profile.set" sets (params::Settings) -> answer::Changed<answer::ProfileSettings>,
        "`name`, and keys of `[[profile]]`; a key that is not given stays, `null` resets a \
         setting. All sessions with the profile change",
        "The settings of the profile";
    ProfileRemove "profile.remove" removes (params::ProfileRemove) -> answer::Changed<answer::Name>,
        "`name` of a profile that no session names",
        "`name`";
    NetworkShow "network.show" shows (params::Nothing) -> answer::Network,
        "",
        "The settings of `[network]`, and `base_used`, `advice`, `links`: see below.";
    NetworkSet "network.set" changes (params::Settings) -> answer::Changed<answer::NetworkSettings>,
        "keys of `[network]`, in `classes` only the classes to change; a key that is not given \
         stays",
        "The settings of `[network]`";
    NetworkListener "network.listener" changes (params::ListenerLink)
        -> answer::Changed<answer::ListenerLink>,
        "`address`, `link` (`null` for the default one)",
        "`address`, `link`";
    LinkAdd "link.add" adds (params::Settings) -> answer::Changed<answer::LinkSettings>,
        "as `[[link]]`; classes that are not given are as in `[network]` now",
        "The settings of the link";
    LinkSet "link.set" sets (params::Settings) -> answer::Changed<answer::LinkSettings>,
        "`name`, and keys of `[[link]]`; a key that is not given stays",
        "The settings of the link";
    LinkRemove "link.remove" removes (params::LinkRemove) -> answer::Changed<answer::Name>,
        "`name` of a link that no listener names",
        "`name`";
    PmemShow "pmem.show" shows (params::Nothing) -> answer::Pmem,
        "",
        "The settings of `[pmem]`, and `open`, `reason`, `capacity_now`, `reserved`, `period_now`, \
         `regions`, `evicted`, `profile`: see below.";
    PmemProfile "pmem.profile" acts (params::PmemProfile) -> answer::Nothing,
        "`periods` (number from 2, default 10)",
        "Nothing: the measurement of the data node's capacity begins, with the I/Os of the clients that \
         are connected. `profile` of `pmem.show` has its result, from which the estimate continues.";
    RegionAdd "region.add" adds (params::Settings) -> answer::Changed<answer::RegionSettings>,
        "as `[[region]]`",
        "The settings of the region";
    RegionSet "region.set" sets (params::Settings) -> answer::Changed<answer::RegionSettings>,
        "`name`, and `size`, `hosts`, `reserve`, `limit` of `[[region]]`; a key that is not given \
         stays, `null` resets `size` or `limit`; `force`",
        "The settings of the region";
    RegionRemove "region.remove" removes (params::RegionRemove) -> answer::Changed<answer::Name>,
        "`name`, `force`",
        "`name`";
}

/// The verb of a generic method of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Adds an object.
    Add,
    /// Changes an existing object; keys that are not given stay.
    Set,
    /// Removes an object.
    Remove,
}

impl Method {
    /// Returns the kind of object of a generic method, and the method's verb.
    #[must_use]
    pub fn object(self) -> Option<(&'static str, Verb)> {
        let (word, _) = self.name().split_once('.')?;
        Some((word, self.verb()?))
    }

    /// Finds the method of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|method| method.name() == name)
    }
}
