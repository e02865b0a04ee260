//! The scenario that a load on a configured target is.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use arbitration::Class;
use sluice_config::amounts::{format_duration, format_size};
use toml::{Table, Value};

use super::config::{Config, Namespace, size};
use super::device::{self, Known};
use super::flow::{self, Flow};
use super::load::{Load, Loads};
use crate::model::Transport;

/// Credits from which on the daemon does not count commands, and bytes.
const UNCOUNTED: (i64, u64) = (65_536, 1 << 40);
/// Rate of the target's cable where nobody names one.
const FAST: &str = "100 Gbit/s";
/// The largest transfer of one command where the configuration names none, in bytes.
const MAX_TRANSFER: u64 = 1 << 20;
/// Entries of an I/O queue where the configuration names none.
const QUEUE_DEPTH: u16 = 256;
/// The most accesses outstanding of a closed loop in a scenario.
const OUTSTANDING: u32 = 65_536;

/// The commands of a host in a class and a session: what one `[[host]]` of the scenario has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// NQN of the host.
    pub(super) host: String,
    /// Hosts that are alike.
    pub(super) count: u32,
    pub(super) class: Class,
    pub(super) session: String,
    pub(super) transport: Transport,
    /// NQN and NSID of each namespace.
    pub(super) namespaces: BTreeSet<(String, u32)>,
    /// Name of the `[[host]]`.
    pub(super) entry: String,
}

/// A scenario, and the groups of its hosts.
#[derive(Clone, Debug)]
pub(super) struct Made {
    /// The scenario, which `sluice sim run` runs as well.
    pub(super) text: String,
    pub(super) groups: Vec<Group>,
    /// Parts that are not modelled, in sentences.
    pub(super) notes: Vec<String>,
}

/// The times of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) warmup: Duration,
    pub(super) duration: Duration,
}

/// Makes the scenario.
///
/// # Errors
///
/// A load names an item that is not configured, or exceeds the target's limits; or a device is not known. The error
/// names the key and the remedy.
pub(super) fn make(
    config: &Config,
    loads: &Loads,
    known: &Known,
    times: Times,
) -> anyhow::Result<Made> {
    let mut notes = Vec::new();
    let mut groups: Vec<Group> = Vec::new();
    let mut hosts: Vec<Table> = Vec::new();
    let mut namespaces: Vec<(String, u32)> = Vec::new();
    for (number, load) in (1..).zip(&loads.loads) {
        check(config, number, load)?;
        let flow = flow::resolve(config, number, load, &mut notes)?;
        if !namespaces.contains(&load.namespace) {
            namespaces.push(load.namespace.clone());
        }
        let nsid = namespaces.iter().position(|one| *one == load.namespace).unwrap_or(0) + 1;
        let before = groups.iter().find(|group| group.host == load.host);
        if let Some(before) = before.filter(|group| group.transport != flow.transport) {
            bail!(
                "`load {number}.transport`: {} comes over {} here, and over {} in a load before: hosts with \
                 several paths are not modelled: write one `transport` for all of its loads",
                load.host,
                flow.transport.name(),
                before.transport.name()
            );
        }
        let place = group(&mut groups, load, &flow);
        if place == hosts.len() {
            hosts.push(Table::new());
        }
        if let (Some(host), Some(group)) = (hosts.get_mut(place), groups.get_mut(place)) {
            group.namespaces.insert(load.namespace.clone());
            host_keys(host, group);
            add(host, load, nsid)?;
        }
    }
    let mut scenario = Table::new();
    let title = match loads.title.as_str() {
        "" => "Prediction",
        title => title,
    };
    put(&mut scenario, "title", title);
    put(&mut scenario, "warmup", format_duration(times.warmup));
    put(&mut scenario, "duration", format_duration(times.duration));
    put(&mut scenario, "topology", topology(config, loads));
    put(&mut scenario, "target", target(config));
    put(&mut scenario, "qos", qos(config));
    put(&mut scenario, "network", network(config));
    let tables: Vec<Value> = namespaces
        .iter()
        .map(|(nqn, nsid)| Ok(Value::Table(namespace(config, (nqn, *nsid), known, &mut notes)?)))
        .collect::<anyhow::Result<_>>()?;
    let in_memory: Vec<bool> =
        tables.iter().map(|one| one.get("device") == Some(&Value::from("memory"))).collect();
    put(&mut scenario, "namespace", Value::Array(tables));
    let reservable = Reservable { namespaces: &namespaces, in_memory: &in_memory };
    let sessions = sessions(config, &groups, &reservable, &mut notes);
    put(&mut scenario, "session", sessions);
    let hosts: Vec<Value> = hosts.into_iter().map(Value::Table).collect();
    put(&mut scenario, "host", hosts);
    notes.sort();
    notes.dedup();
    let text = toml::to_string(&scenario).context("a scenario is TOML")?;
    Ok(Made { text, groups, notes })
}

