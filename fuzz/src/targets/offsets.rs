//! Records of `__consumer_offsets`, as a coordinator loads them.

use bytes::Bytes;
use taffrail_core::group::{CommittedOffset, GroupRecord, GroupValue, MemberValue};
use taffrail_core::ids::Uuid;
use taffrail_protocol::persisted::offsets::{decode, encode};

use super::coin;
use crate::memory::bounded;
use crate::random::Random;

/// A member takes some twenty bytes and becomes a struct with five texts.
const MEMORY_PER_BYTE: usize = 32;
/// Room for the members that an array reserves before they are there.
const MEMORY_BYTES: usize = 512 * 1024;

/// A byte with the length of the key, the key, then the value; without a value it is a tombstone. What is understood comes
/// back as it was.
pub(super) fn record(input: &[u8]) {
    let Some((&key_bytes, rest)) = input.split_first() else { return };
    let Some((key, value)) = rest.split_at_checked(usize::from(key_bytes)) else { return };
    let key = Bytes::copy_from_slice(key);
    let value = (!value.is_empty()).then(|| Bytes::copy_from_slice(value));
    let read = bounded(input, MEMORY_PER_BYTE, MEMORY_BYTES, || decode(Some(&key), value.as_ref()));
    let Ok(Some(record)) = read else { return };
    let (key, value) = encode(&record);
    assert_eq!(decode(Some(&key), value.as_ref()), Ok(Some(record)));
}

pub(super) fn sound_record(random: &mut Random) -> Vec<u8> {
    let member = |number: usize| MemberValue {
        member_id: format!("member-{number}"),
        instance_id: Some("instance".to_owned()),
        client_id: "client".to_owned(),
        client_host: "/127.0.0.1".to_owned(),
        rebalance_timeout_ms: Some(60_000),
        session_timeout_ms: 10_000,
        subscription: Bytes::from_static(b"\0\0\0\0\0\x01\0\x01t"),
        assignment: Bytes::from_static(b"\0\0\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0"),
    };
    let group = GroupValue {
        protocol_type: "consumer".to_owned(),
        generation: random.below(100) as i32,
        protocol_name: coin(random).then(|| "range".to_owned()),
        leader: coin(random).then(|| "member-0".to_owned()),
        state_since_ms: coin(random).then_some(1_700_000_000_000),
        members: (0..random.below(4)).map(member).collect(),
    };
    let offset = CommittedOffset {
        offset: random.below(1_000_000) as i64,
        leader_epoch: 3,
        metadata: "words".to_owned(),
        commit_timestamp_ms: 1_700_000_000_000,
        expire_timestamp_ms: coin(random).then_some(1_800_000_000_000),
        topic_id: if coin(random) { Uuid([9; 16]) } else { Uuid::ZERO },
    };
    let record = if coin(random) {
        GroupRecord::Group { group_id: "group".into(), value: coin(random).then_some(group) }
    } else {
        let value = coin(random).then_some(offset);
        GroupRecord::Offset { group_id: "group".into(), topic: "orders".into(), partition: 3, value }
    };
    let (key, value) = encode(&record);
    let mut input = vec![key.len() as u8];
    input.extend_from_slice(&key);
    input.extend_from_slice(&value.unwrap_or_default());
    input
}
