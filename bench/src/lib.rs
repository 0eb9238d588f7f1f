//! benchmarks.
