//! Names and identifiers: the form of an NQN, and the identifiers that are derived where the
//! configuration gives none and no state file keeps them.

use uuid::Uuid;

/// The longest NQN in bytes (NVM Express Base Specification 2.1, 4.7: 223 and a NUL).
pub const NQN_MAX: usize = 223;
/// The NQN of the discovery subsystem, which no other subsystem may have.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";
/// The beginning of an NQN that is made of a UUID (NVM Express Base Specification 2.1, 4.7).
const UUID_NQN: &str = "nqn.2014-08.org.nvmexpress:uuid:";
/// The length of a UUID in such an NQN, in characters: 32 hexadecimal digits and 4 hyphens.
const UUID_LENGTH: usize = 36;
/// The namespace of derived UUIDs. The value never changes, or disks would change their names.
const NAMESPACE: Uuid = Uuid::from_u128(0x6f3d_2c1e_8a57_5f0b_9d34_51c6_7e20_a9b8);

/// Checks an NQN (NVM Express Base Specification 2.1, 4.7).
///
/// # Errors
/// The fault, as the end of a sentence: "is longer than 223 bytes".
pub fn check_nqn(nqn: &str) -> Result<(), &'static str> {
    if nqn.len() > NQN_MAX {
        return Err("is longer than 223 bytes");
    }
    if nqn.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("contains white space or control characters");
    }
    let rest = nqn.strip_prefix("nqn.").ok_or("does not begin with \"nqn.\"")?;
    let (date, domain) = rest.split_once('.').ok_or("has no date and domain")?;
    if !date_is_right(date) {
        return Err("does not have a date of the form yyyy-mm after \"nqn.\"");
    }
    if let Some(uuid) = nqn.strip_prefix(UUID_NQN)
        && (uuid.len() != UUID_LENGTH || Uuid::try_parse(uuid).is_err())
    {
        return Err(
            "has no whole UUID after \"uuid:\": 36 characters, 8-4-4-4-12 hexadecimal digits",
        );
    }
    let (domain, name) = domain.split_once(':').unwrap_or((domain, "-"));
    if domain.is_empty() || domain.split('.').any(str::is_empty) {
        return Err("does not have a reversed domain name after the date");
    }
    if name.is_empty() {
        return Err("has nothing after the colon");
    }
    Ok(())
}

/// Returns whether a date has the form `yyyy-mm`.
fn date_is_right(date: &str) -> bool {
    let Some((year, month)) = date.split_once('-') else { return false };
    let digits = |text: &str, n| text.len() == n && text.bytes().all(|b| b.is_ascii_digit());
    digits(year, 4) && digits(month, 2) && (1..=12).contains(&month.parse().unwrap_or(0))
}

/// Derives the UUID that a namespace without one had before the daemon kept identities: version 5 of
/// its subsystem's NQN and its NSID.
#[must_use]
pub fn derived_uuid(nqn: &str, nsid: u32) -> Uuid {
    Uuid::new_v5(&NAMESPACE, format!("{nqn}\n{nsid}").as_bytes())
}

/// Derives the UUID of a namespace from its data: version 5 of its subsystem's NQN, its NSID, and a
/// text that another file or device does not share. Namespaces that only read may share a file.
#[must_use]
pub fn uuid_of_data(nqn: &str, nsid: u32, data: &str) -> Uuid {
    Uuid::new_v5(&NAMESPACE, format!("{nqn}\n{nsid}\n{data}").as_bytes())
}

/// Derives the NGUID of a namespace without one: its UUID, with the OUI field (the first of its
/// bytes is byte 8) marked as locally administered. Otherwise a UUID's bits could be the OUI of an
/// unrelated vendor.
#[must_use]
pub fn derived_nguid(uuid: Uuid) -> [u8; 16] {
    /// Bit 1 of an OUI's first byte: locally administered, of no vendor.
    const LOCAL: u8 = 0b10;
    /// Bit 0 of an OUI's first byte: a group's address.
    const GROUP: u8 = 0b01;
    let mut nguid = uuid.into_bytes();
    if let Some(first) = nguid.get_mut(8) {
        *first = (*first | LOCAL) & !GROUP;
    }
    nguid
}

/// Derives the serial number of a subsystem without one from its NQN.
#[must_use]
pub fn derived_serial(nqn: &str) -> String {
    serial_of(Uuid::new_v5(&NAMESPACE, nqn.as_bytes()))
}

/// Makes a serial number of a UUID: its first 20 hexadecimal digits.
#[must_use]
pub fn serial_of(uuid: Uuid) -> String {
    uuid.simple().to_string().chars().take(20).collect()
}

/// Writes 16 bytes as 32 hexadecimal digits.
#[must_use]
pub fn format_nguid(nguid: &[u8; 16]) -> String {
    Uuid::from_bytes(*nguid).simple().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_nguid_made_of_a_uuid_names_no_vendor() {
        for number in 0..u128::from(u8::MAX) {
            let uuid = Uuid::from_u128(number << 56 | 0xabcd);
            let nguid = derived_nguid(uuid);
            assert_eq!(nguid[8] & 0b11, 0b10, "locally administered, not a group");
            assert_eq!(Uuid::from_bytes(nguid).as_u128() | 3 << 56, uuid.as_u128() | 3 << 56);
        }
    }

    #[test]
    fn nqn_forms() {
        for nqn in [
            "nqn.2026-01.io.sluicegate:disk1",
            "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "nqn.2014-08.org.nvmexpress:uuid:F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6",
            "nqn.2014-08.com.example",
        ] {
            assert_eq!(check_nqn(nqn), Ok(()), "{nqn}");
        }
        for nqn in [
            "",
            "disk1",
            "nqn.",
            "nqn.2026",
            "nqn.2026-13.io.x:a",
            "nqn.26-01.io.x:a",
            "nqn.2026-01.:a",
            "nqn.2026-01.io..x:a",
            "nqn.2026-01.io.x:",
            "nqn.2026-01.io.x:a b",
            "nqn.2026-01.io.x:a\n",
            "NQN.2026-01.io.x:a",
            "nqn.2014-08.org.nvmexpress:uuid:",
            "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765",
            "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf",
            "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6a",
            "nqn.2014-08.org.nvmexpress:uuid:f81d4fae7dec11d0a76500a0c91e6bf6",
            "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bfg",
            "nqn.2014-08.org.nvmexpress:uuid:f81d4fae7-dec-11d0-a765-00a0c91e6bf6",
        ] {
            assert!(check_nqn(nqn).is_err(), "{nqn}");
        }
        let longest = format!("nqn.2026-01.io.x:{}", "a".repeat(NQN_MAX - 17));
        assert_eq!(check_nqn(&longest), Ok(()));
        assert!(check_nqn(&format!("{longest}a")).is_err());
    }

    #[test]
    fn derived_identifiers_never_change() {
        let nqn = "nqn.2026-01.io.sluicegate:disk1";
        assert_eq!(derived_uuid(nqn, 1).to_string(), "cae6fd9a-08f9-55db-8d6c-e35cfbdfd438");
        assert_eq!(derived_serial(nqn), "a4ee351875d65f1fb69b");
        let data = "inode 12 made 1764216267.25";
        let uuid = uuid_of_data(nqn, 1, data);
        assert_eq!(uuid.to_string(), "54d411e5-a641-52ec-9eed-265b71eb2b7e");
        let others = [
            derived_uuid(nqn, 1),
            derived_uuid(nqn, 2),
            uuid_of_data(nqn, 2, data),
            uuid_of_data(nqn, 1, "inode 12 made 1764216267.26"),
        ];
        assert!(!others.contains(&uuid));
    }
}
