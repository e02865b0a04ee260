//! The clients of an endpoint, up to a limit. Beyond it, a new client replaces the client that has been silent for
//! longest.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The clients of one endpoint, each a connection `S`.
#[derive(Debug)]
pub(super) struct Clients<S>(Rc<RefCell<Table<S>>>);

#[derive(Debug)]
struct Table<S> {
    /// The most clients at one time.
    most: usize,
    /// The number of clients now.
    present: usize,
    /// The silent clients, by the order in which they fell silent.
    silent: BTreeMap<u64, Rc<S>>,
    /// The number of the client that fell silent last.
    last: u64,
}

impl<S> Clone for Clients<S> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<S> Clients<S> {
    /// Makes a table for at most `most` clients.
    pub(super) fn new(most: usize) -> Self {
        let (present, silent, last) = (0, BTreeMap::new(), 0);
        Self(Rc::new(RefCell::new(Table { most, present, silent, last })))
    }

    /// Takes a client, silent at first, until the returned [`Client`] is dropped. If the table is full, the client
    /// that has been silent for longest is passed to `end` and removed.
    ///
    /// # Errors
    /// The table is full of clients that are being answered: `client` is given back.
    pub(super) fn take(&self, client: S, end: impl FnOnce(&S)) -> Result<Client<S>, S> {
        let mut table = self.0.borrow_mut();
        if table.present >= table.most {
            let Some((_, gone)) = table.silent.pop_first() else { return Err(client) };
            end(&gone);
            table.present -= 1;
        }
        table.present += 1;
        let connection = Rc::new(client);
        drop(table);
        let mut client = Client { clients: self.clone(), connection, silent: None };
        client.falls_silent();
        Ok(client)
    }
}

/// A client with a place in the table.
#[derive(Debug)]
pub(super) struct Client<S> {
    clients: Clients<S>,
    connection: Rc<S>,
    /// The client's key among the silent clients; `None` while the client is being answered.
    silent: Option<u64>,
}

impl<S> Client<S> {
    pub(super) fn connection(&self) -> Rc<S> {
        Rc::clone(&self.connection)
    }

    /// Notes that the client has no request that waits for an answer.
    pub(super) fn falls_silent(&mut self) {
        if self.silent.is_some() {
            return;
        }
        let mut table = self.clients.0.borrow_mut();
        table.last += 1;
        let place = table.last;
        table.silent.insert(place, Rc::clone(&self.connection));
        self.silent = Some(place);
    }

    /// Notes that the client is being answered. Returns whether the client still has its place.
    pub(super) fn speaks(&mut self) -> bool {
        let Some(place) = self.silent else { return true };
        let has = self.clients.0.borrow_mut().silent.remove(&place).is_some();
        if has {
            self.silent = None;
        }
        has
    }
}

impl<S> Drop for Client<S> {
    fn drop(&mut self) {
        if self.speaks() {
            let mut table = self.clients.0.borrow_mut();
            table.present = table.present.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_that_was_silent_for_longest_makes_room() {
        let clients = Clients::new(3);
        let take = |name: u32| {
            let mut gone = None;
            let taken = clients.take(name, |one| gone = Some(*one)).ok();
            (taken, gone)
        };
        let [mut a, mut b, mut c] = [1, 2, 3].map(|name| take(name).0.unwrap());
        assert!([&mut a, &mut b, &mut c].into_iter().all(Client::speaks));
        assert!(take(4).0.is_none(), "all are being answered");
        b.falls_silent();
        a.falls_silent();
        c.falls_silent();
        assert!(b.speaks());
        b.falls_silent();
        let (mut d, gone) = take(4);
        assert!(d.as_mut().is_some_and(Client::speaks));
        assert_eq!(gone, Some(1));
        assert!(!a.speaks(), "it has lost its place");
        drop(a);
        assert_eq!(take(5).1, Some(3), "the end of one that had lost its place frees none");
        drop((b, c, d));
        let mut all = [6, 7, 8].map(|name| take(name).0.unwrap());
        assert!(all.iter_mut().all(Client::speaks));
        assert!(take(9).0.is_none());
    }
}
