//! The settings of namespaces, for reactors to look up.

use std::collections::HashMap;
use std::sync::Mutex;

use super::snapshot::NamespaceRule;
use crate::sys::sync::lock;

/// The settings of all namespaces, for a reactor that begins to use one. The lock is held for one
/// look or one change at a time.
#[derive(Debug, Default)]
pub(super) struct PublishedRules(Mutex<HashMap<String, HashMap<u32, NamespaceRule>>>);

impl PublishedRules {
    /// Returns the settings of a namespace.
    pub(super) fn get(&self, nqn: &str, nsid: u32) -> Option<NamespaceRule> {
        lock(&self.0).get(nqn)?.get(&nsid).cloned()
    }

    /// Sets or removes the settings of a namespace.
    pub(super) fn set(&self, nqn: &str, nsid: u32, rule: Option<NamespaceRule>) {
        let mut all = lock(&self.0);
        let before = match rule {
            Some(rule) => match all.get_mut(nqn) {
                Some(of_subsystem) => of_subsystem.insert(nsid, rule),
                None => all.entry(nqn.to_owned()).or_default().insert(nsid, rule),
            },
            None => all.get_mut(nqn).and_then(|all| all.remove(&nsid)),
        };
        drop(all);
        drop(before);
    }

    /// Removes the settings of all namespaces of a subsystem.
    pub(super) fn forget(&self, nqn: &str) {
        let before = lock(&self.0).remove(nqn);
        drop(before);
    }
}
