//! A record as JSON: what `topic consume -o json` prints and `topic produce --json` reads, one on each line.
//!
//! Keys, values and header values are texts where they are UTF-8; other bytes are told apart by the name of their field
//! (`keyBase64`, `valueBase64`), so that every record can be read back as it was.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use taffrail_client::kafka::{Outgoing, PartitionKey};
use taffrail_core::record::Record;

/// What is added to the name of a field that holds bytes.
const BASE64: &str = "Base64";

/// Fields that say where a record came from, and decide nothing when it is produced.
const PLACE: [&str; 3] = ["topic", "partition", "offset"];

/// Why a text is no record.
#[derive(Debug, thiserror::Error)]
pub(super) enum EnvelopeError {
    /// It is no JSON.
    #[error("no JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It is no object.
    #[error("a JSON object is needed, such as {{\"key\": \"a\", \"value\": \"b\"}}")]
    NoObject,
    /// A field of it is unknown.
    #[error("unknown field {0:?}: known are key, keyBase64, value, valueBase64, timestamp, headers")]
    Unknown(String),
    /// A field is not what it should be.
    #[error("{field}: {expected} is needed")]
    Field {
        /// Its name.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
    },
}

/// A record as JSON.
pub(in crate::cli) fn write(partition: &PartitionKey, record: &Record<'_>) -> Value {
    let mut envelope = Map::new();
    envelope.insert("topic".to_owned(), json!(partition.0));
    envelope.insert("partition".to_owned(), json!(partition.1));
    envelope.insert("offset".to_owned(), json!(record.offset));
    envelope.insert("timestamp".to_owned(), json!(record.timestamp));
    put(&mut envelope, "key", record.key);
    put(&mut envelope, "value", record.value);
    let header = |(name, value): (&[u8], Option<&[u8]>)| {
        let mut header = Map::new();
        put(&mut header, "name", Some(name));
        put(&mut header, "value", value);
        Value::Object(header)
    };
    envelope.insert("headers".to_owned(), record.headers.map(header).collect());
    Value::Object(envelope)
}

fn put(object: &mut Map<String, Value>, name: &str, bytes: Option<&[u8]>) {
    match bytes.map(std::str::from_utf8) {
        None => object.insert(name.to_owned(), Value::Null),
        Some(Ok(text)) => object.insert(name.to_owned(), json!(text)),
        Some(Err(_)) => object.insert(format!("{name}{BASE64}"), json!(STANDARD.encode(bytes.unwrap_or_default()))),
    };
}

/// The record that a line says; `now_ms` is its time unless it has one.
///
/// # Errors
/// What is wrong with it.
pub(super) fn read(line: &[u8], now_ms: i64) -> Result<Outgoing, EnvelopeError> {
    let Value::Object(mut object) = serde_json::from_slice(line)? else { return Err(EnvelopeError::NoObject) };
    PLACE.iter().for_each(|name| drop(object.remove(*name)));
    let (key, value) = (take(&mut object, "key")?, take(&mut object, "value")?);
    let timestamp_ms = match object.remove("timestamp") {
        None | Some(Value::Null) => now_ms,
        Some(time) => time
            .as_i64()
            .ok_or(EnvelopeError::Field { field: "timestamp", expected: "a number of milliseconds since 1970" })?,
    };
    let headers = match object.remove("headers") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(headers)) => headers.into_iter().map(header).collect::<Result<_, _>>()?,
        Some(_) => return Err(EnvelopeError::Field { field: "headers", expected: HEADERS }),
    };
    match object.into_iter().next() {
        Some((unknown, _)) => Err(EnvelopeError::Unknown(unknown)),
        None => Ok(Outgoing { key, value, headers, timestamp_ms, partition: None }),
    }
}

const HEADERS: &str = "a list such as [{\"name\": \"a\", \"value\": \"b\"}]";

