//! `[[subsystem]]`: its settings, and how each is read and written.

use std::collections::BTreeSet;

use crate::keys::ConfigKey;
use crate::keys::SUBSYSTEM;
use fabric::controller::AllowedHost;

use super::fields::{At, Fields, List};
use super::host::host;
use super::lines::Lines;
use super::namespace::{Namespace, ParsedNamespace, namespace};
use super::table::{self, ListField as _, Seen, Written, read_already, table};
use super::values;

/// `[[subsystem]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subsystem {
    /// `nqn`: the subsystem's NQN.
    pub nqn: String,
    /// `serial`: the serial number, up to 20 ASCII characters; `None` means that the daemon chooses
    /// one.
    pub serial: Option<String>,
    /// `model`: the model number, up to 40 ASCII characters.
    pub model: Option<String>,
    /// `allow_any_host`: whether any host may connect.
    pub allow_any_host: bool,
    /// `require_authentication`: whether hosts must authenticate to connect.
    pub require_authentication: bool,
    /// `hosts` and `[[subsystem.host]]`: the hosts that may connect.
    pub hosts: Vec<AllowedHost>,
    /// `[[subsystem.namespace]]`.
    pub namespaces: Vec<Namespace>,
}

table! { Subsystem, SUBSYSTEM;
    "nqn" => with(read_already, |subsystem, _| Written::same(subsystem.nqn.as_str())),
    "serial" => read(serial, |node| values::ascii(20)(node).map(Some), text),
    "model" => read(model, |node| values::ascii(40)(node).map(Some), text),
    "allow_any_host" => field(allow_any_host),
    "require_authentication" => field(require_authentication),
    "hosts" => with(read_hosts, write_hosts),
}

/// Reads the hosts that have no settings of their own.
fn read_hosts(
    subsystem: &mut Subsystem,
    fields: &mut Fields<'_>,
    key: &'static ConfigKey,
    seen: &mut Seen,
) {
    let hosts = table::take_list(fields, key, seen, values::nqn).unwrap_or_default();
    subsystem.hosts.extend(hosts.into_iter().map(AllowedHost::from));
}

/// Writes the hosts that have no settings of their own.
fn write_hosts(subsystem: &Subsystem, _: &ConfigKey) -> Written {
    let hosts = subsystem.hosts.iter().filter(|host| host.is_plain());
    hosts.map(|host| host.nqn.clone()).collect::<Vec<_>>().write()
}

fn text(text: &Option<String>) -> Written {
    Written::same(text.clone())
}

/// A subsystem and the places of its values.
#[derive(Debug)]
pub(crate) struct ParsedSubsystem {
    pub(crate) subsystem: Subsystem,
    pub(crate) nqn: At<()>,
    pub(crate) serial: Option<At<()>>,
    pub(crate) hosts: List<String>,
    pub(crate) namespaces: Vec<ParsedNamespace>,
    /// Whether all namespaces of the subsystem could be read.
    pub(crate) whole: bool,
}

impl ParsedSubsystem {
    pub(crate) fn into_subsystem(self) -> Subsystem {
        let namespaces = self.namespaces.into_iter().map(|n| n.namespace).collect();
        Subsystem { namespaces, ..self.subsystem }
    }
}

/// Reads `[[subsystem]]`.
pub(crate) fn subsystem(mut fields: Fields<'_>) -> Option<ParsedSubsystem> {
    let nqn = fields.require("nqn", "\"nqn.2026-01.com.example:disk1\"", values::subsystem_nqn);
    let mut subsystem = Subsystem {
        nqn: String::new(),
        serial: None,
        model: None,
        allow_any_host: false,
        require_authentication: false,
        hosts: Vec::new(),
        namespaces: Vec::new(),
    };
    let mut seen = table::read(&mut fields, &mut subsystem);
    let mut hosts = seen.list("hosts");
    for table in fields.tables("host", "[[subsystem.host]]") {
        match host(table) {
            Some((host, nqn)) => {
                subsystem.hosts.push(host);
                hosts.items.push(nqn);
            }
            None => hosts.whole = false,
        }
    }
    let tables = fields.tables("namespace", "[[subsystem.namespace]]");
    let count = tables.len();
    let namespaces: Vec<_> = tables.into_iter().filter_map(namespace).collect();
    fields.finish();
    let nqn = nqn?;
    let place = nqn.place();
    subsystem.nqn = nqn.value;
    Some(ParsedSubsystem {
        subsystem,
        whole: namespaces.len() == count,
        nqn: place,
        serial: seen.place("serial"),
        hosts,
        namespaces,
    })
}

/// Writes a subsystem; the titles of its hosts and namespaces begin with `within`.
pub(crate) fn lines(lines: &mut Lines, subsystem: &Subsystem, within: &str) {
    table::lines(lines, subsystem);
    for host in subsystem.hosts.iter().filter(|host| !host.is_plain()) {
        lines.title(&format!("[[{within}host]]"));
        table::lines(lines, host);
    }
    for namespace in &subsystem.namespaces {
        lines.title(&format!("[[{within}namespace]]"));
        table::lines(lines, namespace);
    }
}

/// Assigns the lowest free NSIDs to namespaces without one.
pub(crate) fn number(parsed: &mut ParsedSubsystem) {
    let given = parsed.namespaces.iter().filter_map(|parsed| parsed.namespace.nsid);
    let mut taken: BTreeSet<u32> = given.collect();
    let mut next = 1;
    for ParsedNamespace { namespace, .. } in &mut parsed.namespaces {
        while namespace.nsid.is_none() && !taken.insert(next) {
            next += 1;
        }
        namespace.nsid.get_or_insert(next);
    }
}
