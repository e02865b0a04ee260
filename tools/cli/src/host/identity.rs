//! The name and the identifier of this machine as a host, as nvme-cli keeps them.

use std::path::Path;

use sluice_config::program::HOSTNQN;

/// The folder in which nvme-cli keeps them.
const FOLDER: &str = "/etc/nvme";
/// The longest NQN in bytes.
const NQN_MAX: usize = 223;

/// Returns the machine's NQN, or where it has none one that all machines share.
pub(crate) fn nqn() -> String {
    nqn_in(Path::new(FOLDER)).unwrap_or_else(|| HOSTNQN.to_owned())
}

/// Returns the identifier of a host: the machine's own where `nqn` is its name, otherwise one that follows
/// from the name, so that hosts of different NQNs have different ones.
pub(crate) fn host_id(nqn: &str) -> [u8; 16] {
    id_in(Path::new(FOLDER), nqn).unwrap_or_else(|| derived_id(nqn))
}

/// Reads the machine's NQN; `None` where there is none, or the file holds something else.
fn nqn_in(folder: &Path) -> Option<String> {
    let text = std::fs::read_to_string(folder.join("hostnqn")).ok()?;
    let nqn = text.trim();
    let good = nqn.starts_with("nqn.") && nqn.len() <= NQN_MAX && !nqn.contains(char::is_control);
    good.then(|| nqn.to_owned())
}

/// Reads the machine's identifier, where `nqn` is its name.
fn id_in(folder: &Path, nqn: &str) -> Option<[u8; 16]> {
    nqn_in(folder).filter(|own| own == nqn)?;
    let text = std::fs::read_to_string(folder.join("hostid")).ok()?;
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    let id = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32)?;
    // No host has the identifier zero.
    (id != 0).then(|| id.to_be_bytes())
}

/// Derives an identifier from an NQN.
fn derived_id(nqn: &str) -> [u8; 16] {
    // FNV-1a, 128 bits.
    let hash = nqn.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    });
    hash.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
    const ID: &str = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
    const BYTES: [u8; 16] = 0xf81d_4fae_7dec_11d0_a765_00a0_c91e_6bf6_u128.to_be_bytes();

    #[test]
    fn the_machines_name_and_identifier_are_those_of_nvme_cli() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert_eq!((nqn_in(folder), id_in(folder, NQN)), (None, None));
        std::fs::write(folder.join("hostnqn"), format!("{NQN}\n")).unwrap();
        assert_eq!((nqn_in(folder).as_deref(), id_in(folder, NQN)), (Some(NQN), None));
        std::fs::write(folder.join("hostid"), format!("{ID}\n")).unwrap();
        assert_eq!(id_in(folder, NQN), Some(BYTES));
        assert_eq!(id_in(folder, "nqn.other"), None, "another host of this machine");
        for wrong in ["", "0", "00000000-0000-0000-0000-000000000000", "f81d4fae-7dec"] {
            std::fs::write(folder.join("hostid"), wrong).unwrap();
            assert_eq!(id_in(folder, NQN), None, "{wrong:?}");
        }
        for wrong in ["", "no name\n", "nqn.a\nnqn.b\n", &format!("nqn.{}", "x".repeat(220))] {
            std::fs::write(folder.join("hostnqn"), wrong).unwrap();
            assert_eq!((nqn_in(folder), id_in(folder, NQN)), (None, None), "{wrong:?}");
        }
    }

    #[test]
    fn names_have_identifiers_of_their_own() {
        assert_ne!(derived_id("nqn.a"), derived_id("nqn.b"));
    }
}
