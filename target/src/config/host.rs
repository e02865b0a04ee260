//! `[[subsystem.host]]`: a host that may connect, with the addresses that it may come from.

use fabric::controller::AllowedHost;
use sluice_schema::keys::HOST;

use super::fields::{At, Fields};
use super::table::{self, Written, read_already, table};
use super::values;

table! { AllowedHost, HOST;
    "nqn" => with(read_already, |host, _| Written::same(host.nqn.as_str())),
    "addresses" => field(sources),
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
    // Without addresses that could not be read, the entry would say something else.
    (!seen.any_unread()).then_some((host, nqn))
}
