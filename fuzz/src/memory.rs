//! The bound on memory: a reader may take so many bytes for each byte of its input, and a constant.
//!
//! All bytes that are allocated on the way are added up, also those that are freed again, so the peak is below the sum.
//! Counters belong to the process: only one target runs at a time.

use stats_alloc::{INSTRUMENTED_SYSTEM, Region};

/// Runs `read` and panics if it allocated more than `factor` bytes for each byte of input and `constant_bytes` besides.
pub fn bounded<T>(input: &[u8], factor: usize, constant_bytes: usize, read: impl FnOnce() -> T) -> T {
    let region = Region::new(&INSTRUMENTED_SYSTEM);
    let value = read();
    let change = region.change();
    let allowed = input.len().saturating_mul(factor).saturating_add(constant_bytes);
    assert!(
        change.bytes_allocated <= allowed,
        "{} bytes of input took {} bytes of memory, more than {factor} times as much and {constant_bytes}",
        input.len(),
        change.bytes_allocated,
    );
    value
}
