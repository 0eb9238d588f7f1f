//! ApiVersions: what this broker speaks (KIP-35, KIP-511, KIP-584, KIP-1242).

use bytes::BytesMut;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::api_versions::{self, Feature};
use taffrail_protocol::message::{ApiVersionsRequest, ApiVersionsResponse};

use crate::broker::Broker;
use crate::client_info::ClientInfo;
use crate::listener::service::{CloseReason, Frame, Reply};

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: ApiVersionsRequest,
    version: i16,
) -> ApiVersionsResponse {
    let image = broker.metadata.image();
    let cluster_id = image.cluster_id().unwrap_or_default().to_string();
    if let Some(error) = api_versions::refusal(version, &request, &cluster_id, broker.id.0) {
        return ApiVersionsResponse::default().with_error_code(error.code());
    }
    api_versions::response(version, &features(broker, &image), image.offset().max(0))
}

/// The answer to a version that we do not know: which ones we do.
pub(crate) fn unsupported(correlation_id: i32) -> Reply {
    let mut out = BytesMut::new();
    match api_versions::encode_unsupported(correlation_id, &mut out) {
        Ok(()) => Reply::Frame(Frame::from(out.freeze())),
        Err(error) => Reply::Close(CloseReason::BadRequest(error.to_string())),
    }
}

/// The features that the cluster has a level of. What this broker does not have is not mentioned.
fn features(broker: &Broker, image: &MetadataImage) -> Vec<Feature> {
    let Some(registration) = image.broker(broker.id) else { return Vec::new() };
    let known = |name: &str| KAFKA_FEATURES.iter().find(|known| **known == name).copied();
    let feature = |(name, range): (&std::sync::Arc<str>, &taffrail_core::event::FeatureRange)| {
        let level = image.features().get(name).copied().unwrap_or(0);
        Some(Feature { name: known(name)?, min: range.min_level, max: range.max_level, level })
    };
    registration.features.iter().filter_map(feature).collect()
}

/// Features that Kafka's clients know. Our own ones would only confuse them.
const KAFKA_FEATURES: [&str; 3] = ["metadata.version", "group.version", "transaction.version"];
