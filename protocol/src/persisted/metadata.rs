//! Metadata events and snapshots as bytes.
//!
//! The same encoding stands in the controllers' log, in their snapshots and in the stream that brokers follow. Its
//! envelope starts with a format version; a newer one than this release knows is refused, because an event that is not
//! understood must not be skipped. It is written with the lowest version that its events need, so that an older release
//! can go on where nothing new was used.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use taffrail_core::event::MetadataEvent;
use taffrail_core::ids::{BrokerId, TopicId};
use taffrail_core::image::{MetadataImage, SnapshotError};

use crate::rpc::{
    FormatError, check_version, duty_from_code, grant_from_message, grant_to_message, id_from_bytes, id_to_bytes,
    partition_from_message, partition_to_message, registration_from_message, registration_to_message, required,
    resource_from_message, resource_to_message, v1,
};

/// The newest version of the format that this release writes and reads: replication between brokers.
pub const FORMAT_VERSION: u32 = 2;

/// The first version: one broker, which needs neither reassignments nor grants.
const FIRST_VERSION: u32 = 1;

/// Events in one chunk of a snapshot: bounds the memory that a chunk takes on either side.
pub const SNAPSHOT_CHUNK_EVENTS: usize = 2_048;

const WHAT: &str = "a metadata event";

/// Events that become true together, at consecutive offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventBatch {
    /// Offset of the first event.
    pub base_offset: i64,
    /// The events.
    pub events: Vec<MetadataEvent>,
}

impl EventBatch {
    /// Offset after the last event.
    pub fn next_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::try_from(self.events.len()).unwrap_or(i64::MAX))
    }

    /// The message that carries the batch.
    pub fn to_message(&self) -> v1::EventBatch {
        v1::EventBatch {
            format_version: version_for(&self.events),
            base_offset: self.base_offset,
            events: self.events.iter().map(event_to_message).collect(),
        }
    }

    /// The batch that `message` carries.
    ///
    /// # Errors
    /// When its version is unknown or an event is not understood.
    pub fn from_message(message: v1::EventBatch) -> Result<Self, FormatError> {
        check_version("a batch of metadata events", message.format_version, FORMAT_VERSION)?;
        let events = message.events.into_iter().map(event_from_message).collect::<Result<_, _>>()?;
        Ok(Self { base_offset: message.base_offset, events })
    }

    /// The batch as bytes.
    pub fn encode(&self) -> Vec<u8> {
        self.to_message().encode_to_vec()
    }

    /// The batch that `bytes` hold.
    ///
    /// # Errors
    /// When they are damaged, of an unknown version, or an event is not understood.
    pub fn decode(bytes: Bytes) -> Result<Self, FormatError> {
        let message = v1::EventBatch::decode(bytes)
            .map_err(|source| FormatError::Decode { what: "a batch of metadata events", source })?;
        Self::from_message(message)
    }
}

/// The lowest version of the format in which all of `events` can be written.
fn version_for<'a>(events: impl IntoIterator<Item = &'a MetadataEvent>) -> u32 {
    let is_newer = |event: &MetadataEvent| match event {
        MetadataEvent::BrokerShuttingDown { .. }
        | MetadataEvent::BrokerDutyChanged { .. }
        | MetadataEvent::GrantOpened(_)
        | MetadataEvent::GrantClosed { .. } => true,
        MetadataEvent::BrokerRegistered(broker) => broker.shutting_down,
        MetadataEvent::PartitionCreated { state, .. } | MetadataEvent::PartitionChanged { state, .. } => {
            let lists = [&state.adding, &state.removing, &state.eligible, &state.last_known];
            state.recovering || lists.iter().any(|list| !list.is_empty())
        }
        _ => false,
    };
    if events.into_iter().any(is_newer) { FORMAT_VERSION } else { FIRST_VERSION }
}

