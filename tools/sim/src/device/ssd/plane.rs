//! The pages of a plane: which block each is in, and which of them are of use (the flash translation
//! layer of one plane).
//!
//! The plane is full at the start: logical page `p` is physical page `p`. The table has only the pages written since.

use rustc_hash::FxHashMap;

/// The place of a page that was deallocated.
const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Block {
    /// Pages that were programmed since it was erased.
    written: u32,
    /// Valid pages among them.
    valid: u32,
    /// The logical page of each programmed page; `None`: the block is as it was at the start.
    holds: Option<Vec<u32>>,
}

/// The writer of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    /// The host, which leaves two blocks to the collector.
    Host,
    /// The collector of garbage.
    Collector,
}

/// The content of a plane, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pages {
    /// Erased pages.
    pub free: u64,
    /// Pages with data of use.
    pub valid: u64,
    /// Pages with data of no use.
    pub invalid: u64,
}

/// The pages of a plane.
#[derive(Debug)]
pub(super) struct Plane {
    pages: u32,
    blocks: Vec<Block>,
    /// The physical page of each logical page that has moved since the start.
    moved: FxHashMap<u32, u32>,
    /// Logical pages.
    logical: u32,
    /// Erased blocks.
    free: Vec<u32>,
    /// The blocks that the host and the collector are filling.
    open: [Option<u32>; 2],
}

impl Plane {
    /// Makes a plane of so many blocks of so many pages each, the first `user` of which are full.
    pub(super) fn new(blocks: u32, pages: u32, user: u32) -> Self {
        let full = Block { written: pages, valid: pages, holds: None };
        let empty = Block { written: 0, valid: 0, holds: None };
        let user = user.min(blocks);
        Self {
            pages,
            blocks: (0..blocks)
                .map(|at| if at < user { full.clone() } else { empty.clone() })
                .collect(),
            moved: FxHashMap::default(),
            logical: user * pages,
            free: (user..blocks).rev().collect(),
            open: [None; 2],
        }
    }

    /// Returns the physical page of a logical one; `None` where nothing is.
    #[inline]
    pub(super) fn find(&self, logical: u32) -> Option<u32> {
        let place = self.moved.get(&logical).copied().unwrap_or(logical);
        (place != NOWHERE && logical < self.logical).then_some(place)
    }

    /// Returns how many blocks are erased.
    #[inline]
    pub(super) const fn free(&self) -> usize {
        self.free.len()
    }

    /// Returns whether there is a page to program.
    #[inline]
    pub(super) fn room(&self, writer: Writer) -> bool {
        let left = match writer {
            Writer::Host => 2,
            Writer::Collector => 0,
        };
        self.opened(writer).is_some() || self.free.len() > left
    }

    /// Returns the block that a writer fills, if it has room.
    #[inline]
    fn opened(&self, writer: Writer) -> Option<u32> {
        let [host, collector] = self.open;
        let open = if writer == Writer::Host { host } else { collector };
        open.filter(|open| self.block(*open).is_some_and(|block| block.written < self.pages))
    }

    #[inline]
    fn block(&self, number: u32) -> Option<&Block> {
        self.blocks.get(number as usize)
    }

    /// Programs a logical page: takes a physical one, and the one before is of no use any more.
    /// Returns it; `None` where there is no room.
    pub(super) fn write(&mut self, logical: u32, writer: Writer) -> Option<u32> {
        if logical >= self.logical || !self.room(writer) {
            return None;
        }
        let number = match self.opened(writer) {
            Some(number) => number,
            None => {
                let number = self.free.pop()?;
                let [host, collector] = &mut self.open;
                *if writer == Writer::Host { host } else { collector } = Some(number);
                number
            }
        };
        self.discard(logical);
        let pages = self.pages;
        let block = self.blocks.get_mut(number as usize)?;
        block.holds.get_or_insert_with(|| Vec::with_capacity(pages as usize)).push(logical);
        let place = number * pages + block.written;
        block.written += 1;
        block.valid += 1;
        self.moved.insert(logical, place);
        Some(place)
    }

    /// Moves a logical page that is at a place, for the collector. Returns where it is then; `None`
    /// where it is elsewhere already.
    pub(super) fn relocate(&mut self, logical: u32, from: u32) -> Option<u32> {
        if self.find(logical) != Some(from) {
            return None;
        }
        self.write(logical, Writer::Collector)
    }

    /// Forgets a logical page.
    pub(super) fn discard(&mut self, logical: u32) {
        let Some(place) = self.find(logical) else { return };
        if let Some(block) = self.blocks.get_mut((place / self.pages) as usize) {
            block.valid -= 1;
        }
        self.moved.insert(logical, NOWHERE);
    }

