//! Which partition a record goes to: that of its key, as all of Kafka's clients in Java and most others decide, so that records
//! of a key stay together whoever produces them.

/// The partition of `key` among `count`, which is at least 1.
pub(super) fn partition(key: &[u8], count: usize) -> usize {
    (murmur2(key) & 0x7fff_ffff) as usize % count
}

/// The hash that Kafka's clients use (`Utils.murmur2`).
fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    const R: u32 = 24;
    let mut hash = SEED ^ data.len() as u32;
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0, |tail, byte| (tail << 8) | u32::from(*byte));
        hash = (hash ^ tail).wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of Kafka's own test (`UtilsTest.testMurmur2`).
    #[test]
    fn keys_are_hashed_as_by_kafka() {
        let cases = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ];
        for (key, expected) in cases {
            assert_eq!(murmur2(key.as_bytes()) as i32, expected, "{key}");
        }
    }

    #[test]
    fn every_key_has_a_partition() {
        for key in [&b""[..], b"a", b"21", &[0xff; 100]] {
            assert!(partition(key, 3) < 3 && partition(key, 1) == 0);
        }
    }
}
