//! A leader that a test plays: it hears what the broker under test asks, and answers what the test says.

use std::io::IoSlice;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::{BrokerId, TopicId};
use taffrail_core::record::{BatchHeader, patch_prefix};
use taffrail_protocol::data::TopicRef;
use taffrail_protocol::fetch::{Chunk, FetchPartition, FetchRequestView, FetchResponse, PartitionFetched};
use taffrail_protocol::frame::FrameReader;
use taffrail_protocol::header::{self, RequestHeader};
use taffrail_protocol::message::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use taffrail_protocol::message::{ListOffsetsRequest, ListOffsetsResponse};
use taffrail_protocol::versions::ApiKey;
use taffrail_protocol::{api_versions, request, response};
use taffrail_runtime::net::{TcpListener, TcpStream};
use taffrail_runtime::{task, time};
use tokio::sync::{mpsc, oneshot};

use super::cluster::{Cluster, SOON, batch};

/// The session that the leader gives.
pub(super) const SESSION: i32 = 77;

/// Epoch of its leadership.
const EPOCH: i32 = 0;

/// The other broker.
pub(super) struct Leader {
    asked: mpsc::UnboundedReceiver<Asked>,
    pub(super) topic: TopicId,
}

/// A request that waits for the test's answer.
pub(super) struct Asked {
    header: RequestHeader,
    body: Bytes,
    answer: oneshot::Sender<Option<Bytes>>,
}

/// A Fetch request that waits for the test's answer.
pub(super) struct AskedToFetch {
    pub(super) request: FetchRequestView,
    asked: Asked,
}

impl Leader {
    /// Broker 2 joins the cluster, and leads the partitions of a new topic "t", which broker 1 follows.
    pub(super) async fn of(cluster: &Cluster, partitions: usize) -> Self {
        let socket = TcpListener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let port = socket.local_addr().unwrap().port();
        cluster.join(BrokerId(2), port, None).await;
        let (sender, asked) = mpsc::unbounded_channel();
        drop(task::spawn(async move {
            while let Ok((stream, _)) = socket.accept().await {
                drop(task::spawn(serve(stream.attach().unwrap(), sender.clone())));
            }
        }));
        let replicas: Vec<&[i32]> = vec![&[2, 1]; partitions];
        cluster.client().await.create_topic_on("t", &replicas, &[]).await;
        Self { asked, topic: cluster.topic("t").id }
    }

    async fn next(&mut self) -> Asked {
        time::timeout(SOON, self.asked.recv()).await.unwrap().unwrap()
    }

    /// The next request, which must be a Fetch.
    pub(super) async fn fetch(&mut self) -> AskedToFetch {
        let asked = self.next().await;
        assert_eq!(asked.header.key, ApiKey::Fetch);
        let request = FetchRequestView::decode(asked.header.version, asked.body.clone()).unwrap();
        AskedToFetch { request, asked }
    }

    /// The next Fetch, once it has been told `answers`.
    pub(super) async fn answer(&mut self, answers: Vec<PartitionFetched<Bytes>>) -> AskedToFetch {
        let fetch = self.fetch().await;
        fetch.answer(self.topic, answers);
        self.fetch().await
    }

    /// Answers the next request, a ListOffsets of one partition, with `offset`; gives the timestamp in it.
    pub(super) async fn tell_offset(&mut self, offset: i64) -> i64 {
        let asked = self.next().await;
        assert_eq!(asked.header.key, ApiKey::ListOffsets);
        let version = asked.header.version;
        let read: ListOffsetsRequest = request::decode(version, asked.body.clone()).unwrap();
        assert_eq!(read.replica_id.0, 1);
        let (topic, partition) = (&read.topics[0], &read.topics[0].partitions[0]);
        assert_eq!(partition.current_leader_epoch, EPOCH);
        let told =
            ListOffsetsPartitionResponse::default().with_partition_index(partition.partition_index).with_offset(offset);
        let told = ListOffsetsTopicResponse::default().with_name(topic.name.clone()).with_partitions(vec![told]);
        let mut out = BytesMut::new();
        let message = ListOffsetsResponse::default().with_topics(vec![told]);
        response::encode(version, asked.header.correlation_id, &message, &mut out).unwrap();
        asked.answer.send(Some(out.freeze())).unwrap();
        partition.timestamp
    }
}

