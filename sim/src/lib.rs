//! seeded simulation.
