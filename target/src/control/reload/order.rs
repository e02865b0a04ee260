//! The order of changes. Access narrows first and widens last: a host that loses access does not see additions, and
//! a host that gains access does not see removed objects. The same holds when changes are undone in the reverse
//! order.
//!
//! Between the two, additions come before removals, so that a change that fails leaves everything in place. An
//! addition that waits for a name or a file comes right after the removal that frees it. Namespaces in memory are
//! removed after all changes that can fail, since their content cannot be brought back.
//!
//! Each change has a rank, and needs other changes made before it. Changes are made by rank, each right after the
//! changes that it needs: a topological sort, depth first.

use std::collections::BTreeMap;
use std::path::Path;

use sluice_config::{Backend, Namespace, Subsystem};
use uuid::Uuid;

use super::change::Change;
use super::regions::RegionSteps;

/// The order of changes that do not need each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// `[network]` with the links of both configurations.
    NetworkBefore,
    /// Changes after which hosts have less access: of permissions, and the removals of listeners.
    Narrow,
    /// Removals of regions whose files and devices namespaces take.
    RegionsFirst,
    /// Additions of subsystems and namespaces.
    Add,
    /// Changes of objects that stay.
    Mild,
    /// Additions that need removals.
    AddAfterRemoval,
    /// Additions of listeners: hosts may connect to them once the subsystems are there.
    Listen,
    /// Additions of regions.
    RegionsSecond,
    Qos,
    /// Additions that need removals of namespaces in memory.
    AddAfterMemory,
    /// Removals of subsystems and namespaces, and of parts of namespaces.
    Remove,
    /// Changes of permissions after which hosts have more access. The target does not refuse them.
    Widen,
    /// `[network]` without the links that are gone.
    NetworkAfter,
    /// Removals of regions in memory.
    RegionsLast,
}

/// A change on its way to its place.
#[derive(Debug)]
struct Step {
    rank: Rank,
    change: Change,
    /// The changes that have to be made before, as indices of [`Steps`].
    needs: Vec<usize>,
}

/// The changes of a plan.
#[derive(Debug, Default)]
pub(super) struct Steps(Vec<Step>);

impl Steps {
    pub(super) fn push(&mut self, rank: Rank, change: Change) {
        self.0.push(Step { rank, change, needs: Vec::new() });
    }

    /// Adds the steps by which regions change, after the removals of namespaces.
    pub(super) fn push_regions(&mut self, regions: RegionSteps) {
        let needs =
            self.indices(|step| step.rank == Rank::Remove && regions.wait_for(&step.change));
        let are_late = self.any_keeps_memory(&needs);
        let ranks = [Rank::RegionsFirst, Rank::RegionsSecond, Rank::RegionsLast];
        for (rank, change) in ranks.into_iter().zip(regions.changes(are_late)) {
            let Some(change) = change else { continue };
            let needs = if rank == Rank::RegionsSecond { needs.clone() } else { Vec::new() };
            self.0.push(Step { rank, change, needs });
        }
    }

    /// Puts the changes in their order.
    pub(super) fn in_order(mut self) -> Vec<Change> {
        self.link();
        let key = |step: &Step| {
            let is_whole =
                matches!(step.change, Change::AddSubsystem(..) | Change::RemoveSubsystem(..));
            // Subsystems are added before namespaces, and removed after them.
            (step.rank, keeps_memory(&step.change), is_whole == (step.rank == Rank::Remove))
        };
        let mut by_rank: Vec<usize> = (0..self.0.len()).collect();
        by_rank.sort_by_key(|at| self.0.get(*at).map(key));
        let mut steps: Vec<Option<Step>> = self.0.into_iter().map(Some).collect();
        let mut order = Vec::with_capacity(steps.len());
        by_rank.into_iter().for_each(|at| place(at, &mut steps, &mut order));
        order
    }

