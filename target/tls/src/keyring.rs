//! Keys in a keyring of the Linux kernel, where nvme-cli puts them: of type `psk`, with the identity as their
//! description, and the TLS secret as their payload. Only this module asks the kernel for keys.
//!
//! Such a key is readable to a thread that *possesses* it, that is, reaches it by links from one of its own
//! keyrings. So the keyring is linked into the keyring of the calling thread, as `tlshd` links it into its
//! session's. That requires the right to do so, which root has, or a link from a keyring that the process has
//! already, such as its user's.
//!
//! The first link gives the thread new credentials, and each thread that it starts later gets some, too. The kernel
//! refuses writes to RDMA devices with other credentials than at the `open`. So a program that uses RDMA calls
//! [`Keyring`] on a thread that does nothing else.

use std::ffi::{CStr, CString};

use nix::errno::Errno;
use nix::unistd::geteuid;
use thiserror::Error;
use zeroize::Zeroizing;

/// The type of a keyring.
const KEYRING: &CStr = c"keyring";
/// The type of the keys: the module nvme-keyring has it.
const PSK: &CStr = c"psk";
/// The most bytes of a secret: no hash of TLS 1.3 has more than 48.
const SECRET_MAX: usize = 64;
/// Maximum bytes of a key's description that are read, with the kernel's fields before it. An identity with the
/// longest names has 521.
const DESCRIPTION_MAX: usize = 1024;
/// The most keys that are looked at one by one.
const KEYS_MAX: usize = 16384;

/// The number of a key in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Serial(i32);

/// The keyring of the calling thread, which the kernel makes when something is linked into it.
const OF_THREAD: Serial = Serial(libc::KEY_SPEC_THREAD_KEYRING);
/// The keyring of the user of this process.
const OF_USER: Serial = Serial(libc::KEY_SPEC_USER_KEYRING);

/// The error of a keyring that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyringError {
    /// It is not there, or root alone sees it.
    #[error("there is no keyring {name}{hint}", hint = hint(name, *user))]
    Missing {
        /// Its name.
        name: String,
        /// The user of this process.
        user: u32,
    },
    /// It may not be used.
    #[error(
        "user {user} may not use the keyring {name}: root must link it into that user's keyring \
         (share/doc/sluicegate/use/security.md), or the system call keyctl is not allowed"
    )]
    Denied {
        /// Its name.
        name: String,
        /// The user of this process.
        user: u32,
    },
    /// A key must be looked for among more keys than are looked at.
    #[error("the keyring {name} has more than {KEYS_MAX} keys")]
    TooMany {
        /// Its name.
        name: String,
    },
    /// The kernel has another error.
    #[error("the keyring {name} cannot be used: {errno}")]
    Failed {
        /// Its name.
        name: String,
        /// The error.
        errno: Errno,
    },
}

/// Returns the rest of a sentence that begins with a keyring's being missing.
fn hint(name: &str, user: u32) -> String {
    let made = if name == ".nvme" {
        ": `modprobe nvme-keyring` makes it (Linux 6.7 with CONFIG_NVME_KEYRING)"
    } else {
        " of this user or of root"
    };
    let seen = if user == 0 {
        String::new()
    } else {
        format!(
            "; where it is there, root must link it into the keyring of user {user} \
             (share/doc/sluicegate/use/security.md)"
        )
    };
    format!("{made}{seen}")
}

/// Calls the kernel's key management. The last arguments are 0 if an operation takes fewer. Pointers are passed
/// with their provenance exposed, since the kernel accesses their targets.
///
/// # Safety
/// The memory that arguments point to must be as the operation requires: texts end with NUL, and buffers have the
/// room that the arguments state.
unsafe fn keyctl(operation: u32, arguments: [libc::c_ulong; 4]) -> Result<usize, Errno> {
    let [first, second, third, fourth] = arguments;
    let operation = libc::c_ulong::from(operation);
    // SAFETY: the memory that arguments point to is as the operation requires, which the caller promises.
    let result =
        unsafe { libc::syscall(libc::SYS_keyctl, operation, first, second, third, fourth) };
    Errno::result(result).map(|result| usize::try_from(result).unwrap_or_default())
}

impl Serial {
    /// Takes the number that a call of the kernel has returned.
    fn of(number: usize) -> Result<Self, Errno> {
        i32::try_from(number).map(Self).map_err(|_| Errno::EOVERFLOW)
    }

    /// Returns it as an argument, whose sign the kernel takes from the lower half.
    fn argument(self) -> libc::c_ulong {
        libc::c_ulong::from(self.0.cast_unsigned())
    }

    /// Finds a keyring among the keyrings of this process, and the keyrings that are linked there.
    fn own(name: &CStr) -> Result<Self, Errno> {
        let none = std::ptr::null::<libc::c_char>();
        let nowhere = libc::c_long::from(0_i32);
        // SAFETY: both texts end with NUL; without a text for it, the kernel starts no program to make
        // the key.
        let result = unsafe {
            libc::syscall(libc::SYS_request_key, KEYRING.as_ptr(), name.as_ptr(), none, nowhere)
        };
        Errno::result(result)
            .and_then(|number| Self::of(usize::try_from(number).unwrap_or_default()))
    }

