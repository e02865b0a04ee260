//! Answers as people read them.

use serde_json::Value;
use sluice_config::answer::{
    self, AnyHost, Changed, Connection, FileSystem, HostKey, HostKeys, HostRights, Hosts, Listener,
    LostHost, NamespaceResized, Reloaded, Status, Subsystem,
};
use sluice_config::failure::{FAILED, Failure};
use sluice_config::{Call, Method, RDMA_BEFORE, Verb, call};

use super::cells::{count, names, or_dash, setting, yes_or_dash};
use super::request::Request;
use super::table::Align::{self, Left, Right};
use super::table::{Column, Room, Table, duration, size};
use super::{
    config_view, events_view, namespace_view, network_view, qos_view, region_view, statistics_view,
};

/// Writes an answer by the row of its method. A row with `(answer)` has the answer in its type.
macro_rules! views {
    (
        ($method:expr, $result:ident), $other:ident => $rest:expr;
        $($name:ident $(($answer:pat))? => $text:expr,)*
    ) => {
        match $method {
            $(Method::$name => {
                $(let $answer = of::<call::$name>($result)?;)?
                $text
            })*
            $other => $rest,
        }
    };
}

/// Writes the answer to a request as text.
///
/// # Errors
/// The daemon's answer does not have the type of the method.
pub(super) fn text(request: &Request, result: &Value, room: Room) -> Result<String, Failure> {
    Ok(views! {
        (request.method, result), method => object(method, result);
        Status(answer) => status(&answer, room),
        Statistics(answer) => statistics_view::text(answer, room),
        Connections(answer) => connections(&answer, room),
        EventList(answer) => events_view::list(&answer),
        ConfigApply(answer) => reload(&answer, false),
        LogLevel(answer::LogLevel { level, before }) => match level == before {
            true => format!("The level of the log is {level}.\n"),
            false => format!(
                "The level of the log is {level} until the daemon ends; it was {before}.\n"
            ),
        },
        Reload(answer) => {
            reload(&answer, request.params.get("check") == Some(&Value::Bool(true)))
        },
        ConfigDiff(answer) => config_view::diff(&answer),
        ConfigRevert(answer) => config_view::reverted(&answer.result),
        ConfigMerge(answer) => answer.text,
        ConfigShow(answer) => answer.text,
        Shutdown => "The daemon is ending.\n".into(),
        SubsystemList(answer) => subsystems(&answer, room),
        SubsystemAdd(Changed { result: added, .. }) => {
            format!("Added subsystem {} (serial {}).\n", added.nqn, or_dash(added.serial))
        },
        SubsystemRemove(answer) => format!("Removed subsystem {}.\n", answer.result.nqn),
        NamespaceList(answer) => namespace_view::list(&answer, room),
        NamespaceRetry(answer) => namespace_view::retried(&answer, room),
        NamespaceAdd(Changed { result: added, .. }) => {
            let (nsid, nqn, uuid) = (added.nsid, added.subsystem, or_dash(added.uuid));
            let done = format!("Added namespace {nsid} to {nqn} (UUID {uuid}).\n");
            with_warnings(done, &added.warnings)
        },
        NamespaceRemove(Changed { result: removed, .. }) => {
            format!("Removed namespace {} from {}.\n", removed.nsid, removed.subsystem)
        },
        NamespaceResize(answer) => resized(&answer.result),
        ListenerList(answer) => listeners(&answer, room),
        ListenerAdd(answer) => format!("Listening on {}.\n", answer.result.address),
        ListenerRemove(answer) => format!("No longer listening on {}.\n", answer.result.address),
        HostList(answer) => hosts(&answer, room),
        HostAdd(Changed { result: added, .. }) => {
            format!("{} may connect to {}.\n", added.host, added.subsystem)
        },
        HostSet(Changed { result: set, .. }) => {
            format!("Changed what {} may do in {}.\n", set.host, set.subsystem)
        },
        HostRemove(Changed { result: removed, .. }) => {
            format!("{} is refused by {}.\n", removed.host, removed.subsystem)
        },
        HostAny(answer) => any_host(&answer.result),
        HostKeys(answer) => host_keys(&answer, room),
        QosShow(answer) => qos_view::show(&answer, room),
        QosSet(answer) => qos_view::settings(&answer.result),
        QosListener(Changed { result: set, .. }) => {
            format!("Connections through {} have {}.\n", set.address, qos_view::class(set.class))
        },
        QosNamespace(Changed { result: set, .. }) => {
            let class = qos_view::class(set.class);
            format!("Namespace {} of {} has {class}.\n", set.nsid, set.subsystem)
        },
        QosPolicy(answer) => qos_view::policy(&answer.result),
        SessionList(answer) => qos_view::sessions(&answer, room),
        ProfileList(answer) => qos_view::profiles(&answer, room),
        SessionReserve(answer) => qos_view::reserved(&answer.result),
        SessionRelease(answer) => {
            format!("Session {} has no reservation any more.\n", setting(&answer.result, "name"))
        },
        NetworkShow(answer) => network_view::show(&answer, room),
        NetworkSet(answer) => network_view::settings(&answer.result, None),
        NetworkListener(Changed { result: set, .. }) => {
            format!("Connections through {} share link {}.\n", set.address, set.link)
        },
        LinkAdd(answer) => format!("Added {}\n", network_view::link(&answer.result)),
        LinkSet(answer) => format!("Changed {}\n", network_view::link(&answer.result)),
        PmemShow(answer) => region_view::show(&answer, room),
    })
}

