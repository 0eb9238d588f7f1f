//! The gRPC service that brokers, the operator and the command line call.

use std::sync::Arc;

use bytes::Bytes;
use taffrail_core::control::{Command, ControlError, Sign};
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::Uuid;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::persisted::metadata::snapshot_messages;
use taffrail_protocol::rpc::v1::controller_client::ControllerClient;
use taffrail_protocol::rpc::v1::controller_server::Controller as ControllerRpc;
use taffrail_protocol::rpc::{
    FormatError, RPC_VERSION, check_version, command_from_message, id_from_bytes, id_to_bytes, refusal_to_message,
    reply_to_message, required, v1,
};
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::task;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Request, Response, Status, Streaming};

use crate::decider::{Proposer, Refused, not_active, refuse_unless_active};
use crate::heartbeats::{self, Answer, Heartbeats, Unanswered};
use crate::machine::feed::{Feed, Step};
use crate::quorum::describe::{change_voters, describe};
use crate::quorum::formation::Seat;
use crate::quorum::liveness::Liveness;
use crate::quorum::members::{MemberError, Members};
use crate::quorum::view::active;
use crate::raft::links::Links;
use crate::raft::{Member, NodeId, Raft};

/// Updates that wait for one follower: a slow one holds no more than this in memory.
const UPDATES_WAITING_MAX: usize = 4;

/// Batches taken from the feed in one go.
const BATCHES_MAX: usize = 64;

type Update = Result<v1::MetadataUpdate, Status>;

/// Answers the calls of `taffrail.v1.Controller`.
pub(crate) struct ControllerService {
    pub(crate) node: NodeId,
    pub(crate) raft: Raft,
    pub(crate) feed: Arc<Feed>,
    pub(crate) heartbeats: Arc<Heartbeats>,
    pub(crate) links: Arc<Links>,
    pub(crate) seat: Arc<Seat>,
    pub(crate) members: Arc<Members>,
    pub(crate) liveness: Arc<Liveness>,
    pub(crate) proposer: Proposer,
    pub(crate) shutdown: Shutdown,
}

impl ControllerService {
    /// The active controller, if it is another one.
    fn other_active(&self) -> Option<Refused> {
        refuse_unless_active(&self.raft, &self.liveness).err()
    }

    /// Takes note of the cluster that the caller knows: it is not founded a second time.
    fn note_cluster(&self, bytes: Option<&Bytes>) -> Result<Option<Uuid>, Status> {
        let cluster_id = bytes.map(|bytes| id_from_bytes("a request", "cluster_id", bytes)).transpose();
        let cluster_id = cluster_id.map_err(|error| refused(&error))?;
        if let Some(known) = cluster_id.filter(|_| self.feed.image().cluster_id().is_none()) {
            self.seat.tell(known);
        }
        Ok(cluster_id)
    }

    /// Calls to the active controller that a refusal names, if that is another one: a caller that cannot reach it itself is
    /// served all the same.
    fn forwarder(&self, refused: &Refused) -> Option<ControllerClient<Channel>> {
        let (node, member) = refused.active.as_ref().filter(|(node, _)| *node != self.node)?;
        let client = self.links.controller(&member.address);
        client.inspect_err(|error| tracing::warn!(%node, %error, "the active controller's address is wrong")).ok()
    }

    async fn forward_proposal(&self, refused: &Refused, mut request: v1::ProposeRequest) -> Option<v1::ProposeReply> {
        let mut client = self.forwarder(refused)?;
        request.forwarded = true;
        let mut reply = client.propose(request).await.ok()?.into_inner();
        reply.active = reply.active.or_else(|| refused.active.clone().map(address));
        Some(reply)
    }

    async fn forward_heartbeat(
        &self,
        refused: &Refused,
        mut request: v1::HeartbeatRequest,
    ) -> Option<v1::HeartbeatReply> {
        let mut client = self.forwarder(refused)?;
        request.forwarded = true;
        let mut reply = client.heartbeat(request).await.ok()?.into_inner();
        reply.active = reply.active.or_else(|| refused.active.clone().map(address));
        Some(reply)
    }
}

pub(crate) fn refused(error: &FormatError) -> Status {
    match error {
        FormatError::NewerVersion { .. } => Status::failed_precondition(error.to_string()),
        _ => Status::invalid_argument(error.to_string()),
    }
}

