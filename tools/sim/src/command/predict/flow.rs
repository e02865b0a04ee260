//! The class and the session of a load's commands, as the daemon decides them.

use anyhow::{Context as _, bail, ensure};
use arbitration::classify::{Classifier, ConnectionClass, PolicyClass};
use arbitration::{Class, Nanos};

use super::config::{Config, Listener, Namespace, Policy, list};
use super::load::Load;
use crate::model::Transport;

/// Class, session and transport that the daemon assigns to a load's commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    pub(super) class: Class,
    pub(super) session: String,
    pub(super) transport: Transport,
}

/// Finds the class and the session of load `number`, counted from 1. Adds to `notes` the parts that are not modelled.
///
/// # Errors
///
/// The load names a listener or a namespace that is not there, or has to name a listener, or its host
/// may not do it.
pub(super) fn resolve(
    config: &Config,
    number: usize,
    load: &Load,
    notes: &mut Vec<String>,
) -> anyhow::Result<Flow> {
    let (nqn, nsid) = (&load.namespace.0, load.namespace.1);
    let namespace =
        config.namespace(nqn, nsid).with_context(|| format!("`load {number}.namespace`"))?;
    let most = rights(config, number, load, namespace)?;
    let listener = listener(config, number, load)?;
    network(config, number, (load, listener), notes);
    if let Some(link) = listener.and_then(|of| of.link.as_ref()).filter(|link| *link != "default") {
        notes.push(format!("load {number}: the link {link} is taken to be the default one"));
    }
    let fitting = fitting(config, number, load, notes);
    let first = |of: fn(&Policy) -> Option<super::config::ClassName>| {
        fitting.iter().find_map(|policy| of(policy)).map(Class::from)
    };
    if let Some(limit) = fitting.iter().find_map(|policy| policy.urgent_iops.map(|limit| limit.0)) {
        notes.push(format!(
            "load {number}: the limit of {limit} Urgent commands a second is left out"
        ));
    }
    let policy = PolicyClass {
        class: first(|policy| policy.class).or(namespace.class.map(Class::from)),
        max_class: first(|policy| policy.max_class),
        urgent: None,
    };
    let policy = match most {
        Some(most) => policy.at_most(most),
        None => policy,
    };
    let connection = ConnectionClass {
        priority: 0,
        weighted: false,
        dscp: None,
        listener: listener.and_then(|listener| listener.class).map(Class::from),
    };
    // Low has no name in a command, and is inherited.
    let named = load.class.filter(|class| *class != Class::Low);
    let class = Classifier::new(&connection, policy).class(Nanos(0), named);
    let session = fitting.iter().find_map(|policy| policy.session.clone());
    Ok(Flow {
        class,
        session: session.unwrap_or_else(|| format!("{nqn}/{nsid}")),
        transport: load.transport.or(listener.map(Listener::transport)).unwrap_or(Transport::Tcp),
    })
}

/// Checks that the host of a load may do it. Returns the highest class of the host, where it has one.
fn rights(
    config: &Config,
    number: usize,
    load: &Load,
    namespace: &Namespace,
) -> anyhow::Result<Option<Class>> {
    let (host, (nqn, nsid)) = (&load.host, &load.namespace);
    if let Some(named) = namespace.hosts.as_ref() {
        let is_named = |host: &String| named.contains(host);
        // Hosts that are alike are numbered.
        let numbered = || (1..=load.count).all(|at| is_named(&format!("{host}-{at}")));
        ensure!(
            is_named(host) || load.count > 1 && numbered(),
            "`load {number}.namespace`: {host} does not see {nqn}/{nsid}, whose `hosts` are {}: name the \
             host there",
            list(named)
        );
    }
    let Some(rights) = config.host(nqn, host) else { return Ok(None) };
    if let Some(seen) = rights.namespaces.as_ref() {
        let names: Vec<String> = seen.iter().map(u32::to_string).collect();
        ensure!(
            seen.contains(nsid),
            "`load {number}.namespace`: {host} does not see {nqn}/{nsid}: its [[subsystem.host]] has \
             `namespaces` {}: write one of them, or add {nsid} there",
            list(&names)
        );
    }
    ensure!(
        !rights.read_only || load.reads == 100,
        "`load {number}.rw`: {host} may only read: its [[subsystem.host]] has `read_only`: write \
         randread or read, or take `read_only` away"
    );
    Ok(rights.max_class.map(Class::from))
}

