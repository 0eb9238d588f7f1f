//! The operating system's randomness, from a seed.
//!
//! Libraries below ours draw random numbers by themselves: tokio for the order in which `select!` looks, the standard
//! library for its hash maps, openraft for timeouts. All of them ask the C library's `getrandom`, which the standard
//! library lets a program replace. Each thread is seeded for itself, and a run has a thread of its own.

use std::cell::Cell;

use taffrail_runtime::random::Seeded;

thread_local! {
    static STATE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Has this thread's randomness come from `seed` from now on. Meant for a thread that has drawn none yet: what was drawn
/// before goes on to be used.
pub(crate) fn seed(seed: u64) {
    STATE.set(Some(seed));
}

/// What stands in place of the C library's function of this name.
///
/// # Safety
/// `buffer` must be valid for writes of `length` bytes, as the C library demands of its callers.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "a function that others call by its C name; its contract is the C library's")]
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut u8, length: usize, _flags: u32) -> isize {
    // SAFETY: the caller says that it is so (see above); the bytes are only written to.
    let bytes = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
    match STATE.get() {
        Some(state) => {
            let mut rng = Seeded::new(state);
            rng.fill(bytes);
            STATE.set(Some(rng.next_u64()));
        }
        // The kernel itself, not through the C library, which would come back here.
        None => taffrail_runtime::random::fill(bytes),
    }
    isize::try_from(length).unwrap_or(isize::MAX)
}