/// Checks a load against the target.
fn check(config: &Config, number: usize, load: &Load) -> anyhow::Result<()> {
    let entries = config.target.queue_depth.unwrap_or(QUEUE_DEPTH);
    ensure!(
        load.depth < entries,
        "`load {number}.depth` is {}: the target's `queue_depth` is {entries}: write at most {}, or more \
         `connections`",
        load.depth,
        entries.saturating_sub(1)
    );
    let all = u32::from(load.depth) * u32::from(load.connections);
    ensure!(
        all <= OUTSTANDING,
        "`load {number}.depth` with `connections` is {all} commands: write at most {OUTSTANDING} together"
    );
    let most = config.target.max_transfer.as_ref().and_then(size).unwrap_or(MAX_TRANSFER);
    ensure!(
        load.bytes <= most,
        "`load {number}.bs` is {} bytes: the target's `max_transfer` is {most}: write no more",
        load.bytes
    );
    let (nqn, nsid) = &load.namespace;
    // A missing namespace is reported with its load's class and session.
    let namespace = config.namespace(nqn, *nsid).ok();
    if let Some(room) = namespace.and_then(|of| of.size.as_ref()).and_then(size) {
        ensure!(
            load.bytes <= room,
            "`load {number}.bs` is {} bytes: {nqn}/{nsid} has {room}: write no more",
            load.bytes
        );
    }
    Ok(())
}

/// Finds the group of a load, or makes one at the end. Returns its place.
fn group(groups: &mut Vec<Group>, load: &Load, flow: &Flow) -> usize {
    let same = |group: &Group| {
        (&group.host, group.count) == (&load.host, load.count)
            && (group.class, &group.session) == (flow.class, &flow.session)
    };
    if let Some(place) = groups.iter().position(same) {
        return place;
    }
    // The end of an NQN distinguishes hosts for a reader.
    let tail = load.host.rsplit(':').next().unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = tail.chars().take(60).map(plain).collect();
    let name = format!("{name}.{}", groups.len() + 1);
    groups.push(Group {
        host: load.host.clone(),
        count: load.count,
        class: flow.class,
        session: flow.session.clone(),
        transport: flow.transport,
        namespaces: BTreeSet::new(),
        entry: name,
    });
    groups.len() - 1
}

/// Writes the keys of a host that do not depend on a load.
fn host_keys(host: &mut Table, group: &Group) {
    put(host, "name", group.entry.as_str());
    put(host, "count", i64::from(group.count));
    if group.transport == Transport::Rdma {
        put(host, "transport", group.transport.name());
    }
    put(host, "class", group.class.name());
    put(host, "session", group.session.as_str());
}

fn add(host: &mut Table, load: &Load, namespace: usize) -> anyhow::Result<()> {
    let before = |key: &str| host.get(key).and_then(Value::as_integer).unwrap_or(0);
    let queues = before("queues") + i64::from(load.connections);
    let depth = before("depth").max(i64::from(load.depth));
    put(host, "queues", queues);
    put(host, "depth", depth);
    let mut keys = Table::new();
    match load.rate {
        None => {
            put(&mut keys, "process", "closed");
            put(&mut keys, "depth", i64::from(load.depth) * i64::from(load.connections));
        }
        Some((rate, poisson)) => {
            put(&mut keys, "process", if poisson { "poisson" } else { "constant" });
            put(&mut keys, "rate", rate);
        }
    }
    put(&mut keys, "namespace", i64::try_from(namespace)?);
    put(&mut keys, "size", format_size(load.bytes));
    put(&mut keys, "reads", format!("{} %", load.reads));
    put(&mut keys, "places", if load.random { "random" } else { "sequential" });
    let loads = host.entry("load").or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(loads) = loads {
        loads.push(Value::Table(keys));
    }
    Ok(())
}