/// Notes the assumptions about a load's network, and that TLS is not modelled.
fn network(
    config: &Config,
    number: usize,
    (load, listener): (&Load, Option<&Listener>),
    notes: &mut Vec<String>,
) {
    let Some(listener) = listener else { return };
    let rdma = |of: &&Listener| of.transport() == Transport::Rdma;
    let usable = || config.listeners.iter().filter(|one| !one.discovery_only);
    let unnamed = load.listener.is_none() && usable().any(|one| rdma(&one));
    // RDMA and TCP have ports of their own.
    let both = usable().filter(rdma).any(|one| one.address == listener.address);
    if load.transport.is_none() && !rdma(&listener) && (unnamed || both) {
        notes.push(format!(
            "load {number}: its host is taken to come over TCP, as it may over RDMA: `transport` says which"
        ));
    }
    if rdma(&listener) {
        notes.push(format!("load {number}: adapters are taken to have DCQCN"));
    }
    match listener.tls.as_str() {
        "required" => notes.push(format!("load {number}: what TLS takes is left out")),
        "allowed" => notes.push(format!("load {number}: its host is taken to come without TLS")),
        _ => {}
    }
}

/// Finds the listener of a load: the named one, or any if all listeners of its transport have one class. Prefers TCP to
/// RDMA.
fn listener<'a>(
    config: &'a Config,
    number: usize,
    load: &Load,
) -> anyhow::Result<Option<&'a Listener>> {
    let all = config.listeners.iter().filter(|listener| !listener.discovery_only);
    let fits = |one: &&Listener| load.transport.is_none_or(|of| of == one.transport());
    let mut usable: Vec<&Listener> = all.clone().filter(fits).collect();
    usable.sort_by_key(|listener| listener.transport() == Transport::Rdma);
    let none =
        usable.is_empty() && (load.transport == Some(Transport::Rdma) || all.clone().count() > 0);
    if let Some(transport) = load.transport.filter(|_| none) {
        let name = transport.name();
        bail!(
            "`load {number}.transport` is \"{name}\": the configuration has no such listener: add a \
             [[listener]] with `transport = \"{name}\"`, or write another transport"
        );
    }
    let names = || {
        let name = |one: &&Listener| match one.class {
            Some(class) => format!("{} ({})", one.address, Class::from(class).name()),
            None => one.address.clone(),
        };
        list(&usable.iter().map(name).collect::<Vec<_>>())
    };
    match (&load.listener, usable.split_first()) {
        (Some(address), _) => {
            let found = usable.iter().find(|one| one.address == *address);
            let other = all.clone().find(|one| one.address == *address);
            found.copied().map(Some).with_context(|| match other {
                Some(other) => format!(
                    "`load {number}.transport` is \"{}\": the listener {address} is of {}: write that, or \
                     as `listener` one of {}",
                    load.transport.map_or("", Transport::name),
                    other.transport().name(),
                    names()
                ),
                None => {
                    format!("`load {number}.listener` is \"{address}\": write one of {}", names())
                }
            })
        }
        (None, Some((first, rest))) if rest.iter().any(|other| other.class != first.class) => {
            bail!(
                "`load {number}.listener` is missing, and listeners have different classes: write one of \
                 {}",
                names()
            )
        }
        (None, first) => Ok(first.map(|(first, _)| *first)),
    }
}

/// Returns the policies that fit a load, in the daemon's order: policies that name more of host, subsystem and
/// namespace come first. Among equally specific policies, those with a host come first.
fn fitting<'a>(
    config: &'a Config,
    number: usize,
    load: &Load,
    notes: &mut Vec<String>,
) -> Vec<&'a Policy> {
    let (host, nqn) = (Some(load.host.as_str()), Some(load.namespace.0.as_str()));
    let nsid = Some(load.namespace.1);
    let scopes = [
        (host, nqn, nsid),
        (host, nqn, None),
        (None, nqn, nsid),
        (host, None, None),
        (None, nqn, None),
        (None, None, None),
    ];
    let mut fitting = Vec::new();
    for scope in scopes {
        let same = config.policies.iter().filter(|policy| {
            (policy.host.as_deref(), policy.subsystem.as_deref(), policy.nsid) == scope
        });
        for policy in same {
            match policy.addresses {
                Some(_) => notes.push(format!(
                    "load {number}: a policy for certain addresses is left out, since the load names none"
                )),
                None => fitting.push(policy),
            }
        }
    }
    fitting
}

#[cfg(test)]
mod tests {
    use super::super::config;
    use super::*;

    const CONFIG: &str = "
[[listener]]
address = '10.0.0.1:4420'
[[listener]]
address = '10.0.0.1:4421'
class = 'urgent'
[[listener]]
address = '10.0.0.1:8009'
discovery_only = true
[[subsystem]]
nqn = 'nqn.x:disk'
[[subsystem.namespace]]
backend = 'null'
class = 'medium'
[[subsystem.namespace]]
backend = 'null'
[[policy]]
host = 'nqn.x:web'
class = 'high'
[[policy]]
host = 'nqn.x:web'
subsystem = 'nqn.x:disk'
nsid = 2
max_class = 'low'
session = 'gold'
[[policy]]
subsystem = 'nqn.x:disk'
session = 'all'
[[policy]]
host = 'nqn.x:far'
addresses = ['10.1.0.0/16']
class = 'urgent'
urgent_iops = 5
";

