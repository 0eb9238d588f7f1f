//! The topics in a consumer's subscription.
//!
//! All versions of the consumer protocol begin as version 0 does: version, then the topics. That is all a coordinator
//! needs, to know which offsets are in use.

/// Topics of a subscription; `None` if the bytes are something else.
pub(super) fn topics(mut metadata: &[u8]) -> Option<Vec<String>> {
    let input = &mut metadata;
    let _version = i16::from_be_bytes(take::<2>(input)?);
    let count = usize::try_from(i32::from_be_bytes(take::<4>(input)?)).ok()?;
    // Each topic takes two bytes at least.
    if count > input.len() / 2 {
        return None;
    }
    let mut topics = Vec::with_capacity(count);
    for _ in 0..count {
        let length = usize::try_from(i16::from_be_bytes(take::<2>(input)?)).ok()?;
        let (name, rest) = input.split_at_checked(length)?;
        *input = rest;
        topics.push(std::str::from_utf8(name).ok()?.to_owned());
    }
    Some(topics)
}

fn take<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = input.split_first_chunk::<N>()?;
    *input = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn topics_are_read_from_every_version() {
        let bytes = b"\0\x03\0\0\0\x02\0\x01a\0\x02bc\xff\xff\xff\xff and more";
        assert_eq!(topics(bytes), Some(vec!["a".to_owned(), "bc".to_owned()]));
        assert_eq!(topics(b"\0\0\0\0\0\0"), Some(vec![]));
    }

    #[test]
    fn hostile_counts_are_no_subscription() {
        for bytes in [&b"\0\0\x7f\xff\xff\xff"[..], b"\0\0\xff\xff\xff\xff", b"\0\0\0\0\0\x01\x7f\xff", b"\0"] {
            assert_eq!(topics(bytes), None);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = topics(&bytes);
        }
    }
}