/// Makes `[topology]`: all at one switch.
fn topology(config: &Config, loads: &Loads) -> Table {
    let capacity = config.network.get("capacity").and_then(Value::as_str);
    let capacity = capacity.filter(|capacity| *capacity != "auto").unwrap_or(FAST);
    let target = loads.network.target_rate.as_deref().unwrap_or(capacity);
    let mut table = Table::new();
    put(&mut table, "kind", "rack");
    put(&mut table, "rate", loads.network.rate.as_deref().unwrap_or(target));
    put(&mut table, "target_rate", target);
    if let Some(delay) = &loads.network.delay {
        put(&mut table, "delay", delay.as_str());
    }
    table
}

/// Makes `[target]`.
fn target(config: &Config) -> Table {
    let of = &config.target;
    let mut table = Table::new();
    let reactors = of.cores.as_ref().map_or(1, Vec::len);
    put(&mut table, "reactors", i64::try_from(reactors).unwrap_or(1));
    let sizes = [
        ("io_memory", &of.io_memory),
        ("max_transfer", &of.max_transfer),
        ("in_capsule_data", &of.in_capsule_data),
        ("rdma_in_capsule_data", &of.rdma_in_capsule_data),
    ];
    for (key, value) in sizes {
        copy(&mut table, key, value.as_ref());
    }
    if let Some(depth) = of.queue_depth {
        put(&mut table, "queue_depth", i64::from(depth));
    }
    table
}

/// Makes `[qos]`.
fn qos(config: &Config) -> Table {
    const SAME: [&str; 11] = [
        "enabled",
        "weights",
        "unit",
        "burst",
        "urgent_share",
        "window",
        "latency_target",
        "window_max",
        "queue",
        "wrr",
        "mark",
    ];
    let mut table = Table::new();
    for key in SAME {
        copy(&mut table, key, config.qos.get(key));
    }
    // Credits are counted only where there are fewer than there can be commands.
    // `operations` is the former name.
    let credits = config.qos.get("credits").or_else(|| config.qos.get("operations"));
    let counts = credits.and_then(Value::as_integer).is_some_and(|n| n < UNCOUNTED.0);
    copy(&mut table, "credits", credits.filter(|_| counts));
    let payload = config.qos.get("payload");
    let counts = payload.and_then(size).is_some_and(|bytes| bytes < UNCOUNTED.1);
    copy(&mut table, "payload", payload.filter(|_| counts));
    if !config.arbitrates() {
        put(&mut table, "window", "off");
    }
    table
}

/// Makes `[network]`.
fn network(config: &Config) -> Table {
    let mut table = Table::new();
    for key in ["enabled", "writes", "capacity", "classes"] {
        copy(&mut table, key, config.network.get(key));
    }
    table
}

/// Makes a `[[namespace]]`.
fn namespace(
    config: &Config,
    (nqn, nsid): (&str, u32),
    known: &Known,
    notes: &mut Vec<String>,
) -> anyhow::Result<Table> {
    let of: &Namespace = config.namespace(nqn, nsid)?;
    let mut table = device::keys((nqn, nsid), of, known, notes)?;
    copy(&mut table, "size", of.size.as_ref());
    if config.arbitrates() {
        copy(&mut table, "window", of.window.as_ref());
        copy(&mut table, "window_max", of.window_max.map(Value::from).as_ref());
        let texts = [
            ("latency_target", &of.latency_target),
            ("mean_time", &of.mean_time),
            ("worst_time", &of.worst_time),
        ];
        for (key, text) in texts {
            copy(&mut table, key, text.clone().map(Value::from).as_ref());
        }
        copy(&mut table, "parallelism", of.parallelism.map(Value::from).as_ref());
    }
    if of.order.as_deref() == Some("containers") {
        notes.push(format!("{nqn}/{nsid}: its order by containers is left out"));
    }
    Ok(table)
}