/// The message that carries `event`.
pub fn event_to_message(event: &MetadataEvent) -> v1::Event {
    use v1::event::Kind;
    let broker_epoch = |broker: &BrokerId, epoch: &i64| v1::BrokerEpoch { broker: broker.0, epoch: *epoch };
    let topic =
        |name: &Arc<str>, id: &TopicId| v1::TopicIdentity { name: name.to_string(), topic_id: id_to_bytes(*id) };
    let kind = match event {
        MetadataEvent::ClusterCreated { cluster_id } => {
            Kind::ClusterCreated(v1::ClusterCreated { cluster_id: id_to_bytes(*cluster_id) })
        }
        MetadataEvent::FeatureLevelChanged { name, level } => {
            let level = i32::from(*level);
            Kind::FeatureLevelChanged(v1::FeatureLevelChanged { name: name.to_string(), level })
        }
        MetadataEvent::BrokerRegistered(broker) => Kind::BrokerRegistered(registration_to_message(broker)),
        MetadataEvent::BrokerFenced { broker, epoch } => Kind::BrokerFenced(broker_epoch(broker, epoch)),
        MetadataEvent::BrokerUnfenced { broker, epoch } => Kind::BrokerUnfenced(broker_epoch(broker, epoch)),
        MetadataEvent::BrokerUnregistered { broker, epoch } => Kind::BrokerUnregistered(broker_epoch(broker, epoch)),
        MetadataEvent::BrokerShuttingDown { broker, epoch } => Kind::BrokerShuttingDown(broker_epoch(broker, epoch)),
        MetadataEvent::BrokerDutyChanged { broker, duty } => {
            Kind::BrokerDutyChanged(v1::BrokerDutyChanged { broker: broker.0, duty: duty.code() })
        }
        MetadataEvent::GrantOpened(grant) => Kind::GrantOpened(grant_to_message(grant)),
        MetadataEvent::GrantClosed { id, operator_epoch } => {
            Kind::GrantClosed(v1::GrantClosed { id: *id, operator_epoch: *operator_epoch })
        }
        MetadataEvent::TopicCreated { name, topic_id } => Kind::TopicCreated(topic(name, topic_id)),
        MetadataEvent::PartitionCreated { topic_id, partition, state } => {
            Kind::PartitionCreated(partition_to_message(*topic_id, *partition, state))
        }
        MetadataEvent::PartitionChanged { topic_id, partition, state } => {
            Kind::PartitionChanged(partition_to_message(*topic_id, *partition, state))
        }
        MetadataEvent::TopicDeleted { name, topic_id } => Kind::TopicDeleted(topic(name, topic_id)),
        MetadataEvent::ConfigChanged { resource, name, value } => Kind::ConfigChanged(v1::ConfigChanged {
            resource: Some(resource_to_message(resource)),
            name: name.to_string(),
            value: value.as_deref().map(str::to_owned),
        }),
        MetadataEvent::ProducerIdsAllocated { broker, next } => {
            Kind::ProducerIdsAllocated(v1::ProducerIdsAllocated { broker: broker.0, next: *next })
        }
    };
    v1::Event { kind: Some(kind) }
}

/// The event that `message` carries.
///
/// # Errors
/// When it is of an unknown kind or has a value out of range.
pub fn event_from_message(message: v1::Event) -> Result<MetadataEvent, FormatError> {
    use v1::event::Kind;
    let topic_id = |bytes: &Bytes| id_from_bytes(WHAT, "topic_id", bytes);
    Ok(match required(WHAT, "kind", message.kind)? {
        Kind::ClusterCreated(it) => {
            MetadataEvent::ClusterCreated { cluster_id: id_from_bytes(WHAT, "cluster_id", &it.cluster_id)? }
        }
        Kind::FeatureLevelChanged(it) => {
            let value = i64::from(it.level);
            let level =
                i16::try_from(it.level).map_err(|_| FormatError::Invalid { what: WHAT, field: "level", value })?;
            MetadataEvent::FeatureLevelChanged { name: it.name.into(), level }
        }
        Kind::BrokerRegistered(it) => MetadataEvent::BrokerRegistered(Arc::new(registration_from_message(it)?)),
        Kind::BrokerFenced(it) => MetadataEvent::BrokerFenced { broker: BrokerId(it.broker), epoch: it.epoch },
        Kind::BrokerUnfenced(it) => MetadataEvent::BrokerUnfenced { broker: BrokerId(it.broker), epoch: it.epoch },
        Kind::BrokerUnregistered(it) => {
            MetadataEvent::BrokerUnregistered { broker: BrokerId(it.broker), epoch: it.epoch }
        }
        Kind::BrokerShuttingDown(it) => {
            MetadataEvent::BrokerShuttingDown { broker: BrokerId(it.broker), epoch: it.epoch }
        }
        Kind::BrokerDutyChanged(it) => {
            MetadataEvent::BrokerDutyChanged { broker: BrokerId(it.broker), duty: duty_from_code(it.duty)? }
        }
        Kind::GrantOpened(it) => MetadataEvent::GrantOpened(Arc::new(grant_from_message(it))),
        Kind::GrantClosed(it) => MetadataEvent::GrantClosed { id: it.id, operator_epoch: it.operator_epoch },
        Kind::TopicCreated(it) => {
            MetadataEvent::TopicCreated { topic_id: topic_id(&it.topic_id)?, name: it.name.into() }
        }
        Kind::PartitionCreated(it) => {
            let (topic_id, partition, state) = partition_from_message(it)?;
            MetadataEvent::PartitionCreated { topic_id, partition, state }
        }
        Kind::PartitionChanged(it) => {
            let (topic_id, partition, state) = partition_from_message(it)?;
            MetadataEvent::PartitionChanged { topic_id, partition, state }
        }
        Kind::TopicDeleted(it) => {
            MetadataEvent::TopicDeleted { topic_id: topic_id(&it.topic_id)?, name: it.name.into() }
        }
        Kind::ConfigChanged(it) => MetadataEvent::ConfigChanged {
            resource: resource_from_message(required(WHAT, "resource", it.resource)?)?,
            name: it.name.into(),
            value: it.value.map(Into::into),
        },
        Kind::ProducerIdsAllocated(it) => {
            MetadataEvent::ProducerIdsAllocated { broker: BrokerId(it.broker), next: it.next }
        }
    })
}

