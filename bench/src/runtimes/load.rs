//! The load: connections that keep a fixed number of requests in flight.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use taffrail_runtime::net::{self, TcpStream};
use taffrail_runtime::shard::Shards;
use taffrail_runtime::time::{self, Instant};
use tokio::io::AsyncWriteExt;

use super::wire::{self, ANSWER_BYTES, LENGTH_BYTES};

/// Threads that make the load.
const THREADS: usize = 2;
/// Room for a read.
const READ_BYTES: usize = 16 * 1024;

/// How much at once.
pub(super) struct Load {
    pub(super) connections: usize,
    /// Requests in flight of each connection.
    pub(super) in_flight: usize,
    pub(super) partitions: usize,
}

/// Connections at work.
pub(super) struct Running {
    results: mpsc::Receiver<io::Result<Vec<u32>>>,
    connections: usize,
    _threads: Shards,
}

/// Starts all connections. Answers count that come between `warm_up` and `run` after that.
///
/// # Errors
/// When there are no threads to be had.
pub(super) fn start(address: SocketAddr, load: &Load, warm_up: Duration, run: Duration) -> io::Result<Running> {
    let threads = Shards::start(THREADS, "load")?;
    let (sender, results) = mpsc::channel();
    let begin = time::monotonic() + warm_up;
    for index in 0..load.connections {
        let sender = sender.clone();
        let (in_flight, partitions) = (load.in_flight, load.partitions);
        let connect = move || async move {
            let result = async {
                let stream = net::connect(&address.to_string()).await?;
                let client = Client::new(stream, index, partitions)?;
                client.run(in_flight, begin, begin + run).await
            };
            // Nobody waits any more if another connection has failed.
            let _ = sender.send(result.await);
        };
        threads.spawn_on(index, connect).map_err(io::Error::other)?;
    }
    Ok(Running { results, connections: load.connections, _threads: threads })
}

impl Running {
    /// Waits for the end; gives the microseconds that each counted request took.
    ///
    /// # Errors
    /// When a connection failed.
    pub(super) fn finish(self) -> io::Result<Vec<u32>> {
        let mut waits_us = Vec::new();
        for _ in 0..self.connections {
            waits_us.extend(self.results.recv().map_err(io::Error::other)??);
        }
        Ok(waits_us)
    }
}

/// One connection.
struct Client {
    stream: TcpStream,
    partitions: usize,
    /// Partition of the request with correlation id 0; those behind it go around.
    first_partition: usize,
    frame: BytesMut,
    /// Correlation id of the next request.
    next: u32,
    /// When the requests in flight were sent, oldest first.
    sent: VecDeque<Instant>,
    to_send: BytesMut,
    received: BytesMut,
}

impl Client {
    fn new(stream: TcpStream, index: usize, partitions: usize) -> io::Result<Self> {
        Ok(Self {
            stream,
            partitions,
            first_partition: index,
            frame: wire::request()?,
            next: 0,
            sent: VecDeque::new(),
            to_send: BytesMut::new(),
            received: BytesMut::new(),
        })
    }

    /// Sends a new request for each answer until `end`.
    async fn run(mut self, in_flight: usize, begin: Instant, end: Instant) -> io::Result<Vec<u32>> {
        let mut waits_us = Vec::new();
        self.send(in_flight).await?;
        loop {
            self.stream.readable().await?;
            self.received.reserve(READ_BYTES);
            match self.stream.try_read_buf(&mut self.received) {
                Ok(0) => return Err(io::Error::other("the server closed a connection")),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            }
            let now = time::monotonic();
            if now >= end {
                return Ok(waits_us);
            }
            let mut answers = 0;
            while self.received.len() >= ANSWER_BYTES {
                let sent = self.take_answer()?;
                if now >= begin {
                    waits_us.push((now - sent).as_micros() as u32);
                }
                answers += 1;
            }
            self.send(answers).await?;
        }
    }

    async fn send(&mut self, count: usize) -> io::Result<()> {
        let now = time::monotonic();
        for _ in 0..count {
            let partition = (self.first_partition + self.next as usize) % self.partitions;
            wire::readdress(&mut self.frame, self.next, partition);
            self.to_send.extend_from_slice(&self.frame);
            self.sent.push_back(now);
            self.next = self.next.wrapping_add(1);
        }
        self.stream.write_all(&self.to_send).await?;
        self.to_send.clear();
        Ok(())
    }

    /// Takes the answer to the oldest request; tells when that was sent.
    fn take_answer(&mut self) -> io::Result<Instant> {
        let mut answer = self.received.split_to(ANSWER_BYTES);
        let expected = self.next.wrapping_sub(self.sent.len() as u32);
        let (length, correlation) = (answer.get_u32() as usize, answer.get_u32());
        match self.sent.pop_front() {
            Some(sent) if length == ANSWER_BYTES - LENGTH_BYTES && correlation == expected => Ok(sent),
            _ => Err(io::Error::other(format!("an answer to request {correlation} in place of {expected}"))),
        }
    }
}
