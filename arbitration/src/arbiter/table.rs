//! A table that reuses its places, with names of a type of their own.

use std::marker::PhantomData;

use crate::index::{Index, Name};

/// Values that come and go, by their names.
#[derive(Debug)]
pub(super) struct Table<K, T> {
    /// The places, after an unused first one.
    places: Vec<Place<T>>,
    free: Option<Index>,
    names: PhantomData<K>,
}

/// A place, in a cache line of its own if it fits.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Place<T> {
    value: T,
    /// Counts how often the place was taken and given up: odd while it is in use.
    tag: u32,
    /// The next place that is free.
    next: Option<Index>,
}

/// A name together with its place's tag. It becomes invalid once the place is reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tagged<K> {
    pub(super) name: K,
    tag: u32,
}

impl<T> Place<T> {
    /// Bytes of a place.
    pub(super) const SIZE: usize = size_of::<Self>();

    const fn is_used(&self) -> bool {
        self.tag & 1 == 1
    }
}

impl<K: Name, T: Copy> Table<K, T> {
    /// Makes a table with room for this many values. `unused` fills the place that is not used.
    pub(super) fn with_capacity(capacity: usize, unused: T) -> Self {
        let mut places = Vec::with_capacity(capacity + 1);
        places.push(Place { value: unused, tag: 0, next: None });
        Self { places, free: None, names: PhantomData }
    }

    #[expect(clippy::indexing_slicing, reason = "`insert` makes the place, and it stays")]
    #[inline]
    fn place(&self, index: Index) -> &Place<T> {
        &self.places[index.behind_unused()]
    }

    #[expect(clippy::indexing_slicing, reason = "`insert` makes the place, and it stays")]
    #[inline]
    fn place_mut(&mut self, index: Index) -> &mut Place<T> {
        &mut self.places[index.behind_unused()]
    }

    /// Puts a value into a free place.
    #[inline]
    pub(super) fn insert(&mut self, value: T) -> K {
        if let Some(index) = self.free {
            let place = self.place_mut(index);
            (place.value, place.tag) = (value, place.tag.wrapping_add(1));
            self.free = place.next;
            return K::from_index(index);
        }
        let index = Index::nth(self.places.len() - 1);
        self.places.push(Place { value, tag: 1, next: None });
        K::from_index(index)
    }

    /// Finds a value that is certain to be there.
    #[inline]
    pub(super) fn at(&self, name: K) -> &T {
        let place = self.place(name.index());
        debug_assert!(place.is_used(), "no name of a removed object is kept");
        &place.value
    }

    /// Finds a value that is certain to be there.
    #[inline]
    pub(super) fn at_mut(&mut self, name: K) -> &mut T {
        let place = self.place_mut(name.index());
        debug_assert!(place.is_used(), "no name of a removed object is kept");
        &mut place.value
    }

    /// Finds a value that a caller outside names, if it is there.
    #[inline]
    pub(super) fn get(&self, name: K) -> Option<&T> {
        let place =
            self.places.get(name.index().behind_unused()).filter(|place| place.is_used())?;
        Some(&place.value)
    }

    /// Finds the value that a tagged name was made for, if it is still there.
    #[inline]
    pub(super) fn find(&self, tagged: Tagged<K>) -> Option<&T> {
        let place = self.places.get(tagged.name.index().behind_unused());
        place.filter(|place| place.tag == tagged.tag).map(|place| &place.value)
    }

    /// Finds the value that a tagged name was made for, if it is still there.
    #[inline]
    pub(super) fn find_mut(&mut self, tagged: Tagged<K>) -> Option<&mut T> {
        let place = self.places.get_mut(tagged.name.index().behind_unused());
        place.filter(|place| place.tag == tagged.tag).map(|place| &mut place.value)
    }

    /// Tags the name of a value that is certain to be there.
    #[inline]
    pub(super) fn tagged(&self, name: K) -> Tagged<K> {
        Tagged { name, tag: self.place(name.index()).tag }
    }

    /// Returns the number of places that there may be before the table grows.
    pub(super) fn capacity(&self) -> usize {
        self.places.capacity()
    }

    /// Removes a value that is certain to be there.
    #[inline]
    pub(super) fn remove(&mut self, name: K) -> T {
        let (index, next) = (name.index(), self.free);
        let place = self.place_mut(index);
        debug_assert!(place.is_used(), "nothing is taken out twice");
        place.tag = place.tag.wrapping_add(1);
        place.next = next;
        let value = place.value;
        self.free = Some(index);
        value
    }

    /// Lists the values.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.places.iter().filter(|place| place.is_used()).map(|place| &place.value)
    }

    /// Counts the values, and the places.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.places.iter().filter(|place| place.is_used()).count(), self.places.len() - 1)
    }
}
