//! The write buffer: pages that were written and are not programmed, in DRAM.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use units::Class;

/// A page of the buffer.
#[derive(Clone, Copy, Debug)]
struct Page {
    /// Which sectors of 512 bytes the host has written, a bit for each.
    sectors: u64,
    class: Class,
    /// The place in the order in which pages are programmed; `None` while it is being programmed.
    waits: Option<u64>,
    /// The sectors that were written again while it was being programmed, and by which flush they
    /// are waited for.
    again: Option<(u64, u64)>,
    /// The flush that waits for it.
    epoch: u64,
}

/// A page that is to be programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Oldest {
    pub(super) page: u64,
    pub(super) sectors: u64,
    pub(super) class: Class,
}

/// The pages written between two flushes.
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    /// Pages of it that are not programmed.
    left: usize,
    /// The request that ends it.
    flush: Option<usize>,
}

#[derive(Debug)]
pub(super) struct Buffer {
    /// Pages that have room.
    room: usize,
    pages: FxHashMap<u64, Page>,
    /// Pages in the order in which they are programmed; removed pages stay until their turn.
    order: VecDeque<(u64, u64)>,
    stamps: u64,
    /// Pages that wait to be programmed.
    dirty: usize,
    /// Those of them that a flush waits for.
    pressed: usize,
    /// The pages written before each flush that has not ended, and since the last.
    epochs: VecDeque<Epoch>,
    /// The number of the first of these.
    first: u64,
}

impl Buffer {
    pub(super) fn new(room: usize) -> Self {
        Self {
            room,
            pages: FxHashMap::default(),
            order: VecDeque::new(),
            stamps: 0,
            dirty: 0,
            pressed: 0,
            epochs: VecDeque::from([Epoch::default()]),
            first: 0,
        }
    }

    /// Returns whether a page is here.
    pub(super) fn has(&self, page: u64) -> bool {
        self.pages.contains_key(&page)
    }

    /// Returns whether so many more pages have room. An empty buffer accepts any number of pages.
    pub(super) fn fits(&self, more: usize) -> bool {
        self.pages.is_empty() || self.pages.len() + more <= self.room
    }

