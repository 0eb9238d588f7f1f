//! A checksum before every value: databases and disks return wrong bytes too.

use crc_fast::{CrcAlgorithm, Digest};

use super::StoreError;

/// CRC-32C, four bytes, big endian.
const SUM_BYTES: usize = 4;

/// `value` with its checksum before it. `place` says where it belongs, so that a value in a wrong place is noticed too.
pub(super) fn seal(place: u64, value: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(SUM_BYTES + value.len());
    sealed.extend_from_slice(&sum(place, value).to_be_bytes());
    sealed.extend_from_slice(value);
    sealed
}

/// The value in `sealed`.
pub(super) fn unseal<'a>(place: u64, sealed: &'a [u8], what: &dyn Fn() -> String) -> Result<&'a [u8], StoreError> {
    sealed
        .split_first_chunk::<SUM_BYTES>()
        .filter(|(stored, value)| u32::from_be_bytes(**stored) == sum(place, value))
        .map(|(_, value)| value)
        .ok_or_else(|| StoreError::Checksum { what: what() })
}

fn sum(place: u64, value: &[u8]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&place.to_be_bytes());
    digest.update(value);
    u32::try_from(digest.finalize()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_and_every_wrong_place_is_noticed() {
        let sealed = seal(5, b"value");
        let what = || "it".to_owned();
        assert_eq!(unseal(5, &sealed, &what).unwrap(), b"value");
        assert!(unseal(6, &sealed, &what).is_err());
        for bit in 0..sealed.len() * 8 {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(unseal(5, &damaged, &what).is_err(), "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert!(unseal(5, &sealed[..length], &what).is_err(), "cut to {length}");
        }
    }
}