/// Why bytes are no snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotFormatError {
    /// A part cannot be read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Its events do not make an image.
    #[error(transparent)]
    Image(#[from] SnapshotError),
}

/// The messages of a snapshot of `image`: its header, then its chunks.
pub fn snapshot_messages(image: &MetadataImage) -> (v1::SnapshotHeader, impl Iterator<Item = v1::SnapshotChunk>) {
    let mut count = 0;
    let mut format_version = FIRST_VERSION;
    for event in image.snapshot_events() {
        count += 1;
        format_version = format_version.max(version_for([&event]));
    }
    let header = v1::SnapshotHeader { format_version, offset: image.offset(), events: count };
    let mut events = image.snapshot_events();
    let chunks = std::iter::from_fn(move || {
        let events: Vec<_> =
            events.by_ref().take(SNAPSHOT_CHUNK_EVENTS).map(|event| event_to_message(&event)).collect();
        (!events.is_empty()).then_some(v1::SnapshotChunk { events })
    });
    (header, chunks)
}

/// Puts a snapshot together from its messages.
#[derive(Debug)]
pub struct SnapshotReader {
    offset: i64,
    expected: u64,
    events: Vec<MetadataEvent>,
}

impl SnapshotReader {
    /// Starts with the header.
    ///
    /// # Errors
    /// When its version is unknown.
    pub fn new(header: &v1::SnapshotHeader) -> Result<Self, FormatError> {
        check_version("a metadata snapshot", header.format_version, FORMAT_VERSION)?;
        // The count comes from outside, so memory is taken only for what arrives.
        Ok(Self { offset: header.offset, expected: header.events, events: Vec::new() })
    }

    /// Takes the next chunk.
    ///
    /// # Errors
    /// When an event is not understood, or there are more than the header said.
    pub fn push(&mut self, chunk: v1::SnapshotChunk) -> Result<(), FormatError> {
        for event in chunk.events {
            self.events.push(event_from_message(event)?);
        }
        if self.events.len() as u64 > self.expected {
            return Err(FormatError::Length { what: "a metadata snapshot" });
        }
        Ok(())
    }

    /// Whether all events are there.
    pub fn is_complete(&self) -> bool {
        self.events.len() as u64 == self.expected
    }

    /// The image.
    ///
    /// # Errors
    /// When events are missing or do not fit together.
    pub fn finish(self) -> Result<MetadataImage, SnapshotFormatError> {
        if !self.is_complete() {
            return Err(FormatError::Length { what: "a metadata snapshot" }.into());
        }
        Ok(MetadataImage::from_snapshot(self.offset, self.events)?)
    }
}

/// A snapshot of `image` as bytes: length-delimited header and chunks.
pub fn encode_snapshot(image: &MetadataImage) -> Vec<u8> {
    let (header, chunks) = snapshot_messages(image);
    let mut bytes = header.encode_length_delimited_to_vec();
    for chunk in chunks {
        bytes.extend_from_slice(&chunk.encode_length_delimited_to_vec());
    }
    bytes
}