fn header(header: Value) -> Result<(Bytes, Option<Bytes>), EnvelopeError> {
    let wrong = || EnvelopeError::Field { field: "headers", expected: HEADERS };
    let Value::Object(mut header) = header else { return Err(wrong()) };
    let name = take(&mut header, "name")?.ok_or_else(wrong)?;
    Ok((name, take(&mut header, "value")?))
}

/// The bytes of a field, as text or in base 64. A value that is neither text nor null is its JSON.
fn take(object: &mut Map<String, Value>, name: &'static str) -> Result<Option<Bytes>, EnvelopeError> {
    let encoded = object.remove(&format!("{name}{BASE64}"));
    match (object.remove(name), encoded) {
        (None | Some(Value::Null), None | Some(Value::Null)) => Ok(None),
        (Some(Value::String(text)), None) => Ok(Some(text.into())),
        (Some(value), None) => Ok(Some(value.to_string().into())),
        (None, Some(Value::String(text))) => match STANDARD.decode(text) {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(_) => Err(EnvelopeError::Field { field: name, expected: "base 64" }),
        },
        _ => Err(EnvelopeError::Field { field: name, expected: "either a text, or base 64 under its own name" }),
    }
}

#[cfg(test)]
mod tests {
    use taffrail_core::record::{BatchBuilder, BatchOptions, BatchRef, Decompressor};

    use super::*;

    /// What a record looks like that is read from `line`, written to a batch, and written out again.
    fn round(line: &str) -> Value {
        let record = read(line.as_bytes(), 7).unwrap();
        let mut builder = BatchBuilder::new(BatchOptions::default());
        let headers = record.headers.iter().map(|(name, value)| (&name[..], value.as_deref()));
        builder.append(0, record.timestamp_ms, record.key.as_deref(), record.value.as_deref(), headers).unwrap();
        let bytes = builder.build().unwrap();
        let batch = BatchRef::parse(&bytes).unwrap();
        let mut decompressor = Decompressor::default();
        let found = batch.records(&mut decompressor).unwrap().next().unwrap().unwrap();
        write(&("t".to_owned(), 3), &found)
    }

    #[test]
    fn records_come_back_as_they_were_also_when_they_are_no_text() {
        let lines = [
            r#"{"topic":"t","partition":3,"offset":0,"timestamp":5,"key":"k","value":"v \u0000","headers":[{"name":"h","value":null}]}"#,
            r#"{"topic":"t","partition":3,"offset":0,"timestamp":5,"keyBase64":"/w==","value":null,"headers":[{"nameBase64":"gA==","valueBase64":"/w=="}]}"#,
        ];
        for line in lines {
            let expected: Value = serde_json::from_str(line).unwrap();
            assert_eq!(round(line), expected);
        }
    }

    #[test]
    fn little_has_to_be_said_and_other_values_are_their_json() {
        let record = read(br#"{"value": {"a": 1}}"#, 7).unwrap();
        assert_eq!((record.key, record.value.as_deref()), (None, Some(&br#"{"a":1}"#[..])));
        assert_eq!((record.timestamp_ms, record.headers.len()), (7, 0));
        assert_eq!(read(b"{}", 7).unwrap().value, None);
    }

    #[test]
    fn what_is_no_record_is_refused_with_what_is_wrong() {
        let cases = [
            ("", "no JSON"),
            ("{\"value\":", "no JSON"),
            ("[]", "a JSON object is needed"),
            (r#"{"valeu":"a"}"#, "unknown field \"valeu\""),
            (r#"{"value":"a","valueBase64":"YQ=="}"#, "value: either a text"),
            (r#"{"valueBase64":"!"}"#, "value: base 64 is needed"),
            (r#"{"timestamp":"now"}"#, "timestamp: a number"),
            (r#"{"headers":{"a":"b"}}"#, "headers: a list"),
            (r#"{"headers":[{"value":"b"}]}"#, "headers: a list"),
        ];
        for (line, expected) in cases {
            let error = read(line.as_bytes(), 0).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{line}: {error}");
        }
    }
}
