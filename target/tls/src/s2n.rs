//! The one module that calls s2n-tls.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use s2n_tls_sys as sys;

use crate::keys::{Keys, Offered, Psk, PskHash};
use crate::outcome::{Established, TlsError};
use crate::traffic::{Secret, TrafficSecrets};

/// The security policy of the library: TLS 1.3 with AES-GCM before all else.
const POLICY: &CStr = c"default_tls13";
/// TLS 1.3 among the library's versions.
const TLS13: c_int = 34;
/// The bytes of an identity that errors name: two NQNs and a digest have 600 at the most.
const NAMED_MAX: usize = 600;
/// The most identities of a ClientHello that are looked at. A Linux host offers one.
const IDENTITIES_MAX: usize = 8;

/// Returns the library's last error in words, for the calling thread.
fn last_error() -> String {
    // SAFETY: the library has a number of its last error for each thread, and constant texts for
    // all numbers.
    let text = unsafe { sys::s2n_strerror(*sys::s2n_errno_location(), c"EN".as_ptr()) };
    text_of(text).to_owned()
}

/// Reads one of the library's constant texts.
fn text_of(text: *const c_char) -> &'static str {
    if text.is_null() {
        return "";
    }
    // SAFETY: the library's names and messages are constants that end with NUL.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or_default()
}

fn check(result: c_int) -> Result<(), TlsError> {
    if result == 0 { Ok(()) } else { Err(TlsError::Library(last_error())) }
}

unsafe extern "C" fn nothing() -> c_int {
    0
}

/// Allocates memory for the library. It would lock each piece into memory by itself otherwise, which
/// fails where RLIMIT_MEMLOCK is low.
unsafe extern "C" fn allocate(at: *mut *mut c_void, requested: u32, allocated: *mut u32) -> c_int {
    // SAFETY: malloc takes any size; the library passes two valid places for the results.
    unsafe {
        let memory = libc::malloc(requested as usize);
        if memory.is_null() {
            return -1;
        }
        *at = memory;
        *allocated = requested;
    }
    0
}

/// Frees memory of the library, which has cleared it.
unsafe extern "C" fn free(memory: *mut c_void, _: u32) -> c_int {
    // SAFETY: the library gives what `allocate` gave it, once.
    unsafe { libc::free(memory) };
    0
}

/// Starts the library, once in a process.
fn start() -> Result<(), TlsError> {
    static STARTED: OnceLock<Result<(), String>> = OnceLock::new();
    let started = STARTED.get_or_init(|| {
        // SAFETY: these are the first calls of the library; it is left as it is when the process
        // ends, since another thread may be in it then.
        let result = unsafe {
            sys::s2n_disable_atexit()
                | sys::s2n_mem_set_callbacks(
                    Some(nothing),
                    Some(nothing),
                    Some(allocate),
                    Some(free),
                )
                | sys::s2n_init()
        };
        if result == 0 { Ok(()) } else { Err(last_error()) }
    });
    started.clone().map_err(TlsError::Library)
}

/// The settings of handshakes, and the keys.
#[derive(Debug)]
pub struct Context {
    config: NonNull<sys::s2n_config>,
    /// The keys, where the library's callback finds them.
    keys: Box<Box<dyn Keys>>,
}

// SAFETY: the library only reads a configuration that connections use, and the keys may be used by
// several threads.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Makes the settings, with these keys.
    ///
    /// # Errors
    /// The library does not start.
    pub fn new(keys: Box<dyn Keys>) -> Result<Self, TlsError> {
        start()?;
        // SAFETY: the library has been started.
        let config = unsafe { sys::s2n_config_new() };
        let config = NonNull::new(config).ok_or_else(|| TlsError::Library(last_error()))?;
        // From here on the configuration is freed with the context.
        let context = Self { config, keys: Box::new(keys) };
        let keys = (&raw const *context.keys).cast_mut().cast::<c_void>();
        let config = config.as_ptr();
        // SAFETY: the configuration is valid, the policy a constant, and the keys stay where they are
        // as long as the context, which outlives its connections.
        unsafe {
            check(sys::s2n_config_set_cipher_preferences(config, POLICY.as_ptr()))?;
            check(sys::s2n_config_set_psk_mode(config, sys::s2n_psk_mode::EXTERNAL))?;
            check(sys::s2n_config_set_psk_selection_callback(config, Some(select), keys))?;
            check(sys::s2n_config_ktls_enable_unsafe_tls13(config))?;
            check(sys::s2n_config_set_key_log_cb(config, Some(keep), ptr::null_mut()))?;
        }
        Ok(context)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the configuration is valid, and no connection uses it: each borrows the context
        // while it is made and is dropped by the program before.
        unsafe { sys::s2n_config_free(self.config.as_ptr()) };
    }
}

