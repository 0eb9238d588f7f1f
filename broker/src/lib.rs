//! the broker role.
