//! Tests of what the kernel says of keys. Keys themselves are read in the scenario `tls-keyring`, whose
//! kernel has keys of the type `psk`.

use super::*;

/// `/proc/keys` of a machine with the module nvme-keyring.
const KEYS: &str = "\
06492a99 I--Q---     1 perm 3b010000     0     0 psk       NVMe0R01 nqn.2014-08.org:h nqn.2026-01.io.x:s: 32
0ad515ad I--Q---     1 perm 1f3f0000     0 65534 keyring   _uid_ses.0: 1
10000001 I--Q---     1 perm 3f010000  1000  1000 keyring   targets: 3
10000002 IR-----     1 perm 1f1f0000     0     0 keyring   .nvme: empty
10000003 I------     1 expd 1f1f0000     0     0 keyring   .nvme: empty
10000004 I------     1 perm 1f1f0000     0     0 user      .nvme: 32
10000005 I------     1 perm 1f1f0000     0     0 keyring   .nvme.other: empty
aa2791c4 I------     1 perm 1f1f0000     0     0 keyring   .nvme: 1
2817a244 I--Q---     1   4w 3f010000  2000  2000 keyring   targets: empty
";

#[test]
fn a_keyring_is_found_by_its_name_where_it_is_good_and_of_a_trusted_user() {
    let found = |name, own| listed(KEYS, name, [0, own]);
    assert_eq!(found(".nvme", 1000), Some(Serial(0xaa27_91c4_u32.cast_signed())));
    assert_eq!(found("targets", 1000), Some(Serial(0x1000_0001)));
    assert_eq!(found("targets", 2000), Some(Serial(0x2817_a244)));
    assert_eq!(found("targets", 3000), None, "anybody can make a keyring of that name");
    assert_eq!(found("NVMe0R01", 0), None);
    assert_eq!(found(".nvm", 0), None);
    for broken in ["", "\n", "x", "06492a99 I--Q---     1 perm 3b010000     0", "\u{e4} \u{e4}"] {
        assert_eq!(listed(broken, ".nvme", [0, 0]), None);
    }
}

#[test]
fn what_the_kernel_says_of_a_key_is_read_with_its_whole_description() {
    let read = |line: &str| Described::read(line.as_bytes());
    let key = read("psk;0;65534;3b010000;NVMe1R01 host sub;system digest=\0").unwrap();
    let own = (key.kind.as_str(), key.owner, key.description.as_str());
    assert_eq!(own, ("psk", 0, "NVMe1R01 host sub;system digest="));
    assert_eq!(read("keyring;1000;1000;3f010000;\0").unwrap().description, "");
    for broken in ["", "\0", "psk;0;0;3b010000\0", "psk;x;0;3b010000;name\0", "psk;0;0;0;name"] {
        assert_eq!(read(broken), None, "{broken}");
    }
}

#[test]
fn errors_say_what_to_do() {
    let keyring = |name: &str| Keyring::new(name).unwrap();
    let said = |name: &str, user| KeyringError::Missing { name: name.to_owned(), user }.to_string();
    assert!(
        said(".nvme", 0)
            .ends_with("`modprobe nvme-keyring` makes it (Linux 6.7 with CONFIG_NVME_KEYRING)")
    );
    assert!(said(".nvme", 990).contains("root must link it into the keyring of user 990"));
    assert!(!said("targets", 0).contains("modprobe"));
    for errno in [Errno::EACCES, Errno::EPERM] {
        let said = keyring(".nvme").error(errno).to_string();
        assert!(said.contains("may not use the keyring .nvme: root must link it"), "{said}");
    }
    for errno in [Errno::ENOKEY, Errno::EKEYREVOKED, Errno::EKEYEXPIRED] {
        assert!(matches!(keyring(".nvme").error(errno), KeyringError::Missing { .. }));
    }
    assert!(keyring("x").error(Errno::ENOMEM).to_string().contains("ENOMEM"));
    assert!(Keyring::new("a\0b").is_none());
}

#[test]
fn a_keyring_that_is_not_there_has_no_key() {
    let keyring = Keyring::new("sluicegate-tests-have-none").unwrap();
    assert_eq!(keyring.name(), "sluicegate-tests-have-none");
    // Where the machine lets nobody use keys, it is another error.
    assert!(keyring.check().is_err());
    assert!(keyring.find("NVMe0R01 host subsystem").is_err());
}
