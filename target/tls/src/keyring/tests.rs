//! Tests of the kernel's descriptions of keys. The scenario `tls-keyring` reads keys themselves: its kernel has
//! keys of the type `psk`.

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

/// Returns the numbers of possible keyrings.
fn numbers(text: &str, name: &str) -> Vec<u32> {
    listed(text, name).map(|key| key.0.cast_unsigned()).collect()
}

#[test]
fn a_keyring_is_found_by_its_name_where_it_is_good() {
    assert_eq!(numbers(KEYS, ".nvme"), [0xaa27_91c4]);
    assert_eq!(numbers(KEYS, "targets"), [0x1000_0001, 0x2817_a244]);
    assert_eq!(numbers(KEYS, "NVMe0R01"), []);
    assert_eq!(numbers(KEYS, ".nvm"), []);
    for broken in ["", "\n", "x", "06492a99 I--Q---     1 perm 3b010000     0", "\u{e4} \u{e4}"] {
        assert_eq!(numbers(broken, ".nvme"), []);
    }
}

#[test]
fn a_forged_line_makes_no_keyring_a_trusted_one() {
    // The description of the first key goes on in the second line.
    let keys = "\
10000001 I--Q---     1 perm 3f010000  1000  1000 user      x
10000002 I------     1 perm 1f1f0000     0     0 keyring   .nvme: 1: 5
10000002 I--Q---     1 perm 3f3f3f3f  1000  1000 keyring   evil: 1
2a2791c4 I------     1 perm 1f1f0000     0     0 keyring   .nvme: 1
";
    let asked = |number: u32| {
        let line: &[u8] = match number {
            0x1000_0002 => b"keyring;1000;1000;3f3f3f3f;evil\0",
            0x2a27_91c4 => b"keyring;0;0;1f1f0000;.nvme\0",
            _ => unreachable!("{number:x}"),
        };
        Described::read(line).unwrap()
    };
    let mut found = numbers(keys, ".nvme");
    found.retain(|number| asked(*number).is_keyring(".nvme", [0, 990]));
    assert_eq!(found, [0x2a27_91c4]);
}

#[test]
fn a_keyring_is_trusted_by_its_owner_type_and_whole_name() {
    for (line, is_trusted) in [
        ("keyring;0;0;1f1f0000;targets\0", true),
        ("keyring;990;990;1f1f0000;targets\0", true),
        // Anybody can make one.
        ("keyring;1000;0;1f1f0000;targets\0", false),
        ("user;0;0;1f1f0000;targets\0", false),
        ("keyring;990;990;1f1f0000;targets: x\0", false),
        ("keyring;990;990;1f1f0000;x;targets\0", false),
    ] {
        let described = Described::read(line.as_bytes()).unwrap();
        assert_eq!(described.is_keyring("targets", [0, 990]), is_trusted, "{line}");
    }
}

#[test]
fn what_the_kernel_says_of_a_key_is_read_with_its_whole_description() {
    fn read(line: &str) -> Option<Described<'_>> {
        Described::read(line.as_bytes())
    }
    let key = read("psk;0;65534;3b010000;NVMe1R01 host sub;system digest=\0").unwrap();
    let own = (key.kind, key.owner, key.description);
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
    let remedy = "`modprobe nvme-keyring` makes it (Linux 6.7 with CONFIG_NVME_KEYRING)";
    assert!(said(".nvme", 0).ends_with(remedy));
    assert!(said(".nvme", 990).contains("root must link it into the keyring of user 990"));
    assert!(!said("targets", 0).contains("modprobe"));
    for errno in [Errno::EACCES, Errno::EPERM] {
        let said = keyring(".nvme").error(errno).to_string();
        assert!(said.contains("may not use the keyring .nvme: root must link it"), "{said}");
    }
    for errno in [Errno::ENOKEY, Errno::EKEYREVOKED, Errno::EKEYEXPIRED] {
        assert!(matches!(keyring(".nvme").error(errno), KeyringError::Missing { .. }));
    }
    assert!(keyring("x").error(Errno::E2BIG).to_string().contains("has more than 16384 keys"));
    assert!(keyring("x").error(Errno::ENOMEM).to_string().contains("ENOMEM"));
    assert!(Keyring::new("a\0b").is_none());
}

#[test]
fn a_keyring_that_is_not_there_has_no_key() {
    let keyring = Keyring::new("sluicegate-tests-have-none").unwrap();
    assert_eq!(keyring.name(), "sluicegate-tests-have-none");
    let missing = |error: KeyringError| match error {
        KeyringError::Missing { .. } => true,
        // The machine lets nobody use keys.
        KeyringError::Denied { .. } | KeyringError::Failed { errno: Errno::ENOSYS, .. } => {
            Serial::own(c"sluicegate-tests-have-none")
                .is_err_and(|errno| matches!(errno, Errno::EPERM | Errno::ENOSYS))
        }
        _ => false,
    };
    assert!(missing(keyring.check().unwrap_err()));
    assert!(missing(keyring.find("NVMe0R01 host subsystem").unwrap_err()));
}

/// Makes a keyring in the thread's keyring; `None` if the machine does not permit the use of keys.
fn made(name: &CStr) -> Option<Serial> {
    // SAFETY: both texts end with NUL, and a keyring holds nothing by itself.
    let result = unsafe {
        let nothing = std::ptr::null::<libc::c_char>();
        let into = libc::c_long::from(OF_THREAD.0);
        libc::syscall(libc::SYS_add_key, KEYRING.as_ptr(), name.as_ptr(), nothing, 0_usize, into)
    };
    match Errno::result(result) {
        Err(Errno::EPERM | Errno::ENOSYS) => None,
        made => Some(Serial::of(usize::try_from(made.unwrap()).unwrap()).unwrap()),
    }
}

#[test]
fn a_keyring_of_the_user_is_found_and_tells_its_keys() {
    let name = c"sluicegate-tests-have-one";
    let Some(own) = made(name) else { return };
    let keyring = Keyring::new(name.to_str().unwrap()).unwrap();
    assert_eq!(keyring.reach(), Ok(own));
    assert_eq!(own.keys(), Ok(vec![]));
    let inner = made(c"sluicegate-tests-inner").unwrap();
    inner.link(own).unwrap();
    assert_eq!(own.keys(), Ok(vec![inner]));
    assert_eq!(own.search(KEYRING, c"sluicegate-tests-inner", None), Ok(inner));
    assert_eq!(own.search(KEYRING, c"sluicegate-tests-none", None), Err(Errno::ENOKEY));
}
