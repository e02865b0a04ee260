//! The differences between the configuration file and the configuration that runs, by object.

use std::collections::{BTreeMap, BTreeSet};

use sluice_config::{
    AllowedHost, Config, LinkConfig, Listener, Namespace, Policy, Profile, RegionConfig, Session,
    Subsystem,
};

use super::object::ObjectId;
use crate::control::objects::{Group, Listed};

/// An object that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The object's name.
    pub(crate) object: ObjectId,
    /// Its keys in the file, a line for each; `None` where the file does not have the object.
    pub(crate) file: Option<String>,
    /// Its keys as they run; `None` where the object does not run.
    pub(crate) running: Option<String>,
}

impl Difference {
    /// Returns the keys that differ, each with its values in the file and as it runs; none for an
    /// object that only one of both has, and for a subsystem, whose parts may differ too.
    pub(crate) fn keys(&self) -> Vec<(String, Option<String>, Option<String>)> {
        let (Some(file), Some(running)) = (&self.file, &self.running) else { return Vec::new() };
        if matches!(self.object, ObjectId::Subsystem(_)) {
            return Vec::new();
        }
        let (file, running) = (pairs(file), pairs(running));
        let keys: BTreeSet<&str> = file.keys().chain(running.keys()).copied().collect();
        let value =
            |of: &BTreeMap<&str, &str>, key: &str| of.get(key).map(|text| (*text).to_owned());
        let row = |key: &str| {
            let (file, running) = (value(&file, key), value(&running, key));
            (file != running).then(|| (key.to_owned(), file, running))
        };
        keys.into_iter().filter_map(row).collect()
    }
}

/// Splits lines of `key = value`.
fn pairs(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once(" = ")).collect()
}

/// The objects that differ from the file.
#[derive(Debug, Default)]
pub(crate) struct LiveObjects {
    objects: BTreeSet<ObjectId>,
    /// The subsystems that differ themselves, or in one of their parts.
    subsystems: BTreeSet<String>,
}

impl LiveObjects {
    /// Indexes differences.
    pub(crate) fn of(differences: &[Difference]) -> Self {
        let objects = differences.iter().map(|difference| difference.object.clone());
        let nqns = differences.iter().filter_map(|difference| difference.object.subsystem());
        Self { objects: objects.collect(), subsystems: nqns.map(str::to_owned).collect() }
    }

    /// Counts the objects.
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns whether an object differs, by itself or with its whole subsystem.
    pub(crate) fn has(&self, object: &ObjectId) -> bool {
        let whole = object.subsystem().map(|nqn| ObjectId::Subsystem(nqn.to_owned()));
        self.objects.contains(object) || whole.is_some_and(|whole| self.objects.contains(&whole))
    }

    /// Returns whether a subsystem or one of its parts differs.
    pub(crate) fn has_part_of(&self, nqn: &str) -> bool {
        self.subsystems.contains(nqn)
    }
}

/// Returns the objects in which `running` differs from `file`. The order in lists means nothing. A
/// subsystem that only one of both has is one object with all its parts.
pub(crate) fn differences(file: &Config, running: &Config) -> Vec<Difference> {
    let mut found = Vec::new();
    subsystems(file, running, &mut found);
    listed::<Listener>(file, running, &mut found);
    found.push(ObjectId::Network);
    listed::<LinkConfig>(file, running, &mut found);
    listed::<RegionConfig>(file, running, &mut found);
    found.push(ObjectId::Qos);
    listed::<Profile>(file, running, &mut found);
    listed::<Session>(file, running, &mut found);
    listed::<Policy>(file, running, &mut found);
    let difference = |object: ObjectId| {
        let (file, running) = (object.lines(file), object.lines(running));
        (file != running).then_some(Difference { object, file, running })
    };
    found.into_iter().filter_map(difference).collect()
}

/// Returns the keys whose values are not the same.
fn changed<K: Ord + Clone, T: PartialEq>(
    old: &BTreeMap<K, &T>,
    new: &BTreeMap<K, &T>,
) -> BTreeSet<K> {
    let keys = old.keys().chain(new.keys());
    keys.filter(|key| old.get(*key) != new.get(*key)).cloned().collect()
}

fn listed<T: Listed + PartialEq>(file: &Config, running: &Config, found: &mut Vec<ObjectId>) {
    let ids = changed(&by_id::<T>(file), &by_id::<T>(running));
    found.extend(ids.into_iter().map(ObjectId::of::<T>));
}

fn by_id<T: Listed>(config: &Config) -> BTreeMap<String, &T> {
    T::list(T::Group::of(config)).iter().map(|object| (object.id(), object)).collect()
}