/// Writes the answer of a method that adds, changes or removes an object by its name. `sluice trace` prints the answers
/// of its methods by itself.
fn object(method: Method, result: &Value) -> String {
    let name = result.get("name").and_then(Value::as_str).unwrap_or_default();
    let Some((word, verb)) = method.object() else { return format!("{result:#}\n") };
    let done = match verb {
        Verb::Add => "Added",
        Verb::Set => "Changed",
        Verb::Remove => "Removed",
    };
    format!("{done} {word} {name}.\n")
}

/// Reads the answer of a method.
pub(super) fn of<M: Call>(result: &Value) -> Result<M::Answer, Failure> {
    serde_json::from_value(result.clone()).map_err(|error| {
        let method = M::METHOD.name();
        let message = format!(
            "the daemon's answer to {method} has another form than this program knows ({error}); \
             use the daemon's own version of sluice, or --json"
        );
        Failure::new(FAILED, message)
    })
}

/// Returns whether the answer to `status` lists problems.
pub(super) fn has_problems(status: &Value) -> bool {
    of::<call::Status>(status).is_ok_and(|status| has_wrong(&status))
}

fn has_wrong(status: &Status) -> bool {
    let counted = status.namespaces_unavailable > 0 || status.namespaces_with_errors > 0;
    counted || !status.problems.is_empty()
}

fn status(status: &Status, room: Room) -> String {
    let kept = match status.durable {
        true => "survive a restart",
        false => "end with the daemon (no `state` in its configuration)",
    };
    let protocol_errors = usize::try_from(status.protocol_errors).unwrap_or(usize::MAX);
    let expired = usize::try_from(status.keep_alive_expired).unwrap_or(usize::MAX);
    let commit = match status.commit.as_str() {
        "" => String::new(),
        commit => format!(" (commit {commit})"),
    };
    let mut text = format!(
        "sluiced {}{commit}, process {}, up {}\n\
         {}, {}, {}, {} ({} accepted)\n\
         {}, {}\nLive changes {kept}.\n",
        status.version,
        status.pid,
        duration(status.uptime_seconds),
        count(status.listeners, "listener"),
        count(status.subsystems, "subsystem"),
        count(status.namespaces, "namespace"),
        count(status.connections, "connection"),
        status.accepted,
        count(protocol_errors, "protocol error"),
        count(expired, "keep-alive timeout"),
    );
    if status.live_changes > 0 {
        text += &config_view::on_top(status.live_changes);
    }
    let table = Table::from_rows(
        &status.reactors,
        &[
            ("CPU", Right, |row| row.core.to_string()),
            ("CONNECTIONS", Right, |row| row.connections.to_string()),
            ("BUFFERS", Right, |row| {
                format!("{} of {}", size(row.buffer_used), size(row.buffer_total))
            }),
        ],
    );
    text += "\n";
    text += &table.text("no reactors", room);
    if !status.file_systems.is_empty() {
        text += "\n";
        text += &file_systems(&status.file_systems).text("", room);
    }
    if has_wrong(status) {
        text += "\nNot right:\n";
    }
    for (namespaces, what) in [
        (status.namespaces_unavailable, "not available"),
        (status.namespaces_with_errors, "with errors"),
    ] {
        // An older daemon counts these namespaces without a line for each.
        if namespaces > 0 && status.problems.is_empty() {
            text += &format!("  {} {what}\n", count(namespaces, "namespace"));
        }
    }
    for problem in &status.problems {
        text += &format!("  {problem}\n");
    }
    text
}