/// The namespaces of a scenario, on which sessions can reserve.
struct Reservable<'a> {
    namespaces: &'a [(String, u32)],
    /// Whether commands of each are carried out on the spot.
    in_memory: &'a [bool],
}

/// Makes the `[[session]]`s, a parent before its children: the configured sessions, and the implicit sessions of
/// subsystems and namespaces.
fn sessions(
    config: &Config,
    groups: &[Group],
    reservable: &Reservable<'_>,
    notes: &mut Vec<String>,
) -> Vec<Value> {
    let name = |table: &Table| table.get("name").and_then(Value::as_str).map(str::to_owned);
    let mut wanted: Vec<String> = config.sessions.iter().filter_map(name).collect();
    wanted.extend(groups.iter().map(|group| group.session.clone()));
    let mut done: BTreeSet<String> = BTreeSet::new();
    let mut tables = Vec::new();
    for session in wanted {
        // The session, then those above it.
        let mut chain = Vec::new();
        let mut next = Some(session);
        while let Some(session) = next.filter(|one| one != "root" && !done.contains(one)) {
            done.insert(session.clone());
            let own = config.sessions.iter().find(|table| name(table).as_ref() == Some(&session));
            let above = own.and_then(|own| own.get("parent")?.as_str().map(str::to_owned));
            let subsystem = || {
                let (nqn, _) = session.rsplit_once('/')?;
                config.subsystems.iter().any(|one| one.nqn == nqn).then(|| nqn.to_owned())
            };
            let parent = above.or_else(subsystem).filter(|parent| parent != "root");
            let mut table = own.filter(|_| config.arbitrates()).cloned().unwrap_or_default();
            put(&mut table, "name", session.as_str());
            table.remove("parent");
            copy(&mut table, "parent", parent.clone().map(Value::from).as_ref());
            limits(&mut table, &session, &config.profiles, notes);
            reserve(&mut table, &session, reservable, notes);
            chain.push(Value::Table(table));
            next = parent;
        }
        tables.extend(chain.into_iter().rev());
    }
    tables
}

/// Replaces a session's profile by the profile's limits that the session does not set; leaves limits per
/// GiB out.
fn limits(table: &mut Table, session: &str, profiles: &[Table], notes: &mut Vec<String>) {
    let named = table.remove("profile");
    let profile = profiles.iter().find(|profile| profile.get("name") == named.as_ref());
    for (key, value) in profile.into_iter().flatten() {
        table.entry(key.as_str()).or_insert_with(|| value.clone());
    }
    let per_gib = ["iops_per_gib", "bandwidth_per_gib"].map(|key| table.remove(key).is_some());
    if per_gib.contains(&true) {
        notes.push(format!("the limits per GiB of session {session} are left out"));
    }
}

/// Names the namespace of a reservation by its number; leaves the reservation out where no load goes
/// there, or commands do not wait.
fn reserve(table: &mut Table, session: &str, of: &Reservable<'_>, notes: &mut Vec<String>) {
    let Some(Value::Table(mut reserve)) = table.remove("reserve") else { return };
    let name = reserve.get("namespace").and_then(Value::as_str).unwrap_or(session).to_owned();
    let same = |(nqn, nsid): &(String, u32)| format!("{nqn}/{nsid}") == name;
    let Some(place) = of.namespaces.iter().position(same) else { return };
    if of.in_memory.get(place).copied().unwrap_or(false) {
        notes.push(format!(
            "the reservation of session {session} is left out: commands to {name} do not wait"
        ));
        return;
    }
    put(&mut reserve, "namespace", i64::try_from(place + 1).unwrap_or(i64::MAX));
    put(table, "reserve", reserve);
}

fn put(table: &mut Table, key: &str, value: impl Into<Value>) {
    table.insert(key.to_owned(), value.into());
}

fn copy(table: &mut Table, key: &str, value: Option<&Value>) {
    if let Some(value) = value {
        put(table, key, value.clone());
    }
}