    /// Returns the full block with the fewest valid pages; `None` where all are of use.
    pub(super) fn victim(&self) -> Option<u32> {
        let numbered = (0..).zip(&self.blocks);
        let full = numbered.filter(|(number, block)| {
            block.written == self.pages && block.valid < self.pages && !self.filling(*number)
        });
        full.min_by_key(|(_, block)| block.valid).map(|(number, _)| number)
    }

    /// Returns whether a block still has pages to program.
    fn filling(&self, number: u32) -> bool {
        [Writer::Host, Writer::Collector].iter().any(|writer| self.opened(*writer) == Some(number))
    }

    /// Returns the valid pages of a block: physical and logical ones.
    pub(super) fn valid(&self, number: u32) -> impl Iterator<Item = (u32, u32)> {
        let holds = self.block(number).and_then(|block| block.holds.as_deref());
        let first = number * self.pages;
        (0..self.pages).filter_map(move |page| {
            let place = first + page;
            let logical = match holds {
                Some(holds) => *holds.get(page as usize)?,
                None => place,
            };
            (self.find(logical) == Some(place)).then_some((place, logical))
        })
    }

    /// Erases a block that has no valid pages. Returns whether it had none.
    pub(super) fn erase(&mut self, number: u32) -> bool {
        let Some(block) = self.blocks.get_mut(number as usize).filter(|block| block.valid == 0)
        else {
            return false;
        };
        block.written = 0;
        // From now on `holds` lists the pages written to it.
        block.holds.get_or_insert_default().clear();
        // It was filled before it was erased: nobody goes on filling it.
        for open in &mut self.open {
            open.take_if(|open| *open == number);
        }
        self.free.push(number);
        true
    }

    /// Counts the plane's pages.
    pub(super) fn count(&self) -> Pages {
        let mut count = Pages::default();
        for block in &self.blocks {
            count.free += u64::from(self.pages - block.written);
            count.valid += u64::from(block.valid);
            count.invalid += u64::from(block.written - block.valid);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Write(u32),
        Discard(u32),
        Collect,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0u32..48).prop_map(Step::Write),
            1 => (0u32..48).prop_map(Step::Discard),
            2 => Just(Step::Collect),
        ]
    }

    proptest! {
        #[test]
        fn a_page_is_where_it_was_written_last_and_no_page_comes_or_goes(
            steps in prop::collection::vec(step(), 1..400)
        ) {
            // 16 blocks of 4 pages, 12 of them the host's.
            let mut plane = Plane::new(16, 4, 12);
            // The content of each physical page, and the expected content of each logical one.
            let mut flash: BTreeMap<u32, usize> = (0..48).map(|page| (page, 0)).collect();
            let mut expected: BTreeMap<u32, usize> = (0..48).map(|page| (page, 0)).collect();
            for (number, step) in (1..).zip(steps) {
                match step {
                    Step::Write(logical) => if let Some(place) = plane.write(logical, Writer::Host) {
                        prop_assert!(flash.insert(place, number).is_none(), "programmed twice");
                        expected.insert(logical, number);
                    },
                    Step::Discard(logical) => {
                        plane.discard(logical);
                        expected.remove(&logical);
                    }
                    Step::Collect => if let Some(block) = plane.victim() {
                        let moves: Vec<_> = plane.valid(block).collect();
                        for (from, logical) in moves {
                            let to = plane.relocate(logical, from);
                            prop_assert!(to.is_some(), "two blocks are left to the collector");
                            let content = flash[&from];
                            prop_assert!(flash.insert(to.unwrap(), content).is_none());
                        }
                        prop_assert!(plane.erase(block));
                        flash.retain(|place, _| place / 4 != block);
                    },
                }
                let count = plane.count();
                prop_assert_eq!(count.free + count.valid + count.invalid, 64);
                prop_assert_eq!(count.valid, expected.len() as u64);
                for logical in 0..48 {
                    let content = plane.find(logical).map(|place| flash[&place]);
                    prop_assert_eq!(content, expected.get(&logical).copied());
                }
            }
        }
    }

    #[test]
    fn the_victim_is_the_block_with_the_fewest_valid_pages() {
        let mut plane = Plane::new(16, 4, 12);
        assert_eq!(plane.victim(), None, "all is of use");
        for logical in [0, 4, 5, 8] {
            plane.write(logical, Writer::Host).unwrap();
        }
        assert_eq!(plane.victim(), Some(1));
        let valid: Vec<_> = plane.valid(1).collect();
        assert_eq!(valid, [(6, 6), (7, 7)]);
        assert!(!plane.erase(1), "not before they are moved");
    }

    #[test]
    fn the_host_leaves_two_blocks_to_the_collector() {
        let mut plane = Plane::new(16, 4, 12);
        let written =
            (0..48).filter(|logical| plane.write(*logical, Writer::Host).is_some()).count();
        assert_eq!((written, plane.free()), (8, 2));
        assert!(plane.room(Writer::Collector) && !plane.room(Writer::Host));
    }
}
