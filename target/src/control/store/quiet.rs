//! Conversion of the database library's panics over a damaged file into errors, without text on
//! standard error.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    /// Whether a panic of this thread is expected, and prints nothing.
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Runs an action. A panic in it becomes an error with its text, and is not printed; panics of
/// other threads are printed as usual.
pub(super) fn quietly<T>(action: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    // The hook is set once for the whole process: if each action set and restored it, two threads
    // could restore each other's.
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !EXPECTED.get() {
                before(info);
            }
        }));
    });
    let outer = EXPECTED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(action));
    EXPECTED.set(outer);
    result.map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        let text = text.unwrap_or_default();
        // Assertions print both sides in lines of their own.
        let line = text.lines().next().unwrap_or_default();
        format!("its structure is inconsistent: {line}").trim_end_matches(": ").to_owned()
    })
}
