//! Small damage to sound bytes: what networks, disks and attackers do to counts, lengths and ends.

use crate::random::Random;

/// Longest input that mutations make.
const INPUT_BYTES_MAX: usize = 64 * 1024;

/// Numbers at the edges of what counts and lengths can be.
const EDGES: [i64; 16] =
    [0, 1, -1, -2, 2, 61, 127, 128, 255, 256, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, i64::MIN, i64::MAX];

/// Damages `bytes` in one to eight places; `other` is a second sound input to take pieces from.
pub fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    for _ in 0..=random.below(8) {
        mutate_once(bytes, other, random);
    }
    bytes.truncate(INPUT_BYTES_MAX);
}

fn mutate_once(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    match random.below(9) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 if at < bytes.len() => bytes[at] = random.next_u64() as u8,
        2 => put_number(bytes, at, random),
        3 => put_varint(bytes, at, random),
        4 => bytes.truncate(at),
        5 => {
            let end = (at + 1 + random.below(16)).min(bytes.len());
            bytes.drain(at.min(end)..end);
        }
        6 => {
            let count = 1 + random.below(16);
            let inserted = random.bytes(count);
            bytes.splice(at..at, inserted);
        }
        7 => repeat(bytes, at, random),
        _ => {
            // The end of another input behind the start of this one.
            bytes.truncate(at);
            bytes.extend_from_slice(&other[random.below(other.len() + 1)..]);
        }
    }
}

/// Overwrites two, four or eight bytes by a number at an edge.
fn put_number(bytes: &mut [u8], at: usize, random: &mut Random) {
    let value = random.one_of(&EDGES).wrapping_add(random.below(3) as i64 - 1).to_be_bytes();
    let width = *random.one_of(&[2, 4, 8]);
    for (slot, byte) in bytes.iter_mut().skip(at).zip(&value[8 - width..]) {
        *slot = *byte;
    }
}

/// Puts the varint of a number at an edge in place of a byte.
fn put_varint(bytes: &mut Vec<u8>, at: usize, random: &mut Random) {
    let mut value = random.one_of(&EDGES).wrapping_add(random.below(3) as i64 - 1) as u64;
    let mut varint = Vec::new();
    while value >= 0x80 {
        varint.push(value as u8 | 0x80);
        value >>= 7;
    }
    varint.push(value as u8);
    let end = (at + 1).min(bytes.len());
    bytes.splice(at.min(end)..end, varint);
}

/// Repeats a piece, now and then many times, so that elements without a count behind them appear.
fn repeat(bytes: &mut Vec<u8>, at: usize, random: &mut Random) {
    let end = (at + 1 + random.below(24)).min(bytes.len());
    let piece = bytes[at.min(end)..end].to_vec();
    let times = if random.below(16) == 0 { 1 + random.below(2_000) } else { 1 + random.below(4) };
    let room = INPUT_BYTES_MAX.saturating_sub(bytes.len());
    let repeated = piece.repeat(times.min(room / piece.len().max(1)));
    bytes.splice(end..end, repeated);
}