fn subsystems(file: &Config, running: &Config, found: &mut Vec<ObjectId>) {
    let (old, new) = (by_nqn(file), by_nqn(running));
    let nqns: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    for nqn in nqns {
        match (old.get(nqn), new.get(nqn)) {
            (Some(old), Some(new)) if own(old) == own(new) => parts(old, new, found),
            _ => found.push(ObjectId::Subsystem(nqn.to_owned())),
        }
    }
}

fn by_nqn(config: &Config) -> BTreeMap<&str, &Subsystem> {
    config.subsystems.iter().map(|subsystem| (subsystem.nqn.as_str(), subsystem)).collect()
}

/// Returns the settings that change with the whole subsystem only.
fn own(subsystem: &Subsystem) -> (Option<&str>, Option<&str>, bool) {
    let Subsystem { serial, model, require_authentication, .. } = subsystem;
    (serial.as_deref(), model.as_deref(), *require_authentication)
}

fn parts(old: &Subsystem, new: &Subsystem, found: &mut Vec<ObjectId>) {
    let nqn = &old.nqn;
    if old.allow_any_host != new.allow_any_host {
        found.push(ObjectId::AnyHost(nqn.clone()));
    }
    let hosts = changed(&hosts(old), &hosts(new));
    found.extend(hosts.into_iter().map(|host| ObjectId::Host(nqn.clone(), host.to_owned())));
    let nsids = changed(&namespaces(old), &namespaces(new));
    found.extend(nsids.into_iter().map(|nsid| ObjectId::Namespace(nqn.clone(), nsid)));
}

fn hosts(subsystem: &Subsystem) -> BTreeMap<&str, &AllowedHost> {
    subsystem.hosts.iter().map(|host| (host.nqn.as_str(), host)).collect()
}

fn namespaces(subsystem: &Subsystem) -> BTreeMap<u32, &Namespace> {
    subsystem.namespaces.iter().map(|namespace| (namespace.id(), namespace)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_config::testing::parse;

    const FILE: &str = "[[listener]]\naddress = \"127.0.0.1:4420\"\n\
        [[subsystem]]\nnqn = \"nqn.2026-01.io.x:a\"\nhosts = [\"nqn.2026-01.io.x:h\"]\n\
        [[subsystem.namespace]]\nnsid = 1\nbackend = \"null\"\nsize = \"8 KiB\"\n\
        [[subsystem]]\nnqn = \"nqn.2026-01.io.x:b\"\n";

    fn names(to: &str) -> Vec<String> {
        let all = differences(&parse(FILE).unwrap(), &parse(to).unwrap());
        all.iter().map(|difference| difference.object.to_string()).collect()
    }

    #[test]
    fn each_object_that_differs_is_named_once() {
        assert_eq!(names(FILE), [""; 0]);
        let a = "nqn.2026-01.io.x:a";
        assert_eq!(names(&FILE.replace("8 KiB", "16 KiB")), [format!("namespace {a} 1")]);
        assert_eq!(
            names(&FILE.replace("4420", "4421")),
            ["listener 127.0.0.1:4420", "listener 127.0.0.1:4421"]
        );
        let host = FILE.replace("hosts = [\"nqn.2026-01.io.x:h\"]", "allow_any_host = true");
        assert_eq!(names(&host), [format!("any_host {a}"), format!("host {a} nqn.2026-01.io.x:h")]);
        assert_eq!(
            names(&FILE.replace("x:b", "x:c")),
            ["subsystem nqn.2026-01.io.x:b", "subsystem nqn.2026-01.io.x:c"]
        );
        let serial = FILE.replace("hosts", "serial = \"7\"\nhosts").replace("8 KiB", "16 KiB");
        assert_eq!(names(&serial), [format!("subsystem {a}")], "with all its parts");
        assert_eq!(names(&format!("{FILE}[qos]\nwindow = 7\n")), ["qos"]);
    }

    #[test]
    fn keys_that_differ_come_with_both_values() {
        let to = parse(&FILE.replace("8 KiB", "16 KiB")).unwrap();
        let all = differences(&parse(FILE).unwrap(), &to);
        let keys = all[0].keys();
        let [(key, Some(file), Some(running))] = &keys[..] else { panic!("{keys:?}") };
        assert_eq!(
            (key.as_str(), file.as_str(), running.as_str()),
            ("size", "\"8 KiB\"", "\"16 KiB\"")
        );
    }

    #[test]
    fn parts_of_a_subsystem_that_differs_are_marked_too() {
        let to = parse(&FILE.replace("x:b", "x:c")).unwrap();
        let live = LiveObjects::of(&differences(&parse(FILE).unwrap(), &to));
        let namespace = |nqn: &str| ObjectId::Namespace(nqn.to_owned(), 1);
        assert!(
            live.has(&namespace("nqn.2026-01.io.x:c")) && live.has_part_of("nqn.2026-01.io.x:c")
        );
        assert!(!live.has(&namespace("nqn.2026-01.io.x:a")));
        assert_eq!(live.len(), 2);
    }
}