/// Shows what files of namespaces may still take of their file systems.
fn file_systems(all: &[FileSystem]) -> Table {
    Table::from_rows(
        all,
        &[
            ("FILE SYSTEM", Left, |row| row.mount.clone()),
            ("FILES", Right, |row| row.files.to_string()),
            ("MAY TAKE", Right, |row| size(row.may_take)),
            ("FREE", Right, |row| size(row.free)),
            ("OVERCOMMIT", Right, |row| size(row.overcommit)),
        ],
    )
}

/// Writes lines below a heading; nothing if there are none.
fn lines(heading: &str, list: &[String]) -> String {
    if list.is_empty() {
        return String::new();
    }
    format!("{heading}\n") + &list.iter().map(|line| format!("  {line}\n")).collect::<String>()
}

/// Writes the effects of a change.
///
/// # Errors
/// The daemon is older than dry runs and has another form of answers.
pub(super) fn planned(result: &Value) -> Result<String, Failure> {
    let planned: Reloaded = of::<call::Reload>(result)?;
    let text = plan(&planned);
    Ok(if text.is_empty() { "It would change nothing.\n".into() } else { text })
}

/// Writes changes that are not made: the objects before (-) and after (+), and the steps.
pub(super) fn plan(planned: &Reloaded) -> String {
    let objects: String = planned.objects.iter().map(config_view::difference).collect();
    objects
        + &lines("Steps:", &planned.changes)
        + &lines("Needs a restart to take effect:", &planned.needs_restart)
        + &lines("Note:", &planned.warnings)
}

/// Writes the changes that a reload has made, or with `only_checked` would make.
fn reload(reloaded: &Reloaded, only_checked: bool) -> String {
    let heading = if only_checked { "A reload would change:" } else { "Changed:" };
    let text = lines(heading, &reloaded.changes)
        + &lines("Needs a restart to take effect:", &reloaded.needs_restart)
        + &lines("Note:", &reloaded.warnings);
    match (text.is_empty(), reloaded.live_changes) {
        (true, 0) => "The daemon already runs the configuration file; nothing changes.\n".into(),
        (false, 0) => text,
        (true, count) => format!("Nothing changes. {}", config_view::on_top(count)),
        (false, count) => text + &config_view::on_top(count),
    }
}

/// The columns of connections that a narrow terminal does without, the first one first.
const LEAST_OF_CONNECTION: [&str; 14] = [
    "DIGESTS",
    "REACTOR",
    "BASE",
    "LINK",
    "ID",
    "LIMIT IN",
    "LIMIT OUT",
    "TLS",
    "PROVED",
    "RTT",
    "CTRL",
    "IN FLIGHT",
    "PEER",
    "CLASS",
];

