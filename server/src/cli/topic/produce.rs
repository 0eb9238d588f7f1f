//! `taffrail topic produce`: writes what comes in from standard input, one record on each line.

use std::collections::BTreeMap;
use std::io::{self, Read};

use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use serde_json::{Value, json};
use taffrail_client::kafka::{KafkaClient, Outgoing, Produced, Producer, ProducerOptions};
use taffrail_core::record::Compression;
use taffrail_runtime::blocking::Pool;
use taffrail_runtime::time;
use tokio::sync::mpsc;

use super::{envelope, pairs};
use crate::cli::brokers::BrokersArgs;
use crate::cli::{completion, print, table};
use crate::exit::Exit;

/// Bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

/// Bytes of the longest line; brokers refuse much less by default.
const LINE_BYTES_MAX: usize = 64 << 20;

/// Reads that may wait to be sent.
const CHUNKS_MAX: usize = 4;

/// Arguments of `topic produce`.
#[derive(Args, Debug)]
#[command(
    after_help = "Each line of standard input is a record. It returns when all replicas in sync have all of them."
)]
pub(crate) struct ProduceArgs {
    /// Name of the topic
    #[arg(value_name = "NAME", add = completion::topics())]
    name: String,
    /// Key of all records
    #[arg(short, long, value_name = "KEY", conflicts_with_all = ["key_delimiter", "json"])]
    key: Option<String>,
    /// What stands between key and value on each line
    #[arg(short = 'K', long, value_name = "TEXT", conflicts_with = "json",
        value_parser = NonEmptyStringValueParser::new())]
    key_delimiter: Option<String>,
    /// Lines are JSON, as `topic consume -o json` prints them: {"key": "a", "value": "b"}
    #[arg(long)]
    json: bool,
    /// An empty value is null, which deletes its key from compacted topics
    #[arg(short = 'Z', long, conflicts_with = "json")]
    null_if_empty: bool,
    /// A header of all records; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME=VALUE")]
    headers: Vec<String>,
    /// Partition of all records [default: that of the key, or any]
    #[arg(short, long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(0..))]
    partition: Option<i32>,
    /// How to compress: none, gzip, snappy, lz4 or zstd
    #[arg(short = 'z', long, value_name = "CODEC", default_value = "none", value_parser = codec)]
    compression: Compression,
    #[command(flatten)]
    brokers: BrokersArgs,
}

fn codec(name: &str) -> Result<Compression, &'static str> {
    Compression::from_name(name).ok_or("known are none, gzip, snappy, lz4, zstd")
}

pub(super) async fn run(args: &ProduceArgs) -> anyhow::Result<Exit> {
    let reading = Reading::of(args)?;
    let mut client = args.brokers.connect().await?;
    let options = ProducerOptions { compression: args.compression };
    let mut producer = Producer::new(&mut client, &args.name, options).await.with_context(|| {
        format!("nothing can be produced to {} (a topic is made by `taffrail topic create`)", args.name)
    })?;
    let outcome = send(&mut client, &mut producer, &reading).await;
    report(args, producer.produced())?;
    outcome.map(|()| Exit::Done)
}

async fn send(client: &mut KafkaClient, producer: &mut Producer, reading: &Reading) -> anyhow::Result<()> {
    let (sender, mut chunks) = mpsc::channel(CHUNKS_MAX);
    let pool = Pool::new("stdin", 1, 1);
    pool.submit(move || {
        let mut lines = Lines { source: io::stdin(), buffer: BytesMut::new(), is_at_end: false };
        loop {
            let chunk = lines.next();
            let is_last = !matches!(&chunk, Ok(Some(_)));
            if sender.blocking_send(chunk).is_err() || is_last {
                return;
            }
        }
    })?;
    let mut line_number = 0;
    while let Some(chunk) = chunks.recv().await {
        let Some(lines) = chunk.context("standard input cannot be read")? else { return Ok(()) };
        let (mut records, mut wrong) = (Vec::with_capacity(lines.len()), None);
        for line in lines {
            line_number += 1;
            match reading.record(&line, time::unix_ms()) {
                Ok(record) => records.push(record),
                Err(error) => {
                    wrong = Some(error.context(format!("line {line_number}")));
                    break;
                }
            }
        }
        producer.send(client, &records).await?;
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
    }
    bail!("standard input was not read to its end")
}

fn report(args: &ProduceArgs, produced: &BTreeMap<i32, Produced>) -> anyhow::Result<()> {
    let partition = |(partition, produced): (&i32, &Produced)| {
        json!({
            "partition": partition,
            "records": produced.records,
            "firstOffset": produced.first_offset,
            "lastOffset": produced.last_offset,
        })
    };
    let row = |(partition, produced): (&i32, &Produced)| {
        let numbers =
            [i64::from(*partition), produced.records.cast_signed(), produced.first_offset, produced.last_offset];
        std::iter::once(args.name.clone()).chain(numbers.map(|number| number.to_string())).collect::<Vec<_>>()
    };
    let data: Vec<Value> = produced.iter().map(partition).collect();
    let answer = json!({
        "topic": args.name,
        "records": produced.values().map(|it| it.records).sum::<u64>(),
        "partitions": data,
    });
    print(args.brokers.output, &answer, || {
        table(&["TOPIC", "PARTITION", "RECORDS", "FIRST", "LAST"], &produced.iter().map(row).collect::<Vec<_>>())
    })
}

