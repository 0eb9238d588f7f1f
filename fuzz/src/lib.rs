//! hostile input.
