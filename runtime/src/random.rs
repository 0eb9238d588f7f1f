//! Randomness from the operating system.

use taffrail_core::ids::Uuid;

/// Fills `bytes` with random bytes that nobody can guess.
///
/// Panics if the kernel has no entropy source at all, without which no identity can be made.
pub fn fill(bytes: &mut [u8]) {
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
