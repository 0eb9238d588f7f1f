//! ApiVersionsRequest, by hand because version 5 adds whom the client means to talk to (KIP-1242).

use bytes::{Buf, Bytes, BytesMut};

use super::structs::message_struct;
use super::{BodyError, Message, StrBytes};
use crate::versions::ApiKey;
use crate::wire::{Reader, Writer};

/// ApiVersionsRequest.
pub mod api_versions_request {
    pub use super::ApiVersionsRequest;
}

message_struct! {
    /// ApiVersionsRequest, versions 0 to 5.
    pub struct ApiVersionsRequest {
        /// Name of the client's library (3+).
        client_software_name / with_client_software_name: StrBytes = StrBytes::new(),
        /// Version of the client's library (3+).
        client_software_version / with_client_software_version: StrBytes = StrBytes::new(),
        /// Cluster that the client means to talk to, or `None` if it does not care (5+).
        cluster_id / with_cluster_id: Option<StrBytes> = None,
        /// Broker that the client means to talk to, or -1 (5+).
        node_id / with_node_id: i32 = -1,
    }
}

impl Message for ApiVersionsRequest {
    const KEY: ApiKey = ApiKey::ApiVersions;
    const NAME: &'static str = "ApiVersionsRequest";

    fn encode_body(&self, version: i16, out: &mut BytesMut) -> Result<(), BodyError> {
        let mut writer = Writer::new(out, Self::KEY.is_flexible(version));
        if version >= 3 {
            writer.string(&self.client_software_name);
            writer.string(&self.client_software_version);
        }
        if version >= 5 {
            writer.nullable_string(self.cluster_id.as_deref());
            writer.i32(self.node_id);
        }
        writer.no_tagged_fields();
        Ok(())
    }

    fn decode_body(version: i16, body: &mut Bytes) -> Result<Self, BodyError> {
        let mut reader = Reader::new(body, Self::KEY.is_flexible(version));
        let mut request = Self::default();
        if version >= 3 {
            request.client_software_name = reader.string()?;
            request.client_software_version = reader.string()?;
        }
        if version >= 5 {
            request.cluster_id = reader.nullable_string()?;
            request.node_id = reader.i32()?;
        }
        reader.skip_tagged_fields()?;
        let position = reader.position();
        body.advance(position);
        Ok(request)
    }
}
