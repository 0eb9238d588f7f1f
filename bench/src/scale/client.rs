//! As much of a Kafka client as it takes to make topics and to see that they serve: one connection, requests of old
//! versions without tagged fields, which Apache Kafka 4.4 serves as well.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use taffrail_core::record::{BatchBuilder, BatchOptions};

/// How long an answer may take: making many topics takes long on a slow disk.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// Largest answer that is taken.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Bytes of a record's value.
const VALUE_BYTES: usize = 100;

/// Keys and versions of the requests.
const PRODUCE: (i16, i16) = (0, 3);
const LIST_OFFSETS: (i16, i16) = (2, 1);
const CREATE_TOPICS: (i16, i16) = (19, 2);
const INIT_PRODUCER_ID: (i16, i16) = (22, 0);

/// The refusal that says that a topic is there already.
const TOPIC_ALREADY_EXISTS: i16 = 36;

/// What an idempotent producer puts into its batches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Producer {
    id: i64,
    epoch: i16,
}

/// A connection.
pub(super) struct Client {
    stream: TcpStream,
    correlation: i32,
}

impl Client {
    /// Connects once.
    ///
    /// # Errors
    /// When nobody listens.
    pub(super) fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self { stream, correlation: 0 })
    }

    /// Makes a topic; one that is there is as good.
    ///
    /// # Errors
    /// When it is refused.
    pub(super) fn create_topic(&mut self, name: &str, partitions: i32) -> io::Result<()> {
        let mut body = BytesMut::new();
        body.put_i32(1);
        put_string(&mut body, name);
        body.put_i32(partitions);
        body.put_i16(1);
        // Neither assignments nor settings.
        body.put_i32(0);
        body.put_i32(0);
        body.put_i32(ANSWER_TIMEOUT.as_millis() as i32);
        body.put_u8(0);
        let mut answer = self.ask(CREATE_TOPICS, &body)?;
        skip(&mut answer, 8)?;
        skip_string(&mut answer)?;
        match answer.try_get_i16().map_err(io::Error::other)? {
            0 | TOPIC_ALREADY_EXISTS => Ok(()),
            code => Err(io::Error::other(format!("making {name}: error {code}"))),
        }
    }

    /// Gets a producer id.
    ///
    /// # Errors
    /// When it is refused.
    pub(super) fn init_producer(&mut self) -> io::Result<Producer> {
        let mut body = BytesMut::new();
        body.put_i16(-1);
        body.put_i32(60_000);
        let mut answer = self.ask(INIT_PRODUCER_ID, &body)?;
        skip(&mut answer, 4)?;
        match answer.try_get_i16().map_err(io::Error::other)? {
            0 => Ok(Producer {
                id: answer.try_get_i64().map_err(io::Error::other)?,
                epoch: answer.try_get_i16().map_err(io::Error::other)?,
            }),
            code => Err(io::Error::other(format!("a producer id: error {code}"))),
        }
    }

    /// Writes a batch of one record, the first of this producer, to each of `partitions`, in one request with acks=all.
    ///
    /// # Errors
    /// When one is refused.
    pub(super) fn produce(
        &mut self,
        topic: &str,
        partitions: std::ops::Range<i32>,
        producer: Option<Producer>,
    ) -> io::Result<()> {
        let batch = batch(producer)?;
        let mut body = BytesMut::new();
        body.put_i16(-1);
        body.put_i16(-1);
        body.put_i32(ANSWER_TIMEOUT.as_millis() as i32);
        body.put_i32(1);
        put_string(&mut body, topic);
        body.put_i32(partitions.len() as i32);
        for partition in partitions {
            body.put_i32(partition);
            body.put_i32(batch.len() as i32);
            body.put_slice(&batch);
        }
        let answer = self.ask(PRODUCE, &body)?;
        check_partitions(answer, 16)
    }

    /// Asks for the end of each of a topic's partitions; all must serve.
    ///
    /// # Errors
    /// When one does not.
    pub(super) fn check_serving(&mut self, topic: &str, partitions: i32) -> io::Result<()> {
        let mut body = BytesMut::new();
        body.put_i32(-1);
        body.put_i32(1);
        put_string(&mut body, topic);
        body.put_i32(partitions);
        for partition in 0..partitions {
            body.put_i32(partition);
            body.put_i64(-1);
        }
        let answer = self.ask(LIST_OFFSETS, &body)?;
        check_partitions(answer, 16)
    }

    /// Sends a request and waits for its answer, of which what follows the correlation id is given.
    fn ask(&mut self, (key, version): (i16, i16), body: &[u8]) -> io::Result<Bytes> {
        self.correlation += 1;
        let mut frame = BytesMut::new();
        frame.put_i32(0);
        frame.put_i16(key);
        frame.put_i16(version);
        frame.put_i32(self.correlation);
        put_string(&mut frame, "taffrail-bench");
        frame.put_slice(body);
        let length = frame.len() - 4;
        frame[..4].copy_from_slice(&(length as u32).to_be_bytes());
        self.stream.write_all(&frame)?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        if !(4..=ANSWER_BYTES_MAX).contains(&length) {
            return Err(io::Error::other(format!("an answer of {length} bytes")));
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer)?;
        let mut answer = Bytes::from(answer);
        let correlation = answer.get_i32();
        if correlation != self.correlation {
            return Err(io::Error::other(format!("answer {correlation} where {} was due", self.correlation)));
        }
        Ok(answer)
    }
}

/// A batch of one record, stamped now.
fn batch(producer: Option<Producer>) -> io::Result<Bytes> {
    let mut options = BatchOptions::default();
    if let Some(producer) = producer {
        options.producer_id = producer.id;
        options.producer_epoch = producer.epoch;
        options.base_sequence = 0;
    }
    let mut builder = BatchBuilder::new(options);
    let now_ms = taffrail_runtime::time::unix_ms();
    builder.push(now_ms, None, Some(&[b'v'; VALUE_BYTES])).map_err(io::Error::other)?;
    builder.build().map_err(io::Error::other).map(Into::into)
}

/// Looks through the answer about one topic: of each partition its number, an error, and `rest` more bytes.
fn check_partitions(mut answer: Bytes, rest: usize) -> io::Result<()> {
    skip(&mut answer, 4)?;
    skip_string(&mut answer)?;
    for _ in 0..answer.try_get_i32().map_err(io::Error::other)? {
        let partition = answer.try_get_i32().map_err(io::Error::other)?;
        let code = answer.try_get_i16().map_err(io::Error::other)?;
        if code != 0 {
            return Err(io::Error::other(format!("partition {partition}: error {code}")));
        }
        skip(&mut answer, rest)?;
    }
    Ok(())
}

fn put_string(body: &mut BytesMut, text: &str) {
    body.put_i16(text.len() as i16);
    body.put_slice(text.as_bytes());
}

fn skip(answer: &mut Bytes, bytes: usize) -> io::Result<()> {
    if answer.len() < bytes {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    answer.advance(bytes);
    Ok(())
}

fn skip_string(answer: &mut Bytes) -> io::Result<()> {
    let length = answer.try_get_i16().map_err(io::Error::other)?;
    skip(answer, usize::try_from(length).unwrap_or(0))
}
