//! Zigzag variable-length integers, as Kafka's `ByteUtils` reads and writes them inside records.

/// Most bytes of a 32-bit varint.
pub const MAX_VARINT_BYTES: usize = 5;

/// Most bytes of a 64-bit varint.
pub const MAX_VARLONG_BYTES: usize = 10;

/// Why bytes are no varint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VarintError {
    /// The input ended inside the number.
    #[error("the input ends inside a varint")]
    Truncated,
    /// The number goes on past its most bytes (5 for 32 bits, 10 for 64).
    #[error("a varint is longer than {0} bytes")]
    TooLong(usize),
}

/// Takes a zigzag 32-bit integer off the front of `input`. Bits above the 32nd are dropped, as Kafka does.
pub fn read_varint(input: &mut &[u8]) -> Result<i32, VarintError> {
    // Most lengths and deltas fit one byte.
    if let [first, rest @ ..] = *input
        && *first < 0x80
    {
        *input = rest;
        let raw = u32::from(*first);
        return Ok((raw >> 1) as i32 ^ -((raw & 1) as i32));
    }
    let raw = read_raw(input, MAX_VARINT_BYTES)? as u32;
    Ok((raw >> 1) as i32 ^ -((raw & 1) as i32))
}

/// Takes a zigzag 64-bit integer off the front of `input`.
pub fn read_varlong(input: &mut &[u8]) -> Result<i64, VarintError> {
    let raw = read_raw(input, MAX_VARLONG_BYTES)?;
    Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
}

fn read_raw(input: &mut &[u8], max_bytes: usize) -> Result<u64, VarintError> {
    let mut raw: u64 = 0;
    for (index, byte) in input.iter().take(max_bytes).enumerate() {
        raw |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            *input = &input[index + 1..];
            return Ok(raw);
        }
    }
    if input.len() >= max_bytes { Err(VarintError::TooLong(max_bytes)) } else { Err(VarintError::Truncated) }
}

/// Appends a zigzag 32-bit integer.
pub fn write_varint(value: i32, output: &mut Vec<u8>) {
    write_raw(u64::from(((value << 1) ^ (value >> 31)) as u32), output);
}

/// Appends a zigzag 64-bit integer.
pub fn write_varlong(value: i64, output: &mut Vec<u8>) {
    write_raw(((value << 1) ^ (value >> 63)) as u64, output);
}

fn write_raw(mut raw: u64, output: &mut Vec<u8>) {
    while raw >= 0x80 {
        output.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    output.push(raw as u8);
}

/// Bytes that [`write_varint`] takes for a value.
pub fn varint_bytes(value: i32) -> usize {
    raw_bytes(u64::from(((value << 1) ^ (value >> 31)) as u32))
}

/// Bytes that [`write_varlong`] takes for a value.
pub fn varlong_bytes(value: i64) -> usize {
    raw_bytes(((value << 1) ^ (value >> 63)) as u64)
}

fn raw_bytes(raw: u64) -> usize {
    let bits = 64 - (raw | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_written_as_kafka_writes_them() {
        // Vectors of Kafka's ByteUtilsTest.
        let cases: [(i32, &[u8]); 9] = [
            (0, &[0]),
            (-1, &[1]),
            (1, &[2]),
            (63, &[0x7e]),
            (-64, &[0x7f]),
            (64, &[0x80, 0x01]),
            (-65, &[0x81, 0x01]),
            (i32::MAX, &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
            (i32::MIN, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        ];
        for (value, bytes) in cases {
            let mut written = Vec::new();
            write_varint(value, &mut written);
            assert_eq!(written, bytes, "{value}");
            assert_eq!(varint_bytes(value), bytes.len());
            assert_eq!(read_varint(&mut &bytes[..]), Ok(value));
        }
    }

    #[test]
    fn overlong_and_cut_numbers_are_refused() {
        assert_eq!(read_varint(&mut &[0xff; 6][..]), Err(VarintError::TooLong(5)));
        assert_eq!(read_varint(&mut &[0xff; 5][..]), Err(VarintError::TooLong(5)));
        assert_eq!(read_varint(&mut &[0xff; 4][..]), Err(VarintError::Truncated));
        assert_eq!(read_varint(&mut &[][..]), Err(VarintError::Truncated));
        assert_eq!(read_varlong(&mut &[0xff; 11][..]), Err(VarintError::TooLong(10)));
        assert_eq!(read_varlong(&mut &[0xff; 9][..]), Err(VarintError::Truncated));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(int in any::<i32>(), long in any::<i64>(), tail in any::<u8>()) {
            let mut bytes = Vec::new();
            write_varint(int, &mut bytes);
            prop_assert_eq!(bytes.len(), varint_bytes(int));
            write_varlong(long, &mut bytes);
            prop_assert_eq!(bytes.len(), varint_bytes(int) + varlong_bytes(long));
            bytes.push(tail);
            let mut input = &bytes[..];
            prop_assert_eq!(read_varint(&mut input), Ok(int));
            prop_assert_eq!(read_varlong(&mut input), Ok(long));
            prop_assert_eq!(input, &[tail][..]);
        }
    }
}
