//! `[[region]]`: its settings, and how each is read and written.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::amounts::format_size;
use crate::keys::{ConfigKey, REGION, REGION_CHANGES};

use super::super::backend::MEMORY_MAX;
use super::super::fields::{At, Fields, List, Problems};
use super::super::table::{self, Bound, Seen, Table as _, Written, read_already, table};
use super::super::values::{boolean, nqn};
use super::values;

/// `[[region]]`: persistent memory that clients read and write by one-sided RDMA.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionConfig {
    /// `name`: 1 to 16 characters.
    pub name: String,
    /// `path`: a device `/dev/daxX.Y`, or a file; `None` means memory, which survives nothing.
    pub path: Option<PathBuf>,
    /// `create`: whether a missing regular file is created with `size`.
    pub create: bool,
    /// `read_only`: whether clients may only read.
    pub read_only: bool,
    /// `size` in bytes, whole pages of 4 KiB; `None` means the size that the file or device has.
    pub size: Option<u64>,
    /// `hosts`: NQNs of the hosts that may ask for the region.
    pub hosts: Vec<String>,
    /// `reserve`: the most I/Os per second that one host may reserve.
    pub reserve: u64,
    /// `limit`: the most I/Os per second of one host; `None` means no limit.
    pub limit: Option<u64>,
}

table! { RegionConfig, REGION, nulls = true;
    "name" => with(read_already, |region, _| Written::same(region.name.as_str())),
    "path" => field(path),
    "create" => read(create, boolean, |create: &bool| Written::if_set(*create)),
    "read_only" => field(read_only),
    "size" => field(size),
    "hosts" => list(hosts, nqn),
    "reserve" => field(reserve),
    "limit" => field(limit),
}

impl RegionConfig {
    /// Returns the keys in which another region differs.
    pub fn differing(&self, other: &Self) -> Vec<&'static str> {
        let pairs = Self::KEYS.iter().zip(Self::BOUND);
        let differs = |(key, bound): &(&ConfigKey, &Bound<Self>)| {
            (bound.write)(self, key) != (bound.write)(other, key)
        };
        pairs.filter(differs).map(|(key, _)| key.name).collect()
    }

    /// Returns the keys in which another region differs and that cannot change while the region exists.
    pub fn fixed_differing(&self, other: &Self) -> Vec<&'static str> {
        let may = |name: &&str| REGION_CHANGES.iter().any(|key| key.name == *name);
        self.differing(other).into_iter().filter(|name| !may(name)).collect()
    }

    /// Returns whether clients have the same memory in another region of this name.
    pub fn is_same_memory(&self, other: &Self) -> bool {
        self.path == other.path && self.read_only == other.read_only
    }

    /// Returns whether another region is equivalent while both are open: `create` counts only when a file is
    /// opened, and the order of hosts never.
    pub fn is_like(&self, other: &Self) -> bool {
        let set = |region: &Self| region.hosts.iter().cloned().collect::<BTreeSet<_>>();
        let bare = |region: &Self| Self { create: false, hosts: Vec::new(), ..region.clone() };
        bare(self) == bare(other) && set(self) == set(other)
    }
}

/// A region and the places of its values.
#[derive(Debug)]
pub(crate) struct ParsedRegion {
    pub(crate) region: RegionConfig,
    pub(crate) name: At<()>,
    pub(crate) path: Option<At<()>>,
    pub(crate) hosts: List<String>,
    pub(crate) reserve: Option<At<()>>,
}

/// Reads `[[region]]`; a setting that is left out is as in `base`.
pub(crate) fn region(mut fields: Fields<'_>, base: &RegionConfig) -> Option<ParsedRegion> {
    let name = fields.require("name", "\"log\"", values::name);
    let mut region = base.clone();
    let mut seen = table::read(&mut fields, &mut region);
    let (place, problems) = (fields.place(), fields.problems());
    fields.finish();
    if !seen.any_unread() {
        check(&region, &seen, &place, problems);
    }
    // A region whose mode could not be read is not said to share a file with others that only read.
    region.read_only |= seen.unread("read_only");
    let name = name?;
    let at = name.place();
    region.name = name.value;
    let (path, reserve) = (seen.place("path"), seen.place("reserve"));
    Some(ParsedRegion { region, name: at, path, hosts: seen.list("hosts"), reserve })
}

/// Checks the settings against each other.
fn check(region: &RegionConfig, seen: &Seen, place: &At<()>, problems: &Problems) {
    let at = |key: &str| seen.place(key).unwrap_or_else(|| place.clone());
    let wrong = |key: &str, message: &str, remedy: &str| problems.at(&at(key), message, remedy);
    match (&region.path, region.size) {
        (None, _) if region.create => {
            let remedy = "name the file with `path`, or remove `create`: memory is always there";
            wrong("create", "`create` is set, and `path` is not", remedy);
        }
        (None, None) => {
            let remedy = "give the `size` of its memory, or the `path` of a file or device";
            problems.at(place, "the region has neither a `path` nor a `size`", remedy);
        }
        (Some(_), None) if region.create => {
            let remedy = "say how large the file becomes: `size`";
            wrong("create", "`create` is set, and `size` is not", remedy);
        }
        (Some(_), Some(_)) if region.create && region.read_only => {
            let remedy = "an empty file that no client can write is of no use: remove one of them";
            wrong("create", "`create` is set, and so is `read_only`", remedy);
        }
        (None, Some(size)) if size > MEMORY_MAX => {
            let message = format!("`size` is {}, too large for memory", format_size(size));
            let remedy = format!("write at most \"{}\"", format_size(MEMORY_MAX));
            wrong("size", &message, &remedy);
        }
        _ => {}
    }
    if let Some(size) = region.size.filter(|size| !size.is_multiple_of(4096)) {
        let message = format!("`size` is {size} bytes, not whole pages");
        wrong("size", &message, "write a multiple of 4096, such as \"1 GiB\"");
    }
    if let Some(limit) = region.limit.filter(|limit| *limit < region.reserve) {
        let reserve = region.reserve;
        let message = format!("`limit` is {limit}, and a host may reserve {reserve}");
        let remedy = format!("write a limit of {reserve} or more, or a smaller `reserve`");
        wrong("limit", &message, &remedy);
    }
}
