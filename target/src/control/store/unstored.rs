//! Failures to store data, for the operator.

use std::sync::Mutex;
use std::time::Instant;

use super::StoreError;
use crate::sys::sync::lock;
use crate::sys::words::coarse_time;

/// Whether something that is stored without being asked for could not be stored, since when, and why.
#[derive(Debug, Default)]
pub(crate) struct Unstored(Mutex<Option<(Instant, String)>>);

impl Unstored {
    /// Notes the result of a write. Returns whether it is the first failure, or the first success after a failure.
    pub(crate) fn note(&self, result: &Result<(), StoreError>) -> bool {
        let mut failed = lock(&self.0);
        let had_failed = failed.is_some();
        *failed = result.as_ref().err().map(|error| {
            let since = failed.as_ref().map_or_else(Instant::now, |(since, _)| *since);
            (since, error.to_string())
        });
        had_failed != failed.is_some()
    }

    /// Describes that `what` (in the plural) is not stored; `None` if it is.
    pub(crate) fn problem(&self, what: &str) -> Option<String> {
        let failed = lock(&self.0);
        let (since, why) = failed.as_ref()?;
        let time = coarse_time(since.elapsed());
        Some(format!("{what} are not stored (for {time}), a restart would lose them: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_lasts_until_a_write_succeeds() {
        let unstored = Unstored::default();
        let full = Err(StoreError::Full { file: "/state".to_owned() });
        assert!(!unstored.note(&Ok(())) && unstored.problem("hosts").is_none());
        assert!(unstored.note(&full) && !unstored.note(&full));
        let problem = unstored.problem("hosts").unwrap();
        assert!(problem.starts_with("hosts are not stored (for 0 s)"), "{problem}");
        assert!(problem.contains("no space left to write the state file /state"), "{problem}");
        assert!(unstored.note(&Ok(())) && unstored.problem("hosts").is_none());
    }
}