/// The state that the callbacks keep of a connection.
#[derive(Debug, Default)]
struct Seen {
    /// The first identity that was offered.
    offered: Option<Vec<u8>>,
    /// Whether a key was found.
    found: bool,
    /// The secrets by which the client and the server send.
    secrets: [Option<Secret>; 2],
}

/// Keeps the secrets by which data is sent. The library passes them only as lines of NSS's key log, and clears the
/// lines itself.
unsafe extern "C" fn keep(
    _: *mut c_void,
    connection: *mut sys::s2n_connection,
    line: *mut u8,
    length: usize,
) -> c_int {
    const LABELS: [&[u8]; 2] = [b"CLIENT_TRAFFIC_SECRET_0", b"SERVER_TRAFFIC_SECRET_0"];
    // SAFETY: the line is valid during the call, and the connection's own is its `Seen`, as in
    // `select`.
    let (line, seen) = unsafe {
        let seen = sys::s2n_connection_get_ctx(connection).cast::<Seen>();
        (std::slice::from_raw_parts(line, length), seen.as_mut())
    };
    let mut words = line.split(|byte| *byte == b' ');
    let (label, secret) = (words.next(), words.nth(1));
    if let (Some(seen), Some(secret)) = (seen, secret) {
        for (place, of) in seen.secrets.iter_mut().zip(LABELS) {
            if label == Some(of) {
                *place = Secret::of_hex(secret);
            }
        }
    }
    0
}

/// Chooses the key of a connection: the first offered identity with a known key. Only this key is passed to the
/// library, whose own look-up would compare all.
unsafe extern "C" fn select(
    connection: *mut sys::s2n_connection,
    keys: *mut c_void,
    list: *mut sys::s2n_offered_psk_list,
) -> c_int {
    // SAFETY: the context is the box of keys, and the connection's own is its `Seen`; both are set
    // before a handshake begins and outlive it. Nothing else uses the `Seen` during the call.
    let (keys, seen) = unsafe {
        let seen = sys::s2n_connection_get_ctx(connection).cast::<Seen>();
        (keys.cast::<Box<dyn Keys>>().as_ref(), seen.as_mut())
    };
    let (Some(keys), Some(seen)) = (keys, seen) else { return -1 };
    let hello = client_hello(connection);
    // SAFETY: the list and the identities that it hands out are valid during the call; `offered` is made and freed
    // here.
    unsafe {
        let mut offered = sys::s2n_offered_psk_new();
        let mut result = 0;
        for index in 0..IDENTITIES_MAX {
            if !sys::s2n_offered_psk_list_has_next(list)
                || sys::s2n_offered_psk_list_next(list, offered) != 0
            {
                break;
            }
            let (mut text, mut length) = (ptr::null_mut(), 0_u16);
            if sys::s2n_offered_psk_get_identity(offered, &raw mut text, &raw mut length) != 0
                || text.is_null()
            {
                break;
            }
            let identity = std::slice::from_raw_parts(text, length.into());
            if seen.found {
                // The second ClientHello, after a HelloRetryRequest: the connection has the key.
                if seen.offered.as_deref() == Some(identity) {
                    result = sys::s2n_offered_psk_list_choose_psk(list, offered);
                    break;
                }
                continue;
            }
            seen.offered.get_or_insert_with(|| identity.to_vec());
            let hello = hello.as_deref();
            if let Some(psk) = keys.find(Offered { identity, index, hello }) {
                seen.offered = Some(identity.to_vec());
                seen.found = true;
                result = append(connection, identity, &psk);
                if result == 0 {
                    result = sys::s2n_offered_psk_list_choose_psk(list, offered);
                }
                break;
            }
        }
        sys::s2n_offered_psk_free(&raw mut offered);
        result
    }
}

