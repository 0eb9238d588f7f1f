//! the product as processes.
