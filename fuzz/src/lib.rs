//! Hostile input for everything that reads bytes from network, disk or people.
//!
//! A [`Target`] takes any bytes and must neither panic nor take more memory than its input explains. The same targets have
//! two drivers. The stable one ([`driver`]) replays the kept corpus and then mutates sound inputs under a seed: it runs as
//! an ordinary test, and longer with `make fuzz`. The other one is libFuzzer, guided by coverage, in `fuzz/libfuzzer`, which
//! needs a nightly compiler.
//!
//! What a driver finds is written to `fuzz/failures`; once mended, it goes to `fuzz/corpus/<target>` and stays a test.

#![allow(clippy::panic, reason = "a fuzz target reports what it finds by a panic")]

pub mod driver;
pub mod memory;
pub mod mutate;
pub mod random;
mod targets;

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

pub use self::targets::TARGETS;
use crate::random::Random;

/// Counts what is allocated, for [`memory::bounded`], in every program that links the targets.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// One reader of bytes.
#[derive(Clone, Copy)]
pub struct Target {
    /// Name on the command line and of its corpus folder.
    pub name: &'static str,
    /// Reads any bytes; panics if something is wrong.
    pub run: fn(&[u8]),
    /// Makes a sound input, from which mutations start.
    pub sound: fn(&mut Random) -> Vec<u8>,
    /// Mends what a mutation always breaks, such as a checksum, so that the bytes behind it are reached too.
    pub mend: fn(&mut [u8]),
}

/// The target of a name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
