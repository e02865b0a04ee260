//! Checks of values against each other: regions with unique names, files and devices that nothing
//! else writes to, reservations that a client can use up, an address of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::super::endpoint::{Endpoint, Transport};
use super::super::fields::{At, Problems};
use super::super::listener::Listener;
use super::super::namespace::Namespace;
use super::super::subsystem::Subsystem;
use super::super::taken::plain_path;
use super::super::whole::Config;
use super::general::Pmem;
use super::region::{ParsedRegion, RegionConfig};
use super::settings::Parsed;

/// The most `[[region]]` entries.
pub(crate) const REGIONS_MAX: usize = 256;

/// Runs the checks that need the whole file. `state` is the state file.
pub(super) fn across(
    parsed: &Parsed,
    state: Option<&Path>,
    listeners: &[Listener],
    subsystems: &[Subsystem],
    problems: &Problems,
) {
    let Parsed { general, address, regions } = parsed;
    if let (Some(place), Some(other)) = (address, collision(general, listeners)) {
        let message = format!("`address` collides with listener {other}");
        problems.at(place, message, "give it another port, or remove the listener");
    }
    names(regions, problems);
    paths(regions, state, subsystems, problems);
    for parsed in regions {
        hosts(parsed, problems);
        let (region, place) = (&parsed.region, parsed.reserve.as_ref());
        if let (Some(place), Some((message, remedy))) = (place, too_much(region, general)) {
            problems.at(place, message, remedy);
        }
    }
}

fn names(regions: &[ParsedRegion], problems: &Problems) {
    let mut seen = BTreeSet::new();
    for parsed in regions {
        let name = parsed.region.name.as_str();
        if !seen.insert(name) {
            let message = format!("region {name} occurs twice");
            problems.at(&parsed.name, message, "give each region a name of its own");
        }
    }
    if let Some(parsed) = regions.get(REGIONS_MAX) {
        let message = format!("there are more than {REGIONS_MAX} regions");
        problems.at(&parsed.name, message, "remove the rest");
    }
}

fn hosts(parsed: &ParsedRegion, problems: &Problems) {
    let mut seen = BTreeSet::new();
    for host in &parsed.hosts.items {
        if !seen.insert(host.value.as_str()) {
            let message = format!("host {} occurs twice", host.value);
            problems.at(host, message, "name it once");
        }
    }
}

/// Returns an error, with the remedy, if a host reserves more than one client can use up.
fn too_much(region: &RegionConfig, pmem: &Pmem) -> Option<(String, String)> {
    pmem.capacity?;
    let most = pmem.capacity_of_client();
    let reserve = Some(region.reserve).filter(|reserve| *reserve > most)?;
    let message = format!("`reserve` is {reserve}, and one client can do {most} I/Os per second");
    Some((message, format!("write at most {most}, or a greater client_capacity in [pmem]")))
}

/// Says why a region must not be added or changed, beside what [`wrong`] tells.
pub fn refused(region: &RegionConfig, pmem: &Pmem) -> Option<String> {
    too_much(region, pmem).map(|(message, remedy)| format!("{message}; {remedy}"))
}

/// The use of a file or device: who uses it, and whether that one writes.
type Use = (String, bool);

/// Returns the use of a region's file or device by the region; `None` for memory.
fn of_region(region: &RegionConfig) -> Option<(PathBuf, Use)> {
    let path = plain_path(region.path.as_ref()?);
    Some((path, (format!("region {}", region.name), !region.read_only)))
}

/// Returns the use of a namespace's file or device by the namespace; `None` where it has none.
fn of_namespace(nqn: &str, namespace: &Namespace) -> Option<(PathBuf, Use)> {
    let path = plain_path(namespace.backend.path()?);
    Some((path, (format!("namespace {} of {nqn}", namespace.id()), !namespace.read_only)))
}

/// Returns all namespaces, each with the NQN of its subsystem.
fn namespaces(subsystems: &[Subsystem]) -> impl Iterator<Item = (&str, &Namespace)> {
    subsystems.iter().flat_map(|s| s.namespaces.iter().map(|n| (s.nqn.as_str(), n)))
}

