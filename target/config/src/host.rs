//! `[[subsystem.host]]`: a host that may connect, with its permitted source addresses and its rights.

use std::collections::BTreeMap;

use crate::keys::HOST;
use crate::protocol::answer::HostRights;
use fabric::controller::AllowedHost;

use super::fields::{At, Fields};
use super::table::{self, Written, read_already, table};
use super::values;

table! { AllowedHost, HOST, nulls = true;
    "nqn" => with(read_already, |host, _| Written::same(host.nqn.as_str())),
    "addresses" => field(sources),
    "namespaces" => field(rights.namespaces),
    "read_only" => read(rights.read_only, values::boolean, |read_only: &bool| {
        Written::if_set(*read_only)
    }),
    "max_class" => field(rights.max_class),
}

/// Reads `[[subsystem.host]]`; the NQN comes with its place.
pub(crate) fn host(mut fields: Fields<'_>) -> Option<(AllowedHost, At<String>)> {
    let example = "\"nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6\"";
    let nqn = fields.require("nqn", example, values::nqn);
    let mut host = AllowedHost::default();
    let seen = table::read(&mut fields, &mut host);
    fields.finish();
    let nqn = nqn?;
    host.nqn.clone_from(&nqn.value);
    // Without a setting that could not be read, the entry would say something else.
    (!seen.any_unread()).then_some((host, nqn))
}

/// Reads settings of a host, starting from its present settings; `None` if a setting cannot be read.
pub(crate) fn onto(fields: &mut Fields<'_>, host: &AllowedHost) -> Option<AllowedHost> {
    let mut host = host.clone();
    let seen = table::read(fields, &mut host);
    (!seen.any_unread()).then_some(host)
}

/// Returns the hosts that have not all rights, with theirs, as answers show them.
pub fn limited_hosts(hosts: &[AllowedHost]) -> BTreeMap<String, HostRights> {
    let limited = hosts.iter().filter(|host| !host.rights.are_all());
    let shown = limited.map(|AllowedHost { nqn, rights, .. }| {
        let namespaces = rights.namespaces.as_ref();
        let rights = HostRights {
            namespaces: namespaces.map(|nsids| nsids.iter().copied().collect()),
            read_only: rights.read_only,
            max_class: rights.max_class.map(|class| class.name().to_owned()),
        };
        (nqn.clone(), rights)
    });
    shown.collect()
}
