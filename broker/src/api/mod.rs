//! From the frame of a request to the frame of its answer.
//!
//! One file for each request. A handler takes the decoded request and gives the response; decoding, encoding, counting and
//! the order of answers are done here and in the listener. Produce and Fetch have ways of their own, because the bytes are
//! there.

mod add_raft_voter;
mod alter_configs;
mod alter_partition_reassignments;
mod api_versions;
mod broker_loggers;
mod config_changes;
mod create_partitions;
mod create_topics;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_quorum;
mod describe_topic_partitions;
mod elect_leaders;
mod fetch;
mod find_coordinator;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leave_group;
mod list_groups;
mod list_offsets;
mod list_partition_reassignments;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
mod remove_raft_voter;
mod sasl_authenticate;
mod sasl_handshake;
mod sync_group;
mod unregister_broker;
pub(crate) mod wire;

pub(crate) use init_producer_id::ProducerIds;

use std::rc::Rc;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use taffrail_protocol::header::{self, HeaderError};
use taffrail_protocol::message::{Request, Response};
use taffrail_protocol::versions::ApiKey;
use taffrail_protocol::{request, response};
use taffrail_runtime::time::{self, Instant};

use crate::broker::Broker;
use crate::client_info::{ClientInfo, Connection};
use crate::listener::service::{CloseReason, Frame, Pace, Reply, Service, Started};
use crate::metrics::{RequestKind, Times};

/// A guess at the size of an ordinary answer.
const ANSWER_BYTES: usize = 256;

/// The requests of one listener.
pub(crate) struct KafkaService {
    pub(crate) broker: Arc<Broker>,
    pub(crate) listener: Arc<str>,
}

/// A request on its way through a handler.
pub(crate) struct Call {
    pub(crate) broker: Arc<Broker>,
    pub(crate) client: Rc<ClientInfo>,
    pub(crate) key: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    pub(crate) body: Bytes,
    /// As what it is counted.
    pub(crate) kind: RequestKind,
    pub(crate) arrived: Instant,
    pub(crate) started: Instant,
}

impl Service for KafkaService {
    type Connection = Connection;

    fn connected(&self, peer: std::net::SocketAddr) -> Connection {
        Connection::new(peer, &self.listener)
    }

    fn start(&self, connection: &Connection, frame: Bytes, arrived: Instant) -> Started {
        self.open(connection, frame, arrived).map_or_else(Started::Done, dispatch)
    }

    fn is_joinable(&self, frame: &[u8]) -> bool {
        header::peek_key(frame) == Some(ApiKey::Produce)
    }

    fn start_together(&self, connection: &Connection, frames: Vec<Bytes>, arrived: Instant) -> Vec<Started> {
        let mut calls = Vec::with_capacity(frames.len());
        for frame in frames {
            match self.open(connection, frame, arrived) {
                Ok(call) => calls.push(call),
                // What comes behind the end of a connection is not started.
                Err(reply) => {
                    let mut started = produce::start_all(calls);
                    started.push(Started::Done(reply));
                    return started;
                }
            }
        }
        produce::start_all(calls)
    }

    fn sent(&self, times: &Times, taken: Instant, sent: Instant) {
        self.broker.metrics.requests.sent(times, taken, sent);
    }
}

impl KafkaService {
    /// Reads the header of a request.
    ///
    /// # Errors
    /// The answer to a request that has no header that we know.
    fn open(&self, connection: &Connection, frame: Bytes, arrived: Instant) -> Result<Call, Reply> {
        let mut body = frame;
        let header = match header::parse(&mut body) {
            Ok(header) => header,
            Err(HeaderError::UnsupportedVersion { key: ApiKey::ApiVersions, correlation_id, .. }) => {
                return Err(api_versions::unsupported(correlation_id));
            }
            Err(error) => return Err(Reply::Close(CloseReason::BadRequest(error.to_string()))),
        };
        Ok(Call {
            broker: Arc::clone(&self.broker),
            client: connection.client(header.client_id.as_deref().unwrap_or_default()),
            key: header.key,
            version: header.version,
            correlation_id: header.correlation_id,
            body,
            kind: RequestKind::of(header.key),
            arrived,
            started: time::monotonic(),
        })
    }
}

