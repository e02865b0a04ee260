//! The order of changes. Access narrows first and widens last: a host that is shut out sees nothing that is added, and
//! a host that is let in nothing that is removed. Undone in the reverse order, the same holds.
//!
//! Between the two, additions come before removals, so that a change that fails leaves everything in place. An addition
//! that waits for a name or a file comes right after the removal that frees it. Namespaces in memory are removed after
//! all changes that can fail, since their content cannot be brought back.

use std::collections::BTreeMap;
use std::path::Path;

use sluice_config::{Backend, Namespace, Subsystem};
use uuid::Uuid;

use super::change::Change;
use super::regions::RegionSteps;

/// The changes of a plan, by their effect.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// The changes after which hosts have less access: of permissions, and the removals of listeners.
    narrowing: Vec<Change>,
    /// The changes of objects that stay.
    mild: Vec<Change>,
    /// The additions of subsystems, namespaces and listeners.
    additions: Vec<Change>,
    /// The removals of subsystems and namespaces, and of parts of namespaces.
    removals: Vec<Change>,
    /// The changes of permissions after which hosts have more access. The target does not refuse them.
    widening: Vec<Change>,
    pub(super) qos: Option<Change>,
    pub(super) network_before: Option<Change>,
    pub(super) network_after: Option<Change>,
    pub(super) regions: Option<RegionSteps>,
}

impl Steps {
    pub(super) fn narrow(&mut self, change: Change) {
        self.narrowing.push(change);
    }

    pub(super) fn widen(&mut self, change: Change) {
        self.widening.push(change);
    }

    pub(super) fn mild(&mut self, change: Change) {
        self.mild.push(change);
    }

    pub(super) fn add(&mut self, change: Change) {
        self.additions.push(change);
    }

    pub(super) fn remove(&mut self, change: Change) {
        self.removals.push(change);
    }
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

/// Puts changes in their order.
pub(super) fn in_order(steps: Steps) -> Vec<Change> {
    let Steps { narrowing, mild, mut additions, mut removals, widening, regions, .. } = steps;
    let (qos, network_before, network_after) =
        (steps.qos, steps.network_before, steps.network_after);
    // Memory comes last; else removals go from namespaces to subsystems, and additions the other way round. Hosts may
    // come by a new listener once what they see is there.
    let listeners = additions.extract_if(.., |change| matches!(change, Change::AddListener(..)));
    let listeners: Vec<Change> = listeners.collect();
    let is_whole =
        |change: &Change| matches!(change, Change::AddSubsystem(..) | Change::RemoveSubsystem(..));
    removals.sort_by_key(|change| (keeps_memory(change), is_whole(change)));
    additions.sort_by_key(|change| (keeps_memory(change), !is_whole(change)));
    let mut owners: BTreeMap<Place<'_>, Vec<usize>> = BTreeMap::new();
    for (index, change) in removals.iter().enumerate() {
        for place in places(change) {
            owners.entry(place).or_default().push(index);
        }
    }
    let waits_for = |change: &Change| -> Vec<usize> {
        let mut all: Vec<usize> = places(change)
            .iter()
            .filter_map(|place| owners.get(place))
            .flatten()
            .copied()
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let needs: Vec<Vec<usize>> = additions.iter().map(waits_for).collect();
    // The removals that are made last: of namespaces in memory, and of all objects that are
    // exchanged together with them.
    let mut late: Vec<bool> = removals.iter().map(keeps_memory).collect();
    let is_late = |late: &[bool], all: &[usize]| all.iter().any(|at| late.get(*at) == Some(&true));
    loop {
        let before = late.clone();
        for all in needs.iter().filter(|all| is_late(&before, all)) {
            for at in all {
                if let Some(late) = late.get_mut(*at) {
                    *late = true;
                }
            }
        }
        if late == before {
            break;
        }
    }
    let mut done = vec![false; removals.len()];
    // Additions that wait for nothing, those that wait for a removal, and those that wait for a
    // removal that is made last.
    let (mut free, mut waiting, mut last) = (Vec::new(), Vec::new(), Vec::new());
    // Regions that wait come before what is in memory goes, unless they wait for just that.
    let waits =
        |(_, change): &(usize, &Change)| regions.as_ref().is_some_and(|r| r.wait_for(change));
    let needed: Vec<usize> = removals.iter().enumerate().filter(waits).map(|(at, _)| at).collect();
    let regions_late = needed.iter().any(|at| removals.get(*at).is_some_and(keeps_memory));
    for at in needed.iter().filter(|_| !regions_late) {
        if let (Some(done), Some(removal)) = (done.get_mut(*at), removals.get(*at)) {
            *done = true;
            waiting.push(removal.clone());
        }
    }
    for (change, needed) in additions.iter().zip(&needs) {
        if needed.is_empty() {
            free.push(change.clone());
            continue;
        }
        let group = if is_late(&late, needed) { &mut last } else { &mut waiting };
        for at in needed {
            if let (Some(done), Some(removal)) = (done.get_mut(*at), removals.get(*at))
                && !std::mem::replace(done, true)
            {
                group.push(removal.clone());
            }
        }
        group.push(change.clone());
    }
    let [regions_first, regions_second, regions_last] =
        regions.map(|regions| regions.changes(regions_late)).unwrap_or_default();
    let rest = removals.iter().zip(&done).filter(|(_, done)| !**done).map(|(c, _)| c.clone());
    // The settings of quality of service may name namespaces that are added last. Otherwise these
    // settings come first, since they fail more easily.
    let names_last = last.iter().any(is_new_place);
    let (first, second) = if names_last { (None, qos) } else { (qos, None) };
    let mut order: Vec<Change> = network_before.into_iter().collect();
    order.extend(narrowing);
    order.extend(regions_first);
    order.extend(free);
    order.extend(mild);
    order.extend(waiting);
    order.extend(listeners);
    order.extend(regions_second);
    order.extend(first);
    order.extend(last);
    order.extend(second);
    order.extend(rest);
    order.extend(widening);
    order.extend(network_after);
    order.extend(regions_last);
    order
}

/// Says whether a change adds an object whose place was free.
fn is_new_place(change: &Change) -> bool {
    use super::change::Why::Itself;
    matches!(change, Change::AddSubsystem(_, Itself) | Change::AddNamespace(_, _, Itself))
}

/// Says whether a change may lose the content of a namespace that exists in memory alone.
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
