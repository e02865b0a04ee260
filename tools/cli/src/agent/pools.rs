//! The pools of credits: their paths, and how programs find them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use sluice_credits::Pool;

use super::link;
use super::notes::note;
use super::sysfs::Names;
use crate::host::access::Access;
use crate::host::controller::Controller;

/// Finds the pool of the session that a controller's commands to a namespace belong to; `None` where no agent serves
/// one.
///
/// # Errors
/// The target has no log page of node credits, or the pool cannot be used.
pub(crate) fn find_pool(
    controller: &mut Controller,
    folder: &Path,
    access: &Access,
    nsid: u32,
) -> anyhow::Result<Option<Arc<Pool>>> {
    let page = link::read_page(controller)
        .context("--credits needs a target with the log page of node credits")?;
    let session = page.namespaces.into_iter().find(|namespace| namespace.nsid == nsid);
    let session = session.context("the target lists no credits of the namespace")?.session;
    let names = Names { nqn: access.nqn.clone(), hostnqn: access.hostnqn.clone() };
    let path = pool_path(folder, &names, &session);
    if !path.exists() {
        note(&format_args!(
            "no pool of session {session} in {}: the load is not held back (is sluice-agent running here?)",
            folder.display()
        ));
        return Ok(None);
    }
    Ok(Some(Arc::new(Pool::attach(path)?)))
}

/// The extension of pools.
pub(super) const POOL: &str = "credits";

/// Returns the path of the pool of a host's session at a subsystem.
pub(crate) fn pool_path(folder: &Path, names: &Names, session: &str) -> PathBuf {
    // FNV-1a, 64 bits: names may differ in characters that a file name cannot have.
    let names = [&names.nqn, &names.hostnqn];
    let bytes = names.iter().flat_map(|name| name.bytes().chain([0])).chain(session.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let plain: String =
        session.chars().take(64).map(|c| if is_plain(c) { c } else { '_' }).collect();
    folder.join(format!("{plain}-{hash:016x}.{POOL}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d6_pools_of_other_sessions_have_other_names() {
        let folder = Path::new("/run/x");
        let path = |nqn: &str, session: &str| {
            let names = Names { nqn: nqn.to_owned(), hostnqn: "nqn.h".to_owned() };
            pool_path(folder, &names, session)
        };
        assert_ne!(path("nqn.a", "a/b"), path("nqn.a", "a_b"));
        assert_ne!(path("nqn.a", "s"), path("nqn.b", "s"));
        let name = path("nqn.a", "../../etc").file_name().unwrap().to_str().unwrap().to_owned();
        assert!(name.starts_with(".._.._etc-") && name.ends_with(".credits"), "{name}");
        assert_eq!(path("nqn.a", &"x".repeat(500)).file_name().unwrap().len(), 64 + 1 + 16 + 8);
    }
}
