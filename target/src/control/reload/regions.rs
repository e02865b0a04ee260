//! The steps by which regions of persistent memory change. The target takes all regions at once, and
//! a file or device may go from a region to a namespace or back; so there are up to three steps, among
//! the changes of namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use sluice_config::{Namespace, RegionConfig, Subsystem, plain_path};

use super::change::Change;

/// The regions that there are, and those behind each step.
#[derive(Debug)]
pub(super) struct RegionSteps {
    from: Vec<RegionConfig>,
    /// The regions whose files and devices no later namespace takes.
    first: Vec<RegionConfig>,
    /// The new regions, but old ones in memory whose content would be lost, since it cannot be restored.
    second: Vec<RegionConfig>,
    to: Vec<RegionConfig>,
    /// The files and devices of the new regions.
    paths: Paths,
}

impl RegionSteps {
    /// Plans the steps; `subsystems` are the subsystems after the change. `None` if nothing changes.
    pub(super) fn plan(
        from: &[RegionConfig],
        to: &[RegionConfig],
        subsystems: &[Subsystem],
    ) -> Option<Self> {
        if same(from, to) {
            return None;
        }
        let namespaces = subsystems.iter().flat_map(|subsystem| &subsystem.namespaces);
        let paths = Paths::of(from);
        let taken: BTreeSet<PathBuf> = namespaces.filter_map(|n| paths.shared(n)).collect();
        let goes = |region: &RegionConfig| {
            region.path.as_ref().is_some_and(|path| taken.contains(&plain_path(path)))
        };
        let first: Vec<RegionConfig> =
            from.iter().filter(|region| !goes(region)).cloned().collect();
        let to: Vec<RegionConfig> = to.iter().map(|region| again(from, region)).collect();
        let lost = |region: &&RegionConfig| loses_memory(region, named(&to, &region.name));
        let lost: Vec<&RegionConfig> = from.iter().filter(lost).collect();
        let is_lost = |region: &RegionConfig| lost.iter().any(|old| old.name == region.name);
        let mut second: Vec<RegionConfig> = to.iter().filter(|r| !is_lost(r)).cloned().collect();
        second.extend(lost.iter().map(|region| (*region).clone()));
        let paths = Paths::of(&second);
        Some(Self { from: from.to_vec(), first, second, to, paths })
    }

    /// Returns whether the second step must come after a removal.
    pub(super) fn wait_for(&self, removal: &Change) -> bool {
        match removal {
            Change::RemoveSubsystem(subsystem, _) => {
                subsystem.namespaces.iter().any(|namespace| self.paths.shared(namespace).is_some())
            }
            Change::RemoveNamespace(_, namespace, _) => self.paths.shared(namespace).is_some(),
            _ => false,
        }
    }

    /// Returns the steps: before all changes of namespaces, before the changes that lose content in memory, and
    /// last. With `late` the last step includes the second.
    pub(super) fn changes(self, late: bool) -> [Option<Change>; 3] {
        let Self { from, first, second, to, .. } = self;
        let middle = if late { first.clone() } else { second };
        [step(&from, &first), step(&first, &middle), step(&middle, &to)]
    }
}

/// Makes the change from one list to another; `None` where they are the same.
fn step(from: &[RegionConfig], to: &[RegionConfig]) -> Option<Change> {
    (!same(from, to)).then(|| Change::Regions { from: from.to_vec(), to: to.to_vec() })
}

/// Returns whether two lists have the same regions, in any order.
fn same(from: &[RegionConfig], to: &[RegionConfig]) -> bool {
    let has = |region: &RegionConfig| named(to, &region.name).is_some_and(|to| region.is_like(to));
    from.len() == to.len() && from.iter().all(has)
}

pub(super) fn named<'a>(regions: &'a [RegionConfig], name: &str) -> Option<&'a RegionConfig> {
    regions.iter().find(|region| region.name == name)
}

/// Makes a region that was there before, perhaps with other settings: a file that is gone is not made
/// again.
fn again(from: &[RegionConfig], region: &RegionConfig) -> RegionConfig {
    let known = named(from, &region.name).is_some_and(|old| old.path == region.path);
    RegionConfig { create: region.create && !known, ..region.clone() }
}

/// Returns whether a region in memory loses content when `to` replaces it.
pub(super) fn loses_memory(region: &RegionConfig, to: Option<&RegionConfig>) -> bool {
    let keeps = |to: &RegionConfig| region.is_same_memory(to) && to.size >= region.size;
    region.path.is_none() && !to.is_some_and(keeps)
}

/// The files and devices of regions in their plain forms, and whether a region writes to each.
#[derive(Debug)]
struct Paths(BTreeMap<PathBuf, bool>);

impl Paths {
    fn of(regions: &[RegionConfig]) -> Self {
        let mut paths = BTreeMap::new();
        for region in regions {
            let Some(path) = &region.path else { continue };
            *paths.entry(plain_path(path)).or_insert(false) |= !region.read_only;
        }
        Self(paths)
    }

    /// Returns the file or device that a namespace cannot have beside the regions.
    fn shared(&self, namespace: &Namespace) -> Option<PathBuf> {
        let path = plain_path(namespace.backend.path().filter(|_| !self.0.is_empty())?);
        let writes = *self.0.get(&path)?;
        (writes || !namespace.read_only).then_some(path)
    }
}