fn connections(connections: &[Connection], room: Room) -> String {
    let mut columns: Vec<Column<Connection>> = vec![
        ("ID", Right, |row| row.id.to_string()),
        ("PEER", Left, |row| row.peer.clone()),
        ("HOST", Left, |row| or_dash(row.host.as_ref())),
        ("SUBSYSTEM", Left, |row| or_dash(row.subsystem.as_ref())),
        ("CTRL", Right, |row| or_dash(row.controller)),
        ("QUEUE", Right, |row| or_dash(row.queue)),
        ("IN FLIGHT", Right, |row| row.in_flight.to_string()),
        ("REACTOR", Right, |row| row.reactor.to_string()),
        ("DIGESTS", Left, |row| {
            let digests = match row.digests {
                (false, false) => "-",
                (true, false) => "header",
                (false, true) => "data",
                (true, true) => "header, data",
            };
            digests.into()
        }),
        ("TLS", Left, |row| or_dash(row.tls.as_deref().map(cipher))),
        ("PROVED", Left, |row| yes_or_dash(row.authenticated)),
    ];
    // Columns of the network follow where any are known.
    if connections.iter().any(|row| row.network.is_some()) {
        columns.extend(network_view::CONNECTION);
    }
    let table = Table::from_rows(connections, &columns).least(&LEAST_OF_CONNECTION);
    table.text("No host is connected.", room)
}

/// Returns the cipher of a suite: `AES_128_GCM` of `TLS_AES_128_GCM_SHA256`.
fn cipher(suite: &str) -> &str {
    let cipher = suite.strip_prefix("TLS_").and_then(|rest| rest.rsplit_once('_'));
    cipher.map_or(suite, |(cipher, _)| cipher)
}

fn subsystems(subsystems: &[Subsystem], room: Room) -> String {
    let columns: [Column<Subsystem>; 6] = [
        ("SUBSYSTEM", Left, |row| row.nqn.clone()),
        ("SERIAL", Left, |row| row.serial.clone()),
        ("MODEL", Left, |row| or_dash(Some(&row.model))),
        ("NAMESPACES", Right, |row| row.namespaces.len().to_string()),
        ("CAPACITY", Right, |row| {
            let sizes = row.namespaces.iter().map(|namespace| namespace.size);
            size(sizes.fold(0, u64::saturating_add))
        }),
        ("HOSTS", Align::Value, |row| {
            let hosts = match row.allow_any_host {
                true => "any".into(),
                false => row.hosts.len().to_string(),
            };
            hosts + if row.require_authentication { ", authenticated" } else { "" }
        }),
    ];
    let table = Table::from_rows(subsystems, &columns)
        .live(subsystems.iter().map(|row| row.live))
        .least(&["MODEL", "SERIAL"]);
    table.text("There are no subsystems.", room)
}

fn listeners(listeners: &[Listener], room: Room) -> String {
    let columns: [Column<Listener>; 6] = [
        // The name by which other commands know the listener.
        ("ADDRESS", Left, |row| match row.transport.as_str() {
            "rdma" => format!("{RDMA_BEFORE}{}", row.address),
            _ => row.address.clone(),
        }),
        ("TRANSPORT", Left, |row| {
            let transport = &row.transport;
            let authenticated = if row.require_authentication { ", authenticated" } else { "" };
            match (row.closed.is_some(), row.tls.as_str()) {
                (true, _) => format!("{transport}, closed"),
                (false, "allowed" | "required") => {
                    format!("{transport}, TLS {}{authenticated}", row.tls)
                }
                _ => format!("{transport}{authenticated}"),
            }
        }),
        ("ADVERTISED AS", Left, |row| or_dash(row.advertise.as_ref())),
        ("SERVES", Left, |row| match row.discovery_only {
            true => "discovery".into(),
            false => names(row.subsystems.as_deref(), "all subsystems"),
        }),
        ("CLASS", Left, |row| or_dash(row.class.as_ref())),
        ("LINK", Left, |row| or_dash(Some(&row.link))),
    ];
    let table = Table::from_rows(listeners, &columns)
        .live(listeners.iter().map(|row| row.live))
        .least(&["LINK", "ADVERTISED AS", "TRANSPORT"]);
    table.text("There are no listeners: no host can connect.", room)
}

