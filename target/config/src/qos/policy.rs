//! `[[policy]]`: its settings, and how each is read and written.

use crate::keys::POLICY;
use arbitration::Class;
use fabric::controller::Sources;

use super::super::fields::{At, Fields};
use super::super::table::{self, Written, table};
use super::super::values as plain;
use super::values;

/// `[[policy]]`: settings for the commands of a host, in a subsystem, in a namespace. For each
/// setting the entry counts that names the most of these three.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// `host`: NQN; `None` means any.
    pub host: Option<String>,
    /// `subsystem`: NQN; `None` means any.
    pub subsystem: Option<String>,
    /// `nsid`: the namespace, only together with `subsystem`; `None` means any.
    pub nsid: Option<u32>,
    /// `addresses`: the addresses that connections come from.
    pub addresses: Sources,
    /// `class`: the class of commands and connections that name none.
    pub class: Option<Class>,
    /// `max_class`: the greatest class: commands that name a higher one have this one.
    pub max_class: Option<Class>,
    /// `urgent_iops`: the most Urgent commands per second; those beyond are High.
    pub urgent_iops: Option<u64>,
    /// `session`: the session that commands are charged to; `None` means the namespace's own.
    pub session: Option<String>,
}

impl Policy {
    /// Returns the policy's scope, in words.
    #[must_use]
    pub fn scope(&self) -> String {
        let host = self.host.as_deref().unwrap_or("any host");
        let host = match self.addresses.is_any() {
            true => host.to_owned(),
            false => format!("{host} from {}", self.addresses),
        };
        match (&self.subsystem, self.nsid) {
            (Some(nqn), Some(nsid)) => format!("{host} on {nqn}/{nsid}"),
            (Some(nqn), None) => format!("{host} on {nqn}"),
            (None, _) => format!("{host} on any subsystem"),
        }
    }

    /// Returns whether another policy is for the same host, addresses, subsystem and namespace.
    #[must_use]
    pub fn same_scope(&self, other: &Self) -> bool {
        (&self.host, &self.subsystem, self.nsid, &self.addresses)
            == (&other.host, &other.subsystem, other.nsid, &other.addresses)
    }

    /// Returns whether the policy sets nothing.
    #[must_use]
    pub const fn says_nothing(&self) -> bool {
        self.class.is_none()
            && self.max_class.is_none()
            && self.urgent_iops.is_none()
            && self.session.is_none()
    }
}

table! { Policy, POLICY;
    "host" => field(host),
    "subsystem" => read(subsystem, |node| plain::subsystem_nqn(node).map(Some), text),
    "nsid" => field(nsid),
    "addresses" => field(addresses),
    "class" => field(class),
    "max_class" => field(max_class),
    "urgent_iops" => field(urgent_iops),
    "session" => read(session, |node| values::session_name(node).map(Some), text),
}

fn text(name: &Option<String>) -> Written {
    Written::same(name.clone())
}

/// A policy and the places of its values.
#[derive(Debug)]
pub(crate) struct ParsedPolicy {
    pub(crate) policy: Policy,
    pub(crate) place: At<()>,
    pub(crate) subsystem: Option<At<()>>,
    pub(crate) nsid: Option<At<()>>,
    pub(crate) session: Option<At<()>>,
}

/// Reads `[[policy]]`.
pub(crate) fn policy(mut fields: Fields<'_>) -> Option<ParsedPolicy> {
    let place = fields.place();
    let mut policy = Policy::default();
    let seen = table::read(&mut fields, &mut policy);
    fields.finish();
    // A policy without the setting that could not be read would mean something else.
    (!seen.any_unread()).then(|| ParsedPolicy {
        place,
        subsystem: seen.place("subsystem"),
        nsid: seen.place("nsid"),
        session: seen.place("session"),
        policy,
    })
}
