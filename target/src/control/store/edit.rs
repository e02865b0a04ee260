//! Writes live changes into the text of the configuration file. Keys that do not change keep their
//! spelling, comments and order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sluice_config::keys::former_name;
use sluice_config::table::text as keys;
use sluice_config::{AllowedHost, Config, Subsystem};
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, TomlError, Value};

use super::differences::differences;
use crate::control::objects::Object;

/// An object of a list: its identifier, and its keys, a line for each.
type Entry = (String, String);

/// Returns the file with the objects of `running`; `text` is the file, and `file` its configuration. The settings
/// that only a restart changes (`[target]`, `[pmem]`) stay.
///
/// # Errors
/// The text cannot be edited to match `running`. The reason, and the remedy.
pub(crate) fn edit(text: &str, file: &Config, running: &Config) -> Result<String, String> {
    let mut document: DocumentMut =
        text.parse().map_err(|error: TomlError| error.message().to_owned())?;
    let root = document.as_table_mut();
    settings(root, "qos", &keys(&file.qos.general), &keys(&running.qos.general))?;
    let (old, new) = (keys(&file.network), keys(&running.network));
    settings(root, "network", &old, &new)?;
    let links = entries(&running.network.links);
    list(root, "link", &entries(&file.network.links), &links)?;
    if old != new {
        // A key that a link leaves out is as in `[network]`, which has changed.
        complete(root, "link", &links)?;
    }
    list(root, "region", &entries(&file.pmem.regions), &entries(&running.pmem.regions))?;
    list(root, "listener", &entries(&file.listeners), &entries(&running.listeners))?;
    list(root, "profile", &entries(&file.qos.profiles), &entries(&running.qos.profiles))?;
    list(root, "session", &entries(&file.qos.sessions), &entries(&running.qos.sessions))?;
    list(root, "policy", &entries(&file.qos.policies), &entries(&running.qos.policies))?;
    subsystems(root, &file.subsystems, &running.subsystems)?;
    let edited = document.to_string();
    let wrong = match Config::parse(&edited, Path::new("the edited file")) {
        Ok(again) => {
            let left = differences(&again, running);
            left.first().map(|difference| format!("{} would still differ", difference.object))
        }
        Err(errors) => Some(errors.to_string()),
    };
    match wrong {
        None => Ok(edited),
        Some(wrong) => Err(format!(
            "the file cannot be edited to say what runs: {wrong}; edit it by hand: `sluice config \
             diff` lists the differences"
        )),
    }
}

/// Returns the objects of a list in its order.
fn entries<T: Object>(list: &[T]) -> Vec<Entry> {
    list.iter().map(|object| (object.id(), object.text())).collect()
}

/// Parses keys, a line for each.
fn parsed(keys: &str) -> Result<Table, String> {
    let document: DocumentMut =
        keys.parse().map_err(|error: TomlError| error.message().to_owned())?;
    Ok(document.into_table())
}

fn new_table(keys: &str) -> Result<Table, String> {
    let mut table = Table::new();
    for (key, item) in parsed(keys)?.iter() {
        table.insert(key, item.clone());
    }
    Ok(table)
}

/// Changes the keys of a table that differ between `old` and `new`.
fn change(table: &mut Table, old: &str, new: &str) -> Result<(), String> {
    let (old, new) = (parsed(old)?, parsed(new)?);
    for (key, _) in old.iter().filter(|(key, _)| !new.contains_key(key)) {
        table.remove(key);
        forget_former(table, key);
    }
    for (key, item) in new.iter() {
        let is_same = old.get(key).is_some_and(|old| old.to_string() == item.to_string());
        if !is_same {
            put(table, key, item.clone());
        }
    }
    Ok(())
}

/// Removes a key that is written by its former name.
fn forget_former(table: &mut Table, key: &str) {
    if let Some(was) = former_name(key) {
        table.remove(was);
    }
}