/// Whose turn it is for each key.
fn dispatch(call: Call) -> Started {
    match call.key {
        ApiKey::Produce => produce::start(call),
        ApiKey::Fetch => fetch::start(call),
        ApiKey::ListOffsets => call.answer(Pace::Alone, list_offsets::handle),
        ApiKey::Metadata => call.answer(Pace::Alone, metadata::handle),
        ApiKey::SaslHandshake => call.answer(Pace::Alone, sasl_handshake::handle),
        ApiKey::SaslAuthenticate => call.answer(Pace::Alone, sasl_authenticate::handle),
        ApiKey::ApiVersions => call.answer(Pace::Alone, api_versions::handle),
        ApiKey::CreateTopics => call.answer(Pace::Alone, create_topics::handle),
        ApiKey::DeleteTopics => call.answer(Pace::Alone, delete_topics::handle),
        ApiKey::DeleteRecords => call.answer(Pace::Alone, delete_records::handle),
        ApiKey::InitProducerId => call.answer(Pace::Alone, init_producer_id::handle),
        ApiKey::OffsetForLeaderEpoch => call.answer(Pace::Alone, offset_for_leader_epoch::handle),
        ApiKey::DescribeConfigs => call.answer(Pace::Alone, describe_configs::handle),
        ApiKey::AlterConfigs => call.answer(Pace::Alone, alter_configs::handle),
        ApiKey::DescribeLogDirs => call.answer(Pace::Alone, describe_log_dirs::handle),
        ApiKey::CreatePartitions => call.answer(Pace::Alone, create_partitions::handle),
        ApiKey::IncrementalAlterConfigs => call.answer(Pace::Alone, incremental_alter_configs::handle),
        ApiKey::DescribeCluster => call.answer(Pace::Alone, describe_cluster::handle),
        ApiKey::DescribeTopicPartitions => call.answer(Pace::Alone, describe_topic_partitions::handle),
        ApiKey::DescribeQuorum => call.answer(Pace::Alone, describe_quorum::handle),
        ApiKey::ElectLeaders => call.answer(Pace::Alone, elect_leaders::handle),
        ApiKey::AlterPartitionReassignments => call.answer(Pace::Alone, alter_partition_reassignments::handle),
        ApiKey::ListPartitionReassignments => call.answer(Pace::Alone, list_partition_reassignments::handle),
        ApiKey::UnregisterBroker => call.answer(Pace::Alone, unregister_broker::handle),
        // Wait for the new voter to catch up, or for the commit.
        ApiKey::AddRaftVoter => call.answer(Pace::Waiting, add_raft_voter::handle),
        ApiKey::RemoveRaftVoter => call.answer(Pace::Waiting, remove_raft_voter::handle),
        ApiKey::FindCoordinator => call.answer(Pace::Alone, find_coordinator::handle),
        // Waits for other members; a heartbeat or a leave behind it must not wait for them.
        ApiKey::JoinGroup => call.answer(Pace::Waiting, join_group::handle),
        ApiKey::SyncGroup => call.answer(Pace::Waiting, sync_group::handle),
        ApiKey::Heartbeat => call.answer(Pace::Alone, heartbeat::handle),
        ApiKey::LeaveGroup => call.answer(Pace::Alone, leave_group::handle),
        ApiKey::OffsetCommit => call.answer(Pace::Alone, offset_commit::handle),
        ApiKey::OffsetFetch => call.answer(Pace::Alone, offset_fetch::handle),
        ApiKey::OffsetDelete => call.answer(Pace::Alone, offset_delete::handle),
        ApiKey::DescribeGroups => call.answer(Pace::Alone, describe_groups::handle),
        ApiKey::ListGroups => call.answer(Pace::Alone, list_groups::handle),
        ApiKey::DeleteGroups => call.answer(Pace::Alone, delete_groups::handle),
    }
}

impl Call {
    /// Decodes the request and has `handler` answer it.
    fn answer<R, H>(mut self, pace: Pace, handler: H) -> Started
    where
        R: Request + 'static,
        H: AsyncFn(&Broker, &ClientInfo, R, i16) -> R::Response + 'static,
    {
        let request = match request::decode::<R>(self.version, std::mem::take(&mut self.body)) {
            Ok(request) => request,
            Err(error) => return Started::Done(self.undecodable(&error)),
        };
        let work = async move {
            let response = handler(&self.broker, &self.client, request, self.version).await;
            self.reply(&response)
        };
        Started::Running(Box::pin(work), pace)
    }

    /// What a client gets whose request cannot be decoded: nothing more, as from Kafka.
    pub(crate) fn undecodable(&self, error: &request::DecodeError) -> Reply {
        self.unanswered();
        Reply::Close(CloseReason::BadRequest(error.to_string()))
    }

    /// Counts a request that gets no answer.
    pub(crate) fn unanswered(&self) {
        self.broker.metrics.requests.unanswered(&self.times());
    }

    /// When what happened to this request, which is answered now.
    fn times(&self) -> Times {
        Times::answered_now(self.kind, self.arrived, self.started)
    }

    fn reply<R: Response>(&self, message: &R) -> Reply {
        let mut out = BytesMut::with_capacity(ANSWER_BYTES);
        let encoded = response::encode(self.version, self.correlation_id, message, &mut out);
        self.encoded(encoded.map(|()| Frame::from(out.freeze())))
    }

    /// The reply for an encoded response, which is counted when it has been sent.
    pub(crate) fn encoded(&self, encoded: Result<Frame, request::EncodeError>) -> Reply {
        match encoded {
            Ok(frame) => Reply::Frame(Frame { times: Some(self.times()), ..frame }),
            // A mistake of ours; the client would wait for ever if its connection stayed.
            Err(error) => {
                tracing::error!(%error, "a response could not be encoded");
                self.unanswered();
                Reply::Close(CloseReason::BadRequest(error.to_string()))
            }
        }
    }
}
