//! The settings of `[network]` and its lists, and how each is read and written.

use crate::amounts::{format_duration, format_rate};
use crate::keys::{LINK, NETWORK};
use arbitration::PerClass;
use serde_json::{Map, Value as Json, json};

use super::super::fields::{At, Fields};
use super::super::lines::Lines;
use super::super::table::{self, Written, read_already, table};
use super::goal::{DEFAULT_LINK, Goal};
use super::values;

/// The settings of the network (stage S6). All but `base` may change while the daemon runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// `enabled`: whether the stage acts; without it, the kernel's congestion control alone
    /// decides.
    pub enabled: bool,
    /// `writes`: whether R2T is paced by class, and hosts' data with it.
    pub writes: bool,
    /// `base`: the kernel's congestion control for connections; `None` means the best that this
    /// kernel has. Read at the start.
    pub base: Option<String>,
    /// The default link, which `[network]` itself describes.
    pub link: LinkConfig,
    /// `[[link]]`: the other links.
    pub links: Vec<LinkConfig>,
}

/// A link that the connections of some listeners share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// `name`; the default link's is [`DEFAULT_LINK`].
    pub name: String,
    /// `capacity`: bits per second; none (`auto`): it is not known.
    pub capacity: Option<u64>,
    /// `urgent`, `high`, `medium`, `low`: the goal of each class.
    pub goals: PerClass<Goal>,
}

impl Default for LinkConfig {
    fn default() -> Self {
        let (high, medium, low) = (Goal::Share(3), Goal::Share(2), Goal::Share(1));
        Self {
            name: DEFAULT_LINK.to_owned(),
            capacity: None,
            goals: PerClass { urgent: Goal::Free, high, medium, low },
        }
    }
}

/// A link and the places of its values.
#[derive(Debug)]
pub(crate) struct ParsedLink {
    pub(crate) link: LinkConfig,
    pub(crate) name: At<()>,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            enabled: true,
            writes: true,
            base: None,
            link: LinkConfig::default(),
            links: Vec::new(),
        }
    }
}

impl Network {
    /// Returns all links, the default one first.
    pub fn all_links(&self) -> impl Iterator<Item = &LinkConfig> {
        core::iter::once(&self.link).chain(&self.links)
    }

    /// Takes the keys of `[network]` itself from another one; the lists stay.
    pub fn set_general(&mut self, general: Self) {
        let links = std::mem::take(&mut self.links);
        *self = Self { links, ..general };
    }

    /// Returns the titles of the tables in which another one differs.
    pub fn differing(&self, other: &Self) -> Vec<&'static str> {
        let general = |network: &Self| Self { links: Vec::new(), ..network.clone() };
        let tables = [
            ("[network]", general(self) != general(other)),
            ("[[link]]", self.links != other.links),
        ];
        tables.iter().filter(|(_, differs)| *differs).map(|(title, _)| *title).collect()
    }
}

/// The tables as they are read, before the listeners are known.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    pub(super) network: Network,
    pub(super) links: Vec<ParsedLink>,
}

/// Reads both tables of a file.
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

/// Writes `[network]` and `[[link]]` with their titles.
pub fn lines(lines: &mut Lines, network: &Network) {
    lines.title("[network]");
    table::lines(lines, network);
    for link in &network.links {
        lines.title("[[link]]");
        table::lines(lines, link);
    }
}

/// Returns the defaults of a new link: the goals of the default link, but not its capacity, since
/// another link is another wire.
pub fn new_link(network: &Network) -> LinkConfig {
    LinkConfig { capacity: None, ..network.link.clone() }
}

/// Reads `[network]`; a setting that is left out is as in `base`.
pub fn general(mut fields: Fields<'_>, mut base: Network) -> Network {
    table::read(&mut fields, &mut base);
    fields.finish();
    base
}

/// Reads `[[link]]`; a setting that is left out is as in `base`.
pub(crate) fn link(mut fields: Fields<'_>, base: &LinkConfig) -> Option<ParsedLink> {
    let name = fields.require("name", "\"east\"", values::name);
    let mut link = base.clone();
    table::read(&mut fields, &mut link);
    fields.finish();
    let name = name?;
    let place = name.place();
    link.name = name.value;
    Some(ParsedLink { link, name: place })
}

