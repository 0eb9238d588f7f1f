//! the controller role.
