//! The execution of a plan: all of it, or nothing.

use super::change::Change;
use crate::serve::engine::{Engine, EngineError};

/// Makes all changes in their order. If one fails, the changes before it are undone in reverse order.
///
/// # Errors
/// The change that failed, its reason, and the changes that could not be undone.
pub(crate) fn run(engine: &dyn Engine, changes: &[Change]) -> Result<(), EngineError> {
    let mut undo = Vec::new();
    for change in changes {
        let back = take_back(engine, change);
        match change.make(engine) {
            Ok(()) => undo.push(back),
            // A removal of an object that is gone needs no undo.
            Err(EngineError::NotFound(_)) if change.is_removal() => {}
            Err(error) => {
                let failed = format!("{change}: {error}");
                return Err(with_text(error, failed + &revert(engine, undo)));
            }
        }
    }
    Ok(())
}

/// Returns the change that undoes another one; call this before that one is made. A namespace of
/// its file's size gets the size again that it has now.
fn take_back(engine: &dyn Engine, change: &Change) -> Change {
    let mut back = change.inverse();
    if let Change::Resize { nqn, nsid, to: to @ None, .. } = &mut back {
        let subsystems = engine.subsystems();
        let found = subsystems.iter().filter(|s| s.nqn == *nqn).flat_map(|s| &s.namespaces);
        *to = found.into_iter().find(|n| n.nsid == *nsid).map(|namespace| namespace.size);
    }
    back
}

/// Undoes changes. Returns the failures, as the end of a message.
fn revert(engine: &dyn Engine, undo: Vec<Change>) -> String {
    let mut failed = Vec::new();
    for back in undo.into_iter().rev() {
        if let Err(error) = back.make(engine) {
            failed.push(format!("{back}: {error}"));
        }
    }
    match failed.is_empty() {
        true => "; everything is as it was".into(),
        false => format!("; these changes could not be undone: {}", failed.join("; ")),
    }
}

/// Makes an error of the same kind with another text.
fn with_text(error: EngineError, text: String) -> EngineError {
    match error {
        EngineError::NotFound(_) => EngineError::NotFound(text),
        EngineError::Exists(_) => EngineError::Exists(text),
        EngineError::Invalid(_) => EngineError::Invalid(text),
        EngineError::System(_) => EngineError::System(text),
        EngineError::Refused(_) => EngineError::Refused(text),
    }
}
