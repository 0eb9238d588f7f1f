//! Writing the Fetch request of a follower: topics by id, what changed since the last request of its session.

use bytes::BytesMut;
use taffrail_core::ids::{PartitionIndex, TopicId};

use super::{FetchPartition, KEY};
use crate::header::{self, RequestHeader};
use crate::request::{self, EncodeError};
use crate::versions::VersionRange;
use crate::wire::Writer;

/// The versions that a follower may ask in: the first says which life of a broker asks (KIP-903), the last is the newest
/// that asks for nothing else than records.
pub const FOLLOWER_VERSIONS: VersionRange = VersionRange { min: 15, max: 17 };

/// Tag of a follower's id and epoch.
const REPLICA_STATE_TAG: u32 = 1;

/// Bytes of a follower's id and epoch as a tagged field: two numbers and an empty list of tagged fields.
const REPLICA_STATE_BYTES: u32 = 13;

/// A Fetch request as a follower sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowerRequest<'a> {
    /// Its number.
    pub replica_id: i32,
    /// Epoch of its registration.
    pub replica_epoch: i64,
    /// How long the answer may wait for `min_bytes`.
    pub max_wait_ms: i32,
    /// Bytes for which the answer waits.
    pub min_bytes: i32,
    /// Bytes that the answer should not exceed, except for the first batch.
    pub max_bytes: i32,
    /// Session (KIP-227), or 0.
    pub session_id: i32,
    /// Epoch in the session; 0 asks for a new one.
    pub session_epoch: i32,
    /// What it asks of partitions that the session does not know as they are; those of a topic lie together.
    pub asked: &'a [(TopicId, FetchPartition)],
    /// What it wants no more of; those of a topic lie together.
    pub forgotten: &'a [(TopicId, PartitionIndex)],
}

impl FollowerRequest<'_> {
    /// Appends a whole frame (size, header, body).
    ///
    /// # Errors
    /// When the version is none of [`FOLLOWER_VERSIONS`].
    pub fn encode(
        &self,
        version: i16,
        correlation_id: i32,
        client_id: &str,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        if !FOLLOWER_VERSIONS.contains(version) {
            return Err(EncodeError::Version { key: KEY, version });
        }
        let client_id = Some(client_id.to_owned().into());
        let header = RequestHeader { key: KEY, version, correlation_id, client_id };
        request::encode_frame_with(KEY, "FetchRequest", version, out, |out| {
            header::encode(&header, out);
            self.encode_body(out);
            Ok(())
        })
    }

    fn encode_body(&self, out: &mut BytesMut) {
        // All versions of followers are flexible.
        let mut writer = Writer::new(out, true);
        writer.i32(self.max_wait_ms);
        writer.i32(self.min_bytes);
        writer.i32(self.max_bytes);
        writer.i8(0); // Isolation level: followers copy everything.
        writer.i32(self.session_id);
        writer.i32(self.session_epoch);
        by_topic(&mut writer, self.asked, encode_partition);
        by_topic(&mut writer, self.forgotten, |writer, partition| writer.i32(*partition));
        writer.string(""); // Rack: only consumers choose by it.
        writer.unsigned_varint(1); // Tagged fields.
        writer.unsigned_varint(REPLICA_STATE_TAG);
        writer.unsigned_varint(REPLICA_STATE_BYTES);
        writer.i32(self.replica_id);
        writer.i64(self.replica_epoch);
        writer.no_tagged_fields();
    }
}

fn encode_partition(writer: &mut Writer<'_>, partition: &FetchPartition) {
    writer.i32(partition.index);
    writer.i32(partition.current_leader_epoch);
    writer.i64(partition.fetch_offset);
    writer.i32(partition.last_fetched_epoch);
    writer.i64(partition.log_start_offset);
    writer.i32(partition.max_bytes);
    writer.no_tagged_fields();
}

/// Writes an array of topics, each with its id and an array of what lies together under it.
fn by_topic<T>(writer: &mut Writer<'_>, entries: &[(TopicId, T)], mut each: impl FnMut(&mut Writer<'_>, &T)) {
    let topics = || entries.chunk_by(|(one, _), (next, _)| one == next);
    writer.length(Some(topics().count()));
    for topic in topics() {
        writer.uuid(&topic[0].0);
        writer.array(topic, |writer, (_, entry)| each(writer, entry));
        writer.no_tagged_fields();
    }
}
