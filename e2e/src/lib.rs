//! The product as processes: what tests need to run `taffrail` and the clients that people have against it.

pub mod matrix;
pub mod process;
