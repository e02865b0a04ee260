//! `[network]` and `[[link]]`: what classes are to have of the network (stage S6).
//!
//! What is checked and what is not: rates that are promised fit into a capacity that is given, and
//! leave something for shares. No class needs a share: without one, classes beyond their aims have
//! what the kernel's congestion control gives them, which is what `free` says too. Latencies and
//! shares may stand side by side; the class with the latency should be the more urgent one, but
//! that is advice and no error, since each class is controlled by itself.

mod aim;
mod check;
mod parsed;
mod settings;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod values;

use super::fields::{Fields, Problems};
use super::lines::Lines;
use super::parsed::ParsedListener;
use super::table;

use parsed::ParsedLink;

pub use aim::{Aim, DEFAULT_LINK};
pub(crate) use check::{known, unknown, wrong};
pub use settings::{Link, Network};

/// Writes `[network]` and `[[link]]` with their titles.
pub(crate) fn render_whole(lines: &mut Lines, network: &Network) {
    lines.title("[network]");
    table::lines(lines, network);
    for link in &network.links {
        lines.title("[[link]]");
        table::lines(lines, link);
    }
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

/// Reads `[network]`; what is left out is as in `base`.
pub(crate) fn general(mut fields: Fields<'_>, mut base: Network) -> Network {
    table::read(&mut fields, &mut base);
    fields.finish();
    base
}

/// Reads `[[link]]`; what is left out is as in `base`.
pub(crate) fn link(mut fields: Fields<'_>, base: &Link) -> Option<ParsedLink> {
    let name = fields.require("name", "\"east\"", values::name);
    let mut link = base.clone();
    table::read(&mut fields, &mut link);
    fields.finish();
    let name = name?;
    let place = name.place();
    link.name = name.value;
    Some(ParsedLink { link, name: place })
}
