//! Properties that only one namespace may have: its identifiers, and a file or device that it writes.

use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use uuid::Uuid;

use super::identity;
use super::namespace::Namespace;
use super::whole::Config;

/// The identifiers, files and devices of a configuration's namespaces. Adding or removing one
/// namespace takes the same time however many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// The number of namespaces that have each UUID.
    uuids: FxHashMap<Uuid, u32>,
    nguids: FxHashMap<[u8; 16], u32>,
    /// The namespaces of each path in its plain form.
    paths: FxHashMap<PathBuf, Users>,
}

/// The namespaces of one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Users {
    all: u32,
    writers: u32,
}

impl Taken {
    /// Makes the index of all namespaces of a configuration.
    pub fn of(config: &Config) -> Self {
        let mut taken = Self::default();
        taken.exchange([], config.subsystems.iter().flat_map(|s| &s.namespaces));
        taken
    }

    /// Describes the first identifier, file or device that a namespace would share with another one; `None` if
    /// there is none.
    fn clash(&self, namespace: &Namespace) -> Option<String> {
        if let Some(uuid) = namespace.uuid.filter(|uuid| self.uuids.contains_key(uuid)) {
            return Some(format!("UUID {uuid} would occur twice"));
        }
        if let Some(nguid) = namespace.nguid.filter(|nguid| self.nguids.contains_key(nguid)) {
            let nguid = identity::format_nguid(&nguid);
            return Some(format!("NGUID {nguid} would occur twice"));
        }
        let path = namespace.backend.path()?;
        let writes = self.paths.get(&plain_path(path))?.writers > 0 || !namespace.read_only;
        let path = path.display();
        writes.then(|| format!("two namespaces would have {path}, and one would write to it"))
    }

    /// Replaces the namespaces `old` by `new`. Describes the first conflict of a namespace in `new` with another
    /// one; `None` if there is none.
    pub fn exchange<'a>(
        &mut self,
        old: impl IntoIterator<Item = &'a Namespace>,
        new: impl IntoIterator<Item = &'a Namespace>,
    ) -> Option<String> {
        old.into_iter().for_each(|namespace| self.remove(namespace));
        new.into_iter().fold(None, |first, namespace| {
            let clash = self.add(namespace);
            first.or(clash)
        })
    }

    /// Adds a namespace. Describes the first identifier, file or device that it would share with another one;
    /// `None` if there is none.
    fn add(&mut self, namespace: &Namespace) -> Option<String> {
        let clash = self.clash(namespace);
        if let Some(uuid) = namespace.uuid {
            *self.uuids.entry(uuid).or_default() += 1;
        }
        if let Some(nguid) = namespace.nguid {
            *self.nguids.entry(nguid).or_default() += 1;
        }
        if let Some(path) = namespace.backend.path() {
            let users = self.paths.entry(plain_path(path)).or_default();
            users.all += 1;
            users.writers += u32::from(!namespace.read_only);
        }
        clash
    }

    /// Removes a namespace that was added.
    fn remove(&mut self, namespace: &Namespace) {
        if let Some(uuid) = namespace.uuid {
            one_less(&mut self.uuids, &uuid);
        }
        if let Some(nguid) = namespace.nguid {
            one_less(&mut self.nguids, &nguid);
        }
        if let Some(path) = namespace.backend.path().map(plain_path)
            && let Some(users) = self.paths.get_mut(&path)
        {
            users.all = users.all.saturating_sub(1);
            users.writers = users.writers.saturating_sub(u32::from(!namespace.read_only));
            if users.all == 0 {
                self.paths.remove(&path);
            }
        }
    }
}

fn one_less<K: std::hash::Hash + Eq>(counts: &mut FxHashMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// Returns a path without `.`, `..` and doubled slashes. Only the text counts: symbolic links are not resolved.
pub fn plain_path(path: &Path) -> PathBuf {
    path_clean::clean(path)
}
