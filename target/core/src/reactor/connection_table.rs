//! The connections of a reactor, by their keys.

use crate::machine::driver::Driver;
use crate::machine::key::Key;
use crate::queue::connection::Connection;
use crate::queue::io_queue::IoQueue;
use crate::queue::state::Queue;

/// The connections of a reactor. A place that is free is used again, with another generation.
#[derive(Debug)]
pub(crate) struct ConnectionTable<D: Driver> {
    entries: Vec<Entry<D>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Entry<D: Driver> {
    generation: u32,
    connection: Option<Box<Connection<D>>>,
}

impl<D: Driver> Default for ConnectionTable<D> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<D: Driver> ConnectionTable<D> {
    /// Puts a connection in a place that is free.
    pub(crate) fn insert(&mut self, connection: impl FnOnce(Key) -> Connection<D>) -> Key {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry { generation: 0, connection: None });
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        });
        let generation = self.entries.get(index as usize).map_or(0, |entry| entry.generation);
        let key = Key { index, generation };
        if let Some(entry) = self.entries.get_mut(index as usize) {
            entry.connection = Some(Box::new(connection(key)));
        }
        key
    }

    /// Finds the connection of that name, if it is still there.
    #[inline]
    pub(crate) fn find(&mut self, key: Key) -> Option<&mut Connection<D>> {
        let entry = self.entries.get_mut(key.index as usize)?;
        if entry.generation == key.generation { entry.connection.as_deref_mut() } else { None }
    }

    /// Finds the I/O queue of the connection of that name, with what carries it.
    #[inline]
    pub(crate) fn find_io(&mut self, key: Key) -> Option<(&mut IoQueue<D>, &mut Queue<D>)> {
        self.find(key)?.io_queue()
    }

    /// Takes a connection out.
    pub(crate) fn remove(&mut self, key: Key) -> Option<Box<Connection<D>>> {
        self.find(key)?;
        let entry = self.entries.get_mut(key.index as usize)?;
        let connection = entry.connection.take()?;
        entry.generation = (entry.generation + 1) & 0xff_ffff;
        self.free.push(key.index);
        Some(connection)
    }

    /// Counts the places, taken and free.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Goes through all connections.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Connection<D>> {
        self.entries.iter().filter_map(|entry| entry.connection.as_deref())
    }

    /// Goes through the connections in `count` places, beginning with number `from`.
    pub(crate) fn some_mut(
        &mut self,
        from: usize,
        count: usize,
    ) -> impl Iterator<Item = &mut Connection<D>> {
        let entries = self.entries.iter_mut().skip(from).take(count);
        entries.filter_map(|entry| entry.connection.as_deref_mut())
    }

    /// Goes through all connections.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Connection<D>> {
        self.some_mut(0, usize::MAX)
    }
}