impl AskedToFetch {
    /// What is asked: partition, offset, epoch of the last record.
    pub(super) fn asked(&self) -> Vec<(i32, i64, i32)> {
        let partitions = self.request.topics().flat_map(|(_, partitions)| partitions);
        partitions
            .map(|FetchPartition { index, fetch_offset, last_fetched_epoch, .. }| {
                (*index, *fetch_offset, *last_fetched_epoch)
            })
            .collect()
    }

    /// What is not wanted any more.
    pub(super) fn forgotten(&self) -> Vec<i32> {
        self.request.forgotten.iter().flat_map(|(_, partitions)| partitions.clone()).collect()
    }

    /// Answers in the session.
    pub(super) fn answer(self, topic: TopicId, answers: Vec<PartitionFetched<Bytes>>) {
        let topics = if answers.is_empty() { Vec::new() } else { vec![(TopicRef::Id(topic), answers)] };
        self.send(FetchResponse { session_id: SESSION, topics, ..FetchResponse::default() });
    }

    /// Refuses the whole request.
    pub(super) fn refuse(self, error: ErrorCode) {
        self.send(FetchResponse { error, ..FetchResponse::default() });
    }

    /// Closes the connection.
    pub(super) fn hang_up(self) {
        let _ = self.asked.answer.send(None);
    }

    /// Sends bytes that are no answer.
    pub(super) fn answer_raw(self, bytes: Bytes) {
        let _ = self.asked.answer.send(Some(bytes));
    }

    fn send(self, response: FetchResponse<Bytes>) {
        let RequestHeader { version, correlation_id, .. } = self.asked.header;
        let mut out = BytesMut::new();
        for Chunk::Bytes(bytes) | Chunk::Records(bytes) in response.into_chunks(version, correlation_id).unwrap() {
            out.extend_from_slice(&bytes);
        }
        let _ = self.asked.answer.send(Some(out.freeze()));
    }
}

/// Reads requests and hands them to the test; answers leave in the order of the requests.
async fn serve(mut stream: TcpStream, asked: mpsc::UnboundedSender<Asked>) {
    let (mut receiving, sending) = stream.split();
    let (due, mut answers) = mpsc::unbounded_channel::<oneshot::Receiver<Option<Bytes>>>();
    let reading = async move {
        let (frames, mut received) = (FrameReader::for_requests(1 << 20), BytesMut::with_capacity(1 << 16));
        while receiving.read_buf(&mut received).await.is_ok_and(|bytes| bytes > 0) {
            while let Some(mut body) = frames.next(&mut received).unwrap() {
                let header = header::parse(&mut body).unwrap();
                let (answer, answered) = oneshot::channel();
                due.send(answered).unwrap();
                if header.key == ApiKey::ApiVersions {
                    let mut out = BytesMut::new();
                    let versions = api_versions::response(header.version, &[], 0);
                    response::encode(header.version, header.correlation_id, &versions, &mut out).unwrap();
                    answer.send(Some(out.freeze())).unwrap();
                } else if asked.send(Asked { header, body, answer }).is_err() {
                    return;
                }
            }
            received.reserve(1 << 16);
        }
    };
    let writing = async move {
        while let Some(answer) = answers.recv().await {
            let Ok(Some(mut bytes)) = answer.await else { return };
            while !bytes.is_empty() {
                let Ok(written) = sending.write_vectored(&[IoSlice::new(&bytes)], false).await else { return };
                bytes.advance(written);
            }
        }
    };
    // Whichever ends first ends the connection.
    tokio::select! {
        () = reading => {}
        () = writing => {}
    }
}

/// What the leader says of a partition that it can serve.
pub(super) fn told(index: i32, high_watermark: i64) -> PartitionFetched<Bytes> {
    PartitionFetched { high_watermark, log_start_offset: 0, ..PartitionFetched::failed(index, ErrorCode::None) }
}

/// The same, with records.
pub(super) fn gave(index: i32, high_watermark: i64, records: &[Vec<u8>]) -> PartitionFetched<Bytes> {
    PartitionFetched { records: vec![Bytes::from(records.concat())], ..told(index, high_watermark) }
}

/// A batch of so many records as it lies in the leader's log.
pub(super) fn led(base_offset: i64, leader_epoch: i32, records: usize) -> Vec<u8> {
    let mut bytes = batch(&vec![&b"value"[..]; records]);
    let header = BatchHeader::parse(&bytes).unwrap();
    bytes[..16].copy_from_slice(&patch_prefix(base_offset, leader_epoch, &header));
    bytes
}

/// The broker's log of a partition of "t".
pub(super) fn log(cluster: &Cluster, partition: i32) -> Arc<taffrail_storage::Log> {
    Arc::clone(cluster.partition("t", partition).log())
}
