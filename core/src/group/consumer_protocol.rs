//! What consumers tell each other in what is opaque to Kafka: their subscriptions and assignments.
//!
//! All versions of the consumer protocol begin as version 0 does: version, then topics, in an assignment with their
//! partitions. That is all a broker needs, to know which offsets are in use and who reads what. Members of other protocols
//! say something else there, and tell nothing.

use std::collections::BTreeMap;

use crate::ids::PartitionIndex;

/// The version that is written: the first one, which all consumers read.
const VERSION: i16 = 0;

/// The versions from which on a subscription says what its member has, and since which generation.
const OWNED_SINCE: i16 = 1;
const GENERATION_SINCE: i16 = 2;

/// The generation of a member that has been in none.
const NO_GENERATION: i32 = -1;

/// A list, or bytes, that are not there.
const NULL: i32 = -1;

/// A subscription to these topics.
pub fn subscription(topics: &[String]) -> Vec<u8> {
    let mut output = VERSION.to_be_bytes().to_vec();
    put_count(&mut output, topics.len());
    topics.iter().for_each(|topic| put_name(&mut output, topic));
    output.extend_from_slice(&NULL.to_be_bytes());
    output
}

/// What a member wants to read, and what it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Topics that it subscribes to.
    pub topics: Vec<String>,
    /// Partitions that it reads and does not give up by itself, by their topics.
    pub owned: BTreeMap<String, Vec<PartitionIndex>>,
    /// The generation in which it was given them; -1 = it does not say.
    pub generation: i32,
}

impl Subscription {
    /// Its bytes, in a version that has all of it.
    pub fn encode(&self) -> Vec<u8> {
        let mut output = GENERATION_SINCE.to_be_bytes().to_vec();
        put_count(&mut output, self.topics.len());
        self.topics.iter().for_each(|topic| put_name(&mut output, topic));
        output.extend_from_slice(&NULL.to_be_bytes());
        put_partitions(&mut output, &self.owned);
        output.extend_from_slice(&self.generation.to_be_bytes());
        output
    }

    /// Reads any version; `None` if the bytes are something else.
    pub fn decode(mut metadata: &[u8]) -> Option<Self> {
        let topics = topics(metadata)?;
        let input = &mut metadata;
        let version = i16::from_be_bytes(take::<2>(input)?);
        let mut subscription = Self { topics, owned: BTreeMap::new(), generation: NO_GENERATION };
        if version < OWNED_SINCE {
            return Some(subscription);
        }
        for _ in 0..count(input, 2)? {
            name(input)?;
        }
        let user_data = usize::try_from(i32::from_be_bytes(take::<4>(input)?)).unwrap_or(0);
        *input = input.split_at_checked(user_data)?.1;
        for (topic, partitions) in topics_with_partitions(input)? {
            subscription.owned.entry(topic.to_owned()).or_default().extend(partitions);
        }
        if version >= GENERATION_SINCE {
            subscription.generation = i32::from_be_bytes(take::<4>(input)?);
        }
        Some(subscription)
    }
}

/// An assignment of these partitions, by their topics.
pub fn assignment(partitions: &BTreeMap<String, Vec<PartitionIndex>>) -> Vec<u8> {
    let mut output = VERSION.to_be_bytes().to_vec();
    put_partitions(&mut output, partitions);
    output.extend_from_slice(&NULL.to_be_bytes());
    output
}

fn put_partitions(output: &mut Vec<u8>, partitions: &BTreeMap<String, Vec<PartitionIndex>>) {
    put_count(output, partitions.len());
    for (topic, partitions) in partitions {
        put_name(output, topic);
        put_count(output, partitions.len());
        partitions.iter().for_each(|partition| output.extend_from_slice(&partition.to_be_bytes()));
    }
}

fn put_count(output: &mut Vec<u8>, count: usize) {
    output.extend_from_slice(&i32::try_from(count).unwrap_or(i32::MAX).to_be_bytes());
}

fn put_name(output: &mut Vec<u8>, name: &str) {
    // Names of topics have 249 bytes at most; a longer one is no topic's, and is cut rather than misread.
    let bytes = &name.as_bytes()[..name.len().min(i16::MAX as usize)];
    output.extend_from_slice(&(bytes.len() as i16).to_be_bytes());
    output.extend_from_slice(bytes);
}