table! { Network, NETWORK;
    "enabled" => field(enabled),
    "writes" => field(writes),
    "base" => read(base, values::base, write_base),
    "capacity" => with(
        |network, fields, _, _| shared(&mut network.link, fields),
        |network, _| write_capacity(&network.link)
    ),
    "classes" => with(read_already, |network, _| write_goals(&network.link.goals)),
}

table! { LinkConfig, LINK;
    "name" => with(read_already, |link, _| Written::same(link.name.as_str())),
    "capacity" => with(
        |link, fields, _, _| shared(link, fields),
        |link, _| write_capacity(link)
    ),
    "classes" => with(read_already, |link, _| write_goals(&link.goals)),
}

fn write_base(base: &Option<String>) -> Written {
    Written::same(base.as_deref().unwrap_or("auto"))
}

fn write_capacity(link: &LinkConfig) -> Written {
    Written::same(link.capacity.map_or_else(|| "auto".into(), format_rate))
}

/// Writes the goals of all classes, so that a change of the defaults does not change them.
fn write_goals(goals: &PerClass<Goal>) -> Written {
    let lines: Vec<String> =
        goals.iter().map(|(class, goal)| format!("{class} = {}", toml(*goal))).collect();
    let json: Map<String, Json> =
        goals.iter().map(|(class, goal)| (class.name().to_owned(), json(*goal))).collect();
    Written { toml: Some(format!("{{ {} }}", lines.join(", "))), json: Json::Object(json) }
}

fn toml(goal: Goal) -> String {
    match goal {
        Goal::Share(parts) => format!("{{ share = {parts} }}"),
        Goal::Rate(bits) => format!("{{ rate = \"{}\" }}", format_rate(bits)),
        Goal::Latency(target) => format!("{{ latency = \"{}\" }}", format_duration(target)),
        Goal::Free => "\"free\"".into(),
    }
}

fn json(goal: Goal) -> Json {
    match goal {
        Goal::Share(parts) => json!({ "share": parts }),
        Goal::Rate(bits) => json!({ "rate": format_rate(bits) }),
        Goal::Latency(time) => json!({ "latency": format_duration(time) }),
        Goal::Free => json!("free"),
    }
}

/// Reads `capacity` and `classes`, which every link has.
fn shared(link: &mut LinkConfig, fields: &mut Fields<'_>) {
    let capacity = fields.get("capacity", values::capacity);
    let unread = fields.unread("capacity", capacity.as_ref());
    let mut place = capacity.as_ref().map_or_else(|| fields.place(), At::place);
    if let Some(table) = fields.table("classes", "`classes`") {
        place = table.place();
        link.goals = goals(table, link.goals);
    }
    if let Some(capacity) = capacity {
        link.capacity = capacity.value;
    }
    // A capacity that could not be read has been reported.
    if let Some((message, remedy)) = too_much(link.capacity.filter(|_| !unread), &link.goals) {
        fields.problems().at(&place, message, remedy);
    }
}

/// Reads `classes`; a setting that is left out is as in `base`.
fn goals(mut fields: Fields<'_>, base: PerClass<Goal>) -> PerClass<Goal> {
    let goals = PerClass {
        urgent: fields.value_or("urgent", base.urgent, values::goal),
        high: fields.value_or("high", base.high, values::goal),
        medium: fields.value_or("medium", base.medium, values::goal),
        low: fields.value_or("low", base.low, values::goal),
    };
    fields.finish();
    goals
}

/// Describes rates that do not fit into a link, with the remedy.
fn too_much(capacity: Option<u64>, goals: &PerClass<Goal>) -> Option<(String, String)> {
    let capacity = capacity?;
    let rate = |goal: &Goal| if let Goal::Rate(bits) = goal { *bits } else { 0 };
    let rates = goals.iter().map(|(_, goal)| rate(goal)).fold(0, u64::saturating_add);
    let (sum, whole) = (format_rate(rates), format_rate(capacity));
    if rates > capacity {
        let message = format!("the rates of the classes are {sum} together, more than {whole}");
        let least = format_rate(rates - capacity);
        return Some((message, format!("lower them by {least}, or write a greater capacity")));
    }
    let shares = goals.iter().any(|(_, goal)| matches!(goal, Goal::Share(_)));
    if rates == capacity && shares {
        let message = format!("the rates of the classes are {sum}, which leaves nothing to shares");
        return Some((message, "lower the rates, or write a greater capacity".into()));
    }
    None
}
