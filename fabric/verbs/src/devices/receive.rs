//! Receive buffers of a queue pair.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

use crate::memory::Memory;

/// The memory of all receive buffers of a queue pair.
#[derive(Debug)]
pub(super) struct ReceiveMemory {
    start: NonNull<u8>,
    layout: Layout,
    /// Bytes of each buffer.
    size: usize,
}

// SAFETY: the memory is plain bytes; who reads which is up to `Receive`.
unsafe impl Send for ReceiveMemory {}
// SAFETY: as for `Send`.
unsafe impl Sync for ReceiveMemory {}

// SAFETY: the memory is mapped until it is dropped.
unsafe impl Memory for ReceiveMemory {
    fn address(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    fn length(&self) -> usize {
        self.layout.size()
    }
}

impl ReceiveMemory {
    /// Allocates `count` buffers of `size` bytes; `None` where there is no memory.
    pub(super) fn new(count: u16, size: usize) -> Option<Arc<Self>> {
        let size = size.max(1).checked_next_multiple_of(64)?;
        let layout = Layout::from_size_align(size.checked_mul(count.max(1).into())?, 4096).ok()?;
        // SAFETY: the layout has at least 64 bytes.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Arc::new(Self { start, layout, size }))
    }

    /// Returns the address of a buffer.
    pub(super) fn buffer(&self, index: u16) -> *mut u8 {
        let offset = self.size.saturating_mul(index.into());
        debug_assert!(offset < self.layout.size());
        // SAFETY: the offset is clamped to the allocation.
        unsafe { self.start.as_ptr().add(offset.min(self.layout.size())) }
    }

    /// Returns the number of bytes of each buffer.
    pub(super) fn size(&self) -> usize {
        self.size
    }
}

impl Drop for ReceiveMemory {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with that layout. No device reaches it any more: the queue pair
        // and the registration hold it until they are gone.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// The receive buffers outside the device, and their owners.
#[derive(Debug)]
pub(super) struct Received {
    memory: Arc<ReceiveMemory>,
    /// Handles to each buffer.
    handles: Vec<Cell<u32>>,
    /// Buffers without a handle that are not with the device.
    free: RefCell<Vec<u16>>,
    /// Number of buffers with handles.
    in_use: Cell<usize>,
}

impl Received {
    pub(super) fn new(memory: Arc<ReceiveMemory>, count: u16) -> Rc<Self> {
        let handles = (0..count).map(|_| Cell::new(0)).collect();
        let (free, in_use) = (RefCell::default(), Cell::new(0));
        Rc::new(Self { memory, handles, free, in_use })
    }

    /// Makes the first handle to a buffer that the device has filled. `None` for a buffer that is not
    /// one, or has handles.
    pub(super) fn take(self: &Rc<Self>, index: u16, length: u32) -> Option<ReceiveBuffer> {
        let handles = self.handles.get(usize::from(index))?;
        if handles.get() != 0 {
            return None;
        }
        handles.set(1);
        self.in_use.set(self.in_use.get() + 1);
        let length = (length as usize).min(self.memory.size());
        Some(ReceiveBuffer { of: Rc::clone(self), index, length })
    }

    /// Removes the buffers that may be posted again.
    pub(super) fn take_free(&self) -> Vec<u16> {
        self.free.take()
    }

    /// Returns buffers that were not posted.
    pub(super) fn put_back(&self, free: Vec<u16>) {
        *self.free.borrow_mut() = free;
    }

    /// Returns whether buffers are in use.
    pub(super) fn has_handles(&self) -> bool {
        self.in_use.get() > 0
    }

    /// Returns whether buffers wait to go to the device.
    pub(super) fn has_free(&self) -> bool {
        !self.free.borrow().is_empty()
    }
}

/// A receive buffer that the device has filled. When its last clone is dropped, it may be posted
/// again.
#[derive(Debug)]
pub struct ReceiveBuffer {
    of: Rc<Received>,
    index: u16,
    length: usize,
}

impl Clone for ReceiveBuffer {
    fn clone(&self) -> Self {
        if let Some(handles) = self.of.handles.get(usize::from(self.index)) {
            handles.set(handles.get().saturating_add(1));
        }
        Self { of: Rc::clone(&self.of), index: self.index, length: self.length }
    }
}

impl Deref for ReceiveBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the buffer is inside the memory, which `of` holds, and the device does not write
        // to it before it is posted again, which needs the last handle to be gone.
        unsafe { std::slice::from_raw_parts(self.of.memory.buffer(self.index), self.length) }
    }
}

impl Drop for ReceiveBuffer {
    fn drop(&mut self) {
        let Some(handles) = self.of.handles.get(usize::from(self.index)) else { return };
        handles.set(handles.get().saturating_sub(1));
        if handles.get() == 0 {
            self.of.in_use.set(self.of.in_use.get().saturating_sub(1));
            self.of.free.borrow_mut().push(self.index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_handle_frees_the_buffer() {
        let memory = ReceiveMemory::new(3, 100).unwrap();
        assert_eq!((memory.size(), memory.length()), (128, 384));
        let received = Received::new(memory, 3);
        let one = received.take(1, 80).unwrap();
        assert!(received.take(1, 80).is_none(), "it is not with the device");
        assert!(received.take(3, 80).is_none(), "there is no such buffer");
        assert_eq!((one.len(), one.iter().all(|byte| *byte == 0)), (80, true));
        let two = one.clone();
        drop(one);
        assert!(!received.has_free());
        drop(two);
        assert!(received.has_free());
        assert_eq!(received.take_free(), [1]);
        assert!(received.take(1, 1000).is_some_and(|buffer| buffer.len() == 128));
    }
}