    /// Returns the flow of a host's load on a namespace of the disk, with these lines more, and the notes.
    fn flow(
        config: &str,
        host: &str,
        nsid: u32,
        more: &str,
    ) -> Result<(Flow, Vec<String>), String> {
        let load =
            format!("[[load]]\nhost = 'nqn.x:{host}'\nnamespace = 'nqn.x:disk/{nsid}'\n{more}\n");
        let load = super::super::load::parse(&load).unwrap().loads.remove(0);
        let config = config::parse(config).unwrap();
        let mut notes = Vec::new();
        let flow = resolve(&config, 1, &load, &mut notes).map_err(|error| format!("{error:#}"))?;
        Ok((flow, notes))
    }

    /// Checks that loads are refused, each in words that have the last two texts.
    fn refused(config: &str, cases: &[(&str, u32, &str, &str, &str)]) {
        for (host, nsid, more, key, says) in cases {
            let error = flow(config, host, *nsid, more).unwrap_err();
            assert!(error.contains(key) && error.contains(says), "{key}, {says}: {error}");
        }
    }

    const PLAIN: &str = "listener = '10.0.0.1:4420'";

    #[test]
    fn classes_and_sessions_are_those_that_the_daemon_gives() {
        let named = format!("{PLAIN}\nclass = 'urgent'");
        for (host, nsid, more, class, session) in [
            // The namespace's class, and the subsystem's policy.
            ("db", 1, PLAIN, Class::Medium, "all"),
            ("db", 2, PLAIN, Class::Low, "all"),
            // The host's policy.
            ("web", 1, PLAIN, Class::High, "all"),
            // The most exact policy bounds the class, and has a session of its own.
            ("web", 2, PLAIN, Class::Low, "gold"),
            // The listener goes before policies, the command before the listener.
            ("web", 1, "listener = '10.0.0.1:4421'", Class::Urgent, "all"),
            ("db", 1, &named, Class::Urgent, "all"),
            ("web", 2, &named, Class::Low, "gold"),
            ("db", 1, "listener = '10.0.0.1:4420'\nclass = 'low'", Class::Medium, "all"),
        ] {
            let (flow, notes) = flow(CONFIG, host, nsid, more).unwrap();
            let found = (flow.class, &*flow.session, notes.len());
            assert_eq!(found, (class, session, 0), "{host} {nsid} {more}");
        }
        let (flow, notes) = flow(CONFIG, "far", 1, PLAIN).unwrap();
        assert_eq!((flow.class, notes.len()), (Class::Medium, 1), "an address policy is named");
    }

    /// The disk's hosts: one may do less than its policies say, and one more.
    const RIGHTS: &str = "
[[subsystem]]
nqn = 'nqn.x:disk'
[[subsystem.host]]
nqn = 'nqn.x:web'
namespaces = [1, 3]
max_class = 'medium'
[[subsystem.host]]
nqn = 'nqn.x:db'
read_only = true
max_class = 'high'
[[subsystem.namespace]]
backend = 'null'
class = 'urgent'
[[subsystem.namespace]]
backend = 'null'
hosts = ['nqn.x:db', 'nqn.x:many-1', 'nqn.x:many-2']
[[policy]]
host = 'nqn.x:web'
max_class = 'high'
[[policy]]
host = 'nqn.x:db'
max_class = 'low'
";

    #[test]
    fn a_host_has_the_lower_of_its_own_highest_class_and_the_policys() {
        for (host, more, class) in [
            ("web", "", Class::Medium),
            ("web", "class = 'urgent'", Class::Medium),
            ("db", "class = 'urgent'", Class::Low),
            ("far", "", Class::Urgent),
        ] {
            let (flow, _) = flow(RIGHTS, host, 1, more).unwrap();
            assert_eq!(flow.class, class, "{host} {more}");
        }
    }

    #[test]
    fn a_load_that_its_host_may_not_run_names_its_key_and_the_remedy() {
        let cases = [
            ("web", 2, "", "`load 1.namespace`", "name the host there"),
            ("many", 2, "", "`load 1.namespace`", "name the host there"),
            ("many", 2, "count = 3", "`load 1.namespace`", "name the host there"),
            ("db", 1, "rw = 'randwrite'", "`load 1.rw`", "randread or read"),
            ("db", 2, "rw = 'rw'", "`load 1.rw`", "`read_only`"),
        ];
        refused(RIGHTS, &cases);
        let open = RIGHTS.replace("hosts =", "unread =");
        refused(&open, &[("web", 2, "", "`load 1.namespace`", "1, 3")]);
        for (host, nsid, more) in
            [("db", 2, "rw = 'read'"), ("many", 2, "count = 2"), ("web", 1, "rw = 'write'")]
        {
            flow(RIGHTS, host, nsid, more).unwrap();
        }
    }