/// Topics of a subscription; `None` if the bytes are something else.
pub fn topics(mut metadata: &[u8]) -> Option<Vec<String>> {
    let input = &mut metadata;
    let topics = begin(input, 2)?;
    (0..topics).map(|_| name(input).map(str::to_owned)).collect()
}

/// Topics and partitions of an assignment; `None` if the bytes are something else.
pub fn partitions(mut assignment: &[u8]) -> Option<Vec<(&str, Vec<PartitionIndex>)>> {
    let input = &mut assignment;
    let _version = take::<2>(input)?;
    topics_with_partitions(input)
}

fn topics_with_partitions<'a>(input: &mut &'a [u8]) -> Option<Vec<(&'a str, Vec<PartitionIndex>)>> {
    let topics = count(input, 6)?;
    (0..topics)
        .map(|_| {
            let name = name(input)?;
            let partitions = count(input, 4)?;
            let partitions = (0..partitions).map(|_| take::<4>(input).map(i32::from_be_bytes));
            Some((name, partitions.collect::<Option<_>>()?))
        })
        .collect()
}

/// Reads past the version; gives the number of topics, which take `least_bytes` each.
fn begin(input: &mut &[u8], least_bytes: usize) -> Option<usize> {
    let _version = take::<2>(input)?;
    count(input, least_bytes)
}

/// The length of a list whose elements take `least_bytes` each.
fn count(input: &mut &[u8], least_bytes: usize) -> Option<usize> {
    let count = usize::try_from(i32::from_be_bytes(take::<4>(input)?)).ok()?;
    (count <= input.len() / least_bytes).then_some(count)
}

fn name<'a>(input: &mut &'a [u8]) -> Option<&'a str> {
    let length = usize::try_from(i16::from_be_bytes(take::<2>(input)?)).ok()?;
    let (name, rest) = input.split_at_checked(length)?;
    *input = rest;
    std::str::from_utf8(name).ok()
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

    #[test]
    fn partitions_of_an_assignment_are_read_from_every_version() {
        let bytes = b"\0\x03\0\0\0\x02\0\x01a\0\0\0\x02\0\0\0\0\0\0\0\x05\0\x02bc\0\0\0\0\xff\xff\xff\xff and more";
        assert_eq!(partitions(bytes), Some(vec![("a", vec![0, 5]), ("bc", vec![])]));
        assert_eq!(partitions(b"\0\0\0\0\0\0"), Some(vec![]));
    }

    #[test]
    fn what_is_written_is_read() {
        let names = ["a".to_owned(), "bc".to_owned()];
        assert_eq!(topics(&subscription(&names)), Some(names.to_vec()));
        let assigned = BTreeMap::from([("a".to_owned(), vec![0, 5]), ("bc".to_owned(), vec![])]);
        assert_eq!(partitions(&assignment(&assigned)), Some(vec![("a", vec![0, 5]), ("bc", vec![])]));
        assert_eq!(assignment(&BTreeMap::new()), b"\0\0\0\0\0\0\xff\xff\xff\xff");
    }

    #[test]
    fn what_a_member_has_is_read_from_the_versions_that_say_so() {
        let owned = BTreeMap::from([("a".to_owned(), vec![0, 5])]);
        let full = Subscription { topics: vec!["a".to_owned()], owned, generation: 7 };
        assert_eq!(Subscription::decode(&full.encode()), Some(full.clone()));
        // As Kafka's consumers write it, with data of their own in between and a rack behind.
        let third =
            b"\0\x03\0\0\0\x01\0\x01a\0\0\0\x02xy\0\0\0\x01\0\x01a\0\0\0\x02\0\0\0\0\0\0\0\x05\0\0\0\x07\xff\xff";
        assert_eq!(Subscription::decode(third), Some(full.clone()));
        let first = b"\0\x01\0\0\0\x01\0\x01a\xff\xff\xff\xff\0\0\0\x01\0\x01a\0\0\0\x02\0\0\0\0\0\0\0\x05";
        assert_eq!(Subscription::decode(first), Some(Subscription { generation: -1, ..full.clone() }));
        let without = Subscription { owned: BTreeMap::new(), generation: -1, ..full };
        assert_eq!(Subscription::decode(&subscription(&without.topics)), Some(without));
        assert_eq!(Subscription::decode(&third[..20]), None, "cut short");
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
            let _ = topics(&bytes);
            let _ = partitions(&bytes);
            let _ = Subscription::decode(&bytes);
        }
    }
}