/// Appends a key to a connection.
fn append(connection: *mut sys::s2n_connection, identity: &[u8], psk: &Psk) -> c_int {
    let (Ok(length), Ok(secret)) = (u16::try_from(identity.len()), u16::try_from(psk.secret.len()))
    else {
        return -1;
    };
    let hash = match psk.hash {
        PskHash::Sha256 => sys::s2n_psk_hmac::SHA256,
        PskHash::Sha384 => sys::s2n_psk_hmac::SHA384,
    };
    // SAFETY: identity and secret have the stated lengths, and are copied; the library calls for this connection.
    unsafe {
        let mut key = sys::s2n_external_psk_new();
        if key.is_null() {
            return -1;
        }
        let result = sys::s2n_psk_set_identity(key, identity.as_ptr(), length)
            | sys::s2n_psk_set_secret(key, psk.secret.as_ptr(), secret)
            | sys::s2n_psk_set_hmac(key, hash);
        let result =
            if result == 0 { sys::s2n_connection_append_psk(connection, key) } else { result };
        sys::s2n_psk_free(&raw mut key);
        result
    }
}

/// Returns the ClientHello as it came, without its header; `None` where it is not the first one.
fn client_hello(connection: *mut sys::s2n_connection) -> Option<Vec<u8>> {
    /// The place of the random bytes, which the library keeps apart from the message.
    const RANDOM: std::ops::Range<usize> = 2..34;
    // SAFETY: the library calls for this connection; the message is copied to memory of the stated length.
    unsafe {
        // Something was sent: a HelloRetryRequest.
        if sys::s2n_connection_get_wire_bytes_out(connection) != 0 {
            return None;
        }
        let hello = sys::s2n_connection_get_client_hello(connection);
        if hello.is_null() {
            return None;
        }
        let length = usize::try_from(sys::s2n_client_hello_get_raw_message_length(hello)).ok()?;
        let mut bytes = vec![0; length];
        let room = u32::try_from(length).ok()?;
        let copied = sys::s2n_client_hello_get_raw_message(hello, bytes.as_mut_ptr(), room);
        let random = bytes.get_mut(RANDOM)?;
        let count = u32::try_from(random.len()).ok()?;
        let all = usize::try_from(copied).ok()? == length;
        (all && sys::s2n_client_hello_get_random(hello, random.as_mut_ptr(), count) == 0)
            .then_some(bytes)
    }
}

/// How far a handshake has come.
pub(crate) enum Step {
    Blocked { on_write: bool },
    Done,
}

/// A connection of the library.
#[derive(Debug)]
pub(crate) struct Connection {
    connection: NonNull<sys::s2n_connection>,
    /// The callbacks' state, where they find it.
    seen: NonNull<Seen>,
}

// SAFETY: a connection and its callbacks' state may be used by one thread after another.
unsafe impl Send for Connection {}

impl Connection {
    /// Makes a connection on a socket, which must outlive it, as the context must.
    pub(crate) fn new(context: &Context, socket: &OwnedFd) -> Result<Self, TlsError> {
        // SAFETY: the library was started with the context.
        let connection = unsafe { sys::s2n_connection_new(sys::s2n_mode::SERVER) };
        let connection = NonNull::new(connection).ok_or_else(|| TlsError::Library(last_error()))?;
        let seen = NonNull::from(Box::leak(Box::default()));
        let made = Self { connection, seen };
        let (own, blinding) = (connection.as_ptr(), sys::s2n_blinding::SELF_SERVICE_BLINDING);
        // SAFETY: connection and configuration are valid, the socket is open, and `seen` is freed
        // after the connection.
        unsafe {
            check(sys::s2n_connection_set_config(own, context.config.as_ptr()))?;
            // Delays after errors are against attacks on ciphers that TLS 1.3 does not have.
            check(sys::s2n_connection_set_blinding(own, blinding))?;
            check(sys::s2n_connection_set_ctx(own, seen.as_ptr().cast()))?;
            check(sys::s2n_connection_set_fd(own, socket.as_raw_fd()))?;
        }
        Ok(made)
    }

    fn seen(&self) -> &Seen {
        // SAFETY: it is valid until `drop`, and the callback, which changes it, is not running.
        unsafe { self.seen.as_ref() }
    }

