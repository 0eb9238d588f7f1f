//! bytes and messages.