fn hosts(subsystems: &[Hosts], room: Room) -> String {
    let mut table = Table::new(&[
        ("SUBSYSTEM", Left),
        ("HOST", Left),
        ("FROM", Left),
        ("AUTHENTICATION", Left),
        ("MAY", Align::Value),
    ])
    .least(&["MAY", "FROM"]);
    for row in subsystems {
        let any = String::from("any address");
        if row.allow_any_host {
            let may = may(&HostRights::default());
            let has = or_dash(None::<String>);
            let cells = vec![row.subsystem.clone(), "any host".into(), any.clone(), has, may];
            table.row_of(row.live_any_host, cells);
        }
        for host in &row.hosts {
            let from = row.addresses.get(host).map_or(any.clone(), |from| from.join(", "));
            let has = or_dash(row.authentication.get(host).map(|has| has.words()));
            let may = may(&row.rights.get(host).cloned().unwrap_or_default());
            let cells = vec![row.subsystem.clone(), host.clone(), from, has, may];
            table.row_of(row.live.contains(host), cells);
        }
    }
    let mut text = table.text("No host may connect.", room);
    let lost: Vec<(&str, &LostHost)> = subsystems
        .iter()
        .flat_map(|row| row.lost.iter().map(|lost| (row.subsystem.as_str(), lost)))
        .collect();
    let columns: [Column<(&str, &LostHost)>; 6] = [
        ("SUBSYSTEM", Left, |(subsystem, _)| (*subsystem).to_owned()),
        ("LOST HOST", Left, |(_, lost)| lost.host.clone()),
        ("FROM", Left, |(_, lost)| or_dash(lost.address.as_ref())),
        ("LISTENER", Left, |(_, lost)| lost.listener.clone()),
        // How long before the daemon's start it was lost is not known.
        ("LOST FOR", Right, |(_, lost)| {
            format!("{}{} s", if lost.restored { "> " } else { "" }, lost.lost_seconds)
        }),
        ("COUNTS FOR", Right, |(_, lost)| format!("{} s", lost.left_seconds)),
    ];
    if !lost.is_empty() {
        let table = Table::from_rows(&lost, &columns).least(&["LISTENER", "FROM"]);
        text = format!("{text}\n{}", table.text("", room));
    }
    text
}

/// Lists the hosts whose secrets and TLS keys the daemon has, and the changes that a reload would make.
fn host_keys(keys: &HostKeys, room: Room) -> String {
    let columns: [Column<HostKey>; 5] = [
        ("HOST", Left, |row| row.host.clone()),
        ("SECRET", Left, |row| yes_or_dash(row.secret)),
        ("CONTROLLER SECRET", Left, |row| yes_or_dash(row.controller_secret)),
        ("TLS KEY", Left, |row| yes_or_dash(row.tls_key)),
        ("ALLOWED", Left, |row| if row.allowed { "yes" } else { "by no subsystem" }.into()),
    ];
    let table = Table::from_rows(&keys.hosts, &columns).least(&["CONTROLLER SECRET"]);
    let mut text = table.text("The daemon has no secret and no TLS key of a host.", room);
    let place = match (&keys.unreadable, &keys.folder) {
        (Some(why), _) => format!("A reload would fail: {why}"),
        (None, Some(folder)) => format!("The daemon reads {folder} at a reload."),
        (None, None) => "The daemon reads no folder (no `host_keys` in its configuration).".into(),
    };
    text += &format!("\n{place}\n");
    if !keys.changes.is_empty() {
        text += "A reload would change:\n";
    }
    for change in &keys.changes {
        text += &format!("  {change}\n");
    }
    text
}

