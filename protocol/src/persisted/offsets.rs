//! Keys and values of `__consumer_offsets`, byte for byte as Kafka stores them.
//!
//! Kafka's own tools read this topic, and a folder of it that comes from Kafka is read here, so all its versions are read:
//! offset keys 0 and 1, offset values 0 to 4, group key 2, group values 0 to 4. What is written is what Kafka 4.4 writes.
//! Key types of the newer group protocols are not understood; their records are left out.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use taffrail_core::group::{CommittedOffset, GroupRecord, GroupValue, MemberValue};
use taffrail_core::ids::Uuid;

use crate::wire::{Reader, WireError, Writer};

/// Version of the key of a committed offset; 0 is the same, from Kafka 0.8.
const OFFSET_KEY: i16 = 1;
/// Version of the key of a group.
const GROUP_KEY: i16 = 2;
/// Newest value versions that are known. From this one on they are flexible (KIP-482).
const NEWEST_VALUE: i16 = 4;
/// The one offset value version with an expiry of its own.
const OFFSET_VALUE_WITH_EXPIRY: i16 = 1;
/// What is written for an offset without a known topic id.
const OFFSET_VALUE_WITHOUT_TOPIC_ID: i16 = 3;
/// What is written for a group.
const GROUP_VALUE: i16 = 3;
/// Tag of the topic id in an offset value.
const TOPIC_ID_TAG: u32 = 0;

/// Why a record of the offsets topic cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OffsetsRecordError {
    /// A value in it is broken.
    #[error("{what}: {source}")]
    Broken {
        /// What was being read.
        what: &'static str,
        /// What is wrong with it.
        source: WireError,
    },
    /// It was written by a newer release.
    #[error("{what} has version {version}; this release knows none above {NEWEST_VALUE}")]
    Version {
        /// What was being read.
        what: &'static str,
        /// Its version.
        version: i16,
    },
    /// It has no key.
    #[error("a record of the offsets topic has no key")]
    NoKey,
}

fn broken(what: &'static str) -> impl Fn(WireError) -> OffsetsRecordError {
    move |source| OffsetsRecordError::Broken { what, source }
}

/// Key and value of a record; a value of `None` is a tombstone.
pub fn encode(record: &GroupRecord) -> (Bytes, Option<Bytes>) {
    match record {
        GroupRecord::Offset { group_id, topic, partition, value } => {
            let mut key = BytesMut::new();
            let mut writer = Writer::new(&mut key, false);
            writer.i16(OFFSET_KEY);
            writer.string(group_id);
            writer.string(topic);
            writer.i32(*partition);
            (key.freeze(), value.as_ref().map(encode_offset))
        }
        GroupRecord::Group { group_id, value } => {
            let mut key = BytesMut::new();
            let mut writer = Writer::new(&mut key, false);
            writer.i16(GROUP_KEY);
            writer.string(group_id);
            (key.freeze(), value.as_ref().map(encode_group))
        }
    }
}

fn encode_offset(value: &CommittedOffset) -> Bytes {
    let version = match value.expire_timestamp_ms {
        Some(_) => OFFSET_VALUE_WITH_EXPIRY,
        None if value.topic_id.is_zero() => OFFSET_VALUE_WITHOUT_TOPIC_ID,
        None => NEWEST_VALUE,
    };
    let mut out = BytesMut::new();
    let mut writer = Writer::new(&mut out, version >= NEWEST_VALUE);
    writer.i16(version);
    writer.i64(value.offset);
    if version >= 3 {
        writer.i32(value.leader_epoch);
    }
    writer.string(&value.metadata);
    writer.i64(value.commit_timestamp_ms);
    if let Some(expire_timestamp_ms) = value.expire_timestamp_ms {
        writer.i64(expire_timestamp_ms);
    }
    if version >= NEWEST_VALUE {
        writer.unsigned_varint(1);
        writer.tagged(TOPIC_ID_TAG, |writer| writer.uuid(&value.topic_id));
    }
    out.freeze()
}

fn encode_group(value: &GroupValue) -> Bytes {
    let mut out = BytesMut::new();
    let mut writer = Writer::new(&mut out, false);
    writer.i16(GROUP_VALUE);
    writer.string(&value.protocol_type);
    writer.i32(value.generation);
    writer.nullable_string(value.protocol_name.as_deref());
    writer.nullable_string(value.leader.as_deref());
    writer.i64(value.state_since_ms.unwrap_or(-1));
    writer.array(&value.members, |writer, member| {
        writer.string(&member.member_id);
        writer.nullable_string(member.instance_id.as_deref());
        writer.string(&member.client_id);
        writer.string(&member.client_host);
        writer.i32(member.rebalance_timeout_ms.unwrap_or(-1));
        writer.i32(member.session_timeout_ms);
        writer.length(Some(member.subscription.len()));
        writer.raw(&member.subscription);
        writer.length(Some(member.assignment.len()));
        writer.raw(&member.assignment);
    });
    out.freeze()
}