    /// Links it into another keyring, where it takes the place of one with its name.
    fn link(self, into: Self) -> Result<(), Errno> {
        // SAFETY: numbers only.
        unsafe { keyctl(libc::KEYCTL_LINK, [self.argument(), into.argument(), 0, 0]) }?;
        Ok(())
    }

    /// Finds a key in a keyring and the keyrings that are linked there, and links it into another one, if any. The
    /// keys of nvme-keyring are found by the beginning of their description, too.
    fn search(self, kind: &CStr, description: &CStr, into: Option<Self>) -> Result<Self, Errno> {
        let (kind, description) =
            (kind.as_ptr().expose_provenance(), description.as_ptr().expose_provenance());
        let (kind, description) = (kind as libc::c_ulong, description as libc::c_ulong);
        let into = into.map_or(0, Self::argument);
        // SAFETY: both texts end with NUL.
        Self::of(unsafe {
            keyctl(libc::KEYCTL_SEARCH, [self.argument(), kind, description, into])
        }?)
    }

    /// Fills a buffer with the kernel's answer to an operation on the key, and returns the answer's length in
    /// bytes. If the answer is longer than the buffer, the buffer contains nothing of it, or a part.
    fn told(self, operation: u32, buffer: &mut [u8]) -> Result<usize, Errno> {
        let (at, room) = (buffer.as_mut_ptr().expose_provenance(), buffer.len());
        let arguments = [self.argument(), at as libc::c_ulong, room as libc::c_ulong, 0];
        // SAFETY: the buffer has the stated room, and both operations write no more.
        unsafe { keyctl(operation, arguments) }
    }

    /// Asks the kernel for the key's description, in a buffer. A description that is too long or no text is an
    /// error.
    fn described(self, buffer: &mut [u8; DESCRIPTION_MAX]) -> Result<Described<'_>, Errno> {
        let length = self.told(libc::KEYCTL_DESCRIBE, buffer)?;
        buffer.get(..length).and_then(Described::read).ok_or(Errno::EBADMSG)
    }

    /// Reads a secret; `None` where it is longer than any.
    fn secret(self) -> Result<Option<Zeroizing<Vec<u8>>>, Errno> {
        let mut buffer = Zeroizing::new(vec![0; SECRET_MAX]);
        let length = self.told(libc::KEYCTL_READ, &mut buffer)?;
        Ok((length <= SECRET_MAX).then(|| {
            buffer.truncate(length);
            buffer
        }))
    }

    /// Reads which keys a keyring has itself. More than are looked at are an error (`E2BIG`).
    fn keys(self) -> Result<Vec<Self>, Errno> {
        const EACH: usize = size_of::<i32>();
        let mut buffer = Vec::new();
        // How many there are, then the keys, then again where some have come meanwhile.
        for _ in 0..3 {
            let length = self.told(libc::KEYCTL_READ, &mut buffer)?;
            if let Some(told) = buffer.get(..length) {
                let (numbers, _) = told.as_chunks::<EACH>();
                return Ok(numbers
                    .iter()
                    .map(|number| Self(i32::from_ne_bytes(*number)))
                    .collect());
            }
            if length > KEYS_MAX * EACH {
                return Err(Errno::E2BIG);
            }
            buffer.resize(length, 0);
        }
        Err(Errno::EAGAIN)
    }
}

/// The kernel's description of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Described<'a> {
    kind: &'a str,
    owner: u32,
    description: &'a str,
}

impl<'a> Described<'a> {
    /// Reads the kernel's line, `type;uid;gid;permissions;description` with NUL behind it.
    fn read(line: &'a [u8]) -> Option<Self> {
        let text = CStr::from_bytes_with_nul(line).ok()?.to_str().ok()?;
        let mut parts = text.splitn(5, ';');
        let (kind, owner) = (parts.next()?, parts.next()?);
        let (_, _, description) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self { kind, owner: owner.parse().ok()?, description })
    }

    fn is_psk(&self) -> bool {
        self.kind.as_bytes() == PSK.to_bytes()
    }

    /// Returns whether it is a keyring of this name that one of these users owns. (Other users could make one to
    /// inject their own keys.)
    fn is_keyring(&self, name: &str, owners: [u32; 2]) -> bool {
        let is_it = self.kind.as_bytes() == KEYRING.to_bytes() && self.description == name;
        is_it && owners.contains(&self.owner)
    }
}

/// Finds candidates for keyrings of a name in `/proc/keys`. A key's description can contain forged lines, so the
/// kernel must be asked about each number.
fn listed<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = Serial> + 'a {
    text.lines().filter_map(move |line| {
        // Number, flags, uses, time, permissions, uid, gid, type, and the description.
        let mut words = line.split_ascii_whitespace();
        let (number, flags) = (words.next()?, words.next()?);
        let time = words.nth(1)?;
        let (kind, description) = (words.nth(3)?, words.next()?);
        // Made, and neither revoked nor dead nor too old.
        let is_good = flags.starts_with("I--") && time != "expd";
        let may_be_it = kind == "keyring" && description.strip_suffix(':') == Some(name);
        (is_good && may_be_it).then_some(())?;
        u32::from_str_radix(number, 16).ok().map(|number| Serial(number.cast_signed()))
    })
}

