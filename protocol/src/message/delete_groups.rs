//! DeleteGroupsResponse, by hand because version 3 adds a message to each group's error.

use bytes::{Buf, Bytes, BytesMut};

use super::structs::message_struct;
use super::{BodyError, GroupId, Message, StrBytes};
use crate::versions::ApiKey;
use crate::wire::{Reader, WireError, Writer};

/// DeleteGroupsResponse and its nested struct.
pub mod delete_groups_response {
    pub use super::{DeletableGroupResult, DeleteGroupsResponse};
}

message_struct! {
    /// DeleteGroupsResponse, versions 0 to 3.
    pub struct DeleteGroupsResponse {
        /// How long the request was held back by a quota.
        throttle_time_ms / with_throttle_time_ms: i32 = 0,
        /// One result a group asked for.
        results / with_results: Vec<DeletableGroupResult> = Vec::new(),
    }
}

message_struct! {
    /// What became of one group.
    pub struct DeletableGroupResult {
        /// Id of the group.
        group_id / with_group_id: GroupId = GroupId::default(),
        /// 0 if it was deleted.
        error_code / with_error_code: i16 = 0,
        /// What is wrong, in words (3+; older versions leave it out).
        error_message / with_error_message: Option<StrBytes> = None,
    }
}

impl DeletableGroupResult {
    fn encode(&self, version: i16, writer: &mut Writer<'_>) {
        writer.string(&self.group_id);
        writer.i16(self.error_code);
        if version >= 3 {
            writer.nullable_string(self.error_message.as_deref());
        }
        writer.no_tagged_fields();
    }

    fn decode(version: i16, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let mut result = Self { group_id: GroupId(reader.string()?), error_code: reader.i16()?, error_message: None };
        if version >= 3 {
            result.error_message = reader.nullable_string()?;
        }
        reader.skip_tagged_fields()?;
        Ok(result)
    }
}

impl Message for DeleteGroupsResponse {
    const KEY: ApiKey = ApiKey::DeleteGroups;
    const NAME: &'static str = "DeleteGroupsResponse";

    fn encode_body(&self, version: i16, out: &mut BytesMut) -> Result<(), BodyError> {
        let mut writer = Writer::new(out, Self::KEY.is_flexible(version));
        writer.i32(self.throttle_time_ms);
        writer.array(&self.results, |writer, result| result.encode(version, writer));
        writer.no_tagged_fields();
        Ok(())
    }

    fn decode_body(version: i16, body: &mut Bytes) -> Result<Self, BodyError> {
        let mut reader = Reader::new(body, Self::KEY.is_flexible(version));
        let throttle_time_ms = reader.i32()?;
        let results = reader.array(|reader| DeletableGroupResult::decode(version, reader))?;
        reader.skip_tagged_fields()?;
        let position = reader.position();
        body.advance(position);
        Ok(Self { throttle_time_ms, results })
    }
}