pub(crate) fn checked(found: u32) -> Result<(), Status> {
    check_version("a request", found, RPC_VERSION).map_err(|error| refused(&error))
}

pub(crate) fn address(active: (NodeId, Member)) -> v1::ControllerAddress {
    v1::ControllerAddress { id: active.0.controller, address: active.1.address }
}

#[tonic::async_trait]
impl ControllerRpc for ControllerService {
    type FollowStream = ReceiverStream<Update>;
    type AttendStream = ReceiverStream<Answer>;

    async fn propose(&self, request: Request<v1::ProposeRequest>) -> Result<Response<v1::ProposeReply>, Status> {
        use v1::propose_reply::Outcome;
        let request = request.into_inner();
        checked(request.format_version)?;
        let command = required("a request", "command", request.command.clone()).and_then(command_from_message);
        let outcome = match command.map_err(|error| refused(&error))? {
            // Founding is the business of whoever holds the grant, in its own process.
            Command::CreateCluster { .. } => {
                let text = "A cluster is founded by a bootstrap grant only.";
                Err(ControlError::new(ErrorCode::InvalidRequest, text).into())
            }
            command => self.proposer.propose(command).await,
        };
        let mut reply = v1::ProposeReply { format_version: RPC_VERSION, ..v1::ProposeReply::default() };
        match outcome {
            Ok(committed) => {
                reply.outcome = Some(Outcome::Reply(reply_to_message(&committed.reply)));
                reply.metadata_offset = committed.offset;
            }
            Err(refused) => {
                if !request.forwarded
                    && let Some(reply) = self.forward_proposal(&refused, request).await
                {
                    return Ok(Response::new(reply));
                }
                reply.outcome = Some(Outcome::Refusal(refusal_to_message(&refused.error)));
                reply.active = refused.active.map(address);
            }
        }
        Ok(Response::new(reply))
    }

