//! Memory that devices may reach, and the rights on it.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use bitflags::bitflags;

bitflags! {
    /// The rights of devices on registered memory, beside reads for this machine's own work
    /// requests.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Access: u16 {
        /// This machine's own work requests write to it: RDMA READ, receive.
        const LOCAL_WRITE = 1;
        /// The peer's RDMA WRITE.
        const REMOTE_WRITE = 2;
        /// The peer's RDMA READ.
        const REMOTE_READ = 4;
        /// The peer's atomics.
        const REMOTE_ATOMIC = 8;
        /// The device asks the system for a page when it needs one, and learns when the system takes it
        /// away. Without this, all pages of the memory stay where they are while it is registered.
        const ON_DEMAND = 64;
        /// The peer's FLUSH to where all see it.
        const FLUSH_GLOBAL = 256;
        /// The peer's FLUSH to where it survives: the system allows it for persistent memory alone.
        const FLUSH_PERSISTENT = 512;
    }
}

/// Data that work requests send from where it is.
///
/// # Safety
/// The bytes stay at the same address, and are not freed, until the value is dropped, however it is
/// moved meanwhile.
pub unsafe trait Stable {
    /// Returns the bytes.
    fn stable_bytes(&self) -> &[u8];
}

/// A buffer that work requests write to.
///
/// # Safety
/// As for [`Stable`].
pub unsafe trait StableMut {
    /// Returns the bytes to write to.
    fn stable_bytes_mut(&mut self) -> &mut [u8];
}

// SAFETY: a vector's elements stay where they are when the vector moves, and nothing changes its
// length by these traits.
unsafe impl Stable for Vec<u8> {
    fn stable_bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: as for `Stable`.
unsafe impl StableMut for Vec<u8> {
    fn stable_bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

// SAFETY: static bytes stay where they are for ever.
unsafe impl Stable for &'static [u8] {
    fn stable_bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: what an `Rc` holds stays where it is while the `Rc` lives, and while there is another `Rc`
// nobody changes the vector.
unsafe impl Stable for Rc<Vec<u8>> {
    fn stable_bytes(&self) -> &[u8] {
        self
    }
}

// SAFETY: what an `Arc` holds stays where it is while the `Arc` lives.
unsafe impl Stable for Arc<[u8]> {
    fn stable_bytes(&self) -> &[u8] {
        self
    }
}

/// Memory that can be registered. It is shared, so that its user and the registration both keep it.
///
/// # Safety
/// The `length` bytes from `address` on are mapped until the value is dropped, and readable. If
/// `is_writable` says so, devices and peers may write to them at any time.
pub unsafe trait Memory: fmt::Debug + Send + Sync {
    /// Returns the address of the first byte.
    fn address(&self) -> *mut u8;
    /// Returns the number of bytes.
    fn length(&self) -> usize;
    /// Returns whether the memory may be registered with an access that writes.
    fn is_writable(&self) -> bool {
        true
    }
}

/// Bytes that are always there, and are only read: they are registered without access.
#[derive(Debug)]
pub struct StaticBytes(pub &'static [u8]);

// SAFETY: static bytes stay where they are for ever, and `is_writable` says that nobody may write to them.
unsafe impl Memory for StaticBytes {
    fn address(&self) -> *mut u8 {
        self.0.as_ptr().cast_mut()
    }

    fn length(&self) -> usize {
        self.0.len()
    }

    fn is_writable(&self) -> bool {
        false
    }
}