/// How lines are read.
struct Reading {
    key: Option<Bytes>,
    /// It is not empty.
    key_delimiter: Option<String>,
    json: bool,
    null_if_empty: bool,
    headers: Vec<(Bytes, Option<Bytes>)>,
    partition: Option<i32>,
}

impl Reading {
    fn of(args: &ProduceArgs) -> anyhow::Result<Self> {
        let headers = pairs("--header", &args.headers)?.into_iter();
        Ok(Self {
            key: args.key.clone().map(Bytes::from),
            key_delimiter: args.key_delimiter.clone(),
            json: args.json,
            null_if_empty: args.null_if_empty,
            headers: headers.map(|(name, value)| (name.into(), Some(value.into()))).collect(),
            partition: args.partition,
        })
    }

    /// The record that a line is.
    fn record(&self, line: &Bytes, now_ms: i64) -> anyhow::Result<Outgoing> {
        let mut record = if self.json {
            envelope::read(line, now_ms)?
        } else {
            let (key, value) = self.split(line)?;
            let value = Some(value).filter(|value| !self.null_if_empty || !value.is_empty());
            Outgoing { key, value, headers: Vec::new(), timestamp_ms: now_ms, partition: None }
        };
        record.headers.extend_from_slice(&self.headers);
        record.partition = self.partition;
        Ok(record)
    }

    /// Key and value of a line.
    fn split(&self, line: &Bytes) -> anyhow::Result<(Option<Bytes>, Bytes)> {
        let Some(delimiter) = &self.key_delimiter else { return Ok((self.key.clone(), line.clone())) };
        match line.windows(delimiter.len()).position(|part| part == delimiter.as_bytes()) {
            Some(at) => Ok((Some(line.slice(..at)), line.slice(at + delimiter.len()..))),
            None => bail!("there is no {delimiter:?} between a key and a value"),
        }
    }
}

/// Lines as they come, many at a time if there are many.
struct Lines<R> {
    source: R,
    buffer: BytesMut,
    is_at_end: bool,
}

impl<R: Read> Lines<R> {
    /// The lines that are there; waits for one. `None` at the end.
    fn next(&mut self) -> io::Result<Option<Vec<Bytes>>> {
        let mut searched = 0;
        let mut read = vec![0; READ_BYTES];
        loop {
            let last = self.buffer[searched..].iter().rposition(|byte| *byte == b'\n').map(|at| searched + at);
            let complete = match (last, self.is_at_end) {
                (Some(last), _) => self.buffer.split_to(last + 1).freeze(),
                (None, true) if self.buffer.is_empty() => return Ok(None),
                (None, true) => self.buffer.split().freeze(),
                (None, false) if self.buffer.len() > LINE_BYTES_MAX => {
                    return Err(io::Error::other(format!("a line is longer than {LINE_BYTES_MAX} bytes")));
                }
                (None, false) => {
                    searched = self.buffer.len();
                    match self.source.read(&mut read) {
                        Ok(count) => {
                            self.is_at_end = count == 0;
                            self.buffer.extend_from_slice(&read[..count]);
                        }
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                    continue;
                }
            };
            return Ok(Some(split(&complete)));
        }
    }
}

/// The lines of a text, without their ends.
fn split(text: &Bytes) -> Vec<Bytes> {
    let text = text.slice(..text.len() - usize::from(text.ends_with(b"\n")));
    let line = |line: &[u8]| text.slice_ref(line);
    text.split(|byte| *byte == b'\n').map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(key_delimiter: Option<&str>, null_if_empty: bool) -> Reading {
        Reading {
            key: None,
            key_delimiter: key_delimiter.map(str::to_owned),
            json: false,
            null_if_empty,
            headers: Vec::new(),
            partition: None,
        }
    }

    #[test]
    fn lines_are_records_however_they_arrive() {
        struct Pieces(Vec<&'static [u8]>);
        impl Read for Pieces {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                if self.0.is_empty() {
                    return Ok(0);
                }
                let piece = self.0.remove(0);
                buffer[..piece.len()].copy_from_slice(piece);
                Ok(piece.len())
            }
        }
        let cases: [(&[&'static [u8]], &[&str]); 5] = [
            (&[], &[]),
            (&[b"a\nb\n"], &["a", "b"]),
            (&[b"a", b"b\nc"], &["ab", "c"]),
            (&[b"\n\na\n"], &["", "", "a"]),
            (&[b"a\r\n"], &["a\r"]),
        ];
        for (pieces, expected) in cases {
            let mut lines = Lines { source: Pieces(pieces.to_vec()), buffer: BytesMut::new(), is_at_end: false };
            let mut found = Vec::new();
            while let Some(chunk) = lines.next().unwrap() {
                found.extend(chunk);
            }
            assert_eq!(found, expected.iter().map(|line| line.as_bytes()).collect::<Vec<_>>(), "{pieces:?}");
        }
    }

    #[test]
    fn keys_stand_before_what_is_between() {
        let read = |line: &'static str, reading: Reading| {
            let record = reading.record(&Bytes::from_static(line.as_bytes()), 0)?;
            let text = |bytes: Option<Bytes>| bytes.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap());
            anyhow::Ok((text(record.key), text(record.value)))
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(read("a:b:c", reading(Some(":"), false)).unwrap(), (some("a"), some("b:c")));
        assert_eq!(read("a::", reading(Some("::"), true)).unwrap(), (some("a"), None));
        assert_eq!(read("", reading(None, false)).unwrap(), (None, some("")));
        let error = read("abc", reading(Some(":"), false)).unwrap_err().to_string();
        assert_eq!(error, "there is no \":\" between a key and a value");
    }
}