    async fn follow(&self, request: Request<v1::FollowRequest>) -> Result<Response<Self::FollowStream>, Status> {
        let request = request.into_inner();
        checked(request.format_version)?;
        let cluster_id = self.note_cluster(request.cluster_id.as_ref())?;
        if let (Some(theirs), Some(ours)) = (cluster_id, self.feed.image().cluster_id())
            && theirs != ours
        {
            return Err(Status::failed_precondition(format!("this is cluster {ours}, not {theirs}")));
        }
        if request.from_offset < 0 {
            return Err(Status::invalid_argument(format!("{} is no metadata offset", request.from_offset)));
        }
        let (sender, receiver) = mpsc::channel(UPDATES_WAITING_MAX);
        let (feed, shutdown) = (Arc::clone(&self.feed), self.shutdown.clone());
        task::spawn(async move {
            tokio::select! {
                () = feed_follower(&feed, request.from_offset, &sender) => {}
                () = sender.closed() => {}
                () = shutdown.triggered() => {}
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn heartbeat(&self, request: Request<v1::HeartbeatRequest>) -> Result<Response<v1::HeartbeatReply>, Status> {
        let request = request.into_inner();
        let refused = match self.heartbeats.judge(&request, Sign::Call).await {
            Ok(reply) => return Ok(Response::new(reply)),
            Err(Unanswered::Status(status)) => return Err(status),
            Err(Unanswered::Refused(refused)) => refused,
        };
        if !request.forwarded
            && let Some(reply) = self.forward_heartbeat(&refused, request).await
        {
            return Ok(Response::new(reply));
        }
        Ok(Response::new(heartbeats::refusal(refused)))
    }

    async fn attend(
        &self,
        request: Request<Streaming<v1::HeartbeatRequest>>,
    ) -> Result<Response<Self::AttendStream>, Status> {
        Ok(Response::new(Arc::clone(&self.heartbeats).attend(request.into_inner())))
    }

    async fn status(&self, request: Request<v1::StatusRequest>) -> Result<Response<v1::StatusReply>, Status> {
        let request = request.into_inner();
        checked(request.format_version)?;
        self.note_cluster(request.cluster_id.as_ref())?;
        let image = self.feed.image();
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let membership = metrics.membership_config.membership();
        let voter = |id: NodeId| v1::Voter {
            id: id.controller,
            directory_id: id_to_bytes(id.directory()),
            address: membership.get_node(&id).map(|member| member.address.clone()).unwrap_or_default(),
        };
        Ok(Response::new(v1::StatusReply {
            format_version: RPC_VERSION,
            cluster_id: image.cluster_id().map(id_to_bytes),
            controller_id: self.node.controller,
            directory_id: id_to_bytes(self.node.directory()),
            active: active(&metrics).map(address),
            term: metrics.current_term,
            last_log_index: metrics.last_log_index.unwrap_or_default(),
            applied_log_index: metrics.last_applied.map(|log_id| log_id.index).unwrap_or_default(),
            metadata_offset: image.offset(),
            voters: membership.voter_ids().map(voter).collect(),
        }))
    }

    async fn describe_quorum(
        &self,
        request: Request<v1::DescribeQuorumRequest>,
    ) -> Result<Response<v1::DescribeQuorumReply>, Status> {
        let mut request = request.into_inner();
        checked(request.format_version)?;
        let Some(refused) = self.other_active() else {
            return Ok(Response::new(describe(&self.raft.metrics().borrow(), &self.members)));
        };
        if !request.forwarded
            && let Some(mut client) = self.forwarder(&refused)
        {
            request.forwarded = true;
            if let Ok(reply) = client.describe_quorum(request).await {
                return Ok(reply);
            }
        }
        Ok(Response::new(v1::DescribeQuorumReply {
            format_version: RPC_VERSION,
            refusal: Some(refusal_to_message(&refused.error)),
            active: refused.active.map(address),
            ..v1::DescribeQuorumReply::default()
        }))
    }

    async fn change_voters(
        &self,
        request: Request<v1::ChangeVotersRequest>,
    ) -> Result<Response<v1::ChangeVotersReply>, Status> {
        let mut request = request.into_inner();
        checked(request.format_version)?;
        let refused = match self.other_active() {
            Some(refused) => refused,
            None => match change_voters(&self.members, &request).await {
                Ok(()) => {
                    let reply = v1::ChangeVotersReply { format_version: RPC_VERSION, refusal: None, active: None };
                    return Ok(Response::new(reply));
                }
                Err(MemberError::NotActive { active }) => not_active(active),
                Err(error) => ControlError::new(error.code(), error.to_string()).into(),
            },
        };
        if !request.forwarded
            && let Some(mut client) = self.forwarder(&refused)
        {
            request.forwarded = true;
            if let Ok(reply) = client.change_voters(request).await {
                return Ok(reply);
            }
        }
        Ok(Response::new(v1::ChangeVotersReply {
            format_version: RPC_VERSION,
            refusal: Some(refusal_to_message(&refused.error)),
            active: refused.active.map(address),
        }))
    }
}

/// Sends everything from `next` on to one follower, until it goes.
async fn feed_follower(feed: &Feed, mut next: i64, sender: &mpsc::Sender<Update>) {
    use v1::metadata_update::Update as Part;
    let mut applied = feed.subscribe();
    loop {
        // Marked as seen before it is asked for, so that nothing falls between.
        applied.borrow_and_update();
        let parts: Vec<Part> = match feed.next(next, BATCHES_MAX) {
            Step::Batches(batches) => {
                next = batches.last().map_or(next, |batch| batch.next_offset());
                batches.iter().map(|batch| Part::Events(batch.to_message())).collect()
            }
            Step::Snapshot(image) => {
                next = image.offset() + 1;
                if send_snapshot(&image, sender).await.is_err() {
                    return;
                }
                continue;
            }
            Step::Wait => {
                if applied.changed().await.is_err() {
                    return;
                }
                continue;
            }
        };
        for part in parts {
            if send_part(part, sender).await.is_err() {
                return;
            }
        }
    }
}

/// The follower has gone.
struct Gone;

async fn send_part(part: v1::metadata_update::Update, sender: &mpsc::Sender<Update>) -> Result<(), Gone> {
    let update = v1::MetadataUpdate { format_version: RPC_VERSION, update: Some(part) };
    sender.send(Ok(update)).await.map_err(|_| Gone)
}

/// Chunk by chunk, so that only a few are in memory at a time.
async fn send_snapshot(image: &MetadataImage, sender: &mpsc::Sender<Update>) -> Result<(), Gone> {
    use v1::metadata_update::Update as Part;
    let (header, chunks) = snapshot_messages(image);
    send_part(Part::Snapshot(header), sender).await?;
    for chunk in chunks {
        send_part(Part::SnapshotChunk(chunk), sender).await?;
    }
    Ok(())
}
