//! Memory that is set aside for tenants (docs/research/sources.md, F4: buffers count in admission).

use std::sync::Arc;

use slab::Slab;

use crate::session::Session;

/// The memory of one tenant: of a session with its flows and those below it.
#[derive(Debug)]
struct Aside<F> {
    session: Arc<Session>,
    /// Pages that its flows hold.
    held: u32,
    flows: Vec<F>,
}

/// The memory that is set aside in one gate. How much that is, sessions say: it may change at any
/// time.
#[derive(Debug)]
pub(super) struct Asides<F> {
    /// Whether anything is set aside in this gate.
    on: bool,
    tenants: Slab<Aside<F>>,
}

impl<F: Copy + PartialEq> Asides<F> {
    /// Creates the table of a gate without flows; unless `on`, nothing is set aside in it.
    pub(super) fn new(on: bool) -> Self {
        Self { on, tenants: Slab::new() }
    }

    /// Finds the tenant that a session's flow belongs to, and counts the flow; `None` where nothing
    /// is set aside for the session and those above it.
    pub(super) fn join(&mut self, session: &Arc<Session>, flow: F) -> Option<usize> {
        if !self.on {
            return None;
        }
        let tenant = session.line().find(|session| session.kib_aside() > 0)?;
        let known = self.tenants.iter().find(|(_, aside)| Arc::ptr_eq(&aside.session, tenant));
        let at = known.map(|(at, _)| at).unwrap_or_else(|| {
            self.tenants.insert(Aside { session: Arc::clone(tenant), held: 0, flows: Vec::new() })
        });
        self.tenants.get_mut(at)?.flows.push(flow);
        Some(at)
    }

    /// Forgets a flow that holds nothing.
    pub(super) fn leave(&mut self, at: Option<usize>, flow: F) {
        let Some((at, aside)) = at.and_then(|at| Some((at, self.tenants.get_mut(at)?))) else {
            return;
        };
        aside.flows.retain(|other| *other != flow);
        if aside.flows.is_empty() {
            self.tenants.remove(at);
        }
    }

    /// Counts pages that a tenant's flow takes.
    pub(super) fn take(&mut self, at: Option<usize>, pages: u32) {
        if let Some(aside) = at.and_then(|at| self.tenants.get_mut(at)) {
            aside.held = aside.held.saturating_add(pages);
        }
    }

    /// Counts pages that a tenant's flow gives back.
    pub(super) fn give_back(&mut self, at: Option<usize>, pages: u32) {
        if let Some(aside) = at.and_then(|at| self.tenants.get_mut(at)) {
            aside.held = aside.held.saturating_sub(pages);
        }
    }

    /// Returns the number of unused pages set aside for a tenant.
    pub(super) fn left(&self, at: Option<usize>) -> u32 {
        let aside = at.and_then(|at| self.tenants.get(at));
        aside.map_or(0, |aside| pages(&aside.session).saturating_sub(aside.held))
    }

    /// Returns whether nothing is set aside for anybody.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }

    /// Returns the number of unused pages set aside for all tenants but one.
    #[inline]
    pub(super) fn left_to_others(&self, but: Option<usize>) -> u32 {
        if self.tenants.is_empty() {
            return 0;
        }
        let others = self.tenants.iter().filter(|(at, _)| Some(*at) != but);
        others.fold(0, |sum: u32, (at, _)| sum.saturating_add(self.left(Some(at))))
    }

    /// Lists the flows of a tenant.
    pub(super) fn flows(&self, at: Option<usize>) -> &[F] {
        at.and_then(|at| self.tenants.get(at)).map_or(&[], |aside| &aside.flows)
    }
}

/// Counts the pages that are set aside for a session.
fn pages(session: &Session) -> u32 {
    session.kib_aside().div_ceil(4)
}