/// The image whose snapshot `bytes` are.
///
/// # Errors
/// When they are damaged, cut short, or of an unknown version.
pub fn decode_snapshot(mut bytes: &[u8]) -> Result<MetadataImage, SnapshotFormatError> {
    let what = "a metadata snapshot";
    let decode = |source| FormatError::Decode { what, source };
    let header = v1::SnapshotHeader::decode_length_delimited(&mut bytes).map_err(decode)?;
    let mut reader = SnapshotReader::new(&header)?;
    while !bytes.is_empty() {
        reader.push(v1::SnapshotChunk::decode_length_delimited(&mut bytes).map_err(decode)?)?;
    }
    reader.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use taffrail_core::event::{
        BrokerDuty, BrokerRegistration, ConfigResource, FeatureRange, Grant, Listener, PartitionState, SecurityProtocol,
    };
    use taffrail_core::ids::Uuid;

    use super::*;

    /// A history with every kind of event that the first version has.
    fn history() -> Vec<MetadataEvent> {
        let (a, b) = (Uuid([1; 16]), Uuid([2; 16]));
        let registration = BrokerRegistration {
            id: BrokerId(7),
            epoch: 2,
            incarnation: Uuid([3; 16]),
            rack: Some("r1".into()),
            listeners: vec![Listener {
                name: "PLAINTEXT".into(),
                host: "localhost".into(),
                port: 9092,
                security: SecurityProtocol::Plaintext,
            }],
            log_dirs: vec![Uuid([4; 16])],
            features: [("metadata.version".into(), FeatureRange { min_level: 1, max_level: 30 })].into(),
            fenced: true,
            shutting_down: false,
            min_in_sync: None,
        };
        let state = PartitionState::new(vec![BrokerId(7), BrokerId(8)], vec![BrokerId(7)]);
        let leaderless =
            PartitionState { leader: BrokerId::NONE, leader_epoch: 1, partition_epoch: 1, ..state.clone() };
        let config = |resource, value: Option<&str>| MetadataEvent::ConfigChanged {
            resource,
            name: "retention.ms".into(),
            value: value.map(Into::into),
        };
        let partition = |topic_id, partition| MetadataEvent::PartitionCreated {
            topic_id,
            partition,
            state: Arc::new(state.clone()),
        };
        vec![
            MetadataEvent::ClusterCreated { cluster_id: Uuid([9; 16]) },
            MetadataEvent::FeatureLevelChanged { name: "metadata.version".into(), level: 30 },
            MetadataEvent::BrokerRegistered(Arc::new(registration.clone())),
            MetadataEvent::BrokerUnfenced { broker: BrokerId(7), epoch: 2 },
            MetadataEvent::BrokerFenced { broker: BrokerId(7), epoch: 2 },
            MetadataEvent::TopicCreated { name: "a.b".into(), topic_id: a },
            partition(a, 0),
            partition(a, 1),
            MetadataEvent::TopicCreated { name: "c".into(), topic_id: b },
            MetadataEvent::PartitionChanged { topic_id: a, partition: 1, state: Arc::new(leaderless) },
            config(ConfigResource::topic("a.b"), Some("1")),
            config(ConfigResource::broker_default(), Some("")),
            config(ConfigResource::topic("a.b"), None),
            MetadataEvent::TopicDeleted { name: "c".into(), topic_id: b },
            MetadataEvent::ProducerIdsAllocated { broker: BrokerId(7), next: 1_000 },
            MetadataEvent::BrokerRegistered(Arc::new(BrokerRegistration {
                id: BrokerId(8),
                epoch: 15,
                ..registration
            })),
            MetadataEvent::BrokerUnregistered { broker: BrokerId(8), epoch: 15 },
        ]
    }

    /// What may follow on [`history`] with the second version.
    fn newer_history() -> Vec<MetadataEvent> {
        let broker = BrokerId(7);
        let brokers = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect::<Vec<_>>();
        let state = PartitionState {
            isr: Vec::new(),
            leader: BrokerId::NONE,
            leader_epoch: 3,
            partition_epoch: 5,
            adding: brokers(&[8, 9]),
            removing: brokers(&[7]),
            eligible: brokers(&[9]),
            last_known: brokers(&[8, 7]),
            recovering: true,
            ..PartitionState::new(brokers(&[7, 8, 9]), Vec::new())
        };
        let grant = Grant { id: 22, brokers: BTreeSet::from([broker]), operator_epoch: 3, expires_ms: i64::MAX };
        vec![
            MetadataEvent::PartitionChanged { topic_id: Uuid([1; 16]), partition: 0, state: Arc::new(state) },
            MetadataEvent::BrokerShuttingDown { broker, epoch: 2 },
            MetadataEvent::BrokerDutyChanged { broker, duty: BrokerDuty::Draining },
            MetadataEvent::GrantClosed { id: 3, operator_epoch: 2 },
            MetadataEvent::GrantOpened(Arc::new(grant)),
        ]
    }

    fn image_of(events: impl IntoIterator<Item = MetadataEvent>) -> MetadataImage {
        let mut image = MetadataImage::default();
        for event in events {
            image.apply(&event).unwrap();
        }
        image
    }

    fn image() -> MetadataImage {
        image_of(history())
    }

    #[test]
    fn events_and_snapshots_come_back_as_they_were() {
        let batch = EventBatch { base_offset: 40, events: history() };
        assert_eq!(EventBatch::decode(batch.encode().into()), Ok(batch.clone()));
        assert_eq!(batch.next_offset(), 40 + 17);
        assert_eq!(decode_snapshot(&encode_snapshot(&image())), Ok(image()));
        let newer = EventBatch { base_offset: 57, events: newer_history() };
        assert_eq!(EventBatch::decode(newer.encode().into()), Ok(newer));
        let image = image_of(history().into_iter().chain(newer_history()));
        assert_eq!(decode_snapshot(&encode_snapshot(&image)), Ok(image));
        assert_eq!(decode_snapshot(&encode_snapshot(&MetadataImage::default())), Ok(MetadataImage::default()));
    }

    #[test]
    fn a_large_snapshot_is_cut_into_chunks() {
        let mut image = image();
        let topic_id = Uuid([5; 16]);
        image.apply(&MetadataEvent::TopicCreated { name: "big".into(), topic_id }).unwrap();
        for partition in 0..5_000 {
            let state = Arc::new(PartitionState::new(vec![BrokerId(7)], vec![BrokerId(7)]));
            image.apply(&MetadataEvent::PartitionCreated { topic_id, partition, state }).unwrap();
        }
        let (header, chunks) = snapshot_messages(&image);
        let sizes: Vec<usize> = chunks.map(|chunk| chunk.events.len()).collect();
        assert_eq!(sizes.len(), 3);
        assert_eq!(sizes.iter().sum::<usize>() as u64, header.events);
        assert_eq!(decode_snapshot(&encode_snapshot(&image)), Ok(image));
    }

    #[test]
    fn each_batch_has_the_lowest_version_that_its_events_need() {
        let version = |events: Vec<MetadataEvent>| EventBatch { base_offset: 0, events }.to_message().format_version;
        assert_eq!(version(history()), 1, "older releases read what has nothing new in it");
        assert_eq!(snapshot_messages(&image()).0.format_version, 1);
        for event in newer_history() {
            assert_eq!(version(vec![event.clone()]), 2, "{event:?}");
        }
        let image = image_of(history().into_iter().chain(newer_history()));
        assert_eq!(snapshot_messages(&image).0.format_version, 2);
    }

    #[test]
    fn a_newer_format_is_refused_by_name() {
        let mut message = EventBatch { base_offset: 0, events: history() }.to_message();
        message.format_version = FORMAT_VERSION + 1;
        let error = EventBatch::from_message(message.clone()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a batch of metadata events has format version 3; this release knows versions up to 2"
        );
        message.format_version = 0;
        assert!(matches!(EventBatch::from_message(message), Err(FormatError::NoVersion { .. })));
        let (mut header, _) = snapshot_messages(&image());
        header.format_version = FORMAT_VERSION + 1;
        assert!(matches!(SnapshotReader::new(&header), Err(FormatError::NewerVersion { .. })));
    }

    #[test]
    fn a_cut_snapshot_is_refused_wherever_it_is_cut() {
        let bytes = encode_snapshot(&image());
        for length in 0..bytes.len() {
            assert!(decode_snapshot(&bytes[..length]).is_err(), "cut to {length} bytes");
        }
    }

    #[test]
    fn an_event_of_an_unknown_kind_is_refused_and_not_skipped() {
        let message =
            v1::EventBatch { format_version: FORMAT_VERSION, base_offset: 0, events: vec![v1::Event { kind: None }] };
        assert!(matches!(EventBatch::from_message(message), Err(FormatError::Missing { field: "kind", .. })));
    }
}
