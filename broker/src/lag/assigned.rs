//! The partitions in what a consumer was assigned.
//!
//! All versions of the consumer protocol begin as version 0 does: version, then topics with their partitions. What members
//! of other protocols were assigned is something else, and tells nothing.

use taffrail_core::ids::PartitionIndex;

/// Topics and partitions of an assignment; `None` if the bytes are something else.
pub(super) fn partitions(mut assignment: &[u8]) -> Option<Vec<(&str, Vec<PartitionIndex>)>> {
    let input = &mut assignment;
    let _version = i16::from_be_bytes(take::<2>(input)?);
    let topics = count(input, 6)?;
    let mut assigned = Vec::with_capacity(topics);
    for _ in 0..topics {
        let length = usize::try_from(i16::from_be_bytes(take::<2>(input)?)).ok()?;
        let (name, rest) = input.split_at_checked(length)?;
        *input = rest;
        let partitions =
            (0..count(input, 4)?).map(|_| take::<4>(input).map(i32::from_be_bytes)).collect::<Option<_>>()?;
        assigned.push((std::str::from_utf8(name).ok()?, partitions));
    }
    Some(assigned)
}

/// The length of a list whose elements take `least_bytes` each.
fn count(input: &mut &[u8], least_bytes: usize) -> Option<usize> {
    let count = usize::try_from(i32::from_be_bytes(take::<4>(input)?)).ok()?;
    (count <= input.len() / least_bytes).then_some(count)
}

fn take<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = input.split_first_chunk::<N>()?;
    *input = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn partitions_are_read_from_every_version() {
        let bytes = b"\0\x03\0\0\0\x02\0\x01a\0\0\0\x02\0\0\0\0\0\0\0\x05\0\x02bc\0\0\0\0\xff\xff\xff\xff and more";
        assert_eq!(partitions(bytes), Some(vec![("a", vec![0, 5]), ("bc", vec![])]));
        assert_eq!(partitions(b"\0\0\0\0\0\0"), Some(vec![]));
    }

    #[test]
    fn hostile_counts_are_no_assignment() {
        for bytes in
            [&b"\0\0\x7f\xff\xff\xff"[..], b"\0\0\xff\xff\xff\xff", b"\0\0\0\0\0\x01\0\x01a\x7f\xff\xff\xff", b""]
        {
            assert_eq!(partitions(bytes), None);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = partitions(&bytes);
        }
    }
}
