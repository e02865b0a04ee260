//! A table with places that are used again.

use crate::order::NONE;

/// The places of what comes and goes.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: u32,
}

/// In a cache line of its own, if it fits.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Place<T> {
    value: T,
    /// How often it was taken and given back: odd while it is in use.
    tag: u32,
    /// The next that is free.
    next: u32,
}

/// Names what is in a place, and nothing that comes there later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) index: u32,
    pub(crate) tag: u32,
}

impl<T: Copy> Slab<T> {
    pub(crate) fn with_capacity(places: usize) -> Self {
        Self { places: Vec::with_capacity(places), free: NONE }
    }

    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(place) = self.places.get_mut(self.free as usize) {
            let index = self.free;
            self.free = place.next;
            (place.value, place.tag) = (value, place.tag.wrapping_add(1));
            return index;
        }
        self.places.push(Place { value, tag: 1, next: NONE });
        u32::try_from(self.places.len() - 1).unwrap_or(NONE)
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.places.get(index as usize).filter(|place| place.tag & 1 == 1).map(|p| &p.value)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.places.get_mut(index as usize).filter(|place| place.tag & 1 == 1).map(|p| &mut p.value)
    }

    /// What a key names, if it is still there.
    #[inline]
    pub(crate) fn find(&self, key: Key) -> Option<&T> {
        self.places.get(key.index as usize).filter(|place| place.tag == key.tag).map(|p| &p.value)
    }

    /// What a key names, if it is still there.
    #[inline]
    pub(crate) fn find_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key.index as usize);
        place.filter(|place| place.tag == key.tag).map(|place| &mut place.value)
    }

    /// The key of what is in a place.
    #[inline]
    pub(crate) fn key(&self, index: u32) -> Key {
        Key { index, tag: self.places.get(index as usize).map_or(0, |place| place.tag) }
    }

    /// How many there may be before the table grows.
    pub(crate) fn capacity(&self) -> usize {
        self.places.capacity()
    }

    #[inline]
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let place = self.places.get_mut(index as usize).filter(|place| place.tag & 1 == 1)?;
        place.tag = place.tag.wrapping_add(1);
        place.next = self.free;
        self.free = index;
        Some(place.value)
    }

    /// How many there are, and how many places.
    #[cfg(test)]
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.places.iter().filter(|place| place.tag & 1 == 1).count(), self.places.len())
    }
}