    /// Returns a configuration of a disk with these listeners.
    fn with(listeners: &str) -> String {
        let disk = "[[subsystem]]\nnqn = 'nqn.x:disk'\n[[subsystem.namespace]]\nbackend = 'null'\n";
        format!("{listeners}{disk}")
    }

    fn of(port: u16, more: &str) -> String {
        format!("[[listener]]\naddress = '10.0.0.1:{port}'\n{more}\n")
    }

    const RDMA: &str = "transport = 'rdma'";

    #[test]
    fn a_host_comes_over_the_transport_of_its_listener_and_what_is_taken_is_noted() {
        use Transport::{Rdma, Tcp};
        let (rdma, tcp) = (of(4420, RDMA), of(4420, ""));
        let (either, dcqcn) = ("`transport` says which", "have DCQCN");
        let both = rdma.clone() + &tcp;
        let apart = of(4421, RDMA) + &tcp;
        for (listeners, load, transport, says) in [
            (String::new(), "", Tcp, ""),
            (String::new(), "transport = 'tcp'", Tcp, ""),
            (tcp.clone(), "", Tcp, ""),
            (of(4420, "transport = 'tcp'\ntls = 'off'"), PLAIN, Tcp, ""),
            (rdma.clone(), "", Rdma, dcqcn),
            (both.clone(), PLAIN, Tcp, either),
            (both.clone(), "transport = 'tcp'", Tcp, ""),
            (both.clone(), "transport = 'rdma'", Rdma, dcqcn),
            (both, "transport = 'rdma'\nlistener = '10.0.0.1:4420'", Rdma, dcqcn),
            (apart.clone(), "", Tcp, either),
            (apart.clone(), PLAIN, Tcp, ""),
            (apart.clone(), "listener = '10.0.0.1:4421'", Rdma, dcqcn),
            (apart, "transport = 'rdma'", Rdma, dcqcn),
            (of(4420, "tls = 'required'"), "", Tcp, "what TLS takes is left out"),
            (of(4420, "tls = 'allowed'"), "", Tcp, "without TLS"),
        ] {
            let (flow, notes) = flow(&with(&listeners), "web", 1, load).unwrap();
            let notes = notes.join("; ");
            assert_eq!(flow.transport, transport, "{listeners}{load}");
            assert!(notes.contains(says) && notes.is_empty() == says.is_empty(), "{says}: {notes}");
        }
    }

    #[test]
    fn classes_of_listeners_count_where_a_load_could_come_to_them() {
        let listeners = of(4420, "") + &of(4421, &format!("{RDMA}\nclass = 'urgent'"));
        let class = |load: &str| flow(&with(&listeners), "web", 1, load).unwrap().0.class;
        assert_eq!(class("transport = 'rdma'"), Class::Urgent);
        assert_eq!(class("transport = 'tcp'"), Class::Low);
    }

    #[test]
    fn a_transport_without_a_listener_is_refused_with_the_remedy() {
        let (add, load) = ("add a [[listener]] with `transport = ", "transport = 'rdma'");
        for (listeners, load, says) in [
            (String::new(), load, &*format!("{add}\"rdma\"`")),
            (of(4420, ""), load, &format!("{add}\"rdma\"`")),
            (of(4420, RDMA), "transport = 'tcp'", &format!("{add}\"tcp\"`")),
            (of(4420, &format!("{RDMA}\ndiscovery_only = true")), load, "add a [[listener]]"),
        ] {
            refused(&with(&listeners), &[("web", 1, load, "`load 1.transport`", says)]);
        }
        let other = format!("{load}\n{PLAIN}");
        let says = "10.0.0.1:4420 is of tcp: write that, or as `listener` one of 10.0.0.1:4421";
        let cases = [
            ("web", 1, &*other, "`load 1.transport`", says),
            ("web", 1, "listener = '10.0.0.1:1'", "`load 1.listener`", "4421"),
        ];
        refused(&with(&(of(4421, RDMA) + &of(4420, ""))), &cases);
    }

    #[test]
    fn what_is_not_there_is_named_with_what_is() {
        let cases = [
            ("web", 3, PLAIN, "load 1.namespace", "nqn.x:disk/1, nqn.x:disk/2"),
            ("web", 1, "listener = '10.0.0.1:1'", "load 1.listener", "10.0.0.1:4421 (urgent)"),
            ("web", 1, "", "load 1.listener", "10.0.0.1:4420"),
            ("web", 1, "listener = '10.0.0.1:8009'", "load 1.listener", "10.0.0.1:4420"),
        ];
        refused(CONFIG, &cases);
    }
}