    /// Finds what additions and the settings of quality of service need, and ranks the additions by it.
    fn link(&mut self) {
        let mut owners: BTreeMap<Place<'_>, Vec<usize>> = BTreeMap::new();
        for (at, step) in self.0.iter().enumerate().filter(|(_, step)| step.rank == Rank::Remove) {
            for place in places(&step.change) {
                owners.entry(place).or_default().push(at);
            }
        }
        let freed_by = |change| -> Vec<usize> {
            let all: Vec<Place<'_>> = places(change);
            all.iter().filter_map(|place| owners.get(place)).flatten().copied().collect()
        };
        // The settings may name namespaces that are new.
        let new = self.indices(|step| is_new_place(&step.change));
        let linked: Vec<_> = self
            .0
            .iter()
            .map(|step| match step.rank {
                Rank::Add => {
                    let needs = freed_by(&step.change);
                    let rank = match needs.is_empty() {
                        true => Rank::Add,
                        false if self.any_keeps_memory(&needs) => Rank::AddAfterMemory,
                        false => Rank::AddAfterRemoval,
                    };
                    Some((rank, needs))
                }
                Rank::Qos => Some((Rank::Qos, new.clone())),
                _ => None,
            })
            .collect();
        for (step, linked) in self.0.iter_mut().zip(linked) {
            if let Some(linked) = linked {
                (step.rank, step.needs) = linked;
            }
        }
    }

    fn indices(&self, is_meant: impl Fn(&Step) -> bool) -> Vec<usize> {
        let meant = self.0.iter().enumerate().filter(|(_, step)| is_meant(step));
        meant.map(|(at, _)| at).collect()
    }

    fn any_keeps_memory(&self, steps: &[usize]) -> bool {
        steps.iter().filter_map(|at| self.0.get(*at)).any(|step| keeps_memory(&step.change))
    }
}

/// Places a change behind the changes that it needs, unless it has a place.
fn place(at: usize, steps: &mut [Option<Step>], order: &mut Vec<Change>) {
    let Some(step) = steps.get_mut(at).and_then(Option::take) else { return };
    step.needs.into_iter().for_each(|need| place(need, steps, order));
    order.push(step.change);
}

/// A place that only one object can have at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place<'a> {
    Subsystem(&'a str),
    Serial(&'a str),
    Namespace(&'a str, Option<u32>),
    Uuid(Uuid),
    Nguid([u8; 16]),
    /// A file or device: a namespace that writes to it has it alone.
    Path(&'a Path),
}

/// Returns whether a change adds an object whose place was free.
fn is_new_place(change: &Change) -> bool {
    use super::change::Why::Itself;
    matches!(change, Change::AddSubsystem(_, Itself) | Change::AddNamespace(_, _, Itself))
}

/// Returns whether a change may lose the content of a namespace that exists in memory alone.
fn keeps_memory(change: &Change) -> bool {
    let in_memory = |namespace: &Namespace| matches!(namespace.backend, Backend::Memory { .. });
    match change {
        Change::AddSubsystem(subsystem, _) | Change::RemoveSubsystem(subsystem, _) => {
            subsystem.namespaces.iter().any(in_memory)
        }
        Change::AddNamespace(_, namespace, _) | Change::RemoveNamespace(_, namespace, _) => {
            in_memory(namespace)
        }
        // The blocks that a resize cuts off are gone on every backend.
        Change::Resize { .. } => true,
        _ => false,
    }
}

/// Returns the places that only this object can have.
fn places(change: &Change) -> Vec<Place<'_>> {
    match change {
        Change::AddSubsystem(subsystem, _) | Change::RemoveSubsystem(subsystem, _) => {
            let Subsystem { nqn, serial, namespaces, .. } = subsystem;
            let inside = namespaces.iter().flat_map(|namespace| of_namespace(nqn, namespace));
            let serial = serial.as_deref().map(Place::Serial);
            std::iter::once(Place::Subsystem(nqn)).chain(serial).chain(inside).collect()
        }
        Change::AddNamespace(nqn, namespace, _) | Change::RemoveNamespace(nqn, namespace, _) => {
            of_namespace(nqn, namespace)
        }
        _ => Vec::new(),
    }
}

fn of_namespace<'a>(nqn: &'a str, namespace: &'a Namespace) -> Vec<Place<'a>> {
    let path = namespace.backend.path();
    let mut all = vec![Place::Namespace(nqn, namespace.nsid)];
    all.extend(namespace.uuid.map(Place::Uuid));
    all.extend(namespace.nguid.map(Place::Nguid));
    all.extend(path.map(Place::Path));
    all
}
