//! `[network]` and `[[link]]`: what classes are to have of the network (stage S6).
//!
//! What is checked and what is not: rates that are promised fit into a capacity that is given, and
//! leave something for shares. No class needs a share: without one, classes beyond their aims have
//! what the kernel's congestion control gives them, which is what `free` says too. Latencies and
//! shares may stand side by side; the class with the latency should be the more urgent one, but
//! that is advice and no error, since each class is controlled by itself.

mod check;
mod render;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod values;

use arbitration::PerClass;

use super::fields::{At, Fields, Problems};
use super::model::{Aim, Link, Network};
use super::parse::ParsedListener;
use super::values as plain;

pub(crate) use check::{known, unknown, wrong};
pub(crate) use render::{render_link, render_network, whole as render_whole};

/// A link and the places of its values.
#[derive(Debug)]
pub(crate) struct ParsedLink {
    pub(crate) link: Link,
    pub(crate) name: At<()>,
}

/// What is read before the listeners are known.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    network: Network,
    links: Vec<ParsedLink>,
}

/// Takes both tables out of the file.
pub(crate) fn parse(fields: &mut Fields<'_>) -> Parsed {
    let standard = Network::default();
    let network = match fields.table("network", "[network]") {
        Some(table) => general(table, standard),
        None => standard,
    };
    let base = new_link(&network);
    let links = fields.tables("link", "[[link]]");
    let links = links.into_iter().filter_map(|table| link(table, &base)).collect();
    Parsed { network, links }
}

/// What a new link has where nothing is said of it: the classes' aims of the default one. Not its
/// capacity: another link is another wire.
pub(crate) fn new_link(network: &Network) -> Link {
    Link { capacity: None, ..network.link.clone() }
}

impl Parsed {
    /// Checks that all of it fits together and with the listeners of the file.
    pub(crate) fn finish(self, listeners: &[ParsedListener], problems: &Problems) -> Network {
        check::across(&self.links, listeners, problems);
        let links = self.links.into_iter().map(|parsed| parsed.link).collect();
        Network { links, ..self.network }
    }
}

/// `[network]`; what is left out is as in `base`.
pub(crate) fn general(mut fields: Fields<'_>, base: Network) -> Network {
    let network = Network {
        enabled: fields.value_or("enabled", base.enabled, plain::boolean),
        writes: fields.value_or("writes", base.writes, plain::boolean),
        base: fields.value_or("base", base.base, values::base),
        link: shared(&mut fields, base.link),
        links: base.links,
    };
    fields.finish();
    network
}

/// `[[link]]`; what is left out is as in `base`.
pub(crate) fn link(mut fields: Fields<'_>, base: &Link) -> Option<ParsedLink> {
    let name = fields.require("name", "\"east\"", values::name);
    let link = shared(&mut fields, base.clone());
    fields.finish();
    let name = name?;
    let place = name.place();
    Some(ParsedLink { link: Link { name: name.value, ..link }, name: place })
}

/// The settings that every link has.
fn shared(fields: &mut Fields<'_>, base: Link) -> Link {
    let capacity = fields.get("capacity", values::capacity);
    let unread = capacity.is_none() && fields.has("capacity");
    let mut place = capacity.as_ref().map_or_else(|| fields.place(), At::place);
    let aims = match fields.table("classes", "`classes`") {
        Some(table) => {
            place = table.place();
            aims(table, base.aims)
        }
        None => base.aims,
    };
    let capacity = capacity.map_or(base.capacity, |at| at.value);
    // A capacity that cannot be read is a problem already.
    if let Some((message, remedy)) = check::too_much(capacity.filter(|_| !unread), &aims) {
        fields.problems().at(&place, message, remedy);
    }
    Link { capacity, aims, ..base }
}

/// `classes`; what is left out is as in `base`.
fn aims(mut fields: Fields<'_>, base: PerClass<Aim>) -> PerClass<Aim> {
    let aims = PerClass {
        urgent: fields.value_or("urgent", base.urgent, values::aim),
        high: fields.value_or("high", base.high, values::aim),
        medium: fields.value_or("medium", base.medium, values::aim),
        low: fields.value_or("low", base.low, values::aim),
    };
    fields.finish();
    aims
}