/// Sets a key, and keeps the comments beside and above it.
fn put(table: &mut Table, key: &str, mut item: Item) {
    let before = table.get(key).and_then(Item::as_value).map(|value| value.decor().clone());
    if let (Some(value), Some(decor)) = (item.as_value_mut(), before) {
        *value.decor_mut() = decor;
    }
    match table.get_mut(key) {
        Some(place) => *place = item,
        None => {
            forget_former(table, key);
            table.insert(key, item);
        }
    }
}

/// Changes the keys of the table `[key]`, which may be missing.
fn settings(root: &mut Table, key: &str, old: &str, new: &str) -> Result<(), String> {
    if old == new {
        return Ok(());
    }
    let table = root.entry(key).or_insert_with(toml_edit::table).as_table_mut();
    change(table.ok_or_else(|| inline(key, &format!("[{key}]")))?, old, new)
}

/// Returns the tables of `[[key]]`, of which there may be none.
fn tables<'a>(parent: &'a mut Table, key: &str) -> Result<&'a mut ArrayOfTables, String> {
    let none = || Item::ArrayOfTables(ArrayOfTables::new());
    let item = parent.entry(key).or_insert_with(none);
    item.as_array_of_tables_mut().ok_or_else(|| inline(key, &format!("[[{key}]]")))
}

/// Returns the message for a table that is written inline, which this module does not edit.
fn inline(key: &str, title: &str) -> String {
    format!("the file writes `{key}` inline; write it as {title} on lines of its own")
}

/// Changes, removes and adds the objects of `[[key]]`, which are in the order of `old`.
fn list(parent: &mut Table, key: &str, old: &[Entry], new: &[Entry]) -> Result<(), String> {
    if old == new {
        return Ok(());
    }
    let tables = tables(parent, key)?;
    let wanted: BTreeMap<&str, &str> = by_id(new);
    for (table, (id, before)) in tables.iter_mut().zip(old) {
        if let Some(after) = wanted.get(id.as_str()) {
            change(table, before, after)?;
        }
    }
    // The last one first, so that the places of the others stay.
    for (place, (id, _)) in old.iter().enumerate().rev() {
        if !wanted.contains_key(id.as_str()) && place < tables.len() {
            tables.remove(place);
        }
    }
    let known = by_id(old);
    for (_, keys) in new.iter().filter(|(id, _)| !known.contains_key(id.as_str())) {
        tables.push(new_table(keys)?);
    }
    Ok(())
}

fn by_id(entries: &[Entry]) -> BTreeMap<&str, &str> {
    entries.iter().map(|(id, keys)| (id.as_str(), keys.as_str())).collect()
}

/// Writes the keys that the tables of `[[key]]` leave out; their `name` is the identifier.
fn complete(root: &mut Table, key: &str, entries: &[Entry]) -> Result<(), String> {
    let wanted = by_id(entries);
    let Some(tables) = root.get_mut(key).and_then(Item::as_array_of_tables_mut) else {
        return Ok(());
    };
    for table in tables.iter_mut() {
        let name = table.get("name").and_then(Item::as_str);
        let Some(keys) = name.and_then(|name| wanted.get(name)) else { continue };
        for (key, item) in parsed(keys)?.iter() {
            if !table.contains_key(key) {
                table.insert(key, item.clone());
            }
        }
    }
    Ok(())
}

fn subsystems(root: &mut Table, old: &[Subsystem], new: &[Subsystem]) -> Result<(), String> {
    if old == new {
        return Ok(());
    }
    let tables = tables(root, "subsystem")?;
    let wanted: BTreeMap<&str, &Subsystem> = new.iter().map(|s| (s.nqn.as_str(), s)).collect();
    for (table, before) in tables.iter_mut().zip(old) {
        if let Some(after) = wanted.get(before.nqn.as_str()) {
            subsystem(table, before, after)?;
        }
    }
    for (place, before) in old.iter().enumerate().rev() {
        if !wanted.contains_key(before.nqn.as_str()) && place < tables.len() {
            tables.remove(place);
        }
    }
    for after in new.iter().filter(|after| !old.iter().any(|before| before.nqn == after.nqn)) {
        let empty = bare(after);
        let mut table = new_table(&keys(&empty))?;
        subsystem(&mut table, &empty, after)?;
        tables.push(table);
    }
    Ok(())
}

