//! CRC-32C (Castagnoli), the checksum of record batches and of producer snapshots.

/// CRC-32C of `bytes`. Uses the widest instructions that the running processor has (chosen at run time on x86-64 and on
/// aarch64) and a table where it has none.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_sums_of_rfc_3720() {
        let ascending: Vec<u8> = (0..32).collect();
        let cases: [(&[u8], u32); 5] = [
            (b"", 0),
            (b"123456789", 0xe306_9283),
            (&[0; 32], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&ascending, 0x46dd_794e),
        ];
        for (bytes, sum) in cases {
            assert_eq!(crc32c(bytes), sum, "{bytes:?}");
        }
    }
}
