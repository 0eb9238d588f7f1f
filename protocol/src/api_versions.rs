//! What ApiVersions answers: the one request that must work between any client and any broker (KIP-35, KIP-511).

use bytes::BytesMut;
use taffrail_core::errors::ErrorCode;

use crate::message::api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};
use crate::message::{ApiVersionsRequest, ApiVersionsResponse};
use crate::request::EncodeError;
use crate::response;
use crate::versions::ApiKey;

/// The first version whose readers cope with a feature whose lowest level is 0 (KAFKA-17492).
const ZERO_LEVELS_SINCE: i16 = 4;

/// A feature of the cluster, with the levels that this broker can run and the one that is in force (KIP-584).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Kafka's name, for instance `metadata.version`.
    pub name: &'static str,
    /// Lowest level that this broker can run.
    pub min: i16,
    /// Highest level that this broker can run.
    pub max: i16,
    /// The level in force; 0 means that the feature is off.
    pub level: i16,
}

fn version_of(key: ApiKey) -> ApiVersion {
    let range = key.advertised();
    ApiVersion::default().with_api_key(key.code()).with_min_version(range.min).with_max_version(range.max)
}

/// The answer to a sound request at `version`: every served key, and the features as readers of that version need them.
/// `epoch` is that of the levels in force; it must never go back, because clients keep the highest one they saw.
pub fn response(version: i16, features: &[Feature], epoch: i64) -> ApiVersionsResponse {
    let visible = |feature: &&Feature| feature.min > 0 || version >= ZERO_LEVELS_SINCE;
    let supported = features.iter().filter(visible).map(|feature| {
        SupportedFeatureKey::default()
            .with_name(feature.name.into())
            .with_min_version(feature.min)
            .with_max_version(feature.max)
    });
    let finalized = features.iter().filter(|feature| feature.level > 0).map(|feature| {
        FinalizedFeatureKey::default()
            .with_name(feature.name.into())
            .with_min_version_level(feature.level)
            .with_max_version_level(feature.level)
    });
    ApiVersionsResponse::default()
        .with_api_keys(ApiKey::ALL.iter().copied().map(version_of).collect())
        .with_supported_features(supported.collect())
        .with_finalized_features(finalized.collect())
        .with_finalized_features_epoch(epoch)
}

/// Appends the frame that answers a version of ApiVersions that we do not know. It has the layout of version 0, which
/// every client can read, and says which versions of ApiVersions itself there are, so that the client asks again
/// (KIP-511). The body of such a request is never looked at.
pub fn encode_unsupported(correlation_id: i32, out: &mut BytesMut) -> Result<(), EncodeError> {
    let answer = ApiVersionsResponse::default()
        .with_error_code(ErrorCode::UnsupportedVersion.code())
        .with_api_keys(vec![version_of(ApiKey::ApiVersions)]);
    response::encode(0, correlation_id, &answer, out)
}

/// Why a request whose layout is sound is refused, or `None` if it is fine. As in Kafka 4.4, the names of client and
/// version must be safe from version 3 on; from version 5 on a client may say which broker of which cluster it means
/// (both or neither), and must look for its cluster anew if that is not this one (KIP-1242).
pub fn refusal(version: i16, request: &ApiVersionsRequest, cluster_id: &str, node_id: i32) -> Option<ErrorCode> {
    let safe = is_safe(&request.client_software_name) && is_safe(&request.client_software_version);
    if version >= 3 && !safe {
        return Some(ErrorCode::InvalidRequest);
    }
    match (request.cluster_id.as_deref(), request.node_id) {
        (None, -1) => None,
        (None, _) | (Some(_), -1) => Some(ErrorCode::InvalidRequest),
        (Some(cluster), node) if cluster == cluster_id && node == node_id => None,
        _ => Some(ErrorCode::RebootstrapRequired),
    }
}

/// Letters, digits, '-' and '.', with a letter or digit at both ends.
fn is_safe(name: &str) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::StrBytes;

    const FEATURES: [Feature; 2] = [
        Feature { name: "metadata.version", min: 7, max: 29, level: 29 },
        Feature { name: "group.version", min: 0, max: 1, level: 0 },
    ];

    #[test]
    fn an_unknown_version_is_answered_in_the_layout_of_version_0() {
        let mut out = BytesMut::new();
        encode_unsupported(5, &mut out).unwrap();
        //                     size      correlation  error   count    key  min  max
        assert_eq!(&out[..], b"\0\0\0\x10\0\0\0\x05\0\x23\0\0\0\x01\0\x12\0\0\0\x05");
    }

    #[test]
    fn levels_of_zero_are_hidden_from_old_readers() {
        let names = |version| {
            let keys = response(version, &FEATURES, 3).supported_features;
            keys.iter().map(|key| key.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names(3), ["metadata.version"]);
        assert_eq!(names(4), ["metadata.version", "group.version"]);
        assert_eq!(response(4, &FEATURES, 3).finalized_features.len(), 1);
    }

    #[test]
    fn every_version_of_the_answer_can_be_read_again() {
        for version in 0..=5 {
            let answer = response(version, &FEATURES, 3);
            let mut out = BytesMut::new();
            response::encode(version, 1, &answer, &mut out).unwrap();
            let (_, read) = response::decode::<ApiVersionsRequest>(version, out.split_off(4).freeze()).unwrap();
            assert_eq!(read.api_keys, answer.api_keys);
            assert_eq!(read.finalized_features.len(), usize::from(version >= 3));
        }
    }

    #[test]
    fn names_of_clients_follow_kafkas_pattern() {
        for (name, valid) in [
            ("apache-kafka-java", true),
            ("a", true),
            ("1.2.3", true),
            ("", false),
            ("-a", false),
            ("a.", false),
            ("a b", false),
            ("a\u{e9}a", false),
        ] {
            let request = ApiVersionsRequest::default()
                .with_client_software_name(name.to_owned().into())
                .with_client_software_version("1".into());
            let expected = if valid { None } else { Some(ErrorCode::InvalidRequest) };
            assert_eq!(refusal(3, &request, "here", 1), expected, "{name:?}");
            assert_eq!(refusal(2, &request, "here", 1), None);
        }
    }

    #[test]
    fn clients_that_mean_another_cluster_are_sent_away() {
        // What a running Kafka 4.4 answered to each of these.
        for (cluster_id, node_id, expected) in [
            (None, -1, None),
            (Some("here"), 1, None),
            (Some("here"), -1, Some(ErrorCode::InvalidRequest)),
            (None, 1, Some(ErrorCode::InvalidRequest)),
            (Some("there"), 1, Some(ErrorCode::RebootstrapRequired)),
            (Some("here"), 5, Some(ErrorCode::RebootstrapRequired)),
            (Some("here"), -2, Some(ErrorCode::RebootstrapRequired)),
            (Some(""), 1, Some(ErrorCode::RebootstrapRequired)),
        ] {
            let request = ApiVersionsRequest::default()
                .with_client_software_name("me".into())
                .with_client_software_version("1".into())
                .with_cluster_id(cluster_id.map(StrBytes::from_static_str))
                .with_node_id(node_id);
            assert_eq!(refusal(5, &request, "here", 1), expected, "{cluster_id:?} {node_id}");
        }
    }
}
