//! Panics in tasks, which end the task and would otherwise be heard of by nobody: in a run each is a failure.

use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    /// `None` = this thread makes no run.
    static SEEN: RefCell<Option<Option<String>>> = const { RefCell::new(None) };
}

static WATCHING: Once = Once::new();

/// Has panics of runs noted; those of other threads go on as before.
pub(super) fn watch() {
    WATCHING.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let noted = SEEN.try_with(|seen| match &mut *seen.borrow_mut() {
                Some(first) => {
                    first.get_or_insert_with(|| panic.to_string());
                    true
                }
                None => false,
            });
            if noted != Ok(true) {
                before(panic);
            }
        }));
    });
}

/// A run begins on this thread.
pub(super) fn forget() {
    SEEN.set(Some(None));
}

/// The first panic of this thread's run.
pub(super) fn seen() -> Option<String> {
    SEEN.with_borrow(|seen| seen.clone().flatten())
}

/// Does `work`.
///
/// # Errors
/// The panic that it ended in.
pub(super) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    outcome.map_err(|_| format!("panic: {}", seen().unwrap_or_default()))
}
