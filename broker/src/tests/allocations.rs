//! What a request costs in allocations: a few for itself and its partitions, none for a record or a batch.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use taffrail_protocol::message::Request;
use taffrail_protocol::request;
use taffrail_runtime::time;

use super::cluster::{Cluster, FETCH_VERSION, PRODUCE_VERSION, batch, fetch_request, produce_request};
use crate::api::KafkaService;
use crate::client_info::Connection;
use crate::listener::service::{Reply, Service, Started};

/// How often each request is made; now and then one allocates for those to come (an index, a list), so the least counts.
const RUNS: usize = 50;

/// A client whose requests are handled on the thread of the test, which is the one whose allocations count.
struct Caller {
    service: KafkaService,
    connection: Connection,
}

impl Caller {
    fn new(cluster: &Cluster) -> Self {
        let service = KafkaService { broker: cluster.broker(), listener: "PLAINTEXT".into() };
        let connection = service.connected(SocketAddr::from(([127, 0, 0, 1], 1)));
        Self { service, connection }
    }

    /// Allocations for requests that arrive together, the making of their answers included.
    fn allocations(&self, frames: &[Bytes]) -> u64 {
        let once = || {
            let frames = frames.to_vec();
            let mut answered = 0;
            let counted = allocation_counter::measure(|| {
                let started = match <[Bytes; 1]>::try_from(frames) {
                    Ok([frame]) => vec![self.service.start(&self.connection, frame, time::monotonic())],
                    Err(frames) => self.service.start_together(&self.connection, frames, time::monotonic()),
                };
                answered =
                    started.into_iter().filter_map(reply).filter(|reply| matches!(reply, Reply::Frame(_))).count();
            });
            assert!(answered > 0, "the request was not answered at once");
            counted.count_total
        };
        (0..RUNS).map(|_| once()).min().unwrap()
    }
}

fn reply(started: Started) -> Option<Reply> {
    match started {
        Started::Done(reply) => Some(reply),
        Started::Running(work, _) => work.now_or_never(),
    }
}

/// A request without the length in front of it.
fn frame<R: Request>(version: i16, message: &R) -> Bytes {
    let mut out = BytesMut::new();
    request::encode(version, 1, Some("tests"), message, &mut out).unwrap();
    out.freeze().slice(4..)
}

fn produce(records: usize) -> Bytes {
    frame(PRODUCE_VERSION, &produce_request("t", 0, -1, batch(&vec![b"value".as_slice(); records])))
}

#[tokio::test]
async fn a_produce_allocates_for_its_request_and_not_for_records() {
    let cluster = Cluster::start().await;
    cluster.client().await.create_topic("t", 1, &[]).await;
    let caller = Caller::new(&cluster);
    let one = caller.allocations(&[produce(1)]);
    assert!(one <= 16, "{one} allocations");
    assert_eq!(caller.allocations(&[produce(5000)]), one, "records of a batch");
    let together = caller.allocations(&vec![produce(1); 32]);
    assert!(together <= 32 * one, "{together} allocations for 32 requests, {one} for one");
}

#[tokio::test]
async fn a_fetch_allocates_for_its_request_and_not_for_records_or_batches() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("t", 2, &[]).await;
    client.produce("t", 0, batch(&[b"value"])).await;
    for _ in 0..20 {
        client.produce("t", 1, batch(&[b"value".as_slice(); 100])).await;
    }
    let caller = Caller::new(&cluster);
    let fetch = |partition| frame(FETCH_VERSION, &fetch_request(&[("t", partition, 0)], 0, 1));
    let one = caller.allocations(&[fetch(0)]);
    assert!(one <= 32, "{one} allocations");
    let many = caller.allocations(&[fetch(1)]);
    assert!(many <= one, "{many} allocations for 20 batches of 100 records, {one} for a record");
}
