//! A table with places that are used again.

use crate::order::NONE;

#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: u32,
}

/// In a cache line of its own, if it fits.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Place<T>(T, u32);

/// The mark of a place that is in use.
const USED: u32 = NONE - 1;

impl<T: Copy> Slab<T> {
    pub(crate) fn with_capacity(places: usize) -> Self {
        Self { places: Vec::with_capacity(places), free: NONE }
    }

    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(place) = self.places.get_mut(self.free as usize) {
            let index = self.free;
            self.free = place.1;
            *place = Place(value, USED);
            return index;
        }
        self.places.push(Place(value, USED));
        u32::try_from(self.places.len() - 1).unwrap_or(NONE)
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.places.get(index as usize).filter(|place| place.1 == USED).map(|place| &place.0)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.places.get_mut(index as usize).filter(|p| p.1 == USED).map(|place| &mut place.0)
    }

    /// How many there may be before the table grows.
    pub(crate) fn capacity(&self) -> usize {
        self.places.capacity()
    }

    #[inline]
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let place = self.places.get_mut(index as usize).filter(|place| place.1 == USED)?;
        place.1 = self.free;
        self.free = index;
        Some(place.0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let used = self.places.iter().enumerate().filter(|(_, place)| place.1 == USED);
        used.map(|(index, place)| (u32::try_from(index).unwrap_or(NONE), &place.0))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.places.iter_mut().filter(|place| place.1 == USED).map(|place| &mut place.0)
    }
}
