//! Entries of partitions' files, for programs and for people.

use serde_json::{Value, json};
use taffrail_core::record::{BatchHeader, Record};
use taffrail_storage::dump::{Dumped, DumpedFile};
use taffrail_storage::names::FileKind;

/// Characters of a key or a value that a table shows.
const CHARS_MAX: usize = 64;

/// What the columns of a file's entries are called.
pub(super) fn headers(file: DumpedFile, with_records: bool) -> &'static [&'static str] {
    match file {
        DumpedFile::Segment(_, FileKind::Log) if with_records => {
            &["BATCH-AT", "OFFSET", "TIMESTAMP", "SEQUENCE", "KEY", "VALUE", "HEADERS"]
        }
        DumpedFile::Segment(_, FileKind::Log) => &[
            "AT",
            "FIRST",
            "LAST",
            "RECORDS",
            "BYTES",
            "EPOCH",
            "MAX-TIMESTAMP",
            "CODEC",
            "PRODUCER",
            "SEQUENCE",
            "KIND",
            "CRC",
        ],
        DumpedFile::Segment(_, FileKind::Index) => &["OFFSET", "AT"],
        DumpedFile::Segment(_, FileKind::TimeIndex) => &["TIMESTAMP", "OFFSET"],
        DumpedFile::Segment(_, FileKind::TxnIndex) => &["PRODUCER", "FIRST", "LAST", "LAST-STABLE"],
        DumpedFile::Segment(_, FileKind::Snapshot) => {
            &["PRODUCER", "EPOCH", "LAST-SEQUENCE", "LAST-OFFSET", "TIMESTAMP", "TRANSACTION-FROM"]
        }
        DumpedFile::LeaderEpochs => &["EPOCH", "FIRST"],
        DumpedFile::Topic => &["TOPIC-ID"],
    }
}

/// What a batch is besides records, in a word.
fn kind(header: &BatchHeader) -> &'static str {
    match (header.is_control(), header.is_transactional()) {
        (true, _) => "control",
        (false, true) => "transaction",
        (false, false) => "plain",
    }
}

fn codec(header: &BatchHeader) -> String {
    header.compression().map_or_else(|error| error.to_string(), |codec| codec.name().to_owned())
}

/// An entry for programs: its kind, and its fields.
pub(super) fn data(entry: &Dumped<'_>) -> (&'static str, Value) {
    match entry {
        Dumped::Batch { position, header, .. } => (
            "batch",
            json!({
                "position": position,
                "firstOffset": header.base_offset,
                "lastOffset": header.last_offset(),
                "recordCount": header.record_count,
                "bytes": header.total_bytes(),
                "leaderEpoch": header.leader_epoch,
                "firstTimestamp": header.base_timestamp,
                "maxTimestamp": header.max_timestamp,
                "codec": codec(header),
                "producerId": header.producer_id,
                "producerEpoch": header.producer_epoch,
                "firstSequence": header.base_sequence,
                "kind": kind(header),
                "crc": header.crc,
            }),
        ),
        Dumped::Position { offset, position } => ("position", json!({ "offset": offset, "position": position })),
        Dumped::Time { timestamp, offset } => ("time", json!({ "timestamp": timestamp, "offset": offset })),
        Dumped::Aborted(aborted) => (
            "aborted",
            json!({
                "producerId": aborted.producer_id,
                "firstOffset": aborted.first_offset,
                "lastOffset": aborted.last_offset,
                "lastStableOffset": aborted.last_stable_offset,
            }),
        ),
        Dumped::Producer(producer) => (
            "producer",
            json!({
                "producerId": producer.producer_id,
                "producerEpoch": producer.producer_epoch,
                "lastSequence": producer.last_sequence,
                "lastOffset": producer.last_offset,
                "timestamp": producer.timestamp,
                "coordinatorEpoch": producer.coordinator_epoch,
                "transactionFirstOffset": producer.current_txn_first_offset,
            }),
        ),
        Dumped::Epoch(epoch, first) => ("epoch", json!({ "leaderEpoch": epoch, "firstOffset": first })),
        Dumped::Topic(id) => ("topic", json!({ "topicId": id.to_string() })),
        Dumped::Damage { position, what } => ("damage", json!({ "position": position, "what": what })),
    }
}

/// An entry for people; damage is told elsewhere.
pub(super) fn row(entry: &Dumped<'_>) -> Option<Vec<String>> {
    let (_, data) = data(entry);
    let fields: &[&str] = match entry {
        Dumped::Batch { .. } => &[
            "position",
            "firstOffset",
            "lastOffset",
            "recordCount",
            "bytes",
            "leaderEpoch",
            "maxTimestamp",
            "codec",
            "producerId",
            "firstSequence",
            "kind",
            "crc",
        ],
        Dumped::Position { .. } => &["offset", "position"],
        Dumped::Time { .. } => &["timestamp", "offset"],
        Dumped::Aborted(_) => &["producerId", "firstOffset", "lastOffset", "lastStableOffset"],
        Dumped::Producer(_) => {
            &["producerId", "producerEpoch", "lastSequence", "lastOffset", "timestamp", "transactionFirstOffset"]
        }
        Dumped::Epoch(..) => &["leaderEpoch", "firstOffset"],
        Dumped::Topic(_) => &["topicId"],
        Dumped::Damage { .. } => return None,
    };
    let cell = |name: &&str| match &data[*name] {
        Value::String(text) => text.clone(),
        // Kafka's way to say that there is none.
        Value::Number(number) if number.as_i64() == Some(-1) => String::new(),
        other => other.to_string(),
    };
    Some(fields.iter().map(cell).collect())
}

/// A record for people, cut to what fits a line.
pub(super) fn record_row(position: u64, record: &Record<'_>) -> Vec<String> {
    let cut = |bytes: Option<&[u8]>| {
        let Some(bytes) = bytes else { return "null".to_owned() };
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * CHARS_MAX)]);
        let mut cut: String = text.chars().take(CHARS_MAX).collect();
        if cut.len() < bytes.len() {
            cut.push('…');
        }
        cut
    };
    let sequence = if record.sequence < 0 { String::new() } else { record.sequence.to_string() };
    let (offset, timestamp) = (record.offset.to_string(), record.timestamp.to_string());
    let (key, value) = (cut(record.key), cut(record.value));
    vec![position.to_string(), offset, timestamp, sequence, key, value, record.headers.len().to_string()]
}
