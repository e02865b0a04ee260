//! A file as storage of a database, in which all writes stay in memory. So a file can be opened,
//! checked and repaired as a trial, and is unchanged afterwards.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard};

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

use crate::sys::sync::lock;

/// The size of a page in memory, in bytes.
const PAGE: u64 = 4096;

/// A file that is read and never written.
#[derive(Debug)]
pub(super) struct Scratch {
    file: File,
    /// The holder of the locks that other processes see; `None` where nobody can write the file.
    locks: Option<FileBackend>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    length: u64,
    /// The bytes from the start that come from the file, where `pages` has none.
    solid: u64,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Scratch {
    /// Makes a storage over an open file; with `writable`, the file was opened for writing too.
    pub(super) fn new(file: File, writable: bool) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let locks = match writable {
            true => Some(FileBackend::new(file.try_clone()?).map_err(io::Error::other)?),
            false => None,
        };
        let state = State { length, solid: length, pages: BTreeMap::new() };
        Ok(Self { file, locks, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn locks(&self) -> Result<&FileBackend, BackendError> {
        self.locks.as_ref().ok_or(BackendError::Unsupported)
    }
}

impl State {
    /// Returns how many of `length` bytes from `offset` come from the file.
    fn solid_part(&self, offset: u64, length: usize) -> usize {
        let solid = self.solid.saturating_sub(offset);
        usize::try_from(solid).unwrap_or(usize::MAX).min(length)
    }

    fn read(&self, file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let solid = self.solid_part(offset, out.len());
        let (own, beyond) = out.split_at_mut(solid);
        file.read_exact_at(own, offset)?;
        beyond.fill(0);
        let end = offset.saturating_add(out.len() as u64);
        for (&number, page) in self.pages.range(offset / PAGE..end.div_ceil(PAGE)) {
            let start = number * PAGE;
            let (from, to) = (start.max(offset), (start + PAGE).min(end));
            let at = |place: u64, base: u64| usize::try_from(place - base).unwrap_or(usize::MAX);
            let there = out.get_mut(at(from, offset)..at(to, offset));
            if let (Some(there), Some(here)) = (there, page.get(at(from, start)..at(to, start))) {
                there.copy_from_slice(here);
            }
        }
        Ok(())
    }
}

impl StorageBackend for Scratch {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        if offset.saturating_add(out.len() as u64) > state.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        state.read(&self.file, offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state();
        (state.length, state.solid) = (len, state.solid.min(len));
        state.pages.retain(|number, _| number * PAGE < len);
        if let Some(page) = state.pages.get_mut(&(len / PAGE)) {
            let rest = page.iter_mut().skip(usize::try_from(len % PAGE).unwrap_or(usize::MAX));
            rest.for_each(|byte| *byte = 0);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let end = offset.saturating_add(data.len() as u64);
        for number in offset / PAGE..end.div_ceil(PAGE) {
            let start = number * PAGE;
            let mut page = vec![0; usize::try_from(PAGE).unwrap_or_default()];
            state.read(&self.file, start, &mut page)?;
            let (from, to) = (start.max(offset), (start + PAGE).min(end));
            let at = |place: u64, base: u64| usize::try_from(place - base).unwrap_or(usize::MAX);
            let there = page.get_mut(at(from, start)..at(to, start));
            if let (Some(there), Some(here)) = (there, data.get(at(from, offset)..at(to, offset))) {
                there.copy_from_slice(here);
            }
            state.pages.insert(number, page);
        }
        state.length = state.length.max(end);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.locks.as_ref().map_or(Ok(()), StorageBackend::close)
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.locks()?.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.locks()?.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.locks()?.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.locks()?.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.locks()?.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.locks()?.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Op {
        Write(u16, u16, u8),
        Length(u16),
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_the_file_stays(
            length in 0usize..20_000,
            ops in proptest::collection::vec(prop_oneof![
                (any::<u16>(), 0u16..9000, any::<u8>()).prop_map(|(at, n, v)| Op::Write(at, n, v)),
                (0u16..30_000).prop_map(Op::Length),
            ], 0..12),
        ) {
            let file = tempfile::tempfile().unwrap();
            let before: Vec<u8> = (0..length).map(|i| u8::try_from(i % 251).unwrap()).collect();
            file.write_all_at(&before, 0).unwrap();
            let scratch = Scratch::new(file.try_clone().unwrap(), true).unwrap();
            let mut model = before.clone();
            for op in ops {
                match op {
                    Op::Write(at, n, value) => {
                        let at = usize::from(at) % (model.len() + 1);
                        let data = vec![value; usize::from(n)];
                        if model.len() < at + data.len() {
                            model.resize(at + data.len(), 0);
                        }
                        model[at..at + data.len()].copy_from_slice(&data);
                        scratch.write(at as u64, &data).unwrap();
                    }
                    Op::Length(length) => {
                        model.resize(usize::from(length), 0);
                        scratch.set_len(length.into()).unwrap();
                    }
                }
            }
            prop_assert_eq!(scratch.len().unwrap(), model.len() as u64);
            let mut seen = vec![1; model.len()];
            scratch.read(0, &mut seen).unwrap();
            prop_assert!(seen == model);
            prop_assert!(scratch.read(1, &mut seen).is_err() || model.is_empty());
            let mut after = vec![0; before.len()];
            file.read_exact_at(&mut after, 0).unwrap();
            prop_assert!(after == before && file.metadata().unwrap().len() == before.len() as u64);
        }
    }
}
