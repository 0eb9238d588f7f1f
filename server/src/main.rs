//! The binary `taffrail`.

fn main() {}
