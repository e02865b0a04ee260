//! The network's settings back to text that parses to the same values.

use arbitration::PerClass;

use super::super::model::{Aim, Link, Network};
use super::super::render::Lines;
use super::super::units::{format_duration, format_rate};

/// `[network]` and `[[link]]` with their titles.
pub(crate) fn whole(lines: &mut Lines, network: &Network) {
    lines.title("[network]");
    general(lines, network);
    for one in &network.links {
        lines.title("[[link]]");
        link(lines, one);
    }
}

/// The settings of `[network]` alone.
#[must_use]
pub(crate) fn render_network(value: &Network) -> String {
    let mut lines = Lines::default();
    general(&mut lines, value);
    lines.into_text()
}

/// A link's settings alone.
#[must_use]
pub(crate) fn render_link(value: &Link) -> String {
    let mut lines = Lines::default();
    link(&mut lines, value);
    lines.into_text()
}

fn general(lines: &mut Lines, network: &Network) {
    lines.raw("enabled", network.enabled);
    lines.raw("writes", network.writes);
    lines.text("base", network.base.as_deref().unwrap_or("auto"));
    shared(lines, &network.link);
}

fn link(lines: &mut Lines, link: &Link) {
    lines.text("name", &link.name);
    shared(lines, link);
}

/// Everything is said, so that it means the same wherever it is read.
fn shared(lines: &mut Lines, link: &Link) {
    lines.text("capacity", &link.capacity.map_or_else(|| "auto".into(), format_rate));
    lines.raw("classes", aims(&link.aims));
}

fn aims(aims: &PerClass<Aim>) -> String {
    let aims: Vec<String> =
        aims.iter().map(|(class, value)| format!("{class} = {}", aim(*value))).collect();
    format!("{{ {} }}", aims.join(", "))
}

fn aim(value: Aim) -> String {
    match value {
        Aim::Share(parts) => format!("{{ share = {parts} }}"),
        Aim::Rate(bits) => format!("{{ rate = \"{}\" }}", format_rate(bits)),
        Aim::Latency(target) => format!("{{ latency = \"{}\" }}", format_duration(target)),
        Aim::Free => "\"free\"".into(),
    }
}
