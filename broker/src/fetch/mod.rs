//! Fetch: sessions, reading, waiting.

pub(crate) mod cache;
pub(crate) mod read;
pub(crate) mod session;
pub(crate) mod wait;
