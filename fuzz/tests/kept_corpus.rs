//! What Kafka's own library wrote is read completely, for every key at every version.

#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;

use bytes::Bytes;
use taffrail_fuzz::driver::home;
use taffrail_protocol::message::*;
use taffrail_protocol::versions::ApiKey;
use taffrail_protocol::{for_each_key, header, request, response};

/// `DescribeTopicPartitions` as files are named: `describe-topic-partitions`.
fn file_name(key: ApiKey) -> String {
    let mut name = String::new();
    for letter in key.name().chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

fn kept(folder: &str, key: ApiKey, version: i16) -> Bytes {
    let path = home().join("corpus").join(folder).join(format!("{}-{version}", file_name(key)));
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).into()
}

/// Decodes a kept message and asserts that writing it again gives the same bytes.
fn is_read_and_written<M: Message>(version: i16, body: &Bytes, message: Result<M, request::DecodeError>) {
    let message = message.unwrap_or_else(|error| panic!("{error}"));
    let mut out = bytes::BytesMut::new();
    message.encode_body(version, &mut out).unwrap();
    assert_eq!(out, body, "{} {version}", M::NAME);
}

macro_rules! kept {
    ($($key:ident $request:ident $response:ident;)*) => {
        fn request_is_read(key: ApiKey, version: i16, body: &Bytes) {
            match key {
                $(ApiKey::$key => {
                    is_read_and_written(version, body, request::decode::<$request>(version, body.clone()));
                })*
            }
        }

        fn response_is_read(key: ApiKey, version: i16, frame: &Bytes) {
            let header_bytes = if key.response_header_version(version) >= 1 { 5 } else { 4 };
            let body = frame.slice(header_bytes..);
            match key {
                $(ApiKey::$key => {
                    let decoded = response::decode::<$request>(version, frame.clone());
                    is_read_and_written(version, &body, decoded.map(|(_, response)| response));
                })*
            }
        }
    };
}

for_each_key!(kept);

#[test]
fn every_request_of_kafkas_library_is_read_and_written_byte_for_byte() {
    for &key in ApiKey::ALL {
        for version in key.versions().min..=key.versions().max {
            let mut frame = kept("request", key, version);
            let header = header::parse(&mut frame).unwrap();
            assert_eq!((header.key, header.version), (key, version));
            assert_eq!(header.client_id.as_deref(), Some("kafka-client"));
            request_is_read(key, version, &frame);
        }
    }
}

#[test]
fn the_oldest_and_the_newest_response_of_kafkas_library_are_read_and_written_byte_for_byte() {
    for &key in ApiKey::ALL {
        for version in [key.versions().min, key.versions().max] {
            response_is_read(key, version, &kept("response", key, version).slice(4..));
        }
    }
}