/// Describes the rights of a host in words.
fn may(rights: &HostRights) -> String {
    let HostRights { namespaces, read_only, max_class } = rights;
    let what = if *read_only { "read" } else { "read and write" };
    let to = namespaces.as_ref().map(|nsids| match nsids.is_empty() {
        true => " no namespace".to_owned(),
        false => format!(" {}", nsids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    });
    let class = max_class.as_ref().map(|class| format!(", at most {class}"));
    format!("{what}{}{}", to.unwrap_or_default(), class.unwrap_or_default())
}

fn resized(namespace: &NamespaceResized) -> String {
    let NamespaceResized { subsystem, nsid, size: bytes, warnings } = namespace;
    let done = format!("Namespace {nsid} of {subsystem} has {} now.\n", size(*bytes));
    with_warnings(done, warnings)
}

/// Adds a line for each warning.
fn with_warnings(mut text: String, warnings: &[String]) -> String {
    for warning in warnings {
        text += &format!("Warning: {warning}\n");
    }
    text
}

fn any_host(AnyHost { subsystem, allow_any_host }: &AnyHost) -> String {
    match allow_any_host {
        true => format!("Any host may connect to {subsystem}.\n"),
        false => format!("Only listed hosts may connect to {subsystem}.\n"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::shown::{lines, text};
    use super::super::tables_tests::connection;
    use super::*;

    fn healthy() -> Value {
        json!({
            "version": "0.1.0", "commit": "0123456789ab", "pid": 7, "uptime_seconds": 9, "listeners": 1, "subsystems": 1,
            "namespaces": 2, "connections": 0, "accepted": 3, "durable": true, "reactors": [],
            "namespaces_unavailable": 0, "namespaces_with_errors": 0, "problems": [],
        })
    }

    #[test]
    fn a_status_tells_what_is_not_right() {
        let mut answer = healthy();
        assert!(!has_problems(&answer) && !text(Method::Status, &answer).contains("Not right"));
        assert!(text(Method::Status, &answer).starts_with("sluiced 0.1.0 (commit 0123456789ab), "));
        assert!(!has_problems(&json!({})), "a daemon that says nothing of it");
        answer["namespaces_with_errors"] = json!(1);
        assert!(has_problems(&answer));
        assert!(text(Method::Status, &answer).ends_with("Not right:\n  1 namespace with errors\n"));
        answer["problems"] = json!(["q/1: 3 errors of /dev/sdb since 12:00"]);
        let seen = text(Method::Status, &answer);
        assert!(seen.ends_with("Not right:\n  q/1: 3 errors of /dev/sdb since 12:00\n"), "{seen}");
    }

    #[test]
    fn a_status_shows_file_systems_that_are_overcommitted() {
        let mut answer = healthy();
        assert!(!text(Method::Status, &answer).contains("OVERCOMMIT"));
        answer["file_systems"] = json!([{"mount": "/srv", "files": 2, "may_take": 12u64 << 30,
                                         "free": 10u64 << 30, "overcommit": 2u64 << 30}]);
        let seen = text(Method::Status, &answer);
        assert_eq!(lines(&seen).last().unwrap(), "/srv 2 12 GiB 10 GiB 2 GiB", "{seen}");
        assert!(!has_problems(&answer), "it may be on purpose");
    }

    #[test]
    fn a_change_with_a_warning_says_both() {
        let answer = json!({"subsystem": "q", "nsid": 3, "size": 4096, "warnings": ["it is full"]});
        let seen = text(Method::NamespaceResize, &answer);
        assert_eq!(seen, "Namespace 3 of q has 4 KiB now.\nWarning: it is full\n");
    }

    #[test]
    fn a_reload_tells_what_changed_and_what_cannot() {
        let answer = json!({"changes": ["subsystem q is added"], "needs_restart": ["`cores`"],
                            "warnings": ["h1 loses disk 2"]});
        let seen = |check| {
            let params = if check { json!({ "check": true }) } else { json!({}) };
            let request = Request { method: Method::Reload, params };
            super::text(&request, &answer, Room::Unlimited).unwrap()
        };
        let rest = "\n  subsystem q is added\nNeeds a restart to take effect:\n  `cores`\n\
                    Note:\n  h1 loses disk 2\n";
        assert_eq!(seen(false), format!("Changed:{rest}"));
        assert_eq!(seen(true), format!("A reload would change:{rest}"));
        let same = text(Method::Reload, &json!({"changes": [], "needs_restart": []}));
        assert!(same.contains("nothing changes"), "{same}");
    }

    #[test]
    fn connections_show_the_network_where_anything_is_known_of_it() {
        let row = |network: Value| {
            json!({"id": 7, "peer": "p", "host": "h", "subsystem": "s", "controller": 1,
                   "queue": 1, "in_flight": 0, "reactor": 0, "digests": [false, false],
                   "network": network})
        };
        let without = text(Method::Connections, &json!([row(json!(null))]));
        assert!(!without.contains("RTT"), "{without}");
        let known = json!({"link": "default", "class": "high", "base": "dctcp", "rtt_us": 450,
                           "out": {"limit": 4.75e9}, "in": {"limit": null}});
        let rows = json!([row(known), row(json!(null)), connection()]);
        let with = text(Method::Connections, &rows);
        let with = lines(&with);
        assert_eq!(with[1], "7 p h s 1 1 0 0 - - - default high dctcp 450 us 4.75 Gbit/s -");
        assert!(with[2].ends_with('-'), "{with:?}");
        assert!(with[3].contains("header, data AES_256_GCM yes default"), "{with:?}");
    }

    #[test]
    fn hosts_are_listed_one_by_one() {
        let answer = json!([
            {"subsystem": "a", "allow_any_host": true, "hosts": []},
            {"subsystem": "b", "allow_any_host": false, "hosts": ["h1", "h2"],
             "authentication": {"h2": "tls_key"},
             "rights": {"h2": {"namespaces": [1, 3], "read_only": true, "max_class": "medium"}}},
        ]);
        let mut lost = answer.clone();
        lost[1]["lost"] = json!([{"host": "h2", "listener": "10.0.0.1:4420", "address": "10.0.0.2",
                                  "lost_seconds": 40, "left_seconds": 560}]);
        let with = text(Method::HostList, &lost);
        let lost = "b h2 10.0.0.2 10.0.0.1:4420 40 s 560 s";
        assert_eq!(lines(&with).last().unwrap(), lost, "{with}");
        let [heading, any, h1, h2] = &lines(&text(Method::HostList, &answer))[..] else {
            panic!("four lines")
        };
        assert_eq!(heading, "SUBSYSTEM HOST FROM AUTHENTICATION MAY");
        assert!(any.contains("any host"), "{any}");
        assert_eq!(h1, "b h1 any address - read and write", "an older daemon does not tell");
        assert_eq!(h2, "b h2 any address TLS key read 1, 3, at most medium");
    }

    #[test]
    fn hosts_that_have_keys_are_listed_with_what_is_wrong() {
        let row = json!({"host": "h1", "secret": true, "tls_key": false, "allowed": false});
        let mut answer = json!({"folder": "/etc/keys", "changes": ["host h2 has a TLS key"],
                                "hosts": [row]});
        let seen = text(Method::HostKeys, &answer);
        assert_eq!(lines(&seen)[1], "h1 yes - - by no subsystem");
        let rest = "\nThe daemon reads /etc/keys at a reload.\nA reload would change:\n  host h2 has a \
                    TLS key\n";
        assert!(seen.ends_with(rest), "{seen}");
        answer["unreadable"] = json!("/etc/keys/a.key has mode 640");
        let seen = text(Method::HostKeys, &answer);
        assert!(seen.contains("A reload would fail: /etc/keys/a.key has mode 640\n"), "{seen}");
        assert!(text(Method::HostKeys, &json!({})).contains("no `host_keys`"));
    }

    #[test]
    fn what_is_done_with_an_object_is_told_in_a_sentence() {
        for (method, said) in [
            (Method::SessionAdd, "Added session x.\n"),
            (Method::SessionSet, "Changed session x.\n"),
            (Method::LinkRemove, "Removed link x.\n"),
        ] {
            assert_eq!(text(method, &json!({"name": "x", "durable": true})), said);
        }
    }

    #[test]
    fn a_reload_says_where_live_changes_stay() {
        let answer = |count| json!({"changes": [], "needs_restart": [], "live_changes": count});
        let plain = text(Method::Reload, &answer(0));
        assert!(plain.starts_with("The daemon already runs the configuration file"), "{plain}");
        let seen = text(Method::Reload, &answer(1));
        assert_eq!(seen, "Nothing changes. 1 live change on top of the file: sluice config diff\n");
    }
}