/// Reads a record. `None` is a key of a kind that is not understood, which its reader leaves out.
///
/// # Errors
/// When the record breaks its format, or its value is of a newer version.
pub fn decode(key: Option<&Bytes>, value: Option<&Bytes>) -> Result<Option<GroupRecord>, OffsetsRecordError> {
    let mut key = Reader::new(key.ok_or(OffsetsRecordError::NoKey)?, false);
    let failed = broken("the key of a record of the offsets topic");
    match key.i16().map_err(&failed)? {
        0..=OFFSET_KEY => Ok(Some(GroupRecord::Offset {
            group_id: shared(&mut key).map_err(&failed)?,
            topic: shared(&mut key).map_err(&failed)?,
            partition: key.i32().map_err(&failed)?,
            value: value.map(decode_offset).transpose()?,
        })),
        GROUP_KEY => {
            let group_id = shared(&mut key).map_err(&failed)?;
            Ok(Some(GroupRecord::Group { group_id, value: value.map(decode_group).transpose()? }))
        }
        _ => Ok(None),
    }
}

fn shared(reader: &mut Reader<'_>) -> Result<Arc<str>, WireError> {
    reader.string().map(|text| Arc::from(&*text))
}

fn owned(reader: &mut Reader<'_>) -> Result<String, WireError> {
    reader.string().map(|text| text.to_string())
}

fn nullable(reader: &mut Reader<'_>) -> Result<Option<String>, WireError> {
    Ok(reader.nullable_string()?.map(|text| text.to_string()))
}

/// A reader that stands behind the version of a value, and that version.
fn versioned<'a>(bytes: &'a Bytes, what: &'static str) -> Result<(Reader<'a>, i16), OffsetsRecordError> {
    let version = Reader::new(bytes, false).i16().map_err(broken(what))?;
    if !(0..=NEWEST_VALUE).contains(&version) {
        return Err(OffsetsRecordError::Version { what, version });
    }
    let mut reader = Reader::new(bytes, version >= NEWEST_VALUE);
    reader.skip(2).map_err(broken(what))?;
    Ok((reader, version))
}

fn decode_offset(bytes: &Bytes) -> Result<CommittedOffset, OffsetsRecordError> {
    const WHAT: &str = "a committed offset";
    let (mut reader, version) = versioned(bytes, WHAT)?;
    let mut read = || {
        let offset = reader.i64()?;
        let leader_epoch = if version >= 3 { reader.i32()? } else { -1 };
        let metadata = owned(&mut reader)?;
        let commit_timestamp_ms = reader.i64()?;
        let expires = if version == OFFSET_VALUE_WITH_EXPIRY { reader.i64()? } else { -1 };
        let mut topic_id = Uuid::ZERO;
        reader.tagged_fields(|tag, reader| {
            if tag == TOPIC_ID_TAG {
                topic_id = reader.uuid()?;
            }
            Ok(())
        })?;
        let expire_timestamp_ms = (expires >= 0).then_some(expires);
        Ok(CommittedOffset { offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id })
    };
    read().map_err(broken(WHAT))
}

fn decode_group(bytes: &Bytes) -> Result<GroupValue, OffsetsRecordError> {
    const WHAT: &str = "a group";
    let (mut reader, version) = versioned(bytes, WHAT)?;
    let mut read = || {
        let value = GroupValue {
            protocol_type: owned(&mut reader)?,
            generation: reader.i32()?,
            protocol_name: nullable(&mut reader)?,
            leader: nullable(&mut reader)?,
            state_since_ms: Some(if version >= 2 { reader.i64()? } else { -1 }).filter(|since| *since != -1),
            members: reader.array(|reader| decode_member(reader, bytes, version))?,
        };
        reader.skip_tagged_fields()?;
        Ok(value)
    };
    read().map_err(broken(WHAT))
}

fn decode_member(reader: &mut Reader<'_>, bytes: &Bytes, version: i16) -> Result<MemberValue, WireError> {
    let blob = |reader: &mut Reader<'_>| -> Result<Bytes, WireError> {
        // A copy: a slice would keep the whole batch that it was loaded from.
        Ok(reader.bytes_range()?.map(|range| Bytes::copy_from_slice(&bytes[range])).unwrap_or_default())
    };
    let member = MemberValue {
        member_id: owned(reader)?,
        instance_id: if version >= 3 { nullable(reader)? } else { None },
        client_id: owned(reader)?,
        client_host: owned(reader)?,
        rebalance_timeout_ms: Some(if version >= 1 { reader.i32()? } else { -1 }).filter(|timeout| *timeout != -1),
        session_timeout_ms: reader.i32()?,
        subscription: blob(reader)?,
        assignment: blob(reader)?,
    };
    reader.skip_tagged_fields()?;
    Ok(member)
}

#[cfg(test)]
mod tests {
    use taffrail_core::record::{Decompressor, split_batches};

    use super::*;