/// Returns a subsystem without its hosts and namespaces.
fn bare(subsystem: &Subsystem) -> Subsystem {
    Subsystem { hosts: Vec::new(), namespaces: Vec::new(), ..subsystem.clone() }
}

fn subsystem(table: &mut Table, old: &Subsystem, new: &Subsystem) -> Result<(), String> {
    change(table, &keys(&bare(old)), &keys(&bare(new)))?;
    hosts(table, &old.hosts, &new.hosts)?;
    let namespaces = |subsystem: &Subsystem| -> Vec<Entry> {
        let all = subsystem.namespaces.iter();
        all.map(|namespace| (namespace.id().to_string(), keys(namespace))).collect()
    };
    let (before, after) = (namespaces(old), namespaces(new));
    let ids = |entries: &[Entry]| -> BTreeSet<String> {
        entries.iter().map(|(id, _)| id.clone()).collect()
    };
    if ids(&before) != ids(&after) {
        // A namespace without an NSID has the lowest that is free, which may be another one now.
        let nsids = old.namespaces.iter().map(|namespace| i64::from(namespace.id()));
        for (table, nsid) in tables(table, "namespace")?.iter_mut().zip(nsids) {
            if !table.contains_key("nsid") {
                table.insert("nsid", toml_edit::value(nsid));
            }
        }
    }
    list(table, "namespace", &before, &after)
}

/// Changes the hosts of a subsystem: in `hosts`, which lists hosts without settings, and in `[[subsystem.host]]`.
fn hosts(table: &mut Table, old: &[AllowedHost], new: &[AllowedHost]) -> Result<(), String> {
    if old == new {
        return Ok(());
    }
    // The hosts that have no table yet.
    let mut left: BTreeMap<&str, &AllowedHost> =
        new.iter().map(|host| (host.nqn.as_str(), host)).collect();
    if table.contains_key("host") {
        let tables = tables(table, "host")?;
        tables.retain(|table| name(table).is_some_and(|nqn| left.contains_key(nqn)));
        for table in tables.iter_mut() {
            let Some(after) = name(table).and_then(|nqn| left.remove(nqn)) else { continue };
            let before = old.iter().find(|before| before.nqn == after.nqn);
            change(table, &before.map(keys).unwrap_or_default(), &keys(after))?;
        }
    }
    let plain: BTreeSet<&str> =
        left.values().filter(|host| host.is_plain()).map(|host| host.nqn.as_str()).collect();
    if table.contains_key("hosts") || !plain.is_empty() {
        let none = || Item::Value(Value::Array(Array::new()));
        let array = table.entry("hosts").or_insert_with(none).as_array_mut();
        let array = array.ok_or("`hosts` is not a list")?;
        array.retain(|value| value.as_str().is_some_and(|nqn| plain.contains(nqn)));
        let known: BTreeSet<String> =
            array.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        for host in new.iter().filter(|host| plain.contains(host.nqn.as_str())) {
            if !known.contains(&host.nqn) {
                array.push(host.nqn.as_str());
            }
        }
    }
    let limited = |host: &&AllowedHost| !host.is_plain() && left.contains_key(host.nqn.as_str());
    for host in new.iter().filter(limited) {
        tables(table, "host")?.push(new_table(&keys(host))?);
    }
    Ok(())
}