/// Checks that a region which is written has its file or device alone, and that none is the state
/// file. Paths count by their [plain](plain_path) forms.
fn paths(
    regions: &[ParsedRegion],
    state: Option<&Path>,
    subsystems: &[Subsystem],
    problems: &Problems,
) {
    if regions.iter().all(|parsed| parsed.region.path.is_none()) {
        return;
    }
    let all = namespaces(subsystems).filter_map(|(nqn, n)| of_namespace(nqn, n));
    let mut uses: BTreeMap<PathBuf, Use> = BTreeMap::new();
    for (path, (name, writes)) in all {
        let entry = uses.entry(path).or_insert((name, writes));
        entry.1 |= writes;
    }
    let state = state.map(plain_path);
    for parsed in regions {
        let Some((path, (name, writes))) = of_region(&parsed.region) else { continue };
        let place: &At<()> = parsed.path.as_ref().unwrap_or(&parsed.name);
        if state.as_ref() == Some(&path) {
            let message = format!("{} is the state file of [target]", path.display());
            problems.at(place, message, "give the region a file of its own");
        }
        let earlier = uses.get(&path).cloned();
        if let Some((other, _)) = earlier.as_ref().filter(|(_, earlier)| *earlier || writes) {
            let message = format!("{other} has {} too, and one writes to it", path.display());
            let remedy = "give each its own file or device, or set read_only = true on all of them";
            problems.at(place, message, remedy);
        }
        let writes = writes || earlier.is_some_and(|(_, earlier)| earlier);
        uses.insert(path, (name, writes));
    }
}

/// Describes a contradiction between a configuration's regions, or between them and its namespaces, checking only
/// the parts that a live change can affect; `None` if there is none.
pub fn wrong(config: &Config) -> Option<String> {
    let regions = &config.pmem.regions;
    let mut seen = BTreeSet::new();
    if let Some(twice) = regions.iter().find(|region| !seen.insert(region.name.as_str())) {
        return Some(format!("region {} would occur twice", twice.name));
    }
    if regions.len() > REGIONS_MAX {
        return Some(format!("there would be more than {REGIONS_MAX} regions"));
    }
    let mut uses: BTreeMap<PathBuf, Use> = BTreeMap::new();
    for (path, used) in regions.iter().filter_map(of_region) {
        if let Some(said) = uses.get(&path).and_then(|other| clash(&path, other, &used)) {
            return Some(said);
        }
        uses.insert(path, used);
    }
    clash_among(&uses, namespaces(&config.subsystems))
}

/// Describes a file or device that a namespace would share with a region; without an NSID, checks all namespaces of
/// the subsystem. `None` if nothing is shared.
pub fn shared_with_regions(config: &Config, nqn: &str, nsid: Option<u32>) -> Option<String> {
    let uses: BTreeMap<_, _> = config.pmem.regions.iter().filter_map(of_region).collect();
    let subsystem = config.subsystems.iter().find(|subsystem| subsystem.nqn == nqn)?;
    let meant = |namespace: &&Namespace| nsid.is_none() || namespace.nsid == nsid;
    clash_among(&uses, subsystem.namespaces.iter().filter(meant).map(|n| (nqn, n)))
}

fn clash_among<'a>(
    uses: &BTreeMap<PathBuf, Use>,
    mut namespaces: impl Iterator<Item = (&'a str, &'a Namespace)>,
) -> Option<String> {
    if uses.is_empty() {
        return None;
    }
    namespaces.find_map(|(nqn, namespace)| {
        let (path, used) = of_namespace(nqn, namespace)?;
        clash(&path, uses.get(&path)?, &used)
    })
}

/// Returns an error if two users would share a file or device that one of them writes.
fn clash(path: &Path, (one, writes): &Use, (other, also): &Use) -> Option<String> {
    let path = path.display();
    (*writes || *also)
        .then(|| format!("{one} and {other} would have {path}, and one would write to it"))
}

/// Returns the listener that the address of `[pmem]` collides with.
pub(crate) fn collision(pmem: &Pmem, listeners: &[Listener]) -> Option<Endpoint> {
    let ours = Endpoint { transport: Transport::Rdma, address: pmem.address?.into() };
    listeners.iter().map(Listener::endpoint).find(|other| ours.collides_with(*other))
}