    /// Key and value of each record in a segment that Kafka 4.4 wrote for a group of one console consumer.
    fn written_by_kafka() -> Vec<(Bytes, Option<Bytes>)> {
        let segment: &[u8] = include_bytes!("../../testdata/consumer_offsets_4.4.log");
        let mut records = Vec::new();
        for batch in split_batches(Bytes::from_static(segment)) {
            let batch = batch.unwrap();
            let mut decompressor = Decompressor::default();
            for record in batch.as_ref().records(&mut decompressor).unwrap() {
                let record = record.unwrap();
                let value = record.value.map(Bytes::copy_from_slice);
                records.push((Bytes::copy_from_slice(record.key.unwrap()), value));
            }
        }
        records
    }

    #[test]
    fn what_kafka_wrote_is_read_and_written_again_byte_for_byte() {
        let records = written_by_kafka();
        assert_eq!(records.len(), 4);
        let mut decoded = Vec::new();
        for (key, value) in &records {
            let record = decode(Some(key), value.as_ref()).unwrap().unwrap();
            assert_eq!(encode(&record), (key.clone(), value.clone()), "{record:?}");
            decoded.push(record);
        }
        let GroupRecord::Group { group_id, value: Some(stable) } = &decoded[1] else { panic!("{decoded:?}") };
        assert_eq!((&**group_id, stable.generation, stable.protocol_type.as_str()), ("g1", 1, "consumer"));
        assert_eq!((stable.members.len(), stable.members[0].session_timeout_ms), (1, 45_000));
        assert_eq!(stable.leader.as_ref(), Some(&stable.members[0].member_id));
        let GroupRecord::Offset { topic, partition, value: Some(offset), .. } = &decoded[2] else {
            panic!("{decoded:?}")
        };
        assert_eq!((&**topic, *partition, offset.offset, offset.leader_epoch), ("v-gzip", 0, 3, 0));
        assert_eq!(offset.topic_id.to_string(), "03aWMieuQ228qe34Z4TZww");
    }

    fn offset() -> CommittedOffset {
        CommittedOffset {
            offset: 5,
            leader_epoch: 7,
            metadata: "words".to_owned(),
            commit_timestamp_ms: 1_000,
            expire_timestamp_ms: None,
            topic_id: Uuid::ZERO,
        }
    }

    #[test]
    fn offsets_and_tombstones_come_back() {
        let values = [
            None,
            Some(offset()),
            Some(CommittedOffset { topic_id: Uuid([9; 16]), ..offset() }),
            Some(CommittedOffset { expire_timestamp_ms: Some(9_000), leader_epoch: -1, ..offset() }),
        ];
        for value in values {
            let record = GroupRecord::Offset { group_id: "g".into(), topic: "t".into(), partition: 3, value };
            let (key, value) = encode(&record);
            assert_eq!(decode(Some(&key), value.as_ref()), Ok(Some(record)));
        }
    }

    #[test]
    fn old_versions_are_read() {
        let key = Bytes::from_static(b"\0\0\0\x01g\0\x01t\0\0\0\x03");
        let value = Bytes::from_static(b"\0\0\0\0\0\0\0\0\0\x05\0\x01m\0\0\0\0\0\0\0\x09");
        let Ok(Some(GroupRecord::Offset { value: Some(read), .. })) = decode(Some(&key), Some(&value)) else {
            panic!()
        };
        assert_eq!((read.offset, read.leader_epoch, read.metadata.as_str(), read.commit_timestamp_ms), (5, -1, "m", 9));

        let key = Bytes::from_static(b"\0\x02\0\x01g");
        let mut value = b"\0\0\0\x08consumer\0\0\0\x04\0\x05range\0\x01m\0\0\0\x01".to_vec();
        value.extend_from_slice(b"\0\x01m\0\x01c\0\x02/h\0\0\x27\x10\0\0\0\x01s\0\0\0\x01a");
        let value = Bytes::from(value);
        let Ok(Some(GroupRecord::Group { value: Some(read), .. })) = decode(Some(&key), Some(&value)) else { panic!() };
        assert_eq!((read.state_since_ms, read.members[0].rebalance_timeout_ms), (None, None));
        assert_eq!((read.members[0].session_timeout_ms, &read.members[0].assignment[..]), (10_000, &b"a"[..]));
    }

    #[test]
    fn unknown_keys_are_left_out_and_newer_values_are_refused_by_name() {
        let key = Bytes::from_static(b"\0\x03\0\x01g");
        assert_eq!(decode(Some(&key), None), Ok(None));
        assert_eq!(decode(None, None), Err(OffsetsRecordError::NoKey));
        let key = Bytes::from_static(b"\0\x02\0\x01g");
        let value = Bytes::from_static(b"\0\x05");
        let error = decode(Some(&key), Some(&value)).unwrap_err();
        assert_eq!(error.to_string(), "a group has version 5; this release knows none above 4");
    }

    #[test]
    fn cut_records_are_refused() {
        for (key, value) in written_by_kafka() {
            for length in 0..key.len() {
                assert!(decode(Some(&key.slice(..length)), value.as_ref()).is_err(), "key of {length} bytes");
            }
            let value = value.unwrap();
            for length in 0..value.len() {
                assert!(decode(Some(&key), Some(&value.slice(..length))).is_err(), "value of {length} bytes");
            }
        }
    }
}
