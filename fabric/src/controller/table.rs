//! The table of the namespaces that a host sees: a value that never changes, and is replaced at
//! each change. The old and the new table share all but the page that differs, so that a change
//! costs the same with ten namespaces and with ten thousand.

use std::sync::Arc;

use super::{Namespace, NamespaceFeatures};
use crate::nvme::identify::OptionalCommands;

/// The number of namespaces in a page.
const PAGE: usize = 64;

/// A page: namespaces by NSID.
type Page = [Option<Arc<Namespace>>; PAGE];

/// The namespaces that one host sees, by NSID; never changes.
#[derive(Clone, Debug, Default)]
pub struct NamespaceTable {
    /// The pages: namespaces with NSID 1 to 64, and so on. The last one is not empty.
    pages: Vec<Option<Arc<Page>>>,
    count: usize,
}

/// Returns the page of an NSID, and its place there.
#[inline]
fn place(nsid: u32) -> Option<(usize, usize)> {
    let index = usize::try_from(nsid).ok()?.checked_sub(1)?;
    Some((index / PAGE, index % PAGE))
}

impl NamespaceTable {
    /// Makes a table of these namespaces.
    pub(super) fn new(namespaces: impl IntoIterator<Item = Arc<Namespace>>) -> Self {
        let mut table = Self::default();
        for namespace in namespaces {
            table.set(namespace.nsid, Some(namespace));
        }
        table
    }

    /// Returns the table with another namespace, or none, with this NSID.
    pub(super) fn with(&self, nsid: u32, namespace: Option<Arc<Namespace>>) -> Self {
        let mut table = self.clone();
        table.set(nsid, namespace);
        table
    }

    fn set(&mut self, nsid: u32, namespace: Option<Arc<Namespace>>) {
        let Some((page, at)) = place(nsid) else { return };
        if page >= self.pages.len() {
            if namespace.is_none() {
                return;
            }
            self.pages.resize(page + 1, None);
        }
        let Some(slot) = self.pages.get_mut(page) else { return };
        let page = slot.get_or_insert_with(|| Arc::new([const { None }; PAGE]));
        let page = Arc::make_mut(page);
        if let Some(place) = page.get_mut(at) {
            self.count += usize::from(namespace.is_some());
            self.count -= usize::from(place.is_some());
            *place = namespace;
        }
        if page.iter().all(Option::is_none) {
            *slot = None;
        }
        while self.pages.last().is_some_and(Option::is_none) {
            self.pages.pop();
        }
    }

    /// Returns the namespace, if the host sees it.
    #[inline]
    #[must_use]
    pub fn get(&self, nsid: u32) -> Option<&Arc<Namespace>> {
        let (page, at) = place(nsid)?;
        self.pages.get(page)?.as_ref()?.get(at)?.as_ref()
    }

    /// Returns all namespaces, in ascending order of NSID.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Namespace>> {
        self.pages.iter().flatten().flat_map(|page| page.iter().flatten())
    }

    /// Returns the namespaces with a greater NSID, in ascending order.
    pub(super) fn after(&self, nsid: u32) -> impl Iterator<Item = &Arc<Namespace>> {
        let first = usize::try_from(nsid).unwrap_or(usize::MAX) / PAGE;
        let pages = self.pages.iter().skip(first).flatten();
        pages.flat_map(|page| page.iter().flatten()).filter(move |n| n.nsid > nsid)
    }

    /// Returns the NSIDs at which another table has another namespace, or one where there is none, in
    /// ascending order.
    pub(super) fn differing(&self, other: &Self) -> Vec<u32> {
        let same = |one: &Option<Arc<Namespace>>, other: &Option<Arc<Namespace>>| match (one, other)
        {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        let mut nsids = Vec::new();
        for page in 0..self.pages.len().max(other.pages.len()) {
            let of = |table: &Self| table.pages.get(page).cloned().flatten();
            let (one, other) = (of(self), of(other));
            if matches!((&one, &other), (Some(one), Some(other)) if Arc::ptr_eq(one, other)) {
                continue;
            }
            let at = |page: &Option<Arc<Page>>, at: usize| page.as_ref()?.get(at)?.clone();
            let differ = (0..PAGE).filter(|&index| !same(&at(&one, index), &at(&other, index)));
            nsids.extend(differ.filter_map(|index| u32::try_from(page * PAGE + index + 1).ok()));
        }
        nsids
    }

    /// Returns the lowest free NSID.
    pub(super) fn lowest_free(&self) -> u32 {
        let free = self.pages.iter().enumerate().find_map(|(index, page)| {
            let at = match page {
                Some(page) => page.iter().position(Option::is_none)?,
                None => 0,
            };
            Some(index * PAGE + at)
        });
        let index = free.unwrap_or(self.pages.len() * PAGE);
        u32::try_from(index + 1).unwrap_or(u32::MAX)
    }

    /// Returns whether another table differs in one page at the most.
    #[cfg(test)]
    pub(super) fn shares_all_but_one_page_with(&self, other: &Self) -> bool {
        let of = |table: &Self, at: usize| table.pages.get(at).cloned().flatten();
        let differ = |at: &usize| match (of(self, *at), of(other, *at)) {
            (Some(one), Some(other)) => !Arc::ptr_eq(&one, &other),
            (one, other) => one.is_some() || other.is_some(),
        };
        (0..self.pages.len().max(other.pages.len())).filter(differ).count() <= 1
    }

    /// Returns the number of namespaces.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether the table has no namespaces.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the optional commands that at least one namespace executes. Returns all commands
    /// that the target knows while there is no namespace, or one is not ready. This is the union,
    /// because hosts read it once at connect and namespaces change later; a namespace that lacks a
    /// command answers Invalid Opcode, and hosts fall back.
    pub(super) fn commands(&self) -> OptionalCommands {
        let all = NamespaceFeatures::all();
        let of = |n: &Namespace| if n.is_ready() { n.features } else { all };
        let have = self.iter().fold(NamespaceFeatures::empty(), |have, n| have | of(n));
        let have = if self.is_empty() { all } else { have };
        let table = [
            (NamespaceFeatures::COMPARE, OptionalCommands::COMPARE),
            (NamespaceFeatures::DEALLOCATE, OptionalCommands::DATASET_MANAGEMENT),
            (NamespaceFeatures::WRITE_ZEROES, OptionalCommands::WRITE_ZEROES),
            (NamespaceFeatures::VERIFY, OptionalCommands::VERIFY),
        ];
        table
            .into_iter()
            .filter(|(feature, _)| have.contains(*feature))
            .fold(OptionalCommands::empty(), |commands, (_, command)| commands | command)
    }
}