/// A keyring of the kernel, by its name. Nothing is kept of it: each look-up finds it and the key anew.
#[derive(Clone, Debug)]
pub struct Keyring {
    name: CString,
}

impl Keyring {
    /// Names a keyring; `None` where no keyring can have the name.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        CString::new(name).ok().map(|name| Self { name })
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.to_str().unwrap_or_default()
    }

    /// Makes the keyring usable for the calling thread. This may change the thread's credentials.
    ///
    /// # Errors
    /// It is not there, or may not be used.
    pub fn check(&self) -> Result<(), KeyringError> {
        self.reach().map(drop)
    }

    /// Finds the secret of a key of type `psk` by its whole description, which may be an identity. A key that is
    /// revoked, expired or unreadable is not found. As [`Self::check`], this may change the thread's credentials.
    ///
    /// # Errors
    /// The keyring is not there, or may not be used.
    pub fn find(&self, description: &str) -> Result<Option<Zeroizing<Vec<u8>>>, KeyringError> {
        let Ok(wanted) = CString::new(description) else { return Ok(None) };
        let keyring = self.reach()?;
        let mut buffer = [0; DESCRIPTION_MAX];
        let mut is_it = |key: &Serial| {
            key.described(&mut buffer)
                .is_ok_and(|found| found.is_psk() && found.description == description)
        };
        let found = match keyring.search(PSK, &wanted, None) {
            Ok(key) if is_it(&key) => Some(key),
            // One whose description only begins so: the right one may be behind it.
            Ok(_) => {
                let keys = keyring.keys().map_err(|errno| self.error(errno))?;
                keys.into_iter().find(is_it)
            }
            // It is of the key alone: the keyring itself was found by a search.
            Err(errno) if is_gone(errno) || errno == Errno::EACCES => None,
            Err(errno) => return Err(self.error(errno)),
        };
        Ok(found.and_then(|key| key.secret().ok().flatten()))
    }

    /// Lists the descriptions of the keys of type `psk`, without revoked and expired ones. As [`Self::check`], this may change the thread's credentials.
    ///
    /// # Errors
    /// The keyring is not there, or may not be used.
    pub fn descriptions(&self) -> Result<Vec<String>, KeyringError> {
        let keys = self.reach()?.keys().map_err(|errno| self.error(errno))?;
        let mut buffer = [0; DESCRIPTION_MAX];
        let describe = |key: Serial| {
            let found = key.described(&mut buffer).ok()?;
            found.is_psk().then(|| found.description.to_owned())
        };
        Ok(keys.into_iter().filter_map(describe).collect())
    }

    /// Finds the keyring, which the calling thread has when this returns: the first time, it is linked
    /// into the thread's own one.
    fn reach(&self) -> Result<Serial, KeyringError> {
        let owners = [0, geteuid().as_raw()];
        let mut buffer = [0; DESCRIPTION_MAX];
        let mut trusted = |key: &Serial| {
            key.described(&mut buffer).is_ok_and(|found| found.is_keyring(self.name(), owners))
        };
        match Serial::own(&self.name) {
            Ok(key) if trusted(&key) => return Ok(key),
            Err(errno @ (Errno::EPERM | Errno::ENOSYS)) => return Err(self.error(errno)),
            _ => {}
        }
        // Root may have linked it into the user's keyring. The user may have none.
        if let Ok(key) = OF_USER.search(KEYRING, &self.name, Some(OF_THREAD))
            && trusted(&key)
        {
            return Ok(key);
        }
        // Descriptions of others are any bytes.
        let keys = std::fs::read("/proc/keys").unwrap_or_default();
        let found = listed(&String::from_utf8_lossy(&keys), self.name()).find(trusted);
        let found = found.ok_or_else(|| self.error(Errno::ENOKEY))?;
        found.link(OF_THREAD).map_err(|errno| self.error(errno))?;
        Ok(found)
    }

    /// Converts an error of the kernel's into an error of the keyring.
    fn error(&self, errno: Errno) -> KeyringError {
        let (name, user) = (self.name().to_owned(), geteuid().as_raw());
        match errno {
            Errno::EACCES | Errno::EPERM => KeyringError::Denied { name, user },
            Errno::E2BIG => KeyringError::TooMany { name },
            errno if is_gone(errno) => KeyringError::Missing { name, user },
            errno => KeyringError::Failed { name, errno },
        }
    }
}

/// Returns whether an error means that a key is missing, or no longer valid.
fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::ENOKEY | Errno::EKEYREVOKED | Errno::EKEYEXPIRED | Errno::EKEYREJECTED)
}

#[cfg(test)]
mod tests;
