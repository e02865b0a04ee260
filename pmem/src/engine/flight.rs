//! Operations on words that an engine has under way.

use crate::one_sided::Ticket;

/// The purposes of an engine's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Fetches global tokens from the pool.
    Fetch,
    /// Writes the report.
    Report,
    /// Reads the grant.
    Grant,
}

/// The operations under way: one at most for each purpose.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flights {
    /// Number of operations that were begun.
    begun: u64,
    fetch: Option<Ticket>,
    report: Option<Ticket>,
    grant: Option<Ticket>,
}

impl Flights {
    fn slot(&mut self, purpose: Purpose) -> &mut Option<Ticket> {
        match purpose {
            Purpose::Fetch => &mut self.fetch,
            Purpose::Report => &mut self.report,
            Purpose::Grant => &mut self.grant,
        }
    }

    /// Begins an operation. `None` where one for the same purpose is under way.
    pub(super) fn begin(&mut self, purpose: Purpose) -> Option<Ticket> {
        if self.slot(purpose).is_some() {
            return None;
        }
        let ticket = Ticket(self.begun);
        self.begun = self.begun.wrapping_add(1);
        *self.slot(purpose) = Some(ticket);
        Some(ticket)
    }

    /// Ends an operation and returns its purpose; `None` if no operation with this ticket is
    /// outstanding, as after a repeated completion.
    pub(super) fn end(&mut self, ticket: Ticket) -> Option<Purpose> {
        let all = [Purpose::Fetch, Purpose::Report, Purpose::Grant];
        let purpose = all.into_iter().find(|purpose| *self.slot(*purpose) == Some(ticket))?;
        *self.slot(purpose) = None;
        Some(purpose)
    }
}