    /// Goes on with the handshake.
    pub(crate) fn negotiate(&mut self) -> Result<Step, TlsError> {
        let own = self.connection.as_ptr();
        let mut blocked = sys::s2n_blocked_status::NOT_BLOCKED;
        // SAFETY: the connection is valid; the library's number of an error is this thread's.
        let (result, kind) = unsafe {
            let result = sys::s2n_negotiate(own, &raw mut blocked);
            (result, sys::s2n_error_get_type(*sys::s2n_errno_location()))
        };
        if result == 0 {
            return Ok(Step::Done);
        }
        match u32::try_from(kind).unwrap_or_default() {
            sys::s2n_error_type::BLOCKED => {
                let on_write = blocked == sys::s2n_blocked_status::BLOCKED_ON_WRITE;
                Ok(Step::Blocked { on_write })
            }
            sys::s2n_error_type::ALERT => {
                // SAFETY: the connection is valid.
                let alert = unsafe { sys::s2n_connection_get_alert(own) };
                Err(TlsError::Alert(u8::try_from(alert).unwrap_or_default()))
            }
            sys::s2n_error_type::IO | sys::s2n_error_type::CLOSED => Err(TlsError::Closed),
            _ => Err(self.why()),
        }
    }

    /// Returns the reason why a handshake has failed.
    fn why(&self) -> TlsError {
        let error = last_error();
        let seen = self.seen();
        let name = |bytes: &[u8]| {
            let start = bytes.get(..NAMED_MAX).unwrap_or(bytes);
            String::from_utf8_lossy(start).escape_debug().to_string()
        };
        match &seen.offered {
            None if self.has_sent_nothing() => TlsError::NoIdentity,
            Some(identity) if !seen.found => TlsError::Unknown(name(identity)),
            Some(identity) if self.has_sent_nothing() => TlsError::WrongKey(name(identity)),
            _ => TlsError::Failed(error),
        }
    }

    /// Returns whether no byte was sent to the peer.
    pub(crate) fn has_sent_nothing(&self) -> bool {
        // SAFETY: the connection is valid.
        unsafe { sys::s2n_connection_get_wire_bytes_out(self.connection.as_ptr()) == 0 }
    }

    /// Returns the result of a handshake that is done.
    pub(crate) fn established(&mut self) -> Result<Established, TlsError> {
        let own = self.connection.as_ptr();
        // SAFETY: the connection is valid, and the identity has the stated length.
        let (version, identity, cipher) = unsafe {
            let mut length = 0;
            check(sys::s2n_connection_get_negotiated_psk_identity_length(own, &raw mut length))?;
            let mut identity = vec![0; length.into()];
            let to = identity.as_mut_ptr();
            check(sys::s2n_connection_get_negotiated_psk_identity(own, to, length))?;
            let cipher = text_of(sys::s2n_connection_get_cipher(own));
            (sys::s2n_connection_get_actual_protocol_version(own), identity, cipher)
        };
        if version != TLS13 || identity.is_empty() || !self.seen().found {
            return Err(TlsError::NoIdentity);
        }
        let hash = match cipher {
            "TLS_AES_128_GCM_SHA256" => PskHash::Sha256,
            "TLS_AES_256_GCM_SHA384" => PskHash::Sha384,
            other => return Err(TlsError::Kernel(other.to_owned())),
        };
        // SAFETY: it is valid until `drop`, and the callbacks, which use it too, are not running.
        let secrets = std::mem::take(unsafe { &mut self.seen.as_mut().secrets });
        let [Some(client), Some(server)] = secrets else {
            return Err(TlsError::Library("it told no secrets".to_owned()));
        };
        let secrets = TrafficSecrets::new(hash, client, server);
        Ok(Established { identity, cipher, secrets })
    }

    /// Transfers the records to the kernel, both ways.
    pub(crate) fn hand_over(&mut self) -> Result<(), TlsError> {
        let own = self.connection.as_ptr();
        // SAFETY: the connection is valid, and nothing is in the library's buffers: it reads record
        // by record.
        let taken = unsafe {
            sys::s2n_connection_ktls_enable_send(own) == 0
                && sys::s2n_connection_ktls_enable_recv(own) == 0
        };
        if taken { Ok(()) } else { Err(TlsError::Kernel(last_error())) }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: both are valid and used no more; the connection goes first, which refers to the
        // other.
        unsafe {
            sys::s2n_connection_free(self.connection.as_ptr());
            drop(Box::from_raw(self.seen.as_ptr()));
        }
    }
}

#[cfg(test)]
mod tests;
