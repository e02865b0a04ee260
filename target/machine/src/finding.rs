//! The result of a check.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

/// The judgement of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing to do.
    Good,
    /// The remedy makes the machine faster or safer.
    Improvable,
    /// Hosts cannot be served as configured, or not safely.
    Wrong,
    /// A fact could not be read.
    Unknown,
}

impl Verdict {
    /// Returns the word for the verdict.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Improvable => "improvable",
            Self::Wrong => "wrong",
            Self::Unknown => "unknown",
        }
    }
}

/// A fact about the machine with its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The judgement.
    pub verdict: Verdict,
    /// The part of the machine, such as "governor" or "nvme0".
    pub subject: String,
    /// The fact, in one sentence without a period.
    pub found: String,
    /// A command for a root shell, or an action if there is no such command; `None` for good and unknown facts.
    pub remedy: Option<String>,
}

impl Finding {
    /// Makes a finding that needs no action.
    pub(crate) fn good(subject: impl Into<String>, found: impl Into<String>) -> Self {
        Self::new(Verdict::Good, subject.into(), found.into(), None)
    }

    /// Makes a finding with an improvement.
    pub(crate) fn improvable(
        subject: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(Verdict::Improvable, subject.into(), found.into(), Some(remedy.into()))
    }

    /// Makes a finding of a fault.
    pub(crate) fn wrong(
        subject: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(Verdict::Wrong, subject.into(), found.into(), Some(remedy.into()))
    }

    /// Makes a finding of a fact that could not be read.
    pub(crate) fn unknown(subject: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(Verdict::Unknown, subject.into(), why.into(), None)
    }

    fn new(verdict: Verdict, subject: String, found: String, remedy: Option<String>) -> Self {
        Self { verdict, subject, found, remedy }
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.found)?;
        self.remedy.as_ref().map_or(Ok(()), |remedy| write!(f, ": `{remedy}`"))
    }
}