/// Returns the NQN in the table of a host.
fn name(table: &Table) -> Option<&str> {
    table.get("nqn").and_then(Item::as_str)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use sluice_config::render;
    use sluice_config::testing::{configs, parse};

    const FILE: &str = r#"# The target of rack 7.

[[listener]]
address = "127.0.0.1:4420" # storage network

[network]
capacity = "25 Gbit/s" # measured

# Disks of the database.
[[subsystem]]
nqn = "nqn.2026-01.io.x:a"
# Used by the payroll.
hosts = [
    "nqn.2026-01.io.x:h0", # first
    "nqn.2026-01.io.x:h1", # second
]

[[subsystem.namespace]]
backend = "null"
size = "8 KiB" # small

[[subsystem.namespace]]
backend = "null"
size = "16 KiB"

# Scratch.
[[subsystem]]
nqn = "nqn.2026-01.io.x:b"
"#;

    fn edited(change: impl FnOnce(&mut Config)) -> String {
        let file = parse(FILE).unwrap();
        let mut running = file.clone();
        change(&mut running);
        edit(FILE, &file, &running).unwrap()
    }

    #[test]
    fn nothing_changes_without_a_difference() {
        assert_eq!(edited(|_| ()), FILE);
    }

    #[test]
    fn a_key_that_changes_keeps_its_comment() {
        let text = edited(|config| config.network.link.capacity = Some(10_000_000_000));
        assert_eq!(text, FILE.replace("\"25 Gbit/s\"", "\"10 Gbit/s\""));
    }

    #[test]
    fn a_key_of_a_former_name_gets_its_name_when_it_changes() {
        let text = "[[session]]\nname = \"gold\"\noperations = \"50 %\"\npayload = \"5 %\"\n";
        let file = parse(text).unwrap();
        let mut running = file.clone();
        running.qos.sessions[0].operations = Some(60);
        let edited = edit(text, &file, &running).unwrap();
        assert!(edited.contains("credit_share = \"60 %\"") && edited.contains("payload = \"5 %\""));
        running.qos.sessions[0].payload = None;
        let edited = edit(text, &file, &running).unwrap();
        assert!(!edited.contains("operations") && !edited.contains("payload"), "{edited}");
    }

    #[test]
    fn a_removed_namespace_leaves_the_numbers_of_the_others() {
        let text = edited(|config| drop(config.subsystems[0].namespaces.remove(0)));
        assert!(!text.contains("8 KiB") && text.contains("nsid = 2"), "{text}");
        assert!(text.contains("# Used by the payroll") && text.contains("# Scratch."), "{text}");
    }

    #[test]
    fn hosts_keep_the_comments_of_the_others() {
        let text = edited(|config| {
            let hosts = &mut config.subsystems[0].hosts;
            hosts.remove(0);
            hosts.push(AllowedHost::from("nqn.2026-01.io.x:h2".to_owned()));
            let mut limited = AllowedHost::from("nqn.2026-01.io.x:h3".to_owned());
            limited.rights.read_only = true;
            hosts.push(limited);
        });
        assert!(text.contains("# second") && text.contains("x:h2"), "{text}");
        assert!(!text.contains("x:h0") && text.contains("[[subsystem.host]]"), "{text}");
    }

    #[test]
    fn objects_are_added_and_removed_at_their_places() {
        let text = edited(|config| {
            let mut new = config.subsystems[0].clone();
            new.nqn = "nqn.2026-01.io.x:c".to_owned();
            config.subsystems.retain(|subsystem| subsystem.nqn != "nqn.2026-01.io.x:b");
            config.subsystems.push(new);
            config.listeners[0].class = Some(arbitration::Class::High);
        });
        assert!(text.contains("# storage network\nclass = \"high\""), "{text}");
        assert!(text.contains("x:c") && !text.contains("x:b"), "{text}");
        assert!(text.starts_with("# The target of rack 7."), "{text}");
    }

    #[test]
    fn a_list_that_is_written_inline_is_refused_with_the_remedy() {
        let text = "listener = [{ address = \"127.0.0.1:4420\" }]\n";
        let file = parse(text).unwrap();
        let mut running = file.clone();
        running.listeners.clear();
        let why = edit(text, &file, &running).unwrap_err();
        assert!(why.contains("[[listener]]"), "{why}");
    }

    proptest! {
        /// Every file can be edited into every other one: [`edit`] itself checks the result.
        #[test]
        fn every_configuration_can_be_written_over_every_other(
            file in configs(),
            running in configs(),
        ) {
            let text = render(&file);
            let mut running = running;
            running.target = file.target.clone();
            running.pmem.general = file.pmem.general.clone();
            // Settings that depend on `[target]` and `[pmem]` may not fit the other configuration's.
            if Config::parse(&render(&running), Path::new("f")).is_ok() {
                prop_assert!(edit(&text, &parse(&text).unwrap(), &running).is_ok());
            }
        }
    }
}
