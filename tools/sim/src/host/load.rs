//! A load of a host: the accesses that its source wants, and their results.

use std::time::Duration;

use units::{Class, Nanos};

use crate::load::{Access, Arrival, Source};
use crate::measured::{Done, LoadMeasured};

/// The period that is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) begin: Nanos,
    pub(crate) end: Nanos,
    pub(crate) interval: Duration,
}

impl Window {
    /// Returns the index of the interval that a time is in; `None` where it is not measured.
    pub(crate) fn place(&self, at: Nanos) -> Option<usize> {
        let interval = units::nanos(self.interval).max(1);
        let inside = at >= self.begin && at < self.end;
        inside.then(|| usize::try_from(at.ns_since(self.begin) / interval).unwrap_or(usize::MAX))
    }
}

/// The source's next access for its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// An access now, which was wanted at this time.
    Now(Nanos, Access),
    /// Something at a later time: [`Load::due`] then has it.
    Later(Nanos),
    /// Nothing before an access ends.
    Waits,
}

#[derive(Debug)]
pub(super) struct Load {
    pub(super) nsid: u32,
    /// Class that its commands name.
    pub(super) named: Option<Class>,
    source: Box<dyn Source>,
    /// The access that is wanted at a later time.
    later: Option<(Nanos, Access)>,
    /// The access that is wanted when another one ends.
    held: Option<Access>,
    pub(super) measured: LoadMeasured,
}

impl Load {
    pub(super) fn new(
        nsid: u32,
        named: Option<Class>,
        class: Class,
        source: Box<dyn Source>,
    ) -> Self {
        let measured = LoadMeasured {
            class,
            wanted: 0,
            submitted: 0,
            answered: 0,
            failed: 0,
            outstanding: 0,
            ended: 0,
            unfinished: 0,
            read: Done::new(),
            write: Done::new(),
            series: Vec::new(),
        };
        Self { nsid, named, source, later: None, held: None, measured }
    }

    /// Requests the source's next access.
    pub(super) fn ask(&mut self, now: Nanos) -> Next {
        match self.source.next(now) {
            Arrival::At(at, access) if at <= now => Next::Now(at, access),
            Arrival::At(at, access) => {
                self.later = Some((at, access));
                Next::Later(at)
            }
            Arrival::WhenOneEnds(access) => {
                self.held = Some(access);
                Next::Waits
            }
            Arrival::Never => Next::Waits,
        }
    }

    /// Removes and returns the access that was wanted at this time.
    pub(super) fn due(&mut self, now: Nanos) -> Option<Access> {
        let (_, access) = self.later.take_if(|(at, _)| *at <= now)?;
        Some(access)
    }

    /// Removes and returns the access that was wanted when another one ends.
    pub(super) fn take_held(&mut self) -> Option<Access> {
        self.held.take()
    }

    /// Counts an access that has ended well.
    pub(super) fn count(
        &mut self,
        now: Nanos,
        wanted: Nanos,
        access: (bool, u64),
        window: &Window,
    ) {
        let Some(place) = window.place(now) else { return };
        let (write, bytes) = access;
        let done = if write { &mut self.measured.write } else { &mut self.measured.read };
        done.commands += 1;
        done.bytes += bytes;
        let recorded = done.latency.record(now.ns_since(wanted));
        debug_assert!(recorded.is_ok(), "the histogram grows");
        let series = &mut self.measured.series;
        if series.len() <= place {
            series.resize(place.saturating_add(1), 0);
        }
        if let Some(at) = series.get_mut(place) {
            *at += bytes;
        }
    }
}
