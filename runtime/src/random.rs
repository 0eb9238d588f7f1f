//! Randomness from the operating system, and numbers from a seed where a run shall be repeated.

use taffrail_core::ids::Uuid;

/// Fills `bytes` with random bytes that nobody can guess.
///
/// Panics if the kernel has no entropy source at all, without which no identity can be made.
pub fn fill(bytes: &mut [u8]) {
    #[cfg(feature = "simulation")]
    if crate::simulation::fill(bytes) {
        return;
    }
    let mut filled = 0;
    while filled < bytes.len() {
        match fill_some(&mut bytes[filled..]) {
            Ok(count) => filled += count,
            Err(error) => assert!(
                error.kind() == std::io::ErrorKind::Interrupted,
                "the operating system gives no random bytes: {error}"
            ),
        }
    }
}

#[cfg(target_os = "linux")]
fn fill_some(bytes: &mut [u8]) -> std::io::Result<usize> {
    Ok(rustix::rand::getrandom(bytes, rustix::rand::GetRandomFlags::empty())?)
}

#[cfg(not(target_os = "linux"))]
fn fill_some(bytes: &mut [u8]) -> std::io::Result<usize> {
    use std::io::Read;
    std::fs::File::open("/dev/urandom")?.read(bytes)
}

/// A random number.
pub fn u64() -> u64 {
    let mut bytes = [0; 8];
    fill(&mut bytes);
    u64::from_ne_bytes(bytes)
}

/// A new identity: of a topic, a cluster, a member, a directory.
pub fn uuid() -> Uuid {
    let mut bytes = [0; 16];
    fill(&mut bytes);
    Uuid::from_random(bytes)
}

/// Numbers from a seed (SplitMix64): the same seed gives the same run on every machine. They only look random.
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    /// A source that is wholly determined by `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number under `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number under zero");
        self.next_u64() % bound
    }

    /// Whether something happens that happens once in `times`.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let number = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
    }
}