    /// Returns whether nothing is here.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    fn epoch(&mut self, number: u64) -> Option<&mut Epoch> {
        self.epochs.get_mut(usize::try_from(number - self.first).ok()?)
    }

    /// Counts a page in the current epoch. Returns the number of that epoch.
    fn count_in(&mut self) -> u64 {
        if let Some(epoch) = self.epochs.back_mut() {
            epoch.left += 1;
        }
        self.first + self.epochs.len().saturating_sub(1) as u64
    }

    /// Puts a page at the end of the order. Returns its place there.
    fn line_up(&mut self, page: u64) -> u64 {
        self.stamps += 1;
        self.order.push_back((page, self.stamps));
        self.dirty += 1;
        self.stamps
    }

    pub(super) fn write(&mut self, page: u64, sectors: u64, class: Class) {
        match self.pages.get_mut(&page) {
            Some(Page { again: Some((more, _)), class: of, .. }) => {
                *more |= sectors;
                *of = class;
            }
            Some(known) if known.waits.is_some() => {
                known.sectors |= sectors;
                known.class = class;
            }
            Some(_) => {
                let epoch = self.count_in();
                if let Some(known) = self.pages.get_mut(&page) {
                    known.again = Some((sectors, epoch));
                    known.class = class;
                }
            }
            None => {
                let epoch = self.count_in();
                let waits = Some(self.line_up(page));
                self.pages.insert(page, Page { sectors, class, waits, again: None, epoch });
            }
        }
    }

    /// Removes the oldest page, to be programmed, if the buffer is more than half full or a flush waits.
    pub(super) fn next(&mut self) -> Option<Oldest> {
        if self.dirty <= self.room / 2 && self.pressed == 0 {
            return None;
        }
        while let Some((page, stamp)) = self.order.pop_front() {
            let Some(known) = self.pages.get_mut(&page).filter(|known| known.waits == Some(stamp))
            else {
                continue;
            };
            known.waits = None;
            self.dirty -= 1;
            self.pressed = self.pressed.saturating_sub(1);
            return Some(Oldest { page, sectors: known.sectors, class: known.class });
        }
        None
    }

    /// Notes that a page is programmed: it is gone, unless it was written again meanwhile.
    pub(super) fn programmed(&mut self, page: u64) {
        let Some(known) = self.pages.get(&page).copied() else { return };
        if let Some(epoch) = self.epoch(known.epoch) {
            epoch.left -= 1;
        }
        let Some((sectors, epoch)) = known.again else {
            self.pages.remove(&page);
            return;
        };
        let waits = Some(self.line_up(page));
        let (again, class) = (None, known.class);
        self.pages.insert(page, Page { sectors, class, waits, again, epoch });
        // A flush that came meanwhile waits for it, too.
        if self.epochs.len() > 1 {
            self.pressed = self.dirty;
        }
    }

    /// Forgets a page, unless it is being programmed.
    pub(super) fn discard(&mut self, page: u64) {
        let waits = self.pages.get(&page).filter(|known| known.waits.is_some());
        let Some(epoch) = waits.map(|known| known.epoch) else { return };
        self.pages.remove(&page);
        self.dirty -= 1;
        self.pressed = self.pressed.min(self.dirty);
        if let Some(epoch) = self.epoch(epoch) {
            epoch.left -= 1;
        }
    }

    /// Adds a flush, which waits until all earlier writes are programmed.
    pub(super) fn flush(&mut self, request: usize) {
        if let Some(epoch) = self.epochs.back_mut() {
            epoch.flush = Some(request);
        }
        self.epochs.push_back(Epoch::default());
        self.pressed = self.dirty;
    }

    /// Removes a flush that waits for nothing any more.
    pub(super) fn flushed(&mut self) -> Option<usize> {
        let epoch = self.epochs.pop_front_if(|epoch| epoch.left == 0 && epoch.flush.is_some())?;
        self.first += 1;
        epoch.flush
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(buffer: &mut Buffer, page: u64) {
        buffer.write(page, 1, Class::Low);
    }

    fn next(buffer: &mut Buffer) -> Option<u64> {
        buffer.next().map(|oldest| oldest.page)
    }

    #[test]
    fn the_oldest_pages_are_programmed_while_it_is_more_than_half_full() {
        let mut buffer = Buffer::new(4);
        for page in [7, 8, 7, 9] {
            write(&mut buffer, page);
        }
        assert!(buffer.fits(1) && !buffer.fits(2));
        assert_eq!([next(&mut buffer), next(&mut buffer)], [Some(7), None]);
        assert!(!buffer.fits(2), "until it is programmed");
        buffer.programmed(7);
        assert!(buffer.fits(2));
    }

    #[test]
    fn a_flush_waits_for_what_was_written_before_it_and_for_nothing_else() {
        let mut buffer = Buffer::new(100);
        write(&mut buffer, 1);
        buffer.flush(50);
        write(&mut buffer, 2);
        assert_eq!([next(&mut buffer), next(&mut buffer)], [Some(1), None]);
        write(&mut buffer, 1);
        assert_eq!(buffer.flushed(), None);
        buffer.programmed(1);
        assert_eq!(buffer.flushed(), Some(50));
        // 1 was written again while it was programmed.
        buffer.flush(51);
        assert_eq!([next(&mut buffer), next(&mut buffer)], [Some(2), Some(1)]);
        buffer.programmed(2);
        assert_eq!(buffer.flushed(), None);
        buffer.programmed(1);
        assert_eq!(buffer.flushed(), Some(51));
        buffer.flush(52);
        assert_eq!(buffer.flushed(), Some(52), "there is nothing");
        assert!(buffer.is_empty());
    }

    #[test]
    fn what_is_written_again_while_it_is_programmed_is_waited_for() {
        let mut buffer = Buffer::new(100);
        write(&mut buffer, 1);
        buffer.flush(50);
        assert_eq!(next(&mut buffer), Some(1));
        write(&mut buffer, 1);
        buffer.flush(51);
        buffer.programmed(1);
        assert_eq!((buffer.flushed(), buffer.flushed()), (Some(50), None));
        assert_eq!(next(&mut buffer), Some(1), "without another write");
        buffer.programmed(1);
        assert_eq!(buffer.flushed(), Some(51));
    }

    #[test]
    fn what_is_deallocated_is_not_programmed() {
        let mut buffer = Buffer::new(100);
        write(&mut buffer, 1);
        write(&mut buffer, 2);
        buffer.flush(50);
        buffer.discard(1);
        assert_eq!([next(&mut buffer), next(&mut buffer)], [Some(2), None]);
        buffer.programmed(2);
        assert_eq!(buffer.flushed(), Some(50));
    }
}
