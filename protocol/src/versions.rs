//! Which keys are served at which versions: exactly the ranges that a running Apache Kafka 4.4 prints.
//!
//! Clients choose features by these ranges (librdkafka by overlap, Java by the newest common version), so they are kept
//! equal to Kafka's; a test compares them with what the running broker said.

use std::fmt;

/// Versions of one key, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// Oldest version.
    pub min: i16,
    /// Newest version.
    pub max: i16,
}

impl VersionRange {
    /// Whether a version lies in the range.
    pub const fn contains(self, version: i16) -> bool {
        self.min <= version && version <= self.max
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..={}", self.min, self.max)
    }
}

/// A version from which on messages are flexible (KIP-482) that no message reaches.
const NEVER: i16 = i16::MAX;

/// Builds [`ApiKey`] from one line a key: name = number, served versions, first flexible version.
macro_rules! api_keys {
    ($($(#[doc = $doc:literal])? $name:ident = $number:literal, $min:literal ..= $max:literal, flexible $flexible:expr;)*) => {
        /// The requests that are served.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ApiKey {
            $(
                #[doc = concat!("Key ", stringify!($number), ".")]
                $(#[doc = $doc])?
                $name = $number,
            )*
        }

        impl ApiKey {
            /// Every key that is served, by rising number.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The key with this number, or `None` if it is not served.
            pub const fn from_code(code: i16) -> Option<Self> {
                match code {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Kafka's name of the request, without `Request`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// The versions that are served.
            pub const fn versions(self) -> VersionRange {
                match self {
                    $(Self::$name => VersionRange { min: $min, max: $max },)*
                }
            }

            /// The first version with compact lengths and tagged fields (KIP-482).
            const fn first_flexible(self) -> i16 {
                match self {
                    $(Self::$name => $flexible,)*
                }
            }
        }
    };
}

api_keys! {
    Produce = 0, 3..=13, flexible 9;
    Fetch = 1, 4..=18, flexible 12;
    ListOffsets = 2, 1..=11, flexible 6;
    Metadata = 3, 0..=13, flexible 9;
    OffsetCommit = 8, 2..=10, flexible 8;
    OffsetFetch = 9, 1..=10, flexible 6;
    FindCoordinator = 10, 0..=6, flexible 3;
    JoinGroup = 11, 0..=9, flexible 6;
    Heartbeat = 12, 0..=4, flexible 4;
    LeaveGroup = 13, 0..=5, flexible 4;
    SyncGroup = 14, 0..=5, flexible 4;
    DescribeGroups = 15, 0..=6, flexible 5;
    ListGroups = 16, 0..=5, flexible 3;
    SaslHandshake = 17, 0..=1, flexible NEVER;
    ApiVersions = 18, 0..=5, flexible 3;
    CreateTopics = 19, 2..=7, flexible 5;
    DeleteTopics = 20, 1..=6, flexible 4;
    DeleteRecords = 21, 0..=2, flexible 2;
    InitProducerId = 22, 0..=5, flexible 2;
    OffsetForLeaderEpoch = 23, 2..=4, flexible 4;
    DescribeConfigs = 32, 1..=4, flexible 4;
    AlterConfigs = 33, 0..=2, flexible 2;
    DescribeLogDirs = 35, 1..=5, flexible 2;
    SaslAuthenticate = 36, 0..=2, flexible 2;
    CreatePartitions = 37, 0..=3, flexible 2;
    DeleteGroups = 42, 0..=3, flexible 2;
    ElectLeaders = 43, 0..=2, flexible 2;
    IncrementalAlterConfigs = 44, 0..=1, flexible 1;
    AlterPartitionReassignments = 45, 0..=1, flexible 0;
    ListPartitionReassignments = 46, 0..=0, flexible 0;
    OffsetDelete = 47, 0..=0, flexible NEVER;
    DescribeQuorum = 55, 0..=2, flexible 0;
    DescribeCluster = 60, 0..=2, flexible 0;
    UnregisterBroker = 64, 0..=0, flexible 0;
    DescribeTopicPartitions = 75, 0..=0, flexible 0;
    AddRaftVoter = 80, 0..=1, flexible 0;
    RemoveRaftVoter = 81, 0..=0, flexible 0;
}

impl ApiKey {
    /// The number on the wire.
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// What ApiVersions says of this key. It differs from [`ApiKey::versions`] for Produce alone: Kafka lists it from 0,
    /// though it refuses 0 to 2, because older librdkafka would otherwise stop compressing (KAFKA-18659).
    pub const fn advertised(self) -> VersionRange {
        match self {
            Self::Produce => VersionRange { min: 0, max: self.versions().max },
            _ => self.versions(),
        }
    }

    /// Whether a version has compact lengths and tagged fields (KIP-482).
    pub const fn is_flexible(self, version: i16) -> bool {
        version >= self.first_flexible()
    }

    /// Version of the header in front of a request: 2 (with tagged fields) or 1. Header 0 belonged to
    /// ControlledShutdown 0 alone, which Kafka 4 removed.
    pub const fn request_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) { 2 } else { 1 }
    }

    /// Version of the header in front of a response: 1 (with tagged fields) or 0. ApiVersions always has 0, because a
    /// client must read the answer before it knows which versions the broker speaks (KIP-511).
    pub const fn response_header_version(self, version: i16) -> i16 {
        match self {
            Self::ApiVersions => 0,
            _ => self.is_flexible(version) as i16,
        }
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The served versions of a key by its number, or `None` if the key is not served.
pub fn supported(key: i16) -> Option<VersionRange> {
    ApiKey::from_code(key).map(ApiKey::versions)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// What a running Apache Kafka 4.4 answered to ApiVersions.
    const GOLDEN: &str = include_str!("../../e2e/cases/golden/apiversions_4.4.json");

    /// Reads `{"0": {"min": 0, "max": 13}, ...}`: the numbers come in threes of key, min and max.
    fn golden() -> BTreeMap<i16, VersionRange> {
        let numbers: Vec<i16> =
            GOLDEN.split(|c: char| !c.is_ascii_digit()).filter_map(|text| text.parse().ok()).collect();
        numbers.chunks(3).map(|row| (row[0], VersionRange { min: row[1], max: row[2] })).collect()
    }

    #[test]
    fn advertised_ranges_are_those_of_a_running_kafka() {
        let golden = golden();
        assert!(golden.len() > 60, "the golden file lists every key of a broker");
        for &key in ApiKey::ALL {
            assert_eq!(golden.get(&key.code()), Some(&key.advertised()), "{key}");
        }
    }

    #[test]
    fn the_documentation_lists_what_is_served() {
        let documentation = include_str!("../../docs/protocol.md");
        for &key in ApiKey::ALL {
            let VersionRange { min, max } = key.versions();
            let listed = documentation.lines().any(|line| {
                let cells: Vec<&str> = line.split('|').map(str::trim).collect();
                cells
                    .windows(2)
                    .any(|pair| pair[0].split(' ').next() == Some(key.name()) && pair[1] == format!("{min}-{max}"))
            });
            assert!(listed, "{key} {min}-{max}");
        }
    }

    #[test]
    fn old_produce_versions_are_advertised_but_not_served() {
        assert_eq!(supported(0), Some(VersionRange { min: 3, max: 13 }));
        assert_eq!(ApiKey::Produce.advertised(), VersionRange { min: 0, max: 13 });
    }

    #[test]
    fn header_versions_follow_flexibility_except_for_api_versions() {
        assert_eq!(ApiKey::Metadata.request_header_version(8), 1);
        assert_eq!(ApiKey::Metadata.request_header_version(9), 2);
        assert_eq!(ApiKey::Metadata.response_header_version(8), 0);
        assert_eq!(ApiKey::Metadata.response_header_version(9), 1);
        assert_eq!(ApiKey::ApiVersions.request_header_version(3), 2);
        assert_eq!(ApiKey::ApiVersions.response_header_version(5), 0);
        assert_eq!(ApiKey::SaslHandshake.request_header_version(1), 1);
        assert_eq!(ApiKey::OffsetDelete.response_header_version(0), 0);
    }
}
